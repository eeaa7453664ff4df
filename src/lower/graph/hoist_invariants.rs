//! Loop-invariant code motion.
//!
//! - A carried value that the body returns unchanged becomes its initial value: weights that
//!   frontends pass through a loop's state are constants again, and packed as such.
//! - An operator whose operands are from outside is computed once before the loop.
//! - The matmul of a row, `gather(x, i) @ w`, where `x` and the matrix `w` are from outside and `i`
//!   counts iterations, becomes a row of one matmul, `gather(x @ w, i)`: the weights of a recurrent
//!   cell's input are read once for all steps (Appleyard et al., "Optimizing Performance of
//!   Recurrent Neural Networks on GPUs", section 3.2).
//!
//! Loops are canonical here: no trip count, no scan outputs. Moved operators have no effects, and
//! run even when the loop does not.
//!
//! Decision: docs/decisions/0028-loop-invariants.md

use std::collections::{HashMap, HashSet};

use reflex_graph::{
    Binary, Binding, Body, Const, Func, GatherKind, Loop, Module, Node, Op, OutOfRange, TensorType,
    Type, Value,
};
use reflex_tir::Var;

use super::edit::{bind, constants, each_func, renamed};
use crate::LowerError;

/// Hoists from every loop, the innermost first.
pub fn hoist_invariants(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |module, func| {
        let mut body = std::mem::take(&mut func.body);
        let mut visible = HashSet::new();
        func.params.iter().for_each(|p| note_dims(&func.values[*p].ty, &mut visible));
        let consts = constants(&body);
        let mut renames = HashMap::new();
        InvariantHoister { module, func, consts, renames: &mut renames }.body(&mut body, visible);
        if !renames.is_empty() {
            body.uses_mut(&mut |v| *v = renamed(&renames, *v));
        }
        func.body = body;
        Ok(())
    })
}

/// The symbolic dimensions that a type mentions.
fn note_dims(ty: &Type, vars: &mut HashSet<Var>) {
    let Type::Tensor(ty) = ty else { return };
    ty.shape.iter().for_each(|dim| dim.visit(&mut |e| vars.extend(e.as_var())));
}

/// A row that a loop's body takes of a value from outside.
struct Row {
    of: Value,
    at: Value,
    /// The operator that takes it.
    gather: Op,
}

struct InvariantHoister<'a> {
    module: &'a Module,
    func: &'a mut Func,
    consts: HashMap<Value, Const>,
    /// Carried values and loop outputs that are other values.
    renames: &'a mut HashMap<Value, Value>,
}

impl InvariantHoister<'_> {
    /// `visible` are the symbolic dimensions bound before the body.
    fn body(&mut self, body: &mut Body, mut visible: HashSet<Var>) {
        for mut binding in std::mem::take(&mut body.bindings) {
            let known = body.bindings.len();
            for nested in binding.node.bodies_mut() {
                self.body(nested, visible.clone());
            }
            let mut after = vec![];
            if let Node::Loop(l) = &mut binding.node {
                after = self.unchanged(l, &mut binding.outputs, &binding.source);
                let before = self.hoisted(l, &visible, &binding.source);
                body.bindings.extend(before);
            }
            body.bindings.push(binding);
            body.bindings.extend(after);
            let outputs = body.bindings[known..].iter().flat_map(|b| &b.outputs);
            outputs.for_each(|v| note_dims(&self.func.values[*v].ty, &mut visible));
        }
    }

    /// Stops carrying values that never change. Returns the checks that give the loop's outputs their
    /// types.
    fn unchanged(&mut self, l: &mut Loop, outputs: &mut Vec<Value>, source: &str) -> Vec<Binding> {
        let same = |n: usize| l.body.results[1 + n] == l.carried[n];
        let gone: Vec<usize> = (0..l.carried.len()).filter(|n| same(*n)).collect();
        let mut after = vec![];
        for n in gone.into_iter().rev() {
            let (init, inside) = (l.init.remove(n), l.carried.remove(n));
            l.body.results.remove(1 + n);
            let check = self.same_as(inside, init, source);
            l.body.bindings.splice(..0, check);
            after.extend(self.same_as(outputs.remove(n), init, source));
        }
        after
    }

    /// Makes `value` a name of `init`; where their types differ, returns the check that makes it one
    /// and binds its dimensions.
    fn same_as(&mut self, value: Value, init: Value, source: &str) -> Option<Binding> {
        let types = &self.func.values;
        if types[value].ty == types[init].ty {
            self.renames.insert(value, init);
            return None;
        }
        let node = Node::MatchCast(init);
        Some(Binding { outputs: vec![value], node, source: source.to_string() })
    }

    /// Takes invariant bindings out of the body, and returns them to go before the loop.
    fn hoisted(&mut self, l: &mut Loop, visible: &HashSet<Var>, source: &str) -> Vec<Binding> {
        let mut inside: HashSet<Value> = l.carried.iter().copied().collect();
        inside.extend([l.iter, l.cond_in]);
        l.body.walk(&mut |b| inside.extend(&b.outputs));
        let counters = self.counters(l);
        let mut rows: HashMap<Value, Row> = HashMap::new();
        let mut before = vec![];
        let mut visible = visible.clone();
        for mut binding in std::mem::take(&mut l.body.bindings) {
            binding.node.operands_mut(&mut |v| *v = renamed(self.renames, *v));
            if self.moves(&binding, &inside, &visible) {
                binding.outputs.iter().for_each(|v| {
                    inside.remove(v);
                    note_dims(&self.func.values[*v].ty, &mut visible);
                });
                before.push(binding);
                continue;
            }
            if let Node::Op { op, args } = &mut binding.node {
                match op {
                    Op::Gather { kind: GatherKind::Axis(0), .. }
                        if !inside.contains(&args[0]) && counters.contains(&args[1]) =>
                    {
                        let row = Row { of: args[0], at: args[1], gather: op.clone() };
                        rows.insert(binding.outputs[0], row);
                    }
                    Op::MatMul if !inside.contains(&args[1]) => {
                        if let Some(row) = rows.get(&args[0])
                            && let Some(product) = self.product(row.of, args[1], source)
                        {
                            *op = row.gather.clone();
                            *args = vec![product.outputs[0], row.at];
                            before.push(product);
                        }
                    }
                    _ => {}
                }
            }
            l.body.bindings.push(binding);
        }
        before
    }

    /// Whether a binding of a loop's body gives the same before the loop. Broadcasts and ranges
    /// stay: kernels make them up where they are read. So does what may fail, since the loop may
    /// not run.
    fn moves(&self, b: &Binding, inside: &HashSet<Value>, visible: &HashSet<Var>) -> bool {
        let kind = match &b.node {
            Node::Const(_) => true,
            Node::Op { op, .. } => !matches!(
                op,
                Op::Broadcast(_)
                    | Op::Iota { .. }
                    | Op::Gather { out_of_range: OutOfRange::Raise, .. }
                    | Op::Scatter { out_of_range: OutOfRange::Raise, .. }
            ),
            _ => false,
        };
        let mut fixed = kind;
        b.node.operands(&mut |v| fixed &= !inside.contains(&v));
        let mut dims = HashSet::new();
        b.node.dims(&mut |e| e.visit(&mut |e| dims.extend(e.as_var())));
        b.outputs.iter().for_each(|v| note_dims(&self.func.values[*v].ty, &mut dims));
        fixed && dims.is_subset(visible)
    }

    /// Carried values that go up or down by one.
    fn counters(&self, l: &Loop) -> HashSet<Value> {
        let mut defs = HashMap::new();
        for binding in &l.body.bindings {
            if let Node::Op { op: Op::Binary(f @ (Binary::Add | Binary::Sub)), args } =
                &binding.node
            {
                let args = [args[0], args[1]].map(|v| renamed(self.renames, v));
                defs.insert(binding.outputs[0], (*f, args));
            }
        }
        let is_one = |v: Value| {
            let literal = self.consts.get(&v).map(|c| &self.module.consts[*c]);
            literal.is_some_and(|l| l.count() == 1 && l.to_i64().is_some_and(|all| all == [1]))
        };
        let counts = |(n, value): (usize, &Value)| {
            let (f, args) = defs.get(&l.body.results[1 + n])?;
            let counts = match f {
                Binary::Add => args.contains(value) && args.iter().any(|v| is_one(*v)),
                _ => args[0] == *value && is_one(args[1]),
            };
            counts.then_some(*value)
        };
        l.carried.iter().enumerate().filter_map(counts).collect()
    }

    /// `x @ w` for a matrix `w` and all rows of `x`.
    fn product(&mut self, x: Value, w: Value, source: &str) -> Option<Binding> {
        let (rows, matrix) = (self.func.tensor(x).clone(), self.func.tensor(w).clone());
        let [_, columns] = &matrix.shape[..] else { return None };
        // Without another axis, a gathered row would be a vector.
        let (_, lead) = rows.shape.split_last().filter(|(_, lead)| lead.len() >= 2)?;
        let shape = lead.iter().chain([columns]).cloned().collect();
        let ty = Type::Tensor(TensorType::new(rows.dtype, shape));
        let node = Node::Op { op: Op::MatMul, args: vec![x, w] };
        Some(bind(self.func, node, ty, source).1)
    }
}
