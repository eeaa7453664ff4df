//! Reductions, and orders along an axis.

use reflex_tir::{DType, Expr as DimExpr};

use super::attrs::OpCall;
use crate::relay::lower::func::{FuncLowerer, Term};

use crate::relay::source::Result;
use crate::{ArgReduceKind, Op, ReduceKind, ScanKind, Value};

/// Reductions.
const REDUCE: [(&str, ReduceKind); 5] = [
    ("sum", ReduceKind::Sum),
    ("mean", ReduceKind::Mean),
    ("max", ReduceKind::Max),
    ("min", ReduceKind::Min),
    ("prod", ReduceKind::Prod),
];

impl FuncLowerer<'_, '_, '_> {
    pub(super) fn reduction(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        if let Some((_, kind)) = REDUCE.iter().find(|(name, _)| *name == call.name) {
            let [x] = self.operands(call)?;
            let axes = self.axes(call, self.rank(x))?;
            let keep_dims = call.flag("keepdims", false)?;
            return self.emit_term(call, Op::Reduce { kind: *kind, axes, keep_dims }, &[x]);
        }
        match call.name {
            "argmax" => self.arg_reduce(call, ArgReduceKind::Max).map(Some),
            "argmin" => self.arg_reduce(call, ArgReduceKind::Min).map(Some),
            "cumsum" => self.cumsum(call).map(Some),
            "topk" => self.topk(call),
            _ => Ok(None),
        }
    }

    /// `axis` (all when it is absent), or with `exclude` the others.
    fn axes(&mut self, call: &mut OpCall<'_>, rank: usize) -> Result<Vec<usize>> {
        let given = call.ints("axis")?;
        let exclude = call.flag("exclude", false)?;
        let Some(given) = given else { return Ok((0..rank).collect()) };
        let axes = given.iter().map(|axis| self.axis(call, *axis, rank));
        let axes = axes.collect::<Result<Vec<usize>>>()?;
        Ok((0..rank).filter(|axis| axes.contains(axis) != exclude).collect())
    }

    /// Relay's indices are int32.
    fn arg_reduce(&mut self, call: &mut OpCall<'_>, kind: ArgReduceKind) -> Result<Term> {
        let [x] = self.operands(call)?;
        let rank = self.rank(x);
        let axes = self.axes(call, rank)?;
        let keep_dims = call.flag("keepdims", false)?;
        let select_last = call.flag("select_last_index", false)?;
        let (x, axis) = match axes[..] {
            [axis] => (x, axis),
            _ if axes.len() == rank && !keep_dims => {
                let count = crate::dims::product(&self.shape(x));
                (self.reshaped(call, x, vec![count])?, 0)
            }
            _ => return Err(call.refuse("some of several axes are not supported")),
        };
        let op = Op::ArgReduce { kind, axis, keep_dims, select_last };
        let indices = self.emit(call, op, &[x])?;
        let value = self.cast(call, indices, DType::I32)?;
        Ok(self.term(value))
    }

    fn cumsum(&mut self, call: &mut OpCall<'_>) -> Result<Term> {
        let [mut x] = self.operands(call)?;
        if let Some(dtype) = call.dtype("dtype")? {
            x = self.cast(call, x, dtype)?;
        }
        let exclusive = call.flag("exclusive", false)?;
        if !call.has("axis") {
            let count = crate::dims::product(&self.shape(x));
            x = self.reshaped(call, x, vec![count])?;
        }
        let axis = call.int("axis", 0)?;
        let axis = self.axis(call, axis, self.rank(x))?;
        let scan = Op::Scan { kind: ScanKind::Sum, axis, exclusive, reverse: false };
        let value = self.emit(call, scan, &[x])?;
        Ok(self.term(value))
    }

    /// Values and indices of the extremes.
    fn topk(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let [x] = self.operands(call)?;
        let axis = call.int("axis", -1)?;
        let axis = self.axis(call, axis, self.rank(x))?;
        let k = match call.int("k", 1)? {
            k if k > 0 => DimExpr::i64(k),
            _ => self.shape(x)[axis].clone(),
        };
        let largest = !call.flag("is_ascend", false)?;
        let dtype = call.dtype("dtype")?.unwrap_or(DType::I32);
        let kind = call.text("ret_type", "both")?;
        let outputs = self.b.emit(Op::TopK { axis, k, largest }, &[x]);
        let outputs: Vec<Value> = outputs.map_err(|e| call.refuse(&e.to_string()))?;
        let indices = self.cast(call, outputs[1], dtype)?;
        Ok(match kind {
            "values" => Some(self.term(outputs[0])),
            "indices" => Some(self.term(indices)),
            _ => self.tuple_term(vec![outputs[0], indices]),
        })
    }
}
