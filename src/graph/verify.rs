//! The graph verifier: lists everything that is wrong with a module.
//!
//! Passes rely on these properties without checking them: every value is defined once and
//! before its uses, every operator's outputs have the inferred types, every symbolic
//! dimension is bound before it is mentioned, calls match their callees.

use std::collections::HashSet;
use std::fmt;

use cranelift_entity::SecondaryMap;
use reflex_tir::{DType, Expr, Param, Var};

use crate::func_type::FuncType;
use crate::infer::infer;
use crate::{
    Binding, Body, Const, ConstructorRef, DataOp, Func, FuncData, FuncId, LeafExpr, Loop, Module,
    Node, Op, TensorType, Type, Value, dims,
};

/// A violation of the rules of graph IR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The function.
    pub func: String,
    /// The binding's outputs or source, empty for the function as a whole.
    pub location: String,
    /// The rule that is violated.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.func)?;
        if !self.location.is_empty() {
            write!(f, ", {}", self.location)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Checks a whole module; the error holds every fault.
pub fn verify(module: &Module) -> Result<(), Vec<Fault>> {
    let mut faults = vec![];
    let mut names = HashSet::new();
    for func in module.funcs.values() {
        if !names.insert(func.name()) {
            faults.push(Fault {
                func: func.name().to_string(),
                location: String::new(),
                reason: "another function has this name".to_string(),
            });
        }
        if let FuncData::Graph(func) = func {
            faults.extend(verify_func(module, func));
        }
    }
    for data_type in module.data_types.values() {
        let mut constructors = HashSet::new();
        let mut names = data_type.constructors.iter().map(|c| c.name.as_str());
        if names.any(|name| !constructors.insert(name)) {
            let reason = "two constructors have one name".to_string();
            faults.push(Fault { func: data_type.name.clone(), location: String::new(), reason });
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn verify_func(module: &Module, func: &Func) -> Vec<Fault> {
    let mut cx = Verifier {
        module,
        func,
        defined: SecondaryMap::new(),
        ever: SecondaryMap::new(),
        bound: HashSet::new(),
        location: String::new(),
        faults: vec![],
    };
    for param in &func.params {
        cx.define(*param, NewDims::MayBind);
    }
    cx.body(&func.body);
    if func.result_names.len() != func.body.results.len() {
        cx.location = String::new();
        cx.fault("there is not one name per result");
    }
    cx.faults
}

/// Says whether a type may introduce symbolic dimensions.
#[derive(Clone, Copy, PartialEq)]
enum NewDims {
    MayBind,
    MustBeBound,
}

struct Verifier<'a> {
    module: &'a Module,
    func: &'a Func,
    /// Visible here.
    defined: SecondaryMap<Value, bool>,
    /// Defined anywhere.
    ever: SecondaryMap<Value, bool>,
    bound: HashSet<Var>,
    location: String,
    faults: Vec<Fault>,
}

impl Verifier<'_> {
    fn fault(&mut self, reason: impl Into<String>) {
        let (func, location) = (self.func.name.clone(), self.location.clone());
        self.faults.push(Fault { func, location, reason: reason.into() });
    }

    fn exists(&mut self, value: Value) -> bool {
        let known = self.func.values.is_valid(value);
        if !known {
            self.fault(format!("{value} does not exist"));
        }
        known
    }

    fn read(&mut self, value: Value) {
        if self.exists(value) && !self.defined[value] {
            self.fault(format!("{value} is read before it is defined"));
        }
    }

    fn define(&mut self, value: Value, dims: NewDims) {
        if !self.exists(value) {
            return;
        }
        if std::mem::replace(&mut self.ever[value], true) {
            self.fault(format!("{value} is defined twice"));
        }
        self.defined[value] = true;
        let exprs: Vec<Expr> = match &self.func.values[value].ty {
            Type::Tensor(t) => t.shape.clone(),
            Type::Shape(dims) => dims.clone(),
            Type::AnyTensor { .. }
            | Type::AnyShape
            | Type::Prim(_)
            | Type::Tuple(_)
            | Type::Func
            | Type::Object => {
                vec![]
            }
        };
        if dims == NewDims::MayBind {
            self.bound.extend(exprs.iter().filter_map(Expr::as_var));
        }
        exprs.iter().for_each(|e| self.dims_bound(e));
    }

    fn dims_bound(&mut self, e: &Expr) {
        let mut unbound = vec![];
        e.visit(&mut |e| unbound.extend(e.as_var().filter(|v| !self.bound.contains(v))));
        for var in unbound {
            self.fault(format!("dimension {var} is mentioned before it is bound"));
        }
    }

    /// Checks a nested or outermost body; what it defines is not visible after it.
    fn body(&mut self, body: &Body) {
        let outer = (self.defined.clone(), self.bound.clone());
        for binding in &body.bindings {
            self.binding(binding);
        }
        body.results.iter().for_each(|v| self.read(*v));
        (self.defined, self.bound) = outer;
    }

    fn binding(&mut self, binding: &Binding) {
        let outputs: Vec<String> = binding.outputs.iter().map(Value::to_string).collect();
        self.location = format!("{} ({})", outputs.join(", "), binding.source);
        let location = self.location.clone();
        let faults = self.faults.len();
        binding.node.operands(&mut |v| self.read(v));
        let exist = binding.outputs.iter().all(|v| self.exists(*v));
        if exist && self.faults.len() == faults {
            self.node(binding);
        }
        self.location = location;
        let dims = match &binding.node {
            Node::MatchCast(_) | Node::CallPacked { .. } | Node::CallFunc { .. } => {
                NewDims::MayBind
            }
            // Outputs of a loop or branch may have dimensions known only at run time.
            Node::Loop(_) | Node::If { .. } => NewDims::MayBind,
            Node::MatchShape { dims, .. } => {
                self.bound.extend(dims.iter().filter_map(Expr::as_var));
                NewDims::MustBeBound
            }
            Node::Op { .. }
            | Node::Const(_)
            | Node::Leaf(_)
            | Node::CallTir { .. }
            | Node::Tuple(_)
            | Node::TupleGet(..)
            | Node::Data { .. } => NewDims::MustBeBound,
        };
        binding.outputs.iter().for_each(|v| self.define(*v, dims));
    }

    fn tensors(&mut self, values: &[Value]) -> Option<Vec<TensorType>> {
        let types: Option<Vec<TensorType>> =
            values.iter().map(|v| self.func.values[*v].ty.as_tensor().cloned()).collect();
        if types.is_none() {
            self.fault("an operand or output is not a tensor");
        }
        types
    }

    fn node(&mut self, binding: &Binding) {
        let outs = &binding.outputs;
        match &binding.node {
            Node::Op { op, args } => self.operator(op, args, outs),
            Node::Const(c) => self.constant(*c, outs),
            Node::Leaf(leaf) => self.leaf(binding, leaf),
            Node::CallTir { func, args, scalars } => self.call_tir(*func, args, scalars, outs),
            Node::CallFunc { func, args } => self.call_func(*func, args, outs),
            Node::CallPacked { ints, .. } => ints.iter().for_each(|e| self.dims_bound(e)),
            Node::If { then, otherwise, .. } => {
                self.branch(then, outs);
                self.branch(otherwise, outs);
            }
            Node::Loop(l) => self.run_loop(l, outs),
            Node::Tuple(items) => {
                let types = items.iter().map(|v| self.func.values[*v].ty.clone()).collect();
                self.same_types(&[Type::Tuple(types)], outs);
            }
            Node::TupleGet(tuple, index) => self.tuple_get(*tuple, *index, outs),
            Node::Data { op, constructor, args } => self.data(*op, *constructor, args, outs),
            Node::MatchCast(_) if outs.len() == 1 => {}
            Node::MatchCast(_) => self.fault("a match_cast has one output"),
            Node::MatchShape { value, .. } => {
                let ty = self.func.values[*value].ty.clone();
                self.same_types(&[ty], outs);
            }
        }
    }

    fn operator(&mut self, op: &Op, args: &[Value], outs: &[Value]) {
        let (fewest, most) = op.arity();
        if !(fewest..=most).contains(&args.len()) {
            return self.fault(format!("{op:?} has {} operands", args.len()));
        }
        if let (Some(args), Some(outs)) = (self.tensors(args), self.tensors(outs)) {
            self.inferred_types(op, &args, &outs);
        }
    }

    fn constant(&mut self, id: Const, outs: &[Value]) {
        let Some(literal) = self.module.consts.get(id) else {
            return self.fault(format!("{id} does not exist"));
        };
        let shape = literal.shape().iter().map(|d| Expr::i64(*d)).collect();
        let ty = TensorType::new(literal.dtype(), shape);
        self.same_types(&[Type::Tensor(ty)], outs);
    }

    fn leaf(&mut self, binding: &Binding, leaf: &LeafExpr) {
        binding.node.dims(&mut |e| self.dims_bound(e));
        if let LeafExpr::Func(func) = leaf
            && !matches!(self.module.funcs.get(*func), Some(FuncData::Graph(_)))
        {
            self.fault(format!("{func} is not a graph function"));
        }
        if binding.outputs.len() != 1 {
            self.fault("a leaf expression has one output");
        }
    }

    fn call_func(&mut self, func: FuncId, args: &[Value], outs: &[Value]) {
        match self.module.funcs.get(func) {
            Some(callee @ FuncData::Graph(_)) => {
                let args = self.types(args);
                self.call(callee, &args, outs);
            }
            Some(other) => self.fault(format!("{} cannot be called so", other.name())),
            None => self.fault(format!("{func} does not exist")),
        }
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.func.values[*v].ty.clone()).collect()
    }

    /// A call of a function of either kind.
    fn call(&mut self, callee: &FuncData, args: &[Type], outs: &[Value]) {
        let name = callee.name();
        let results = match FuncType::of(callee).call(args) {
            Ok(results) => results,
            Err(why) => return self.fault(format!("a call of {name}: {why}")),
        };
        if results.len() != outs.len() {
            return self.fault(format!("{} results are bound of {name}", outs.len()));
        }
        for (result, value) in results.iter().zip(outs) {
            if let Err(why) = result.fits(&self.func.values[*value].ty) {
                self.fault(format!("{value}, a result of {name}: {why}"));
            }
        }
    }

    fn branch(&mut self, body: &Body, outs: &[Value]) {
        self.body(body);
        if body.results.len() != outs.len() {
            self.fault(format!("{} results for {} outputs", body.results.len(), outs.len()));
        }
    }

    fn tuple_get(&mut self, tuple: Value, index: usize, outs: &[Value]) {
        match &self.func.values[tuple].ty {
            Type::Tuple(types) if index < types.len() => {
                let ty = types[index].clone();
                self.same_types(&[ty], outs);
            }
            other => {
                let reason = format!("field {index} of {other:?}");
                self.fault(reason);
            }
        }
    }

    fn data(&mut self, op: DataOp, constructor: ConstructorRef, args: &[Value], outs: &[Value]) {
        let Some(arity) = self.module.constructor(constructor).map(|c| c.arity) else {
            return self.fault("a constructor that does not exist");
        };
        let name = self.module.constructor_name(constructor);
        let (operands, ty) = match op {
            DataOp::Construct => (arity, Type::Object),
            DataOp::Is => (1, Type::Prim(DType::BOOL)),
            DataOp::Field(index) if index < arity => (1, Type::Object),
            DataOp::Field(index) => {
                return self.fault(format!("{name} has {arity} fields, not one at {index}"));
            }
        };
        if args.len() != operands {
            let count = args.len();
            return self.fault(format!("{op:?} of {name} takes {operands} operands, not {count}"));
        }
        self.same_types(&[ty], outs);
    }

    fn inferred_types(&mut self, op: &Op, args: &[TensorType], outs: &[TensorType]) {
        let inferred = match infer(op, &args.iter().collect::<Vec<_>>()) {
            Ok(types) => types,
            Err(e) => return self.fault(e.to_string()),
        };
        let mut mentioned = vec![];
        inferred.iter().for_each(|t| mentioned.extend(t.shape.clone()));
        mentioned.iter().for_each(|e| self.dims_bound(e));
        let same = |a: &TensorType, b: &TensorType| {
            a.dtype == b.dtype
                && a.shape.len() == b.shape.len()
                && a.shape.iter().zip(&b.shape).all(|(a, b)| dims::equal(a, b) == Some(true))
        };
        let fits =
            outs.len() == inferred.len() && outs.iter().zip(&inferred).all(|(a, b)| same(a, b));
        if !fits {
            self.fault(format!("{op:?} is declared {outs:?}, inferred {inferred:?}"));
        }
    }

    fn same_types(&mut self, want: &[Type], outs: &[Value]) {
        let found: Vec<Type> = outs.iter().map(|v| self.func.values[*v].ty.clone()).collect();
        if found != want {
            self.fault(format!("declared {found:?}, computed {want:?}"));
        }
    }

    fn call_tir(&mut self, func: FuncId, args: &[Value], scalars: &[Expr], outs: &[Value]) {
        scalars.iter().for_each(|e| self.dims_bound(e));
        let Some(callee @ FuncData::Prim(kernel)) = self.module.funcs.get(func) else {
            return self.fault(format!("{func} is not a kernel"));
        };
        // Scalars stand where the kernel has them among its parameters.
        let (mut tensors, mut types) = (args.iter(), vec![]);
        let explicit = kernel.params.iter().filter(|p| matches!(p, Param::Scalar(_))).count();
        if explicit != scalars.len() || kernel.params.len() < kernel.num_outputs {
            return self.fault(format!("the operand counts of kernel {} differ", kernel.name));
        }
        for param in &kernel.params[..kernel.params.len() - kernel.num_outputs] {
            match param {
                Param::Scalar(var) => types.push(Type::Prim(kernel.vars[*var].dtype)),
                Param::Buffer(_) => {
                    types.extend(tensors.next().map(|v| self.func.values[*v].ty.clone()));
                }
            }
        }
        types.extend(tensors.map(|value| self.func.values[*value].ty.clone()));
        if types.iter().any(|ty| !matches!(ty, Type::Tensor(_) | Type::Prim(_)))
            || outs.iter().any(|value| self.func.values[*value].ty.as_tensor().is_none())
        {
            return self.fault(format!("an operand or output of {} is no tensor", kernel.name));
        }
        self.call(callee, &types, outs);
    }

    fn run_loop(&mut self, l: &Loop, outs: &[Value]) {
        let results = l.body.results.len();
        if l.carried.len() != l.init.len()
            || results < 1 + l.init.len()
            || outs.len() + 1 != results
        {
            return self.fault("the loop's carried values, results and outputs do not match up");
        }
        let outer = (self.defined.clone(), self.bound.clone());
        for value in [l.iter, l.cond_in].iter().chain(&l.carried) {
            self.define(*value, NewDims::MayBind);
        }
        self.body(&l.body);
        (self.defined, self.bound) = outer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unary;
    use crate::builder::FuncBuilder;

    fn sample() -> Module {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let n = Expr::var(b.sym("n"));
        let x = b.param("x", TensorType::new(DType::F32, vec![n]));
        let y = b.emit1(Op::Unary(Unary::Exp), &[x]).unwrap();
        let z = b.emit1(Op::Unary(Unary::Neg), &[y]).unwrap();
        b.finish(vec![z], vec!["z".into()]);
        module
    }

    fn graph(module: &mut Module) -> &mut Func {
        match module.funcs.values_mut().next() {
            Some(FuncData::Graph(f)) => f,
            _ => unreachable!("the sample holds one graph function"),
        }
    }

    #[test]
    fn a_built_function_verifies() {
        assert_eq!(verify(&sample()), Ok(()));
    }

    #[test]
    fn every_fault_is_listed() {
        let mut module = sample();
        let f = graph(&mut module);
        f.body.bindings.swap(0, 1);
        let y = f.body.bindings[1].outputs[0];
        f.values[y].ty = Type::Tensor(TensorType::new(DType::I64, vec![]));
        f.result_names.clear();
        let faults = verify(&module).unwrap_err();
        let text: Vec<String> = faults.iter().map(Fault::to_string).collect();
        assert_eq!(faults.len(), 3, "{text:?}");
        assert!(text[0].contains("read before it is defined"), "{text:?}");
        assert!(text[1].contains("inferred"), "{text:?}");
        assert!(text[2].contains("one name per result"), "{text:?}");
    }
}
