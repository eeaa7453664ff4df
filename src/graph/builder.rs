//! Builds a graph function, as Relax's `BlockBuilder`: emits operators with inferred types and
//! interned constants.
//!
//! Where inference has to assume that two dimensions agree, the builder makes it true with a
//! `match_cast` of the operand and uses the refined value from there on. Nested bodies (`If`,
//! `Loop`) are opened and closed like brackets; constants always land in the outermost body.
//! The builder does not optimise.

use std::collections::HashMap;
use std::sync::Arc;

use cranelift_entity::SecondaryMap;
use reflex_tir::{DType, Expr, Var};

use crate::infer::{InferError, infer, infer_assuming};
use crate::registered::{AttrValue, OpDef};
use crate::{
    Binding, Body, Const, Func, FuncData, FuncId, LeafExpr, Literal, Module, Node, Op, TensorType,
    Type, Value, ValueData,
};

/// Larger constants, in bytes, are not interned.
const INTERN_LIMIT: usize = 4096;

/// A function under construction.
pub struct FuncBuilder<'m> {
    module: &'m mut Module,
    func: Func,
    scopes: Vec<Scope>,
    source: String,
    interned: HashMap<(DType, Vec<i64>, Vec<u8>), Value>,
    constants: SecondaryMap<Value, Option<Const>>,
}

/// An open body.
#[derive(Default)]
struct Scope {
    body: Body,
    /// Values that a `match_cast` of this body refined.
    refined: HashMap<Value, Value>,
}

impl<'m> FuncBuilder<'m> {
    /// A function of `module` without parameters.
    pub fn new(module: &'m mut Module, name: impl Into<String>) -> FuncBuilder<'m> {
        FuncBuilder {
            module,
            func: Func::new(name),
            scopes: vec![Scope::default()],
            source: String::new(),
            interned: HashMap::new(),
            constants: SecondaryMap::new(),
        }
    }

    /// Sets the source of the following bindings, for messages.
    pub fn set_source(&mut self, source: impl Into<String>) {
        self.source = source.into();
    }

    /// The source of the following bindings.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Number of symbolic dimensions; later ones have higher ids.
    pub fn sym_count(&self) -> usize {
        self.func.syms.len()
    }

    /// A new symbolic dimension.
    pub fn sym(&mut self, name: impl Into<Arc<str>>) -> Var {
        self.func.new_sym(name)
    }

    /// Name of a symbolic dimension.
    pub fn sym_name(&self, var: Var) -> &str {
        &self.func.syms[var].name
    }

    /// Appends a tensor parameter.
    pub fn param(&mut self, name: impl Into<String>, ty: TensorType) -> Value {
        let value = self.func.new_value(name, Type::Tensor(ty));
        self.func.params.push(value);
        value
    }

    /// Appends a parameter of any type.
    pub fn param_of(&mut self, name: impl Into<String>, ty: Type) -> Value {
        let value = self.func.new_value(name, ty);
        self.func.params.push(value);
        value
    }

    /// A loop body parameter of any type.
    pub fn value_of(&mut self, name: impl Into<String>, ty: Type) -> Value {
        self.func.new_value(name, ty)
    }

    /// The module so far.
    pub fn module(&self) -> &Module {
        self.module
    }

    /// The module, for a function that is built while this one is.
    pub fn module_mut(&mut self) -> &mut Module {
        self.module
    }

    /// Name of the function.
    pub fn func_name(&self) -> &str {
        &self.func.name
    }

    /// A tensor parameter of a loop body.
    pub fn body_param(&mut self, name: impl Into<String>, ty: TensorType) -> Value {
        self.func.new_value(name, Type::Tensor(ty))
    }

    /// The type of a tensor.
    ///
    /// # Panics
    /// When the value is not a tensor.
    pub fn tensor(&self, value: Value) -> &TensorType {
        self.func.tensor(value)
    }

    /// The type of any value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.func.values[value].ty
    }

    /// Renames a value.
    pub fn set_name(&mut self, value: Value, name: impl Into<String>) {
        self.func.values[value].name = name.into();
    }

    /// Name of a value.
    pub fn name(&self, value: Value) -> &str {
        &self.func.values[value].name
    }

    /// A constant; equal small ones share a value.
    pub fn constant(&mut self, literal: Literal) -> Value {
        let small = literal.size() <= INTERN_LIMIT;
        let key =
            small.then(|| (literal.dtype(), literal.shape().to_vec(), literal.bytes().to_vec()));
        if let Some(value) = key.as_ref().and_then(|key| self.interned.get(key)) {
            return *value;
        }
        let shape = literal.shape().iter().map(|d| Expr::i64(*d)).collect();
        let ty = TensorType::new(literal.dtype(), shape);
        let id = self.module.add_const(literal);
        let value = self.func.new_value("", Type::Tensor(ty));
        // The outermost body dominates everything, also while a nested one is open.
        let binding =
            Binding { outputs: vec![value], node: Node::Const(id), source: String::new() };
        self.scopes[0].body.bindings.push(binding);
        self.constants[value] = Some(id);
        if let Some(key) = key {
            self.interned.insert(key, value);
        }
        value
    }

    /// The literal of a value that is a constant.
    pub fn as_constant(&self, value: Value) -> Option<&Literal> {
        self.constants[value].map(|id| &self.module.consts[id])
    }

    /// The leaf expression that a value is.
    pub fn leaf_of(&self, value: Value) -> Option<&LeafExpr> {
        let bindings = self.scopes.iter().rev().flat_map(|scope| scope.body.bindings.iter().rev());
        let binding = bindings.into_iter().find(|binding| binding.outputs.contains(&value))?;
        match &binding.node {
            Node::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// Emits an operator.
    pub fn emit(&mut self, op: Op, args: &[Value]) -> Result<Vec<Value>, InferError> {
        let mut args: Vec<Value> = args.iter().map(|arg| self.refined(*arg)).collect();
        let dims: usize = args.iter().map(|v| self.func.tensor(*v).shape.len()).sum();
        let mut rounds = 4 * dims;
        let types = loop {
            let operands: Vec<&TensorType> = args.iter().map(|v| self.func.tensor(*v)).collect();
            let (types, assumptions) = infer_assuming(&op, &operands)?;
            let Some(first) = assumptions.first() else { break types };
            // Each round fixes one dimension of one argument, unless two assumptions contradict each other.
            let Some(left) = rounds.checked_sub(1) else { break infer(&op, &operands)? };
            rounds = left;
            let mut ty = operands[first.arg].clone();
            ty.shape[first.axis] = first.dim.clone();
            args[first.arg] = self.match_cast(args[first.arg], ty);
        };
        Ok(self.bind(Node::Op { op, args }, types))
    }

    /// Emits a call of a registered operator; an error says what is wrong with the call, or with what its
    /// inference or implementation gives.
    pub fn emit_registered(
        &mut self,
        def: &OpDef,
        args: &[Value],
        attrs: Vec<(String, AttrValue)>,
    ) -> Result<Vec<Value>, String> {
        let args: Vec<Value> = args.iter().map(|arg| self.refined(*arg)).collect();
        let mut types = vec![];
        for arg in &args {
            let ty = self.ty(*arg).as_tensor();
            types.push(ty.cloned().ok_or_else(|| {
                format!("operator {}: an operand that is no tensor of known type", def.name())
            })?);
        }
        let op = def.call(&types, attrs, &self.func.syms)?;
        let ty = |(dtype, shape): &(DType, Vec<Expr>)| TensorType::new(*dtype, shape.clone());
        let results = op.results.iter().map(ty).collect();
        Ok(self.bind(Node::Op { op: Op::Registered(Box::new(op)), args }, results))
    }

    /// Emits an operator of one output.
    pub fn emit1(&mut self, op: Op, args: &[Value]) -> Result<Value, InferError> {
        Ok(self.emit(op, args)?[0])
    }

    /// Binds any node to fresh values of the given types.
    pub fn bind(&mut self, node: Node, types: Vec<TensorType>) -> Vec<Value> {
        self.bind_values(node, types.into_iter().map(Type::Tensor).collect())
    }

    /// Binds any node to fresh values of any types.
    pub fn bind_values(&mut self, node: Node, types: Vec<Type>) -> Vec<Value> {
        let fresh = |ty| self.func.new_value("", ty);
        let outputs: Vec<Value> = types.into_iter().map(fresh).collect();
        let source = self.source.clone();
        let binding = Binding { outputs: outputs.clone(), node, source };
        self.scope().body.bindings.push(binding);
        outputs
    }

    /// Checks at run time that a tensor has a type, binding symbols that are new in it.
    pub fn match_cast(&mut self, value: Value, ty: TensorType) -> Value {
        self.match_cast_of(value, Type::Tensor(ty))
    }

    /// [`FuncBuilder::match_cast`] to any type.
    pub fn match_cast_of(&mut self, value: Value, ty: Type) -> Value {
        if *self.ty(value) == ty {
            return value;
        }
        let name = self.func.values[value].name.clone();
        let cast = self.bind_values(Node::MatchCast(value), vec![ty])[0];
        self.func.values[cast].name = name;
        self.scope().refined.insert(value, cast);
        cast
    }

    /// Reads the elements of a 1-D or scalar int64 tensor as new symbols.
    ///
    /// # Panics
    /// When the tensor's element count is not a number.
    pub fn match_shape(&mut self, value: Value, name: &str) -> Vec<Expr> {
        let ty = self.func.tensor(value).clone();
        let shape = ty.const_shape().expect("a known element count");
        let count: i64 = shape.iter().product();
        let dims: Vec<Expr> =
            (0..count).map(|i| Expr::var(self.sym(format!("{name}_{i}")))).collect();
        self.bind(Node::MatchShape { value, dims: dims.clone() }, vec![ty]);
        dims
    }

    /// The newest visible refinement of a value by `match_cast`.
    pub fn refined(&self, mut value: Value) -> Value {
        while let Some(next) = self.scopes.iter().find_map(|scope| scope.refined.get(&value)) {
            value = *next;
        }
        value
    }

    /// Opens a nested body.
    pub fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    /// Closes the innermost body.
    ///
    /// # Panics
    /// When only the function's own body is open.
    pub fn close(&mut self, results: Vec<Value>) -> Body {
        assert!(self.scopes.len() > 1, "no nested body is open");
        let scope = self.scopes.pop().expect("checked above");
        Body { results, ..scope.body }
    }

    /// Ends the function and adds it to the module.
    ///
    /// # Panics
    /// When a nested body is open.
    pub fn finish(self, results: Vec<Value>, names: Vec<String>) -> FuncId {
        let (module, func) = self.end(results, names);
        module.funcs.push(FuncData::Graph(func))
    }

    /// Ends the function, which the caller adds to the module.
    ///
    /// # Panics
    /// When a nested body is open.
    pub fn finish_detached(self, results: Vec<Value>, names: Vec<String>) -> Func {
        self.end(results, names).1
    }

    fn end(mut self, results: Vec<Value>, names: Vec<String>) -> (&'m mut Module, Func) {
        assert!(self.scopes.len() == 1, "a nested body is open");
        let scope = self.scopes.pop().expect("checked above");
        self.func.body = Body { results, ..scope.body };
        self.func.result_names = names;
        (self.module, self.func)
    }

    /// Every value so far, for messages.
    pub fn value(&self, value: Value) -> &ValueData {
        &self.func.values[value]
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("the function's own body")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Binary;

    #[test]
    fn assumptions_become_match_casts_once() {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let n = Expr::var(b.sym("n"));
        let x = b.param("x", TensorType::new(DType::F32, vec![n]));
        let c = b.constant(Literal::from_f32(vec![3], &[1.0, 2.0, 3.0]));
        assert_eq!(b.constant(Literal::from_f32(vec![3], &[1.0, 2.0, 3.0])), c);
        let y = b.emit1(Op::Binary(Binary::Add), &[x, c]).unwrap();
        let z = b.emit1(Op::Binary(Binary::Mul), &[x, y]).unwrap();
        assert_eq!(b.tensor(z).const_shape(), Some(vec![3]));
        b.finish(vec![z], vec!["z".into()]);
        let FuncData::Graph(func) = module.funcs.values().next().unwrap() else { panic!() };
        let casts = func.body.bindings.iter().filter(|b| matches!(b.node, Node::MatchCast(_)));
        assert_eq!(casts.count(), 1);
    }
}
