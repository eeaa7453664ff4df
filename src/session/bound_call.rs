//! A call with stored arguments, whose results are kept and copied where the host wants them.

use reflex_runtime::array::Array;
use reflex_runtime::device;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::output_buffers::OutputScope;

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
    offers: Offers,
}

/// The order in which targets are offered to storages of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Offers {
    #[default]
    Forward,
    /// Results lay in each other's targets before: they are allocated in the other order.
    Backward,
    /// They did so in both orders.
    None,
}

impl Offers {
    fn next(self) -> Offers {
        match self {
            Offers::Forward => Offers::Backward,
            Offers::Backward | Offers::None => Offers::None,
        }
    }
}

/// Whether writing one bound output may change what another result, or an input, is read from.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Aliasing {
    /// No bound output shares memory with an input or with another one.
    #[default]
    None,
    /// A bound output shares memory with an input, which a result may be a view of, or with another one.
    Possible,
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
        self.offers = Offers::default();
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
    /// serves this run. Results are copied to the targets, but with `in_place` for large ones, which kernels
    /// write there.
    pub(super) fn run(
        &mut self,
        in_place: bool,
        call: impl FnOnce(u32, &[AnyView<'_>], &mut Any) -> Result<()>,
    ) -> Result<()> {
        self.result = None;
        let mut result = Any::NONE;
        let scope = match self.offers {
            _ if !in_place || self.aliasing != Aliasing::None => None,
            Offers::Forward => OutputScope::enter(self.targets.iter()),
            Offers::Backward => OutputScope::enter(self.targets.iter().rev()),
            Offers::None => None,
        };
        call(self.func, AnyView::slice(&self.inputs), &mut result)?;
        let exchanged = scope.is_some() && self.are_exchanged(&result);
        drop(scope);
        let copied = self.copy_outputs(&result, exchanged);
        if exchanged {
            self.offers = self.offers.next();
        }
        self.result = Some(result);
        copied.map_err(|e| Error::raised(ErrorKind::Run, e))
    }

    /// Notes whether bound outputs share memory with inputs, or each other.
    fn find_aliasing(&mut self) {
        let of_inputs = |target: &Tensor| {
            self.inputs.iter().any(|input| match input.downcast_ref::<Tensor>() {
                Some(input) => overlap(input, target),
                // A tuple may hold tensors.
                None => input.downcast_ref::<Array>().is_some(),
            })
        };
        let of_others = |at: usize| {
            self.targets[at + 1..].iter().any(|other| overlap(other, &self.targets[at]))
        };
        let aliases = |at: usize| of_inputs(&self.targets[at]) || of_others(at);
        self.aliasing = match (0..self.targets.len()).any(aliases) {
            true => Aliasing::Possible,
            false => Aliasing::None,
        };
    }

    /// Whether a result lies in another one's target.
    fn are_exchanged(&self, result: &Any) -> bool {
        let single = std::slice::from_ref(result);
        let items = result.downcast_ref::<Array>().map_or(single, |items| &items[..]);
        items.iter().enumerate().any(|(index, item)| {
            item.downcast_ref::<Tensor>().is_some_and(|tensor| self.overwritten(index, tensor))
        })
    }

    /// Whether copying another result overwrites result `index`.
    fn overwritten(&self, index: usize, tensor: &Tensor) -> bool {
        let mut others = self.targets.iter().enumerate().filter(|(at, _)| *at != index);
        others.any(|(_, target)| overlap(tensor, target))
    }

    /// Copies a result to where the host wants it; `exchanged` if parts of it lie in each other's targets.
    fn copy_outputs(&self, result: &Any, exchanged: bool) -> std::result::Result<(), Raised> {
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
        if self.aliasing == Aliasing::None && !exchanged {
            return copy_items(items, &self.targets);
        }
        let staged = items.iter().enumerate().map(|(index, item)| self.stage(index, item));
        copy_items(&staged.collect::<std::result::Result<Vec<_>, _>>()?, &self.targets)
    }

    /// Returns a copy of result `index` if copying another one would overwrite it, else itself.
    fn stage(&self, index: usize, item: &Any) -> std::result::Result<Any, Raised> {
        let Some(tensor) = item.downcast_ref::<Tensor>() else { return Ok(item.clone()) };
        match self.overwritten(index, tensor) {
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
    if target.data_ptr() == source.data_ptr() {
        return Ok(());
    }
    // SAFETY: both are compact CPU tensors of one shape and type.
    unsafe { target.data_ptr().copy_from(source.data_ptr(), source.nbytes()) };
    Ok(())
}
