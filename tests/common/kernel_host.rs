//! The functions that a compiled kernel calls of its host, and calls of its packed entry as the evaluator is called: shared by the
//! tests of code generators.
#![allow(dead_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use reflex_runtime::abi::{
    DLDevice, DLTensor, ParallelLambda, SafeCall, TVMFFIAny, TVMParallelGroupEnv, type_index,
};
use reflex_runtime::error::Error;
use reflex_tir::eval::{EvalArg, Scalar};

thread_local! {
    /// The error that the kernel of this thread set.
    pub static ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
    static TASKS: Cell<i32> = const { Cell::new(3) };
}
static WORKSPACES: Mutex<Option<HashMap<usize, Layout>>> = Mutex::new(None);

/// Sets how many tasks a parallel loop of this thread becomes.
pub fn set_tasks(n: i32) {
    TASKS.set(n);
}

/// `TVMBackendParallelLaunch`.
pub unsafe extern "C" fn launch(f: ParallelLambda, data: *mut c_void, num_task: c_int) -> c_int {
    let num_task = if num_task == 0 { TASKS.get() } else { num_task };
    let mut env = TVMParallelGroupEnv { sync_handle: std::ptr::null_mut(), num_task };
    // Backwards, so that nothing relies on order.
    for task in (0..num_task).rev() {
        // SAFETY: the lambda and its data come from the kernel that calls.
        let status = unsafe { f(task, &raw mut env, data) };
        if status != 0 {
            return status;
        }
    }
    0
}

/// `TVMBackendAllocWorkspace`.
pub unsafe extern "C" fn alloc_workspace(
    _: c_int,
    _: c_int,
    bytes: u64,
    _: c_int,
    _: c_int,
) -> *mut c_void {
    let Ok(layout) = Layout::from_size_align(bytes as usize, 64) else {
        let text = format!("a workspace of {bytes} bytes");
        ERROR.with(|e| *e.borrow_mut() = Some(text));
        return std::ptr::null_mut();
    };
    // SAFETY: the size is at least 1 by the kernel's contract.
    let pointer = unsafe { alloc(layout) };
    WORKSPACES.lock().unwrap().get_or_insert_default().insert(pointer as usize, layout);
    pointer.cast()
}

/// `TVMBackendFreeWorkspace`.
pub unsafe extern "C" fn free_workspace(_: c_int, _: c_int, pointer: *mut c_void) -> c_int {
    let layout = WORKSPACES.lock().unwrap().as_mut().unwrap().remove(&(pointer as usize));
    // SAFETY: the pointer is ours with this layout, or the `unwrap` ends the test.
    unsafe { dealloc(pointer.cast(), layout.unwrap()) };
    0
}

/// Calls a packed entry with these values.
///
/// # Safety
/// The entry is that of a kernel, which checks its arguments.
pub unsafe fn call(entry: SafeCall, args: &[TVMFFIAny]) -> Result<(), String> {
    let mut ret = TVMFFIAny::NONE;
    // SAFETY: `args` lives through the call; the kernel checks what is in it.
    let status =
        unsafe { entry(std::ptr::null_mut(), args.as_ptr(), args.len() as i32, &raw mut ret) };
    match status {
        0 => Ok(()),
        _ => {
            let raised = Error::take_raised().map(|e| format!("{}: {}", e.kind(), e.message()));
            let own = ERROR.with(|e| e.borrow_mut().take());
            Err(own.or(raised).expect("a failure sets an error"))
        }
    }
}

/// Passes the evaluator's arguments as values of the ABI.
pub fn with_values<T>(args: &mut [EvalArg], call: impl FnOnce(&[TVMFFIAny]) -> T) -> T {
    let mut tensors: Vec<DLTensor> = vec![];
    let mut shapes: Vec<Vec<i64>> = vec![];
    for arg in args.iter_mut() {
        if let EvalArg::Tensor(t) = arg {
            shapes.push(t.shape.clone());
            tensors.push(DLTensor {
                data: t.bytes.as_mut_ptr().cast(),
                device: DLDevice::CPU,
                ndim: t.shape.len() as i32,
                dtype: t.dtype,
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            });
        }
    }
    for (tensor, shape) in tensors.iter_mut().zip(&mut shapes) {
        tensor.shape = shape.as_mut_ptr();
    }
    let mut next = tensors.iter_mut();
    let value = |arg: &EvalArg| match arg {
        EvalArg::Tensor(_) => {
            let tensor: *mut DLTensor = next.next().unwrap();
            TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor.cast())
        }
        EvalArg::Scalar(Scalar::Int(x)) => TVMFFIAny::int_like(type_index::INT, *x),
        EvalArg::Scalar(x) => TVMFFIAny::int_like(type_index::FLOAT, x.as_f64().to_bits() as i64),
    };
    let values: Vec<TVMFFIAny> = args.iter().map(value).collect();
    call(&values)
}
