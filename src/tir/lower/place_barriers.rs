//! Barriers between phases that depend on each other (TVM's `ThreadStorageSync`).
//!
//! ```text
//! for t in threadIdx.x { s[t] = x[t] }          for t in threadIdx.x { s[t] = x[t] }
//!                                               barrier
//! for t in threadIdx.x { y[t] = s[n - 1 - t] }  for t in threadIdx.x { y[t] = s[n - 1 - t] }
//! ```
//!
//! A phase is a nest of loops over threads, without the nests in it that bind an axis again. Its own
//! iterations are independent: `bind` has seen to that. Between two phases, between iterations of a
//! loop around them, and in the branches of a condition around them, a barrier is placed where one writes what the other touches, unless the
//! elements are those of the same thread by their indices.

use std::collections::BTreeSet;

use super::lower_blocks::seq;
use crate::launch::{axis, is_private};
use crate::thread::{BarrierScope, ThreadAxis, ThreadLevel};
use crate::{Buffer, Expr, ExprKind, For, PrimFunc, Stmt, Var};

/// Places the barriers of every launch.
pub fn place_barriers(func: &PrimFunc) -> PrimFunc {
    let body = func.body.replace(&mut |s| {
        let level = axis(s).map(ThreadAxis::level)?;
        if level == ThreadLevel::Virtual {
            return None;
        }
        let mut pass = PlaceBarriers { func, phases: 0 };
        Some(pass.stmt(s, &Position::default(), &mut vec![]))
    });
    PrimFunc { body, ..func.clone() }
}

/// An access to memory that threads share.
#[derive(Clone, PartialEq)]
struct Access {
    buffer: Buffer,
    indices: Vec<Expr>,
    writes: bool,
    phase: usize,
    /// The loops over threads around it.
    threads: Vec<(ThreadAxis, Var)>,
}

/// The phase and the loops over threads that a statement is in.
#[derive(Clone, Default)]
struct Position {
    phase: usize,
    threads: Vec<(ThreadAxis, Var)>,
}

impl Position {
    /// Inside of a loop over threads: another phase where that binds an axis again, or the first
    /// axis.
    fn bind(&self, axis: ThreadAxis, l: &For, fresh: usize) -> Position {
        let again = self.threads.is_empty() || self.threads.iter().any(|(a, _)| *a == axis);
        let mut threads = self.threads.clone();
        threads.retain(|(a, _)| *a != axis);
        threads.push((axis, l.var));
        threads.sort();
        Position { phase: if again { fresh } else { self.phase }, threads }
    }
}

struct PlaceBarriers<'f> {
    func: &'f PrimFunc,
    phases: usize,
}

impl PlaceBarriers<'_> {
    /// `s` with its barriers. `pending` are the accesses since the last one.
    fn stmt(&mut self, s: &Stmt, at: &Position, pending: &mut Vec<Access>) -> Stmt {
        let all = self.accesses(s, at);
        let here = self.enter(s, at);
        let waits = matches!(s, Stmt::Barrier(_));
        if !waits && all.iter().all(|a| a.phase == here.phase) {
            // One phase, in all iterations of its loops.
            note(pending, all);
            return s.clone();
        }
        match s {
            Stmt::Barrier(BarrierScope::Block) => {
                pending.clear();
                s.clone()
            }
            Stmt::Seq(list) => {
                let mut parts = vec![];
                for s in list {
                    // The first conflict of a loop or a nest may lie deep inside of it.
                    let first = self.accesses(s, &here);
                    if conflicts(pending, &first) {
                        parts.push(Stmt::Barrier(BarrierScope::Block));
                        pending.clear();
                    }
                    parts.push(self.stmt(s, &here, pending));
                }
                seq(parts)
            }
            Stmt::For(l) if axis(s).is_none() && !varies(&here, s) => {
                let before = pending.clone();
                let phases = self.phases;
                self.stmt(&l.body, &here, pending);
                // What an iteration leaves meets the next one. Phases are others there, but for the
                // one that the loop is in: it is one thread's, or `bind` has looked at all of its
                // iterations.
                self.phases = phases;
                let later = |a: Access| match a.phase == here.phase {
                    true => a,
                    false => Access { phase: usize::MAX, ..a },
                };
                let carried = std::mem::replace(pending, before);
                note(pending, carried.into_iter().map(later));
                let first = self.accesses(&l.body, &here);
                let mut body = vec![];
                if !matches!(l.body, Stmt::Seq(_)) && conflicts(pending, &first) {
                    body.push(Stmt::Barrier(BarrierScope::Block));
                    pending.clear();
                }
                body.push(self.stmt(&l.body, &here, pending));
                Stmt::For(Box::new(l.with_body(seq(body))))
            }
            Stmt::For(l) if axis(s).is_some() => {
                let body = self.stmt(&l.body, &here, pending);
                Stmt::For(Box::new(l.with_body(body)))
            }
            // All threads take the same branch; what follows meets either.
            Stmt::If { cond, then, otherwise } if here.threads.is_empty() && !loads(cond) => {
                note(pending, self.own(s, &here));
                let mut other = pending.clone();
                let then = Box::new(self.stmt(then, &here, pending));
                let otherwise =
                    otherwise.as_ref().map(|s| Box::new(self.stmt(s, &here, &mut other)));
                note(pending, other);
                Stmt::If { cond: cond.clone(), then, otherwise }
            }
            Stmt::Let { .. } | Stmt::Allocate { .. } => {
                note(pending, self.own(s, &here));
                s.map_children(&mut |s| self.stmt(s, &here, pending))
            }
            _ => {
                note(pending, all);
                s.clone()
            }
        }
    }

    fn enter(&mut self, s: &Stmt, at: &Position) -> Position {
        match (s, axis(s)) {
            (Stmt::For(l), Some(axis)) if axis.level() == ThreadLevel::Thread => {
                let here = at.bind(axis, l, self.phases + 1);
                self.phases = self.phases.max(here.phase);
                here
            }
            _ => at.clone(),
        }
    }

    /// The accesses of a statement and of all below.
    fn accesses(&mut self, s: &Stmt, at: &Position) -> Vec<Access> {
        let phases = self.phases;
        let found = self.all(s, at);
        self.phases = phases;
        found
    }

    fn all(&mut self, s: &Stmt, at: &Position) -> Vec<Access> {
        let here = self.enter(s, at);
        let mut found = self.own(s, &here);
        for child in s.children() {
            found.extend(self.all(child, &here));
        }
        found
    }

    /// The accesses of a statement itself.
    fn own(&self, s: &Stmt, at: &Position) -> Vec<Access> {
        let mut found = vec![];
        let access = |buffer: Buffer, indices: &[Expr], writes| Access {
            buffer,
            indices: indices.to_vec(),
            writes,
            phase: at.phase,
            threads: at.threads.clone(),
        };
        for e in s.exprs() {
            e.visit(&mut |e| {
                if let ExprKind::Load { buffer, indices, .. } = e.kind()
                    && !is_private(self.func, *buffer)
                {
                    found.push(access(*buffer, indices, false));
                }
            });
        }
        if let Stmt::Store { buffer, indices, .. } = s
            && !is_private(self.func, *buffer)
        {
            found.push(access(*buffer, indices, true));
        }
        // Of its rows no more is known than that they are somewhere in the buffer.
        if let Stmt::Tile(tile) = s {
            for buffer in tile.buffers().into_iter().filter(|b| !is_private(self.func, *b)) {
                found.push(access(buffer, &[], buffer == tile.written()));
            }
        }
        found
    }
}

/// Adds accesses that are not there yet.
fn note(pending: &mut Vec<Access>, accesses: impl IntoIterator<Item = Access>) {
    for access in accesses {
        if !pending.contains(&access) {
            pending.push(access);
        }
    }
}

/// Whether some access of `first` has to wait for one that is pending.
fn conflicts(pending: &[Access], first: &[Access]) -> bool {
    pending.iter().any(|a| {
        first.iter().any(|b| {
            let meet = a.buffer == b.buffer && (a.writes || b.writes);
            meet && a.phase != b.phase && !same_thread(a, b)
        })
    })
}

/// Whether equal elements mean equal threads: both accesses have every loop over threads as an
/// index, in the same dimensions.
fn same_thread(a: &Access, b: &Access) -> bool {
    let axes = |x: &Access| x.threads.iter().map(|(axis, _)| *axis).collect::<BTreeSet<_>>();
    let at = |x: &Access, var: Var| x.indices.iter().position(|i| i.as_var() == Some(var));
    axes(a) == axes(b)
        && !a.threads.is_empty()
        && a.indices.len() == b.indices.len()
        && a.threads.iter().zip(&b.threads).all(|((_, x), (_, y))| {
            let (x, y) = (at(a, *x), at(b, *y));
            x.is_some() && x == y
        })
}

/// Whether an expression reads memory.
fn loads(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Load { .. }));
    found
}

/// Whether the bounds of a loop differ between threads.
fn varies(at: &Position, s: &Stmt) -> bool {
    let mut found = false;
    for e in s.exprs() {
        e.visit(&mut |e| found |= at.threads.iter().any(|(_, v)| e.as_var() == Some(*v)));
    }
    found
}
