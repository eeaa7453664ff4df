//! Blocks become plain statements.
//!
//! ```text
//! for i { for k { block(vi = i, vk = k) { init: y[vi] = 0; y[vi] = y[vi] + x[vi, vk] } } }
//! for i { y[i] = 0; for k { y[i] = y[i] + x[i, k] } }
//! ```
//!
//! Iterators are replaced by their bindings and predicates become [`Stmt::If`]. An init moves
//! in front of the outermost loop its reduction runs over, under copies of the spatial loops
//! in between; an empty reduction then gives the init value. Where moving it could be seen
//! (another statement uses the output, or a predicate mixes both kinds of axes) it stays, on
//! the condition that every reduction iterator is 0.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::arith::Analyzer;
use crate::{Block, Buffer, Expr, ExprKind, For, IterKind, PrimFunc, Stmt, Var};

/// Replaces every block of `func`.
pub fn lower_blocks(func: &PrimFunc) -> PrimFunc {
    let mut lowered = func.without_body();
    let mut pass = LowerBlocks { func: &mut lowered, path: vec![] };
    let (body, pending) = pass.stmt(&func.body);
    debug_assert!(pending.is_empty(), "an init left the loops of its reduction");
    lowered.body = body;
    lowered
}

/// A statement between the root and the one being lowered.
enum PathItem {
    /// A loop, its first value, and the variables of its bounds.
    Loop(Var, Expr, BTreeSet<Var>),
    /// Buffers that the other statements of a sequence use.
    Siblings(BTreeSet<Buffer>),
    Allocate(Buffer),
    /// Nothing moves across.
    Barrier,
}

/// An init on its way out of reduction loops.
struct Pending {
    init: Stmt,
    /// The loops it still has to leave.
    over: BTreeSet<Var>,
}

struct LowerBlocks<'f> {
    func: &'f mut PrimFunc,
    path: Vec<PathItem>,
}

impl LowerBlocks<'_> {
    fn stmt(&mut self, s: &Stmt) -> (Stmt, Vec<Pending>) {
        match s {
            Stmt::For(l) => self.for_loop(l),
            Stmt::Block(b) => self.block(b),
            Stmt::Seq(list) => {
                let mut all = vec![];
                let mut pending = vec![];
                let of_each: Vec<BTreeSet<Buffer>> = list.iter().map(buffers).collect();
                for (i, s) in list.iter().enumerate() {
                    if let Stmt::Store { .. } = s {
                        all.push(s.clone());
                        continue;
                    }
                    let others = of_each.iter().enumerate().filter(|(j, _)| *j != i);
                    let used = others.flat_map(|(_, used)| used).copied().collect();
                    let (s, moved) = self.within(PathItem::Siblings(used), s);
                    all.push(s);
                    pending.extend(moved);
                }
                (Stmt::Seq(all), pending)
            }
            Stmt::Allocate { buffer, body } => {
                let (body, pending) = self.within(PathItem::Allocate(*buffer), body);
                (Stmt::Allocate { buffer: *buffer, body: Box::new(body) }, pending)
            }
            Stmt::Store { .. } | Stmt::Tile(_) | Stmt::CallPacked(_) | Stmt::Barrier(_) => {
                (s.clone(), vec![])
            }
            Stmt::If { .. } | Stmt::Let { .. } | Stmt::While { .. } => {
                let lowered = s.map_children(&mut |s| {
                    let (s, pending) = self.within(PathItem::Barrier, s);
                    debug_assert!(pending.is_empty(), "an init crossed a barrier");
                    s
                });
                (lowered, vec![])
            }
        }
    }

    fn within(&mut self, step: PathItem, s: &Stmt) -> (Stmt, Vec<Pending>) {
        self.path.push(step);
        let result = self.stmt(s);
        self.path.pop();
        result
    }

    fn for_loop(&mut self, l: &For) -> (Stmt, Vec<Pending>) {
        let bounds = [&l.min, &l.extent].into_iter().flat_map(vars).collect();
        let (body, moved) = self.within(PathItem::Loop(l.var, l.min.clone(), bounds), &l.body);
        let new = Stmt::For(Box::new(l.with_body(body)));
        let (mut before, mut pending) = (vec![], vec![]);
        for Pending { init, mut over } in moved {
            if !over.remove(&l.var) {
                pending.push(Pending { init: self.copy_loop(l, init), over });
            } else if over.is_empty() {
                before.push(init);
            } else {
                pending.push(Pending { init, over });
            }
        }
        before.push(new);
        (seq(before), pending)
    }

    /// `l` with a fresh variable around `body`.
    fn copy_loop(&mut self, l: &For, body: Stmt) -> Stmt {
        let data = self.func.vars[l.var].clone();
        let var = self.func.vars.push(data);
        let body = body.substitute(&|v| (v == l.var).then(|| var.into()));
        Stmt::For(Box::new(For { var, ..l.with_body(body) }))
    }

    fn block(&mut self, b: &Block) -> (Stmt, Vec<Pending>) {
        let bound: FxHashMap<Var, Expr> =
            b.iters.iter().map(|i| (i.var, i.value.clone())).collect();
        let bind = |s: &Stmt| s.substitute(&|v| bound.get(&v).cloned());
        let step = match b.predicate.as_int() {
            Some(1) => PathItem::Siblings(BTreeSet::new()),
            _ => PathItem::Barrier,
        };
        let (body, mut pending) = self.within(step, &bind(&b.body));
        let mut parts = vec![body];
        if let Some(init) = b.init.as_ref().map(bind) {
            let (init, inner) = self.within(PathItem::Barrier, &init);
            debug_assert!(inner.is_empty(), "an init inside an init");
            match self.leaves(b, &init) {
                Some((over, condition)) => {
                    pending.push(Pending { init: guarded(condition, init), over });
                }
                None => parts.insert(0, guarded(first_step(b), init)),
            }
        }
        let allocated = b.allocs.iter().fold(seq(parts), |body, buffer| Stmt::Allocate {
            buffer: *buffer,
            body: Box::new(body),
        });
        (guarded(b.predicate.clone(), allocated), pending)
    }

    /// The loops that `init` can leave and the condition it keeps, or `None` if it must stay.
    fn leaves(&self, b: &Block, init: &Stmt) -> Option<(BTreeSet<Var>, Expr)> {
        let of_kind = |reduce: bool| -> BTreeSet<Var> {
            let iters = b.iters.iter().filter(|i| (i.kind == IterKind::Reduce) == reduce);
            iters.flat_map(|i| vars(&i.value)).collect()
        };
        let (over, kept) = (of_kind(true), of_kind(false));
        if over.is_empty() || !over.is_disjoint(&kept) {
            return None;
        }
        let mut condition = Expr::bool(true);
        for part in conjuncts(&b.predicate) {
            let used = vars(&part);
            match (used.is_disjoint(&over), used.is_disjoint(&kept)) {
                (true, _) => condition = condition.and(part),
                // It restricts reduction steps only; the first one exists by the loops' ranges.
                (false, true) => {}
                (false, false) => return None,
            }
        }
        let starts_over = |s: &PathItem| matches!(s, PathItem::Loop(v, ..) if over.contains(v));
        let inner = &self.path[self.path.iter().position(starts_over)?..];
        let found = inner.iter().filter(|s| starts_over(s)).count();
        let uses = buffers(init);
        let passes = |s: &PathItem| match s {
            PathItem::Loop(_, _, bounds) => bounds.is_disjoint(&over),
            PathItem::Siblings(used) => used.is_disjoint(&uses),
            PathItem::Allocate(buffer) => !uses.contains(buffer),
            PathItem::Barrier => false,
        };
        // The tail of a loop that was cut continues a reduction; its first step is not the first.
        let first = |v: Var| {
            inner.iter().find_map(|s| match s {
                PathItem::Loop(w, min, _) if *w == v && over.contains(w) => Some(min.clone()),
                _ => None,
            })
        };
        let reduce = b.iters.iter().filter(|i| i.kind == IterKind::Reduce);
        let mut starts = reduce.map(|i| Analyzer::new().simplify(&i.value.substitute(&first)));
        let from_start = starts.all(|start| start.as_int() == Some(0));
        let leaves = found == over.len() && from_start && inner.iter().all(passes);
        leaves.then_some((over, condition))
    }
}

/// Whether this is the first reduction step of an element.
fn first_step(b: &Block) -> Expr {
    let reduce = b.iters.iter().filter(|i| i.kind == IterKind::Reduce);
    reduce.fold(Expr::bool(true), |all, i| all.and(i.value.clone().equal(0)))
}

fn guarded(cond: Expr, body: Stmt) -> Stmt {
    match cond.as_int() {
        Some(0) => Stmt::nop(),
        Some(_) => body,
        None => Stmt::If { cond, then: Box::new(body), otherwise: None },
    }
}

pub(super) fn seq(mut list: Vec<Stmt>) -> Stmt {
    match list.len() {
        1 => list.remove(0),
        _ => Stmt::Seq(list),
    }
}

/// The operands of a chain of `and`.
pub(super) fn conjuncts(cond: &Expr) -> Vec<Expr> {
    match cond.kind() {
        ExprKind::And(a, b) => [conjuncts(a), conjuncts(b)].concat(),
        _ => vec![cond.clone()],
    }
}

/// Variables an expression mentions.
pub(super) fn vars(e: &Expr) -> BTreeSet<Var> {
    let mut found = BTreeSet::new();
    e.visit(&mut |e| {
        if let ExprKind::Var { var, .. } = e.kind() {
            found.insert(*var);
        }
    });
    found
}

/// Buffers a statement loads or stores.
pub(super) fn buffers(s: &Stmt) -> BTreeSet<Buffer> {
    let mut found = BTreeSet::new();
    s.visit(&mut |s| found.extend(s.touched()));
    s.visit_exprs(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind() {
            found.insert(*buffer);
        }
    });
    found
}
