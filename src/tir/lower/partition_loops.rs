//! Splits loops where a condition is known, so that the bulk of the iterations has no branch.
//!
//! ```text
//! for io in 0..13 { for ii in vectorized(8) { if io*8 + ii < 100 { S } } }
//! for io in 0..12 { for ii in vectorized(8) { S } }
//! for ii in vectorized(8) { if 96 + ii < 100 { S } }
//! ```
//!
//! A condition counts when it is a comparison that is linear in the loop variable, the
//! rest of it has constant bounds over the loops inside, and the loop writes nothing that it reads. With a lower limit too (padding), or
//! on a parallel loop, the loop keeps its range and chooses between two bodies instead.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::arith::Analyzer;
use crate::launch::axis;
use crate::{Buffer, CmpOp, DType, Expr, ExprKind, For, ForKind, Intrin, PrimFunc, Stmt, Var};

use super::lower_blocks::{conjuncts, vars};
use super::rename;
use super::simplify::{parameter_facts, simplify};

/// A body of more nodes is not copied.
const MAX_COPIED: usize = 3000;
/// A body of more nodes is not copied for a condition that a serial loop inside of it is partitioned by: a copy
/// of that loop's body is enough.
const MAX_COPIED_AROUND: usize = 600;

/// Whether loops over threads are below.
fn binds_threads(s: &Stmt) -> bool {
    let mut found = false;
    s.visit(&mut |s| found |= axis(s).is_some());
    found
}

/// Partitions the loops of `func`, outermost first.
pub fn partition_loops(func: &PrimFunc) -> PrimFunc {
    let (mut partitioned, facts) = (func.without_body(), parameter_facts(func));
    let mut pass = Partition { func: &mut partitioned, found: false };
    let body = pass.stmt(&func.body, &facts);
    match pass.found {
        true => {
            partitioned.body = body;
            simplify(&partitioned)
        }
        false => {
            partitioned.body = func.body.clone();
            partitioned
        }
    }
}

struct Partition<'f> {
    func: &'f mut PrimFunc,
    /// Whether a loop was split.
    found: bool,
}

impl Partition<'_> {
    fn stmt(&mut self, s: &Stmt, facts: &Analyzer) -> Stmt {
        let Stmt::For(l) = s else { return s.map_children(&mut |s| self.stmt(s, facts)) };
        if !has_conditions(&l.body) {
            return s.clone();
        }
        let parts = match l.kind {
            // Copies of what threads do together cost more than a predicate for each.
            ForKind::Serial if binds_threads(&l.body) => None,
            ForKind::Serial | ForKind::Parallel => self.partition(l, facts),
            ForKind::Vectorized | ForKind::Unrolled | ForKind::ThreadBinding(_) => None,
        };
        self.found |= parts.is_some();
        match parts {
            Some(parts) => Stmt::Seq(parts.iter().map(|l| self.inside(l, facts)).collect()),
            None => self.inside(l, facts),
        }
    }

    /// Goes on with the body of a loop that is settled.
    fn inside(&mut self, l: &For, facts: &Analyzer) -> Stmt {
        let mut facts = facts.clone();
        facts.bind_loop(l);
        let body = self.stmt(&l.body, &facts);
        Stmt::For(Box::new(l.with_body(body)))
    }

    /// The loops that replace `l`, or `None` when nothing is gained.
    fn partition(&mut self, l: &For, facts: &Analyzer) -> Option<Vec<For>> {
        let found = limits(l, facts)?;
        let (start, end) = (l.min.clone(), l.min.clone() + l.extent.clone());
        let (mut from, mut to) = (start.clone(), end.clone());
        for limit in &found {
            match &limit.holds {
                Holds::From(e) => from = from.max(e.clone()),
                Holds::Below(e) => to = to.min(e.clone()),
            }
        }
        let (from, to) = (facts.simplify(&from), facts.simplify(&to));
        if facts.bounds(&(to.clone() - from.clone())).max <= 0 {
            return None;
        }
        let known: FxHashSet<Expr> = found.iter().map(|c| c.cond.clone()).collect();
        let main = l.body.map_exprs(&mut |e| assume(e, &known, true));
        let below = without(&found, |holds| matches!(holds, Holds::From(_)));
        let beyond = without(&found, |holds| matches!(holds, Holds::Below(_)));
        let starts_there = facts.prove(&from.clone().equal(start.clone()));
        if starts_there && facts.prove(&to.clone().ge(end.clone())) {
            return Some(vec![l.with_body(main)]);
        }
        if starts_there && l.kind == ForKind::Serial {
            let split = facts.simplify(&to.max(start.clone()));
            let body = l.body.map_exprs(&mut |e| assume(e, &beyond, false));
            let tail = For { min: split.clone(), extent: end - split.clone(), ..l.with_body(body) };
            let Stmt::For(tail) = rename::copy(self.func, &Stmt::For(Box::new(tail))) else {
                unreachable!("a copy of a loop is a loop");
            };
            return Some(vec![For { extent: split - start, ..l.with_body(main) }, *tail]);
        }
        let at = Expr::var(l.var);
        let above = self.side(l, &beyond, &to, end - to.clone(), facts);
        let outside = match starts_there {
            true => above,
            false => Stmt::If {
                cond: at.clone().lt(from.clone()),
                then: Box::new(self.side(l, &below, &start, from.clone() - start.clone(), facts)),
                otherwise: Some(Box::new(above)),
            },
        };
        let cond = at.clone().ge(from).and(at.lt(to));
        let (then, otherwise) = (Box::new(main), Some(Box::new(outside)));
        Some(vec![l.with_body(Stmt::If { cond, then, otherwise })])
    }

    /// A copy of the body for the `count` values from `first`, where the conditions `fail` do not hold; one value is
    /// filled in.
    fn side(
        &mut self,
        l: &For,
        fail: &FxHashSet<Expr>,
        first: &Expr,
        count: Expr,
        facts: &Analyzer,
    ) -> Stmt {
        let body = l.body.map_exprs(&mut |e| assume(e, fail, false));
        let body = rename::copy(self.func, &body);
        match facts.simplify(&count).as_int() {
            Some(1) => body.substitute(&|v| (v == l.var).then(|| first.clone())),
            _ => body,
        }
    }
}

/// The conditions in the body of `l` to partition by.
fn limits(l: &For, facts: &Analyzer) -> Option<Vec<Limit>> {
    let size = nodes(&l.body);
    if size > MAX_COPIED {
        return None;
    }
    let mut search = Search {
        var: l.var,
        written: written_in(&l.body),
        serial: (size > MAX_COPIED_AROUND).then(BTreeSet::new),
        found: vec![],
        has_loop: false,
    };
    let mut inner = facts.clone();
    inner.bind_loop(l);
    search.stmt(&l.body, &inner, &BTreeSet::new());
    if !search.has_loop {
        search.found.retain(|c| c.site == Site::Statement);
    }
    (!search.found.is_empty()).then_some(search.found)
}

/// Whether anything in `s` depends on a condition.
fn has_conditions(s: &Stmt) -> bool {
    let mut found = false;
    s.visit(&mut |s| {
        found |= matches!(s, Stmt::If { .. });
        if !found {
            let chooses =
                |e: &Expr| matches!(e.kind(), ExprKind::Call { op: Intrin::IfThenElse, .. });
            s.for_each_expr(&mut |e| e.visit(&mut |e| found |= chooses(e)));
        }
    });
    found
}

/// The buffers that a statement stores to.
fn written_in(s: &Stmt) -> FxHashSet<Buffer> {
    let mut written = FxHashSet::default();
    s.visit(&mut |s| {
        if let Stmt::Store { buffer, .. } = s {
            written.insert(*buffer);
        }
    });
    written
}

/// The conditions that hold nowhere beyond an end: the one that decides where that is, if no other has a part
/// in it.
fn without(found: &[Limit], of_end: impl Fn(&Holds) -> bool) -> FxHashSet<Expr> {
    let mut deciding = found.iter().filter(|limit| of_end(&limit.holds));
    match (deciding.next(), deciding.next()) {
        (Some(limit), None) if limit.exact => FxHashSet::from_iter([limit.cond.clone()]),
        _ => FxHashSet::default(),
    }
}

/// Replaces conditions whose value is known.
fn assume(e: &Expr, known: &FxHashSet<Expr>, value: bool) -> Expr {
    if known.is_empty() {
        return e.clone();
    }
    match e.dtype().is_bool() && known.contains(e) {
        true => Expr::bool(value),
        false => e.map_children(&mut |e| assume(e, known, value)),
    }
}

fn nodes(s: &Stmt) -> usize {
    let mut count = 0;
    s.visit(&mut |_| count += 1);
    s.visit_exprs(&mut |_| count += 1);
    count
}

enum Holds {
    /// For values of the loop variable from here on.
    From(Expr),
    /// For values of the loop variable below this.
    Below(Expr),
}

struct Limit {
    cond: Expr,
    holds: Holds,
    /// Whether it holds nowhere else.
    exact: bool,
    site: Site,
}

/// Where a condition stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Site {
    /// It chooses a statement.
    Statement,
    /// It chooses the value of an expression.
    Expression,
}

/// Collects the conditions in a loop body that decide something about its variable.
struct Search {
    var: Var,
    /// The buffers whose elements the loop changes.
    written: FxHashSet<Buffer>,
    /// The serial loops around the statement, where conditions on them are left to them.
    serial: Option<BTreeSet<Var>>,
    found: Vec<Limit>,
    has_loop: bool,
}

impl Search {
    fn stmt(&mut self, s: &Stmt, facts: &Analyzer, inner: &BTreeSet<Var>) {
        s.for_each_expr(&mut |e| {
            e.visit(&mut |e| {
                if let ExprKind::Call { op: Intrin::IfThenElse, args, .. } = e.kind() {
                    self.conditions(&args[0], Site::Expression, facts, inner);
                }
            });
        });
        match s {
            Stmt::For(l) => {
                self.has_loop = true;
                if !has_conditions(&l.body) {
                    return;
                }
                let (mut facts, mut inner) = (facts.clone(), inner.clone());
                facts.bind_loop(l);
                inner.insert(l.var);
                let serial = self.serial.as_mut().filter(|_| l.kind == ForKind::Serial);
                let noted = serial.is_some_and(|serial| serial.insert(l.var));
                self.stmt(&l.body, &facts, &inner);
                if let Some(serial) = self.serial.as_mut().filter(|_| noted) {
                    serial.remove(&l.var);
                }
            }
            Stmt::If { cond, .. } => {
                self.conditions(cond, Site::Statement, facts, inner);
                s.for_each_child(&mut |s| self.stmt(s, facts, inner));
            }
            Stmt::Let { var, body, .. } => {
                let mut inner = inner.clone();
                inner.insert(*var);
                self.stmt(body, facts, &inner);
            }
            _ => s.for_each_child(&mut |s| self.stmt(s, facts, inner)),
        }
    }

    fn conditions(&mut self, cond: &Expr, site: Site, facts: &Analyzer, inner: &BTreeSet<Var>) {
        for cond in conjuncts(cond) {
            let left = self.serial.as_ref().is_some_and(|s| !s.is_disjoint(&vars(&cond)));
            if left || self.found.iter().any(|l| l.cond == cond) || self.changes(&cond) {
                continue;
            }
            if let Some((holds, exact)) = limit(self.var, &cond, facts, inner) {
                self.found.push(Limit { cond, holds, exact, site });
            }
        }
    }
}

impl Search {
    /// Whether `cond` reads what the loop writes, so that it has another meaning before the loop.
    fn changes(&self, cond: &Expr) -> bool {
        let mut found = false;
        cond.visit(&mut |e| {
            found |=
                matches!(e.kind(), ExprKind::Load { buffer, .. } if self.written.contains(buffer));
        });
        found
    }
}

/// Where `cond` holds for all values of the inner variables, as a bound on `var`, and whether it holds for none
/// elsewhere.
fn limit(var: Var, cond: &Expr, facts: &Analyzer, inner: &BTreeSet<Var>) -> Option<(Holds, bool)> {
    let ExprKind::Compare { op, a, b } = cond.kind() else { return None };
    if a.dtype() != DType::I64 {
        return None;
    }
    let (a, b) = (a.clone(), b.clone());
    // As `positive >= 0`.
    let positive = match op {
        CmpOp::Ge => a - b,
        CmpOp::Gt => a - b - 1,
        CmpOp::Le => b - a,
        CmpOp::Lt => b - a - 1,
        CmpOp::Eq | CmpOp::Ne => return None,
    };
    let poly = facts.poly(&positive)?;
    let (mut step, mut rest, mut exact) = (0, Expr::i64(poly.constant), true);
    for (factors, coefficient) in &poly.terms {
        let term = factors.iter().fold(Expr::i64(*coefficient), |t, f| t * f.clone());
        let used = vars(&term);
        if factors.len() == 1 && factors[0].as_var() == Some(var) {
            step = *coefficient;
        } else if used.contains(&var) {
            return None;
        } else if used.is_disjoint(inner) {
            rest = rest + term;
        } else {
            let least = facts.bounds(&term).min;
            if least == i64::MIN {
                return None;
            }
            rest = rest + least;
            exact = false;
        }
    }
    let holds = match step {
        0 => return None,
        step if step > 0 => Holds::From(Expr::i64(0) - rest.floordiv(step)),
        step => Holds::Below(rest.floordiv(-step) + 1),
    };
    Some((holds, exact))
}
