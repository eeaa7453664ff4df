//! Operators that move or make elements without computing: shapes, slices, fills.

use reflex_tir::{CmpOp, DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::{Ranged, TextSize};

use super::args::{Args, elements, int, ints};
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, Node, Op, Type, Value, dims};

/// An axis that a broadcast inserts.
struct NewAxis {
    at: usize,
    count: i64,
}

impl FuncParser<'_, '_> {
    pub(super) fn movement(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        match name {
            "reshape" => self.reshape(call),
            "broadcast_to" => {
                let args = Args::bind(self.source, call, &["x", "shape"])?;
                let x = self.value(args.need("x")?)?;
                let shape = self.dims_of(args.need("shape")?)?;
                self.emit1(at, Op::Broadcast(shape), &[x])
            }
            "permute_dims" => {
                let args = Args::bind(self.source, call, &["x", "axes"])?;
                let x = self.value(args.need("x")?)?;
                let rank = self.rank(x);
                let axes = match args.ints("axes")? {
                    Some(list) => list.into_iter().map(|a| self.axis(at, a, rank)).collect(),
                    None => Ok((0..rank).rev().collect()),
                }?;
                self.emit1(at, Op::Transpose(axes), &[x])
            }
            "concat" => self.concat(call),
            "stack" => self.stack(call),
            "strided_slice" => self.strided_slice(call),
            "split" => self.split(call),
            "flip" => self.flip(call),
            "expand_dims" => self.expand_dims(call),
            "squeeze" => self.squeeze(call),
            "flatten" => {
                let x = self.one(call)?;
                self.flat(at, x).map(ParsedValue::Value)
            }
            "repeat" => self.repeat(call),
            "tile" => self.tile(call),
            "full" | "zeros" | "ones" => self.fill(name, call),
            "full_like" | "zeros_like" | "ones_like" => self.fill_like(name, call),
            "arange" => self.arange(call),
            "triu" => self.triangle(call, Binary::GreaterEqual),
            "tril" => self.triangle(call, Binary::LessEqual),
            "shape_to_tensor" => {
                let args = Args::bind(self.source, call, &["shape"])?;
                let values = self.dims_of(args.need("shape")?)?;
                self.emit1(at, Op::Dims { values, scalar: false }, &[])
            }
            "image.resize2d" => self.resize(call, 2),
            "image.resize3d" => self.resize(call, 3),
            _ => Err(self.source.unsupported(call)),
        }
    }

    /// The shape of unknown rank that a name stands for.
    fn any_shape(&self, e: &Py) -> Option<Value> {
        let Py::Name(name) = e else { return None };
        match self.lookup(name.id.as_str()) {
            Some(ParsedValue::Value(value)) if *self.b.ty(value) == Type::AnyShape => Some(value),
            _ => None,
        }
    }

    fn reshape(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "shape"])?;
        let x = self.value(args.need("x")?)?;
        if let Some(shape) = self.any_shape(args.need("shape")?) {
            let dtype = match self.b.ty(x) {
                Type::Tensor(ty) => Some(ty.dtype),
                Type::AnyTensor { dtype, .. } => *dtype,
                _ => return Err(self.source.unsupported(call)),
            };
            let name = "vm.builtin.reshape".to_string();
            let node = Node::CallPacked { name, args: vec![x, shape], ints: vec![] };
            let ty = Type::AnyTensor { dtype, rank: None };
            return Ok(ParsedValue::Value(self.b.bind_values(node, vec![ty])[0]));
        }
        let mut shape = self.dims_of(args.need("shape")?)?;
        let own = self.shape_of(x);
        let unknown: Vec<usize> =
            (0..shape.len()).filter(|i| shape[*i].as_int() == Some(-1)).collect();
        if let [axis] = unknown[..] {
            let rest = dims::product(shape.iter().filter(|d| d.as_int() != Some(-1)));
            let all = dims::product(&own);
            shape[axis] = dims::simplify(&all.floordiv(rest));
        }
        self.emit1(call.start(), Op::Reshape(shape), &[x])
    }

    fn concat(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["tensors", "axis"])?;
        let parts = self.values(args.need("tensors")?)?;
        let Some(first) = parts.first() else { return Err(self.source.unsupported(call)) };
        let axis = self.axis(call.start(), args.int("axis", 0)?, self.rank(*first))?;
        self.emit1(call.start(), Op::Concat { axis }, &parts)
    }

    fn stack(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["tensors", "axis"])?;
        let mut parts = self.values(args.need("tensors")?)?;
        let Some(first) = parts.first() else { return Err(self.source.unsupported(call)) };
        let axis = self.axis(at, args.int("axis", 0)?, self.rank(*first) + 1)?;
        for part in &mut parts {
            *part = self.insert_axis(at, *part, axis)?;
        }
        self.emit1(at, Op::Concat { axis }, &parts)
    }

    fn insert_axis(&mut self, at: TextSize, x: Value, axis: usize) -> Result<Value> {
        let mut shape = self.shape_of(x);
        shape.insert(axis.min(shape.len()), Expr::i64(1));
        self.emit_value(at, Op::Reshape(shape), &[x])
    }

    fn strided_slice(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &["x", "axes", "begin", "end", "strides", "assume_inbound"];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("x")?)?;
        let own = self.shape_of(x);
        let axes = ints(self.source, args.need("axes")?)?;
        let begins = self.dim_list(args.need("begin")?)?;
        let ends = self.dim_list(args.need("end")?)?;
        let strides = match args.get("strides") {
            Some(e) => ints(self.source, e)?,
            None => vec![1; axes.len()],
        };
        if [begins.len(), ends.len(), strides.len()] != [axes.len(); 3] {
            return Err(self.source.refuse(call.start(), "the lists have different lengths"));
        }
        let inbound = args.boolean("assume_inbound", false)?;
        let mut begin = vec![Expr::i64(0); own.len()];
        let (mut sizes, mut stride) = (own.clone(), vec![1; own.len()]);
        for (i, axis) in axes.iter().enumerate() {
            let axis = self.axis(call.start(), *axis, own.len())?;
            stride[axis] = strides[i];
            if strides[i] == 0 {
                return Err(self.source.refuse(call.start(), "a stride is zero"));
            }
            (begin[axis], sizes[axis]) = if inbound && strides[i] > 0 {
                let span = ends[i].clone() - begins[i].clone();
                (begins[i].clone(), dims::simplify(&span.ceildiv(strides[i])))
            } else {
                clamped(&begins[i], &ends[i], strides[i], &own[axis])
            };
        }
        self.emit1(call.start(), Op::Slice { begin, shape: sizes, stride }, &[x])
    }

    fn split(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "indices_or_sections", "axis"])?;
        let x = self.value(args.need("x")?)?;
        let own = self.shape_of(x);
        let axis = self.axis(at, args.int("axis", 0)?, own.len())?;
        let spec = args.need("indices_or_sections")?;
        let mut cuts = vec![Expr::i64(0)];
        match elements(spec) {
            Some(list) => {
                for e in list {
                    cuts.push(self.dim_of(e)?);
                }
            }
            None => {
                let sections = int(self.source, spec)?;
                if !(1..=1 << 16).contains(&sections) {
                    return Err(self.source.unsupported(spec));
                }
                let step = dims::simplify(&own[axis].clone().ceildiv(sections));
                cuts.extend((1..sections).map(|i| dims::simplify(&(step.clone() * i))));
            }
        }
        cuts.push(own[axis].clone());
        let mut parts = vec![];
        for pair in cuts.windows(2) {
            let mut begin = vec![Expr::i64(0); own.len()];
            let mut sizes = own.clone();
            begin[axis] = pair[0].clone();
            sizes[axis] = dims::simplify(&(pair[1].clone() - pair[0].clone()));
            let stride = vec![1; own.len()];
            parts.push(self.emit_value(at, Op::Slice { begin, shape: sizes, stride }, &[x])?);
        }
        Ok(ParsedValue::Values(parts))
    }

    fn flip(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "axis"])?;
        let x = self.value(args.need("data")?)?;
        let sizes = self.shape_of(x);
        args.need("axis")?;
        let axis = self.axis(at, args.int("axis", 0)?, sizes.len())?;
        let mut begin = vec![Expr::i64(0); sizes.len()];
        let mut stride = vec![1; sizes.len()];
        begin[axis] = dims::simplify(&(sizes[axis].clone() - 1));
        stride[axis] = -1;
        self.emit1(at, Op::Slice { begin, shape: sizes, stride }, &[x])
    }

    fn expand_dims(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "axis"])?;
        let x = self.value(args.need("x")?)?;
        let mut shape = self.shape_of(x);
        args.need("axis")?;
        let list = args.ints("axis")?.unwrap_or_default();
        let rank = shape.len() + list.len();
        let mut axes: Vec<usize> =
            list.into_iter().map(|a| self.axis(at, a, rank)).collect::<Result<_>>()?;
        axes.sort_unstable();
        for axis in axes {
            shape.insert(axis.min(shape.len()), Expr::i64(1));
        }
        self.emit1(at, Op::Reshape(shape), &[x])
    }

    fn squeeze(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "axis"])?;
        let x = self.value(args.need("x")?)?;
        let mut shape = self.shape_of(x);
        let axes = match args.get("axis") {
            Some(_) => self.axes(&args, "axis", shape.len())?,
            None => (0..shape.len()).filter(|i| shape[*i].as_int() == Some(1)).collect(),
        };
        for axis in axes.into_iter().rev() {
            shape.remove(axis);
        }
        self.emit1(call.start(), Op::Reshape(shape), &[x])
    }

    /// Copies each element: a broadcast over a new axis after the one it lengthens.
    fn repeat(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "repeats", "axis"])?;
        let mut x = self.value(args.need("data")?)?;
        args.need("repeats")?;
        let counts = args.ints("repeats")?.unwrap_or_default();
        let axis = match args.get("axis") {
            Some(_) => self.axis(at, args.int("axis", 0)?, self.rank(x))?,
            None => {
                x = self.flat(at, x)?;
                0
            }
        };
        let [count] = counts[..] else { return Err(self.source.unsupported(call)) };
        if count != 1 {
            x = self.copied(at, x, axis, NewAxis { at: axis + 1, count })?;
        }
        Ok(ParsedValue::Value(x))
    }

    /// Copies the whole tensor: a broadcast over a new axis before each one it lengthens.
    fn tile(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "repeats"])?;
        let mut x = self.value(args.need("data")?)?;
        args.need("repeats")?;
        let counts = args.ints("repeats")?.unwrap_or_default();
        while self.rank(x) < counts.len() {
            x = self.insert_axis(at, x, 0)?;
        }
        let skipped = self.rank(x) - counts.len();
        for (i, count) in counts.into_iter().enumerate().filter(|(_, count)| *count != 1) {
            let axis = skipped + i;
            x = self.copied(at, x, axis, NewAxis { at: axis, count })?;
        }
        Ok(ParsedValue::Value(x))
    }

    /// Broadcasts `x` over a new axis and merges that with `axis`.
    fn copied(&mut self, at: TextSize, x: Value, axis: usize, new: NewAxis) -> Result<Value> {
        let mut merged = self.shape_of(x);
        merged[axis] = dims::simplify(&(merged[axis].clone() * new.count));
        let wide = self.insert_axis(at, x, new.at)?;
        let mut shape = self.shape_of(wide);
        shape[new.at] = Expr::i64(new.count);
        let wide = self.emit_value(at, Op::Broadcast(shape), &[wide])?;
        self.emit_value(at, Op::Reshape(merged), &[wide])
    }

    fn fill(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        if name != "full" {
            let args = Args::bind(self.source, call, &["shape", "dtype"])?;
            let shape = self.dims_of(args.need("shape")?)?;
            let dtype = self.dtype_or(&args, "dtype", DType::F32)?;
            let value = f64::from(u8::from(name == "ones"));
            return self.filled(at, dtype, value, shape).map(ParsedValue::Value);
        }
        let args = Args::bind(self.source, call, &["shape", "fill_value", "dtype"])?;
        let shape = self.dims_of(args.need("shape")?)?;
        let value = self.value(args.need("fill_value")?)?;
        let dtype = self.dtype_or(&args, "dtype", self.dtype_of(value))?;
        let value = self.cast_to(call, value, dtype)?;
        self.emit1(at, Op::Broadcast(shape), &[value])
    }

    fn fill_like(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let full = name == "full_like";
        let args = match full {
            true => Args::bind(self.source, call, &["x", "fill_value", "dtype"]),
            false => Args::bind(self.source, call, &["x", "dtype"]),
        }?;
        let x = self.value(args.need("x")?)?;
        let shape = self.shape_of(x);
        let dtype = self.dtype_or(&args, "dtype", self.dtype_of(x))?;
        if !full {
            let value = f64::from(u8::from(name == "ones_like"));
            return self.filled(at, dtype, value, shape).map(ParsedValue::Value);
        }
        let value = self.value(args.need("fill_value")?)?;
        let value = self.cast_to(call, value, dtype)?;
        self.emit1(at, Op::Broadcast(shape), &[value])
    }

    fn arange(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["start", "end", "step", "dtype"])?;
        let first = self.dim_of(args.need("start")?)?;
        let (start, end) = match args.get("end") {
            Some(end) => (first, self.dim_of(end)?),
            None => (Expr::i64(0), first),
        };
        let step = args.int("step", 1)?;
        if step == 0 {
            return Err(self.source.refuse(at, "the step is zero"));
        }
        let span = match step > 0 {
            true => end - start.clone(),
            false => start.clone() - end,
        };
        let count = dims::simplify(&span.ceildiv(step.abs()).max(0));
        let mut x = self.emit_value(at, Op::Iota { count }, &[])?;
        if step != 1 {
            x = self.emit_binary_const(at, Binary::Mul, x, step as f64)?;
        }
        if let Some(start) = start.as_int() {
            if start != 0 {
                x = self.emit_binary_const(at, Binary::Add, x, start as f64)?;
            }
        } else {
            let values = vec![dims::simplify(&start)];
            let start = self.emit_value(at, Op::Dims { values, scalar: true }, &[])?;
            x = self.emit_binary(at, Binary::Add, x, start)?;
        }
        let dtype = self.dtype_or(&args, "dtype", DType::I64)?;
        self.cast_to(call, x, dtype).map(ParsedValue::Value)
    }

    /// Keeps the elements of the last two axes whose column compares with the diagonal as given.
    fn triangle(&mut self, call: &ast::ExprCall, kept: Binary) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "k"])?;
        let x = self.value(args.need("x")?)?;
        let k = match args.get("k") {
            Some(e) => self.dim_of(e)?,
            None => Expr::i64(0),
        };
        let shape = self.shape_of(x);
        let [.., rows, columns] = &shape[..] else { return Err(self.source.unsupported(call)) };
        let row = self.emit_value(at, Op::Iota { count: rows.clone() }, &[])?;
        let row = self.insert_axis(at, row, 1)?;
        let diagonal = match k.as_int() {
            Some(0) => row,
            Some(k) => self.emit_binary_const(at, Binary::Add, row, k as f64)?,
            None => {
                let shift = self.emit_value(at, Op::Dims { values: vec![k], scalar: true }, &[])?;
                self.emit_binary(at, Binary::Add, row, shift)?
            }
        };
        let column = self.emit_value(at, Op::Iota { count: columns.clone() }, &[])?;
        let kept = self.emit_binary(at, kept, column, diagonal)?;
        let zero = self.number(at, self.dtype_of(x), 0.0)?;
        self.emit1(at, Op::Where, &[kept, x, zero])
    }
}

/// First index and count of NumPy's `x[begin:end:stride]` along an axis.
fn clamped(begin: &Expr, end: &Expr, stride: i64, dim: &Expr) -> (Expr, Expr) {
    // Backwards, the position before the first element is a valid end.
    let (low, high) = match stride > 0 {
        true => (Expr::i64(0), dim.clone()),
        false => (Expr::i64(-1), dim.clone() - 1),
    };
    let position = |e: &Expr| {
        let from_end = e.clone() + dim.clone();
        let counted = match dims::decide(CmpOp::Lt, e, &Expr::i64(0)) {
            Some(true) => from_end,
            Some(false) => e.clone(),
            None => Expr::if_then_else(e.clone().lt(0), from_end, e.clone()),
        };
        dims::simplify(&counted.max(low.clone()).min(high.clone()))
    };
    let (begin, end) = (position(begin), position(end));
    let span = match stride > 0 {
        true => end - begin.clone(),
        false => begin.clone() - end,
    };
    (begin, dims::simplify(&span.ceildiv(stride.saturating_abs()).max(0)))
}
