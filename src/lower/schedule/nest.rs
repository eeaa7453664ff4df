//! Loop nests: vector loops with their tails, parallel loops, and the merging of axes.

use reflex_tir::codegen::Target;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, PrimFunc, Scope, Stmt, Var, VarData};

use reflex_tir::arith::Analyzer;

use super::Refusal;
use super::affine::{Linear, linear, same};
use super::stage::{Axis, Stage};

/// Work (cost of an element times elements) below which threads are not worth waking.
pub const PARALLEL_WORK: i64 = 100_000;

/// What an extent that is known only when the kernel runs counts as where code is chosen. Whether
/// threads are woken is decided when it runs.
pub const UNKNOWN_EXTENT: i64 = 64;

/// `extent`, or what an unknown one counts as.
pub fn likely(extent: &Expr) -> i64 {
    extent.as_int().unwrap_or(UNKNOWN_EXTENT)
}

/// A kernel under construction.
pub struct Nest<'a> {
    /// The function: variables and buffers are added to it.
    pub func: PrimFunc,
    /// For this CPU.
    pub target: &'a Target,
    /// Whether threads are worth waking for the parallel loops being written, where that is known
    /// only when the kernel runs.
    pub enough: Option<Expr>,
    /// What was done, for those who ask.
    pub steps: Vec<String>,
}

impl Nest<'_> {
    /// Elements of `bytes` each in a vector register.
    pub fn lanes(&self, bytes: usize) -> i64 {
        (i64::from(self.target.vector_bytes) / bytes.max(1) as i64).max(1)
    }

    /// A fresh int64 variable.
    pub fn var(&mut self, name: &str) -> Var {
        self.func.new_var(name)
    }

    /// A fresh float32 variable.
    pub fn float_var(&mut self, name: &str) -> Var {
        self.var_of(name, DType::F32)
    }

    /// A fresh variable of a type.
    pub fn var_of(&mut self, name: &str, dtype: DType) -> Var {
        self.func.vars.push(VarData { name: name.into(), dtype })
    }

    /// A fresh buffer on the stack.
    pub fn local(&mut self, name: &str, dtype: DType, shape: &[i64]) -> Buffer {
        let shape = shape.iter().map(|n| Expr::i64(*n)).collect();
        self.func.new_buffer(name, dtype, shape, Scope::Local)
    }

    /// A fresh intermediate of the function.
    pub fn scratch(&mut self, name: &str, dtype: DType, shape: Vec<Expr>) -> Buffer {
        let buffer = self.func.new_buffer(name, dtype, shape, Scope::Global);
        self.func.allocs.push(buffer);
        buffer
    }

    /// `for var in 0..extent`, of a kind; no loop where the extent is 1.
    pub fn repeat(
        &mut self,
        kind: ForKind,
        name: &str,
        extent: impl Into<Expr>,
        body: impl FnOnce(&mut Self, Expr) -> Stmt,
    ) -> Stmt {
        let extent = extent.into();
        match extent.as_int() {
            Some(1) => return body(self, Expr::i64(0)),
            Some(n) if n <= 0 => return Stmt::nop(),
            _ => {}
        }
        let var = self.var(name);
        let body = body(self, var.into());
        match kind {
            ForKind::Parallel => self.parallel_loop(var, extent, body),
            kind => Stmt::loop_of(kind, var, extent, body),
        }
    }

    /// [`repeat`](Self::repeat) of a body that may be refused.
    pub fn try_repeat(
        &mut self,
        kind: ForKind,
        name: &str,
        extent: impl Into<Expr>,
        body: impl FnOnce(&mut Self, Expr) -> Result<Stmt, Refusal>,
    ) -> Result<Stmt, Refusal> {
        let mut refused = None;
        let stmt = self.repeat(kind, name, extent, |nest, i| {
            body(nest, i).unwrap_or_else(|why| {
                refused = Some(why);
                Stmt::nop()
            })
        });
        refused.map_or(Ok(stmt), Err)
    }

    /// A loop that threads share; one task does all of it where that is [not enough](Self::enough).
    fn parallel_loop(&mut self, var: Var, extent: Expr, body: Stmt) -> Stmt {
        let Some(enough) = self.enough.clone() else {
            return Stmt::loop_of(ForKind::Parallel, var, extent, body);
        };
        let (task, within) = (self.var("task"), self.var("i"));
        let at = Expr::from(task) + within;
        let body = body.substitute(&|v| (v == var).then(|| at.clone()));
        let tasks = Expr::select(enough.clone(), extent.clone(), Expr::i64(1));
        let each = Expr::select(enough, Expr::i64(1), extent);
        Stmt::loop_of(ForKind::Parallel, task, tasks, Stmt::serial(within, each, body))
    }

    /// Whether `cost` for each of `axes` can be enough for threads; what it takes when it runs is
    /// noted for the loops written from here on.
    pub fn parallel_for(&mut self, axes: &[Axis], cost: i64) -> Parallel {
        let extents = || axes.iter().map(|a| likely(&a.extent));
        let work = extents().fold(cost.max(1), i64::saturating_mul);
        let some = extents().any(|n| n > 1);
        let known = axes.iter().all(|a| a.extent.as_int().is_some());
        self.enough = (!known).then(|| {
            let work = axes.iter().fold(Expr::i64(cost.max(1)), |w, a| w * a.extent.clone());
            Analyzer::new().simplify(&work).ge(PARALLEL_WORK)
        });
        match work >= PARALLEL_WORK && some {
            true => Parallel::Yes,
            false => Parallel::No,
        }
    }

    /// One vector loop over `body(lane)`.
    pub fn lanes_of(&mut self, lanes: i64, body: impl FnOnce(&mut Self, Expr) -> Stmt) -> Stmt {
        self.repeat(ForKind::Vectorized, "l", lanes, body)
    }

    /// Loops over `axes`; when `parallel`, threads share the first one that is known to be long,
    /// or else the first one that may be.
    pub fn outer(&mut self, axes: &[Axis], parallel: Parallel, body: Stmt) -> Stmt {
        let long = axes.iter().position(|a| a.extent.as_int().is_some_and(|n| n > 3));
        let some = || axes.iter().position(|a| a.extent.as_int() != Some(1));
        let wide = long.or_else(some).unwrap_or(0);
        axes.iter().enumerate().rev().fold(body, |body, (n, axis)| match parallel {
            Parallel::Yes if n == wide => self.parallel_loop(axis.var, axis.extent.clone(), body),
            _ => Stmt::serial(axis.var, axis.extent.clone(), body),
        })
    }
}

/// Whether a nest's outermost loop runs on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// A stage whose neighbouring axes are merged wherever every access allows it.
pub fn merged(nest: &mut Nest<'_>, stage: &Stage) -> Stage {
    merged_with(nest, stage, None).0
}

/// [`merged`], together with a stage over the same spatial axes (the same variables).
pub fn merged_with(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
) -> (Stage, Option<Stage>) {
    let vars: Vec<Var> = stage.spatial.iter().chain(&stage.reduce).map(|a| a.var).collect();
    let mut accesses = vec![];
    let mut pinned = vec![false; vars.len()];
    for s in [Some(stage), epilogue].into_iter().flatten() {
        note_accesses(&nest.func, &s.value, &vars, &mut accesses, &mut pinned);
        match linear(&nest.func, s.buffer, &s.indices, &vars) {
            Some(store) => accesses.push(store),
            None => pinned.fill(true),
        }
    }
    let spatial = merged_axes(nest, &stage.spatial, 0, &accesses, &pinned);
    let reduce = merged_axes(nest, &stage.reduce, stage.spatial.len(), &accesses, &pinned);
    if spatial.iter().chain(&reduce).all(|g| g.len == 1) {
        return (stage.clone(), epilogue.cloned());
    }
    let groups: Vec<&Group> = spatial.iter().chain(&reduce).collect();
    let rebuilt = |s: &Stage| {
        let at = linear(&nest.func, s.buffer, &s.indices, &vars);
        let flat_store = |at: Linear| match nest.func.buffers[s.buffer].shape.is_empty() {
            true => vec![],
            false => vec![flat(&at, &groups)],
        };
        let axes = |list: &[Group]| list.iter().map(|g| g.axis.clone()).collect::<Vec<_>>();
        Stage {
            name: s.name.clone(),
            spatial: axes(&spatial),
            reduce: if s.reduce.is_empty() { vec![] } else { axes(&reduce) },
            buffer: s.buffer,
            indices: at.map_or_else(|| s.indices.clone(), flat_store),
            init: s.init.clone(),
            value: flat_loads(&nest.func, &s.value, &vars, &groups),
            kept: s.kept,
        }
    };
    (rebuilt(stage), epilogue.map(rebuilt))
}

/// Neighbouring axes as one: `axis` stands for `len` axes from `first`.
struct Group {
    axis: Axis,
    first: usize,
    len: usize,
}

fn merged_axes(
    nest: &mut Nest<'_>,
    axes: &[Axis],
    offset: usize,
    accesses: &[Linear],
    pinned: &[bool],
) -> Vec<Group> {
    let mut groups: Vec<Group> = vec![];
    for (n, axis) in axes.iter().enumerate().rev() {
        let at = offset + n;
        if let Some(inner) = groups.last_mut()
            && !pinned[at]
            && (inner.first..inner.first + inner.len).all(|i| !pinned[i])
        {
            let last = inner.first + inner.len - 1;
            let fits = accesses.iter().all(|a| {
                let step = a.coefficients[last].clone() * inner.axis.extent.clone();
                same(&a.coefficients[at], &step)
            });
            if fits {
                let extent = axis.extent.clone() * inner.axis.extent.clone();
                let var = if inner.len == 1 { nest.var("m") } else { inner.axis.var };
                *inner = Group { axis: Axis { var, extent }, first: at, len: inner.len + 1 };
                continue;
            }
        }
        groups.push(Group { axis: axis.clone(), first: at, len: 1 });
    }
    groups.reverse();
    groups
}

/// Position with each group's axes merged.
fn flat(at: &Linear, groups: &[&Group]) -> Expr {
    let picked = Linear {
        coefficients: groups.iter().map(|g| at.coefficients[g.first + g.len - 1].clone()).collect(),
        rest: at.rest.clone(),
    };
    let values: Vec<Expr> = groups.iter().map(|g| g.axis.var.into()).collect();
    picked.at(&values)
}

fn flat_loads(func: &PrimFunc, e: &Expr, vars: &[Var], groups: &[&Group]) -> Expr {
    if let ExprKind::Load { buffer, indices, dtype } = e.kind()
        && let Some(at) = linear(func, *buffer, indices, vars)
        && !has_load(indices)
    {
        let index = match func.buffers[*buffer].shape.is_empty() {
            true => vec![],
            false => vec![flat(&at, groups)],
        };
        return Expr::load(*buffer, index, *dtype);
    }
    e.map_children(&mut |c| flat_loads(func, c, vars, groups))
}

/// Whether a place is itself loaded.
pub fn has_load(indices: &[Expr]) -> bool {
    let mut found = false;
    for index in indices {
        index.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Load { .. }));
    }
    found
}

/// Collects the linear loads of `e` and marks the variables that are used otherwise.
pub fn note_accesses(
    func: &PrimFunc,
    e: &Expr,
    vars: &[Var],
    accesses: &mut Vec<Linear>,
    pinned: &mut [bool],
) {
    if let ExprKind::Load { buffer, indices, .. } = e.kind()
        && !has_load(indices)
        && let Some(access) = linear(func, *buffer, indices, vars)
    {
        accesses.push(access);
        return;
    }
    if let Some(at) = e.as_var().and_then(|v| vars.iter().position(|x| *x == v)) {
        pinned[at] = true;
    }
    for child in e.children() {
        note_accesses(func, child, vars, accesses, pinned);
    }
}

/// The largest element size among what a stage touches.
pub fn widest(func: &PrimFunc, stage: &Stage) -> usize {
    let mut bytes = func.buffers[stage.buffer].dtype.itemsize();
    stage.value.visit(&mut |e| {
        if let ExprKind::Load { dtype, .. } = e.kind() {
            bytes = bytes.max(dtype.itemsize());
        }
    });
    bytes
}
