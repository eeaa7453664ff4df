//! The kernels of a lowered program.
//!
//! Relay's virtual machine passes the fields of data values to kernels in the values' place, and does
//! not call a kernel whose only output is empty. Here the functions that bytecode calls do so.

use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::library::Library as SharedLibrary;
use reflex_runtime::value::AnyView;
use reflex_vm::load::Library;

use crate::host;

/// Before the name of a kernel that is called even if its last argument is empty.
const ALWAYS: &str = "relay.kernel.";

/// The name by which bytecode calls a kernel with so many outputs.
pub(crate) fn callee(kernel: &str, outputs: i64) -> String {
    if outputs == 1 { kernel.to_owned() } else { format!("{ALWAYS}{kernel}") }
}

/// The packed functions of a lowered program: kernels from `K`, and those of [`host`].
#[derive(Clone, Debug)]
pub struct Kernels<K>(pub K);

/// Kernels of a library that TVM exported before tvm-ffi, by their plain symbols.
#[derive(Clone, Debug)]
pub struct LegacyKernels(pub SharedLibrary);

impl Library for LegacyKernels {
    fn function(&self, name: &str) -> Option<Function> {
        self.0.legacy_function(name)
    }
}

impl<K: Library> Library for Kernels<K> {
    fn function(&self, name: &str) -> Option<Function> {
        let kernel = match (name, name.strip_prefix(ALWAYS)) {
            (host::FROM_HOST, _) => return Some(Function::new(host::from_host)),
            (host::TO_HOST, _) => return Some(Function::new(host::to_host)),
            (_, Some(kernel)) => wrapped(self.0.function(kernel)?, EmptyOutput::Call),
            (_, None) => wrapped(self.0.function(name)?, EmptyOutput::Skip),
        };
        Some(kernel)
    }
}

/// Whether a kernel is called whose last argument is an empty tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptyOutput {
    Skip,
    Call,
}

fn wrapped(kernel: Function, empty: EmptyOutput) -> Function {
    Function::in_place(move |args, result| {
        if empty == EmptyOutput::Skip && args.last().is_some_and(is_empty) {
            return Ok(());
        }
        *result = match args.iter().any(|arg| arg.downcast_ref::<Array>().is_some()) {
            false => kernel.call(args)?,
            true => kernel.call(&flat(args)?)?,
        };
        Ok(())
    })
}

fn is_empty(arg: &AnyView<'_>) -> bool {
    arg.downcast_ref::<reflex_runtime::tensor::Tensor>().is_some_and(|t| t.shape().contains(&0))
}

/// The arguments with fields in place of data values.
fn flat<'a>(args: &'a [AnyView<'_>]) -> Result<Vec<AnyView<'a>>, Error> {
    let mut all = Vec::with_capacity(args.len());
    for arg in args {
        match arg.downcast_ref::<Array>() {
            Some(value) => all.extend(AnyView::slice(host::fields(value)?)),
            None => all.push(*arg),
        }
    }
    Ok(all)
}
