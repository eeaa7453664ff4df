//! Rows of an intermediate put apart, so that each starts where its consumer wants it.

use super::state::{Schedule, ScheduleError};
use crate::Expr;

impl Schedule {
    /// The intermediate that `block` writes gets longer rows: the step from one index of
    /// dimension `axis` to the next becomes the smallest one that is `offset` more than a multiple
    /// of `factor` elements. Buffers are compact, so dimension `axis + 1` grows; the elements added
    /// are neither read nor written.
    ///
    /// `X: [4, 30]` with axis 0, factor 16 and offset 0 becomes `[4, 32]`, with offset 1 `[4, 33]`
    /// (columns then lie in different banks).
    pub fn storage_align(
        &mut self,
        block: &str,
        axis: usize,
        factor: i64,
        offset: i64,
    ) -> Result<(), ScheduleError> {
        let refuse = |s: &Schedule, why: String| s.refuse("storage_align", block, why);
        if factor < 1 || !(0..factor).contains(&offset) {
            let why = format!("no step is {offset} more than a multiple of {factor}");
            return Err(refuse(self, why));
        }
        let (buffer, ..) = self.single_store("storage_align", self.get_block(block)?)?;
        if !self.func.allocs.contains(&buffer) {
            let name = &self.func.buffers[buffer].name;
            let why = format!("`{name}` is not an intermediate of the whole function");
            return Err(refuse(self, why));
        }
        let mut shape = self.func.buffers[buffer].shape.clone();
        let Some(row) = shape.get(axis + 1) else {
            return Err(refuse(self, format!("dimension {axis} has no rows below it")));
        };
        let below = shape[axis + 2..].iter().try_fold(1, |n: i64, e| n.checked_mul(e.as_int()?));
        let longer = match (row.as_int(), below) {
            (Some(n), Some(below)) => {
                let fits = |n: &i64| (n * below).rem_euclid(factor) == offset;
                (n..n.saturating_add(factor)).find(fits).map(Expr::i64)
            }
            // One element below: whatever the row's extent, it can be rounded up.
            (None, Some(1)) => Some((row.clone() - offset).ceildiv(factor) * factor + offset),
            _ => None,
        };
        let Some(longer) = longer else {
            return Err(refuse(self, "no row of its shape has such a step".into()));
        };
        shape[axis + 1] = longer;
        self.transform_layout(buffer, shape, &|at| at.to_vec())
            .map_err(|refused| refuse(self, refused.why))
    }
}
