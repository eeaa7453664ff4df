//! Parts of tensors.

use reflex_tir::Expr as DimExpr;

use super::attrs::OpCall;
use crate::relay::lower::func::{FuncLowerer, Term};
use crate::relay::source::Result;
use crate::{Op, Value, dims};

impl FuncLowerer<'_, '_, '_> {
    /// So many equal parts, or parts that end at some indices.
    pub(super) fn split(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
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

    pub(super) fn strided_slice(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
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

    pub(super) fn reverse(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let shape = self.shape(x);
        let axis = call.int("axis", 0)?;
        let axis = self.axis(call, axis, shape.len())?;
        let (mut begin, mut stride) = (vec![DimExpr::i64(0); shape.len()], vec![1; shape.len()]);
        begin[axis] = dims::simplify(&(shape[axis].clone() - 1));
        stride[axis] = -1;
        self.emit(call, Op::Slice { begin, shape, stride }, &[x])
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
