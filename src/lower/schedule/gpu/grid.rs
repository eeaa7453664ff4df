//! Loops bound to blocks and threads.

use std::collections::HashMap;

use reflex_tir::arith::Analyzer;
use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::thread::{ThreadAxis, WARP};
use reflex_tir::{Buffer, Expr, ForKind, PrimFunc, Scope, Stmt, Var};

use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Axis;

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
    let [thread, block] = ["thread", "block"].map(|name| func.new_var(name));
    let body = bound(ThreadAxis::ThreadX, thread, Expr::i64(1), body);
    bound(ThreadAxis::BlockX, block, Expr::i64(1), body)
}

fn bound(axis: ThreadAxis, var: Var, extent: Expr, body: Stmt) -> Stmt {
    Stmt::loop_of(ForKind::ThreadBinding(axis), var, extent, body)
}

/// A row of blocks: what `body` makes of a block's number, with `shared` in its shared memory.
pub fn blocks<'n>(
    nest: &mut Nest<'n>,
    extent: Expr,
    shared: &[Buffer],
    body: impl FnOnce(&mut Nest<'n>, &Expr) -> Stmt,
) -> Stmt {
    let block = nest.var("bx");
    let body = with_shared(shared, body(nest, &block.into()));
    bound(ThreadAxis::BlockX, block, extent, body)
}

/// The same in clusters of as many blocks: what `body` makes of a cluster's number and of a block's number in its cluster.
pub fn cluster_blocks<'n>(
    nest: &mut Nest<'n>,
    (extent, cluster): (Expr, i64),
    shared: &[Buffer],
    body: impl FnOnce(&mut Nest<'n>, &Expr, &Expr) -> Stmt,
) -> Stmt {
    if cluster == 1 {
        return blocks(nest, extent, shared, |nest, block| body(nest, block, &Expr::i64(0)));
    }
    let [block, own] = ["bx", "cx"].map(|name| nest.var(name));
    let body = with_shared(shared, body(nest, &block.into(), &own.into()));
    let body = bound(ThreadAxis::ClusterX, own, cluster.into(), body);
    bound(ThreadAxis::BlockX, block, extent, body)
}

fn with_shared(shared: &[Buffer], body: Stmt) -> Stmt {
    let allocate = |body, buffer: &Buffer| Stmt::Allocate { buffer: *buffer, body: Box::new(body) };
    shared.iter().rev().fold(body, allocate)
}

/// A grid of tiles.
pub struct Grid<'a> {
    /// Axes that choose a matrix.
    pub batch: &'a [Axis],
    /// Rows of a matrix.
    pub rows: Expr,
    /// Its columns.
    pub columns: Expr,
    /// Rows and columns of a tile.
    pub tile: [i64; 2],
}

impl Grid<'_> {
    /// A block for each tile: what `body` makes of the tile's numbers along rows and columns, with
    /// `shared` in its shared memory.
    pub fn launch<'n>(
        &self,
        nest: &mut Nest<'n>,
        shared: &[Buffer],
        body: impl FnOnce(&mut Nest<'n>, &Expr, &Expr) -> Stmt,
    ) -> Stmt {
        let [z, y, x] = ["bz", "by", "bx"].map(|name| nest.var(name));
        let matrix = decoded(self.batch, &z.into());
        let body = body(nest, &y.into(), &x.into()).substitute(&|v| matrix.get(&v).cloned());
        let body = with_shared(shared, body);
        let tiles = |n: &Expr, tile: i64| Analyzer::new().simplify(&n.clone().ceildiv(tile));
        let [down, right] = self.tile;
        let body = bound(ThreadAxis::BlockX, x, tiles(&self.columns, right), body);
        let body = bound(ThreadAxis::BlockY, y, tiles(&self.rows, down), body);
        match self.batch.is_empty() {
            true => body,
            false => bound(ThreadAxis::BlockZ, z, count(self.batch), body),
        }
    }
}

/// Loops over the threads of a block, `rows` by `columns`.
pub fn threads<'n>(
    nest: &mut Nest<'n>,
    [rows, columns]: [i64; 2],
    body: &mut dyn FnMut(&mut Nest<'n>, Expr, Expr) -> Stmt,
) -> Stmt {
    let [y, x] = ["ty", "tx"].map(|name| nest.var(name));
    let body = body(nest, y.into(), x.into());
    let body = bound(ThreadAxis::ThreadX, x, columns.into(), body);
    bound(ThreadAxis::ThreadY, y, rows.into(), body)
}

/// The parts of a reduction in groups of steps, whose operands go through two buffers in turn.
pub struct DoubleBuffered<'a> {
    /// Loads a group's operands to registers.
    pub load: &'a dyn Fn(&mut Nest<'_>, Expr) -> Stmt,
    /// Adds the group that is in a buffer to the result.
    pub multiply: &'a dyn Fn(&mut Nest<'_>, usize, Expr) -> Stmt,
    /// Moves what was loaded to a buffer.
    pub fill: &'a dyn Fn(&mut Nest<'_>, usize) -> Stmt,
}

impl DoubleBuffered<'_> {
    /// The reduction: a group's operands are loaded while the one before is multiplied (software
    /// pipelining). An odd number of groups that is not known has one more, which is nothing.
    pub fn reduce(&self, nest: &mut Nest<'_>, groups: &Expr) -> Stmt {
        let DoubleBuffered { load, multiply, fill } = self;
        let odd = groups.as_int().is_some_and(|n| n % 2 == 1);
        let groups = groups.clone();
        let pairs = if odd { groups.clone().floordiv(2) } else { groups.clone().ceildiv(2) };
        let pairs = Analyzer::new().simplify(&pairs);
        let mut all = vec![load(nest, Expr::i64(0)), fill(nest, 0)];
        all.push(nest.repeat(ForKind::Serial, "k0", pairs, |nest, k0| {
            let half = |nest: &mut Nest<'_>, s: usize| {
                let group = k0.clone() * 2 + s as i64;
                let next = load(nest, group.clone() + 1);
                Stmt::Seq(vec![next, multiply(nest, s, group), fill(nest, 1 - s)])
            };
            Stmt::Seq(vec![half(nest, 0), half(nest, 1)])
        }));
        if odd {
            all.push(multiply(nest, 0, groups - 1));
        }
        Stmt::Seq(all)
    }
}

/// A statement under a condition, if that is not always so.
pub fn guarded(cond: Expr, then: Stmt) -> Stmt {
    let cond = Analyzer::new().simplify(&cond);
    match cond.as_int() {
        Some(1) => then,
        _ => Stmt::If { cond, then: Box::new(then), otherwise: None },
    }
}

/// Iterations of axes as one.
pub fn count(axes: &[Axis]) -> Expr {
    axes.iter().fold(Expr::i64(1), |n, axis| n * axis.extent.clone())
}

/// The position of axes as one, the last axis fastest.
pub fn encoded(axes: &[Axis]) -> Expr {
    axes.iter().fold(Expr::i64(0), |at, axis| at * axis.extent.clone() + axis.var)
}

/// The axes' variables at a position of them as one, the last axis fastest.
pub fn decoded(axes: &[Axis], at: &Expr) -> HashMap<Var, Expr> {
    let (mut places, mut rest) = (HashMap::new(), at.clone());
    for (n, axis) in axes.iter().enumerate().rev() {
        let here = if n == 0 { rest.clone() } else { rest.clone().floormod(axis.extent.clone()) };
        places.insert(axis.var, here);
        rest = rest.floordiv(axis.extent.clone());
    }
    places
}
