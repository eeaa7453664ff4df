//! Kernel launches of a GPU function: what runs on the host, what each block and each thread does.
//!
//! ```text
//! for k in range(..):                               host: loops, conditions, memory
//!     for b in thread_binding(.., "blockIdx.x"):    the launch: loops over blocks,
//!         s = alloc_shared(..)                      memory of a block,
//!         for t in thread_binding(.., "threadIdx.x"):   loops over threads,
//!             ...                                       what one thread does
//! ```
//!
//! Decision: docs/decisions/0050-gpu-schedules.md

use std::collections::HashSet;

use crate::thread::{ThreadAxis, ThreadLevel};
use crate::{Buffer, Expr, ExprKind, For, ForKind, PrimFunc, Scope, Stmt, Var};

/// A kernel launch.
#[derive(Clone, Debug)]
pub struct Launch<'f> {
    /// Loops over blocks, outermost first.
    pub blocks: Vec<&'f For>,
    /// Buffers in shared memory.
    pub shared: Vec<Buffer>,
    /// Loops over threads, outermost first.
    pub threads: Vec<&'f For>,
    /// The statement of one thread.
    pub body: &'f Stmt,
    /// Conditions of the host's under which it is launched.
    pub given: Vec<&'f Expr>,
}

impl<'f> Launch<'f> {
    /// The launch that a statement is, if it is a loop over blocks or threads.
    pub fn of(stmt: &'f Stmt) -> Option<Launch<'f>> {
        let level = |s: &Stmt| axis(s).map(ThreadAxis::level);
        if !matches!(level(stmt), Some(ThreadLevel::Block | ThreadLevel::Thread)) {
            return None;
        }
        let mut launch =
            Launch { blocks: vec![], shared: vec![], threads: vec![], body: stmt, given: vec![] };
        loop {
            match launch.body {
                Stmt::For(l) => match level(launch.body) {
                    Some(ThreadLevel::Block) if launch.shared.is_empty() => {
                        if !launch.threads.is_empty() {
                            return Some(launch);
                        }
                        launch.blocks.push(l);
                        launch.body = &l.body;
                    }
                    Some(ThreadLevel::Thread) => {
                        launch.threads.push(l);
                        launch.body = &l.body;
                    }
                    _ => return Some(launch),
                },
                Stmt::Allocate { buffer, body } if launch.threads.is_empty() => {
                    launch.shared.push(*buffer);
                    launch.body = body;
                }
                _ => return Some(launch),
            }
        }
    }

    /// The launches of a function, in program order.
    pub fn all(func: &'f PrimFunc) -> Vec<Launch<'f>> {
        fn walk<'f>(stmt: &'f Stmt, given: &mut Vec<&'f Expr>, found: &mut Vec<Launch<'f>>) {
            if let Some(launch) = Launch::of(stmt) {
                found.push(Launch { given: given.clone(), ..launch });
                return;
            }
            if let Stmt::If { cond, then, otherwise } = stmt {
                given.push(cond);
                walk(then, given, found);
                given.pop();
                otherwise.iter().for_each(|s| walk(s, given, found));
                return;
            }
            stmt.children().into_iter().for_each(|s| walk(s, given, found));
        }
        let mut found = vec![];
        walk(&func.body, &mut vec![], &mut found);
        found
    }

    /// The loop over threads of an axis.
    pub fn thread(&self, axis: ThreadAxis) -> Option<&'f For> {
        self.threads.iter().copied().find(|l| l.kind == ForKind::ThreadBinding(axis))
    }

    /// Threads of a block, where their number is known.
    pub fn threads_per_block(&self) -> Option<i64> {
        self.threads.iter().try_fold(1i64, |n, l| n.checked_mul(l.extent.as_int()?))
    }
}

/// The axis that a loop is bound to.
pub fn axis(stmt: &Stmt) -> Option<ThreadAxis> {
    match stmt {
        Stmt::For(l) => match l.kind {
            ForKind::ThreadBinding(axis) => Some(axis),
            _ => None,
        },
        _ => None,
    }
}

/// Whether threads wait for each other anywhere in a statement.
pub fn has_barrier(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |s| found |= matches!(s, Stmt::Barrier(_)));
    found
}

/// The variables that may differ between threads of a block, or between blocks.
#[derive(Clone, Debug, Default)]
pub struct Varying(HashSet<Var>);

impl Varying {
    /// Those of a launch's loops over threads.
    pub fn of(launch: &Launch<'_>) -> Varying {
        Varying::of_loops(launch.threads.iter().copied())
    }

    /// Those of loops, but for loops of one iteration.
    pub fn of_loops<'l>(loops: impl IntoIterator<Item = &'l For>) -> Varying {
        let many = loops.into_iter().filter(|l| l.extent.as_int() != Some(1));
        Varying(many.map(|l| l.var).collect())
    }

    /// Learns of the variable that a statement binds, if it differs between threads.
    pub fn enter(&mut self, func: &PrimFunc, stmt: &Stmt) {
        let var = match stmt {
            Stmt::For(l) => l.var,
            Stmt::Let { var, .. } => *var,
            _ => return,
        };
        if stmt.exprs().iter().any(|e| self.varies(func, e)) {
            self.0.insert(var);
        }
    }

    /// Whether the value of an expression may differ between threads. What a thread keeps for
    /// itself does.
    pub fn varies(&self, func: &PrimFunc, expr: &Expr) -> bool {
        let mut varies = false;
        expr.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => varies |= self.0.contains(var),
            ExprKind::Load { buffer, .. } => varies |= is_private(func, *buffer),
            _ => {}
        });
        varies
    }

    /// Whether threads may part ways at a statement: do it a different number of times, or not at
    /// all.
    pub fn parts(&self, func: &PrimFunc, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::For(_) | Stmt::If { .. } | Stmt::While { .. } => {
                stmt.exprs().iter().any(|e| self.varies(func, e))
            }
            _ => false,
        }
    }
}

/// Whether each thread has a buffer of its own.
pub fn is_private(func: &PrimFunc, buffer: Buffer) -> bool {
    matches!(func.buffers[buffer].scope, Scope::Local | Scope::Tile)
}
