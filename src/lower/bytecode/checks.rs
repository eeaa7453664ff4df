//! Type checks and binding of symbolic dimensions, with TVM's error contexts.

use std::collections::BTreeSet;

use reflex_graph::{Func, TensorType, Type, Value};
use reflex_tir::{BinOp, Expr, ExprKind, Var};
use reflex_vm::bytecode::{Arg, Reg};

use super::emit::{Emitter, Result};

/// Codes of `match_shape`.
const ASSERT_IMM: i64 = 0;
const STORE: i64 = 1;
const NO_OP: i64 = 2;
const ASSERT_LOAD: i64 = 3;

/// Characters of the longest expression that messages show.
const LONGEST_DIM: usize = 40;

impl Emitter<'_> {
    /// Checks the parameters' types, in TVM's order: all types, then all shapes, then the
    /// dimensions that are expressions.
    pub(super) fn check_params(&mut self) -> Result<()> {
        let mut shaped = vec![];
        for (n, value) in self.func.params.iter().enumerate() {
            let ty = &self.func.values[*value].ty;
            let text = format!(
                "ErrorContext(fn={}, loc=param[{n}], param={}, annotation={}) ",
                self.func.name,
                self.func.values[*value].name,
                annotation_of(ty, self.func)
            );
            self.check_kind(*value, ty, &text)?;
            match ty {
                Type::Tensor(ty) => shaped.push((*value, &ty.shape, text)),
                Type::Shape(dims) => shaped.push((*value, dims, text)),
                _ => {}
            }
        }
        let mut new = BTreeSet::new();
        let mut pending = vec![];
        for (value, dims, text) in &shaped {
            let arg = self.arg(*value)?;
            if self.match_dims(arg, dims, text, &mut new)? {
                pending.push((arg, dims, text));
            }
        }
        self.compute_dims(&new)?;
        for (arg, shape, text) in pending {
            self.match_dims(arg, shape, text, &mut BTreeSet::new())?;
        }
        Ok(())
    }

    /// Checks the kind of a parameter, its dimensions aside. The fields of a tuple are checked
    /// where they are taken.
    fn check_kind(&mut self, value: Value, ty: &Type, text: &str) -> Result<()> {
        if let Type::Tensor(ty) = ty {
            return self.check_info(value, ty, text);
        }
        let (arg, context) = (self.arg(value)?, self.b.string(text));
        let (name, args) = match ty {
            Type::AnyTensor { dtype, rank } => {
                let rank = self.b.int(rank.map_or(-1, |rank| rank as i64));
                let dtype = match dtype {
                    Some(dtype) => self.b.dtype(*dtype),
                    None => self.b.void_arg(),
                };
                ("vm.builtin.check_tensor_info", vec![arg, rank, dtype, context])
            }
            Type::Shape(dims) => {
                let rank = self.b.int(dims.len() as i64);
                ("vm.builtin.check_shape_info", vec![arg, rank, context])
            }
            Type::AnyShape => {
                let rank = self.b.int(-1);
                ("vm.builtin.check_shape_info", vec![arg, rank, context])
            }
            Type::Prim(dtype) => {
                let dtype = self.b.dtype(*dtype);
                ("vm.builtin.check_prim_value_info", vec![arg, dtype, context])
            }
            Type::Func => ("vm.builtin.check_func_info", vec![arg, context]),
            Type::Tensor(_) | Type::Tuple(_) | Type::Object => return Ok(()),
        };
        Ok(self.b.emit_call(name, &args, Reg::VOID)?)
    }

    fn check_info(&mut self, value: Value, ty: &TensorType, text: &str) -> Result<()> {
        let args = [
            self.arg(value)?,
            self.b.int(ty.shape.len() as i64),
            self.b.dtype(ty.dtype),
            self.b.string(text),
        ];
        Ok(self.b.emit_call("vm.builtin.check_tensor_info", &args, Reg::VOID)?)
    }

    /// Emits `match_shape`; new dimensions are stored and added to `new`. Returns true if some
    /// dimensions are expressions that cannot be compared yet.
    fn match_dims(
        &mut self,
        arg: Arg,
        dims: &[Expr],
        text: &str,
        new: &mut BTreeSet<Var>,
    ) -> Result<bool> {
        let (mut codes, mut pending) = (vec![], false);
        for dim in dims {
            let dim = reflex_graph::dims::simplify(dim);
            let (code, value) = match (dim.as_int(), dim.as_var()) {
                (Some(extent), _) => (ASSERT_IMM, extent),
                (_, Some(var)) => {
                    let code = if self.known.insert(var) { STORE } else { ASSERT_LOAD };
                    if code == STORE {
                        new.insert(var);
                    }
                    (code, self.slot(&dim)? as i64)
                }
                _ if self.computed(&dim, new) => (ASSERT_LOAD, self.slot(&dim)? as i64),
                _ => {
                    pending = true;
                    (NO_OP, 0)
                }
            };
            codes.push((code, value));
        }
        let uses_heap = codes.iter().any(|(code, _)| *code == STORE || *code == ASSERT_LOAD);
        let heap = if uses_heap { self.heap_arg } else { self.b.void_arg() };
        let mut args = vec![arg, heap, self.b.int(dims.len() as i64)];
        for (code, value) in codes {
            args.extend([self.b.int(code), self.b.int(value)]);
        }
        args.push(self.b.string(text));
        self.b.emit_call("vm.builtin.match_shape", &args, Reg::VOID)?;
        Ok(pending)
    }

    /// Whether the heap holds the expression: all its dimensions were known before.
    fn computed(&self, e: &Expr, new: &BTreeSet<Var>) -> bool {
        let mut all = true;
        e.visit(&mut |e| {
            if let Some(var) = e.as_var() {
                all &= self.known.contains(&var) && !new.contains(&var);
            }
        });
        all
    }

    fn match_all(&mut self, arg: Arg, dims: &[Expr], text: &str) -> Result<()> {
        let mut new = BTreeSet::new();
        let pending = self.match_dims(arg, dims, text, &mut new)?;
        self.compute_dims(&new)?;
        if pending {
            self.match_dims(arg, dims, text, &mut BTreeSet::new())?;
        }
        Ok(())
    }

    /// Checks a value that came as `from` against its type and binds what is new in its shape.
    pub(super) fn match_cast(&mut self, value: Value, from: Value, source: &str) -> Result<()> {
        let ty = &self.func.values[value].ty;
        let text = format!(
            "ErrorContext(match_cast, fn={}, node={source}, annotation={}) ",
            self.func.name,
            annotation_of(ty, self.func)
        );
        let Type::Tensor(ty) = ty else {
            if *ty != self.func.values[from].ty {
                self.check_kind(value, ty, &text)?;
            }
            let Type::Shape(dims) = ty else { return Ok(()) };
            let arg = self.arg(value)?;
            return self.match_all(arg, dims, &text);
        };
        let known = self.func.values[from].ty.as_tensor();
        if known.is_none_or(|t| t.dtype != ty.dtype || t.shape.len() != ty.shape.len()) {
            self.check_info(value, ty, &text)?;
        }
        let arg = self.arg(value)?;
        self.match_all(arg, &ty.shape, &text)
    }

    /// Checks all of what a foreign function returned.
    pub(super) fn check_value(&mut self, value: Value, callee: &str) -> Result<()> {
        let ty = &self.func.values[value].ty;
        let text = format!(
            "ErrorContext(fn={}, result of {callee}, annotation={}) ",
            self.func.name,
            annotation_of(ty, self.func)
        );
        let Type::Tensor(ty) = ty else {
            self.check_kind(value, ty, &text)?;
            let Type::Shape(dims) = ty else { return Ok(()) };
            let arg = self.arg(value)?;
            return self.match_all(arg, dims, &text);
        };
        self.check_info(value, ty, &text)?;
        let arg = self.arg(value)?;
        self.match_all(arg, &ty.shape, &text)
    }

    /// Binds the dimensions that a value's type mentions first, if there are any.
    pub(super) fn bind_dims(&mut self, value: Value) -> Result<()> {
        let Type::Tensor(ty) = &self.func.values[value].ty else { return Ok(()) };
        let binds = ty.shape.iter().any(|d| d.as_var().is_some_and(|v| !self.known.contains(&v)));
        if binds { self.match_cast(value, value, "") } else { Ok(()) }
    }

    /// Checks that a view has as many elements as its source: the view itself would take the
    /// first ones of a longer tensor.
    pub(super) fn check_count(&mut self, from: &Expr, to: &Expr, source: &str) -> Result<()> {
        let text = format!("ErrorContext(reshape, fn={}, node={source}) ", self.func.name);
        let value = self.scalar(from)?;
        let (load, entry) = self.entry(to)?;
        let code = if load == 0 { ASSERT_IMM } else { ASSERT_LOAD };
        let args =
            [value, self.heap_arg, self.b.int(code), self.b.int(entry), self.b.string(&text)];
        Ok(self.b.emit_call("vm.builtin.match_prim_value", &args, Reg::VOID)?)
    }

    /// Matches the elements of an int64 tensor.
    pub(super) fn match_elements(
        &mut self,
        value: Value,
        dims: &[Expr],
        source: &str,
    ) -> Result<()> {
        let mut arg = self.arg(value)?;
        let Type::Tensor(ty) = &self.func.values[value].ty else {
            return self.match_integer(arg, dims, source);
        };
        if ty.shape.is_empty() {
            let one = self.b.shape(&[1]);
            arg = self.call("vm.builtin.reshape", &[arg, one])?;
        }
        let shape = self.call("vm.builtin.tensor_to_shape", &[arg])?;
        let text = format!("ErrorContext(match_shape, fn={}, node={source}) ", self.func.name);
        self.match_all(shape, dims, &text)
    }
}

impl Emitter<'_> {
    /// Binds an integer to a dimension, or compares them.
    fn match_integer(&mut self, arg: Arg, dims: &[Expr], source: &str) -> Result<()> {
        let mut new = BTreeSet::new();
        for dim in dims {
            let (code, entry) = match dim.as_var() {
                Some(var) if self.known.insert(var) => {
                    new.insert(var);
                    (STORE, self.slot(dim)? as i64)
                }
                _ => {
                    let (load, entry) = self.entry(dim)?;
                    (if load == 0 { ASSERT_IMM } else { ASSERT_LOAD }, entry)
                }
            };
            let text = format!("ErrorContext(match_shape, fn={}, node={source}) ", self.func.name);
            let args =
                [arg, self.heap_arg, self.b.int(code), self.b.int(entry), self.b.string(&text)];
            self.b.emit_call("vm.builtin.match_prim_value", &args, Reg::VOID)?;
        }
        self.compute_dims(&new)
    }
}

fn annotation_of(ty: &Type, func: &Func) -> String {
    match ty {
        Type::Tensor(ty) => annotation(ty, func),
        Type::AnyTensor { .. } => "R.Tensor".to_string(),
        Type::AnyShape => "R.Shape".to_string(),
        Type::Shape(dims) => {
            let dims: Vec<String> = dims.iter().map(|d| short_dim(d, func)).collect();
            format!("R.Shape([{}])", dims.join(", "))
        }
        Type::Prim(dtype) => format!("T.{dtype}"),
        Type::Tuple(types) => {
            let types: Vec<String> = types.iter().map(|ty| annotation_of(ty, func)).collect();
            format!("R.Tuple({})", types.join(", "))
        }
        Type::Func => "R.Callable".to_string(),
        Type::Object => "R.Any".to_string(),
    }
}

/// `R.Tensor((n, 3), dtype="float32")`
pub(super) fn annotation(ty: &TensorType, func: &Func) -> String {
    let dims: Vec<String> = ty.shape.iter().map(|d| short_dim(d, func)).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    format!("R.Tensor(({}{comma}), dtype=\"{}\")", dims.join(", "), ty.dtype)
}

/// A dimension for a message, which a long expression would bury.
fn short_dim(e: &Expr, func: &Func) -> String {
    let text = dim_text(e, func);
    if text.len() <= LONGEST_DIM { text } else { "...".to_owned() }
}

/// A dimension in Python, with brackets where Python needs them.
fn dim_text(e: &Expr, func: &Func) -> String {
    let atom = |e: &Expr| match e.kind() {
        ExprKind::Binary { op: BinOp::Min | BinOp::Max, .. } => dim_text(e, func),
        ExprKind::Binary { .. } => format!("({})", dim_text(e, func)),
        _ => dim_text(e, func),
    };
    match e.kind() {
        ExprKind::Int { value, .. } => value.to_string(),
        ExprKind::Var { var, .. } => match func.syms.get(*var) {
            Some(data) => data.name.to_string(),
            None => var.to_string(),
        },
        ExprKind::Binary { op, a, b } => {
            let sign = match op {
                BinOp::Add => "+",
                BinOp::Sub => "-",
                BinOp::Mul => "*",
                BinOp::FloorDiv | BinOp::Div => "//",
                BinOp::FloorMod | BinOp::Mod => "%",
                BinOp::Min => {
                    return format!("T.min({}, {})", dim_text(a, func), dim_text(b, func));
                }
                BinOp::Max => {
                    return format!("T.max({}, {})", dim_text(a, func), dim_text(b, func));
                }
            };
            format!("{} {sign} {}", atom(a), atom(b))
        }
        _ => format!("{e:?}"),
    }
}
