//! Checks of index tensors before the body: for each bound a loop over its elements.
//!
//! `i` is in `-n..n` if `n + i` is below `2 * n`, as unsigned 64-bit integers (extents are far below
//! 2^62).
//!
//! Decision: docs/decisions/0047-index-checks.md

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, types};
use reflex_tir::{DType, IndexCheck};

use crate::cpu::failure::Failure;
use crate::emit::Emitter;
use crate::error::Result;

impl Emitter<'_, '_, '_> {
    /// Leaves the function with an error unless the elements of an index tensor are in range.
    pub(super) fn check_indices(&mut self, check: &IndexCheck) -> Result<()> {
        let buffer = &self.func.buffers[check.buffer];
        let mut count = self.i64(1);
        for extent in &buffer.shape {
            let extent = self.uniform_int(extent, "an extent")?;
            count = self.b.ins().imul(count, extent);
        }
        let data = self.base(check.buffer)?;
        let step = self.i64(check.bounds.len() as i64);
        for (first, bound) in check.bounds.iter().enumerate() {
            let bound = self.uniform_int(bound, "a bound")?;
            let twice = self.b.ins().iadd(bound, bound);
            let [head, look, next, after] = [(); 4].map(|()| self.b.create_block());
            let bad = self.cold_block();
            let at = self.b.append_block_param(head, types::I64);
            let first = self.i64(first as i64);
            self.b.ins().jump(head, &[BlockArg::Value(first)]);

            self.b.switch_to_block(head);
            let more = self.b.ins().icmp(IntCC::SignedLessThan, at, count);
            self.b.ins().brif(more, look, &[], after, &[]);

            self.b.switch_to_block(look);
            let address = self.element(data, at, buffer.dtype);
            let index = match buffer.dtype {
                DType::I32 => {
                    let narrow = self.load_at(types::I32, address, 0);
                    self.b.ins().sextend(types::I64, narrow)
                }
                _ => self.load_at(types::I64, address, 0),
            };
            let shifted = self.b.ins().iadd(index, bound);
            let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, shifted, twice);
            self.b.ins().brif(outside, bad, &[], next, &[]);

            self.b.switch_to_block(bad);
            let message = self.text(&check.message())?;
            let status = self.fail(Failure::Index, &[message, index, bound])?;
            self.leave(status)?;

            self.b.switch_to_block(next);
            let following = self.b.ins().iadd(at, step);
            self.b.ins().jump(head, &[BlockArg::Value(following)]);
            self.b.switch_to_block(after);
        }
        Ok(())
    }
}
