//! Gradients of operators that pick elements.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::Ranged;

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, GatherKind, Op, OutOfRange, ReduceKind, ScatterKind, ScatterReduce, Unary};

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn gradient(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        Ok(Some(match name {
            "grad.take_backward" => self.take_backward(call)?,
            "grad.nll_loss_backward" => self.nll_loss_backward(call)?,
            _ => return self.pool_gradient(name, call),
        }))
    }

    /// The gradients of what was taken, each added where it was taken.
    fn take_backward(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["output_grad", "x", "indices", "axis", "mode"];
        let args = Args::bind(self.source, call, names)?;
        args.only("mode", &["", "fast", "clip"])?;
        let operands = self.operands(&args, &["output_grad", "x", "indices"])?;
        let (gradient, x, indices) = (operands[0], operands[1], operands[2]);
        let rank = self.rank(x);
        if args.get("axis").is_none() && rank != 1 {
            return Err(self.source.refuse(at, "an axis is needed for more than one dimension"));
        }
        let axis = self.axis(at, args.int("axis", 0)?, rank)?;
        let place = self.along(at, indices, axis, rank)?;
        let shape = self.shape_of(gradient);
        let place = self.emit_value(at, Op::Broadcast(shape), &[place])?;
        let place = self.cast_to(call, place, DType::I64)?;
        let zeros = self.filled(at, self.dtype_of(x), 0.0, self.shape_of(x))?;
        let (kind, reduce) = (ScatterKind::Elements(axis), ScatterReduce::Add);
        let op = Op::Scatter { kind, reduce, out_of_range: OutOfRange::Clamp };
        self.emit1(at, op, &[zeros, place, gradient])
    }

    /// The negative weight of each target class, at that class.
    fn nll_loss_backward(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names =
            &["output_grad", "predictions", "targets", "weights", "reduction", "ignore_index"];
        let args = Args::bind(self.source, call, names)?;
        args.only("reduction", &["none", "sum", "mean"])?;
        let operands = self.operands(&args, &["output_grad", "predictions", "targets"])?;
        let (mut gradient, x, targets) = (operands[0], operands[1], operands[2]);
        let (shape, dtype, rank) = (self.shape_of(targets), self.dtype_of(x), self.rank(x));
        let weight = match args.get("weights") {
            Some(weights) => {
                let weights = self.value(weights)?;
                let kind = GatherKind::Axis(0);
                let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
                self.emit_value(at, op, &[weights, targets])?
            }
            None => self.filled(at, dtype, 1.0, shape.clone())?,
        };
        let ignored = args.int("ignore_index", -100)? as f64;
        let counts = self.emit_binary_const(at, Binary::NotEqual, targets, ignored)?;
        let zero = self.number(at, dtype, 0.0)?;
        let weight = self.emit_value(at, Op::Where, &[counts, weight, zero])?;
        if args.string("reduction", "mean")? == "mean" {
            let axes = (0..shape.len()).collect();
            let op = Op::Reduce { kind: ReduceKind::Sum, axes, keep_dims: false };
            let total = self.emit_value(at, op, &[weight])?;
            gradient = self.emit_binary(at, Binary::Div, gradient, total)?;
        }
        let scaled = self.emit_binary(at, Binary::Mul, gradient, weight)?;
        let scaled = self.unary(at, Unary::Neg, scaled)?;
        // The classes are the second axis, or the only one.
        let axis = usize::from(rank > 1);
        let mut column = shape;
        column.insert(axis.min(column.len()), Expr::i64(1));
        let scaled = self.emit_value(at, Op::Reshape(column.clone()), &[scaled])?;
        let targets = self.emit_value(at, Op::Reshape(column), &[targets])?;
        let count = self.shape_of(x)[axis].clone();
        let classes = self.emit_value(at, Op::Iota { count }, &[])?;
        let classes = self.cast_to(call, classes, self.dtype_of(targets))?;
        let classes = self.along(at, classes, axis, rank)?;
        let same = self.emit_binary(at, Binary::Equal, classes, targets)?;
        self.emit1(at, Op::Where, &[same, scaled, zero])
    }
}
