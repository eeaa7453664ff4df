//! The extrema of a tensor, taken where its elements are stored.
//!
//! ```text
//! for i: x[i] = v                                parallel for t: most = -inf
//! for i: most = max(most, x[i])                      for i: x[i] = v; most = max(most, v)
//!                                                    parts[t] = most
//!                                                for t: most = max(most, parts[t])
//! ```
//! Each task has accumulators of its own, of which neighbouring stores take different ones, in vectors of lanes. The extrema are
//! those of any order, but for the sign of a zero among zeros of both, and for which of several NaNs.
//!
//! Decision: docs/decisions/0110-ranges.md

use std::collections::HashSet;

use reflex_tir::{BinOp, Buffer, Expr, ExprKind, For, ForKind, Stmt, Var};

use crate::schedule::core::decision::Decision;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Item, Stage};

/// Accumulators that neighbouring stores take in turn: an extremum waits for the one before it. Two wait as long as five
/// instructions take, those of a vector of both extrema.
const CHAINS: i64 = 2;

/// Stages that take extrema of one tensor.
pub struct Extrema {
    /// The tensor.
    of: Buffer,
    stages: Vec<Extremum>,
}

/// A stage that takes an extremum over all of a tensor.
#[derive(Clone)]
struct Extremum {
    stage: Stage,
    op: BinOp,
    neutral: Expr,
}

impl Extrema {
    /// Removes the stages from `items` that take extrema of tensors that an earlier item writes.
    pub fn take_from(nest: &Nest<'_>, items: &mut Vec<Item>) -> Vec<Extrema> {
        let mut found: Vec<Extrema> = vec![];
        let mut at = 0;
        while at < items.len() {
            let of = |item: &Item| Extremum::of(nest, item.stage()?);
            let written = |x: Buffer, items: &[Item]| items.iter().filter(|i| i.writes(x)).count();
            let earlier = |x| written(x, &items[..at]) == 1 && written(x, items) == 1;
            match of(&items[at]).filter(|(x, _)| earlier(*x)) {
                None => at += 1,
                Some((x, extremum)) => {
                    items.remove(at);
                    match found.iter_mut().find(|extrema| extrema.of == x) {
                        Some(extrema) => extrema.stages.push(extremum),
                        None => found.push(Extrema { of: x, stages: vec![extremum] }),
                    }
                }
            }
        }
        found
    }

    /// Whether a statement writes the tensor.
    pub fn is_written(&self, stmt: &Stmt) -> bool {
        let mut found = false;
        stmt.visit(&mut |s| found |= s.written() == Some(self.of));
        found
    }

    /// The stages as items.
    pub fn items(&self) -> Vec<Item> {
        self.stages.iter().map(|e| Item::Stage(e.stage.clone())).collect()
    }

    /// A statement that writes the tensor, with the extrema; `None` if its stores are no elements as they stay.
    pub fn stored(
        &self,
        nest: &mut Nest<'_>,
        stmt: &Stmt,
        decisions: &mut Vec<Decision>,
    ) -> Option<Stmt> {
        let plan = Plan::of(nest, self.of, stmt)?;
        let count = self.stages.len();
        let dtype = nest.func.buffers[self.of].dtype;
        let mut part = || match plan.slots.as_int() {
            Some(1) => nest.local("part", dtype, &[1, plan.lanes]),
            _ => nest.scratch("parts", dtype, vec![plan.slots.clone(), plan.lanes.into()]),
        };
        let parts: Vec<Buffer> = (0..count).map(|_| part()).collect();
        let mut all = vec![];
        for (part, extremum) in parts.iter().zip(&self.stages) {
            all.push(nest.repeat(ForKind::Serial, "t", plan.slots.clone(), |nest, t| {
                nest.lanes_of(plan.lanes, |_, l| {
                    Stmt::store(*part, vec![t, l], extremum.neutral.clone())
                })
            }));
        }
        let mut rewrite =
            Rewrite { extrema: self, plan: &plan, parts: &parts, next_slot: 1.into() };
        all.push(rewrite.pieces(nest, stmt));
        for (part, extremum) in parts.iter().zip(&self.stages) {
            all.push(extremum.combined(nest, *part, &plan));
            let Stage { name, .. } = &extremum.stage;
            nest.steps.push(format!("{name}: taken where its operand is stored"));
            decisions.push(Decision {
                stage: name.clone(),
                rule: "stored extremum",
                refused: vec![],
            });
        }
        let around = |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) };
        let own = parts.into_iter().filter(|_| plan.slots.as_int() == Some(1));
        Some(own.fold(Stmt::Seq(all), around))
    }
}

impl Extremum {
    /// The tensor that a stage reads each element of once, for an extremum.
    fn of(nest: &Nest<'_>, stage: &Stage) -> Option<(Buffer, Extremum)> {
        let neutral = stage.init.clone()?;
        let ExprKind::Binary { op: op @ (BinOp::Max | BinOp::Min), a, b } = stage.value.kind()
        else {
            return None;
        };
        let ExprKind::Load { buffer: to, .. } = a.kind() else { return None };
        let ExprKind::Load { buffer: from, indices, dtype } = b.kind() else { return None };
        let all = indices.len() == stage.reduce.len()
            && indices.iter().zip(&stage.reduce).all(|(i, axis)| axis.is_index(i));
        let one = stage.spatial.iter().all(|axis| axis.extent.as_int() == Some(1));
        let whole = nest.func.buffers[*from].shape.len() == indices.len() && dtype.is_float();
        (*to == stage.buffer && from != to && all && one && whole)
            .then(|| (*from, Extremum { stage: stage.squeezed(), op: *op, neutral }))
    }

    fn of_two(&self, a: Expr, b: Expr) -> Expr {
        Expr::binary(self.op, a, b)
    }

    /// The extremum of all parts: of slots, then of halves of the lanes.
    fn combined(&self, nest: &mut Nest<'_>, parts: Buffer, plan: &Plan) -> Stmt {
        let at = |nest: &Nest<'_>, i: &[Expr]| nest.func.load(parts, i.to_vec());
        let others = plan.slots.clone() - 1;
        let over_slots = nest.repeat(ForKind::Serial, "t", others, |nest, t| {
            nest.lanes_of(plan.lanes, |nest, l| {
                let other = at(nest, &[t + 1, l.clone()]);
                let value = self.of_two(at(nest, &[0.into(), l.clone()]), other);
                Stmt::store(parts, vec![0.into(), l], value)
            })
        });
        let mut all = vec![over_slots];
        let mut half = plan.lanes / 2;
        while half > 0 {
            all.push(nest.lanes_of(half, |nest, l| {
                let other = at(nest, &[0.into(), l.clone() + half]);
                let value = self.of_two(at(nest, &[0.into(), l.clone()]), other);
                Stmt::store(parts, vec![0.into(), l], value)
            }));
            half /= 2;
        }
        let result = at(nest, &[0.into(), 0.into()]);
        all.push(Stmt::store(self.stage.buffer, self.stage.indices.clone(), result));
        Stmt::Seq(all)
    }
}

/// The accumulators and parts that the extrema of a nest take.
struct Plan {
    /// Lanes of the accumulators, a power of two.
    lanes: i64,
    /// Parts that may be written at the same time.
    slots: Expr,
    /// Some stores are of single elements, or of some lanes.
    has_tails: bool,
}

impl Plan {
    fn of(nest: &Nest<'_>, x: Buffer, stmt: &Stmt) -> Option<Plan> {
        let (mut plain, mut lanes, mut bound) = (true, 1, HashSet::new());
        stmt.visit(&mut |s| {
            plain &= match s {
                Stmt::Store { .. } => true,
                Stmt::Block(_) | Stmt::While { .. } => false,
                other => other.written() != Some(x),
            };
            match s {
                Stmt::For(l) => drop(bound.insert(l.var)),
                Stmt::Let { var, .. } => drop(bound.insert(*var)),
                _ => {}
            }
        });
        stmt.visit_exprs(&mut |e| {
            plain &= !matches!(e.kind(), ExprKind::Load { buffer, .. } if *buffer == x);
        });
        let mut slots = vec![Expr::i64(1)];
        plain &= survey(x, stmt, &bound, &mut lanes, &mut slots);
        let most = nest.lanes(nest.func.buffers[x].dtype.itemsize());
        let slots = slots.into_iter().reduce(|a, b| a + b)?;
        let [whole, tails] = forms_of_stores(x, stmt, Form::Element);
        let fits = plain && whole && lanes <= most;
        fits.then_some(Plan { lanes: most, slots, has_tails: tails })
    }
}

/// The lanes that a store writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// None: one element.
    Element,
    /// All lanes of a vector.
    Vector,
    /// Lanes under a guard.
    SomeLanes,
}

impl Form {
    /// The form below a statement.
    fn below(self, stmt: &Stmt) -> Form {
        match stmt {
            Stmt::For(l) if l.kind == ForKind::Vectorized => Form::Vector,
            Stmt::If { .. } if self == Form::Vector => Form::SomeLanes,
            _ => self,
        }
    }
}

/// Whether there are stores of whole vectors to a tensor, and others.
fn forms_of_stores(x: Buffer, stmt: &Stmt, form: Form) -> [bool; 2] {
    let own = stmt.written() == Some(x);
    let mut found = [own && form == Form::Vector, own && form != Form::Vector];
    stmt.for_each_child(&mut |child| {
        let below = forms_of_stores(x, child, form.below(stmt));
        found = [found[0] || below[0], found[1] || below[1]];
    });
    found
}

/// Finds the lanes and the tasks of the stores of a tensor; false where they are not known before.
fn survey(
    x: Buffer,
    stmt: &Stmt,
    bound: &HashSet<Var>,
    lanes: &mut i64,
    slots: &mut Vec<Expr>,
) -> bool {
    let mut inside = false;
    stmt.visit(&mut |s| inside |= s.written() == Some(x));
    if !inside {
        return true;
    }
    let mut known = true;
    if let Stmt::For(l) = stmt {
        match l.kind {
            ForKind::Vectorized => match l.extent.as_int() {
                Some(n) => *lanes = n.max(*lanes),
                None => known = false,
            },
            ForKind::Parallel => {
                let extent = most_tasks(&l.extent);
                extent.visit(&mut |e| known &= e.as_var().is_none_or(|v| !bound.contains(&v)));
                extent.visit(&mut |e| known &= !matches!(e.kind(), ExprKind::Load { .. }));
                slots.push(extent);
                // Tasks share nothing below.
                let mut nested = false;
                l.body.visit(&mut |s| {
                    nested |= matches!(s, Stmt::For(l) if l.kind == ForKind::Parallel)
                });
                known &= !nested;
            }
            ForKind::Serial | ForKind::Unrolled => {}
            ForKind::ThreadBinding(_) => known = false,
        }
    }
    stmt.for_each_child(&mut |child| known &= survey(x, child, bound, lanes, slots));
    known
}

/// The most iterations of a loop whose number is chosen when it runs.
fn most_tasks(extent: &Expr) -> Expr {
    match extent.kind() {
        ExprKind::Select { on_true, on_false, .. } => on_true.clone().max(on_false.clone()),
        _ => extent.clone(),
    }
}

/// The statement with accumulators.
struct Rewrite<'a> {
    extrema: &'a Extrema,
    plan: &'a Plan,
    parts: &'a [Buffer],
    /// The slot of the next parallel loop; that of what is in none is the first.
    next_slot: Expr,
}

impl Rewrite<'_> {
    /// A statement whose parallel loops, or which itself, has accumulators.
    fn pieces(&mut self, nest: &mut Nest<'_>, stmt: &Stmt) -> Stmt {
        if !self.extrema.is_written(stmt) {
            return stmt.clone();
        }
        if let Stmt::For(l) = stmt
            && l.kind == ForKind::Parallel
        {
            let slot = self.next_slot.clone() + (Expr::from(l.var) - l.min.clone());
            self.next_slot = self.next_slot.clone() + most_tasks(&l.extent);
            return Stmt::For(Box::new(l.with_body(self.task(nest, &l.body, slot))));
        }
        let mut shared = false;
        stmt.visit(&mut |s| {
            shared |= matches!(s, Stmt::For(l) if l.kind == ForKind::Parallel && self.extrema.is_written(s));
        });
        match shared {
            true => stmt.map_children(&mut |child| self.pieces(nest, child)),
            false => self.task(nest, stmt, 0.into()),
        }
    }

    /// A statement of one task, with accumulators that become the part of a slot.
    fn task(&self, nest: &mut Nest<'_>, stmt: &Stmt, slot: Expr) -> Stmt {
        let dtype = nest.func.buffers[self.extrema.of].dtype;
        let lanes = self.plan.lanes;
        let mut chains = |n: i64| -> Vec<Buffer> {
            self.parts.iter().map(|_| nest.local("extremum", dtype, &[n * lanes])).collect()
        };
        // Lanes under a guard keep an accumulator in memory, so that they have one of their own.
        let (whole, tails) = (chains(CHAINS), self.plan.has_tails.then(|| chains(1)));
        let sets = || [(&whole, CHAINS)].into_iter().chain(tails.as_ref().map(|accs| (accs, 1)));
        let mut all = vec![];
        for (accs, chains) in sets() {
            for (acc, extremum) in accs.iter().zip(&self.extrema.stages) {
                all.extend((0..chains).map(|chain| {
                    nest.lanes_of(lanes, |_, l| {
                        Stmt::store(*acc, vec![l + chain * lanes], extremum.neutral.clone())
                    })
                }));
            }
        }
        let tail_accs = tails.as_deref().unwrap_or_default();
        let mut at = Position {
            accs: [&whole, tail_accs],
            form: Form::Element,
            lane: None,
            chain: 0.into(),
            sites: 0,
        };
        all.push(self.stores(nest, stmt, &mut at));
        for (n, (part, extremum)) in self.parts.iter().zip(&self.extrema.stages).enumerate() {
            all.push(nest.lanes_of(lanes, |nest, l| {
                let to = vec![slot.clone(), l.clone()];
                let mut value = nest.func.load(*part, to.clone());
                for (accs, chains) in sets() {
                    let chain = |at| nest.func.load(accs[n], vec![l.clone() + at * lanes]);
                    value = (0..chains).fold(value, |all, at| extremum.of_two(all, chain(at)));
                }
                Stmt::store(*part, to, value)
            }));
        }
        let around = |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) };
        let accs: Vec<Buffer> = sets().flat_map(|(accs, _)| accs.clone()).collect();
        accs.into_iter().fold(Stmt::Seq(all), around)
    }

    /// A statement whose stores to the tensor go to accumulators too.
    fn stores(&self, nest: &mut Nest<'_>, stmt: &Stmt, at: &mut Position<'_>) -> Stmt {
        match stmt {
            Stmt::Store { buffer, indices, value } if *buffer == self.extrema.of => {
                let var = nest.var_of("element", value.dtype());
                let element = Expr::new(ExprKind::Var { var, dtype: value.dtype() });
                let mut all = vec![Stmt::store(*buffer, indices.clone(), element.clone())];
                let (accs, index) = at.next(self.plan.lanes);
                for (acc, extremum) in accs.iter().zip(&self.extrema.stages) {
                    let old = nest.func.load(*acc, vec![index.clone()]);
                    // The first operand is compared with itself, for NaN: of the element, once for all extrema.
                    let new = extremum.of_two(element.clone(), old);
                    all.push(Stmt::store(*acc, vec![index.clone()], new));
                }
                Stmt::Let { var, value: value.clone(), body: Box::new(Stmt::Seq(all)) }
            }
            Stmt::For(l) if l.kind == ForKind::Vectorized => {
                let outer = (at.lane.replace(l.var), at.form);
                at.form = at.form.below(stmt);
                let body = self.stores(nest, &l.body, at);
                (at.lane, at.form) = outer;
                Stmt::For(Box::new(l.with_body(body)))
            }
            Stmt::For(l) if l.kind == ForKind::Unrolled => {
                let outer = at.chain.clone();
                at.chain = outer.clone() + Expr::from(l.var);
                let body = self.stores(nest, &l.body, at);
                at.chain = outer;
                Stmt::For(Box::new(l.with_body(body)))
            }
            Stmt::For(l) if l.kind == ForKind::Serial && self.is_vector(&l.body) => {
                self.in_chains(nest, l, at)
            }
            other => {
                let outer = at.form;
                at.form = outer.below(other);
                let stmt = other.map_children(&mut |child| self.stores(nest, child, at));
                at.form = outer;
                stmt
            }
        }
    }

    /// Whether a statement is one vector of the tensor.
    fn is_vector(&self, stmt: &Stmt) -> bool {
        let Stmt::For(l) = stmt else { return false };
        let stored = match &l.body {
            Stmt::If { then, otherwise: None, .. } => then,
            other => other,
        };
        l.kind == ForKind::Vectorized && stored.written() == Some(self.extrema.of)
    }

    /// A loop over vectors, so many at a time as there are chains.
    fn in_chains(&self, nest: &mut Nest<'_>, l: &For, at: &mut Position<'_>) -> Stmt {
        let whole = l.extent.clone().floordiv(CHAINS);
        let body_at = |i: Expr| {
            let i = l.min.clone() + i;
            l.body.substitute(&|v| (v == l.var).then(|| i.clone()))
        };
        let main = nest.repeat(ForKind::Serial, "i", whole.clone(), |nest, i| {
            nest.repeat(ForKind::Unrolled, "u", CHAINS, |nest, u| {
                let outer = at.chain.clone();
                at.chain = outer.clone() + u.clone();
                let body = self.stores(nest, &body_at(i * CHAINS + u), at);
                at.chain = outer;
                body
            })
        });
        let left = l.extent.clone().floormod(CHAINS);
        let rest = nest.repeat(ForKind::Serial, "i", left, |nest, i| {
            self.stores(nest, &body_at(whole.clone() * CHAINS + i), at)
        });
        Stmt::Seq(vec![main, rest])
    }
}

/// Where a store is.
struct Position<'a> {
    /// Accumulators for each extremum: of whole vectors, and of other stores.
    accs: [&'a [Buffer]; 2],
    form: Form,
    /// The loop over lanes around it.
    lane: Option<Var>,
    /// A number that differs between neighbouring iterations of unrolled loops.
    chain: Expr,
    /// Stores so far.
    sites: i64,
}

impl<'a> Position<'a> {
    /// The accumulators of the next store, and the index in each.
    fn next(&mut self, lanes: i64) -> (&'a [Buffer], Expr) {
        let lane = self.lane.map_or_else(|| Expr::i64(0), Expr::from);
        if self.form != Form::Vector {
            return (self.accs[1], lane);
        }
        let chain = (self.chain.clone() + self.sites).floormod(CHAINS);
        self.sites += 1;
        (self.accs[0], chain * lanes + lane)
    }
}
