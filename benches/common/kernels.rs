//! Kernels so small that what the VM adds to them shows. They count their calls, so that none can
//! be optimised away.

use std::sync::atomic::{AtomicU64, Ordering};

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::dtype::DType;
use reflex_runtime::function::Function;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::kernel::{Dim, RawKernel, TensorParam};
use reflex_vm::load::Library;

/// Calls of kernels so far.
pub static CALLS: AtomicU64 = AtomicU64::new(0);

/// The data of argument `at`.
///
/// # Safety
/// `args` are `count` values, number `at` a tensor of `T`.
unsafe fn data<T>(args: *const TVMFFIAny, count: i32, at: usize) -> *mut T {
    // SAFETY: the caller passes `count` values at `args`, see `# Safety`.
    let args = unsafe { AnyView::slice_from_raw(args, count) };
    args[at].as_dltensor().expect("a tensor").data.cast()
}

/// One more call.
fn counted() {
    // One thread runs at a time; a locked addition would cost as much as what is measured.
    CALLS.store(CALLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// `y[0] = x[0] + 1` on floats.
unsafe extern "C" fn add1_raw(x: *const f32, y: *mut f32) -> i32 {
    counted();
    // SAFETY: the kernel's parameters are two tensors of one float.
    unsafe { *y = *x + 1.0 };
    0
}

/// `i[0] -= 1; c = i[0] > 0`.
unsafe extern "C" fn dec_raw(i: *mut i64, c: *mut u8) -> i32 {
    counted();
    // SAFETY: the kernel's parameters are a tensor of one integer and one of one boolean.
    unsafe {
        *i -= 1;
        *c = u8::from(*i > 0);
    }
    0
}

/// `i[0] = n[0]`.
unsafe extern "C" fn set_n_raw(n: *const i64, i: *mut i64) -> i32 {
    counted();
    // SAFETY: the kernel's parameters are two tensors of one integer.
    unsafe { *i = *n };
    0
}

/// The packed entry of `add1_raw`.
unsafe extern "C" fn add1(
    _: *mut std::ffi::c_void,
    args: *const TVMFFIAny,
    count: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs below pass two tensors of one float.
    unsafe { add1_raw(data(args, count, 0), data(args, count, 1)) }
}

/// The packed entry of `dec_raw`.
unsafe extern "C" fn dec(
    _: *mut std::ffi::c_void,
    args: *const TVMFFIAny,
    count: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs below pass a tensor of one integer and one of one boolean.
    unsafe { dec_raw(data(args, count, 0), data(args, count, 1)) }
}

/// The packed entry of `set_n_raw`.
unsafe extern "C" fn set_n(
    _: *mut std::ffi::c_void,
    args: *const TVMFFIAny,
    count: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs below pass two tensors of one integer.
    unsafe { set_n_raw(data(args, count, 0), data(args, count, 1)) }
}

/// Answers a call with what `answer` makes of its number.
///
/// # Safety
/// `args` are `count` arguments, the first an integer, and `result` a slot that holds nothing.
unsafe fn of_number(
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
    answer: impl FnOnce(i64) -> Any,
) -> i32 {
    // SAFETY: the caller passes `count` values, the first an integer, and an empty slot.
    unsafe {
        let n = AnyView::slice_from_raw(args, count)[0].as_int().expect("a number");
        result.write(answer(n).into_raw());
    }
    0
}

/// Returns true if a number is positive.
unsafe extern "C" fn positive(
    _: *mut std::ffi::c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs below pass an integer, and the caller a slot that holds nothing.
    unsafe { of_number(args, count, result, |n| Any::from(n > 0)) }
}

/// A number less one.
unsafe extern "C" fn less_one(
    _: *mut std::ffi::c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs below pass an integer, and the caller a slot that holds nothing.
    unsafe { of_number(args, count, result, |n| Any::from(n - 1)) }
}

/// Finds the kernels.
pub struct Kernels;

impl Library for Kernels {
    fn function(&self, name: &str) -> Option<Function> {
        let call = match name {
            "add1" => add1,
            "dec" => dec,
            "set_n" => set_n,
            "positive" => positive,
            "less_one" => less_one,
            _ => return None,
        };
        // SAFETY: the kernels follow the packed calling convention and own nothing.
        Some(unsafe { Function::from_native(call, ()) })
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        let one = |dtype| TensorParam { dtype, shape: vec![Dim::Static(1)] };
        let flag = TensorParam { dtype: DType::BOOL, shape: vec![] };
        let (code, params) = match name {
            "add1" => (add1_raw as *const u8, vec![one(DType::F32), one(DType::F32)]),
            "dec" => (dec_raw as *const u8, vec![one(DType::I64), flag]),
            "set_n" => (set_n_raw as *const u8, vec![one(DType::I64), one(DType::I64)]),
            _ => return None,
        };
        // SAFETY: each takes the data of these parameters and does what the packed entry does.
        unsafe { RawKernel::new(code, params) }
    }
}

/// Constants of every workload.
pub const CONSTS: &str = r#"
const c[0] = dtype float32
const c[1] = dtype int64
const c[2] = dtype bool
const c[3] = str "ErrorContext(fn=main, loc=param[0]) "
const c[4] = shape [4]
const c[5] = shape [1]
const c[6] = dtype uint8
const c[7] = str "global"
"#;

/// The two checks that a function begins with for a parameter of shape `(1,)`.
pub fn checks(reg: usize, dtype: usize) -> String {
    format!(
        "  call  vm.builtin.check_tensor_info in: %{reg}, i1, c[{dtype}], c[3] dst: %void\n  \
         call  vm.builtin.match_shape in: %{reg}, %void, i1, i0, i1, c[3] dst: %void\n"
    )
}
