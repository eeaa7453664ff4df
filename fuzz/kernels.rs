//! Kernels of generated programs: each has a packed entry and a raw one, and logs its extents.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;

use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::kernel::{Extent, RawKernel, TensorParam};
use reflex_vm::program::Library;

use crate::host;

thread_local! {
    static RAW: Cell<usize> = const { Cell::new(0) };
}

/// Calls by raw entries since the last time, on this thread.
pub fn raw_calls() -> usize {
    RAW.replace(0)
}

/// What the program's functions come from: functions by name, and the kernels.
pub struct Host(pub HashMap<String, Function>);

const KERNELS: [&str; 2] = ["fuzz.each", "fuzz.rows"];

/// `fuzz.each`: two tensors of `(n, m)`, the second of which is filled.
unsafe extern "C" fn each(_: *const f32, y: *mut f32, n: i64, m: i64) -> i32 {
    // SAFETY: the parameters are tensors of so many elements.
    status(unsafe { fill("each", y, n * m, m) })
}

/// `fuzz.rows`: a tensor of `(2, m)` and one of `(m)`, which is filled.
unsafe extern "C" fn rows(_: *const f32, y: *mut f32, m: i64) -> i32 {
    // SAFETY: the parameters are tensors of so many elements.
    status(unsafe { fill("rows", y, m, 2) })
}

/// # Safety
/// There are `count` elements at `y`.
unsafe fn fill(name: &str, y: *mut f32, count: i64, with: i64) -> Result<(), Error> {
    for at in 0..count as usize {
        // SAFETY: by the contract.
        unsafe { y.add(at).write(with as f32) };
    }
    // Fails now and then, whoever calls.
    if host::log(format!("{name} {count} {with}")) % 7 == 6 {
        return Err(Error::value_error("a kernel failed"));
    }
    Ok(())
}

/// What a raw entry returns.
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
    let param = |extents: &[Extent]| TensorParam { dtype: DType::F32, extents: extents.to_vec() };
    let (n, m) = (Extent::Symbol(0), Extent::Symbol(1));
    let (code, params) = match name {
        "fuzz.each" => (each as *const u8, vec![param(&[n, m]), param(&[n, m])]),
        "fuzz.rows" => (rows as *const u8, vec![param(&[Extent::Fixed(2), n]), param(&[n])]),
        _ => return None,
    };
    // SAFETY: each takes the data of these tensors and their symbols, and is what the packed entry
    // calls.
    unsafe { RawKernel::new(code, params) }
}

/// The packed entry: checks, and then the same code.
fn packed(name: &str, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let tensors: Option<Vec<&Tensor>> = args.iter().map(|arg| arg.downcast_ref()).collect();
    let fits = |tensors: &Vec<&Tensor>| kernel(name).is_some_and(|it| it.takes(tensors));
    let Some(tensors) = tensors.filter(fits) else {
        return Err(Error::type_error(format!("{name} does not take this")));
    };
    let (y, count) = (tensors[1].data_ptr().cast(), tensors[1].element_count() as i64);
    let (name, with) =
        if name == KERNELS[0] { ("each", tensors[0].shape()[1]) } else { ("rows", 2) };
    // SAFETY: the tensor has so many elements.
    unsafe { fill(name, y, count, with) }.map(|()| Any::NONE)
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

/// A tensor of `(2, m)` whose rows do not lie one behind the other.
pub fn strided(m: i64) -> Any {
    let managed = Tensor::zeros(&[4, m], DType::F32).expect("a small tensor fits").to_dlpack();
    // SAFETY: nobody else looks at the tensor, and the rows lie within it.
    unsafe {
        let dl = &mut (*managed.as_ptr()).dl_tensor;
        (*dl.shape, *dl.strides) = (2, 2 * m);
        Tensor::from_dlpack(managed).expect("it is a tensor").into()
    }
}
