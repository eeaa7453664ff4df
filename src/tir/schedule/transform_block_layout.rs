//! The iterators of a block by an index map.
//!
//! Decision: docs/decisions/0088-schedule-primitives-of-tvm.md

use rustc_hash::FxHashMap;

use super::state::{Schedule, ScheduleError, shape_facts};
use super::transform_layout::IndexMap;
use super::tree;
use crate::arith::{Analyzer, Coverage, InputIter, IterMap, detect_iter_map};
use crate::{BinOp, Block, BlockIter, Expr, ExprKind, ForKind, IterKind, Stmt, Var};

/// A part of an old iterator: all of it, what a division leaves, or the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Whole,
    Quotient(i64),
    Rest(i64),
}

impl Schedule {
    /// `for i, j { B(v = i, w = j) }` becomes `for a, b { B(x = a, y = b) }` with `x, y = map(v, w)`: the block iterates over
    /// the image of its iterators, with a loop for each.
    ///
    /// Needs a map whose results are sums of iterators and of their quotients and rests by constants, each at its
    /// place as the digits of a number (`i * 8 + j // 2`), with every part of every iterator once, or, where all extents are
    /// constant, any [iterator map](crate::arith::detect_iter_map) that is one to one; a block that is alone
    /// in serial loops, one for each iterator; and reduction iterators that run in the same order as before.
    pub fn transform_block_layout(
        &mut self,
        name: &str,
        map: IndexMap<'_>,
    ) -> Result<(), ScheduleError> {
        let primitive = "transform_block_layout";
        let path = self.path_to_block(primitive, name)?;
        let Some(Stmt::Block(block)) = path.last() else {
            unreachable!("a path ends at its block")
        };
        let block = (**block).clone();
        let refuse = |s: &Schedule, why: &str| s.refuse(primitive, name, why);
        let Some(outermost) = own_loops(&path, &block) else {
            return Err(refuse(self, "its iterators are not whole serial loops around it alone"));
        };
        let mut facts = shape_facts(&self.func);
        for iter in &block.iters {
            facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
        }
        let point: Vec<Expr> = block.iters.iter().map(|i| i.var.into()).collect();
        let image = map(&point);
        let Some(inverse) = WayBack::of(&block, &image, &facts) else {
            return Err(refuse(self, "the map is not shown to be one to one"));
        };
        let mut iters = vec![];
        for (at, (result, extent)) in image.iter().zip(inverse.extents()).enumerate() {
            let kinds = block.iters.iter().filter(|i| tree::mentions(result, i.var));
            let kinds: Vec<IterKind> = kinds.map(|i| i.kind).collect();
            let kind = kinds.first().copied().unwrap_or(IterKind::Spatial);
            if kinds.iter().any(|other| *other != kind) {
                return Err(refuse(self, "the map joins spatial and reduction iterators"));
            }
            let (outer, var) =
                (self.func.new_var(format!("ax{at}")), self.func.new_var(format!("v{at}")));
            iters.push(BlockIter { var, extent: extent.clone(), kind, value: outer.into() });
        }
        let new: Vec<Expr> = iters.iter().map(|i| i.var.into()).collect();
        let old = inverse.at(&new, block.iters.len());
        let mut inside = shape_facts(&self.func);
        for iter in &iters {
            inside.bind(iter.var, Expr::i64(0), iter.extent.clone());
        }
        let ranks = [rank(&block.iters, &old), rank(&iters, &new)];
        if !inside.prove(&ranks[0].clone().equal(ranks[1].clone())) {
            return Err(refuse(self, "the map changes the order of the reduction"));
        }
        let given: FxHashMap<Var, Expr> = block.iters.iter().map(|i| i.var).zip(old).collect();
        let put = |s: &Stmt| inside.simplify_stmt(&s.substitute(&|v| given.get(&v).cloned()));
        let (init, body) = (block.init.as_ref().map(put), put(&block.body));
        let mut changed = Block { iters: iters.clone(), ..block.with_body(init, body) };
        self.refresh_regions(&mut changed);
        let nest = iters.iter().rev().fold(Stmt::Block(Box::new(changed)), |body, iter| {
            let outer = iter.value.as_var().expect("bound to its loop");
            Stmt::serial(outer, iter.extent.clone(), body)
        });
        self.func.body = tree::replace_loop(&self.func.body, outermost, |_| nest.clone());
        self.injective.remove(name);
        let to: Vec<String> = inverse.extents().iter().map(|n| self.text(n)).collect();
        self.note(format!("transform_block_layout {name} -> [{}]", to.join(", ")));
        Ok(())
    }
}

/// The outermost of the loops around a block, if they are one for each iterator, whole, serial and around
/// nothing else.
fn own_loops(path: &[&Stmt], block: &Block) -> Option<Var> {
    let count = block.iters.len();
    let start = path.len().checked_sub(count + 1).filter(|_| count > 0)?;
    let mut outermost = None;
    for stmt in &path[start..path.len() - 1] {
        let Stmt::For(l) = stmt else { return None };
        let mut own = block.iters.iter().filter(|i| i.value.as_var() == Some(l.var));
        let iter = own.next()?;
        let whole = l.min.as_int() == Some(0) && l.extent == iter.extent;
        if !whole || l.kind != ForKind::Serial || own.next().is_some() {
            return None;
        }
        outermost = outermost.or(Some(l.var));
    }
    (block.predicate.as_int() == Some(1)).then_some(outermost).flatten()
}

/// The number of a reduction step.
fn rank(iters: &[BlockIter], at: &[Expr]) -> Expr {
    let steps = iters.iter().zip(at).filter(|(iter, _)| iter.kind != IterKind::Spatial);
    steps.fold(Expr::i64(0), |rank, (iter, at)| rank * iter.extent.clone() + at.clone())
}

/// The way back from the results of a map to its arguments.
enum WayBack {
    /// Of parts of iterators, whose extents may be symbols.
    Parts(Inverse),
    /// Of constant extents, which are those of the results.
    Map(IterMap, Vec<Expr>),
}

impl WayBack {
    fn of(block: &Block, image: &[Expr], facts: &Analyzer) -> Option<WayBack> {
        if let Some(parts) = Inverse::of(block, image, facts) {
            return Some(WayBack::Parts(parts));
        }
        let input = |i: &BlockIter| Some((i.var, 0, i.extent.as_int()?));
        let inputs: Vec<InputIter> = block.iters.iter().map(input).collect::<Option<_>>()?;
        let map = detect_iter_map(image, &inputs, &Expr::bool(true), Coverage::Bijective).ok()?;
        let digits = map.sums.iter().all(|s| s.base == 0 && (s.step() == 1 || s.extent() == 1));
        let extents = map.sums.iter().map(|s| Expr::i64(s.extent())).collect();
        digits.then_some(WayBack::Map(map, extents))
    }

    fn extents(&self) -> &[Expr] {
        match self {
            WayBack::Parts(parts) => &parts.extents,
            WayBack::Map(_, extents) => extents,
        }
    }

    /// The arguments of a point of results.
    fn at(&self, results: &[Expr], count: usize) -> Vec<Expr> {
        match self {
            WayBack::Parts(parts) => parts.at(results),
            WayBack::Map(map, _) => map.inverse(results, &vec![0; count]),
        }
    }
}

/// The way back where results are sums of parts of iterators.
struct Inverse {
    /// The extents of the results.
    extents: Vec<Expr>,
    /// The arguments' parts: the result that has it, what it is multiplied with there, and its own extent; no extent
    /// where it is the topmost of the result.
    parts: Vec<Vec<(Part, Place)>>,
}

#[derive(Clone)]
struct Place {
    result: usize,
    step: i64,
    /// `None` where the part is the topmost digit.
    extent: Option<i64>,
}

impl Inverse {
    fn of(block: &Block, image: &[Expr], facts: &Analyzer) -> Option<Inverse> {
        let mut parts: Vec<Vec<(Part, Place)>> = vec![vec![]; block.iters.len()];
        let mut extents = vec![];
        for (result, index) in image.iter().enumerate() {
            let mut digits = vec![];
            let poly = facts.poly(index)?;
            if poly.constant != 0 {
                return None;
            }
            for (factors, step) in &poly.terms {
                let [factor] = &factors[..] else { return None };
                let (iter, part) = part_of(factor, block)?;
                digits.push((*step, iter, part));
            }
            digits.sort_by_key(|(step, ..)| *step);
            let mut expected = 1_i64;
            let count = digits.len();
            let mut whole = Expr::i64(1);
            for (at, (step, iter, part)) in digits.into_iter().enumerate() {
                if step != expected {
                    return None;
                }
                let top = at + 1 == count;
                let n = &block.iters[iter].extent;
                // The topmost digit may be of any extent.
                let (known, extent) = match (part, n.as_int()) {
                    (Part::Whole, known) => (known, n.clone()),
                    (Part::Quotient(c), Some(n)) if n % c == 0 => (Some(n / c), Expr::i64(n / c)),
                    (Part::Rest(c), Some(n)) if n % c == 0 => (Some(c), Expr::i64(c)),
                    _ => return None,
                };
                if !top {
                    expected = expected.checked_mul(known?)?;
                }
                let own = if top { None } else { known };
                parts[iter].push((part, Place { result, step, extent: own }));
                whole = whole * extent;
            }
            extents.push(facts.simplify(&whole));
        }
        let complete = |parts: &Vec<(Part, Place)>| match &parts[..] {
            [(Part::Whole, _)] => true,
            [(Part::Quotient(a), _), (Part::Rest(b), _)]
            | [(Part::Rest(a), _), (Part::Quotient(b), _)] => a == b,
            _ => false,
        };
        parts.iter().all(complete).then_some(Inverse { extents, parts })
    }

    /// The arguments of a point of results.
    fn at(&self, results: &[Expr]) -> Vec<Expr> {
        let value = |place: &Place| {
            let mut value = results[place.result].clone();
            if place.step != 1 {
                value = value.floordiv(place.step);
            }
            match place.extent {
                Some(extent) => value.floormod(extent),
                None => value,
            }
        };
        let argument = |parts: &Vec<(Part, Place)>| {
            parts.iter().fold(Expr::i64(0), |sum, (part, place)| match part {
                Part::Quotient(c) => sum + value(place) * *c,
                Part::Whole | Part::Rest(_) => sum + value(place),
            })
        };
        self.parts.iter().map(argument).collect()
    }
}

/// The iterator that a factor of a result is a part of.
fn part_of(factor: &Expr, block: &Block) -> Option<(usize, Part)> {
    let iter = |e: &Expr| block.iters.iter().position(|i| e.as_var() == Some(i.var));
    if let Some(whole) = iter(factor) {
        return Some((whole, Part::Whole));
    }
    let ExprKind::Binary { op, a, b } = factor.kind() else { return None };
    let c = b.as_int().filter(|c| *c > 0)?;
    match op {
        BinOp::FloorDiv => Some((iter(a)?, Part::Quotient(c))),
        BinOp::FloorMod => Some((iter(a)?, Part::Rest(c))),
        _ => None,
    }
}
