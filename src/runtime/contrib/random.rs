//! The state of random numbers: what a counter-based generator (Philox, Salmon et al. 2011) starts
//! from. Kernels make the numbers; here is told which ones come next.

use parking_lot::Mutex;

use crate::error::Error;
use crate::function::{arg, check_arity};
use crate::tensor::Tensor;
use crate::value::{Any, AnyView};

/// Key and first counter of the next numbers.
struct State {
    seed: i64,
    next: i64,
}

static STATE: Mutex<State> = Mutex::new(State { seed: 0, next: 0 });

/// `seed(value)`: starts the numbers of this process again, from `value`.
pub(super) fn seed(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.random.seed", args, 1)?;
    *STATE.lock() = State { seed: arg(args, 0)?, next: 0 };
    Ok(Any::NONE)
}

/// `next(blocks)`: an int64 tensor of the key and the first of `blocks` counters that no other
/// call gets.
pub(super) fn next(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.random.next", args, 1)?;
    let blocks: i64 = arg(args, 0)?;
    let mut state = STATE.lock();
    let now = [state.seed, state.next];
    state.next = state.next.wrapping_add(blocks.max(0));
    Ok(Tensor::from_slice(&[2], &now)?.into())
}
