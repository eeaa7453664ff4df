//! Puts bodies of callees in place of calls.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use cranelift_entity::SecondaryMap;
use reflex_graph::{Binding, Body, Func, FuncId, Node, Type, Value, ValueData, dims};
use reflex_tir::{Expr, Var};

use crate::graph::edit::renamed;

/// Chooses callees: gets a function and the depth of the call.
pub(super) type Choose<'a, 'm> = &'a mut dyn FnMut(FuncId, usize) -> Option<&'m Func>;

/// A function that others are put into.
pub(super) struct Splice<'f> {
    caller: &'f mut Func,
    /// Constants of callees, which go to the front of the function.
    constants: Vec<Binding>,
    /// Values that are others now.
    renames: HashMap<Value, Value>,
    /// Values that are items of tuples, whose types are those of their items.
    items: HashSet<Value>,
    changed: bool,
}

impl Splice<'_> {
    /// Replaces the calls that `choose` gives a function for. Returns true if there was one.
    pub fn run(caller: &mut Func, choose: Choose<'_, '_>) -> bool {
        let mut body = std::mem::take(&mut caller.body);
        let items = items_of_tuples(&body);
        let (constants, renames) = (vec![], HashMap::new());
        let mut splice = Splice { caller, constants, renames, items, changed: false };
        splice.body(&mut body, 0, choose);
        let Splice { constants, renames, changed, .. } = splice;
        body.bindings.splice(0..0, constants);
        body.uses_mut(&mut |value| *value = renamed(&renames, *value));
        drop_idle_casts(caller, &mut body);
        caller.body = body;
        changed
    }

    fn body(&mut self, body: &mut Body, depth: usize, choose: Choose<'_, '_>) {
        let mut bindings = vec![];
        for mut binding in std::mem::take(&mut body.bindings) {
            for nested in binding.node.bodies_mut() {
                self.body(nested, depth + 1, choose);
            }
            let (func, args) = match &binding.node {
                Node::CallFunc { func, args } => (*func, args.clone()),
                _ => {
                    bindings.push(binding);
                    continue;
                }
            };
            let args: Vec<Value> = args.iter().map(|arg| renamed(&self.renames, *arg)).collect();
            match choose(func, depth).map(|callee| self.call(callee, &args, &binding)) {
                Some(spliced) => {
                    self.changed = true;
                    bindings.extend(spliced);
                }
                None => bindings.push(binding),
            }
        }
        body.bindings = bindings;
    }

    /// The bindings that do what the call does.
    fn call(&mut self, callee: &Func, args: &[Value], call: &Binding) -> Vec<Binding> {
        let params: Vec<(Value, Value)> =
            callee.params.iter().copied().zip(args.iter().copied()).collect();
        let mut dims = self.dims(callee, &params);
        for (var, data) in callee.syms.iter() {
            if let Entry::Vacant(real) = dims.real.entry(var) {
                let fresh = Expr::var(self.caller.new_sym(data.name.clone()));
                dims.symbolic.insert(var, fresh.clone());
                real.insert(fresh);
            }
        }
        let mut inner = callee.clone();
        inner.replace_dims(&|e| *e = replaced(e, &dims.real));
        let items = items_of_tuples(&inner.body);
        let mut bindings = vec![];
        let mut values: SecondaryMap<Value, Option<Value>> = SecondaryMap::new();
        let before = |value: Value| -> Vec<Expr> {
            callee.symbolic_shape(value).iter().map(|e| replaced(e, &dims.symbolic)).collect()
        };
        for (param, arg) in params {
            let ty = &inner.values[param].ty;
            let found = &self.caller.values[arg].ty;
            // What is only passed on may have a type that says more.
            let fits = (*ty == Type::Object && !items.contains(&param))
                || (same(found, ty) && same_dims(self.caller.symbolic_shape(arg), &before(param)));
            values[param] = Some(match fits {
                true => arg,
                false => {
                    let value = self.new_value(&inner.values[param], before(param));
                    let (node, source) = (Node::MatchCast(arg), call.source.clone());
                    bindings.push(Binding { outputs: vec![value], node, source });
                    value
                }
            });
        }
        for (value, data) in inner.values.iter() {
            if values[value].is_some() {
                continue;
            }
            values[value] = Some(self.new_value(data, before(value)));
        }
        let into = |value: Value| values[value].expect("every value of the callee has one here");
        let mut body = inner.body;
        rename(&mut body, &into);
        for binding in body.bindings {
            match binding.node {
                Node::Const(_) => self.constants.push(binding),
                _ => bindings.push(binding),
            }
        }
        for (output, result) in call.outputs.iter().zip(body.results) {
            let (ty, found) = (&self.caller.values[*output].ty, &self.caller.values[result].ty);
            let (before, after) =
                (self.caller.symbolic_shape(*output), self.caller.symbolic_shape(result));
            if (*ty == Type::Object && !self.items.contains(output))
                || (same(found, ty) && same_dims(before, after))
            {
                self.renames.insert(*output, result);
            } else {
                let (node, source) = (Node::MatchCast(result), call.source.clone());
                bindings.push(Binding { outputs: vec![*output], node, source });
            }
        }
        bindings
    }

    /// A value with the type of one of the callee's, and the shape that it had before dimensions were bound.
    fn new_value(&mut self, data: &ValueData, before: Vec<Expr>) -> Value {
        let new = self.caller.new_value(data.name.clone(), data.ty.clone());
        if data.ty.as_tensor().is_some_and(|ty| ty.shape != before) {
            self.caller.symbolic_shapes.insert(new, before);
        }
        new
    }

    /// The callee's dimensions that arguments determine.
    fn dims(&self, callee: &Func, params: &[(Value, Value)]) -> Dims {
        let mut dims = Dims::default();
        for (param, arg) in params {
            let (param, found) = (&callee.values[*param].ty, &self.caller.values[*arg].ty);
            let (Type::Tensor(param), Type::Tensor(found)) = (param, found) else { continue };
            let symbolic = self.caller.symbolic_shape(*arg);
            if param.shape.len() != found.shape.len() || symbolic.len() != found.shape.len() {
                continue;
            }
            for ((dim, real), symbolic) in param.shape.iter().zip(&found.shape).zip(symbolic) {
                let is_plain = real.as_int().is_some() || real.as_var().is_some();
                if let (Some(var), true) = (dim.as_var(), is_plain)
                    && !dims.real.contains_key(&var)
                {
                    dims.real.insert(var, real.clone());
                    dims.symbolic.insert(var, symbolic.clone());
                }
            }
        }
        dims
    }
}

/// The callee's dimensions as the caller has them: now, and before dimensions were bound.
#[derive(Default)]
struct Dims {
    real: HashMap<Var, Expr>,
    symbolic: HashMap<Var, Expr>,
}

fn replaced(e: &Expr, with: &HashMap<Var, Expr>) -> Expr {
    dims::simplify(&e.substitute(&|var| with.get(&var).cloned()))
}

/// Whether two types are one, dimensions aside that are written in two ways.
fn same(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => a.dtype == b.dtype && same_dims(&a.shape, &b.shape),
        (a, b) => a == b,
    }
}

fn same_dims(a: &[Expr], b: &[Expr]) -> bool {
    let equal = |(a, b): (&Expr, &Expr)| dims::equal(a, b) == Some(true);
    a.len() == b.len() && a.iter().zip(b).all(equal)
}

/// The values that tuples are built of.
fn items_of_tuples(body: &Body) -> HashSet<Value> {
    let mut items = HashSet::new();
    body.walk(&mut |binding| {
        if let Node::Tuple(values) = &binding.node {
            items.extend(values);
        }
    });
    items
}

/// Renames every value of a body.
fn rename(body: &mut Body, into: &dyn Fn(Value) -> Value) {
    for binding in &mut body.bindings {
        binding.outputs.iter_mut().for_each(|value| *value = into(*value));
        binding.node.operands_mut(&mut |value| *value = into(*value));
        if let Node::Loop(l) = &mut binding.node {
            let params = [&mut l.iter, &mut l.cond_in].into_iter().chain(&mut l.carried);
            params.for_each(|value| *value = into(*value));
        }
        binding.node.bodies_mut().into_iter().for_each(|body| rename(body, into));
    }
    body.results.iter_mut().for_each(|value| *value = into(*value));
}

/// Removes checks that a value has the type that it is known to have.
fn drop_idle_casts(func: &Func, body: &mut Body) {
    let mut renames = HashMap::new();
    idle_casts(func, body, &mut renames);
    body.uses_mut(&mut |value| *value = renamed(&renames, *value));
}

fn idle_casts(func: &Func, body: &mut Body, renames: &mut HashMap<Value, Value>) {
    body.bindings.retain(|binding| {
        let Node::MatchCast(value) = binding.node else { return true };
        let cast = binding.outputs[0];
        let idle = func.values[value].ty == func.values[cast].ty
            && same_dims(func.symbolic_shape(value), func.symbolic_shape(cast));
        if idle {
            renames.insert(binding.outputs[0], value);
        }
        !idle
    });
    for binding in &mut body.bindings {
        for nested in binding.node.bodies_mut() {
            idle_casts(func, nested, renames);
        }
    }
}
