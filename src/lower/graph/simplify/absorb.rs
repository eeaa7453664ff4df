//! Folds constants per output channel into the weights and bias of the matmul or convolution before
//! them: the rest of a batch normalisation disappears.

use std::collections::HashMap;

use reflex_graph::{Binary, Binding, Body, Const, Func, Literal, Module, Node, Op, Value, eval_op};

use crate::LowerError;
use crate::graph::edit::{constant_names, constants, new_constant, release, renamed};

/// Rewrites `contraction(x, w, b) * c + d` where the contraction has no other use. Returns true if
/// any was.
pub(super) fn absorb(
    module: &mut Module,
    func: &mut Func,
    body: &mut Body,
) -> Result<bool, LowerError> {
    let consts = constants(body);
    let mut uses: HashMap<Value, usize> = HashMap::new();
    body.uses(&mut |v| *uses.entry(v).or_default() += 1);
    // The function itself is out of the module.
    let mut names = constant_names(module);
    consts.values().for_each(|c| *names.entry(*c).or_default() += 1);
    let mut cx = Absorber { module, func, consts, names, renames: HashMap::new(), changed: false };
    cx.body(body, &uses);
    let (changed, renames) = (cx.changed, cx.renames);
    body.uses_mut(&mut |v| *v = renamed(&renames, *v));
    Ok(changed)
}

struct Absorber<'a> {
    module: &'a mut Module,
    func: &'a mut Func,
    consts: HashMap<Value, Const>,
    /// Number of values that name each constant, in all functions.
    names: HashMap<Const, usize>,
    renames: HashMap<Value, Value>,
    changed: bool,
}

impl Absorber<'_> {
    fn body(&mut self, body: &mut Body, uses: &HashMap<Value, usize>) {
        let mut contractions: HashMap<Value, usize> = HashMap::new();
        for mut binding in std::mem::take(&mut body.bindings) {
            for nested in binding.node.bodies_mut() {
                self.body(nested, uses);
            }
            binding.node.operands_mut(&mut |v| *v = renamed(&self.renames, *v));
            if let Some((at, f, c)) = self.candidate(&binding, &contractions, uses)
                && let Some((first, second)) = self.absorbed(&body.bindings[at], f, c)
            {
                // The constants are bound before the contraction, which stays where it is.
                let contraction = body.bindings[at].outputs[0];
                self.renames.insert(binding.outputs[0], contraction);
                self.changed = true;
                self.release_weights(&body.bindings[at].node, &second, uses);
                body.bindings[at].node = second;
                let added = first.len();
                body.bindings.splice(at..at, first);
                contractions.values_mut().filter(|p| **p >= at).for_each(|p| *p += added);
                continue;
            }
            if let (Node::Op { op: Op::Conv(_) | Op::MatMul, .. }, [output]) =
                (&binding.node, &binding.outputs[..])
            {
                contractions.insert(*output, body.bindings.len());
            }
            body.bindings.push(binding);
        }
    }

    /// `contraction op constant`, where the binding is the contraction's only use: the binding of
    /// the contraction, and the constant.
    fn candidate(
        &self,
        binding: &Binding,
        contractions: &HashMap<Value, usize>,
        uses: &HashMap<Value, usize>,
    ) -> Option<(usize, Binary, Value)> {
        let Node::Op { op: Op::Binary(f), args } = &binding.node else { return None };
        let (a, b) = (args[0], args[1]);
        let (contraction, constant) = match (contractions.contains_key(&a), f) {
            (true, Binary::Add | Binary::Sub | Binary::Mul) => (a, b),
            (false, Binary::Add | Binary::Mul) => (b, a),
            _ => return None,
        };
        let at = *contractions.get(&contraction)?;
        // The contraction's value may be renamed to its earlier consumer.
        let users: usize = std::iter::once(&contraction)
            .chain(self.renames.iter().filter(|(_, to)| **to == contraction).map(|(from, _)| from))
            .map(|v| uses.get(v).copied().unwrap_or(0))
            .sum();
        let absorbed = self.renames.values().filter(|to| **to == contraction).count();
        let same = self.func.values[contraction].ty == self.func.values[binding.outputs[0]].ty;
        let alone = users == 1 + absorbed && self.consts.contains_key(&constant) && same;
        alone.then_some((at, *f, constant))
    }

    /// New constants and the contraction that includes `f` with the constant.
    fn absorbed(
        &mut self,
        contraction: &Binding,
        f: Binary,
        constant: Value,
    ) -> Option<(Vec<Binding>, Node)> {
        let Node::Op { op, args } = &contraction.node else { return None };
        // Products of codes would be floats.
        let weights = self.literal(args[1]).filter(|w| w.as_block_quantized().is_none())?;
        let rank = self.func.tensor(contraction.outputs[0]).shape.len();
        let (axis, channels) = match op {
            Op::Conv(_) => (1, *weights.shape().first()?),
            Op::MatMul if weights.shape().len() == 2 => (rank - 1, weights.shape()[1]),
            _ => return None,
        };
        let c = per_channel(self.literal(constant)?, rank, axis, channels)?;
        let bias = match args.get(2) {
            Some(b) => Some(self.literal(*b)?.clone()),
            None => None,
        };
        let mut new = vec![];
        let mut args = args.clone();
        let source = self.func.values[args[1]].name.clone();
        match (f, op) {
            (Binary::Mul, _) => {
                let mut shape = vec![1; weights.shape().len()];
                let at = if matches!(op, Op::Conv(_)) { 0 } else { 1 };
                shape[at] = channels;
                let scaled = apply(Binary::Mul, weights, &c.reshaped(shape)?)?;
                args[1] = self.constant(&mut new, &source, scaled);
                if let Some(bias) = bias {
                    let scaled = apply(Binary::Mul, &bias, &c)?;
                    args[2] = self.constant(&mut new, &source, scaled);
                }
            }
            (Binary::Add | Binary::Sub, Op::Conv(_)) => {
                let zero = || apply(Binary::Sub, &c, &c);
                let bias = apply(f, &bias.or_else(zero)?, &c)?;
                let value = self.constant(&mut new, &source, bias);
                args.truncate(2);
                args.push(value);
            }
            // A matmul has no bias: the sum is its epilogue.
            _ => return None,
        }
        Some((new, Node::Op { op: op.clone(), args }))
    }

    /// Drops the old weights when they have no other reader: models do not fit in memory twice.
    fn release_weights(&mut self, old: &Node, new: &Node, uses: &HashMap<Value, usize>) {
        let (Node::Op { args: old, .. }, Node::Op { args: new, .. }) = (old, new) else { return };
        let made_here = |v: &Value| !uses.contains_key(v);
        let alone = made_here(&old[1]) || uses.get(&old[1]) == Some(&1);
        if old[1] != new[1]
            && alone
            && let Some(constant) = self.consts.remove(&old[1])
            && self.names.get(&constant).is_none_or(|names| *names == 1)
        {
            release(self.module, constant);
        }
    }

    fn literal(&self, value: Value) -> Option<&Literal> {
        self.consts.get(&value).map(|c| &self.module.consts[*c])
    }

    fn constant(&mut self, to: &mut Vec<Binding>, name: &str, literal: Literal) -> Value {
        let binding = new_constant(self.module, self.func, name, literal);
        let value = binding.outputs[0];
        if let Node::Const(id) = binding.node {
            self.consts.insert(value, id);
        }
        to.push(binding);
        value
    }
}

fn apply(f: Binary, a: &Literal, b: &Literal) -> Option<Literal> {
    let result = eval_op(&Op::Binary(f), &[a, b], &|_| None).ok()?.remove(0);
    Some(result)
}

/// The constant as one value per channel: its only dimension other than 1 is the channel axis.
fn per_channel(c: &Literal, rank: usize, axis: usize, channels: i64) -> Option<Literal> {
    let lead = rank.checked_sub(c.shape().len())?;
    let fits = c.shape().iter().enumerate().all(|(n, d)| match lead + n == axis {
        true => *d == 1 || *d == channels,
        false => *d == 1,
    });
    if !fits || !c.dtype().is_float() {
        return None;
    }
    if c.count() as i64 == channels {
        return c.reshaped(vec![channels]);
    }
    let shape = vec![reflex_tir::Expr::i64(channels)];
    let flat = c.reshaped(vec![1])?;
    Some(eval_op(&Op::Broadcast(shape), &[&flat], &|_| None).ok()?.remove(0))
}
