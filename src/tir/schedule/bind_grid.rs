//! One loop as the blocks and threads of a grid.

use super::state::{Schedule, ScheduleError};
use crate::thread::ThreadAxis;
use crate::{ForKind, Var};

impl Schedule {
    /// `for i in 0..n { S(i) }` becomes
    /// `for b in blockIdx.x(ceil(n / threads)) { for t in threadIdx.x(threads) { S(b*threads + t) } }`
    /// with the guard of [`Schedule::split`]. Needs what [`Schedule::parallel`] needs: iterations that
    /// are independent are so in any division.
    ///
    /// Returns the loops over blocks and threads; `i` is gone.
    pub fn bind_grid(&mut self, at: Var, threads: i64) -> Result<(Var, Var), ScheduleError> {
        self.require_independent("bind_grid", at)?;
        let (block, thread) = self.split(at, threads)?;
        self.set_kind("bind", block, ForKind::ThreadBinding(ThreadAxis::BlockX))?;
        self.set_kind("bind", thread, ForKind::ThreadBinding(ThreadAxis::ThreadX))?;
        Ok((block, thread))
    }
}
