//! Unroll and jam (register blocking): loops around one block unrolled, with loads that their
//! iterations share done once.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::compute_inline::loads;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, conjuncts, sequence};
use crate::arith::Analyzer;
use crate::{Block, BlockIter, Buffer, Expr, ExprKind, For, Intrin, IterKind, Stmt, Var, VarData};

impl Schedule {
    /// Unroll and jam: `for i in 0..2 { for j in 0..2 { X[i, j] = f(a(i), b(j)) } }`, at `i`, becomes
    /// `let b0 = b(0), b1 = b(1); let a0 = a(0); X[0, 0] = f(a0, b0); X[0, 1] = f(a0, b1); let a1 ..`:
    /// the instances one after the other, and what is loaded for several iterations of a loop named
    /// before that loop. A guard that changes with the loops is decided for each instance; where
    /// there is one, nothing is named.
    ///
    /// Needs serial loops from 0 of constant extents around nothing but the block, which is one store
    /// without an init and reads nothing else of what it writes than that element.
    pub fn unroll_and_jam(&mut self, name: &str, at: Var) -> Result<(), ScheduleError> {
        let refuse = |s: &Schedule, why: &str| s.refuse("unroll_and_jam", name, why);
        let path = self.path_to_loop("unroll_and_jam", at)?;
        let mut facts = self.facts(&path[..path.len() - 1]);
        let around: Vec<For> = tree::loops_of(&path[..path.len() - 1]).cloned().collect();
        let (loops, inner) = self.constant_nest("unroll_and_jam", at)?;
        let mut block = match inner {
            Stmt::Block(b) if b.name == name => b.as_ref().clone(),
            _ => return Err(refuse(self, "it does not have the loops alone")),
        };
        let Stmt::Store { buffer, indices, value } = block.body.clone() else {
            return Err(refuse(self, "the block's body is not one store"));
        };
        if block.init.is_some() || !super::injective::stores_own_element(&block) {
            return Err(refuse(self, "it has an init, or reads other elements of what it writes"));
        }
        let goes = |e: &Expr| loops.iter().any(|l| tree::mentions(e, l.var));
        let (gone, mut iters): (Vec<BlockIter>, Vec<BlockIter>) =
            block.iters.iter().cloned().partition(|i| goes(&i.value));
        let bound: FxHashMap<Var, Expr> = gone.into_iter().map(|i| (i.var, i.value)).collect();
        let (own, shared): (Vec<Expr>, Vec<Expr>) =
            conjuncts(&block.predicate).into_iter().partition(goes);
        let own = own.into_iter().fold(Expr::bool(true), Expr::and);
        let used = |l: &&For| bound.values().chain([&own]).any(|e| tree::mentions(e, l.var));
        let used: Vec<&For> = around.iter().filter(used).collect();
        if used.iter().any(|l| l.min.as_int() != Some(0)) {
            return Err(refuse(self, "a loop around it does not start from 0"));
        }
        let outside = self.iterators_of_outer_loops(&used, &block, &mut iters);
        let inside = |e: &Expr| {
            let e = e.substitute(&|v| bound.get(&v).cloned());
            e.substitute(&|v| outside.get(&v).cloned())
        };
        let element = Element {
            buffer,
            indices: indices.iter().map(inside).collect(),
            value: inside(&value),
            guard: inside(&own),
        };
        iters.iter().for_each(|i| facts.bind(i.var, Expr::i64(0), i.extent.clone()));
        let mut unroller = Unroller { schedule: self, facts, named: vec![] };
        let body = unroller.instances(&loops, &element);
        block.predicate = shared.into_iter().fold(Expr::bool(true), Expr::and);
        block.iters = iters;
        block.body = body;
        self.refresh_regions(&mut block);
        let block = Stmt::Block(Box::new(block));
        let text = self.names(&loops.iter().map(|l| l.var).collect::<Vec<_>>());
        self.func.body = tree::replace_loop(&self.func.body, at, |_| block.clone());
        self.note(format!("unroll_and_jam {name} {text}"));
        Ok(())
    }
}

impl Schedule {
    /// The iterator that is each of the loops around the nest, in whose terms the values of removed
    /// iterators are left. Those that the block lacks are added to `iters`.
    fn iterators_of_outer_loops(
        &mut self,
        loops: &[&For],
        block: &Block,
        iters: &mut Vec<BlockIter>,
    ) -> FxHashMap<Var, Expr> {
        let mut outside: FxHashMap<Var, Expr> = FxHashMap::default();
        for l in loops {
            let is = |i: &&BlockIter| i.value.as_var() == Some(l.var);
            if !iters.iter().any(|i| is(&i)) {
                let mut reducing = block.reduction_iters();
                let reduces = reducing.find(|i| tree::mentions(&i.value, l.var));
                let kind = reduces.map_or(IterKind::Spatial, |i| i.kind);
                iters.extend(self.iterators(std::slice::from_ref(*l), kind));
            }
            outside.extend(iters.iter().find(is).map(|i| (l.var, i.var.into())));
        }
        outside
    }
}

/// `buffer[indices] = value` where `guard` holds.
struct Element {
    buffer: Buffer,
    indices: Vec<Expr>,
    value: Expr,
    guard: Expr,
}

impl Element {
    fn at(&self, var: Var, n: i64) -> Element {
        let at = |e: &Expr| e.substitute(&|v| (v == var).then(|| n.into()));
        Element {
            buffer: self.buffer,
            indices: self.indices.iter().map(at).collect(),
            value: at(&self.value),
            guard: at(&self.guard),
        }
    }
}

struct Unroller<'s> {
    schedule: &'s mut Schedule,
    facts: Analyzer,
    /// Expressions bound to variables, and these.
    named: Vec<(Expr, Expr)>,
}

impl Unroller<'_> {
    fn instances(&mut self, loops: &[For], element: &Element) -> Stmt {
        let Some((l, inner)) = loops.split_first() else { return self.instance(element) };
        let known = self.named.len();
        let mut fresh = vec![];
        if element.guard.as_int() == Some(1) {
            let mut shared = vec![];
            unchanged(&element.value, l.var, element.buffer, &mut shared);
            for e in shared.iter().flat_map(|e| over(e, inner)) {
                if self.named.iter().all(|(named, _)| *named != e) {
                    let (name, dtype) = ("x".into(), e.dtype());
                    let var = self.schedule.func.vars.push(VarData { name, dtype });
                    fresh.push((var, self.facts.simplify(&e)));
                    self.named.push((e, Expr::new(ExprKind::Var { var, dtype })));
                }
            }
        }
        let count = l.extent.as_int().expect("a constant extent");
        let all: Vec<Stmt> =
            (0..count).map(|n| self.instances(inner, &element.at(l.var, n))).collect();
        self.named.truncate(known);
        let body = sequence(all);
        fresh.into_iter().rev().fold(body, |body, (var, value)| {
            let body = Box::new(body);
            Stmt::Let { var, value, body }
        })
    }

    fn instance(&self, element: &Element) -> Stmt {
        let indices = element.indices.iter().map(|i| self.facts.simplify(i)).collect();
        let value = self.facts.simplify(&self.by_name(&element.value));
        let store = Stmt::store(element.buffer, indices, value);
        let cond = self.facts.simplify(&element.guard);
        match cond.as_int() {
            Some(0) => Stmt::nop(),
            Some(_) => store,
            None => Stmt::If { cond, then: Box::new(store), otherwise: None },
        }
    }

    fn by_name(&self, e: &Expr) -> Expr {
        match self.named.iter().find(|(named, _)| named == e) {
            Some((_, name)) => name.clone(),
            None => e.map_children(&mut |c| self.by_name(c)),
        }
    }
}

/// The largest parts of `e` that load something, nothing of it from `written`, and do not change
/// with `var`.
fn unchanged(e: &Expr, var: Var, written: Buffer, found: &mut Vec<Expr>) {
    let sources = loads(e);
    if sources.is_empty() {
        return;
    }
    if tree::mentions(e, var) || sources.contains(&written) {
        return evaluated(e).into_iter().for_each(|c| unchanged(c, var, written, found));
    }
    if !found.contains(e) {
        found.push(e.clone());
    }
}

/// The operands of `e` that are evaluated whenever it is.
fn evaluated(e: &Expr) -> SmallVec<[&Expr; 4]> {
    let mut operands = e.children();
    match e.kind() {
        ExprKind::Call { op: Intrin::IfThenElse, .. } | ExprKind::And(..) | ExprKind::Or(..) => {
            operands.truncate(1);
        }
        _ => {}
    }
    operands
}

/// Calls `f` on what is evaluated whenever `e` is.
pub(super) fn visit_evaluated(e: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(e);
    evaluated(e).into_iter().for_each(|c| visit_evaluated(c, f));
}

/// `e` for all values of those of the loops that it mentions.
fn over(e: &Expr, loops: &[For]) -> Vec<Expr> {
    loops.iter().filter(|l| tree::mentions(e, l.var)).fold(vec![e.clone()], |all, l| {
        let count = l.extent.as_int().expect("a constant extent");
        let at = |e: &Expr, n: i64| e.substitute(&|v| (v == l.var).then(|| n.into()));
        (0..count).flat_map(|n| all.iter().map(move |e| at(e, n))).collect()
    })
}
