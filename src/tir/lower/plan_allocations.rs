//! Intermediates are allocated where they are used, and no larger than what is used there.
//!
//! The allocation moves into loops as far as all accesses go along, past a loop only when each
//! iteration writes what it reads: the first access is a block that writes a box covering
//! every box read later, and no reduction runs over that loop. Below those loops the buffer
//! keeps, per dimension, only the range of indices that the inner loops reach, shifted to
//! start at 0; a dimension whose range is not an affine box keeps its full extent. A local
//! buffer that is then too large for a stack, or of unknown size, becomes a global one.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::arith::{Analyzer, Interval};
use crate::{Block, Buffer, Expr, ExprKind, For, ForKind, IterKind, PrimFunc, Scope, Stmt, Var};

use super::lower_blocks::{buffers, vars};
use super::simplify::parameter_facts;

/// Larger thread-private buffers, and those without a constant size, go to main memory.
const STACK_LIMIT: i64 = 64 << 10;

/// Turns the function's list of allocations into [`Stmt::Allocate`]s.
pub fn plan_allocations(func: &PrimFunc) -> PrimFunc {
    let mut func = func.clone();
    for buffer in std::mem::take(&mut func.allocs) {
        if !buffers(&func.body).contains(&buffer) {
            continue;
        }
        let mut loops = vec![];
        home(&func, buffer, &func.body, &mut loops);
        let facts = parameter_facts(&func);
        let body = std::mem::replace(&mut func.body, Stmt::nop());
        func.body = place(&mut func, buffer, &body, &loops, facts);
    }
    func
}

/// The loops that the allocation moves into, outermost first.
fn home(func: &PrimFunc, buffer: Buffer, s: &Stmt, loops: &mut Vec<Var>) {
    match s {
        Stmt::For(l) => {
            let movable = !matches!(l.kind, ForKind::Vectorized | ForKind::ThreadBinding(_));
            if movable && is_private(func, buffer, l) {
                loops.push(l.var);
                home(func, buffer, &l.body, loops);
            }
        }
        Stmt::Seq(list) => {
            let mut users = list.iter().filter(|s| buffers(s).contains(&buffer));
            if let (Some(only), None) = (users.next(), users.next()) {
                home(func, buffer, only, loops);
            }
        }
        Stmt::Allocate { body, .. } => home(func, buffer, body, loops),
        Stmt::Block(_)
        | Stmt::Store { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_)
        | Stmt::If { .. }
        | Stmt::Let { .. }
        | Stmt::While { .. } => {}
    }
}

/// Whether no iteration of `l` reads what another one wrote.
fn is_private(func: &PrimFunc, buffer: Buffer, l: &For) -> bool {
    let mut accesses = BufferUses::new(func, buffer);
    let mut facts = parameter_facts(func);
    facts.bind_loop(l);
    accesses.stmt(&l.body, &facts, &FxHashMap::default());
    if accesses.irregular || accesses.reduced.contains(&l.var) {
        return false;
    }
    let rank = func.buffers[buffer].shape.len();
    let first_read =
        accesses.list.iter().position(|a| a.kind == UseKind::Read).unwrap_or(accesses.list.len());
    let (written, read) = accesses.list.split_at(first_read);
    let reads: Vec<Hull> = (0..rank)
        .map(|d| hull(read.iter().filter(|a| a.kind == UseKind::Read).map(|a| &a.ranges[d])))
        .collect();
    let facts = &accesses.facts;
    let covers = |w: &BufferUse| {
        reads.iter().enumerate().all(|(d, reads)| match (reads, &w.ranges[d].base) {
            (Hull::Empty, _) => true,
            (Hull::Box(start, span), Some(base)) if w.dense[d] => {
                let reach = w.ranges[d].span;
                let below = start.clone() + span.min - base.clone() - reach.min;
                let above = base.clone() + reach.max - start.clone() - span.max;
                facts.prove(&below.ge(0)) && facts.prove(&above.ge(0))
            }
            _ => false,
        })
    };
    !written.is_empty() && written.iter().any(covers)
}

/// Wraps the innermost of `loops` (or the whole body) in the allocation and shrinks the buffer.
fn place(
    func: &mut PrimFunc,
    buffer: Buffer,
    s: &Stmt,
    loops: &[Var],
    mut facts: Analyzer,
) -> Stmt {
    let Some((next, rest)) = loops.split_first() else {
        return allocate(func, buffer, s, &facts);
    };
    match s {
        Stmt::For(l) if l.var == *next => {
            facts.bind_loop(l);
            let body = place(func, buffer, &l.body, rest, facts);
            Stmt::For(Box::new(l.with_body(body)))
        }
        _ => s.map_children(&mut |s| match s {
            s if buffers(s).contains(&buffer) => place(func, buffer, s, loops, facts.clone()),
            s => s.clone(),
        }),
    }
}

/// A bound on what is accessed along a symbolic extent is taken for its size only below this:
/// above, it is a model's idea of infinity (`min(n, 2^30)`), not a tile.
const LOOSE_BOUND: i64 = 1 << 16;

fn allocate(func: &mut PrimFunc, buffer: Buffer, body: &Stmt, facts: &Analyzer) -> Stmt {
    let mut accesses = BufferUses::new(func, buffer);
    accesses.stmt(body, facts, &FxHashMap::default());
    let mut starts: BTreeMap<usize, Expr> = BTreeMap::new();
    let rank = func.buffers[buffer].shape.len();
    for d in (0..rank).filter(|_| !accesses.irregular) {
        let Hull::Box(base, span) = hull(accesses.list.iter().map(|a| &a.ranges[d])) else {
            continue;
        };
        let full = func.buffers[buffer].shape[d].as_int();
        let extent = span.max - span.min + 1;
        if extent > 0 && extent < full.unwrap_or(LOOSE_BOUND) {
            starts.insert(d, facts.simplify(&(base + span.min)));
            func.buffers[buffer].shape[d] = extent.into();
        }
    }
    let shift = |indices: &[Expr]| -> Vec<Expr> {
        let moved = indices.iter().enumerate().map(|(d, index)| match starts.get(&d) {
            Some(start) => index.clone() - start.clone(),
            None => index.clone(),
        });
        moved.collect()
    };
    if !fits_stack(func, buffer) {
        func.buffers[buffer].scope = Scope::Global;
    }
    let body =
        if starts.is_empty() { body.clone() } else { body.map_accesses(buffer, buffer, &shift) };
    Stmt::Allocate { buffer, body: Box::new(body) }
}

fn fits_stack(func: &PrimFunc, buffer: Buffer) -> bool {
    let data = &func.buffers[buffer];
    let item = data.dtype.itemsize() as i64;
    let bytes = data.shape.iter().try_fold(item, |n, e| n.checked_mul(e.as_int()?));
    data.scope != Scope::Local || bytes.is_some_and(|n| n <= STACK_LIMIT)
}

/// Indices `base + span` of one access, over everything bound inside the walk.
#[derive(Clone)]
struct IndexRange {
    /// In terms of variables from outside; `None` when it is not affine in the inside.
    base: Option<Expr>,
    span: Interval,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UseKind {
    Read,
    Write,
}

/// One access to the buffer.
struct BufferUse {
    kind: UseKind,
    ranges: Vec<IndexRange>,
    /// Per dimension, whether a write reaches every index of its range.
    dense: Vec<bool>,
}

/// Every access to one buffer in execution order.
struct BufferUses {
    buffer: Buffer,
    rank: usize,
    list: Vec<BufferUse>,
    /// Loop variables that reductions writing the buffer run over.
    reduced: BTreeSet<Var>,
    /// Something was found that is not a block over affine loops.
    irregular: bool,
    facts: Analyzer,
    inner: BTreeSet<Var>,
    in_block: bool,
}

impl BufferUses {
    fn new(func: &PrimFunc, buffer: Buffer) -> BufferUses {
        BufferUses {
            buffer,
            rank: func.buffers[buffer].shape.len(),
            list: vec![],
            reduced: BTreeSet::new(),
            irregular: false,
            facts: Analyzer::new(),
            inner: BTreeSet::new(),
            in_block: false,
        }
    }

    fn stmt(&mut self, s: &Stmt, facts: &Analyzer, bound: &FxHashMap<Var, Expr>) {
        self.facts = facts.clone();
        match s {
            Stmt::For(l) => {
                let min = resolve(&l.min, bound);
                let extent = resolve(&l.extent, bound);
                let mut facts = facts.clone();
                facts.bind(l.var, min, extent);
                self.inner.insert(l.var);
                self.stmt(&l.body, &facts, bound);
            }
            Stmt::Block(b) => self.block(b, facts, bound),
            Stmt::Store { buffer, indices, value } => {
                for index in indices {
                    self.reads(index, facts, bound);
                }
                self.reads(value, facts, bound);
                if *buffer == self.buffer {
                    self.irregular |= !self.in_block;
                    self.access(UseKind::Write, indices, facts, bound);
                }
            }
            Stmt::Seq(list) => list.iter().for_each(|s| self.stmt(s, facts, bound)),
            Stmt::Allocate { body, .. } => self.stmt(body, facts, bound),
            Stmt::Barrier(_) => {}
            Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::While { .. }
            | Stmt::Tile(_)
            | Stmt::CallPacked(_) => {
                // Many elements, conditional or repeated: what is written is not known.
                self.irregular |= buffers(s).contains(&self.buffer);
            }
        }
    }

    fn block(&mut self, b: &Block, facts: &Analyzer, bound: &FxHashMap<Var, Expr>) {
        let mut all = bound.clone();
        for iter in &b.iters {
            let value = resolve(&iter.value, bound);
            if iter.kind == IterKind::Reduce && buffers(&b.body).contains(&self.buffer) {
                let writes = b.writes.iter().any(|r| r.buffer == self.buffer);
                if writes {
                    self.reduced.extend(vars(&value));
                }
            }
            self.irregular |=
                iter.kind == IterKind::Opaque && buffers(&b.body).contains(&self.buffer);
            all.insert(iter.var, value);
        }
        let outer = std::mem::replace(&mut self.in_block, true);
        if let Some(init) = &b.init {
            self.stmt(init, facts, &all);
        }
        self.stmt(&b.body, facts, &all);
        self.in_block = outer;
    }

    fn reads(&mut self, e: &Expr, facts: &Analyzer, bound: &FxHashMap<Var, Expr>) {
        e.visit(&mut |e| {
            if let ExprKind::Load { buffer, indices, .. } = e.kind()
                && *buffer == self.buffer
            {
                self.access(UseKind::Read, indices, facts, bound);
            }
        });
    }

    fn access(
        &mut self,
        kind: UseKind,
        indices: &[Expr],
        facts: &Analyzer,
        bound: &FxHashMap<Var, Expr>,
    ) {
        // A flat access says nothing about single dimensions.
        if indices.len() != self.rank {
            self.irregular = true;
            return;
        }
        let (mut ranges, mut dense) = (vec![], vec![]);
        for index in indices {
            let (range, full) = self.range(&resolve(index, bound), facts);
            ranges.push(range);
            dense.push(full);
        }
        self.list.push(BufferUse { kind, ranges, dense });
    }

    /// The indices `index` takes over the inner loops, and whether it takes all of them.
    fn range(&self, index: &Expr, facts: &Analyzer) -> (IndexRange, bool) {
        let unknown = (IndexRange { base: None, span: Interval::EVERYTHING }, false);
        let Some(poly) = facts.poly(index) else { return unknown };
        let mut base = Expr::i64(poly.constant);
        let mut span = Interval::point(0);
        let mut steps = vec![];
        for (factors, coefficient) in &poly.terms {
            let product =
                factors.iter().fold(Expr::i64(*coefficient), |product, f| product * f.clone());
            let used = vars(&product);
            if used.is_disjoint(&self.inner) {
                base = base + product;
                continue;
            }
            let reach = facts.bounds(&product);
            if !used.is_subset(&self.inner) || reach.min == i64::MIN || reach.max == i64::MAX {
                return unknown;
            }
            span = span + reach;
            let plain = factors.len() == 1 && factors[0].as_var().is_some();
            steps.push((if plain { coefficient.abs() } else { i64::MAX }, reach));
        }
        steps.sort_by_key(|(step, _)| *step);
        let mut reached = 1;
        let dense = steps.iter().all(|(step, reach)| {
            let touches = *step <= reached;
            reached += reach.max - reach.min;
            touches
        });
        (IndexRange { base: Some(facts.simplify(&base)), span }, dense)
    }
}

enum Hull {
    Empty,
    Box(Expr, Interval),
    Unknown,
}

/// The box around ranges whose bases differ by constants.
fn hull<'a>(ranges: impl Iterator<Item = &'a IndexRange>) -> Hull {
    let mut hull = Hull::Empty;
    for range in ranges {
        let Some(base) = &range.base else { return Hull::Unknown };
        hull = match hull {
            Hull::Empty => Hull::Box(base.clone(), range.span),
            Hull::Box(first, span) => {
                let apart = Analyzer::new().simplify(&(base.clone() - first.clone()));
                let Some(apart) = apart.as_int() else { return Hull::Unknown };
                Hull::Box(first, span.union(range.span + Interval::point(apart)))
            }
            Hull::Unknown => Hull::Unknown,
        };
    }
    hull
}

fn resolve(e: &Expr, bound: &FxHashMap<Var, Expr>) -> Expr {
    if bound.is_empty() {
        return e.clone();
    }
    e.substitute(&|v| bound.get(&v).cloned())
}
