//! Launches for a CPU: regions between barriers become loops over threads (POCL's parallel regions).
//!
//! ```text
//! for b in blockIdx.x:                         for b in parallel:
//!     for t in threadIdx.x:                        for t: a[t] = x[b, t]; s[t] = a[t]
//!         a = x[b, t]; s[t] = a
//!         barrier
//!         y[b, t] = a + s[n - 1 - t]               for t: y[b, t] = a[t] + s[n - 1 - t]
//! ```
//!
//! A thread's own buffer or variable that lives across a barrier becomes an array with an element for
//! each thread. Blocks are tasks of a parallel loop. The function must be one that [`verify_gpu`] finds
//! no fault in: all threads come to each barrier.
//!
//! [`verify_gpu`]: crate::verify::verify_gpu

use super::lower_blocks::seq;
use crate::launch::{Launch, Varying, has_barrier};
use crate::{Buffer, BufferData, Expr, For, ForKind, PrimFunc, Scope, Stmt, Var};

/// Runs the threads of every launch one after the other.
pub fn serialise_threads(func: &PrimFunc) -> PrimFunc {
    let mut func = func.clone();
    let body = func.body.clone();
    func.body = body.replace(&mut |s| Launch::of(s).map(|launch| serialise(&mut func, &launch)));
    func
}

fn serialise(func: &mut PrimFunc, launch: &Launch<'_>) -> Stmt {
    for buffer in &launch.shared {
        func.buffers[*buffer].scope = Scope::Global;
    }
    let varying = Varying::of(launch);
    let mut pass = Serialise { func, threads: &launch.threads };
    let body = pass.regions(launch.body, &varying);
    let allocate = |body, buffer: &Buffer| Stmt::Allocate { buffer: *buffer, body: Box::new(body) };
    let body = launch.shared.iter().rev().fold(body, allocate);
    let wide = launch.blocks.iter().position(|l| l.extent.as_int() != Some(1)).unwrap_or(0);
    launch.blocks.iter().enumerate().rev().fold(body, |body, (n, l)| {
        let kind = if n == wide { ForKind::Parallel } else { ForKind::Serial };
        Stmt::loop_of(kind, l.var, l.extent.clone(), body)
    })
}

struct Serialise<'a> {
    func: &'a mut PrimFunc,
    threads: &'a [&'a For],
}

impl Serialise<'_> {
    /// A statement of every thread.
    fn regions(&mut self, s: &Stmt, varying: &Varying) -> Stmt {
        if !has_barrier(s) {
            return self.region(s);
        }
        let mut inside = varying.clone();
        inside.enter(self.func, s);
        match s {
            Stmt::Barrier(_) => Stmt::nop(),
            Stmt::Seq(list) => {
                let runs = list.chunk_by(|a, b| !has_barrier(a) && !has_barrier(b));
                seq(runs.map(|run| self.regions(&seq(run.to_vec()), &inside)).collect())
            }
            Stmt::Let { var, value, body } if varying.varies(self.func, value) => {
                let data = &self.func.vars[*var];
                let (name, dtype) = (data.name.to_string(), data.dtype);
                let kept = self.func.new_buffer(name, dtype, vec![], Scope::Local);
                let load = self.func.load(kept, vec![]);
                let body = body.substitute(&|v| (v == *var).then(|| load.clone()));
                let store = Stmt::store(kept, vec![], value.clone());
                let body = Box::new(Stmt::Seq(vec![store, body]));
                self.regions(&Stmt::Allocate { buffer: kept, body }, varying)
            }
            Stmt::Allocate { buffer, body } => {
                let each = self.for_each_thread(*buffer);
                let body = self.with_threads(body, *buffer, each);
                let body = Box::new(self.regions(&body, &inside));
                Stmt::Allocate { buffer: each, body }
            }
            _ => {
                // Alike for all threads, where a variable of one value may still be named.
                let only = |v: Var| self.threads.iter().any(|l| l.var == v);
                let zero = |e: &Expr| e.substitute(&|v| only(v).then(|| Expr::i64(0)));
                let head = shallow(s, &mut |e| zero(e));
                head.map_children(&mut |s| self.regions(s, &inside))
            }
        }
    }

    /// A statement without barriers: loops over threads around it.
    fn region(&self, s: &Stmt) -> Stmt {
        if matches!(s, Stmt::Seq(list) if list.is_empty()) {
            return Stmt::nop();
        }
        self.threads
            .iter()
            .rev()
            .fold(s.clone(), |body, l| Stmt::serial(l.var, l.extent.clone(), body))
    }

    /// A buffer with what `buffer` holds, for each thread.
    fn for_each_thread(&mut self, buffer: Buffer) -> Buffer {
        let BufferData { name, dtype, shape, .. } = self.func.buffers[buffer].clone();
        let threads = self.threads.iter().map(|l| l.extent.clone());
        let shape = threads.chain(shape).collect();
        self.func.new_buffer(name, dtype, shape, Scope::Global)
    }

    /// `s` with the accesses of a thread's buffer as those of its part of `to`.
    fn with_threads(&self, s: &Stmt, from: Buffer, to: Buffer) -> Stmt {
        let shape = self.func.buffers[from].shape.clone();
        let threads: Vec<(Expr, Expr)> =
            self.threads.iter().map(|l| (l.var.into(), l.extent.clone())).collect();
        s.map_accesses(from, to, &|at| {
            let own = threads.iter().map(|(at, _)| at.clone());
            if at.len() == shape.len() {
                return own.chain(at.iter().cloned()).collect();
            }
            // By position: that of the thread's part, and that in it.
            let thread = threads
                .iter()
                .fold(Expr::i64(0), |n, (at, extent)| n * extent.clone() + at.clone());
            let size = shape.iter().fold(Expr::i64(1), |n, extent| n * extent.clone());
            vec![thread * size + at[0].clone()]
        })
    }
}

/// `s` with `f` applied to its own expressions.
fn shallow(s: &Stmt, f: &mut dyn FnMut(&Expr) -> Expr) -> Stmt {
    match s {
        Stmt::For(l) => {
            let (min, extent) = (f(&l.min), f(&l.extent));
            // Lanes do not wait for each other.
            let kind = match l.kind {
                ForKind::Vectorized => ForKind::Serial,
                _ => l.kind.clone(),
            };
            Stmt::For(Box::new(For { min, extent, kind, ..l.with_body(l.body.clone()) }))
        }
        Stmt::If { cond, then, otherwise } => {
            Stmt::If { cond: f(cond), then: then.clone(), otherwise: otherwise.clone() }
        }
        Stmt::While { cond, body } => Stmt::While { cond: f(cond), body: body.clone() },
        Stmt::Let { var, value, body } => {
            Stmt::Let { var: *var, value: f(value), body: body.clone() }
        }
        _ => s.clone(),
    }
}
