//! Evaluation of whole functions: bindings, branches, loops and symbolic dimensions.

use std::collections::HashMap;

use reflex_tir::{DType, Expr, Var};

use super::dim::eval_dim;
use super::error::{EvalError, Result};
use super::movement::{concat, reshape, scalar_i64, scalar_true};
use super::op::eval_op;
use super::packed;
use super::scalar::ints;
use crate::ir::{
    Binding, Body, ConstructorRef, DataOp, Func, FuncData, FuncId, LeafExpr, Loop, Module, Node,
    TensorType, Type, Value,
};
use crate::literal::Literal;

/// A value during evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum EvalValue {
    /// Tensor.
    Tensor(Literal),
    /// Shape.
    Shape(Vec<i64>),
    /// Tuple.
    Tuple(Vec<EvalValue>),
    /// Value of a data type.
    Data {
        /// The constructor that made it.
        constructor: ConstructorRef,
        /// Its fields.
        fields: Vec<EvalValue>,
    },
    /// A bool that is no tensor.
    Bool(bool),
    /// A function with the values bound to its last parameters.
    Closure {
        /// The function.
        func: FuncId,
        /// The bound values.
        bound: Vec<EvalValue>,
    },
    /// A string.
    Str(String),
    /// Nothing: an optional without content.
    Null,
    /// The state of the virtual machine, which packed functions take.
    VmState,
}

impl EvalValue {
    /// The tensor, if it is one.
    pub fn as_tensor(&self) -> Option<&Literal> {
        match self {
            EvalValue::Tensor(l) => Some(l),
            EvalValue::Shape(_)
            | EvalValue::Tuple(_)
            | EvalValue::Data { .. }
            | EvalValue::Bool(_)
            | EvalValue::Closure { .. }
            | EvalValue::Str(_)
            | EvalValue::Null
            | EvalValue::VmState => None,
        }
    }
}

/// Runs a graph function. Every tensor is checked against its declared type, so a wrong
/// inference is an error here too.
pub fn eval_func(module: &Module, func: FuncId, args: &[EvalValue]) -> Result<Vec<EvalValue>> {
    let FuncData::Graph(graph) = &module.funcs[func] else {
        let name = module.funcs[func].name();
        return Err(EvalError::new(format!("{name} is a kernel, not a graph function")));
    };
    if args.len() != graph.params.len() {
        let (name, want, got) = (&graph.name, graph.params.len(), args.len());
        return Err(EvalError::new(format!("{name} takes {want} arguments, got {got}")));
    }
    let mut frame = Frame { module, func: graph, values: HashMap::new(), dims: HashMap::new() };
    for (param, arg) in graph.params.iter().zip(args) {
        frame.define(*param, arg.clone()).map_err(|e| e.at(&graph.name))?;
    }
    frame.body(&graph.body)
}

struct Frame<'a> {
    module: &'a Module,
    func: &'a Func,
    values: HashMap<Value, EvalValue>,
    dims: HashMap<Var, i64>,
}

impl Frame<'_> {
    fn body(&mut self, body: &Body) -> Result<Vec<EvalValue>> {
        for binding in &body.bindings {
            self.binding(binding).map_err(|e| {
                let location = match binding.source.as_str() {
                    "" => binding.outputs.first().map_or(String::new(), |v| v.to_string()),
                    source => source.to_string(),
                };
                e.at(&location)
            })?;
        }
        body.results.iter().map(|v| self.get(*v).cloned()).collect()
    }

    fn binding(&mut self, binding: &Binding) -> Result<()> {
        let outputs = self.node(binding)?;
        if outputs.len() != binding.outputs.len() {
            let (want, got) = (binding.outputs.len(), outputs.len());
            return Err(EvalError::new(format!("{got} results for {want} outputs")));
        }
        for (value, result) in binding.outputs.iter().zip(outputs) {
            self.define(*value, result)?;
        }
        Ok(())
    }

    fn get(&self, value: Value) -> Result<&EvalValue> {
        self.values.get(&value).ok_or_else(|| EvalError::new(format!("{value} is not defined")))
    }

    fn tensor(&self, value: Value) -> Result<&Literal> {
        let found = self.get(value)?;
        found.as_tensor().ok_or_else(|| EvalError::new(format!("{value} is not a tensor")))
    }

    /// Binds a value after checking its type; unknown dimensions that stand alone in the
    /// type become known.
    fn define(&mut self, value: Value, result: EvalValue) -> Result<()> {
        let ty = &self.func.values[value].ty;
        match (&result, ty) {
            (EvalValue::Tensor(l), Type::Tensor(t)) => {
                if l.dtype() != t.dtype || l.shape().len() != t.shape.len() {
                    return Err(self.mismatch(value, l, t));
                }
                for (dim, n) in t.shape.iter().zip(l.shape()) {
                    self.unify(dim, *n).map_err(|_| self.mismatch(value, l, t))?;
                }
            }
            (EvalValue::Tuple(items), Type::Tuple(types)) if items.len() == types.len() => {}
            (EvalValue::Shape(found), Type::Shape(dims)) if found.len() == dims.len() => {
                for (dim, n) in dims.iter().zip(found) {
                    self.unify(dim, *n)?;
                }
            }
            (EvalValue::Bool(_), Type::Prim(DType::BOOL))
            | (EvalValue::Closure { .. }, Type::Func)
            | (_, Type::Object) => {}
            (result, ty) => {
                return Err(EvalError::new(format!("{value} is {result:?}, declared {ty:?}")));
            }
        }
        self.values.insert(value, result);
        Ok(())
    }

    fn mismatch(&self, value: Value, found: &Literal, declared: &TensorType) -> EvalError {
        let name = &self.func.values[value].name;
        let (dtype, shape) = (declared.dtype, &declared.shape);
        EvalError::new(format!("{value} ({name}) is {found:?}, declared {dtype}{shape:?}"))
    }

    fn unify(&mut self, dim: &Expr, value: i64) -> Result<()> {
        let known = eval_dim(dim, &|v| self.dims.get(&v).copied());
        match (known, dim.as_var()) {
            (Some(known), _) if known == value => Ok(()),
            (None, Some(var)) => {
                self.dims.insert(var, value);
                Ok(())
            }
            _ => Err(EvalError::new(format!("{dim:?} is {known:?}, found {value}"))),
        }
    }

    fn node(&mut self, binding: &Binding) -> Result<Vec<EvalValue>> {
        match &binding.node {
            Node::Op { op, args } => {
                let args: Vec<&Literal> =
                    args.iter().map(|v| self.tensor(*v)).collect::<Result<_>>()?;
                let results = eval_op(op, &args, &|v| self.dims.get(&v).copied())?;
                Ok(results.into_iter().map(EvalValue::Tensor).collect())
            }
            Node::Const(c) => Ok(vec![EvalValue::Tensor(self.module.consts[*c].clone())]),
            Node::Leaf(LeafExpr::Func(func)) => {
                Ok(vec![EvalValue::Closure { func: *func, bound: vec![] }])
            }
            Node::Leaf(LeafExpr::Str(text)) => Ok(vec![EvalValue::Str(text.clone())]),
            Node::Leaf(LeafExpr::Null) => Ok(vec![EvalValue::Null]),
            Node::Leaf(LeafExpr::VmState) => Ok(vec![EvalValue::VmState]),
            Node::Leaf(leaf) => Err(EvalError::new(format!("{leaf:?} has no reference meaning"))),
            Node::CallTir { func, .. } => {
                let name = self.module.funcs[*func].name();
                Err(EvalError::new(format!("kernel {name} is not run by the graph evaluator")))
            }
            Node::CallFunc { func, args } => {
                let args: Vec<EvalValue> =
                    args.iter().map(|v| self.get(*v).cloned()).collect::<Result<_>>()?;
                eval_func(self.module, *func, &args)
            }
            Node::CallPacked { name, args, ints } if ints.is_empty() => {
                let args: Vec<EvalValue> =
                    args.iter().map(|v| self.get(*v).cloned()).collect::<Result<_>>()?;
                let result = packed::call(self.module, name, args)?;
                match (result, binding.outputs.len()) {
                    (result, 1) => Ok(vec![result]),
                    (EvalValue::Tuple(items), _) => Ok(items),
                    (result, _) => Ok(vec![result]),
                }
            }
            Node::CallPacked { name, .. } => Err(packed::unknown(name)),
            Node::If { cond, then, otherwise } => {
                let taken = match self.get(*cond)? {
                    EvalValue::Bool(taken) => *taken,
                    _ => truth(self.tensor(*cond)?)?,
                };
                self.body(if taken { then } else { otherwise })
            }
            Node::Data { op, constructor, args } => {
                let args: Vec<EvalValue> =
                    args.iter().map(|v| self.get(*v).cloned()).collect::<Result<_>>()?;
                Ok(vec![data(self.module, *op, *constructor, args)?])
            }
            Node::Loop(l) => self.run_loop(l, binding),
            Node::Tuple(items) => {
                let items = items.iter().map(|v| self.get(*v).cloned()).collect::<Result<_>>()?;
                Ok(vec![EvalValue::Tuple(items)])
            }
            Node::TupleGet(tuple, index) => match self.get(*tuple)? {
                EvalValue::Tuple(items) if *index < items.len() => Ok(vec![items[*index].clone()]),
                other => Err(EvalError::new(format!("field {index} of {other:?}"))),
            },
            Node::MatchCast(value) => Ok(vec![self.get(*value)?.clone()]),
            Node::MatchShape { value, dims } => {
                let tensor = self.tensor(*value)?.clone();
                let found = ints(&tensor)?;
                if found.len() != dims.len() || tensor.shape().len() > 1 {
                    return Err(EvalError::new(format!("{tensor:?} does not match {dims:?}")));
                }
                for (dim, n) in dims.iter().zip(found) {
                    self.unify(dim, n)?;
                }
                Ok(vec![EvalValue::Tensor(tensor)])
            }
        }
    }

    fn run_loop(&mut self, l: &Loop, binding: &Binding) -> Result<Vec<EvalValue>> {
        let most = match l.max_trips {
            Some(v) => ints(self.tensor(v)?)?.first().copied().unwrap_or(0),
            None => i64::MAX,
        };
        let mut go = l.cond.map_or(Ok(true), |v| truth(self.tensor(v)?))?;
        let mut carried: Vec<EvalValue> =
            l.init.iter().map(|v| self.get(*v).cloned()).collect::<Result<_>>()?;
        let count = carried.len();
        let mut scans: Vec<Vec<Literal>> = vec![vec![]; l.body.results.len() - 1 - count];
        let outer = self.dims.clone();
        let mut trip = 0;
        while go && trip < most {
            // Dimensions bound inside the body may differ from one iteration to the next.
            self.dims.clone_from(&outer);
            self.define(l.iter, EvalValue::Tensor(scalar_i64(trip)))?;
            self.define(l.cond_in, EvalValue::Tensor(scalar_true()))?;
            for (param, value) in l.carried.iter().zip(carried) {
                self.define(*param, value)?;
            }
            let mut results = self.body(&l.body)?;
            let scanned = results.split_off(1 + count);
            carried = results.split_off(1);
            go = results[0].as_tensor().map_or(Ok(false), truth)?;
            for (scan, value) in scans.iter_mut().zip(scanned) {
                let value = value.as_tensor().cloned();
                scan.push(value.ok_or_else(|| EvalError::new("a scan value is not a tensor"))?);
            }
            trip += 1;
        }
        self.dims = outer;
        for (scan, out) in scans.iter().zip(&binding.outputs[count..]) {
            carried.push(EvalValue::Tensor(self.stack(scan, *out)?));
        }
        Ok(carried)
    }

    /// Joins scan values along a new first axis; without any, the declared type tells the rest.
    fn stack(&self, values: &[Literal], out: Value) -> Result<Literal> {
        let Type::Tensor(t) = &self.func.values[out].ty else {
            return Err(EvalError::new(format!("scan output {out} is not a tensor")));
        };
        if values.is_empty() {
            let dims = |v| self.dims.get(&v).copied();
            let mut shape = vec![0];
            shape.extend(t.shape[1..].iter().map(|d| eval_dim(d, &dims).unwrap_or(0)));
            return super::shape::literal(t.dtype, shape, vec![]);
        }
        let rows: Vec<Literal> =
            values.iter().map(|l| reshape(l, [&[1], l.shape()].concat())).collect::<Result<_>>()?;
        concat(&rows.iter().collect::<Vec<_>>(), 0)
    }
}

/// An operation on a value of a data type.
fn data(
    module: &Module,
    op: DataOp,
    constructor: ConstructorRef,
    args: Vec<EvalValue>,
) -> Result<EvalValue> {
    let wrong = |value: &EvalValue| {
        let name = module.constructor_name(constructor);
        EvalError::new(format!("{op:?} of {name} for {value:?}"))
    };
    match (op, args.as_slice()) {
        (DataOp::Construct, _) => Ok(EvalValue::Data { constructor, fields: args }),
        (DataOp::Is, [EvalValue::Data { constructor: made_by, .. }]) => {
            Ok(EvalValue::Bool(*made_by == constructor))
        }
        (DataOp::Field(index), [value @ EvalValue::Data { constructor: made_by, fields }])
            if *made_by == constructor =>
        {
            fields.get(index).cloned().ok_or_else(|| wrong(value))
        }
        (DataOp::Is | DataOp::Field(_), [value, ..]) => Err(wrong(value)),
        (DataOp::Is | DataOp::Field(_), []) => Err(EvalError::new("a value is missing")),
    }
}

fn truth(l: &Literal) -> Result<bool> {
    if l.dtype() == DType::BOOL && l.count() == 1 {
        return Ok(l.bytes()[0] != 0);
    }
    Err(EvalError::new(format!("a condition must be one bool, got {l:?}")))
}
