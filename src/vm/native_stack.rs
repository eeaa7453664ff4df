//! The calling thread's native stack, as its system tells.

/// The lowest address of it.
pub(crate) fn low() -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: attributes are read only when they were filled, and destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut size) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (known && !low.is_null()).then(|| low.addr())
    }
}
