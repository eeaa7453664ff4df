//! Bound functions: inputs stored once, results kept and copied where the host wants them.

use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use super::{Session, failed, unknown};
use crate::calls::wrong_arity;
use crate::run_error::RunError;

/// A bound function: its stored inputs, result and outputs.
pub(super) struct Binding {
    name: String,
    func: u32,
    inputs: Vec<Any>,
    output: Any,
    /// Where results are copied to, when the host bound tensors.
    targets: Vec<Tensor>,
}

/// Names a binding without a look-up by string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindingId(pub(super) usize);

impl Session {
    /// Stores the inputs of function `name` for [`Session::run_bound`].
    pub fn set_input(&mut self, name: &str, inputs: Vec<Any>) -> Result<BindingId, RunError> {
        let Some(func) = self.program().find(name) else {
            return Err(unknown(name));
        };
        self.set_input_of(func, inputs)
    }

    /// [`Session::set_input`] for function number `func` (see [`crate::program::Program::find`]).
    pub fn set_input_of(&mut self, func: u32, inputs: Vec<Any>) -> Result<BindingId, RunError> {
        let expected = self.program().function(func).map_or(0, |f| f.num_args as usize);
        if inputs.len() != expected {
            return Err(failed(wrong_arity(self.program(), func, inputs.len())));
        }
        if let Some(at) = self.bindings.iter().position(|b| b.func == func) {
            self.bindings[at].inputs = inputs;
            return Ok(BindingId(at));
        }
        let name = self.program().name(func).to_owned();
        let binding = Binding { name, func, inputs, output: Any::NONE, targets: Vec::new() };
        self.bindings.push(binding);
        Ok(BindingId(self.bindings.len() - 1))
    }

    /// The binding that [`Session::set_input`] made for `name`.
    pub fn binding(&self, name: &str) -> Option<BindingId> {
        self.bindings.iter().position(|b| b.name == name).map(BindingId)
    }

    /// Makes runs of `binding` copy their results into `targets`: one tensor for a tensor
    /// result, one per item for a tuple.
    pub fn bind_outputs(&mut self, binding: BindingId, targets: Vec<Tensor>) {
        self.bindings[binding.0].targets = targets;
    }

    /// Runs a bound function on its stored inputs. The previous result is released
    /// first, so that its memory serves this run.
    pub fn run_bound(&mut self, binding: BindingId) -> Result<(), RunError> {
        let bound = &mut self.bindings[binding.0];
        bound.output = Any::NONE;
        let (func, inputs) = (bound.func, std::mem::take(&mut bound.inputs));
        let outcome = self.call_func(func, AnyView::slice(&inputs));
        let bound = &mut self.bindings[binding.0];
        bound.inputs = inputs;
        bound.output = outcome?;
        copy_outputs(&bound.output, &bound.targets).map_err(failed)
    }

    /// Runs the function `name` on the inputs stored for it.
    pub fn invoke_stateful(&mut self, name: &str) -> Result<(), RunError> {
        match self.binding(name) {
            Some(binding) => self.run_bound(binding),
            None => Err(no_binding(name)),
        }
    }

    /// The result of the last run of a bound function.
    pub fn output(&self, binding: BindingId) -> &Any {
        &self.bindings[binding.0].output
    }

    /// Number of items of the result of `name`; -1 when it is not a tuple. `path` walks
    /// into nested tuples first.
    pub fn output_arity(&self, name: &str, path: &[usize]) -> Result<i64, RunError> {
        let value = self.output_at(name, path)?;
        Ok(value.downcast_ref::<Array>().map_or(-1, |items| items.len() as i64))
    }

    /// An item of the result of `name`; tuples themselves are refused.
    pub fn get_output(&self, name: &str, path: &[usize]) -> Result<Any, RunError> {
        let value = self.output_at(name, path)?;
        if value.downcast_ref::<Array>().is_some() {
            return Err(failed(Error::value_error(format!(
                "output {path:?} of `{name}` is a tuple; ask for its items"
            ))));
        }
        Ok(value.clone())
    }

    fn output_at(&self, name: &str, path: &[usize]) -> Result<&Any, RunError> {
        let binding = self.binding(name).ok_or_else(|| no_binding(name))?;
        let mut value = self.output(binding);
        for &index in path {
            value = value.downcast_ref::<Array>().and_then(|items| items.get(index)).ok_or_else(
                || failed(Error::new("IndexError", format!("`{name}` has no output at {path:?}"))),
            )?;
        }
        Ok(value)
    }
}

#[cold]
fn no_binding(name: &str) -> RunError {
    failed(Error::value_error(format!("no inputs are set for function `{name}`")))
}

fn copy_outputs(output: &Any, targets: &[Tensor]) -> Result<(), Error> {
    if targets.is_empty() {
        return Ok(());
    }
    let single = std::slice::from_ref(output);
    let items = output.downcast_ref::<Array>().map_or(single, |items| &items[..]);
    if items.len() != targets.len() {
        return Err(Error::value_error(format!(
            "{} outputs are bound and the result has {}",
            targets.len(),
            items.len()
        )));
    }
    for (index, (item, target)) in items.iter().zip(targets).enumerate() {
        let source =
            item.downcast_ref::<Tensor>().ok_or_else(|| item.view().mismatch("ffi.Tensor"))?;
        copy_tensor(source, target)
            .map_err(|reason| Error::value_error(format!("bound output {index}: {reason}")))?;
    }
    Ok(())
}

fn copy_tensor(source: &Tensor, target: &Tensor) -> Result<(), String> {
    let same = source.dtype() == target.dtype() && source.shape() == target.shape();
    if !same || !source.is_compact() || !target.is_compact() {
        return Err(format!(
            "the result is {} {:?}, the bound tensor {} {:?}",
            source.dtype(),
            source.shape(),
            target.dtype(),
            target.shape()
        ));
    }
    // SAFETY: both are compact CPU tensors of one shape and type. A bound output that is
    // also the result overlaps itself exactly, which `copy_from` allows.
    unsafe { target.data_ptr().copy_from(source.data_ptr(), source.nbytes()) };
    Ok(())
}
