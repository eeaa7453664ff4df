//! Functions that traces call, beside the VM's own callbacks.
//!
//! They see values, never the frame, so a trace may call them while registers of its frames are
//! known to it alone.

use std::ffi::{c_int, c_void};

use reflex_runtime::abi::{TVMFFIAny, TVMFFIObject};
use reflex_runtime::dtype::DType;
use reflex_runtime::function::guard;
use reflex_runtime::object;
use reflex_runtime::shape::Shape;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builtins::{Builtin, Context};

/// Reentrancy builtin number `builtin` of the table in the packed convention; `vm` is the value of
/// `%vm`.
///
/// # Safety
/// `args` are `count` borrowed values, `result` is a writable slot that holds None, and `builtin`
/// indexes [`Builtin::ALL`].
pub(crate) unsafe extern "C" fn run_builtin(
    builtin: usize,
    vm: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> c_int {
    // SAFETY: by the contract.
    let args = unsafe { AnyView::slice_from_raw(args, count) };
    match guard(|| (Builtin::ALL[builtin].run())(Context { vm }, args)) {
        Ok(value) => {
            // SAFETY: by the contract.
            unsafe { result.write(value.into_raw()) };
            0
        }
        Err(error) => {
            error.raise();
            -1
        }
    }
}

/// A new arena of `bytes` for the session with the `%vm` value `vm`, in place of the one at `at`,
/// which is given up; null when there is no memory.
///
/// # Safety
/// `at` is the entry of the table of a live session, whose value `vm` is.
pub(crate) unsafe extern "C" fn new_arena(
    at: *mut *mut TVMFFIObject,
    vm: *mut c_void,
    bytes: i64,
) -> *mut TVMFFIObject {
    // SAFETY: the table owns what is in it, or has null there.
    unsafe {
        let old = at.replace(std::ptr::null_mut());
        if !old.is_null() {
            object::decrement(old);
        }
    }
    let shape = Any::from(Shape::new(&[bytes]));
    let args = [Any::opaque(vm), shape, 0_i64.into(), DType::U8.into()];
    let storage = guard(|| (Builtin::AllocStorage.run())(Context { vm }, AnyView::slice(&args)));
    let storage = storage.ok().and_then(|storage| storage.object_ref().cloned());
    storage.map_or(std::ptr::null_mut(), |storage| storage.into_raw().as_ptr())
}

/// Puts an arena into its entry, or gives it up when another is there.
///
/// # Safety
/// `at` is the entry of the table of a live session, and `arena` a storage that the caller owns.
pub(crate) unsafe extern "C" fn put_arena(at: *mut *mut TVMFFIObject, arena: *mut TVMFFIObject) {
    // SAFETY: by the contract.
    unsafe {
        if (*at).is_null() {
            at.write(arena);
        } else {
            object::decrement(arena);
        }
    }
}
