//! Kernels of generated programs: each has a packed entry and a raw one, logs its dimensions,
//! and writes elements computed from those it reads.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;

use reflex_runtime::abi::{DLDevice, DLTensor, TENSOR_DLTENSOR, TVMFFIAny};
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::kernel::{Dim, RawKernel, TensorParam};
use reflex_vm::load::Library;

use crate::host;

thread_local! {
    static RAW: Cell<usize> = const { Cell::new(0) };
}

/// Calls by raw entries since the last time, on this thread, without those that only set elements.
pub fn raw_calls() -> usize {
    RAW.replace(0)
}

/// The library of generated programs: functions by name, and the kernels.
pub struct Host(pub HashMap<String, Function>);

/// The kind of a device that is not here, as DLPack numbers it.
const CUDA: i32 = 2;

const KERNELS: [&str; 5] = ["fuzz.each", "fuzz.rows", "fuzz.set0", "fuzz.set1", "fuzz.set2"];

/// `fuzz.each`: two tensors of `(n, m)`; the second becomes something of the first.
unsafe extern "C" fn each(x: *const u32, y: *mut u32, n: i64, m: i64) -> i32 {
    // SAFETY: the parameters are tensors of so many elements.
    status(unsafe { derive("each", x, n * m, y, n * m, m) })
}

/// `fuzz.rows`: a tensor of `(2, m)` and one of `(m)`, which becomes something of the columns.
unsafe extern "C" fn rows(x: *const u32, y: *mut u32, m: i64) -> i32 {
    // SAFETY: the parameters are tensors of so many elements.
    status(unsafe { derive("rows", x, 2 * m, y, m, 2) })
}

/// `fuzz.set0`: a number, which is set.
unsafe extern "C" fn set0(y: *mut u32) -> i32 {
    // SAFETY: the parameter is a tensor of one element.
    unsafe { set(y, 1) }
}

/// `fuzz.set1`: a vector, whose elements are set.
unsafe extern "C" fn set1(y: *mut u32, n: i64) -> i32 {
    // SAFETY: the parameter is a tensor of so many elements.
    unsafe { set(y, n) }
}

/// `fuzz.set2`: a matrix, whose elements are set.
unsafe extern "C" fn set2(y: *mut u32, n: i64, m: i64) -> i32 {
    // SAFETY: the parameter is a tensor of so many elements.
    unsafe { set(y, n * m) }
}

/// Computes each element of `y` from those of `x` at its position, and at every `count` further on.
///
/// # Safety
/// There are `from` elements at `x` and `count` elements at `y`.
unsafe fn derive(
    name: &str,
    x: *const u32,
    from: i64,
    y: *mut u32,
    count: i64,
    with: i64,
) -> Result<(), Error> {
    for at in 0..count as usize {
        let mut bits = pattern(at) ^ with as u32;
        for from in (at..from as usize).step_by(count as usize) {
            // SAFETY: `from` stays below the number of elements, which the caller vouches for.
            bits = bits.rotate_left(7).wrapping_add(unsafe { x.add(from).read() });
        }
        // SAFETY: `at` is below `count`, which the caller vouches for.
        unsafe { y.add(at).write(bits) };
    }
    // Fails now and then, for any caller.
    if host::log(format!("{name} {count} {with}")) % 7 == 6 {
        return Err(Error::value_error("a kernel failed"));
    }
    Ok(())
}

/// Gives fresh memory elements that are the same in every run. It is not logged.
///
/// # Safety
/// There are `count` elements at `y`.
unsafe fn set(y: *mut u32, count: i64) -> i32 {
    for at in 0..count as usize {
        // SAFETY: `at` is below `count`, which the caller vouches for.
        unsafe { y.add(at).write(pattern(at)) };
    }
    0
}

/// Bits that identify a position.
fn pattern(at: usize) -> u32 {
    (at as u32 + 1).wrapping_mul(0x9e37_79b1)
}

/// The status of a raw entry.
fn status(outcome: Result<(), Error>) -> i32 {
    RAW.set(RAW.get() + 1);
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            error.raise();
            -1
        }
    }
}

fn kernel(name: &str) -> Option<RawKernel> {
    let param = |shape: &[Dim]| TensorParam { dtype: DType::F32, shape: shape.to_vec() };
    let (n, m) = (Dim::Symbolic(0), Dim::Symbolic(1));
    let (code, params) = match name {
        "fuzz.each" => (each as *const u8, vec![param(&[n, m]), param(&[n, m])]),
        "fuzz.rows" => (rows as *const u8, vec![param(&[Dim::Static(2), n]), param(&[n])]),
        "fuzz.set0" => (set0 as *const u8, vec![param(&[])]),
        "fuzz.set1" => (set1 as *const u8, vec![param(&[n])]),
        "fuzz.set2" => (set2 as *const u8, vec![param(&[n, m])]),
        _ => return None,
    };
    // SAFETY: each takes the data of these tensors and their symbols, and is what the packed entry
    // calls.
    unsafe { RawKernel::new(code, params) }
}

/// The packed entry: checks, and then the same code.
fn packed(name: &str, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let tensors: Option<Vec<&Tensor>> = args.iter().map(|arg| arg.downcast_ref()).collect();
    let fits = |tensors: &Vec<&Tensor>| kernel(name).is_some_and(|it| it.accepts(tensors));
    let Some(tensors) = tensors.filter(fits) else {
        return Err(Error::type_error(format!("{name} does not take this")));
    };
    let data = |at: usize| (tensors[at].data_ptr().cast(), tensors[at].element_count() as i64);
    // SAFETY: the tensors are as the kernel says, and have so many elements.
    let done = unsafe {
        match (name, data(0)) {
            ("fuzz.each", (x, from)) => {
                let (y, count) = data(1);
                derive("each", x, from, y, count, tensors[0].shape()[1])
            }
            ("fuzz.rows", (x, from)) => {
                let (y, count) = data(1);
                derive("rows", x, from, y, count, 2)
            }
            (_, (y, count)) => {
                set(y, count);
                Ok(())
            }
        }
    };
    done.map(|()| Any::NONE)
}

impl Library for Host {
    fn function(&self, name: &str) -> Option<Function> {
        let kernel = KERNELS.iter().find(|kernel| **kernel == name);
        let kernel = kernel.map(|&name| Function::new(move |args| packed(name, args)));
        kernel.or_else(|| self.0.get(name).cloned())
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        kernel(name)
    }
}

/// A tensor whose elements identify their positions.
pub fn tensor(shape: &[i64], dtype: DType) -> Any {
    let tensor = Tensor::empty(shape, dtype).expect("a small tensor fits");
    // SAFETY: elements have four bytes, and no other reference to the tensor is used.
    unsafe { set(tensor.data_ptr().cast(), tensor.element_count() as i64) };
    tensor.into()
}

/// The memory layout of a strided tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Two rows apart.
    Rows,
    /// Two columns, one behind the other.
    Columns,
    /// Two elements apart.
    Elements,
}

/// A tensor of `(2, m)` whose rows are not contiguous, or one of two elements.
pub fn strided(m: i64, layout: Layout) -> Any {
    let whole = Tensor::try_from(tensor(&[4, m], DType::F32)).expect("it is a tensor");
    let managed = whole.to_dlpack();
    // SAFETY: no other reference to the tensor is used, and the rows lie within it.
    unsafe {
        let dl = &mut (*managed.as_ptr()).dl_tensor;
        (*dl.shape, *dl.strides) = (2, 2 * m);
        match layout {
            Layout::Rows => {}
            Layout::Columns => (*dl.strides, *dl.strides.add(1)) = (1, 2),
            Layout::Elements => dl.ndim = 1,
        }
        Tensor::from_dlpack(managed).expect("it is a tensor").into()
    }
}

/// A tensor of `(2, m)` with a row before it in its memory.
pub fn inner(m: i64) -> Any {
    let whole = Tensor::try_from(tensor(&[3, m], DType::F32)).expect("it is a tensor");
    let managed = whole.to_dlpack();
    // SAFETY: no other reference to the tensor is used, and the rows lie within it.
    unsafe {
        let dl = &mut (*managed.as_ptr()).dl_tensor;
        (*dl.shape, dl.byte_offset) = (2, 4 * m as u64);
        Tensor::from_dlpack(managed).expect("it is a tensor").into()
    }
}

/// A tensor of two rows as others make them: without strides, on another device, or of no columns and
/// without data.
pub fn foreign(which: u8) -> Any {
    let columns = if which % 3 == 2 { 0 } else { 3 };
    described(tensor(&[2, columns], DType::F32), |dl| match which % 3 {
        0 => dl.strides = std::ptr::null_mut(),
        1 => dl.device.device_type = CUDA,
        _ => dl.data = std::ptr::null_mut(),
    })
}

/// A shape heap of four entries, a smaller one, or something that is none: a vector of floats, a
/// matrix, one on another device, one without data.
pub fn entries(which: u8) -> Any {
    let numbers = [2_i64, 3, 2, 5, 4, 1];
    let made = match which % 6 {
        1 => Tensor::from_slice(&[1], &numbers[..1]),
        2 => Tensor::from_slice(&[8], &[0.5_f32; 8]),
        3 => Tensor::from_slice(&[3, 2], &numbers),
        _ => Tensor::from_slice(&[4], &numbers[..4]),
    };
    described(made.expect("a small tensor fits").into(), |dl| match which % 6 {
        4 => dl.device.device_type = CUDA,
        5 => dl.data = std::ptr::null_mut(),
        _ => {}
    })
}

/// A condition that holds or not, or none: one on another device, one without data, two of them.
pub fn flag(which: u8) -> Any {
    let made = match which % 5 {
        4 => Tensor::from_bytes(&[2], DType::BOOL, &[1, 1]),
        which => Tensor::from_bytes(&[], DType::BOOL, &[u8::from(which == 1)]),
    };
    described(made.expect("a small tensor fits").into(), |dl| match which % 5 {
        2 => dl.device.device_type = CUDA,
        3 => dl.data = std::ptr::null_mut(),
        _ => {}
    })
}

/// The tensor with its description changed.
fn described(tensor: Any, change: impl FnOnce(&mut DLTensor)) -> Any {
    let object = tensor.object_ref().expect("a tensor is an object").as_ptr();
    // SAFETY: the description lies there in every tensor, and no other reference to this one is used.
    change(unsafe { &mut *object.byte_add(TENSOR_DLTENSOR).cast::<DLTensor>() });
    tensor
}

/// A function that returns an object, and now and then leaves it in the result slot although it fails.
pub fn fail_leaving() -> Function {
    unsafe extern "C" fn call(
        _: *mut c_void,
        _: *const TVMFFIAny,
        _: i32,
        result: *mut TVMFFIAny,
    ) -> i32 {
        let lines = host::log("fail_leaving".to_owned());
        // SAFETY: the caller passes a slot that holds nothing, and takes what it finds there.
        unsafe { result.write(host::token().into_raw()) };
        if lines % 5 != 4 {
            return 0;
        }
        Error::value_error("it left something").raise();
        -1
    }
    // SAFETY: it follows the convention, and does not look at its first argument.
    unsafe { Function::from_native(call, ()) }
}

/// Addresses of the elements of a tensor in row-major order; none when they are not in the host's
/// memory.
fn elements(tensor: &Tensor) -> Vec<*mut u8> {
    // None may be of many rows.
    let none = tensor.element_count() == 0 || tensor.dl().data.is_null();
    if none || tensor.device() != DLDevice::CPU {
        return Vec::new();
    }
    let bytes = tensor.dtype().bytes_for(1).unwrap_or(0) as i64;
    let (mut offsets, mut usual) = (vec![0], 1);
    for (dim, &size) in tensor.shape().iter().enumerate().rev() {
        let stride = tensor.strides().map_or(usual, |strides| strides[dim]);
        let inner = std::mem::take(&mut offsets);
        let row = |at: i64| inner.iter().map(move |offset| offset + at * stride);
        offsets = (0..size).flat_map(row).collect();
        usual *= size;
    }
    let at = |offset: i64| tensor.data_ptr().wrapping_offset((offset * bytes) as isize);
    offsets.into_iter().map(at).collect()
}

/// A hash of all bits of all elements.
pub(crate) fn digest(tensor: &Tensor) -> u32 {
    let bytes = tensor.dtype().bytes_for(1).unwrap_or(0);
    let mut digest = 0x811c_9dc5_u32;
    for element in elements(tensor) {
        for at in 0..bytes {
            // SAFETY: elements lie in the tensor's memory, which no thread writes meanwhile.
            let byte = unsafe { element.add(at).read() };
            digest = (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    digest
}

/// Gives every element of a tensor of numbers of four bytes the same bits.
pub(crate) fn fill(tensor: &Tensor, bits: u32) {
    if tensor.dtype().bytes_for(1) == Some(4) {
        for element in elements(tensor) {
            // SAFETY: elements lie in the tensor's memory, which no thread reads meanwhile.
            unsafe { element.cast::<u32>().write_unaligned(bits) };
        }
    }
}
