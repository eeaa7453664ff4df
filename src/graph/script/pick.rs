//! Operators that compute the indices by which they pick elements.

use reflex_tir::{CmpOp, DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{
    Binary, GatherKind, Op, OutOfRange, ReduceKind, ScatterKind, ScatterReduce, Value, dims,
};

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn pick(&mut self, name: &str, call: &ast::ExprCall) -> Result<Option<ParsedValue>> {
        Ok(Some(match name {
            "index_tensor" => self.index_tensor(call)?,
            "index_put" => self.index_put(call)?,
            "slice_scatter" => self.slice_scatter(call)?,
            "reverse_sequence" => self.reverse_sequence(call)?,
            "bucketize" => self.bucketize(call)?,
            "median" => self.median(call)?,
            "meshgrid" => self.meshgrid(call)?,
            "eye" | "eye_like" => self.eye(name, call)?,
            _ => return Ok(None),
        }))
    }

    /// The shape to which tensors broadcast together.
    fn common_shape(&self, at: TextSize, values: &[Value]) -> Result<Vec<Expr>> {
        let rank = values.iter().map(|v| self.rank(*v)).max().unwrap_or(0);
        let mut common = vec![Expr::i64(1); rank];
        for shape in values.iter().map(|v| self.shape_of(*v)) {
            let skipped = rank - shape.len();
            for (own, dim) in common[skipped..].iter_mut().zip(shape) {
                match (own.as_int(), dim.as_int()) {
                    (_, Some(1)) => {}
                    (Some(1), _) => *own = dim,
                    _ if dims::equal(own, &dim) == Some(true) => {}
                    _ => return Err(self.source.refuse(at, "the indices do not broadcast")),
                }
            }
        }
        Ok(common)
    }

    /// Coordinates along a last axis from one tensor of indices per axis, and their shape.
    fn coordinates(
        &mut self,
        call: &ast::ExprCall,
        indices: &[Value],
    ) -> Result<(Value, Vec<Expr>)> {
        let at = call.start();
        let common = self.common_shape(at, indices)?;
        let mut column = common.clone();
        column.push(Expr::i64(1));
        let mut parts = vec![];
        for index in indices {
            let index = self.cast_to(call, *index, DType::I64)?;
            let index = self.emit_value(at, Op::Broadcast(common.clone()), &[index])?;
            parts.push(self.emit_value(at, Op::Reshape(column.clone()), &[index])?);
        }
        let axis = common.len();
        Ok((self.emit_value(at, Op::Concat { axis }, &parts)?, common))
    }

    fn index_tensor(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["data", "indices"])?;
        let x = self.value(args.need("data")?)?;
        let indices = self.values(args.need("indices")?)?;
        if indices.is_empty() {
            return Err(self.source.unsupported(call));
        }
        let (coordinates, _) = self.coordinates(call, &indices)?;
        let kind = GatherKind::Nd { batch_dims: 0 };
        let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
        self.emit1(call.start(), op, &[x, coordinates])
    }

    fn index_put(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "indices", "values", "accumulate"])?;
        let operands = self.operands(&args, &["data", "values"])?;
        let indices = self.values(args.need("indices")?)?;
        if indices.is_empty() || indices.len() != self.rank(operands[0]) {
            return Err(self.source.refuse(at, "`R.index_put` takes one index for each axis"));
        }
        let (coordinates, shape) = self.coordinates(call, &indices)?;
        let values = self.emit_value(at, Op::Broadcast(shape), &[operands[1]])?;
        let reduce = match args.boolean("accumulate", false)? {
            true => ScatterReduce::Add,
            false => ScatterReduce::Replace,
        };
        let (kind, out_of_range) = (ScatterKind::Nd, OutOfRange::Clamp);
        let op = Op::Scatter { kind, reduce, out_of_range };
        self.emit1(at, op, &[operands[0], coordinates, values])
    }

    /// Replaces the elements of a slice, whose number is that of the source.
    fn slice_scatter(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["input_tensor", "src", "start", "end", "step", "axis"];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["input_tensor", "src"])?;
        let (x, source) = (operands[0], operands[1]);
        let axis = self.axis(at, args.int("axis", 0)?, self.rank(x))?;
        let (start, step) = (args.int("start", 0)?, args.int("step", 1)?);
        args.need("end")?;
        let end = args.int("end", 0)?;
        if start < 0 || step < 1 || end < start {
            return Err(self.source.refuse(at, "the bounds of the slice do not rise from zero"));
        }
        let shape = self.shape_of(source);
        let Some(count) = shape.get(axis).cloned() else {
            return Err(self.source.unsupported(call));
        };
        let end = self.shape_of(x)[axis].clone().min(end);
        let fits = count.clone() * step - (step - 1) + start;
        if dims::decide(CmpOp::Le, &dims::simplify(&fits), &dims::simplify(&end)) != Some(true) {
            return Err(self.source.refuse(at, "the slice is shorter than its source"));
        }
        let index = self.emit_value(at, Op::Iota { count }, &[])?;
        let index = self.emit_binary_const(at, Binary::Mul, index, step as f64)?;
        let index = self.emit_binary_const(at, Binary::Add, index, start as f64)?;
        let index = self.along(at, index, axis, shape.len())?;
        let index = self.emit_value(at, Op::Broadcast(shape), &[index])?;
        let op = Op::Scatter {
            kind: ScatterKind::Elements(axis),
            reduce: ScatterReduce::Replace,
            out_of_range: OutOfRange::Clamp,
        };
        self.emit1(at, op, &[x, index, source])
    }

    /// Element `i` of a sequence of `n` is element `n - 1 - i`; what lies behind stays.
    fn reverse_sequence(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["data", "seq_lengths", "seq_axis", "batch_axis"];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["data", "seq_lengths"])?;
        let (x, shape) = (operands[0], self.shape_of(operands[0]));
        let along = self.axis(at, args.int("seq_axis", 1)?, shape.len())?;
        let batch = self.axis(at, args.int("batch_axis", 0)?, shape.len())?;
        let lengths = self.cast_to(call, operands[1], DType::I64)?;
        let lengths = self.along(at, lengths, batch, shape.len())?;
        let index = self.emit_value(at, Op::Iota { count: shape[along].clone() }, &[])?;
        let index = self.along(at, index, along, shape.len())?;
        let last = self.emit_binary_const(at, Binary::Sub, lengths, 1.0)?;
        let mirrored = self.emit_binary(at, Binary::Sub, last, index)?;
        let within = self.emit_binary(at, Binary::Less, index, lengths)?;
        let index = self.emit_value(at, Op::Where, &[within, mirrored, index])?;
        let index = self.emit_value(at, Op::Broadcast(shape), &[index])?;
        let kind = GatherKind::Elements(along);
        self.emit1(at, Op::Gather { kind, out_of_range: OutOfRange::Clamp }, &[x, index])
    }

    /// The number of boundaries below each element.
    fn bucketize(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["input_tensor", "boundaries", "out_int32", "right"];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["input_tensor", "boundaries"])?;
        let mut shape = self.shape_of(operands[0]);
        shape.push(Expr::i64(1));
        let axis = shape.len() - 1;
        let x = self.emit_value(at, Op::Reshape(shape), &[operands[0]])?;
        let boundaries = self.along(at, operands[1], axis, axis + 1)?;
        let below = match args.boolean("right", false)? {
            true => Binary::LessEqual,
            false => Binary::Less,
        };
        let below = self.emit_binary(at, below, boundaries, x)?;
        let dtype = if args.boolean("out_int32", false)? { DType::I32 } else { DType::I64 };
        let counts = self.cast_to(call, below, dtype)?;
        let op = Op::Reduce { kind: ReduceKind::Sum, axes: vec![axis], keep_dims: false };
        self.emit1(at, op, &[counts])
    }

    /// The lower of the middle elements, and along an axis also where it is.
    fn median(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "axis", "keepdims"])?;
        let mut x = self.value(args.need("x")?)?;
        let keep = args.boolean("keepdims", false)?;
        let axes = args.ints("axis")?;
        let axis = match axes.as_deref() {
            Some([axis]) => self.axis(at, *axis, self.rank(x))?,
            None if !keep => {
                x = self.flat(at, x)?;
                0
            }
            _ => return Err(self.source.unsupported(call)),
        };
        let mut shape = self.shape_of(x);
        let k = shape[axis].clone();
        let sorted = self.emit(at, Op::TopK { axis, k: k.clone(), largest: false }, &[x])?;
        let mut begin = vec![Expr::i64(0); shape.len()];
        begin[axis] = dims::simplify(&(k - 1).floordiv(2));
        shape[axis] = Expr::i64(1);
        let stride = vec![1; shape.len()];
        let middle = Op::Slice { begin, shape: shape.clone(), stride };
        if !keep {
            shape.remove(axis);
        }
        let mut results = vec![];
        for sorted in sorted {
            let one = self.emit_value(at, middle.clone(), &[sorted])?;
            results.push(self.emit_value(at, Op::Reshape(shape.clone()), &[one])?);
        }
        Ok(match axes {
            Some(_) => ParsedValue::Values(results),
            None => ParsedValue::Value(results[0]),
        })
    }

    fn meshgrid(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["tensors", "indexing"])?;
        // TVM gives the results of `xy` the type of `ij`.
        args.only("indexing", &["ij"])?;
        let parts = self.values(args.need("tensors")?)?;
        let rank = parts.len();
        let mut wide = vec![];
        for (axis, part) in parts.into_iter().enumerate() {
            wide.push(self.along(at, part, axis, rank)?);
        }
        let shape = self.common_shape(at, &wide)?;
        let grids =
            wide.into_iter().map(|v| self.emit_value(at, Op::Broadcast(shape.clone()), &[v]));
        Ok(ParsedValue::Values(grids.collect::<Result<_>>()?))
    }

    /// Ones on a diagonal.
    fn eye(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let (args, rows, columns, like) = match name {
            "eye" => {
                let args = Args::bind(self.source, call, &["n", "m", "k", "dtype"])?;
                let rows = self.dim_of(args.need("n")?)?;
                let columns = args.get("m").map(|e| self.dim_of(e)).transpose()?;
                let columns = columns.unwrap_or_else(|| rows.clone());
                (args, rows, columns, DType::F32)
            }
            _ => {
                let args = Args::bind(self.source, call, &["x", "k", "dtype"])?;
                let x = self.value(args.need("x")?)?;
                match &self.shape_of(x)[..] {
                    [rows, columns] => (args, rows.clone(), columns.clone(), self.dtype_of(x)),
                    _ => return Err(self.source.unsupported(call)),
                }
            }
        };
        let dtype = self.dtype_or(&args, "dtype", like)?;
        let row = self.emit_value(at, Op::Iota { count: rows }, &[])?;
        let row = self.emit_binary_const(at, Binary::Add, row, args.int("k", 0)? as f64)?;
        let row = self.along(at, row, 0, 2)?;
        let column = self.emit_value(at, Op::Iota { count: columns }, &[])?;
        let column = self.along(at, column, 1, 2)?;
        let on = self.emit_binary(at, Binary::Equal, row, column)?;
        self.emit1(at, Op::Cast(dtype), &[on])
    }
}
