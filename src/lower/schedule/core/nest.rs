//! A kernel under construction: loops, vector loops, parallel loops, scratch buffers.

use std::collections::HashSet;

use reflex_tir::arith::Analyzer;
use reflex_tir::codegen::{CpuTarget, Target};
use reflex_tir::{Buffer, DType, Expr, ForKind, PrimFunc, Scope, Stmt, Var, VarData};

use crate::extent::assumed_extent;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::stage::Axis;

/// Work (cost of an element times elements) below which threads are not worth waking.
pub const PARALLEL_WORK: i64 = 100_000;

/// A kernel under construction.
pub struct Nest<'a> {
    /// The function: variables and buffers are added to it.
    pub func: PrimFunc,
    /// For this CPU or GPU.
    pub target: &'a Target,
    /// Whether threads are worth waking for the parallel loops being written, where that is known
    /// only when the kernel runs.
    pub enough: Option<Expr>,
    /// Notes of the steps taken.
    pub steps: Vec<String>,
}

/// Bytes that a thread of a GPU loads or stores at once.
const GPU_VECTOR_BYTES: u32 = 16;

impl<'a> Nest<'a> {
    /// Nothing but `func`, for a target.
    pub fn new(func: PrimFunc, target: &'a Target) -> Nest<'a> {
        Nest { func, target, enough: None, steps: vec![] }
    }

    /// The CPU, in rules for CPUs.
    pub fn cpu(&self) -> &'a CpuTarget {
        match self.target {
            Target::Cpu(cpu) => cpu,
            Target::Gpu(gpu) => unreachable!("a rule for CPUs is asked for {}", gpu.name),
        }
    }

    /// Whether there are AMX tiles.
    pub fn has_amx_bf16(&self) -> bool {
        matches!(self.target, Target::Cpu(cpu) if cpu.has_amx_bf16())
    }

    /// Whether AMX tiles multiply 8-bit integers.
    pub fn has_amx_int8(&self) -> bool {
        matches!(self.target, Target::Cpu(cpu) if cpu.has_amx_int8())
    }

    /// Elements of `bytes` each in a vector register.
    pub fn lanes(&self, bytes: usize) -> i64 {
        let vector = match self.target {
            Target::Cpu(cpu) => cpu.vector_bytes,
            Target::Gpu(_) => GPU_VECTOR_BYTES,
        };
        (i64::from(vector) / bytes.max(1) as i64).max(1)
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
        let extents = || axes.iter().map(|a| assumed_extent(&a.extent));
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

/// The statement that `body` writes, with those of `buffers` that it uses allocated around it and
/// not for the function: each thread has its own.
pub fn in_scratch(
    nest: &mut Nest<'_>,
    buffers: Vec<Buffer>,
    body: impl FnOnce(&mut Nest<'_>) -> Stmt,
) -> Stmt {
    nest.func.allocs.extend(&buffers);
    let body = body(nest);
    let mut used = HashSet::new();
    body.visit(&mut |s| used.extend(s.written()));
    // Some may be in memory of their own by now.
    let own = |b: &Buffer| used.contains(b) && nest.func.allocs.contains(b);
    let own: Vec<Buffer> = buffers.into_iter().filter(own).collect();
    nest.func.allocs.retain(|b| !own.contains(b));
    own.into_iter().rev().fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
}
