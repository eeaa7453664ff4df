//! One graph function as text: signature, bindings, control flow.

use std::collections::{HashMap, HashSet};

use cranelift_entity::SecondaryMap;
use reflex_tir::script::{float, string};
use reflex_tir::{Expr, Param, Var};

use super::context::Printer;
use super::list::tuple;
use super::names::Names;
use crate::dim_text::DimPrinter;
use crate::{
    Binding, Body, Const, DataOp, Func, FuncData, FuncId, LeafExpr, Loop, Node, Type, Value,
};

pub(super) struct FuncPrinter<'p, 'm> {
    cx: &'p mut Printer<'m>,
    id: FuncId,
    pub(super) func: &'m Func,
    names: Names,
    values: SecondaryMap<Value, Option<String>>,
    syms: HashMap<Var, String>,
    /// Dimensions that parameters mention.
    outer: HashSet<Var>,
    consts: HashMap<Value, Const>,
    used: HashSet<Value>,
    out: String,
    indent: usize,
}

impl<'p, 'm> FuncPrinter<'p, 'm> {
    /// A printer of calls; `name` gives the names of values.
    pub fn of_calls(
        cx: &'p mut Printer<'m>,
        func: &'m Func,
        name: &dyn Fn(Value) -> String,
    ) -> FuncPrinter<'p, 'm> {
        let mut p = FuncPrinter::new(cx, FuncId::from_u32(0), func);
        func.values.keys().for_each(|value| p.values[value] = Some(name(value)));
        p
    }

    /// The definition of a function inside the module's class.
    pub fn print(cx: &'p mut Printer<'m>, id: FuncId, func: &'m Func) -> String {
        let mut p = FuncPrinter::new(cx, id, func);
        func.body.uses(&mut |value| {
            p.used.insert(value);
        });
        p.function();
        p.out
    }

    fn new(cx: &'p mut Printer<'m>, id: FuncId, func: &'m Func) -> FuncPrinter<'p, 'm> {
        let mut p = FuncPrinter {
            cx,
            id,
            func,
            names: Names::default(),
            values: SecondaryMap::new(),
            syms: HashMap::new(),
            outer: HashSet::new(),
            consts: HashMap::new(),
            used: HashSet::new(),
            out: String::new(),
            indent: 1,
        };
        func.body.walk(&mut |binding| {
            if let (Node::Const(c), [value]) = (&binding.node, &binding.outputs[..]) {
                p.consts.insert(*value, *c);
            }
        });
        p
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn function(&mut self) {
        let func = self.func;
        let inner = self.name_dims();
        let mut params = vec![];
        for param in &func.params {
            let name = self.define(*param);
            params.push(format!(
                "{name}: {}",
                self.ty(&func.values[*param].ty, TypePosition::Signature)
            ));
        }
        let results: Vec<&Type> = func.body.results.iter().map(|v| &func.values[*v].ty).collect();
        let result = self.types(&results, TypePosition::Signature);
        let mut marks = vec![];
        marks.extend(func.is_private.then_some("private=True"));
        marks.extend(self.cx.impure.contains(&self.id).then_some("pure=False"));
        let marks = match marks.is_empty() {
            true => String::new(),
            false => format!("({})", marks.join(", ")),
        };
        self.line(&format!("@R.function{marks}"));
        let name = self.cx.names[self.id].clone();
        self.line(&format!("def {name}({}) -> {result}:", params.join(", ")));
        self.indent += 1;
        if !default_names(&func.result_names) {
            let names: Vec<String> = func.result_names.iter().map(|n| string(n)).collect();
            let names = names.join(", ");
            self.line(&format!("R.func_attr({{\"reflex.result_names\": [{names}]}})"));
        }
        if func.inline {
            self.line("R.func_attr({\"Inline\": True})");
        }
        for name in inner {
            self.line(&format!("{name} = T.int64()"));
        }
        if self.calls_members() {
            self.line("cls = Module");
        }
        for binding in &func.body.bindings {
            self.binding(binding);
        }
        let results = self.results(&func.body.results);
        self.line(&format!("return {results}"));
    }

    /// Names the dimensions; those that no parameter mentions are returned.
    fn name_dims(&mut self) -> Vec<String> {
        let func = self.func;
        let (mut outer, mut inner) = (vec![], vec![]);
        for param in &func.params {
            vars_of_type(&func.values[*param].ty, &mut outer);
        }
        func.body.walk(&mut |binding| {
            binding.node.dims(&mut |e| vars_of(e, &mut inner));
            let carried = match &binding.node {
                Node::Loop(l) => l.carried.as_slice(),
                _ => &[],
            };
            for value in binding.outputs.iter().chain(carried) {
                vars_of_type(&func.values[*value].ty, &mut inner);
            }
        });
        for var in outer {
            self.outer.insert(var);
            if !self.syms.contains_key(&var) {
                let name = self.name_dim(var);
                self.cx.symbols.insert(name);
            }
        }
        let mut names = vec![];
        for var in inner {
            if !self.syms.contains_key(&var) {
                names.push(self.name_dim(var));
            }
        }
        names
    }

    fn name_dim(&mut self, var: Var) -> String {
        let hint = self.func.syms.get(var).map_or("", |data| &data.name);
        let name = self.names.fresh(hint);
        self.syms.insert(var, name.clone());
        name
    }

    fn calls_members(&self) -> bool {
        let mut found = false;
        self.func.body.walk(&mut |binding| {
            found |= match &binding.node {
                Node::CallTir { .. } | Node::CallFunc { .. } | Node::Leaf(LeafExpr::Func(_)) => {
                    true
                }
                Node::CallPacked { name, .. } => self.kernel_in_place(name, binding).is_some(),
                _ => false,
            };
        });
        found
    }

    fn define(&mut self, value: Value) -> String {
        let hint = self.func.values.get(value).map_or("", |data| data.name.as_str());
        let name = if hint.is_empty() { self.names.anonymous() } else { self.names.fresh(hint) };
        self.values[value] = Some(name.clone());
        name
    }

    /// The text of a use of a value.
    pub(super) fn value(&mut self, value: Value) -> String {
        match (&self.values[value], self.consts.get(&value)) {
            (Some(name), _) => name.clone(),
            (None, Some(id)) => self.cx.constant(*id),
            (None, None) => value.to_string(),
        }
    }

    fn list(&mut self, values: &[Value]) -> Vec<String> {
        values.iter().map(|v| self.value(*v)).collect()
    }

    /// Whether a value is the scalar constant +0.
    pub(super) fn is_zero(&self, value: Value) -> bool {
        self.consts
            .get(&value)
            .and_then(|id| self.cx.module.consts.get(*id))
            .is_some_and(|l| l.shape().is_empty() && l.bytes().iter().all(|b| *b == 0))
    }

    /// The number that a scalar constant is, unless the text would lose some of it.
    pub(super) fn number(&self, value: Value) -> Option<String> {
        let literal = self.cx.module.consts.get(*self.consts.get(&value)?)?;
        super::consts::number(literal)
    }

    pub(super) fn dim(&self, e: &Expr) -> String {
        DimPrinter(&|var| self.syms.get(&var).cloned().unwrap_or_else(|| var.to_string())).text(e)
    }

    /// `R.shape([...])`
    pub(super) fn shape(&self, dims: &[Expr]) -> String {
        format!("R.shape([{}])", self.dims(dims, TypePosition::Body))
    }

    fn dims(&self, dims: &[Expr], position: TypePosition) -> String {
        let text = |e: &Expr| match position {
            // A signature is evaluated by Python, where a dimension knows no arithmetic.
            TypePosition::Signature if e.as_int().is_none() && e.as_var().is_none() => {
                format!("\"{}\"", self.dim(e).replace('"', "'"))
            }
            _ => self.dim(e),
        };
        dims.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Whether a signature can write these dimensions.
    fn in_signature(&self, dims: &[Expr]) -> bool {
        let mut vars = vec![];
        dims.iter().for_each(|e| vars_of(e, &mut vars));
        vars.iter().all(|var| self.outer.contains(var))
    }

    fn ty(&self, ty: &Type, position: TypePosition) -> String {
        let inner = |dims: &[Expr]| position == TypePosition::Signature && !self.in_signature(dims);
        match ty {
            // The caller does not know the dimensions that the body binds.
            Type::Tensor(t) if inner(&t.shape) => {
                format!("R.Tensor(dtype=\"{}\", ndim={})", t.dtype, t.shape.len())
            }
            Type::Shape(dims) if inner(dims) => format!("R.Shape(ndim={})", dims.len()),
            Type::Tensor(t) => {
                let comma = if t.shape.len() == 1 { "," } else { "" };
                let dims = self.dims(&t.shape, position);
                format!("R.Tensor(({dims}{comma}), dtype=\"{}\")", t.dtype)
            }
            Type::Shape(dims) => format!("R.Shape([{}])", self.dims(dims, position)),
            Type::AnyTensor { dtype, rank } => {
                let dtype = dtype.map(|dtype| format!("dtype=\"{dtype}\""));
                let rank = rank.map(|rank| format!("ndim={rank}"));
                let known: Vec<String> = dtype.into_iter().chain(rank).collect();
                if known.is_empty() {
                    return "R.Tensor".to_string();
                }
                format!("R.Tensor({})", known.join(", "))
            }
            Type::AnyShape => "R.Shape".to_string(),
            Type::Prim(dtype) => format!("R.Prim(\"{dtype}\")"),
            Type::Tuple(types) => self.tuple_type(&types.iter().collect::<Vec<_>>(), position),
            Type::Func => "R.Callable".to_string(),
            Type::Object => "R.Any".to_string(),
        }
    }

    fn tuple_type(&self, types: &[&Type], position: TypePosition) -> String {
        if types.is_empty() {
            return "R.Tuple".to_string();
        }
        let types: Vec<String> = types.iter().map(|t| self.ty(t, position)).collect();
        format!("R.Tuple({})", types.join(", "))
    }

    /// The type of one result, or of a tuple of results.
    fn types(&self, types: &[&Type], position: TypePosition) -> String {
        match types {
            [one] => self.ty(one, position),
            _ => self.tuple_type(types, position),
        }
    }

    fn results(&mut self, values: &[Value]) -> String {
        match values {
            [one] => self.value(*one),
            [] => "R.tuple()".to_string(),
            _ => tuple(&self.list(values)),
        }
    }

    fn binding(&mut self, binding: &Binding) {
        match &binding.node {
            Node::Const(_) => {}
            Node::If { cond, then, otherwise } => {
                let cond = self.value(*cond);
                let name = self.outputs_name(&binding.outputs);
                for (head, body) in [(format!("if {cond}:"), then), ("else:".into(), otherwise)] {
                    self.line(&head);
                    self.indent += 1;
                    self.branch(&name, body, &binding.outputs);
                    self.indent -= 1;
                }
                self.project(&name, &binding.outputs);
            }
            Node::Loop(l) => self.run_loop(l, &binding.outputs),
            Node::MatchShape { value, dims } => self.match_shape(*value, dims, &binding.outputs),
            _ => {
                let call = self.call(binding);
                let annotation = match binding.node {
                    Node::CallTir { .. } => String::new(),
                    _ => self.annotation(&binding.outputs),
                };
                self.bind(&call, &binding.outputs, &annotation);
            }
        }
    }

    /// `nameANNOTATION = value`, and a projection for each value where there are several.
    fn bind(&mut self, value: &str, outputs: &[Value], annotation: &str) {
        if outputs.is_empty() {
            return self.line(value);
        }
        let name = self.outputs_name(outputs);
        self.line(&format!("{name}{annotation} = {value}"));
        self.project(&name, outputs);
    }

    fn annotation(&self, outputs: &[Value]) -> String {
        let types: Vec<&Type> = outputs.iter().map(|v| &self.func.values[*v].ty).collect();
        format!(": {}", self.types(&types, TypePosition::Body))
    }

    /// The name of the only output, or of the tuple of them.
    fn outputs_name(&mut self, outputs: &[Value]) -> String {
        match outputs {
            [one] => self.define(*one),
            [] => self.names.fresh("_"),
            // The tuple has no name after it is read back: it is derived from the first output's.
            [first, ..] => {
                let first = self.define(*first);
                self.names.fresh(&format!("{first}_all"))
            }
        }
    }

    fn project(&mut self, name: &str, outputs: &[Value]) {
        if outputs.len() < 2 {
            return;
        }
        for (index, value) in outputs.iter().enumerate() {
            let output = match index {
                0 => self.value(*value),
                _ => self.define(*value),
            };
            let ty = self.annotation(&[*value]);
            self.line(&format!("{output}{ty} = {name}[{index}]"));
        }
    }

    fn branch(&mut self, name: &str, body: &Body, outputs: &[Value]) {
        for binding in &body.bindings {
            self.binding(binding);
        }
        let results = self.results(&body.results);
        let ty = self.annotation(outputs);
        self.line(&format!("{name}{ty} = {results}"));
    }

    fn run_loop(&mut self, l: &Loop, outputs: &[Value]) {
        let optional =
            |p: &mut Self, v: Option<Value>| v.map_or("None".to_string(), |v| p.value(v));
        let (trips, cond) = (optional(self, l.max_trips), optional(self, l.cond));
        let init = tuple(&self.list(&l.init));
        let types: Vec<String> = l
            .carried
            .iter()
            .map(|v| self.ty(&self.func.values[*v].ty, TypePosition::Body))
            .collect();
        let types = tuple(&types);
        let mut names = vec![self.define(l.iter), self.define(l.cond_in)];
        names.extend(l.carried.iter().map(|v| self.define(*v)));
        let names = tuple(&names);
        self.line(&format!(
            "with R.reflex.loop({trips}, {cond}, {init}, ty_args={types}) as {names}:"
        ));
        self.indent += 1;
        for binding in &l.body.bindings {
            self.binding(binding);
        }
        let results = self.list(&l.body.results);
        let (next, rest) = results.split_first().map_or(("", &[][..]), |(n, r)| (n.as_str(), r));
        let (carried, scans) = rest.split_at(l.init.len().min(rest.len()));
        let next = format!("R.reflex.next({next}, {}, {})", tuple(carried), tuple(scans));
        let name = self.outputs_name(outputs);
        let ty = self.annotation(outputs);
        self.line(&format!("{name}{ty} = {next}"));
        self.indent -= 1;
        self.project(&name, outputs);
    }

    /// Relax reads a shape from a tensor and matches that; `Node::MatchShape` gives the tensor.
    fn match_shape(&mut self, value: Value, dims: &[Expr], outputs: &[Value]) {
        let text = self.value(value);
        let rank = self.func.values[value].ty.as_tensor().map(|t| t.shape.len());
        if rank == Some(1) && !outputs.iter().any(|v| self.used.contains(v)) {
            let count = dims.len();
            let shape = self.names.fresh("shape");
            let dims = format!("R.Shape([{}])", self.dims(dims, TypePosition::Body));
            self.line(&format!("{shape}: R.Shape(ndim={count}) = R.tensor_to_shape({text})"));
            let name = self.names.fresh("_");
            return self.line(&format!("{name}: {dims} = R.match_cast({shape}, {dims})"));
        }
        let call = format!("R.reflex.match_shape({text}, {})", self.shape(dims));
        let annotation = self.annotation(outputs);
        self.bind(&call, outputs, &annotation);
    }

    /// The right side of a binding without a body.
    fn call(&mut self, binding: &Binding) -> String {
        match &binding.node {
            Node::Op { op, args } => self.op(op, args),
            Node::Leaf(leaf) => self.leaf(leaf),
            Node::CallTir { func, args, scalars } => {
                let list = self.kernel_args(*func, args, scalars);
                let out = self.call_types(&binding.outputs);
                let name = self.cx.names[*func].clone();
                format!("R.call_tir(cls.{name}, {}, out_ty={out})", tuple(&list))
            }
            Node::CallFunc { func, args } => {
                let args = self.list(args).join(", ");
                format!("cls.{}({args})", self.cx.names[*func])
            }
            Node::CallPacked { name, args, ints } => {
                let mut list = self.list(args);
                list.extend(ints.iter().map(|e| self.dim(e)));
                if let Some(kernel) = self.kernel_in_place(name, binding) {
                    return format!("cls.{}({})", self.cx.names[kernel], list.join(", "));
                }
                list.insert(0, string(name));
                let types: Vec<&Type> =
                    binding.outputs.iter().map(|v| &self.func.values[*v].ty).collect();
                let types = self.types(&types, TypePosition::Body);
                format!("R.call_packed({}, ty_args=({types},))", list.join(", "))
            }
            Node::Tuple(items) => match items.as_slice() {
                [] => "R.tuple()".to_string(),
                _ => tuple(&self.list(items)),
            },
            Node::TupleGet(value, index) => format!("{}[{index}]", self.value(*value)),
            Node::Data { op, constructor, args } => {
                let mut list = self.list(args);
                let name = string(&self.cx.module.constructor_name(*constructor));
                list.insert(0, name);
                let function = match op {
                    DataOp::Construct => "construct",
                    DataOp::Is => "is_constructor",
                    DataOp::Field(index) => {
                        list.push(index.to_string());
                        "field"
                    }
                };
                format!("R.reflex.{function}({})", list.join(", "))
            }
            Node::MatchCast(value) => {
                let types: Vec<&Type> =
                    binding.outputs.iter().map(|v| &self.func.values[*v].ty).collect();
                let ty = self.types(&types, TypePosition::Body);
                format!("R.match_cast({}, {ty})", self.value(*value))
            }
            Node::Const(_) | Node::If { .. } | Node::Loop(_) | Node::MatchShape { .. } => {
                unreachable!("printed as statements")
            }
        }
    }

    fn leaf(&self, leaf: &LeafExpr) -> String {
        match leaf {
            LeafExpr::Shape(dims) => self.shape(dims),
            LeafExpr::Int(e) => format!("R.prim_value({})", self.dim(e)),
            LeafExpr::Float(x) => format!("R.prim_value({})", float(*x)),
            LeafExpr::Str(text) => format!("R.str({})", string(text)),
            LeafExpr::DType(dtype) => format!("R.dtype(\"{dtype}\")"),
            LeafExpr::Func(func) => format!("cls.{}", self.cx.names[*func]),
            LeafExpr::Null => "R.null_value()".to_string(),
            LeafExpr::VmState => "R.reflex.machine()".to_string(),
        }
    }

    /// Inputs and scalars in the kernel's own order.
    fn kernel_args(&mut self, func: FuncId, args: &[Value], scalars: &[Expr]) -> Vec<String> {
        let tensors = self.list(args);
        let scalars: Vec<String> = scalars.iter().map(|e| self.dim(e)).collect();
        let (mut tensors, mut scalars) = (tensors.into_iter(), scalars.into_iter());
        let mut list = vec![];
        if let Some(FuncData::Prim(kernel)) = self.cx.module.funcs.get(func) {
            for param in &kernel.params {
                list.extend(match param {
                    Param::Buffer(_) => tensors.next(),
                    Param::Scalar(_) => scalars.next(),
                });
            }
        }
        list.into_iter().chain(tensors).chain(scalars).collect()
    }

    /// A packed call without results that names one of the module's kernels works on the
    /// caller's tensors.
    fn kernel_in_place(&self, name: &str, binding: &Binding) -> Option<FuncId> {
        let mut funcs = self.cx.module.funcs.iter();
        let found = funcs.find(|(_, f)| matches!(f, FuncData::Prim(k) if k.name == name))?;
        binding.outputs.is_empty().then_some(found.0)
    }

    fn call_types(&self, outputs: &[Value]) -> String {
        let types: Vec<String> =
            outputs.iter().map(|v| self.ty(&self.func.values[*v].ty, TypePosition::Body)).collect();
        match types.as_slice() {
            [one] => one.clone(),
            _ => format!("[{}]", types.join(", ")),
        }
    }
}

/// The part of the text that a type is written in.
#[derive(Clone, Copy, PartialEq)]
enum TypePosition {
    Signature,
    Body,
}

/// Returns true if all results have their default names.
fn default_names(names: &[String]) -> bool {
    names.iter().enumerate().all(|(i, name)| *name == format!("output{i}"))
}

fn vars_of(e: &Expr, out: &mut Vec<Var>) {
    e.visit(&mut |e| out.extend(e.as_var()));
}

fn vars_of_type(ty: &Type, out: &mut Vec<Var>) {
    match ty {
        Type::Tensor(t) => t.shape.iter().for_each(|e| vars_of(e, out)),
        Type::Shape(dims) => dims.iter().for_each(|e| vars_of(e, out)),
        Type::Tuple(types) => types.iter().for_each(|t| vars_of_type(t, out)),
        Type::AnyTensor { .. } | Type::AnyShape | Type::Prim(_) | Type::Func | Type::Object => {}
    }
}
