//! Operators by name: elementwise, reductions and matrix multiplication.

use reflex_tir::{DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::{Ranged, TextSize};

use super::args::{Args, elements};
use super::op_names::ScriptName;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::registered;
use crate::{ArgReduceKind, Binary, Literal, Op, ReduceKind, ScanKind, Unary, Value};

/// The choice of an arg reduction between equal elements.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ties {
    First,
    Last,
}

impl FuncParser<'_, '_> {
    /// `R.<name>(...)`.
    pub(super) fn operator(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        // Relax has no reciprocal: it is a quotient.
        if let Some(f) = Unary::from_script_name(name).filter(|f| *f != Unary::Reciprocal) {
            let x = self.one(call)?;
            return self.emit1(call.start(), Op::Unary(f), &[x]);
        }
        if let Some(f) = Binary::from_script_name(name) {
            let args = Args::bind(self.source, call, &["x1", "x2"])?;
            let operands = [self.value(args.need("x1")?)?, self.value(args.need("x2")?)?];
            if f == Binary::Div && self.is_one(operands[0], operands[1]) {
                return self.emit1(call.start(), Op::Unary(Unary::Reciprocal), &operands[1..]);
            }
            return self.emit1(call.start(), Op::Binary(f), &operands);
        }
        if let Some(kind) = ReduceKind::from_script_name(name) {
            return self.reduce(call, kind);
        }
        if let Some(kind) = ArgReduceKind::from_script_name(name) {
            return self.arg_reduce(call, kind, Ties::First);
        }
        if let Some(name) = name.strip_prefix("reflex.") {
            return self.reflex(name, call);
        }
        if let Some(item) = self.composed(name, call)? {
            return Ok(item);
        }
        if let Some(item) = self.pick(name, call)? {
            return Ok(item);
        }
        if let Some(item) = self.gradient(name, call)? {
            return Ok(item);
        }
        if let Some(item) = self.sample(name, call)? {
            return Ok(item);
        }
        if let Some(item) = self.selection(name, call)? {
            return Ok(item);
        }
        if let Some(item) = self.detection(name, call)? {
            return Ok(item);
        }
        if let Some(item) = self.suppression(name, call)? {
            return Ok(item);
        }
        if let Some(name) = name.strip_prefix("nn.") {
            return self.nn(name, call);
        }
        if let Some(def) = registered::find(name) {
            return self.registered(&def, call);
        }
        match name {
            "layout_transform" => self.layout_transform(call),
            "where" => {
                let args = Args::bind(self.source, call, &["condition", "x1", "x2"])?;
                let operands = self.operands(&args, &["condition", "x1", "x2"])?;
                self.emit1(call.start(), Op::Where, &operands)
            }
            "astype" => {
                let args = Args::bind(self.source, call, &["x", "dtype"])?;
                let x = self.value(args.need("x")?)?;
                args.need("dtype")?;
                let dtype = args.dtype("dtype")?.unwrap_or(DType::VOID);
                self.emit1(call.start(), Op::Cast(dtype), &[x])
            }
            "cumsum" => self.scan(call, ScanKind::Sum),
            "cumprod" => self.scan(call, ScanKind::Prod),
            "matmul" => self.matmul(call),
            "variance" => self.variance(call).map(ParsedValue::Value),
            "std" => {
                let variance = self.variance(call)?;
                self.unary(call.start(), Unary::Sqrt, variance).map(ParsedValue::Value)
            }
            "clip" => self.clip(call),
            "rsqrt" | "square" | "trunc" | "isfinite" => {
                let x = self.one(call)?;
                self.derived(name, call.start(), x).map(ParsedValue::Value)
            }
            "floor_divide" => self.floor_divide(call),
            // What they say to gradients and to the lifting of parameters changes no value.
            "grad.no_grad" | "grad.start_checkpoint" | "grad.end_checkpoint"
            | "builtin.stop_lift_params"
            // A tensor begins at offset zero.
            | "memory.ensure_zero_offset" => self.one(call).map(ParsedValue::Value),
            "size" => {
                let x = self.one(call)?;
                let values = vec![crate::dims::product(&self.shape_of(x))];
                self.emit1(call.start(), Op::Dims { values, scalar: true }, &[])
            }
            _ => match self.index(name, call)? {
                Some(item) => Ok(item),
                None => self.movement(name, call),
            },
        }
    }

    fn matmul(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x1", "x2", "out_dtype"])?;
        let operands = self.operands(&args, &["x1", "x2"])?;
        let bytes = |v: &Value| matches!(self.dtype_of(*v), DType::U8 | DType::I8);
        let named = matches!(args.get("out_dtype"), Some(Py::StringLiteral(_)));
        if named && operands.iter().all(bytes) && args.dtype("out_dtype")? == Some(DType::I32) {
            return self.emit1(call.start(), Op::MatMulInteger, &operands);
        }
        self.matching_dtype(&args, "out_dtype", operands[0])?;
        self.emit1(call.start(), Op::MatMul, &operands)
    }

    /// Returns true if a value is the scalar constant 1 of the floating-point type of another.
    fn is_one(&self, value: Value, other: Value) -> bool {
        let dtype = self.dtype_of(other);
        let one = self.b.as_constant(value).filter(|l| l.shape().is_empty() && l.dtype() == dtype);
        dtype.is_float() && one.is_some_and(|l| Literal::one(dtype).as_ref() == Some(l))
    }

    /// The only argument of a call.
    pub(super) fn one(&mut self, call: &ast::ExprCall) -> Result<Value> {
        match (&*call.arguments.args, &*call.arguments.keywords) {
            ([x], []) => self.value(x),
            ([], [x]) => self.value(&x.value),
            _ => {
                let text = self.source.shown(call);
                Err(self.source.refuse(call.start(), format!("`{text}` takes one argument")))
            }
        }
    }

    pub(super) fn operands(&mut self, args: &Args<'_>, names: &[&str]) -> Result<Vec<Value>> {
        names.iter().map(|name| self.value(args.need(name)?)).collect()
    }

    /// Refuses a result type other than the operand's own.
    pub(super) fn matching_dtype(&self, args: &Args<'_>, name: &str, x: Value) -> Result<()> {
        match args.get(name) {
            // TVM: no type is given.
            Some(Py::StringLiteral(s)) if matches!(s.value.to_str(), "void" | "") => Ok(()),
            Some(e) if args.dtype(name)? != Some(self.dtype_of(x)) => {
                Err(self.source.unsupported(e))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn rank(&self, x: Value) -> usize {
        self.b.ty(x).as_tensor().map_or(0, |t| t.shape.len())
    }

    /// An axis of a tensor of this rank; a negative one counts from the end.
    pub(super) fn axis(&self, at: TextSize, axis: i64, rank: usize) -> Result<usize> {
        let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        match usize::try_from(counted) {
            Ok(counted) if counted < rank => Ok(counted),
            _ => {
                let message = format!("axis {axis} of a tensor of rank {rank}");
                Err(self.source.refuse(at, message))
            }
        }
    }

    /// The axes an argument names, sorted; all when it is absent.
    pub(super) fn axes(&self, args: &Args<'_>, name: &str, rank: usize) -> Result<Vec<usize>> {
        let Some(list) = args.ints(name)? else { return Ok((0..rank).collect()) };
        let axes = list.into_iter().map(|a| self.axis(args.at(), a, rank));
        let mut axes = axes.collect::<Result<Vec<_>>>()?;
        axes.sort_unstable();
        axes.dedup();
        Ok(axes)
    }

    fn reduce(&mut self, call: &ast::ExprCall, kind: ReduceKind) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "axis", "keepdims"])?;
        let x = self.value(args.need("x")?)?;
        let axes = self.axes(&args, "axis", self.rank(x))?;
        let keep_dims = args.boolean("keepdims", false)?;
        self.emit1(call.start(), Op::Reduce { kind, axes, keep_dims }, &[x])
    }

    pub(super) fn arg_reduce(
        &mut self,
        call: &ast::ExprCall,
        kind: ArgReduceKind,
        ties: Ties,
    ) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "axis", "keepdims"])?;
        let mut x = self.value(args.need("x")?)?;
        let keep_dims = args.boolean("keepdims", false)?;
        let select_last = ties == Ties::Last;
        let axis = match args.get("axis") {
            Some(_) => self.axis(at, args.int("axis", 0)?, self.rank(x))?,
            // Over all elements in row-major order.
            None if !keep_dims => {
                x = self.flat(at, x)?;
                0
            }
            None => return Err(self.source.unsupported(call)),
        };
        self.emit1(at, Op::ArgReduce { kind, axis, keep_dims, select_last }, &[x])
    }

    pub(super) fn flat(&mut self, at: TextSize, x: Value) -> Result<Value> {
        let count = crate::dims::product(&self.shape_of(x));
        self.emit_value(at, Op::Reshape(vec![count]), &[x])
    }

    fn scan(&mut self, call: &ast::ExprCall, kind: ScanKind) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "axis", "dtype", "exclusive"])?;
        let mut x = self.value(args.need("data")?)?;
        if let Some(dtype) = args.dtype("dtype")?.filter(|dtype| *dtype != self.dtype_of(x)) {
            x = self.emit_value(at, Op::Cast(dtype), &[x])?;
        }
        let axis = match args.get("axis") {
            Some(_) => self.axis(at, args.int("axis", 0)?, self.rank(x))?,
            None => {
                x = self.flat(at, x)?;
                0
            }
        };
        let exclusive = args.boolean("exclusive", false)?;
        self.emit1(at, Op::Scan { kind, axis, exclusive, reverse: false }, &[x])
    }

    /// Mean of the squared distances from the mean.
    pub(super) fn moments(
        &mut self,
        at: TextSize,
        x: Value,
        axes: Vec<usize>,
    ) -> Result<(Value, Value)> {
        let op = Op::Reduce { kind: ReduceKind::Mean, axes, keep_dims: true };
        let mean = self.emit_value(at, op.clone(), &[x])?;
        let centred = self.emit_binary(at, Binary::Sub, x, mean)?;
        let squared = self.emit_binary(at, Binary::Mul, centred, centred)?;
        let variance = self.emit_value(at, op, &[squared])?;
        Ok((centred, variance))
    }

    fn variance(&mut self, call: &ast::ExprCall) -> Result<Value> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "axis", "keepdims"])?;
        let x = self.value(args.need("x")?)?;
        let axes = self.axes(&args, "axis", self.rank(x))?;
        let (_, mut result) = self.moments(at, x, axes.clone())?;
        if !args.boolean("keepdims", false)? {
            let kept = |(i, d): (usize, &Expr)| (!axes.contains(&i)).then(|| d.clone());
            let shape = self.shape_of(x).iter().enumerate().filter_map(kept).collect();
            result = self.emit_value(at, Op::Reshape(shape), &[result])?;
        }
        Ok(result)
    }

    fn clip(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "min", "max"])?;
        let x = self.value(args.need("x")?)?;
        let (low, high) = (args.float("min", 0.0)?, args.float("max", 0.0)?);
        args.need("min")?;
        args.need("max")?;
        let capped = self.emit_binary_const(at, Binary::Min, x, high)?;
        self.emit_binary_const(at, Binary::Max, capped, low).map(ParsedValue::Value)
    }

    pub(super) fn derived(&mut self, name: &str, at: TextSize, x: Value) -> Result<Value> {
        match name {
            "square" => self.emit_binary(at, Binary::Mul, x, x),
            "rsqrt" => {
                let root = self.unary(at, Unary::Sqrt, x)?;
                self.unary(at, Unary::Reciprocal, root)
            }
            "trunc" => {
                let zero = self.number(at, self.dtype_of(x), 0.0)?;
                let negative = self.emit_binary(at, Binary::Less, x, zero)?;
                let (up, down) =
                    (self.unary(at, Unary::Ceil, x)?, self.unary(at, Unary::Floor, x)?);
                self.emit_value(at, Op::Where, &[negative, up, down])
            }
            _ => {
                let (nan, inf) =
                    (self.unary(at, Unary::IsNan, x)?, self.unary(at, Unary::IsInf, x)?);
                let either = self.emit_binary(at, Binary::Or, nan, inf)?;
                self.unary(at, Unary::Not, either)
            }
        }
    }

    fn floor_divide(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x1", "x2"])?;
        let operands = self.operands(&args, &["x1", "x2"])?;
        let (x, y) = (operands[0], operands[1]);
        let result = match self.dtype_of(x).is_float() {
            true => {
                let quotient = self.emit_binary(at, Binary::Div, x, y)?;
                self.unary(at, Unary::Floor, quotient)?
            }
            false => {
                let rest = self.emit_binary(at, Binary::FloorMod, x, y)?;
                let multiple = self.emit_binary(at, Binary::Sub, x, rest)?;
                self.emit_binary(at, Binary::Div, multiple, y)?
            }
        };
        Ok(ParsedValue::Value(result))
    }

    /// The integers of a list whose entries may be dimensions.
    pub(super) fn dim_list(&mut self, e: &Py) -> Result<Vec<Expr>> {
        match elements(e) {
            Some(list) => list.iter().map(|e| self.dim_of(e)).collect(),
            None => Ok(vec![self.dim_of(e)?]),
        }
    }
}
