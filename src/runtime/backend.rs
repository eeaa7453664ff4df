//! The C functions that compiled kernels call: parallel loops, scratch memory, and
//! the register lists of TVM's compiled mode.
//!
//! Kernels reach most of these through pointer variables that the loader fills, and
//! the register lists by name; see [`library`](crate::library).

#![expect(non_snake_case, reason = "the names are the C ABI's")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use crate::abi::{DLDevice, ParallelLambda, TVMFFIAny, TVMFFIObject, TVMParallelGroupEnv};
use crate::alloc::workspace;
use crate::device::host_stream;
use crate::error::Error;
use crate::exports::{exports, status};
use crate::function::guard;
use crate::library::Context;
use crate::object::ObjectType;
use crate::threads;
use crate::value::Any;

exports! { "c_backend_api.h":
    /// Runs the tasks of a parallel loop; 0 tasks mean one per thread.
    fn TVMBackendParallelLaunch(body: ParallelLambda, data: *mut c_void, tasks: c_int) -> c_int {
        // SAFETY: generated loop bodies may run in parallel and do not unwind.
        status(|| unsafe { threads::launch(body, data, tasks) })
    }

    /// Refused: tasks need not run at the same time.
    fn TVMBackendParallelBarrier(_task: c_int, _env: *mut TVMParallelGroupEnv) -> c_int {
        status(|| {
            Err(Error::new(
                "NotImplementedError",
                "barriers in parallel loops are not supported; build the library without \
                 `parallel_barrier_when_finish`",
            ))
        })
    }

    /// Scratch memory on the CPU, aligned to 64 bytes; null with an error raised.
    fn TVMBackendAllocWorkspace(
        device_type: c_int,
        device_id: c_int,
        bytes: u64,
        _code_hint: c_int,
        _bits_hint: c_int,
    ) -> *mut c_void {
        match guard(|| allocate_workspace(DLDevice { device_type, device_id }, bytes)) {
            Ok(data) => data.as_ptr().cast(),
            Err(error) => {
                error.raise();
                std::ptr::null_mut()
            }
        }
    }

    /// Releases scratch memory.
    fn TVMBackendFreeWorkspace(_device_type: c_int, _device_id: c_int, data: *mut c_void) -> c_int {
        status(|| {
            if let Some(data) = NonNull::new(data.cast::<u8>()) {
                // SAFETY: generated code frees each workspace that it allocated, once.
                unsafe { workspace::release(data) };
            }
            Ok(())
        })
    }

    /// Puts a borrowed copy of a register among the arguments of a call.
    fn TVMBackendAnyListSetPackedArg(
        registers: *mut c_void,
        index: c_int,
        args: *mut TVMFFIAny,
        at: c_int,
    ) -> c_int {
        // SAFETY: compiled code passes indices inside both lists.
        unsafe { *args.add(at as usize) = *registers.cast::<TVMFFIAny>().add(index as usize) };
        0
    }

    /// Clears a register.
    fn TVMBackendAnyListResetItem(registers: *mut c_void, index: c_int) -> c_int {
        status(|| {
            // SAFETY: compiled code passes an index inside the list.
            unsafe { *registers.cast::<Any>().add(index as usize) = Any::NONE };
            Ok(())
        })
    }

    /// Moves the result of a call into a register.
    fn TVMBackendAnyListMoveFromPackedReturn(
        registers: *mut c_void,
        index: c_int,
        args: *mut TVMFFIAny,
        at: c_int,
    ) -> c_int {
        status(|| {
            // SAFETY: compiled code passes indices inside both lists, and the result is
            // an owned value whose ownership moves to the register.
            unsafe {
                let result = args.add(at as usize).replace(TVMFFIAny::NONE);
                *registers.cast::<Any>().add(index as usize) = Any::from_raw(result);
            }
            Ok(())
        })
    }

    /// Sets the stream that this thread's host works on: what it passes to sessions of a device was made in
    /// the order of this stream, and what it gets is used there. Null is CUDA's legacy default stream.
    fn TVMFFIEnvSetStream(
        device_type: i32,
        device_id: i32,
        stream: *mut c_void,
        original: *mut *mut c_void,
    ) -> c_int {
        status(|| {
            let device = DLDevice { device_type, device_id };
            let before = host_stream::set(device, Some(stream.expose_provenance() as u64));
            if !original.is_null() {
                let before = std::ptr::with_exposed_provenance_mut(before.unwrap_or(0) as usize);
                // SAFETY: the caller passes null or a writable address.
                unsafe { original.write(before) };
            }
            Ok(())
        })
    }

    /// The stream of a device that work of this thread belongs on: in a run of a session that one's,
    /// else the host's, else null.
    fn TVMFFIEnvGetStream(device_type: i32, device_id: i32) -> *mut c_void {
        let device = DLDevice { device_type, device_id };
        let handle = guard(|| host_stream::of_work(device)).unwrap_or(0);
        std::ptr::with_exposed_provenance_mut(handle as usize)
    }

    /// A function of a library's imported modules or a global one, borrowed from the library.
    fn TVMFFIEnvModLookupFromImports(
        context: *mut c_void,
        name: *const c_char,
        out: *mut *mut TVMFFIObject,
    ) -> c_int {
        status(|| {
            // SAFETY: libraries pass the context that `Library::open` gave them, which
            // lives as long as they are loaded, and a string.
            let (context, name) =
                unsafe { (context.cast::<Context>().as_ref(), CStr::from_ptr(name)) };
            let name = name.to_string_lossy();
            let function = context.and_then(|context| context.import(&name)).ok_or_else(|| {
                let message = format!("no imported module or registered function is `{name}`");
                Error::new("AttributeError", message)
            })?;
            // SAFETY: `out` is writable; the context keeps the function.
            unsafe { out.write(function.object().as_ptr()) };
            Ok(())
        })
    }
}

/// The address of a function of this file, by name.
pub(crate) fn address_of(name: &str) -> Option<*mut c_void> {
    table().find(|(known, _)| *known == name).map(|(_, address)| address)
}

fn allocate_workspace(device: DLDevice, bytes: u64) -> Result<NonNull<u8>, Error> {
    if !device.is_cpu() {
        return Err(Error::value_error(format!("no workspace on {device}")));
    }
    workspace::allocate(usize::try_from(bytes).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::device::ALIGNMENT;
    use crate::shape::Shape;
    use crate::value::AnyView;

    #[test]
    fn workspaces_are_aligned_and_reused() {
        // SAFETY: this test frees each workspace once, and writes within its bytes.
        unsafe {
            let first = TVMBackendAllocWorkspace(1, 0, 1000, 2, 32);
            assert!(first.addr().is_multiple_of(ALIGNMENT));
            first.cast::<u8>().write_bytes(1, 1000);
            assert_eq!(TVMBackendFreeWorkspace(1, 0, first), 0);
            let second = TVMBackendAllocWorkspace(1, 0, 980, 2, 32);
            assert_eq!(first, second);
            assert_eq!(TVMBackendFreeWorkspace(1, 0, second), 0);
            assert!(TVMBackendAllocWorkspace(2, 0, 64, 2, 32).is_null());
            assert!(Error::take_raised().is_some());
            assert!(TVMBackendAllocWorkspace(1, 0, u64::MAX, 2, 32).is_null());
            assert_eq!(Error::take_raised().unwrap().kind(), "MemoryError");
        }
    }

    #[test]
    fn register_lists_keep_their_counts() {
        let shape = Shape::new(&[1]);
        let mut registers = [Any::from(shape.clone()), Any::from(1_i64)];
        let mut args = [TVMFFIAny::NONE; 3];
        let list = registers.as_mut_ptr().cast();
        // SAFETY: both lists are locals, and every index is below their lengths.
        unsafe {
            TVMBackendAnyListSetPackedArg(list, 0, args.as_mut_ptr(), 1);
            assert_eq!(args[1].type_index, 69);
            assert_eq!(shape.object().strong_count(), 2);
            args[2] = AnyView::from_raw(args[1]).to_owned().into_raw();
            TVMBackendAnyListMoveFromPackedReturn(list, 1, args.as_mut_ptr(), 2);
            assert_eq!(shape.object().strong_count(), 3);
            TVMBackendAnyListResetItem(list, 0);
            assert_eq!(shape.object().strong_count(), 2);
            assert_eq!(TVMBackendParallelBarrier(0, std::ptr::null_mut()), -1);
            assert_eq!(Error::take_raised().unwrap().kind(), "NotImplementedError");
        }
        assert!(registers[0].is_none());
        drop(registers);
        assert!(shape.object().is_unique());
    }
}
