//! Elements picked by indices, and ranges.

use std::sync::Arc;

use reflex_tir::DType;

use super::attrs::OpCall;
use crate::relay::lower::func::FuncLowerer;
use crate::relay::source::Result;
use crate::script::consts;
use crate::{Binary, GatherKind, Literal, Op, OutOfRange, Value, dims};

/// Most elements of a range that is a constant.
const RANGE_LIMIT: f64 = 1e8;

impl FuncLowerer<'_, '_, '_> {
    /// Indices are clipped to the axis, as Relay's default says; `take` of a negative one is the
    /// first element.
    pub(super) fn take(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [mut x, mut indices] = self.operands(call)?;
        if call.int("batch_dims", 0)? != 0 {
            return Err(call.refuse("`batch_dims` is not supported"));
        }
        match call.text("mode", "clip")? {
            "clip" => indices = self.with_number(call, Binary::Max, indices, 0.0)?,
            "fast" => {}
            other => return Err(call.refuse(&format!("mode {other} is not supported"))),
        }
        let axis = match call.has("axis") {
            true => {
                let axis = call.int("axis", 0)?;
                self.axis(call, axis, self.rank(x))?
            }
            false => {
                let count = dims::product(&self.shape(x));
                x = self.reshaped(call, x, vec![count])?;
                0
            }
        };
        let kind = GatherKind::Axis(axis);
        self.emit(call, Op::Gather { kind, out_of_range: OutOfRange::Clamp }, &[x, indices])
    }

    /// The first axis of the indices is a coordinate.
    pub(super) fn gather_nd(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x, indices] = self.operands(call)?;
        if call.int("batch_dims", 0)? != 0 {
            return Err(call.refuse("`batch_dims` is not supported"));
        }
        call.ignore(&["index_rank"]);
        let rank = self.rank(indices);
        let perm = (1..rank).chain([0]).collect();
        let indices = match rank {
            0 => return Err(call.refuse("indices have an axis of coordinates")),
            1 => indices,
            _ => self.emit(call, Op::Transpose(perm), &[indices])?,
        };
        let kind = GatherKind::Nd { batch_dims: 0 };
        self.emit(call, Op::Gather { kind, out_of_range: OutOfRange::Raise }, &[x, indices])
    }

    /// A range of constants.
    pub(super) fn arange(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let dtype = call.dtype("dtype")?.unwrap_or(DType::F32);
        call.ignore(&["start", "stop", "step"]);
        self.check_count(call.at, 3, call.args.len())?;
        let mut numbers = [0.0; 3];
        for (number, term) in numbers.iter_mut().zip(&call.args) {
            match self.b.as_constant(term.value).and_then(scalar_of) {
                Some(found) => *number = found,
                None => return self.arange_of_values(call, dtype),
            }
        }
        let [start, stop, step] = numbers;
        let count = ((stop - start) / step).ceil();
        if !count.is_finite() || count > RANGE_LIMIT {
            return Err(call.refuse("a range without an end, or a long one"));
        }
        let (mut bytes, count) = (vec![], count.max(0.0) as i64);
        for n in 0..count {
            let value = start + n as f64 * step;
            let number = match dtype.is_float() {
                true => consts::Number::Float(value),
                false => consts::Number::Int(value as i128),
            };
            if !consts::push(dtype, number, &mut bytes) {
                return Err(call.refuse(&format!("{value} is not a value of {dtype}")));
            }
        }
        let literal = Literal::new(dtype, vec![count], Arc::new(bytes));
        let literal = literal.ok_or_else(|| call.refuse("a range that is too long"))?;
        Ok(self.constant(literal).value)
    }

    /// A range of whole numbers whose bounds are computed.
    fn arange_of_values(&mut self, call: &mut OpCall<'_>, dtype: DType) -> Result<Value> {
        let step = self.b.as_constant(call.args[2].value).and_then(scalar_of);
        let step = step.filter(|step| step.trunc() == *step && *step != 0.0);
        let step = step.ok_or_else(|| call.refuse("a step that is no whole constant"))?;
        let [start, stop, _] = self.operands(call)?;
        let mut bounds = [start, stop];
        for bound in &mut bounds {
            let ty = self.b.tensor(*bound).clone();
            if ty.dtype.is_float() || dtype.is_float() || !ty.shape.is_empty() {
                let text = "bounds that are not constants are supported as whole numbers alone";
                return Err(call.refuse(text));
            }
            *bound = self.cast(call, *bound, DType::I64)?;
        }
        let [start, stop] = bounds;
        // Rounded away from 0, since division rounds to it.
        let span = self.binary(call, Binary::Sub, stop, start)?;
        let span = self.with_number(call, Binary::Add, span, step - step.signum())?;
        let count = self.with_number(call, Binary::Div, span, step)?;
        let count = self.with_number(call, Binary::Max, count, 0.0)?;
        let dims = self.b.match_shape(count, "count");
        let numbers = self.emit(call, Op::Iota { count: dims[0].clone() }, &[])?;
        let numbers = self.with_number(call, Binary::Mul, numbers, step)?;
        let numbers = self.binary(call, Binary::Add, numbers, start)?;
        self.cast(call, numbers, dtype)
    }
}

/// The number that a constant of one element is.
fn scalar_of(literal: &Literal) -> Option<f64> {
    if literal.count() != 1 {
        return None;
    }
    if let Some(values) = literal.to_i64() {
        return values.first().map(|value| *value as f64);
    }
    match literal.dtype() {
        DType::F32 => Some(f64::from(f32::from_le_bytes(literal.bytes().try_into().ok()?))),
        DType::F64 => Some(f64::from_le_bytes(literal.bytes().try_into().ok()?)),
        _ => None,
    }
}
