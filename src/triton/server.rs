//! The server's objects as safe types. Pointers come in through the `unsafe` constructors, which say
//! how long they are valid.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{NonNull, null, null_mut};

use serde_json::Value;

use crate::ffi::{self, *};

/// The kind of an error, as a `TRITONSERVER_Error_Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Internal = 1,
    InvalidArgument = 3,
    Unavailable = 4,
    Unsupported = 5,
    Cancelled = 7,
}

/// An error for the server or a client.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Code::InvalidArgument, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure::new(Code::Internal, message)
    }

    /// The server's error, which the receiver deletes.
    pub(crate) fn to_server(&self) -> ErrorPtr {
        let message = c_string(&self.message);
        // SAFETY: the server copies the message, which ends in a zero byte.
        unsafe { TRITONSERVER_ErrorNew(self.code as u32, message.as_ptr()) }
    }
}

impl From<reflex::Error> for Failure {
    fn from(error: reflex::Error) -> Failure {
        use reflex::ErrorKind::*;
        let code = match error.kind() {
            Input | Model => Code::InvalidArgument,
            Unsupported => Code::Unsupported,
            Cancelled => Code::Cancelled,
            DeadlineExceeded => Code::Unavailable,
            _ => Code::Internal,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<reflex::RaisedError> for Failure {
    fn from(error: reflex::RaisedError) -> Failure {
        Failure::internal(error.to_string())
    }
}

/// Text as C wants it, without the zero bytes that it cannot have.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Takes over what a function of the server returned.
fn check(error: ErrorPtr) -> Outcome<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the server returned an error, which is the caller's, with a message that lives as long.
    let (code, message) =
        unsafe { (TRITONSERVER_ErrorCode(error), text(TRITONSERVER_ErrorMessage(error))) };
    // SAFETY: the error is the caller's to delete, and nothing of it is used below.
    unsafe { TRITONSERVER_ErrorDelete(error) };
    let code = match code {
        3 => Code::InvalidArgument,
        4 => Code::Unavailable,
        5 => Code::Unsupported,
        7 => Code::Cancelled,
        _ => Code::Internal,
    };
    Err(Failure::new(code, message))
}

/// Returns a copy of C's text.
///
/// # Safety
/// `text` is null or ends in a zero byte.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller vouches for it, and the text is copied at once.
    unsafe { borrowed(text) }.into_owned()
}

/// Returns C's text where it is, if it is UTF-8.
///
/// # Safety
/// `text` is null or ends in a zero byte, and does not change for `'a`.
unsafe fn borrowed<'a>(text: *const c_char) -> Cow<'a, str> {
    if text.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// Calls a getter of the server with a place for its result.
fn get<T>(initial: T, getter: impl FnOnce(*mut T) -> ErrorPtr) -> Outcome<T> {
    let mut value = initial;
    check(getter(&mut value))?;
    Ok(value)
}

/// Writes a line into the server's log: 0 information, 1 warning, 2 error.
pub(crate) fn log(level: u32, message: &str) {
    let message = c_string(message);
    // SAFETY: both texts end in a zero byte and are copied.
    let error = unsafe { TRITONSERVER_LogMessage(level, c"reflex".as_ptr(), 0, message.as_ptr()) };
    // A log that cannot be written can be reported nowhere.
    let _ = check(error);
}

/// Returns the version of the server's interface.
pub(crate) fn api_version() -> Outcome<(u32, u32)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both places are valid.
    check(unsafe { TRITONBACKEND_ApiVersion(&mut major, &mut minor) })?;
    Ok((major, minor))
}

/// Reads a message that someone keeps.
fn json(message: *mut Message) -> Outcome<Value> {
    let (mut base, mut size) = (null(), 0);
    // SAFETY: the message is valid, and so are the places.
    check(unsafe { TRITONSERVER_MessageSerializeToJson(message, &mut base, &mut size) })?;
    // SAFETY: the server describes the bytes of the message, which lives on.
    let bytes = unsafe { slice(base.cast(), size) };
    serde_json::from_slice(bytes).map_err(|e| Failure::internal(format!("the server's JSON: {e}")))
}

/// A slice of what C describes as pointer and size; the pointer may be null when the size is 0.
///
/// # Safety
/// The bytes are readable and do not change for `'a`.
unsafe fn slice<'a>(base: *const u8, size: usize) -> &'a [u8] {
    match base.is_null() || size == 0 {
        true => &[],
        // SAFETY: the caller vouches for it.
        false => unsafe { std::slice::from_raw_parts(base, size) },
    }
}

/// A model of the server, during one of its calls.
#[derive(Clone, Copy)]
pub(crate) struct ModelHandle(*mut Model);

impl ModelHandle {
    /// # Safety
    /// The model is valid as long as the handle is used.
    pub(crate) unsafe fn new(model: *mut Model) -> ModelHandle {
        ModelHandle(model)
    }

    pub(crate) fn name(self) -> Outcome<String> {
        // SAFETY: the model is valid (`new`), and its name lives as long.
        let name = get(null(), |out| unsafe { TRITONBACKEND_ModelName(self.0, out) })?;
        // SAFETY: as above.
        Ok(unsafe { text(name) })
    }

    pub(crate) fn version(self) -> Outcome<u64> {
        // SAFETY: the model is valid (`new`).
        get(0, |out| unsafe { TRITONBACKEND_ModelVersion(self.0, out) })
    }

    /// Returns the folder of the model, which has one for each version.
    pub(crate) fn folder(self) -> Outcome<String> {
        let (mut kind, mut location) = (0, null());
        // SAFETY: the model is valid (`new`), and so are the places.
        check(unsafe { TRITONBACKEND_ModelRepository(self.0, &mut kind, &mut location) })?;
        if kind != ffi::ARTIFACT_FILESYSTEM {
            return Err(Failure::new(Code::Unsupported, "the model is in no folder"));
        }
        // SAFETY: the location lives as long as the model.
        Ok(unsafe { text(location) })
    }

    pub(crate) fn config(self) -> Outcome<Value> {
        // SAFETY: the model is valid (`new`).
        let message = get(null_mut(), |out| unsafe { TRITONBACKEND_ModelConfig(self.0, 1, out) })?;
        let config = json(message);
        // SAFETY: the message is the caller's, and `json` copied it.
        check(unsafe { TRITONSERVER_MessageDelete(message) })?;
        config
    }

    pub(crate) fn wants_completion(self) -> Outcome<bool> {
        // SAFETY: the model is valid (`new`).
        get(false, |out| unsafe { TRITONBACKEND_ModelAutoCompleteConfig(self.0, out) })
    }

    pub(crate) fn set_config(self, config: &Value) -> Outcome<()> {
        let bytes = config.to_string();
        // SAFETY: the server copies these bytes.
        let message = get(null_mut(), |out| unsafe {
            TRITONSERVER_MessageNewFromSerializedJson(out, bytes.as_ptr().cast(), bytes.len())
        })?;
        // SAFETY: the model is valid (`new`), and the message is this function's.
        let set = check(unsafe { TRITONBACKEND_ModelSetConfig(self.0, 1, message) });
        // SAFETY: the message is this function's, and the server has read it.
        check(unsafe { TRITONSERVER_MessageDelete(message) })?;
        set
    }

    /// Returns the options of the server's command line for this backend.
    pub(crate) fn backend_config(self) -> Outcome<Value> {
        // SAFETY: the model is valid (`new`), and so is its backend.
        let backend = get(null_mut(), |out| unsafe { TRITONBACKEND_ModelBackend(self.0, out) })?;
        // SAFETY: as above; the message stays the backend's.
        json(get(null_mut(), |out| unsafe { TRITONBACKEND_BackendConfig(backend, out) })?)
    }

    pub(crate) fn state(self) -> Outcome<*mut c_void> {
        // SAFETY: the model is valid (`new`).
        get(null_mut(), |out| unsafe { TRITONBACKEND_ModelState(self.0, out) })
    }

    pub(crate) fn set_state(self, state: *mut c_void) -> Outcome<()> {
        // SAFETY: the model is valid (`new`); the server only keeps the pointer.
        check(unsafe { TRITONBACKEND_ModelSetState(self.0, state) })
    }
}

/// An instance of a model, during one of the server's calls.
#[derive(Clone, Copy)]
pub(crate) struct InstanceHandle(*mut Instance);

/// Times of a batch by the server's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) start: u64,
    pub(crate) compute_start: u64,
    pub(crate) compute_end: u64,
    pub(crate) end: u64,
}

impl InstanceHandle {
    /// # Safety
    /// The instance is valid as long as the handle is used.
    pub(crate) unsafe fn new(instance: *mut Instance) -> InstanceHandle {
        InstanceHandle(instance)
    }

    pub(crate) fn model(self) -> Outcome<ModelHandle> {
        // SAFETY: the instance is valid (`new`), and its model lives longer.
        get(null_mut(), |out| unsafe { TRITONBACKEND_ModelInstanceModel(self.0, out) })
            .map(ModelHandle)
    }

    /// Returns the device that the instance computes on, by Reflex's name.
    pub(crate) fn device(self) -> Outcome<String> {
        // SAFETY: the instance is valid (`new`).
        let kind = get(0, |out| unsafe { TRITONBACKEND_ModelInstanceKind(self.0, out) })?;
        if kind != ffi::KIND_GPU {
            return Ok("cpu".to_owned());
        }
        // SAFETY: the instance is valid (`new`).
        let id = get(0, |out| unsafe { TRITONBACKEND_ModelInstanceDeviceId(self.0, out) })?;
        Ok(format!("cuda:{id}"))
    }

    pub(crate) fn state(self) -> Outcome<*mut c_void> {
        // SAFETY: the instance is valid (`new`).
        get(null_mut(), |out| unsafe { TRITONBACKEND_ModelInstanceState(self.0, out) })
    }

    pub(crate) fn set_state(self, state: *mut c_void) -> Outcome<()> {
        // SAFETY: the instance is valid (`new`); the server only keeps the pointer.
        check(unsafe { TRITONBACKEND_ModelInstanceSetState(self.0, state) })
    }

    pub(crate) fn report(
        self,
        request: &RequestHandle,
        success: bool,
        times: Times,
    ) -> Outcome<()> {
        let Times { start, compute_start, compute_end, end } = times;
        let (instance, request) = (self.0, request.0.as_ptr());
        // SAFETY: instance and request are valid (`new` of both).
        check(unsafe {
            TRITONBACKEND_ModelInstanceReportStatistics(
                instance,
                request,
                success,
                start,
                compute_start,
                compute_end,
                end,
            )
        })
    }

    pub(crate) fn report_batch(self, rows: u64, times: Times) -> Outcome<()> {
        let Times { start, compute_start, compute_end, end } = times;
        // SAFETY: the instance is valid (`new`).
        check(unsafe {
            TRITONBACKEND_ModelInstanceReportBatchStatistics(
                self.0,
                rows,
                start,
                compute_start,
                compute_end,
                end,
            )
        })
    }
}

/// A request that this backend has to answer and release.
pub(crate) struct RequestHandle(NonNull<Request>);

// SAFETY: a request is used by one thread at a time, but for `is_cancelled`, which reads one atomic
// flag of it.
unsafe impl Send for RequestHandle {}
// SAFETY: as above: the server's getters do not change a request.
unsafe impl Sync for RequestHandle {}

/// An input of a request.
pub(crate) struct InputTensor<'r> {
    pub(crate) name: Cow<'r, str>,
    /// The server's number of the element type.
    pub(crate) datatype: u32,
    pub(crate) shape: &'r [i64],
    /// The elements, in pieces.
    pub(crate) parts: Vec<&'r [u8]>,
}

impl RequestHandle {
    /// # Safety
    /// The request is valid, and the caller's, until the handle is released.
    pub(crate) unsafe fn new(request: NonNull<Request>) -> RequestHandle {
        RequestHandle(request)
    }

    /// Returns another handle of the request.
    ///
    /// # Safety
    /// It is gone before the request is released.
    pub(crate) unsafe fn duplicate(&self) -> RequestHandle {
        RequestHandle(self.0)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        let request = self.0.as_ptr();
        // SAFETY: the request is valid (`new`).
        let cancelled = get(false, |out| unsafe { TRITONBACKEND_RequestIsCancelled(request, out) });
        cancelled.unwrap_or(false)
    }

    /// Returns the client's timeout in microseconds; 0 for none.
    pub(crate) fn timeout_us(&self) -> u64 {
        let request = self.0.as_ptr();
        // SAFETY: the request is valid (`new`).
        let timeout = get(0, |out| unsafe {
            TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, out)
        });
        timeout.unwrap_or(0)
    }

    pub(crate) fn inputs(&self) -> Outcome<Vec<InputTensor<'_>>> {
        // SAFETY: the request is valid (`new`).
        let count = get(0, |out| unsafe { TRITONBACKEND_RequestInputCount(self.0.as_ptr(), out) })?;
        (0..count).map(|index| self.input(index)).collect()
    }

    fn input(&self, index: u32) -> Outcome<InputTensor<'_>> {
        // SAFETY: the request is valid (`new`); its inputs live as long.
        let input = get(null_mut(), |out| unsafe {
            TRITONBACKEND_RequestInputByIndex(self.0.as_ptr(), index, out)
        })?;
        let (mut name, mut datatype, mut shape) = (null(), 0, null());
        let (mut rank, mut bytes, mut buffers) = (0, 0, 0);
        // SAFETY: the input is valid, and so are the places.
        check(unsafe {
            TRITONBACKEND_InputProperties(
                input,
                &mut name,
                &mut datatype,
                &mut shape,
                &mut rank,
                &mut bytes,
                &mut buffers,
            )
        })?;
        // SAFETY: the server describes a name that lives as long as the request.
        let name = unsafe { borrowed(name) };
        let shape: &[i64] = match rank {
            0 => &[],
            // SAFETY: `shape` has `rank` sizes, which live as long as the request.
            _ => unsafe { std::slice::from_raw_parts(shape, rank as usize) },
        };
        let part = |index| input_part(input, index, &name);
        let parts = (0..buffers).map(part).collect::<Outcome<_>>()?;
        Ok(InputTensor { name, datatype, shape, parts })
    }

    /// Returns the names of the outputs that the client asked for.
    pub(crate) fn outputs(&self) -> Outcome<Vec<Cow<'_, str>>> {
        let request = self.0.as_ptr();
        // SAFETY: the request is valid (`new`).
        let count = get(0, |out| unsafe { TRITONBACKEND_RequestOutputCount(request, out) })?;
        let name = |index| {
            // SAFETY: the request is valid (`new`), and its names live as long.
            let name =
                get(null(), |out| unsafe { TRITONBACKEND_RequestOutputName(request, index, out) })?;
            // SAFETY: as above.
            Ok(unsafe { borrowed(name) })
        };
        (0..count).map(name).collect()
    }

    /// Makes the response, to be sent.
    pub(crate) fn response(&self) -> Outcome<ResponseHandle> {
        let request = self.0.as_ptr();
        // SAFETY: the request is valid (`new`).
        get(null_mut(), |out| unsafe { TRITONBACKEND_ResponseNew(out, request) })
            .map(ResponseHandle)
    }

    /// Writes the state that the next request of the sequence gets.
    pub(crate) fn set_sequence_state(&self, output: &Described<'_>) -> Outcome<()> {
        // SAFETY: the request is valid (`new`), the others are places or live through the call.
        let state = get(null_mut(), |out| unsafe {
            TRITONBACKEND_StateNew(
                out,
                self.0.as_ptr(),
                output.name.as_ptr(),
                output.datatype,
                output.shape.as_ptr(),
                output.shape.len() as u32,
            )
        })?;
        let (mut buffer, mut memory, mut id) = (null_mut(), ffi::MEMORY_CPU, 0);
        let bytes = output.bytes.len() as u64;
        // SAFETY: the state is new, and the places are valid.
        check(unsafe {
            TRITONBACKEND_StateBuffer(state, &mut buffer, bytes, &mut memory, &mut id)
        })?;
        fill(buffer, memory, output)?;
        // SAFETY: the state is valid until the request is released.
        check(unsafe { TRITONBACKEND_StateUpdate(state) })
    }

    /// Gives the request back to the server.
    pub(crate) fn release(self) {
        // SAFETY: the request is this backend's (`new`), and no handle is left.
        let released =
            check(unsafe { TRITONBACKEND_RequestRelease(self.0.as_ptr(), ffi::RELEASE_ALL) });
        if let Err(failure) = released {
            log(2, &format!("a request cannot be released: {}", failure.message));
        }
    }
}

/// Returns buffer `index` of an input, which is in host memory.
fn input_part<'r>(input: *mut Input, index: u32, name: &str) -> Outcome<&'r [u8]> {
    let (mut buffer, mut bytes) = (null(), 0);
    let (mut memory, mut id) = (ffi::MEMORY_CPU, 0);
    // SAFETY: the input is valid, and so are the places.
    check(unsafe {
        TRITONBACKEND_InputBuffer(input, index, &mut buffer, &mut bytes, &mut memory, &mut id)
    })?;
    if memory != ffi::MEMORY_CPU && memory != ffi::MEMORY_PINNED {
        let text = format!("input {name} is in GPU memory; send it from host memory");
        return Err(Failure::new(Code::Unsupported, text));
    }
    // SAFETY: the server describes bytes that live and stay as they are until the request is released.
    Ok(unsafe { slice(buffer.cast(), bytes as usize) })
}

/// A tensor as the server wants it described.
pub(crate) struct Described<'t> {
    pub(crate) name: &'t CStr,
    pub(crate) datatype: u32,
    pub(crate) shape: &'t [i64],
    pub(crate) bytes: &'t [u8],
}

/// A response that is not sent yet.
pub(crate) struct ResponseHandle(*mut Response);

impl ResponseHandle {
    /// Adds an output.
    pub(crate) fn output(&self, output: &Described<'_>) -> Outcome<()> {
        let Described { name, datatype, shape, bytes } = *output;
        let buffer = self.buffer(name, datatype, shape, bytes.len())?;
        fill(buffer.cast(), ffi::MEMORY_CPU, output)
    }

    /// Adds an output and returns the server's buffer for its `bytes`, in host memory; null for none.
    pub(crate) fn buffer(
        &self,
        name: &CStr,
        datatype: u32,
        shape: &[i64],
        bytes: usize,
    ) -> Outcome<*mut u8> {
        let rank = shape.len() as u32;
        // SAFETY: the response is not sent yet; name and shape live through the call.
        let place = get(null_mut(), |out| unsafe {
            let name = name.as_ptr();
            TRITONBACKEND_ResponseOutput(self.0, out, name, datatype, shape.as_ptr(), rank)
        })?;
        let (mut buffer, mut memory, mut id) = (null_mut(), ffi::MEMORY_CPU, 0);
        // SAFETY: the output is the response's, and the places are valid.
        check(unsafe {
            TRITONBACKEND_OutputBuffer(place, &mut buffer, bytes as u64, &mut memory, &mut id)
        })?;
        require_host(memory, name)?;
        Ok(buffer.cast())
    }

    /// Gives up a response that is not sent.
    pub(crate) fn discard(self) {
        // SAFETY: the response is this function's, which ends it.
        if let Err(failure) = check(unsafe { TRITONBACKEND_ResponseDelete(self.0) }) {
            log(2, &format!("a response cannot be given up: {}", failure.message));
        }
    }

    /// Sends the response, or the failure in its place.
    pub(crate) fn send(self, outcome: &Outcome<()>) {
        let error = outcome.as_ref().err().map_or(null_mut(), Failure::to_server);
        // SAFETY: the response is this function's, which the server takes; the error stays.
        let sent = check(unsafe { TRITONBACKEND_ResponseSend(self.0, ffi::FINAL, error) });
        if !error.is_null() {
            // SAFETY: it is this function's, and the server has copied it.
            unsafe { TRITONSERVER_ErrorDelete(error) };
        }
        if let Err(failure) = sent {
            log(2, &format!("a response cannot be sent: {}", failure.message));
        }
    }
}

/// Refuses a buffer that is not in host memory.
fn require_host(memory: u32, output: &CStr) -> Outcome<()> {
    match memory {
        ffi::MEMORY_CPU | ffi::MEMORY_PINNED => Ok(()),
        _ => {
            let name = output.to_string_lossy();
            let text = format!("output {name} is asked for in GPU memory; ask for host memory");
            Err(Failure::new(Code::Unsupported, text))
        }
    }
}

/// Copies a tensor's elements into a buffer that the server made for them.
fn fill(buffer: *mut c_void, memory: u32, output: &Described<'_>) -> Outcome<()> {
    require_host(memory, output.name)?;
    if output.bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: the server made the buffer for as many bytes, in host memory, and for this call alone.
    unsafe {
        buffer.cast::<u8>().copy_from_nonoverlapping(output.bytes.as_ptr(), output.bytes.len())
    };
    Ok(())
}

/// Returns the time of the server's clock in nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
