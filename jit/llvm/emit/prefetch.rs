//! Asking the memory for what a stream reads next.
//!
//! Decision: docs/decisions/0094-int8-activations.md

use reflex_tir::{Expr, ExprKind, PREFETCH_BYTES};

use crate::emit::value::LaneValue;
use crate::emit::{Emitter, Unit};
use crate::error::{CodegenError, Result};

/// Arguments of `llvm.prefetch`: a read, of data that all levels of the cache keep.
const READ: i32 = 0;
const ALL_LEVELS: i32 = 3;
const DATA: i32 = 1;

impl Emitter<'_, '_> {
    /// Asks for the bytes that lie [`PREFETCH_BYTES`] behind an element, or behind the first of a vector of
    /// neighbours; once for an element in a row of instructions. Other elements are not asked for.
    pub(super) fn prefetch(&mut self, element: &Expr) -> Result<()> {
        let ExprKind::Load { buffer, indices, dtype } = element.kind() else { return Ok(()) };
        if self.unit == Unit::Gpu {
            return Ok(());
        }
        let here = self.ir.builder.get_insert_block();
        let here = here.ok_or_else(|| CodegenError::new("an instruction outside of a block"))?;
        match &mut self.prefetched {
            Some((block, known)) if *block == here => {
                if known.contains(element) {
                    return Ok(());
                }
                known.push(element.clone());
            }
            other => *other = Some((here, vec![element.clone()])),
        }
        let first = match self.offset(*buffer, indices)? {
            LaneValue::Uniform(first) => first.into_int_value(),
            LaneValue::Ramp { base, stride: 1 } => base,
            _ => return Ok(()),
        };
        let at = self.element(self.base(*buffer)?, first, *dtype)?;
        let ahead = self.ir.offset_bytes(at, self.ir.i64(PREFETCH_BYTES))?;
        let [read, levels, data] = [READ, ALL_LEVELS, DATA].map(|n| self.ir.i32(n).into());
        let pointer = ahead.get_type().into();
        self.ir.intrinsic("llvm.prefetch", &[pointer], &[ahead.into(), read, levels, data])?;
        Ok(())
    }
}
