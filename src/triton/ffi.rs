//! The functions that the server exports to backends, of version 1 of its interface
//! (`tritonbackend.h`, `tritonserver.h`), declared by hand.

#![allow(non_snake_case)]

use std::ffi::{c_char, c_void};

/// Objects of the server, behind pointers.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )* };
}

opaque! { ServerError Message Backend Model Instance Request Input Response Output State }

/// An error, or null for success; the receiver deletes it.
pub(crate) type ErrorPtr = *mut ServerError;

/// Host memory, as a `TRITONSERVER_MemoryType`; 1 is pinned host memory.
pub(crate) const MEMORY_CPU: u32 = 0;
pub(crate) const MEMORY_PINNED: u32 = 1;

/// An instance on a GPU, as a `TRITONSERVER_InstanceGroupKind`.
pub(crate) const KIND_GPU: u32 = 2;

/// Releases a request as a whole (`TRITONSERVER_REQUEST_RELEASE_ALL`).
pub(crate) const RELEASE_ALL: u32 = 1;

/// The last response of a request (`TRITONSERVER_RESPONSE_COMPLETE_FINAL`).
pub(crate) const FINAL: u32 = 1;

/// A model in a folder (`TRITONBACKEND_ARTIFACT_FILESYSTEM`).
pub(crate) const ARTIFACT_FILESYSTEM: u32 = 0;

unsafe extern "C" {
    pub(crate) fn TRITONSERVER_ErrorNew(code: u32, message: *const c_char) -> ErrorPtr;
    pub(crate) fn TRITONSERVER_ErrorDelete(error: ErrorPtr);
    pub(crate) fn TRITONSERVER_ErrorCode(error: ErrorPtr) -> u32;
    pub(crate) fn TRITONSERVER_ErrorMessage(error: ErrorPtr) -> *const c_char;
    pub(crate) fn TRITONSERVER_LogMessage(
        level: u32,
        file: *const c_char,
        line: i32,
        message: *const c_char,
    ) -> ErrorPtr;
    pub(crate) fn TRITONSERVER_MessageNewFromSerializedJson(
        message: *mut *mut Message,
        base: *const c_char,
        size: usize,
    ) -> ErrorPtr;
    pub(crate) fn TRITONSERVER_MessageSerializeToJson(
        message: *mut Message,
        base: *mut *const c_char,
        size: *mut usize,
    ) -> ErrorPtr;
    pub(crate) fn TRITONSERVER_MessageDelete(message: *mut Message) -> ErrorPtr;

    pub(crate) fn TRITONBACKEND_ApiVersion(major: *mut u32, minor: *mut u32) -> ErrorPtr;
    /// The message stays the backend's.
    pub(crate) fn TRITONBACKEND_BackendConfig(
        backend: *mut Backend,
        config: *mut *mut Message,
    ) -> ErrorPtr;

    pub(crate) fn TRITONBACKEND_ModelName(model: *mut Model, name: *mut *const c_char) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelVersion(model: *mut Model, version: *mut u64) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelRepository(
        model: *mut Model,
        kind: *mut u32,
        location: *mut *const c_char,
    ) -> ErrorPtr;
    /// The message becomes the caller's.
    pub(crate) fn TRITONBACKEND_ModelConfig(
        model: *mut Model,
        version: u32,
        config: *mut *mut Message,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelAutoCompleteConfig(
        model: *mut Model,
        complete: *mut bool,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelSetConfig(
        model: *mut Model,
        version: u32,
        config: *mut Message,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelBackend(
        model: *mut Model,
        backend: *mut *mut Backend,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelState(model: *mut Model, state: *mut *mut c_void) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelSetState(model: *mut Model, state: *mut c_void) -> ErrorPtr;

    pub(crate) fn TRITONBACKEND_ModelInstanceModel(
        instance: *mut Instance,
        model: *mut *mut Model,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelInstanceKind(
        instance: *mut Instance,
        kind: *mut u32,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelInstanceDeviceId(
        instance: *mut Instance,
        device: *mut i32,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelInstanceState(
        instance: *mut Instance,
        state: *mut *mut c_void,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelInstanceSetState(
        instance: *mut Instance,
        state: *mut c_void,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelInstanceReportStatistics(
        instance: *mut Instance,
        request: *mut Request,
        success: bool,
        exec_start: u64,
        compute_start: u64,
        compute_end: u64,
        exec_end: u64,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ModelInstanceReportBatchStatistics(
        instance: *mut Instance,
        batch_size: u64,
        exec_start: u64,
        compute_start: u64,
        compute_end: u64,
        exec_end: u64,
    ) -> ErrorPtr;

    pub(crate) fn TRITONBACKEND_RequestInputCount(
        request: *mut Request,
        count: *mut u32,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_RequestInputByIndex(
        request: *mut Request,
        index: u32,
        input: *mut *mut Input,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_RequestOutputCount(
        request: *mut Request,
        count: *mut u32,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_RequestOutputName(
        request: *mut Request,
        index: u32,
        name: *mut *const c_char,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_RequestIsCancelled(
        request: *mut Request,
        cancelled: *mut bool,
    ) -> ErrorPtr;
    /// 0 if the client set no timeout.
    pub(crate) fn TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
        request: *mut Request,
        timeout: *mut u64,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_RequestRelease(request: *mut Request, flags: u32) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_InputProperties(
        input: *mut Input,
        name: *mut *const c_char,
        datatype: *mut u32,
        shape: *mut *const i64,
        rank: *mut u32,
        bytes: *mut u64,
        buffers: *mut u32,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_InputBuffer(
        input: *mut Input,
        index: u32,
        buffer: *mut *const c_void,
        bytes: *mut u64,
        memory: *mut u32,
        memory_id: *mut i64,
    ) -> ErrorPtr;

    pub(crate) fn TRITONBACKEND_ResponseNew(
        response: *mut *mut Response,
        request: *mut Request,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ResponseOutput(
        response: *mut Response,
        output: *mut *mut Output,
        name: *const c_char,
        datatype: u32,
        shape: *const i64,
        rank: u32,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_OutputBuffer(
        output: *mut Output,
        buffer: *mut *mut c_void,
        bytes: u64,
        memory: *mut u32,
        memory_id: *mut i64,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_ResponseDelete(response: *mut Response) -> ErrorPtr;
    /// Takes the response; the error stays the caller's.
    pub(crate) fn TRITONBACKEND_ResponseSend(
        response: *mut Response,
        flags: u32,
        error: ErrorPtr,
    ) -> ErrorPtr;

    pub(crate) fn TRITONBACKEND_StateNew(
        state: *mut *mut State,
        request: *mut Request,
        name: *const c_char,
        datatype: u32,
        shape: *const i64,
        rank: u32,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_StateBuffer(
        state: *mut State,
        buffer: *mut *mut c_void,
        bytes: u64,
        memory: *mut u32,
        memory_id: *mut i64,
    ) -> ErrorPtr;
    pub(crate) fn TRITONBACKEND_StateUpdate(state: *mut State) -> ErrorPtr;
}
