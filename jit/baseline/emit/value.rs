//! Values under vectorisation: what each lane of the surrounding vector loop holds.
//!
//! Outside a vector loop every value is [`LaneValue::Uniform`]. Ramps are indices that advance by a
//! constant from lane to lane.

use cranelift_codegen::ir::Value;

use crate::error::{BaselineError, Result};

/// Lanes of a vector.
pub const LANES: i64 = 4;

/// An evaluated expression.
#[derive(Clone, Copy, Debug)]
pub enum LaneValue {
    /// The same in every lane.
    Uniform(Value),
    /// Lane `l` holds the int64 `base + l * stride`; the stride is not 0.
    Ramp {
        /// Lane 0.
        base: Value,
        /// Step from lane to lane.
        stride: i64,
    },
    /// One element per lane, 32 bits each. Bools are masks: all bits set, or none. 8-bit integers are extended.
    Varying(Value),
}

impl LaneValue {
    /// The scalar, where the language rules say that lanes agree.
    pub fn uniform(self, what: &str) -> Result<Value> {
        match self {
            LaneValue::Uniform(v) => Ok(v),
            _ => Err(BaselineError::new(format!("{what} differs between vector lanes"))),
        }
    }

    /// Lane 0 and the step from lane to lane, of an index.
    pub fn parts(self) -> Option<(Value, i64)> {
        match self {
            LaneValue::Uniform(v) => Some((v, 0)),
            LaneValue::Ramp { base, stride } => Some((base, stride)),
            LaneValue::Varying(_) => None,
        }
    }

    /// The index with these parts.
    pub fn index(base: Value, stride: i64) -> LaneValue {
        match stride {
            0 => LaneValue::Uniform(base),
            _ => LaneValue::Ramp { base, stride },
        }
    }
}
