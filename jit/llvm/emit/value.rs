//! Values under vectorisation: what each lane of the surrounding vector loop holds.
//!
//! Outside a vector loop every value is [`LaneValue::Uniform`]. Ramps exist so that an index that
//! advances by one per lane becomes one vector access instead of a gather.

use inkwell::values::{BasicValueEnum, InstructionOpcode, IntValue, VectorValue};

use crate::emit::ir::{Ir, const_vector};
use crate::error::{CodegenError, Result};

/// An evaluated expression.
#[derive(Clone, Copy, Debug)]
pub enum LaneValue<'c> {
    /// The same in every lane.
    Uniform(BasicValueEnum<'c>),
    /// Lane `l` holds the int64 `base + l * stride`; the stride is not 0.
    Ramp {
        /// Lane 0.
        base: IntValue<'c>,
        /// Step from lane to lane.
        stride: i64,
    },
    /// One element per lane.
    Varying(VectorValue<'c>),
}

impl<'c> LaneValue<'c> {
    /// Wraps the result of an instruction.
    pub fn of(value: BasicValueEnum<'c>) -> LaneValue<'c> {
        match value {
            BasicValueEnum::VectorValue(v) => LaneValue::Varying(v),
            other => LaneValue::Uniform(other),
        }
    }

    /// The scalar, where the language rules say that lanes agree.
    pub fn uniform(self, what: &str) -> Result<BasicValueEnum<'c>> {
        match self {
            LaneValue::Uniform(v) => Ok(v),
            _ => Err(CodegenError::new(format!("{what} differs between vector lanes"))),
        }
    }

    /// The scalar integer, where lanes agree.
    pub fn uniform_int(self, what: &str) -> Result<IntValue<'c>> {
        match self.uniform(what)? {
            BasicValueEnum::IntValue(v) => Ok(v),
            _ => Err(CodegenError::new(format!("{what} is not an integer"))),
        }
    }
}

impl<'c> Ir<'_, 'c> {
    /// One element per lane.
    pub fn widen(&self, value: LaneValue<'c>, lanes: u32) -> Result<VectorValue<'c>> {
        match value {
            LaneValue::Varying(v) => Ok(v),
            LaneValue::Uniform(v) => self.splat(v, lanes),
            LaneValue::Ramp { base, stride } => {
                let steps: Vec<BasicValueEnum<'c>> = (0..i64::from(lanes))
                    .map(|l| self.i64(l.wrapping_mul(stride)).into())
                    .collect();
                let base = self.splat(base.into(), lanes)?;
                Ok(self.builder.build_int_add(base, const_vector(&steps), "")?)
            }
        }
    }

    /// Wrapping int64 addition (or subtraction) that keeps ramps.
    pub fn add_index(
        &self,
        op: InstructionOpcode,
        a: LaneValue<'c>,
        b: LaneValue<'c>,
    ) -> Result<Option<LaneValue<'c>>> {
        let sign = if op == InstructionOpcode::Sub { -1 } else { 1 };
        let (x, sx) = match split(a) {
            Some(parts) => parts,
            None => return Ok(None),
        };
        let (y, sy) = match split(b) {
            Some(parts) => parts,
            None => return Ok(None),
        };
        let base = self.binary(op, x.into(), y.into())?.into_int_value();
        Ok(Some(ramp(base, sx.wrapping_add(sy.wrapping_mul(sign)))))
    }

    /// Wrapping int64 multiplication that keeps ramps when one side is constant.
    pub fn mul_index(&self, a: LaneValue<'c>, b: LaneValue<'c>) -> Result<Option<LaneValue<'c>>> {
        let (Some((x, sx)), Some((y, sy))) = (split(a), split(b)) else { return Ok(None) };
        let stride = match (sx, sy) {
            (0, 0) => 0,
            (s, 0) => match y.get_sign_extended_constant() {
                Some(c) => s.wrapping_mul(c),
                None => return Ok(None),
            },
            (0, s) => match x.get_sign_extended_constant() {
                Some(c) => s.wrapping_mul(c),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(ramp(self.builder.build_int_mul(x, y, "")?, stride)))
    }
}

fn ramp<'c>(base: IntValue<'c>, stride: i64) -> LaneValue<'c> {
    match stride {
        0 => LaneValue::Uniform(base.into()),
        _ => LaneValue::Ramp { base, stride },
    }
}

fn split(value: LaneValue<'_>) -> Option<(IntValue<'_>, i64)> {
    match value {
        LaneValue::Uniform(BasicValueEnum::IntValue(v)) => Some((v, 0)),
        LaneValue::Ramp { base, stride } => Some((base, stride)),
        _ => None,
    }
}
