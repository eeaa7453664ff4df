//! Libcalls of traces, in addition to those of the VM.
//!
//! They access values, never frames. A trace may therefore call them while registers of its frames
//! are scalars or virtual objects.

use std::ffi::{c_int, c_void};

use reflex_runtime::abi::{TVMFFIAny, TVMFFIObject};
use reflex_runtime::dtype::DType;
use reflex_runtime::function::guard;
use reflex_runtime::object;
use reflex_runtime::shape::Shape;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builtins::{Builtin, Context};

/// Runs builtin number `builtin` of the table in the packed convention; `vm` is the value of `%vm`.
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
    // SAFETY: the caller passes `count` borrowed values that outlive this call, see `# Safety`.
    let args = unsafe { AnyView::slice_from_raw(args, count) };
    match guard(|| (Builtin::ALL[builtin].run())(Context { vm }, args)) {
        Ok(value) => {
            // SAFETY: the caller passes a writable slot without an owned value, see `# Safety`.
            unsafe { result.write(value.into_raw()) };
            0
        }
        Err(error) => {
            error.raise();
            -1
        }
    }
}

/// Allocates an arena of `bytes` for the session with the `%vm` value `vm`, and releases the one at
/// `at`. Returns null if there is no memory.
///
/// # Safety
/// `at` is the arena slot of a live session, and `vm` is the value of that session.
pub(crate) unsafe extern "C" fn new_arena(
    at: *mut *mut TVMFFIObject,
    vm: *mut c_void,
    bytes: i64,
) -> *mut TVMFFIObject {
    // SAFETY: the caller passes a slot of a live session, which owns the object in it or is null,
    // see `# Safety`.
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

/// Puts an arena back into its slot, or releases it if the slot has another one.
///
/// # Safety
/// `at` is the arena slot of a live session, and `arena` a storage that the caller owns.
pub(crate) unsafe extern "C" fn put_arena(at: *mut *mut TVMFFIObject, arena: *mut TVMFFIObject) {
    // SAFETY: the caller passes a slot of a live session and transfers its reference to `arena`, see
    // `# Safety`.
    unsafe {
        if (*at).is_null() {
            at.write(arena);
        } else {
            object::decrement(arena);
        }
    }
}
