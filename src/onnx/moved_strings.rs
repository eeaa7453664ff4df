//! Data movement of strings: instead of the strings, an operator moves their positions, by which the
//! strings are gathered then. So every operator that moves elements moves strings too.

use reflex_graph::{Op, PadMode, dims};
use reflex_tir::{DType, Expr};

use crate::call::{Call, SHAPES};
use crate::context::{ImportContext, Operator};
use crate::error::{Result, invalid};
use crate::value::{OnnxValue, Tensor};

impl ImportContext<'_> {
    /// Calls an operator with the positions of strings in place of them.
    pub fn move_strings(&mut self, operator: Operator, mut call: Call) -> Result<Vec<OnnxValue>> {
        let mut tables: Vec<Tensor> = vec![];
        let mut start = Expr::i64(0);
        for input in &mut call.inputs {
            let Some(OnnxValue::Strings(bytes)) = input else { continue };
            let last = bytes.rank() - 1;
            let shape = bytes.shape()[..last].to_vec();
            let count = dims::simplify(&dims::product(&shape));
            let table = self.reshape(bytes, &[count.clone(), bytes.shape()[last].clone()])?;
            let places = self.iota(&count)?;
            let places = self.add(&places, &Tensor::dim(&start))?;
            let places = self.reshape(&places, &shape)?;
            tables.push(table);
            start = dims::simplify(&(start + count));
            *input = Some(OnnxValue::Tensor(places));
        }
        let outputs = operator(self, &call)?;
        call.check_attributes()?;
        if SHAPES.contains(&call.node.op_type.as_str()) {
            return Ok(outputs);
        }
        let table = self.beside(&tables)?;
        let strings = |cx: &mut Self, output: OnnxValue| match output {
            OnnxValue::Tensor(places) => Ok(OnnxValue::Strings(cx.take(&table, &places, 0)?)),
            _ => Err(invalid("a result that is not a tensor")),
        };
        outputs.into_iter().map(|output| strings(self, output)).collect()
    }

    /// Strings below each other, all as wide as the widest.
    pub fn beside(&mut self, tables: &[Tensor]) -> Result<Tensor> {
        let wide = self.equally_wide(tables)?;
        self.concat(&wide, 0)
    }

    /// Strings, all as wide as the widest.
    pub fn equally_wide(&mut self, tables: &[Tensor]) -> Result<Vec<Tensor>> {
        let widths = tables.iter().map(|t| t.shape()[t.rank() - 1].clone());
        let width = widths.reduce(|a, b| a.max(b)).ok_or_else(|| invalid("no strings"))?;
        let width = dims::simplify(&width);
        tables.iter().map(|t| self.widened(t, &width)).collect()
    }

    /// Strings with zeros up to a width, which is no less than their own.
    pub fn widened(&mut self, x: &Tensor, width: &Expr) -> Result<Tensor> {
        let last = x.rank() - 1;
        let own = x.shape()[last].clone();
        let missing = dims::simplify(&(width.clone() - own));
        if missing.as_int() == Some(0) {
            return Ok(x.clone());
        }
        let before = vec![Expr::i64(0); x.rank()];
        let mut after = before.clone();
        after[last] = missing;
        let zero = self.num(0.0, DType::U8)?;
        let wide = self.op(Op::Pad { mode: PadMode::Constant, before, after }, &[x, &zero])?;
        let mut shape = wide.shape().to_vec();
        shape[last] = width.clone();
        // The sum of the two is the width, however it is written.
        self.reshape(&wide, &shape)
    }
}
