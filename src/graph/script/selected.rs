//! Results with as many elements as the data says: `R.nonzero`, `R.unique`, `R.dynamic_strided_slice`.
//!
//! The positions that a mask selects are written into a buffer as long as the mask, their number is read as a new
//! symbolic dimension, and the rest is cut off.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{
    Binary, GatherKind, Node, Op, OutOfRange, ReduceKind, ScanKind, ScatterKind, ScatterReduce,
    Unary, Value, dims,
};

/// Slices that `R.unique` compares have at most this many elements.
const MAX_COLUMNS: i64 = 256;

const TAKE: Op = Op::Gather { kind: GatherKind::Axis(0), out_of_range: OutOfRange::Clamp };

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn selection(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        Ok(Some(match name {
            "nonzero" => self.nonzero(call)?,
            "unique" => self.unique(call)?,
            "dynamic_strided_slice" => self.dynamic_strided_slice(call)?,
            _ => return Ok(None),
        }))
    }

    /// The positions, in order, at which a mask `[n]` is true: int64 `[count]`.
    pub(super) fn selected(&mut self, call: &ast::ExprCall, mask: Value) -> Result<Value> {
        let at = call.start();
        let n = self.shape_of(mask)[0].clone();
        let marks = self.cast_to(call, mask, DType::I64)?;
        let sum = Op::Reduce { kind: ReduceKind::Sum, axes: vec![0], keep_dims: false };
        let count = self.emit_value(at, sum, &[marks])?;
        let dim = self.read_dims(count, 1).remove(0);
        let scan = Op::Scan { kind: ScanKind::Sum, axis: 0, exclusive: true, reverse: false };
        let before = self.emit_value(at, scan, &[marks])?;
        // What is not selected goes behind everything.
        let behind =
            self.emit_value(at, Op::Dims { values: vec![n.clone()], scalar: true }, &[])?;
        let place = self.emit_value(at, Op::Where, &[mask, before, behind])?;
        let room = self.zeros(at, dims::simplify(&(n.clone() + 1)))?;
        let positions = self.emit_value(at, Op::Iota { count: n }, &[])?;
        let all = self.written(at, [room, place, positions], ScatterReduce::Replace)?;
        let op = Op::Slice { begin: vec![Expr::i64(0)], shape: vec![dim], stride: vec![1] };
        self.emit_value(at, op, &[all])
    }

    /// The elements of an int64 tensor as new symbolic dimensions.
    fn read_dims(&mut self, value: Value, count: usize) -> Vec<Expr> {
        let dims: Vec<Expr> = (0..count).map(|_| self.dims.fresh("selected")).collect();
        self.sync_dims();
        let ty = self.b.ty(value).clone();
        self.b.bind_values(Node::MatchShape { value, dims: dims.clone() }, vec![ty]);
        dims
    }

    /// A slice whose bounds are tensors, counted from the end where they are negative, with steps that are not zero.
    fn dynamic_strided_slice(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "begin", "end", "strides"])?;
        let operands = self.operands(&args, &["x", "begin", "end", "strides"])?;
        let (mut x, steps) = (operands[0], operands[3]);
        let shape = self.shape_of(x);
        let rank = Expr::i64(shape.len() as i64);
        if operands[1..].iter().any(|v| self.shape_of(*v) != std::slice::from_ref(&rank)) {
            return Err(self.source.refuse(at, "a slice has bounds and a step for each axis"));
        }
        let count = shape.len();
        let extents = Op::Dims { values: shape, scalar: false };
        let extents = self.emit_value(at, extents, &[])?;
        let back = self.emit_binary_const(at, Binary::Less, steps, 0.0)?;
        let (zero, before) =
            (self.number(at, DType::I64, 0.0)?, self.number(at, DType::I64, -1.0)?);
        let last = self.emit_binary_const(at, Binary::Sub, extents, 1.0)?;
        let low = self.emit_value(at, Op::Where, &[back, before, zero])?;
        let high = self.emit_value(at, Op::Where, &[back, last, extents])?;
        let mut bounds = vec![];
        for bound in &operands[1..3] {
            let negative = self.emit_binary_const(at, Binary::Less, *bound, 0.0)?;
            let counted = self.emit_binary(at, Binary::Add, *bound, extents)?;
            let bound = self.emit_value(at, Op::Where, &[negative, counted, *bound])?;
            let bound = self.emit_binary(at, Binary::Max, bound, low)?;
            bounds.push(self.emit_binary(at, Binary::Min, bound, high)?);
        }
        let down = self.emit_binary(at, Binary::Sub, bounds[0], bounds[1])?;
        let up = self.emit_binary(at, Binary::Sub, bounds[1], bounds[0])?;
        let length = self.emit_value(at, Op::Where, &[back, down, up])?;
        let step = self.unary(at, Unary::Abs, steps)?;
        let step = self.emit_binary_const(at, Binary::Max, step, 1.0)?;
        let length = self.emit_binary(at, Binary::Add, length, step)?;
        let length = self.emit_binary_const(at, Binary::Sub, length, 1.0)?;
        let length = self.emit_binary(at, Binary::Div, length, step)?;
        let length = self.emit_binary_const(at, Binary::Max, length, 0.0)?;
        for (axis, dim) in self.read_dims(length, count).into_iter().enumerate() {
            let begin = vec![Expr::i64(axis as i64)];
            let one = Op::Slice { begin, shape: vec![Expr::i64(1)], stride: vec![1] };
            let (first, step) = (
                self.emit_value(at, one.clone(), &[bounds[0]])?,
                self.emit_value(at, one, &[steps])?,
            );
            let index = self.emit_value(at, Op::Iota { count: dim }, &[])?;
            let index = self.emit_binary(at, Binary::Mul, index, step)?;
            let index = self.emit_binary(at, Binary::Add, index, first)?;
            let kind = GatherKind::Axis(axis);
            let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
            x = self.emit_value(at, op, &[x, index])?;
        }
        Ok(ParsedValue::Value(x))
    }

    fn zeros(&mut self, at: TextSize, count: Expr) -> Result<Value> {
        let zero = self.number(at, DType::I64, 0.0)?;
        self.emit_value(at, Op::Broadcast(vec![count]), &[zero])
    }

    /// A buffer with values at places: `[buffer, places, values]`.
    fn written(
        &mut self,
        at: TextSize,
        operands: [Value; 3],
        reduce: ScatterReduce,
    ) -> Result<Value> {
        let (kind, out_of_range) = (ScatterKind::Elements(0), OutOfRange::Clamp);
        self.emit_value(at, Op::Scatter { kind, reduce, out_of_range }, &operands)
    }

    /// The indices of the elements that are not zero, a row for each axis. A scalar has one axis.
    fn nonzero(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x"])?;
        let x = self.value(args.need("x")?)?;
        let mut shape = self.shape_of(x);
        if shape.is_empty() {
            shape.push(Expr::i64(1));
        }
        let mut mask = self.flat(at, x)?;
        if self.dtype_of(x) != DType::BOOL {
            mask = self.emit_binary_const(at, Binary::NotEqual, mask, 0.0)?;
        }
        let selected = self.selected(call, mask)?;
        let mut rows = vec![];
        for axis in 0..shape.len() {
            let inner = dims::simplify(&dims::product(&shape[axis + 1..]).max(1));
            let extent = dims::simplify(&shape[axis].clone().max(1));
            let [inner, extent] =
                [inner, extent].map(|dim| Op::Dims { values: vec![dim], scalar: true });
            let inner = self.emit_value(at, inner, &[])?;
            let extent = self.emit_value(at, extent, &[])?;
            let row = self.emit_binary(at, Binary::Div, selected, inner)?;
            let row = self.emit_binary(at, Binary::FloorMod, row, extent)?;
            rows.push(self.along(at, row, 1, 2)?);
        }
        self.emit1(at, Op::Concat { axis: 0 }, &rows)
    }

    /// Different elements, or slices along an axis, in order or by first occurrence; where each was first, where each
    /// element went, and how many there are of each.
    fn unique(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["x", "sorted", "return_index", "return_inverse", "return_counts", "axis"];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("x")?)?;
        let (rows, perm) = match args.get("axis") {
            None => (self.flat(at, x)?, vec![0]),
            Some(_) => {
                let rank = self.rank(x);
                let axis = self.axis(at, args.int("axis", 0)?, rank)?;
                let mut perm: Vec<usize> = (0..rank).collect();
                perm.remove(axis);
                perm.insert(0, axis);
                (self.emit_value(at, Op::Transpose(perm.clone()), &[x])?, perm)
            }
        };
        let n = self.shape_of(rows)[0].clone();
        let (source, first) = self.in_order(call, rows)?;
        let marks = self.cast_to(call, first, DType::I64)?;
        let scan = Op::Scan { kind: ScanKind::Sum, axis: 0, exclusive: false, reverse: false };
        let group = self.emit_value(at, scan, &[marks])?;
        let group = self.emit_binary_const(at, Binary::Sub, group, 1.0)?;
        let selected = self.selected(call, first)?;
        let count = self.shape_of(selected)[0].clone();
        let mut indices = self.emit_value(at, TAKE, &[source, selected])?;
        let room = self.zeros(at, n.clone())?;
        let mut inverse = self.written(at, [room, source, group], ScatterReduce::Replace)?;
        let one = self.number(at, DType::I64, 1.0)?;
        let ones = self.emit_value(at, Op::Broadcast(vec![n]), &[one])?;
        let room = self.zeros(at, count.clone())?;
        let mut counts = self.written(at, [room, group, ones], ScatterReduce::Add)?;
        if !args.boolean("sorted", true)? {
            // By first occurrence instead.
            let op = Op::TopK { axis: 0, k: count.clone(), largest: false };
            let order = self.emit(at, op, &[indices])?[1];
            indices = self.emit_value(at, TAKE, &[indices, order])?;
            counts = self.emit_value(at, TAKE, &[counts, order])?;
            let positions = self.emit_value(at, Op::Iota { count }, &[])?;
            let places = self.written(at, [room, order, positions], ScatterReduce::Replace)?;
            inverse = self.emit_value(at, TAKE, &[places, inverse])?;
        }
        let values = self.emit_value(at, TAKE, &[rows, indices])?;
        let mut back = vec![0; perm.len()];
        perm.iter().enumerate().for_each(|(to, from)| back[*from] = to);
        let values = self.emit_value(at, Op::Transpose(back), &[values])?;
        let mut results = vec![values];
        for (name, result) in
            [("return_index", indices), ("return_inverse", inverse), ("return_counts", counts)]
        {
            if args.boolean(name, false)? {
                results.push(result);
            }
        }
        Ok(match results[..] {
            [one] => ParsedValue::Value(one),
            _ => ParsedValue::Values(results),
        })
    }

    /// The slices along the first axis in lexicographic order, equal ones as they were: where each came from, and
    /// whether it differs from the one before.
    fn in_order(&mut self, call: &ast::ExprCall, x: Value) -> Result<(Value, Value)> {
        let at = call.start();
        let shape = self.shape_of(x);
        let (n, columns) = (shape[0].clone(), dims::product(&shape[1..]));
        let Some(count) = columns.as_int().filter(|count| *count <= MAX_COLUMNS) else {
            let message = format!("`R.unique` compares slices of at most {MAX_COLUMNS} elements");
            return Err(self.source.refuse(at, message));
        };
        let matrix = self.emit_value(at, Op::Reshape(vec![n.clone(), columns]), &[x])?;
        let mut source = self.emit_value(at, Op::Iota { count: n.clone() }, &[])?;
        // A stable sort by each column, the last one first.
        for column in (0..count).rev() {
            let begin = vec![Expr::i64(0), Expr::i64(column)];
            let op = Op::Slice { begin, shape: vec![n.clone(), Expr::i64(1)], stride: vec![1, 1] };
            let keys = self.emit_value(at, op, &[matrix])?;
            let keys = self.emit_value(at, Op::Reshape(vec![n.clone()]), &[keys])?;
            let keys = self.emit_value(at, TAKE, &[keys, source])?;
            let op = Op::TopK { axis: 0, k: n.clone(), largest: false };
            let order = self.emit(at, op, &[keys])?[1];
            source = self.emit_value(at, TAKE, &[source, order])?;
        }
        let rows = self.emit_value(at, TAKE, &[matrix, source])?;
        let positions = self.emit_value(at, Op::Iota { count: n }, &[])?;
        let before = self.emit_binary_const(at, Binary::Sub, positions, 1.0)?;
        let before = self.emit_binary_const(at, Binary::Max, before, 0.0)?;
        let previous = self.emit_value(at, TAKE, &[rows, before])?;
        let mut differs = self.emit_binary(at, Binary::NotEqual, rows, previous)?;
        if self.dtype_of(x).is_float() {
            // NaN is one value.
            let a = self.unary(at, Unary::IsNan, rows)?;
            let b = self.unary(at, Unary::IsNan, previous)?;
            let both = self.emit_binary(at, Binary::And, a, b)?;
            let not_both = self.unary(at, Unary::Not, both)?;
            differs = self.emit_binary(at, Binary::And, differs, not_both)?;
        }
        let differs = self.cast_to(call, differs, DType::I64)?;
        let sum = Op::Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: false };
        let different = self.emit_value(at, sum, &[differs])?;
        let different = self.emit_binary_const(at, Binary::Greater, different, 0.0)?;
        let start = self.emit_binary_const(at, Binary::Equal, positions, 0.0)?;
        Ok((source, self.emit_binary(at, Binary::Or, different, start)?))
    }
}
