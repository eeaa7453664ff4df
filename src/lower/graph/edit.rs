//! Helpers of rewrites: access to functions and constants, renaming.

use std::collections::{HashMap, HashSet};

use reflex_graph::infer::infer;
use reflex_graph::{
    Binding, Body, Const, Func, FuncData, FuncId, Literal, Module, Node, Op, TensorType, Type,
    Value,
};
use reflex_tir::{DType, Expr};

use crate::LowerError;

/// Calls `f` on every graph function, which is out of the module meanwhile.
pub(crate) fn each_func(
    module: &mut Module,
    mut f: impl FnMut(&mut Module, &mut Func) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let ids: Vec<FuncId> = module.funcs.keys().collect();
    for id in ids {
        if !matches!(module.funcs[id], FuncData::Graph(_)) {
            continue;
        }
        let hole = FuncData::Graph(Func::new(""));
        let FuncData::Graph(mut func) = std::mem::replace(&mut module.funcs[id], hole) else {
            unreachable!("it was a graph function above");
        };
        let result = f(module, &mut func);
        module.funcs[id] = FuncData::Graph(func);
        result?;
    }
    Ok(())
}

/// Which values of a function are constants.
pub(crate) fn constants(body: &Body) -> HashMap<Value, Const> {
    let mut map = HashMap::new();
    body.walk(&mut |b| {
        if let Node::Const(c) = b.node {
            map.insert(b.outputs[0], c);
        }
    });
    map
}

/// Number of values that name each constant, in all functions of the module.
pub(crate) fn constant_names(module: &Module) -> HashMap<Const, usize> {
    let mut names = HashMap::new();
    for func in module.funcs.values() {
        if let FuncData::Graph(func) = func {
            constants(&func.body).values().for_each(|c| *names.entry(*c).or_default() += 1);
        }
    }
    names
}

/// Drops the data of constants that no binding names: identifiers stay valid.
pub(crate) fn release_constants(module: &mut Module) {
    let mut used = HashSet::new();
    for func in module.funcs.values() {
        if let FuncData::Graph(func) = func {
            used.extend(constants(&func.body).into_values());
        }
    }
    let unused: Vec<Const> = module.consts.keys().filter(|c| !used.contains(c)).collect();
    unused.into_iter().for_each(|c| release(module, c));
}

/// Drops the data of a constant that nothing reads any more.
pub(crate) fn release(module: &mut Module, constant: Const) {
    module.consts[constant].release();
    module.consts[constant] = Literal::from_i64(vec![0], &[]);
}

/// The type of a constant.
pub(crate) fn type_of(literal: &Literal) -> Type {
    let shape = literal.shape().iter().map(|d| Expr::i64(*d)).collect();
    Type::Tensor(TensorType::new(literal.dtype(), shape))
}

/// A binding of a new constant.
pub(crate) fn new_constant(
    module: &mut Module,
    func: &mut Func,
    name: &str,
    literal: Literal,
) -> Binding {
    let value = func.new_value(name, type_of(&literal));
    let id = module.add_const(literal);
    Binding { outputs: vec![value], node: Node::Const(id), source: String::new() }
}

/// A binding of one output, which has a [symbolic shape](Func::symbolic_shape) if operands of the operator have.
pub(crate) fn bind(func: &mut Func, node: Node, ty: Type, source: &str) -> (Value, Binding) {
    let before = symbolic_result(func, &node);
    let value = func.new_value("", ty);
    func.symbolic_shapes.extend(before.map(|shape| (value, shape)));
    (value, Binding { outputs: vec![value], node, source: source.to_string() })
}

/// Writes operators to a body.
pub(crate) struct Emitter<'a> {
    pub module: &'a mut Module,
    pub func: &'a mut Func,
    /// The node of the model that they come from.
    pub source: &'a str,
    pub body: &'a mut Body,
}

impl Emitter<'_> {
    /// A constant.
    pub fn constant(&mut self, literal: Literal) -> Value {
        let binding = new_constant(self.module, self.func, "", literal);
        let value = binding.outputs[0];
        self.body.bindings.push(binding);
        value
    }

    /// The result of an operator that has one.
    pub fn op(&mut self, op: Op, args: &[Value]) -> Result<Value, LowerError> {
        let types: Vec<_> = args.iter().map(|arg| self.func.tensor(*arg)).collect();
        let types = infer(&op, &types).map_err(|e| LowerError::internal(e.to_string()))?;
        let [ty] = <[_; 1]>::try_from(types).expect("these operators have one result");
        let node = Node::Op { op, args: args.to_vec() };
        let (value, binding) = bind(self.func, node, Type::Tensor(ty), self.source);
        self.body.bindings.push(binding);
        Ok(value)
    }
}

/// The shape of an operator's first result, as it was before symbolic dimensions of its operands were bound.
fn symbolic_result(func: &Func, node: &Node) -> Option<Vec<Expr>> {
    let Node::Op { op, args } = node else { return None };
    if !args.iter().any(|arg| func.symbolic_shapes.contains_key(arg)) {
        return None;
    }
    let before = |arg: &Value| {
        let dtype = func.values[*arg].ty.as_tensor()?.dtype;
        Some(TensorType::new(dtype, func.symbolic_shape(*arg).to_vec()))
    };
    let types = args.iter().map(before).collect::<Option<Vec<_>>>()?;
    let results = infer(op, &types.iter().collect::<Vec<_>>()).ok()?;
    results.into_iter().next().map(|ty| ty.shape)
}

/// Writes `op` over operands in float32 for a binding, and converts the result to the binding's type.
pub(crate) fn in_float32(func: &mut Func, body: &mut Body, binding: Binding, op: Op) {
    let Binding { outputs, mut node, source } = binding;
    let mut convert = |func: &mut Func, op: Op, args: Vec<Value>, like: Value| {
        let ty = TensorType::new(DType::F32, func.tensor(like).shape.clone());
        let (value, made) = bind(func, Node::Op { op, args }, Type::Tensor(ty), &source);
        body.bindings.push(made);
        value
    };
    let mut args = vec![];
    node.operands_mut(&mut |arg| {
        args.push(convert(func, Op::Cast(DType::F32), vec![*arg], *arg));
    });
    let (result, dtype) = (outputs[0], func.tensor(outputs[0]).dtype);
    let result = convert(func, op, args, result);
    let node = Node::Op { op: Op::Cast(dtype), args: vec![result] };
    body.bindings.push(Binding { outputs, node, source });
}

/// Gives every binding, those of nested bodies first, to `f`, which writes what takes its place.
pub(crate) fn each_binding(
    func: &mut Func,
    body: &mut Body,
    f: &mut dyn FnMut(&mut Func, &mut Body, Binding),
) {
    for mut binding in std::mem::take(&mut body.bindings) {
        for nested in binding.node.bodies_mut() {
            each_binding(func, nested, f);
        }
        f(func, body, binding);
    }
}

/// Follows a renaming to its end.
pub(crate) fn renamed(map: &HashMap<Value, Value>, mut value: Value) -> Value {
    while let Some(next) = map.get(&value) {
        value = *next;
    }
    value
}
