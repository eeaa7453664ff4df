//! Checks of index tensors before the body: for each bound a loop over its elements.
//!
//! `i` is in `-n..n` if `n + i` is below `2 * n`, as unsigned 64-bit integers (extents are far below
//! 2^62).
//!
//! Decision: docs/decisions/0047-index-checks.md

use reflex_tir::{Expr, IndexCheck};

use crate::error::Result;
use crate::names::literal;
use crate::print::Printer;

impl Printer<'_, '_> {
    /// Leaves the function with an error unless the elements of an index tensor are in range.
    pub(super) fn check_indices(&mut self, check: &IndexCheck) -> Result<()> {
        let shape = &self.func.buffers[check.buffer].shape;
        let count = shape.iter().fold(Expr::i64(1), |n, extent| n * extent.clone());
        let count = self.index(&count)?;
        let (data, step) = (self.pointer(check.buffer)?, check.bounds.len());
        let message = literal(&check.message());
        for (first, bound) in check.bounds.iter().enumerate() {
            let mark = self.names.open();
            let [at, index, most, one, other] =
                ["at", "index", "bound", "one", "other"].map(|hint| self.names.declare(hint));
            let bound = self.index(bound)?;
            let (bound, count) = (bound.as_str(), count.as_str());
            self.out.open(format!("for (int64_t {at} = {first}; {at} < {count}; {at} += {step})"));
            self.out.line(format!("const int64_t {index} = {data}[{at}], {most} = {bound};"));
            self.out
                .open(format!("if ((uint64_t){index} + (uint64_t){most} >= 2 * (uint64_t){most})"));
            self.out.line(format!("char {one}[24], {other}[24];"));
            self.out.line(format!(
                "return rf_raise(\"IndexError\", {message}, rf_digits({one}, {index}), \" is out of range for an axis of \", rf_digits({other}, {most}), \"\");"
            ));
            self.out.close();
            self.out.close();
            self.names.close(mark);
        }
        Ok(())
    }
}
