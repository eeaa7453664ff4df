//! Loops bound to blocks and threads.

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::thread::{ThreadAxis, WARP};
use reflex_tir::{Expr, ForKind, PrimFunc, Scope, Stmt, Var};

/// Threads of a block that have nothing to do with each other.
pub const THREADS: i64 = 256;

/// Makes a grid of nested loops whose iterations are independent: one thread for each iteration.
pub fn bind_grid(s: &mut Schedule, loops: &[Var]) -> Result<(), ScheduleError> {
    let all = s.fuse_all(loops)?;
    let threads = s.extent(all)?.map_or(THREADS, threads_for);
    s.bind_grid(all, threads).map(|_| ())
}

/// Keeps the result of the reduction that begins at loop `at` in a register until it is done.
pub fn accumulate(s: &mut Schedule, block: &str, at: Var) -> Result<(), ScheduleError> {
    s.cache_write_at(block, at, Scope::Local)?;
    s.decompose_reduction(block, at).map(|_| ())
}

/// Threads of a block for `count` iterations: whole warps, as few as that takes.
fn threads_for(count: i64) -> i64 {
    (count.max(1).saturating_add(WARP - 1) / WARP * WARP).min(THREADS)
}

/// A launch of one thread that runs `body`.
pub fn one_thread(func: &mut PrimFunc, body: Stmt) -> Stmt {
    [("thread", ThreadAxis::ThreadX), ("block", ThreadAxis::BlockX)].into_iter().fold(
        body,
        |body, (name, axis)| {
            let var = func.new_var(name);
            Stmt::loop_of(ForKind::ThreadBinding(axis), var, Expr::i64(1), body)
        },
    )
}
