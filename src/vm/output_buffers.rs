//! Pre-allocated outputs: memory of the host's that a run's storages are allocated in, so that a result
//! is written where the host wants it and not copied.
//!
//! The host offers tensors for one run. A storage of exactly as many bytes takes one, whichever it is
//! for: what it is released with is offered again, so that an intermediate of an output's size leaves
//! the memory to the output. The host looks afterwards which results lie in their tensors, and copies
//! the others.
//!
//! Decision: docs/decisions/0075-output-buffers.md

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use reflex_runtime::object::{ObjectRef, ObjectType};
use reflex_runtime::storage::{Loan, Storage};
use reflex_runtime::tensor::Tensor;

/// Outputs of up to this many bytes are copied: machine code keeps storages as small as these between
/// runs, and a copy takes a few microseconds.
pub const MAX_COPIED_BYTES: usize = 64 << 10;

thread_local! {
    /// The scope that is open on this thread; zero for none.
    static SCOPE: Cell<u64> = const { Cell::new(0) };
    static OFFERED: RefCell<Vec<Tensor>> = const { RefCell::new(vec![]) };
}

/// The runs of this thread that may allocate in offered tensors, until it is dropped.
pub struct OutputScope {
    scope: NonZeroU64,
    /// Sessions are bound to the thread whose storages this is about.
    _thread: std::marker::PhantomData<*mut ()>,
}

impl OutputScope {
    /// Offers those of `targets` that are large, compact and in host memory, the first one first; `None` if
    /// none is, or another scope is open on this thread. Steady runs allocate nothing.
    ///
    /// No argument of the runs may share memory with a target. The functions that they call keep no tensor
    /// that they are given, and need no more alignment than that of an element.
    pub fn enter<'t>(targets: impl Iterator<Item = &'t Tensor>) -> Option<OutputScope> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let fits = |t: &&Tensor| {
            t.device().is_cpu() && t.is_compact() && t.nbytes() > MAX_COPIED_BYTES && is_aligned(t)
        };
        if SCOPE.get() != 0 {
            return None;
        }
        let is_any = OFFERED.with_borrow_mut(|offered| {
            offered.extend(targets.filter(fits).cloned());
            !offered.is_empty()
        });
        let scope = NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).filter(|_| is_any)?;
        SCOPE.set(scope.get());
        Some(OutputScope { scope, _thread: std::marker::PhantomData })
    }
}

impl Drop for OutputScope {
    fn drop(&mut self) {
        debug_assert_eq!(SCOPE.get(), self.scope.get());
        SCOPE.set(0);
        OFFERED.with_borrow_mut(Vec::clear);
    }
}

/// Kernels access elements at multiples of their size.
fn is_aligned(tensor: &Tensor) -> bool {
    tensor.data_ptr().addr().is_multiple_of(tensor.dtype().itemsize().max(1))
}

/// A storage of `bytes` in an offered tensor of as many, if there is one.
#[inline]
pub(crate) fn take(bytes: usize) -> Option<Storage> {
    match bytes > MAX_COPIED_BYTES && SCOPE.get() != 0 {
        true => take_offered(bytes),
        false => None,
    }
}

#[cold]
fn take_offered(bytes: usize) -> Option<Storage> {
    let target = OFFERED.with_borrow_mut(|offered| {
        let at = offered.iter().position(|target| target.nbytes() == bytes)?;
        Some(offered.remove(at))
    })?;
    let data = NonNull::new(target.data_ptr())?;
    let loan = Loan { keeper: target.into_object(), number: SCOPE.get(), end: offer_again };
    // SAFETY: the loan holds the target, whose memory this is and whose maker lent it to the run.
    Some(unsafe { Storage::in_lent_memory(data, bytes, loan) })
}

/// Offers a target again whose storage is released within the scope that it was taken in.
fn offer_again(target: &ObjectRef, scope: u64) {
    if SCOPE.get() == scope
        && let Some(target) = target.downcast_ref::<Tensor>()
    {
        OFFERED.with_borrow_mut(|offered| offered.push(target.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reflex_runtime::dtype::DType;

    fn target(bytes: usize) -> Tensor {
        Tensor::empty(&[bytes as i64], DType::U8).unwrap()
    }

    #[test]
    fn storages_lie_in_offered_tensors_of_their_size() {
        let (large, small) = (target(MAX_COPIED_BYTES + 1), target(8));
        assert!(take(large.nbytes()).is_none(), "nothing is offered");
        let scope = OutputScope::enter([&small, &large].into_iter()).unwrap();
        assert!(take(small.nbytes()).is_none(), "it is small");
        assert!(take(large.nbytes() + 1).is_none(), "another size");
        let first = take(large.nbytes()).unwrap();
        assert_eq!(first.data().as_ptr(), large.data_ptr());
        assert!(take(large.nbytes()).is_none(), "it is taken");
        drop(first);
        let again = take(large.nbytes()).expect("released memory is offered again");
        drop(scope);
        assert!(take(large.nbytes()).is_none(), "the scope has ended");
        drop(again);
        assert!(take(large.nbytes()).is_none(), "what is released later is not offered");
    }

    #[test]
    fn scopes_do_not_nest() {
        let large = [target(MAX_COPIED_BYTES + 1)];
        let scope = OutputScope::enter(large.iter());
        assert!(scope.is_some() && OutputScope::enter(large.iter()).is_none());
        drop(scope);
        assert!(OutputScope::enter(large.iter()).is_some());
        assert!(OutputScope::enter([&target(8)].into_iter()).is_none(), "nothing large");
    }
}
