//! One graph function: signature, bindings, control flow.

use std::collections::{HashMap, HashSet};

use cranelift_entity::SecondaryMap;
use reflex_graph::{
    Binding, Body, Const, DataOp, Func, FuncData, FuncId, LeafExpr, Loop, Node, Type, Value,
};
use reflex_node::builder::{Builder, Given};
use reflex_node::graph::{NodeId, Value as Plain};
use reflex_tir::{DType, Expr, Param, Var};

use super::prim::{self, Names, prim_type};
use super::{Exporter, int, types};
use crate::error::ReflectError;
use crate::export::types::any;

pub(super) struct FuncExporter<'c, 'm> {
    pub(super) cx: &'c mut Exporter<'m>,
    pub(super) func: &'m Func,
    pub(super) names: Names,
    values: SecondaryMap<Value, Option<NodeId>>,
    consts: HashMap<Value, Const>,
    used: HashSet<Value>,
    /// Number of values that were named without a hint.
    anonymous: usize,
    /// Bindings of the body that is open.
    bindings: Vec<NodeId>,
}

/// The type of a function, over variables that `names` takes up.
pub(super) fn signature(b: &mut Builder, names: &mut Names, func: &Func, is_pure: bool) -> NodeId {
    *names = Names::of_graph();
    for (var, data) in func.syms.iter() {
        let node = prim::scalar(b, &data.name, DType::I64);
        names.vars.insert(var, node);
    }
    let params: Vec<NodeId> =
        func.params.iter().map(|param| names.ty(b, &func.values[*param].ty, &|_| true)).collect();
    let ret = result_type(b, names, func, &param_dims(func));
    types::function(b, params, ret, is_pure)
}

/// The dimensions of the parameters.
fn param_dims(func: &Func) -> HashSet<Var> {
    let mut dims = HashSet::new();
    func.params.iter().for_each(|param| vars_of_type(&func.values[*param].ty, &mut dims));
    dims
}

/// The dimensions of the parameters, and those that the body binds by matching.
fn body_dims(func: &Func) -> HashSet<Var> {
    let mut dims = param_dims(func);
    for binding in &func.body.bindings {
        match &binding.node {
            Node::MatchCast(_) => {
                binding.outputs.iter().for_each(|v| vars_of_type(&func.values[*v].ty, &mut dims));
            }
            Node::MatchShape { dims: list, .. } => {
                vars_of_type(&Type::Shape(list.clone()), &mut dims);
            }
            _ => {}
        }
    }
    dims
}

/// The type of the result, where these dimensions are known.
fn result_type(b: &mut Builder, names: &mut Names, func: &Func, dims: &HashSet<Var>) -> NodeId {
    let known = |shape: &[Expr]| {
        let mut all = true;
        shape.iter().for_each(|e| {
            e.visit(&mut |e| all &= e.as_var().is_none_or(|var| dims.contains(&var)));
        });
        all
    };
    let results: Vec<NodeId> = func
        .body
        .results
        .iter()
        .map(|value| names.ty(b, &func.values[*value].ty, &known))
        .collect();
    match results[..] {
        [one] => one,
        _ => types::tuple(b, results),
    }
}

fn vars_of_type(ty: &Type, out: &mut HashSet<Var>) {
    let mut dims = |dims: &[Expr]| {
        dims.iter().for_each(|e| e.visit(&mut |e| out.extend(e.as_var())));
    };
    match ty {
        Type::Tensor(t) => dims(&t.shape),
        Type::Shape(list) => dims(list),
        Type::Tuple(types) => types.iter().for_each(|ty| vars_of_type(ty, out)),
        Type::AnyTensor { .. } | Type::AnyShape | Type::Prim(_) | Type::Func | Type::Object => {}
    }
}

impl<'c, 'm> FuncExporter<'c, 'm> {
    pub(super) fn new(cx: &'c mut Exporter<'m>, func: &'m Func, names: Names) -> Self {
        let (mut consts, mut used) = (HashMap::new(), HashSet::new());
        func.body.walk(&mut |binding| {
            if let (Node::Const(c), [value]) = (&binding.node, &binding.outputs[..]) {
                consts.insert(*value, *c);
            }
        });
        func.body.uses(&mut |value| {
            used.insert(value);
        });
        let values = SecondaryMap::new();
        FuncExporter { cx, func, names, values, consts, used, anonymous: 0, bindings: vec![] }
    }

    /// The function itself.
    pub(super) fn function(mut self, id: FuncId, is_pure: bool) -> Result<NodeId, ReflectError> {
        let func = self.func;
        let params = self.define_all(&func.params);
        let name = self.cx.names[id].clone();
        let b = &mut self.cx.b;
        let mut attrs = vec![];
        if !func.is_private {
            attrs.extend([b.string("global_symbol"), b.string(&name)]);
        }
        if func.inline {
            attrs.extend([b.string("Inline"), b.bool(true)]);
        }
        let mut defaults = func.result_names.iter().enumerate();
        if !defaults.all(|(i, name)| *name == format!("output{i}")) {
            let names = func.result_names.iter().map(|name| b.string(name)).collect();
            attrs.extend([b.string("reflex.result_names"), b.array(names)]);
        }
        let attrs = self.cx.attrs(attrs);
        let b = &mut self.cx.b;
        let ret = result_type(b, &mut self.names, func, &param_dims(func));
        let inner = result_type(b, &mut self.names, func, &body_dims(func));
        let result = self.inside(&func.body)?;
        let bindings = std::mem::take(&mut self.bindings);
        let body = self.sequence(bindings, result, Given::Node(inner));
        let ty = self.cx.b.node(self.cx.global(id)).field("ty").cloned();
        let Some(reflex_node::graph::Field::Node(ty)) = ty else { unreachable!("it has a type") };
        Ok(self.function_node(ty, attrs, params, body, ret, is_pure))
    }

    fn function_node(
        &mut self,
        ty: NodeId,
        attrs: NodeId,
        params: Vec<NodeId>,
        body: NodeId,
        ret: NodeId,
        is_pure: bool,
    ) -> NodeId {
        let params = self.cx.b.array(params);
        let fields = [
            ("ty", Given::Node(ty)),
            ("attrs", Given::Node(attrs)),
            ("params", Given::Node(params)),
            ("body", Given::Node(body)),
            ("ret_ty", Given::Node(ret)),
            ("is_pure", Given::Value(Plain::Bool(is_pure))),
        ];
        self.cx.b.object("relax.expr.Function", &fields)
    }

    /// The bindings and results of a body.
    fn body(&mut self, body: &'m Body) -> Result<NodeId, ReflectError> {
        let outer = std::mem::take(&mut self.bindings);
        let result = self.inside(body);
        let bindings = std::mem::replace(&mut self.bindings, outer);
        let result = result?;
        let ty = self.type_of(result);
        Ok(self.sequence(bindings, result, ty))
    }

    fn inside(&mut self, body: &'m Body) -> Result<NodeId, ReflectError> {
        for binding in &body.bindings {
            self.binding(binding)?;
        }
        match &body.results[..] {
            [one] => self.value(*one),
            many => self.tuple(many),
        }
    }

    /// `relax.SeqExpr`
    fn sequence(&mut self, bindings: Vec<NodeId>, result: NodeId, ty: Given) -> NodeId {
        let mut blocks = vec![];
        if !bindings.is_empty() {
            let bindings = self.cx.b.array(bindings);
            let block = [("bindings", Given::Node(bindings))];
            blocks.push(self.cx.b.object("relax.expr.BindingBlock", &block));
        }
        let blocks = self.cx.b.array(blocks);
        let fields = [("ty", ty), ("blocks", Given::Node(blocks)), ("body", Given::Node(result))];
        self.cx.b.object("relax.expr.SeqExpr", &fields)
    }

    /// The type that an expression has.
    pub(super) fn type_of(&mut self, id: NodeId) -> Given {
        match self.cx.b.node(id).field("ty") {
            Some(reflex_node::graph::Field::Node(ty)) => Given::Node(*ty),
            _ => Given::None,
        }
    }

    pub(super) fn ty(&mut self, ty: &Type) -> NodeId {
        self.names.ty(&mut self.cx.b, ty, &|_| true)
    }

    /// The type of the only output, or of the tuple of them.
    fn types(&mut self, values: &[Value]) -> NodeId {
        let types: Vec<NodeId> = values.iter().map(|v| self.ty(&self.func.values[*v].ty)).collect();
        match types[..] {
            [one] => one,
            _ => types::tuple(&mut self.cx.b, types),
        }
    }

    fn define(&mut self, value: Value) -> NodeId {
        let data = &self.func.values[value];
        let ty = self.ty(&data.ty);
        let hint = match (data.name.is_empty(), self.anonymous) {
            (false, _) => data.name.clone(),
            (true, 0) => "gv".to_owned(),
            (true, number) => format!("gv{number}"),
        };
        self.anonymous += usize::from(data.name.is_empty());
        let var = prim::var(&mut self.cx.b, &hint, ty);
        self.values[value] = Some(var);
        var
    }

    fn define_all(&mut self, values: &[Value]) -> Vec<NodeId> {
        values.iter().map(|value| self.define(*value)).collect()
    }

    /// The node of a use of a value.
    pub(super) fn value(&mut self, value: Value) -> Result<NodeId, ReflectError> {
        match (self.values[value], self.consts.get(&value)) {
            (Some(node), _) => Ok(node),
            (None, Some(id)) => Ok(self.cx.constant(*id)),
            (None, None) => {
                let name = &self.func.name;
                Err(ReflectError(format!("function {name}: nothing defines the value {value}")))
            }
        }
    }

    pub(super) fn values(&mut self, values: &[Value]) -> Result<Vec<NodeId>, ReflectError> {
        values.iter().map(|value| self.value(*value)).collect()
    }

    fn tuple(&mut self, values: &[Value]) -> Result<NodeId, ReflectError> {
        let items = self.values(values)?;
        Ok(self.tuple_of(items))
    }

    /// A tuple of expressions.
    pub(super) fn tuple_of(&mut self, items: Vec<NodeId>) -> NodeId {
        let types = items.iter().map(|item| match self.type_of(*item) {
            Given::Node(ty) => ty,
            _ => any(&mut self.cx.b),
        });
        let types: Vec<NodeId> = types.collect();
        let ty = types::tuple(&mut self.cx.b, types);
        let fields = self.cx.b.array(items);
        let fields = [("ty", Given::Node(ty)), ("fields", Given::Node(fields))];
        self.cx.b.object("ir.Tuple", &fields)
    }

    fn binding(&mut self, binding: &'m Binding) -> Result<(), ReflectError> {
        match &binding.node {
            Node::Const(_) => Ok(()),
            Node::If { cond, then, otherwise } => {
                let cond = self.value(*cond)?;
                let (then, otherwise) = (self.body(then)?, self.body(otherwise)?);
                let ty = self.types(&binding.outputs);
                let fields = [
                    ("ty", Given::Node(ty)),
                    ("cond", Given::Node(cond)),
                    ("true_branch", Given::Node(then)),
                    ("false_branch", Given::Node(otherwise)),
                ];
                let choice = self.cx.b.object("relax.expr.If", &fields);
                self.bind(choice, &binding.outputs);
                Ok(())
            }
            Node::Loop(l) => self.run_loop(l, &binding.outputs),
            Node::MatchShape { value, dims } => self.match_shape(*value, dims, &binding.outputs),
            Node::MatchCast(value) => {
                let value = self.value(*value)?;
                let ty = self.types(&binding.outputs);
                let var = self.outputs_var(&binding.outputs);
                self.match_cast(var, value, ty);
                self.project(var, &binding.outputs);
                Ok(())
            }
            _ => {
                let value = self.expression(binding)?;
                self.bind(value, &binding.outputs);
                Ok(())
            }
        }
    }

    /// `outputs = value`, and a projection for each value where there are several.
    fn bind(&mut self, value: NodeId, outputs: &[Value]) {
        let var = self.outputs_var(outputs);
        self.bind_var(var, value);
        self.project(var, outputs);
    }

    fn bind_var(&mut self, var: NodeId, value: NodeId) {
        let fields = [("var", Given::Node(var)), ("value", Given::Node(value))];
        let binding = self.cx.b.object("relax.expr.VarBinding", &fields);
        self.bindings.push(binding);
    }

    fn match_cast(&mut self, var: NodeId, value: NodeId, ty: NodeId) {
        let fields =
            [("var", Given::Node(var)), ("value", Given::Node(value)), ("ty", Given::Node(ty))];
        let binding = self.cx.b.object("relax.expr.MatchCast", &fields);
        self.bindings.push(binding);
    }

    /// The variable of the only output, or of the tuple of them.
    fn outputs_var(&mut self, outputs: &[Value]) -> NodeId {
        if let [one] = outputs {
            return self.define(*one);
        }
        let ty = self.types(outputs);
        let name = match outputs.first() {
            Some(first) => {
                let hint = &self.func.values[*first].name;
                format!("{}_all", if hint.is_empty() { "gv" } else { hint })
            }
            None => "_".to_owned(),
        };
        prim::var(&mut self.cx.b, &name, ty)
    }

    fn project(&mut self, tuple: NodeId, outputs: &[Value]) {
        if outputs.len() < 2 {
            return;
        }
        for (index, value) in (0..).zip(outputs) {
            let var = self.define(*value);
            let fields = [
                ("ty", self.type_of(var)),
                ("tuple_value", Given::Node(tuple)),
                ("index", int(index)),
            ];
            let item = self.cx.b.object("ir.TupleGetItem", &fields);
            self.bind_var(var, item);
        }
    }

    /// A loop is a call of `reflex.loop`: the function of one iteration, the most iterations, the condition, the
    /// tuple of what is carried. The function gives the next condition, what is carried next, and what is stacked.
    fn run_loop(&mut self, l: &'m Loop, outputs: &[Value]) -> Result<(), ReflectError> {
        let optional = |p: &mut Self, value: Option<Value>| match value {
            Some(value) => p.value(value),
            None => Ok(p.null()),
        };
        let (trips, cond) = (optional(self, l.max_trips)?, optional(self, l.cond)?);
        let init = self.tuple(&l.init)?;
        let mut params = self.define_all(&[l.iter, l.cond_in]);
        params.extend(self.define_all(&l.carried));
        let outer = std::mem::take(&mut self.bindings);
        let result = self.iteration(l);
        let bindings = std::mem::replace(&mut self.bindings, outer);
        let result = result?;
        let ty = self.type_of(result);
        let body = self.sequence(bindings, result, ty);
        let param_types: Vec<NodeId> =
            [l.iter, l.cond_in].iter().chain(&l.carried).map(|v| self.types(&[*v])).collect();
        let Given::Node(ret) = self.type_of(body) else { unreachable!("a sequence has a type") };
        let ty = types::function(&mut self.cx.b, param_types, ret, false);
        let attrs = self.cx.attrs(vec![]);
        let function = self.function_node(ty, attrs, params, body, ret, false);
        let step = prim::var(&mut self.cx.b, "iteration", ty);
        self.bind_var(step, function);
        let ty = self.types(outputs);
        let call = self.external("reflex.loop", vec![step, trips, cond, init], vec![], ty);
        self.bind(call, outputs);
        Ok(())
    }

    fn iteration(&mut self, l: &'m Loop) -> Result<NodeId, ReflectError> {
        for binding in &l.body.bindings {
            self.binding(binding)?;
        }
        let results = self.values(&l.body.results)?;
        let (next, rest) = results.split_at(1.min(results.len()));
        let (carried, scans) = rest.split_at(l.init.len().min(rest.len()));
        let (carried, scans) = (self.tuple_of(carried.to_vec()), self.tuple_of(scans.to_vec()));
        let items = [next, &[carried, scans]].concat();
        Ok(self.tuple_of(items))
    }

    /// Relax reads a shape from a tensor and matches that; `Node::MatchShape` gives the tensor.
    fn match_shape(
        &mut self,
        value: Value,
        dims: &[Expr],
        outputs: &[Value],
    ) -> Result<(), ReflectError> {
        let rank = self.func.values[value].ty.as_tensor().map(|t| t.shape.len());
        let tensor = self.value(value)?;
        if rank == Some(1) && !outputs.iter().any(|v| self.used.contains(v)) {
            let b = &mut self.cx.b;
            let rank = int(i64::try_from(dims.len()).unwrap_or(i64::MAX));
            let ty = b.object("relax.ShapeType", &[("ndim", rank)]);
            let call = prim::call(b, "relax.tensor_to_shape", vec![tensor], ty);
            let shape = prim::var(b, "shape", ty);
            self.bind_var(shape, call);
            let ty = self.ty(&Type::Shape(dims.to_vec()));
            let var = prim::var(&mut self.cx.b, "_", ty);
            self.match_cast(var, shape, ty);
            return Ok(());
        }
        let dims = self.shape(dims);
        let ty = self.types(outputs);
        let call = self.external("reflex.match_shape", vec![tensor, dims], vec![], ty);
        self.bind(call, outputs);
        Ok(())
    }

    /// `R.shape([...])`
    pub(super) fn shape(&mut self, dims: &[Expr]) -> NodeId {
        let dims = self.names.exprs(&mut self.cx.b, dims);
        types::shape(&mut self.cx.b, dims)
    }

    pub(super) fn null(&mut self) -> NodeId {
        let ty = any(&mut self.cx.b);
        prim::call(&mut self.cx.b, "relax.null_value", vec![], ty)
    }

    /// The right side of a binding without a body.
    fn expression(&mut self, binding: &'m Binding) -> Result<NodeId, ReflectError> {
        match &binding.node {
            Node::Op { op, args } => {
                let ty = self.types(&binding.outputs);
                self.operator(op, args, ty)
            }
            Node::Leaf(leaf) => Ok(self.leaf(leaf)),
            Node::CallTir { func, args, scalars } => {
                let list = self.kernel_args(*func, args, scalars)?;
                let (tuple, ty) = (self.tuple_of(list), self.types(&binding.outputs));
                let args = vec![self.cx.global(*func), tuple];
                let op = self.cx.b.named("ir.Op", "relax.call_tir");
                Ok(self.call(op, args, Given::None, vec![ty], ty))
            }
            Node::CallFunc { func, args } => {
                let (args, ty) = (self.values(args)?, self.types(&binding.outputs));
                Ok(self.call(self.cx.global(*func), args, Given::None, vec![], ty))
            }
            Node::CallPacked { name, args, ints } => {
                let mut list = self.values(args)?;
                list.extend(self.names.exprs(&mut self.cx.b, ints));
                let ty = self.types(&binding.outputs);
                if let Some(kernel) = self.kernel_in_place(name, binding) {
                    return Ok(self.call(self.cx.global(kernel), list, Given::None, vec![], ty));
                }
                let function = self.extern_func(name);
                Ok(self.call(function, list, Given::None, vec![ty], ty))
            }
            Node::Tuple(items) => self.tuple(items),
            Node::TupleGet(value, index) => {
                let (tuple, ty) = (self.value(*value)?, self.types(&binding.outputs));
                let index = int(i64::try_from(*index).unwrap_or(i64::MAX));
                let fields = [
                    ("ty", Given::Node(ty)),
                    ("tuple_value", Given::Node(tuple)),
                    ("index", index),
                ];
                Ok(self.cx.b.object("ir.TupleGetItem", &fields))
            }
            Node::Data { op, constructor, args } => {
                let name = self.cx.module.constructor_name(*constructor);
                let mut list = vec![prim::string(&mut self.cx.b, &name)];
                list.extend(self.values(args)?);
                let function = match op {
                    DataOp::Construct => "reflex.construct",
                    DataOp::Is => "reflex.is_constructor",
                    DataOp::Field(index) => {
                        let index = i64::try_from(*index).unwrap_or(i64::MAX);
                        list.push(prim::int64(&mut self.cx.b, index));
                        "reflex.field"
                    }
                };
                let ty = self.types(&binding.outputs);
                Ok(self.external(function, list, vec![], ty))
            }
            Node::Const(_)
            | Node::If { .. }
            | Node::Loop(_)
            | Node::MatchShape { .. }
            | Node::MatchCast(_) => unreachable!("bindings of their own"),
        }
    }

    fn leaf(&mut self, leaf: &LeafExpr) -> NodeId {
        let b = &mut self.cx.b;
        match leaf {
            LeafExpr::Shape(dims) => self.shape(dims),
            LeafExpr::Int(e) => self.names.expr(b, e),
            LeafExpr::Float(x) => prim::float(b, *x, DType::F64),
            LeafExpr::Str(text) => prim::string(b, text),
            LeafExpr::DType(dtype) => {
                let (ty, value) = (any(b), b.named("DataType", &dtype.to_string()));
                let fields = [("ty", Given::Node(ty)), ("value", Given::Node(value))];
                b.object("ir.GenericConst", &fields)
            }
            LeafExpr::Func(func) => self.cx.global(*func),
            LeafExpr::Null => self.null(),
            LeafExpr::VmState => {
                let ty = any(b);
                self.external("reflex.machine", vec![], vec![], ty)
            }
        }
    }

    /// Inputs and scalars in the kernel's own order.
    fn kernel_args(
        &mut self,
        func: FuncId,
        args: &[Value],
        scalars: &[Expr],
    ) -> Result<Vec<NodeId>, ReflectError> {
        let tensors = self.values(args)?;
        let scalars = self.names.exprs(&mut self.cx.b, scalars);
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
        Ok(list.into_iter().chain(tensors).chain(scalars).collect())
    }

    /// A packed call without results that names one of the module's kernels works on the caller's tensors.
    fn kernel_in_place(&self, name: &str, binding: &Binding) -> Option<FuncId> {
        let mut funcs = self.cx.module.funcs.iter();
        let found = funcs.find(|(_, f)| matches!(f, FuncData::Prim(k) if k.name == name))?;
        binding.outputs.is_empty().then_some(found.0)
    }

    /// `ir.Call`
    pub(super) fn call(
        &mut self,
        op: NodeId,
        args: Vec<NodeId>,
        attrs: Given,
        ty_args: Vec<NodeId>,
        ty: NodeId,
    ) -> NodeId {
        let (args, ty_args) = (self.cx.b.array(args), self.cx.b.array(ty_args));
        let fields = [
            ("ty", Given::Node(ty)),
            ("op", Given::Node(op)),
            ("args", Given::Node(args)),
            ("attrs", attrs),
            ("ty_args", Given::Node(ty_args)),
        ];
        self.cx.b.object("ir.Call", &fields)
    }

    /// `relax.ExternFunc`
    fn extern_func(&mut self, name: &str) -> NodeId {
        let attrs = self.cx.attrs(vec![]);
        let b = &mut self.cx.b;
        let (ret, infer) = (any(b), b.named("ir.EnvFunc", "tvm.relax.type.infer_by_ty_args"));
        let fields = [
            ("ret", Given::Node(ret)),
            ("derive_func", Given::Node(infer)),
            ("purity", Given::Value(Plain::Bool(false))),
        ];
        let ty = b.object("relax.FuncType", &fields);
        let name = b.string(name);
        let fields = [
            ("ty", Given::Node(ty)),
            ("attrs", Given::Node(attrs)),
            ("global_symbol", Given::Node(name)),
        ];
        b.object("relax.expr.ExternFunc", &fields)
    }

    /// A call of what TVM has no node for: keys and values of attributes in turn. It is pure.
    pub(super) fn external(
        &mut self,
        name: &str,
        args: Vec<NodeId>,
        attrs: Vec<NodeId>,
        ty: NodeId,
    ) -> NodeId {
        let mut all = vec![self.extern_func(name)];
        all.extend(args);
        let attrs = self.cx.attrs(attrs);
        let op = self.cx.b.named("ir.Op", "relax.call_pure_packed");
        self.call(op, all, Given::Node(attrs), vec![ty], ty)
    }

    /// The type of a scalar of a dimension.
    pub(super) fn int64_type(&mut self) -> NodeId {
        prim_type(&mut self.cx.b, DType::I64)
    }
}
