//! A call with stored arguments, whose results are kept and copied where the host wants them.

use reflex_runtime::array::Array;
use reflex_runtime::device;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use crate::error::{Error, ErrorKind, Result};

/// A function with stored arguments, its last result, and the tensors that results are copied to.
#[derive(Default)]
pub(super) struct BoundCall {
    func: u32,
    inputs: Vec<Any>,
    /// None before the first run, and after one that failed.
    result: Option<Any>,
    /// Where results are copied to, when the host bound tensors.
    targets: Vec<Tensor>,
    aliasing: Aliasing,
}

/// Whether a run's results may lie in memory that copying another result overwrites.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Aliasing {
    #[default]
    /// No bound output shares memory with an input.
    None,
    /// A bound output shares memory with an input, which a result may be a view of.
    OutputsOfInputs,
}

impl BoundCall {
    pub(super) fn new(func: u32, inputs: Vec<Any>) -> BoundCall {
        BoundCall { func, inputs, ..BoundCall::default() }
    }

    pub(super) fn func(&self) -> u32 {
        self.func
    }

    pub(super) fn set_inputs(&mut self, inputs: Vec<Any>) {
        self.inputs = inputs;
        self.find_aliasing();
    }

    /// Copies results into `targets` after each run: one tensor for a tensor result, one per item
    /// for a tuple. A target may be an input, which then holds the result for the next run: state
    /// in place.
    pub(super) fn bind_outputs(&mut self, targets: Vec<Tensor>) {
        self.targets = targets;
        self.find_aliasing();
    }

    pub(super) fn outputs(&self) -> &[Tensor] {
        &self.targets
    }

    /// Returns the last result; none before the first run, and after one that failed.
    pub(super) fn result(&self) -> Option<&Any> {
        self.result.as_ref()
    }

    /// Has `call` call the function. The previous result is released first, so that its memory
    /// serves this run.
    pub(super) fn run(
        &mut self,
        call: impl FnOnce(u32, &[AnyView<'_>], &mut Any) -> Result<()>,
    ) -> Result<()> {
        self.result = None;
        let mut result = Any::NONE;
        call(self.func, AnyView::slice(&self.inputs), &mut result)?;
        let copied = self.copy_outputs(&result);
        self.result = Some(result);
        copied.map_err(|e| Error::raised(ErrorKind::Run, e))
    }

    /// Notes whether bound outputs share memory with inputs.
    fn find_aliasing(&mut self) {
        let inputs = || self.inputs.iter().filter_map(|input| input.downcast_ref::<Tensor>());
        let aliases = |target: &Tensor| inputs().any(|input| overlap(input, target));
        self.aliasing = match self.targets.iter().any(aliases) {
            true => Aliasing::OutputsOfInputs,
            false => Aliasing::None,
        };
    }

    /// Copies a result to where the host wants it.
    fn copy_outputs(&self, result: &Any) -> std::result::Result<(), Raised> {
        if self.targets.is_empty() {
            return Ok(());
        }
        let single = std::slice::from_ref(result);
        let items = result.downcast_ref::<Array>().map_or(single, |items| &items[..]);
        if items.len() != self.targets.len() {
            return Err(Raised::value_error(format!(
                "{} outputs are bound and the result has {}",
                self.targets.len(),
                items.len()
            )));
        }
        if self.aliasing == Aliasing::None {
            return copy_items(items, &self.targets);
        }
        let staged = items.iter().enumerate().map(|(index, item)| self.stage(index, item));
        copy_items(&staged.collect::<std::result::Result<Vec<_>, _>>()?, &self.targets)
    }

    /// Returns a copy of result `index` if copying another one would overwrite it, else itself.
    fn stage(&self, index: usize, item: &Any) -> std::result::Result<Any, Raised> {
        let Some(tensor) = item.downcast_ref::<Tensor>() else { return Ok(item.clone()) };
        let mut others = self.targets.iter().enumerate().filter(|(at, _)| *at != index);
        match others.any(|(_, target)| overlap(tensor, target)) {
            true => Tensor::from_bytes(tensor.shape(), tensor.dtype(), &tensor.to_bytes()?)
                .map(Any::from),
            false => Ok(item.clone()),
        }
    }
}

/// Returns true if the elements of two compact tensors share memory.
fn overlap(a: &Tensor, b: &Tensor) -> bool {
    let range = |t: &Tensor| (t.data_ptr().addr(), t.data_ptr().addr() + t.nbytes());
    let ((a_start, a_end), (b_start, b_end)) = (range(a), range(b));
    a_start < b_end && b_start < a_end
}

fn copy_items(items: &[Any], targets: &[Tensor]) -> std::result::Result<(), Raised> {
    for (index, (item, target)) in items.iter().zip(targets).enumerate() {
        let source =
            item.downcast_ref::<Tensor>().ok_or_else(|| item.view().mismatch("ffi.Tensor"))?;
        copy_tensor(source, target)
            .map_err(|reason| Raised::value_error(format!("bound output {index}: {reason}")))?;
    }
    Ok(())
}

fn copy_tensor(source: &Tensor, target: &Tensor) -> std::result::Result<(), String> {
    let source = &source.to_host().map_err(|e| e.message().into_owned())?;
    device::require_host(target.device(), "its tensor").map_err(|e| e.message().into_owned())?;
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
