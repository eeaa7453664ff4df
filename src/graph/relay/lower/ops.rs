//! Operators: Relay's names with their attributes, as operators of graph IR.
//!
//! An attribute that an operator does not read is refused: nothing is skipped silently.

pub(super) mod attrs;
mod elementwise;
mod index;
mod layout;
mod linear;
mod nn;
mod reduce;
mod slice;
mod spatial;

use reflex_tir::{DType, Expr as DimExpr};

use super::func::{FuncLowerer, Term};
use super::types::Ty;
use crate::relay::source::Result;
use crate::script::consts::Number;
use crate::{Binary, Op, Unary, Value};

use attrs::OpCall;

impl FuncLowerer<'_, '_, '_> {
    /// Lowers a call of an operator.
    pub(super) fn operator(&mut self, mut call: OpCall<'_>) -> Result<Term> {
        let families = [
            Self::elementwise,
            Self::layout,
            Self::linear,
            Self::nn,
            Self::reduction,
            Self::spatial,
        ];
        for family in families {
            if let Some(term) = family(self, &mut call)? {
                call.check_attrs()?;
                return Ok(term);
            }
        }
        Err(self.refuse(call.at, format!("operator `{}` is not supported", call.name)))
    }

    /// The operand of a number, as a tensor.
    fn operand(&mut self, call: &OpCall<'_>, index: usize) -> Result<Value> {
        match call.args.get(index) {
            Some(term) => self.tensor(call.at, term),
            None => {
                let text = format!("`{}` has no operand {index}", call.name);
                Err(self.refuse(call.at, text))
            }
        }
    }

    /// All operands, which have to be so many.
    fn operands<const N: usize>(&mut self, call: &OpCall<'_>) -> Result<[Value; N]> {
        self.check_count(call.at, N, call.args.len())?;
        let mut values = vec![];
        for index in 0..N {
            values.push(self.operand(call, index)?);
        }
        Ok(values.try_into().expect("one for each"))
    }

    /// The tensors of the only operand, a tuple.
    fn tuple_operand(&mut self, call: &OpCall<'_>) -> Result<Vec<Value>> {
        self.check_count(call.at, 1, call.args.len())?;
        let tuple = call.args[0].clone();
        match self.shallow(&tuple.ty) {
            Ty::Tuple(types) => (0..types.len())
                .map(|n| {
                    let item = self.item(&tuple, n, &types);
                    self.tensor(call.at, &item)
                })
                .collect(),
            other => {
                let found = self.cx.show(&other);
                Err(self.refuse(call.at, format!("expected a tuple of tensors, found {found}")))
            }
        }
    }

    fn emit(&mut self, call: &OpCall<'_>, op: Op, args: &[Value]) -> Result<Value> {
        self.b.set_source(call.name);
        let result = self.b.emit1(op, args);
        self.b.set_source("");
        result.map_err(|e| self.refuse(call.at, format!("`{}`: {e}", call.name)))
    }

    fn emit_term(&mut self, call: &OpCall<'_>, op: Op, args: &[Value]) -> Result<Option<Term>> {
        let value = self.emit(call, op, args)?;
        Ok(Some(self.term(value)))
    }

    fn unary(&mut self, call: &OpCall<'_>, f: Unary, x: Value) -> Result<Value> {
        self.emit(call, Op::Unary(f), &[x])
    }

    fn binary(&mut self, call: &OpCall<'_>, f: Binary, a: Value, b: Value) -> Result<Value> {
        self.emit(call, Op::Binary(f), &[a, b])
    }

    /// An operator on a tensor and a number of its type.
    fn with_number(&mut self, call: &OpCall<'_>, f: Binary, x: Value, y: f64) -> Result<Value> {
        let y = self.scalar(call, self.b.tensor(x).dtype, y)?;
        self.binary(call, f, x, y)
    }

    /// A scalar constant.
    fn scalar(&mut self, call: &OpCall<'_>, dtype: DType, value: f64) -> Result<Value> {
        let whole = value.trunc() == value && !dtype.is_float();
        let number = if whole { Number::Int(value as i128) } else { Number::Float(value) };
        Ok(self.filled(call.at, dtype, number)?.value)
    }

    fn shape(&self, x: Value) -> Vec<DimExpr> {
        self.b.tensor(x).shape.clone()
    }

    fn rank(&self, x: Value) -> usize {
        self.b.tensor(x).shape.len()
    }

    /// An axis that may count from the end.
    fn axis(&self, call: &OpCall<'_>, axis: i64, rank: usize) -> Result<usize> {
        let from_start = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        match usize::try_from(from_start) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => {
                let text = format!("`{}`: axis {axis} of a tensor of rank {rank}", call.name);
                Err(self.refuse(call.at, text))
            }
        }
    }

    /// A tuple of tensors.
    fn tuple_term(&mut self, values: Vec<Value>) -> Option<Term> {
        let ty = Ty::Tuple(values.iter().map(|v| self.tensor_ty(*v)).collect());
        let value = self.tuple(values);
        Some(Term { value, ty })
    }

    /// The tensor under another shape.
    fn reshaped(&mut self, call: &OpCall<'_>, x: Value, shape: Vec<DimExpr>) -> Result<Value> {
        self.emit(call, Op::Reshape(shape), &[x])
    }

    /// A 1-D tensor, to be broadcast along one axis of a tensor of this rank.
    fn along(&mut self, call: &OpCall<'_>, v: Value, axis: usize, rank: usize) -> Result<Value> {
        let own = self.shape(v);
        let [count] = &own[..] else {
            let text = format!("`{}`: a parameter per channel has one axis", call.name);
            return Err(self.refuse(call.at, text));
        };
        let mut shape = vec![DimExpr::i64(1); rank];
        shape[axis] = count.clone();
        self.reshaped(call, v, shape)
    }
}
