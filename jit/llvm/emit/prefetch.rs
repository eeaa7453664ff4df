//! Asking the memory for what a stream reads next.
//!
//! Decision: docs/decisions/0094-int8-activations.md

use reflex_tir::{Expr, ExprKind, Intrin, NEAR_BYTES};

use crate::emit::value::LaneValue;
use crate::emit::{Emitter, Unit};
use crate::error::{CodegenError, Result};

/// Arguments of `llvm.prefetch`: a read, of data that all levels of the cache keep, or all but the first.
const READ: i32 = 0;
const ALL_LEVELS: i32 = 3;
const FROM_SECOND: i32 = 2;
const DATA: i32 = 1;

impl Emitter<'_, '_> {
    /// Asks for what lies `bytes` behind an element, or behind the first of a vector of
    /// neighbours; once for an element in a row of instructions. Other elements are not asked for.
    pub(super) fn prefetch(&mut self, element: &Expr, bytes: &Expr) -> Result<()> {
        // Another prefetch of the element comes first.
        let mut element = element;
        while let ExprKind::Call { op: Intrin::Prefetch, args, .. } = element.kind() {
            element = &args[0];
        }
        let ExprKind::Load { buffer, indices, dtype } = element.kind() else { return Ok(()) };
        if self.unit == Unit::Gpu {
            return Ok(());
        }
        let here = self.ir.builder.get_insert_block();
        let here = here.ok_or_else(|| CodegenError::new("an instruction outside of a block"))?;
        match &mut self.prefetched {
            Some((block, known)) if *block == here => {
                if known.iter().any(|(e, n)| e == element && n == bytes) {
                    return Ok(());
                }
                known.push((element.clone(), bytes.clone()));
            }
            other => *other = Some((here, vec![(element.clone(), bytes.clone())])),
        }
        let first = match self.offset(*buffer, indices)? {
            LaneValue::Uniform(first) => first.into_int_value(),
            LaneValue::Ramp { base, stride: 1 } => base,
            _ => return Ok(()),
        };
        let at = self.element(self.base(*buffer)?, first, *dtype)?;
        let LaneValue::Uniform(distance) = self.expr(bytes)? else { return Ok(()) };
        let ahead = self.ir.offset_bytes(at, distance.into_int_value())?;
        let near = bytes.as_int().is_some_and(|n| n <= NEAR_BYTES);
        let levels = if near { ALL_LEVELS } else { FROM_SECOND };
        let [read, levels, data] = [READ, levels, DATA].map(|n| self.ir.i32(n).into());
        let pointer = ahead.get_type().into();
        self.ir.intrinsic("llvm.prefetch", &[pointer], &[ahead.into(), read, levels, data])?;
        Ok(())
    }
}
