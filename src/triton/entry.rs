//! The functions that the server calls. Each turns errors and panics into the server's errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

use crate::ffi::{Backend, ErrorPtr, Instance, Model, Request};
use crate::instance::InstanceState;
use crate::model::ModelState;
use crate::server::{
    self, Code, Failure, InstanceHandle, ModelHandle, Outcome, RequestHandle, log,
};

/// The major version of the interface that `ffi` declares, and the minor one that it needs.
const API: (u32, u32) = (1, 17);

/// Runs the body of an entry, with what failed as the server's error.
fn guarded(name: &str, body: impl FnOnce() -> Outcome<()>) -> ErrorPtr {
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Failure::internal(format!("{name} panicked"))));
    outcome.err().map_or(null_mut(), |failure| failure.to_server())
}

/// Starts the backend.
#[unsafe(no_mangle)]
pub extern "C" fn TRITONBACKEND_Initialize(_backend: *mut Backend) -> ErrorPtr {
    guarded("TRITONBACKEND_Initialize", || {
        let (major, minor) = server::api_version()?;
        if major != API.0 || minor < API.1 {
            let text = format!(
                "the server has version {major}.{minor} of the backend interface; this backend needs \
                 {}.{} or a later {}",
                API.0, API.1, API.0
            );
            return Err(Failure::new(Code::Unsupported, text));
        }
        Ok(())
    })
}

/// Loads a model.
///
/// # Safety
/// The server's: the model is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInitialize(model: *mut Model) -> ErrorPtr {
    guarded("TRITONBACKEND_ModelInitialize", || {
        // SAFETY: the server keeps the model through the call.
        let handle = unsafe { ModelHandle::new(model) };
        let state = ModelState::open(handle)?;
        let state = Box::into_raw(Box::new(state));
        handle.set_state(state.cast()).inspect_err(|_| {
            // SAFETY: it was boxed above, and the server did not take it.
            drop(unsafe { Box::from_raw(state) });
        })?;
        log(0, &format!("loaded {} {}", handle.name()?, handle.version()?));
        Ok(())
    })
}

/// Unloads a model.
///
/// # Safety
/// The server's: the model is valid and has no instances any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelFinalize(model: *mut Model) -> ErrorPtr {
    guarded("TRITONBACKEND_ModelFinalize", || {
        // SAFETY: the server keeps the model through the call.
        let handle = unsafe { ModelHandle::new(model) };
        if let Some(state) = NonNull::new(handle.state()?.cast::<ModelState>()) {
            handle.set_state(null_mut())?;
            // SAFETY: `TRITONBACKEND_ModelInitialize` boxed it, and it is forgotten now.
            drop(unsafe { Box::from_raw(state.as_ptr()) });
        }
        Ok(())
    })
}

/// Opens an instance of a model.
///
/// # Safety
/// The server's: the instance is valid and its model loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceInitialize(
    instance: *mut Instance,
) -> ErrorPtr {
    guarded("TRITONBACKEND_ModelInstanceInitialize", || {
        // SAFETY: the server keeps the instance through the call.
        let handle = unsafe { InstanceHandle::new(instance) };
        let model = NonNull::new(handle.model()?.state()?.cast::<ModelState>());
        let model = model.ok_or_else(|| Failure::internal("the model is not loaded"))?;
        // SAFETY: `TRITONBACKEND_ModelInitialize` boxed it; a model is unloaded after its instances,
        // and only shared references are made of it.
        let state = InstanceState::open(handle, unsafe { model.as_ref() })?;
        let state = Box::into_raw(Box::new(state));
        handle.set_state(state.cast()).inspect_err(|_| {
            // SAFETY: it was boxed above, and the server did not take it.
            drop(unsafe { Box::from_raw(state) });
        })
    })
}

/// Closes an instance.
///
/// # Safety
/// The server's: the instance is valid and runs nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceFinalize(instance: *mut Instance) -> ErrorPtr {
    guarded("TRITONBACKEND_ModelInstanceFinalize", || {
        // SAFETY: the server keeps the instance through the call.
        let handle = unsafe { InstanceHandle::new(instance) };
        if let Some(state) = NonNull::new(handle.state()?.cast::<InstanceState>()) {
            handle.set_state(null_mut())?;
            // SAFETY: `TRITONBACKEND_ModelInstanceInitialize` boxed it, and it is forgotten now.
            drop(unsafe { Box::from_raw(state.as_ptr()) });
        }
        Ok(())
    })
}

/// Runs requests, which are the backend's to release if no error is returned.
///
/// # Safety
/// The server's: the instance is valid and runs nothing else; there are `count` valid requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceExecute(
    instance: *mut Instance,
    requests: *mut *mut Request,
    count: u32,
) -> ErrorPtr {
    guarded("TRITONBACKEND_ModelInstanceExecute", || {
        // SAFETY: the server keeps the instance through the call.
        let handle = unsafe { InstanceHandle::new(instance) };
        let state = NonNull::new(handle.state()?.cast::<InstanceState>());
        let mut state = state.ok_or_else(|| Failure::internal("the instance is not open"))?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the server describes `count` requests.
        let requests = unsafe { std::slice::from_raw_parts(requests, count as usize) };
        let requests = requests.iter().filter_map(|request| NonNull::new(*request));
        // SAFETY: they are valid, and this call's to release.
        let requests = requests.map(|request| unsafe { RequestHandle::new(request) }).collect();
        // SAFETY: `TRITONBACKEND_ModelInstanceInitialize` boxed it, and the server runs one call of
        // an instance at a time.
        unsafe { state.as_mut() }.execute(handle, requests);
        Ok(())
    })
}
