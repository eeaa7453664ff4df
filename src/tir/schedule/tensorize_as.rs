//! Replacing a loop nest by an implementation from outside.

use std::collections::HashSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::access;
use super::state::{Schedule, ScheduleError, shape_facts};
use super::tensorize::{Element, Matching};
use super::tree;
use crate::arith::Analyzer;
use crate::body_copy::BodyCopy;
use crate::tensor_intrin::registered::RegisteredIntrin;
use crate::{Block, Buffer, Expr, ExprKind, For, ForKind, PrimFunc, Stmt, Var, lower};

/// Where an operand of a description lies: `operand[e...]` is `buffer[first[d] + sum(steps[d][k] * e[k])]`.
#[derive(Clone, PartialEq)]
struct Binding {
    buffer: Buffer,
    first: Vec<Expr>,
    steps: Vec<Vec<i64>>,
}

impl Binding {
    fn place(&self, at: &[Expr]) -> Vec<Expr> {
        let one = |(first, steps): (&Expr, &Vec<i64>)| {
            let moving = at.iter().zip(steps).filter(|(_, step)| **step != 0);
            moving.fold(first.clone(), |sum, (e, step)| match step {
                1 => sum + e.clone(),
                _ => sum + e.clone() * *step,
            })
        };
        self.first.iter().zip(&self.steps).map(one).collect()
    }
}

impl Schedule {
    /// Tensorization by an intrinsic [from outside](crate::tensor_intrin::registered): the nest at `at` becomes a block
    /// whose body is the implementation, over the elements that the nest uses.
    ///
    /// Needs a nest around one block, without its init, that is the description but for the names of what it binds and
    /// for where in their buffers the operands lie: at indices that are linear in the loops. Each operand is in a
    /// buffer of its own, unless it is only read, and elements that are written are different ones. Returns the block.
    pub fn tensorize_as(
        &mut self,
        at: Var,
        intrinsic: &RegisteredIntrin,
    ) -> Result<String, ScheduleError> {
        let refuse = |s: &Schedule, why: String| {
            s.refuse_loop("tensorize", at, format!("it is no {}: {why}", intrinsic.name))
        };
        let path = self.path_to_loop("tensorize", at)?;
        let lanes = |l: &For| matches!(l.kind, ForKind::Vectorized | ForKind::ThreadBinding(_));
        if tree::loops_of(&path[..path.len() - 1]).any(lanes) {
            return Err(refuse(self, "it runs once per lane or GPU thread".to_owned()));
        }
        let mut s = self.clone();
        let name = s.blockize(at).map_err(|refused| refuse(self, refused.why))?;
        let block = s.get_block(&name)?.clone();
        let bindings = s.operands(&block, intrinsic).map_err(|why| refuse(self, why))?;
        let place = |operand: usize, at: Vec<Expr>| {
            let binding = &bindings[operand];
            (binding.buffer, binding.place(&at))
        };
        let vars = FxHashMap::default();
        let body = BodyCopy::new(&intrinsic.implementation, &mut s.func, &place, vars).body();
        let mut made = Block { body, ..block };
        s.refresh_regions(&mut made);
        let body =
            tree::replace_block(&s.func.body, &name, |_| Stmt::Block(Box::new(made.clone())));
        s.commit("tensorize", &name, body, &[]).map_err(|refused| refuse(self, refused.why))?;
        s.note(format!("tensorize {} -> {}", self.name(at), intrinsic.name));
        *self = s;
        Ok(name)
    }

    /// The places of the operands, if the body of `block` is the intrinsic's description.
    fn operands(
        &self,
        block: &Block,
        intrinsic: &RegisteredIntrin,
    ) -> Result<Vec<Binding>, String> {
        let mut init = false;
        block.body.visit(&mut |s| init |= matches!(s, Stmt::Block(b) if b.init.is_some()));
        if init {
            return Err("it has an init: decompose the reduction first".to_owned());
        }
        let mut plain = self.func.clone();
        plain.body = block.body.clone();
        let plain = lower::lower_blocks(&plain);
        let mut matching = Matching::new(&intrinsic.description, &plain);
        matching.stmt(&intrinsic.description.body, &plain.body)?;
        let params: Vec<Buffer> = intrinsic.description.buffer_params().collect();
        let mut facts = shape_facts(&self.func);
        for iter in &block.iters {
            facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
        }
        plain.body.visit(&mut |s| {
            if let Stmt::For(l) = s {
                facts.bind_loop(l);
            }
        });
        let bindings =
            params.iter().map(|p| binding(&facts, &matching, *p)).collect::<Result<Vec<_>, _>>()?;
        let written = written(&intrinsic.description);
        for (n, of) in bindings.iter().enumerate() {
            let name = &self.func.buffers[of.buffer].name;
            let alias = |(m, other): (usize, &Binding)| {
                m != n && other.buffer == of.buffer && written.contains(&params[n])
            };
            if bindings.iter().enumerate().any(alias) {
                return Err(format!("two operands are `{name}`"));
            }
            let shape = &intrinsic.description.buffers[params[n]].shape;
            if written.contains(&params[n]) && !tells_apart(&self.func, of, shape) {
                return Err(format!("it writes elements of `{name}` more than once"));
            }
        }
        Ok(bindings)
    }
}

/// The buffers that a function writes.
fn written(func: &PrimFunc) -> FxHashSet<Buffer> {
    let mut found = FxHashSet::default();
    func.body.visit(&mut |s| found.extend(s.written()));
    found
}

/// Whether different elements of an operand lie at different places.
fn tells_apart(func: &PrimFunc, of: &Binding, shape: &[Expr]) -> bool {
    let mut scratch = func.clone();
    let mut facts = Analyzer::new();
    let vars: Vec<Var> = shape.iter().map(|_| scratch.new_var("e")).collect();
    for (var, n) in vars.iter().zip(shape) {
        facts.bind(*var, 0.into(), n.clone());
    }
    let at: Vec<Expr> = vars.iter().map(|v| Expr::var(*v)).collect();
    let place = of.place(&at);
    let free = vars.iter().copied().collect();
    let moving = vars.iter().zip(shape).filter(|(_, n)| n.as_int() != Some(1));
    { moving }.all(|(var, _)| access::determines(&facts, &place, *var, &free))
}

/// The place of an operand: the same for every access.
fn binding(facts: &Analyzer, matching: &Matching<'_>, param: Buffer) -> Result<Binding, String> {
    let mut found: Option<Binding> = None;
    for (_, wanted, buffer, at) in matching.accesses.iter().filter(|a| a.0 == param) {
        let one = linear(facts, matching, param, wanted, Element { buffer: *buffer, indices: at })?;
        let name = &matching.func.buffers[*buffer].name;
        if found.as_ref().is_some_and(|f| *f != one) {
            return Err(format!("`{name}` is accessed at more than one position"));
        }
        found = Some(one);
    }
    let name = &matching.description.buffers[param].name;
    found.ok_or_else(|| format!("its description does not use the operand `{name}`"))
}

/// The indices of an access as linear functions of those that the description has.
fn linear(
    facts: &Analyzer,
    matching: &Matching<'_>,
    param: Buffer,
    wanted: &[Expr],
    found: Element<'_>,
) -> Result<Binding, String> {
    let Element { buffer, indices: at } = found;
    let name = &matching.func.buffers[buffer].name;
    let shape = &matching.description.buffers[param].shape;
    let mut dims: Vec<Option<Var>> = vec![];
    for (index, extent) in wanted.iter().zip(shape) {
        let var = index.as_var().and_then(|v| matching.vars.get(&v)).copied();
        if var.is_none() && (index.as_int(), extent.as_int()) != (Some(0), Some(1)) {
            return Err(
                "its description has an operand that is not accessed at its loops".to_owned()
            );
        }
        dims.push(var);
    }
    let vars: Vec<Var> = dims.iter().flatten().copied().collect();
    if vars.iter().collect::<HashSet<_>>().len() != vars.len() {
        return Err("its description accesses an operand at one loop twice".to_owned());
    }
    let bound: FxHashSet<Var> = matching.vars.values().copied().collect();
    let (mut first, mut steps) = (vec![], vec![]);
    for index in at {
        let parts = facts.linear(&facts.simplify(index), &vars);
        let strides: Option<Vec<i64>> =
            parts.as_ref().and_then(|p| p.strides.iter().map(Expr::as_int).collect());
        let (Some(parts), Some(strides)) = (parts, strides) else {
            return Err(format!(
                "`{name}` is not accessed at indices that are linear in its loops"
            ));
        };
        let rest = facts.simplify(&(parts.rest + parts.constant));
        let mut fixed = true;
        rest.visit(&mut |e| {
            fixed &= !matches!(e.kind(), ExprKind::Load { .. });
            fixed &= e.as_var().is_none_or(|v| !bound.contains(&v));
        });
        if !fixed {
            return Err(format!("`{name}` is accessed at other loops too"));
        }
        let step = |dim: &Option<Var>| {
            let place = dim.and_then(|v| vars.iter().position(|x| *x == v));
            place.map_or(0, |n| strides[n])
        };
        steps.push(dims.iter().map(step).collect());
        first.push(rest);
    }
    Ok(Binding { buffer, first, steps })
}
