//! Operators that make, move and pick elements.

use std::sync::Arc;

use reflex_tir::{DType, Expr as DimExpr};

use super::{FuncLowerer, OpCall};
use crate::relay::lower::func::Term;
use crate::relay::source::Result;
use crate::script::consts;
use crate::{Binary, GatherKind, Literal, Op, OutOfRange, Value, dims};

/// Most elements of a range that is a constant.
const RANGE_LIMIT: f64 = 1e8;

impl FuncLowerer<'_, '_, '_> {
    pub(super) fn layout(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let value = match call.name {
            "reshape" => self.reshape(call)?,
            "reshape_like" => {
                let [x, like] = self.operands(call)?;
                let shape = self.shape(like);
                self.reshaped(call, x, shape)?
            }
            "transpose" => {
                let [x] = self.operands(call)?;
                let rank = self.rank(x);
                let perm = match call.ints("axes")? {
                    None => (0..rank).rev().collect(),
                    Some(axes) => {
                        let axes = axes.iter().map(|axis| self.axis(call, *axis, rank));
                        axes.collect::<Result<Vec<usize>>>()?
                    }
                };
                self.emit(call, Op::Transpose(perm), &[x])?
            }
            "expand_dims" => {
                let [x] = self.operands(call)?;
                let mut shape = self.shape(x);
                let (at, count) = (call.int("axis", 0)?, call.int("num_newaxis", 1)?);
                let at = self.axis(call, at, shape.len() + 1)?;
                if !(0..=16).contains(&count) {
                    return Err(call.refuse("between 0 and 16 new axes"));
                }
                shape.splice(at..at, (0..count).map(|_| DimExpr::i64(1)));
                self.reshaped(call, x, shape)?
            }
            "squeeze" => self.squeeze(call)?,
            "concatenate" => {
                let items = self.tuple_operand(call)?;
                let rank = items.first().map_or(0, |x| self.rank(*x));
                let axis = call.int("axis", 0)?;
                let axis = self.axis(call, axis, rank)?;
                self.emit(call, Op::Concat { axis }, &items)?
            }
            "stack" => self.stack(call)?,
            "split" => return self.split(call),
            "strided_slice" => self.strided_slice(call)?,
            "reverse" => self.reverse(call)?,
            "tile" | "repeat" => self.tile(call)?,
            _ => return self.making(call),
        };
        Ok(Some(self.term(value)))
    }

    fn making(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let value = match call.name {
            "broadcast_to" => {
                let [x] = self.operands(call)?;
                let shape = self.given_shape(call)?;
                self.emit(call, Op::Broadcast(shape), &[x])?
            }
            "broadcast_to_like" => {
                let [x, like] = self.operands(call)?;
                let shape = self.shape(like);
                self.emit(call, Op::Broadcast(shape), &[x])?
            }
            "zeros" | "ones" => {
                self.check_count(call.at, 0, call.args.len())?;
                let dtype = call.dtype("dtype")?.unwrap_or(DType::F32);
                let shape = self.given_shape(call)?;
                let value = self.scalar(call, dtype, f64::from(u8::from(call.name == "ones")))?;
                self.emit(call, Op::Broadcast(shape), &[value])?
            }
            "zeros_like" | "ones_like" => {
                let [x] = self.operands(call)?;
                self.filled_like(call, x, f64::from(u8::from(call.name == "ones_like")))?
            }
            "full" => {
                let [value] = self.operands(call)?;
                let shape = self.given_shape(call)?;
                let own = self.b.tensor(value).dtype;
                let dtype = call.dtype("dtype")?.unwrap_or(own);
                let value = self.cast(call, value, dtype)?;
                self.emit(call, Op::Broadcast(shape), &[value])?
            }
            "full_like" => {
                let [x, value] = self.operands(call)?;
                let (dtype, shape) = (self.b.tensor(x).dtype, self.shape(x));
                let value = self.cast(call, value, dtype)?;
                self.emit(call, Op::Broadcast(shape), &[value])?
            }
            "arange" => self.arange(call)?,
            "shape_of" => {
                let [x] = self.operands(call)?;
                let dtype = call.dtype("dtype")?.unwrap_or(DType::I32);
                let values = self.shape(x);
                let shape = self.emit(call, Op::Dims { values, scalar: false }, &[])?;
                self.cast(call, shape, dtype)?
            }
            "take" => self.take(call)?,
            "gather" => {
                let [x, indices] = self.operands(call)?;
                let axis = call.int("axis", 0)?;
                let axis = self.axis(call, axis, self.rank(x))?;
                let kind = GatherKind::Elements(axis);
                self.emit(
                    call,
                    Op::Gather { kind, out_of_range: OutOfRange::Raise },
                    &[x, indices],
                )?
            }
            "gather_nd" => self.gather_nd(call)?,
            _ => return Ok(None),
        };
        Ok(Some(self.term(value)))
    }

    /// The attribute `shape`.
    fn given_shape(&mut self, call: &mut OpCall<'_>) -> Result<Vec<DimExpr>> {
        let shape = call.ints("shape")?.ok_or_else(|| call.refuse("needs `shape`"))?;
        if shape.iter().any(|extent| *extent < 0) {
            return Err(call.refuse("an extent is negative"));
        }
        Ok(shape.into_iter().map(DimExpr::i64).collect())
    }

    /// Extents, or 0: as it is, -1: the rest, -2: all that are left, -3: two as one, -4: one as two.
    fn reshape(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let codes = call.ints("newshape")?.ok_or_else(|| call.refuse("needs `newshape`"))?;
        if call.int("allowzero", 0)? != 0 {
            return Err(call.refuse("`allowzero` is not supported"));
        }
        let from = self.shape(x);
        let short = || call.refuse("`newshape` asks for more axes than there are");
        let (mut shape, mut at, mut rest) = (vec![], 0, None);
        let mut codes = codes.into_iter();
        while let Some(code) = codes.next() {
            let next = |at: usize| from.get(at).cloned().ok_or_else(short);
            match code {
                0 => shape.push(next(at)?),
                -1 if rest.is_none() => {
                    rest = Some(shape.len());
                    shape.push(DimExpr::i64(1));
                }
                -2 => {
                    shape.extend(from.iter().skip(at).cloned());
                    at = from.len();
                }
                -3 => {
                    shape.push(next(at)? * next(at + 1)?);
                    at += 1;
                }
                -4 => {
                    let (a, b) = (codes.next().ok_or_else(short)?, codes.next().ok_or_else(short)?);
                    let whole = next(at)?;
                    let part = |a: i64, b: i64| match a {
                        -1 => whole.clone().floordiv(b),
                        _ => DimExpr::i64(a),
                    };
                    if a == 0 || b == 0 || (a < 0 && b < 0) {
                        return Err(call.refuse("`newshape` splits an axis in no way"));
                    }
                    shape.extend([part(a, b), part(b, a)]);
                }
                extent if extent > 0 => shape.push(DimExpr::i64(extent)),
                _ => return Err(call.refuse("`newshape` has a number that is not known")),
            }
            at += 1;
        }
        if let Some(rest) = rest {
            let (all, others) = (dims::product(&from), dims::product(&shape));
            shape[rest] = match others.as_int() {
                Some(0) => return Err(call.refuse("-1 beside an extent of 0")),
                _ => all.floordiv(others),
            };
        }
        let shape = shape.iter().map(dims::simplify).collect();
        self.reshaped(call, x, shape)
    }

    fn squeeze(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let shape = self.shape(x);
        let axes = match call.ints("axis")? {
            Some(axes) => {
                let axes = axes.iter().map(|axis| self.axis(call, *axis, shape.len()));
                axes.collect::<Result<Vec<usize>>>()?
            }
            None => (0..shape.len()).filter(|n| shape[*n].as_int() == Some(1)).collect(),
        };
        if axes.iter().any(|axis| shape[*axis].as_int().is_some_and(|extent| extent != 1)) {
            return Err(call.refuse("an axis is not 1"));
        }
        let left = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        let left = left.map(|(_, dim)| dim.clone()).collect();
        self.reshaped(call, x, left)
    }

    fn stack(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let items = self.tuple_operand(call)?;
        let rank = items.first().map_or(0, |x| self.rank(*x)) + 1;
        let axis = call.int("axis", 0)?;
        let axis = self.axis(call, axis, rank)?;
        let mut wide = vec![];
        for x in items {
            let mut shape = self.shape(x);
            if shape.len() + 1 != rank {
                return Err(call.refuse("tensors of different ranks"));
            }
            shape.insert(axis, DimExpr::i64(1));
            wide.push(self.reshaped(call, x, shape)?);
        }
        self.emit(call, Op::Concat { axis }, &wide)
    }

    /// So many equal parts, or parts that end at some indices.
    fn split(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let [x] = self.operands(call)?;
        let shape = self.shape(x);
        let axis = call.int("axis", 0)?;
        let axis = self.axis(call, axis, shape.len())?;
        let equal = call.is_int("indices_or_sections");
        let given = call.ints("indices_or_sections")?;
        let given = given.ok_or_else(|| call.refuse("needs `indices_or_sections`"))?;
        let Some(extent) = shape[axis].as_int() else {
            return Err(call.refuse("an axis of unknown extent is not supported"));
        };
        let ends: Vec<i64> = match given[..] {
            [parts] if equal => {
                if parts <= 0 || parts > extent.max(1) || extent % parts != 0 {
                    return Err(call.refuse(&format!("{extent} elements in {parts} equal parts")));
                }
                (1..=parts).map(|n| n * (extent / parts)).collect()
            }
            _ => given.into_iter().chain([extent]).collect(),
        };
        let (mut parts, mut begin) = (vec![], 0);
        for end in ends {
            if end < begin || end > extent {
                return Err(call.refuse(&format!("no part from {begin} to {end} of {extent}")));
            }
            parts.push(self.part_of(call, x, axis, (begin, end))?);
            begin = end;
        }
        Ok(self.tuple_term(parts))
    }

    fn part_of(
        &mut self,
        call: &OpCall<'_>,
        x: Value,
        axis: usize,
        (begin, end): (i64, i64),
    ) -> Result<Value> {
        let mut extents = self.shape(x);
        let mut begins = vec![DimExpr::i64(0); extents.len()];
        (begins[axis], extents[axis]) = (DimExpr::i64(begin), DimExpr::i64(end - begin));
        let stride = vec![1; extents.len()];
        self.emit(call, Op::Slice { begin: begins, shape: extents, stride }, &[x])
    }

    fn strided_slice(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let shape = self.shape(x);
        let (begin, end) = (call.ints("begin")?, call.ints("end")?);
        let (Some(begin), Some(end)) = (begin, end) else {
            return Err(call.refuse("needs `begin` and `end`"));
        };
        let strides = call.ints("strides")?.unwrap_or_else(|| vec![1]);
        let by_size = match call.text("slice_mode", "end")? {
            "end" => false,
            "size" => true,
            _ => return Err(call.refuse("a `slice_mode` that is not known")),
        };
        let axes = match call.ints("axes")? {
            Some(axes) => {
                let axes = axes.iter().map(|axis| self.axis(call, *axis, shape.len()));
                axes.collect::<Result<Vec<usize>>>()?
            }
            None => (0..begin.len()).collect(),
        };
        if axes.len() != begin.len() || begin.len() > shape.len() || end.len() > begin.len() {
            return Err(call.refuse("`begin`, `end` and `axes` do not match up"));
        }
        let (mut begins, mut extents) = (vec![DimExpr::i64(0); shape.len()], shape.clone());
        let mut steps = vec![1; shape.len()];
        for (n, axis) in axes.into_iter().enumerate() {
            let step = match strides.get(n).or(strides.first().filter(|_| strides.len() == 1)) {
                Some(step) if !by_size => *step,
                _ => 1,
            };
            let Some(extent) = shape[axis].as_int() else {
                return Err(call.refuse("an axis of unknown extent is not supported"));
            };
            let range = match (end.get(n), by_size) {
                (Some(-1) | None, true) => range(extent, begin[n], extent, 1),
                (Some(size), true) => range(extent, begin[n], begin[n].saturating_add(*size), 1),
                (end, false) => range(extent, begin[n], end.copied().unwrap_or(extent), step),
            };
            let Some((first, count)) = range else { return Err(call.refuse("a stride of 0")) };
            begins[axis] = DimExpr::i64(first);
            (extents[axis], steps[axis]) = (DimExpr::i64(count), step);
        }
        self.emit(call, Op::Slice { begin: begins, shape: extents, stride: steps }, &[x])
    }

    fn reverse(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let shape = self.shape(x);
        let axis = call.int("axis", 0)?;
        let axis = self.axis(call, axis, shape.len())?;
        let (mut begin, mut stride) = (vec![DimExpr::i64(0); shape.len()], vec![1; shape.len()]);
        begin[axis] = dims::simplify(&(shape[axis].clone() - 1));
        stride[axis] = -1;
        self.emit(call, Op::Slice { begin, shape, stride }, &[x])
    }

    /// Copies of the whole along axes (`tile`), or of each element along one (`repeat`).
    fn tile(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let mut shape = self.shape(x);
        let mut counts: Vec<i64>;
        let whole = call.name == "tile";
        if whole {
            counts = call.ints("reps")?.unwrap_or_default();
            while counts.len() < shape.len() {
                counts.insert(0, 1);
            }
            while shape.len() < counts.len() {
                shape.insert(0, DimExpr::i64(1));
            }
        } else {
            counts = vec![1; shape.len()];
            let axis = call.int("axis", 0)?;
            let axis = self.axis(call, axis, shape.len())?;
            counts[axis] = call.int("repeats", 1)?;
        }
        if counts.iter().any(|count| !(0..=1 << 20).contains(count)) {
            return Err(call.refuse("a number of copies that is not supported"));
        }
        let (mut thin, mut wide, mut merged) = (vec![], vec![], vec![]);
        for (dim, count) in shape.iter().zip(&counts) {
            let (one, count) = (DimExpr::i64(1), DimExpr::i64(*count));
            let pair = |a: DimExpr, b: DimExpr| if whole { [a, b] } else { [b, a] };
            thin.extend(pair(one, dim.clone()));
            wide.extend(pair(count.clone(), dim.clone()));
            merged.push(dims::simplify(&(dim.clone() * count)));
        }
        let thin = self.reshaped(call, x, thin)?;
        let wide = self.emit(call, Op::Broadcast(wide), &[thin])?;
        self.reshaped(call, wide, merged)
    }

    /// Indices are clipped to the axis, as Relay's default says; `take` of a negative one is the
    /// first element.
    fn take(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
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
    fn gather_nd(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
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
    fn arange(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let dtype = call.dtype("dtype")?.unwrap_or(DType::F32);
        call.ignore(&["start", "stop", "step"]);
        self.check_count(call.at, 3, call.args.len())?;
        let mut numbers = [0.0; 3];
        for (number, term) in numbers.iter_mut().zip(&call.args) {
            let literal = self.b.as_constant(term.value);
            *number = literal
                .and_then(scalar_of)
                .ok_or_else(|| call.refuse("bounds that are not constants are not supported"))?;
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
}

/// The first element and the number of elements from `begin` to `end` of an axis, as Python
/// counts them.
fn range(extent: i64, begin: i64, end: i64, step: i64) -> Option<(i64, i64)> {
    let from_start = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
    let (begin, end) = (from_start(begin), from_start(end));
    match step {
        0 => None,
        1.. => {
            let (begin, end) = (begin.clamp(0, extent), end.clamp(0, extent));
            let span = (end - begin).max(0);
            Some((begin.min(end), span / step + i64::from(span % step != 0)))
        }
        _ => {
            let (begin, end) = (begin.clamp(-1, extent - 1), end.clamp(-1, extent - 1));
            let (span, step) = ((begin - end).max(0), step.saturating_neg());
            Some((begin.max(0), span / step + i64::from(span % step != 0)))
        }
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
