//! Kernels with both entries; one counts how it is called.
#![allow(dead_code, reason = "not every test asks for the counts")]

use std::cell::Cell;
use std::ffi::c_void;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::AnyView;
use reflex_vm::kernel::{Dim, RawKernel, TensorParam};
use reflex_vm::load::Library;

thread_local! {
    static PACKED: Cell<u64> = const { Cell::new(0) };
    static RAW: Cell<u64> = const { Cell::new(0) };
}

/// Calls by the packed entry and by the raw one since the last time, on this thread.
pub fn calls() -> (u64, u64) {
    (PACKED.replace(0), RAW.replace(0))
}

/// `y[i, j] = x[i, j] + n`, where both are `(n, 3)`; fails on seven rows.
unsafe extern "C" fn raw(x: *const f32, y: *mut f32, n: i64) -> i32 {
    RAW.set(RAW.get() + 1);
    // SAFETY: callers of the raw entry pass pointers to two tensors of `n` rows of three elements.
    unsafe { grow(x, y, n) }
}

unsafe fn grow(x: *const f32, y: *mut f32, n: i64) -> i32 {
    if n == 7 {
        Error::value_error("seven rows").raise();
        return -1;
    }
    for at in 0..3 * n as usize {
        // SAFETY: `at` is below `3 * n`, and callers pass tensors of `n` rows of three elements.
        unsafe { y.add(at).write(x.add(at).read() + n as f32) };
    }
    0
}

unsafe extern "C" fn packed(
    _: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    PACKED.set(PACKED.get() + 1);
    // SAFETY: callers of the packed convention pass `count` borrowed values.
    let args = unsafe { AnyView::slice_from_raw(args, count) };
    let tensors: Option<Vec<&Tensor>> = args.iter().map(|arg| arg.downcast_ref()).collect();
    match tensors.as_deref() {
        Some(&[x, y])
            if [x, y].iter().all(|it| it.dtype() == DType::F32 && it.is_compact())
                && x.shape() == y.shape()
                && matches!(x.shape(), [_, 3]) =>
        {
            // SAFETY: the guard of this arm checked the type and shape of both tensors.
            unsafe { grow(x.data_ptr().cast(), y.data_ptr().cast(), x.shape()[0]) }
        }
        _ => {
            Error::type_error("grow takes two tensors of (n, 3) floats").raise();
            -1
        }
    }
}

/// `n += 1`, `more = n % 12 != 0`, of tensors without dimensions.
unsafe extern "C" fn raw_tick(n: *mut i64, more: *mut bool) -> i32 {
    // SAFETY: the kernel's parameters are two tensors of one element.
    unsafe {
        *n += 1;
        *more = *n % 12 != 0;
    }
    0
}

unsafe extern "C" fn packed_tick(
    _: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: callers of the packed convention pass `count` borrowed values.
    let args = unsafe { AnyView::slice_from_raw(args, count) };
    let tensors: Option<Vec<&Tensor>> = args.iter().map(|arg| arg.downcast_ref()).collect();
    match tensors.as_deref() {
        Some(&[n, more])
            if n.dtype() == DType::I64
                && more.dtype() == DType::BOOL
                && n.shape().is_empty()
                && more.shape().is_empty() =>
        {
            // SAFETY: the guard of this arm checked the type and rank of both tensors.
            unsafe { raw_tick(n.data_ptr().cast(), more.data_ptr().cast()) }
        }
        _ => {
            Error::type_error("tick takes a number and a flag").raise();
            -1
        }
    }
}

/// A library with the kernels `grow` and `tick`, and whatever else there is.
pub struct WithKernel<L>(pub L);

impl<L: Library> Library for WithKernel<L> {
    fn function(&self, name: &str) -> Option<Function> {
        match name {
            // SAFETY: it keeps to the packed convention and owns nothing.
            "grow" => Some(unsafe { Function::from_native(packed, ()) }),
            // SAFETY: as for `grow`, it keeps to the packed convention and owns nothing.
            "tick" => Some(unsafe { Function::from_native(packed_tick, ()) }),
            _ => self.0.function(name),
        }
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        let (code, params) = match name {
            "grow" => {
                let extents = vec![Dim::Symbolic(0), Dim::Static(3)];
                (raw as *const u8, vec![TensorParam { dtype: DType::F32, shape: extents }; 2])
            }
            "tick" => {
                let of = |dtype| TensorParam { dtype, shape: Vec::new() };
                (raw_tick as *const u8, vec![of(DType::I64), of(DType::BOOL)])
            }
            _ => return None,
        };
        // SAFETY: they take pointers, `grow` also one dimension, and do what the packed entries do.
        unsafe { RawKernel::new(code, params) }
    }
}
