//! Launches: blocks one after the other; the threads of a block from barrier to barrier, each to the
//! end of that region before the next one begins (POCL's parallel regions).
//!
//! Results of a correct kernel do not depend on the order of threads. What does is found: races,
//! barriers that some threads do not come to, memory that nothing has written.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;

use super::error::EvalErrorKind;
use super::memory::Memory;
use super::race::Races;
use super::scalar::Scalar;
use super::{Done, Evaluator};
use crate::launch::{Launch, has_barrier};
use crate::thread::{BarrierScope, ThreadAxis, WARP};
use crate::{Buffer, Expr, For, ForKind, Stmt, Var};

/// The order in which blocks, and the threads of a block between two barriers, run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadOrder {
    /// By number.
    Index,
    /// The last one first.
    Reverse,
    /// Shuffled by a seed.
    Seeded(u64),
}

impl ThreadOrder {
    /// Orders that differ in what comes first.
    pub const ALL: [ThreadOrder; 3] =
        [ThreadOrder::Index, ThreadOrder::Reverse, ThreadOrder::Seeded(0x9E37_79B9_7F4A_7C15)];

    fn of<T>(self, mut list: Vec<T>) -> Vec<T> {
        match self {
            ThreadOrder::Index => {}
            ThreadOrder::Reverse => list.reverse(),
            ThreadOrder::Seeded(seed) => shuffle(&mut list, seed | 1),
        }
        list
    }
}

/// Fisher and Yates, by a xorshift generator.
fn shuffle<T>(list: &mut [T], mut state: u64) {
    for last in (1..list.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        list.swap(last, (state % (last as u64 + 1)) as usize);
    }
}

impl<'f> Evaluator<'f> {
    pub(super) fn run_launch(&mut self, launch: &Launch<'f>, order: ThreadOrder) -> Done {
        let mut loops: Vec<&For> = launch.threads.clone();
        let number = |l: &&For| {
            let axis = |a: &ThreadAxis| l.kind == ForKind::ThreadBinding(*a);
            ThreadAxis::THREADS.iter().position(axis)
        };
        loops.sort_by_key(number);
        let (threads, blocks) = (self.points(&loops)?, self.points(&launch.blocks)?);
        let names = threads.iter().map(|at| format!("{at:?}")).collect();
        self.races = Some(Races::new(self.func, launch.body, names));
        for at in order.of(blocks) {
            self.bind_loops(&launch.blocks, &at);
            for buffer in &launch.shared {
                self.allocate(*buffer)?;
            }
            let races = self.races.as_mut().expect("set above");
            races.begin_block(format!("{at:?}"), &launch.shared);
            self.run_threads(launch, &loops, &threads, order)?;
            for buffer in &launch.shared {
                self.memory[*buffer] = None;
            }
        }
        self.races = None;
        launch.blocks.iter().for_each(|l| self.vars[l.var] = None);
        Ok(())
    }

    fn run_threads(
        &mut self,
        launch: &Launch<'f>,
        loops: &[&For],
        threads: &[Vec<i64>],
        order: ThreadOrder,
    ) -> Done {
        if !has_barrier(launch.body) {
            for t in order.of((0..threads.len()).collect()) {
                self.bind_loops(loops, &threads[t]);
                self.races.as_mut().expect("a launch runs").run(t);
                self.run(launch.body)?;
            }
            loops.iter().for_each(|l| self.vars[l.var] = None);
            return Ok(());
        }
        let thread = |at: &Vec<i64>| {
            let mut vars = self.vars.clone();
            loops.iter().zip(at).for_each(|(l, i)| vars[l.var] = Some(Scalar::Int(*i)));
            Thread { vars, private: BTreeMap::new() }
        };
        let threads: Vec<Thread> = threads.iter().map(thread).collect();
        let all: Vec<usize> = (0..threads.len()).collect();
        ThreadBlock { evaluator: self, threads, order }.run(launch.body, &all)
    }

    fn bind_loops(&mut self, loops: &[&For], at: &[i64]) {
        loops.iter().zip(at).for_each(|(l, i)| self.vars[l.var] = Some(Scalar::Int(*i)));
    }

    /// Values of the variables of nested loops, the innermost fastest.
    fn points(&self, loops: &[&For]) -> Result<Vec<Vec<i64>>, EvalErrorKind> {
        let mut points = vec![vec![]];
        for l in loops {
            let (min, extent) = (self.int(&l.min)?, self.int(&l.extent)?);
            let longer = |at: &Vec<i64>| {
                let values = min..min.saturating_add(extent);
                values.map(|i| [&at[..], &[i]].concat()).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(longer).collect();
        }
        Ok(points)
    }
}

/// The private state of one thread.
#[derive(Default)]
struct Thread {
    vars: SecondaryMap<Var, Option<Scalar>>,
    /// Buffers that live across a barrier.
    private: BTreeMap<Buffer, Option<Memory>>,
}

/// The threads of a block.
struct ThreadBlock<'m, 'f> {
    evaluator: &'m mut Evaluator<'f>,
    threads: Vec<Thread>,
    order: ThreadOrder,
}

impl<'f> ThreadBlock<'_, 'f> {
    /// Runs a statement in some of the threads, which come to its barriers together.
    fn run(&mut self, stmt: &'f Stmt, members: &[usize]) -> Done {
        if !has_barrier(stmt) {
            return self.region(&[stmt], members);
        }
        let many = members.iter().any(|t| t / WARP as usize != members[0] / WARP as usize);
        if many && !waits_for_block(stmt) {
            let warps = members.chunk_by(|a, b| a / WARP as usize == b / WARP as usize);
            return warps.into_iter().try_for_each(|warp| self.run(stmt, warp));
        }
        match stmt {
            Stmt::Barrier(scope) => {
                self.races().barrier(*scope, members);
                Ok(())
            }
            Stmt::Seq(list) => {
                let mut runs = list.chunk_by(|a, b| !has_barrier(a) && !has_barrier(b));
                runs.try_for_each(|run| match run {
                    [one] => self.run(one, members),
                    many => self.region(&many.iter().collect::<Vec<_>>(), members),
                })
            }
            Stmt::For(l) => self.run_for(stmt, l, members),
            Stmt::If { cond, then, otherwise } => {
                match (self.agreed(stmt, cond, members)? != 0, otherwise) {
                    (true, _) => self.run(then, members),
                    (false, Some(otherwise)) => self.run(otherwise, members),
                    (false, None) => Ok(()),
                }
            }
            Stmt::While { cond, body } => {
                while self.agreed(stmt, cond, members)? != 0 {
                    self.run(body, members)?;
                }
                Ok(())
            }
            Stmt::Let { var, value, body } => {
                for t in members {
                    let value = self.as_thread(*t, |m| m.at(stmt).eval(value))?;
                    self.threads[*t].vars[*var] = Some(value);
                }
                self.run(body, members)
            }
            Stmt::Allocate { buffer, body } => {
                for t in members {
                    let memory = self.as_thread(*t, |m| m.fresh(*buffer))?;
                    self.threads[*t].private.insert(*buffer, Some(memory));
                }
                self.run(body, members)?;
                members.iter().for_each(|t| drop(self.threads[*t].private.remove(buffer)));
                Ok(())
            }
            Stmt::Block(_) | Stmt::Store { .. } | Stmt::Tile(_) | Stmt::CallPacked(_) => {
                unreachable!("it holds no barrier")
            }
        }
    }

    fn run_for(&mut self, stmt: &'f Stmt, l: &'f For, members: &[usize]) -> Done {
        let (min, extent) =
            (self.agreed(stmt, &l.min, members)?, self.agreed(stmt, &l.extent, members)?);
        for i in min..min.saturating_add(extent) {
            for t in members {
                self.threads[*t].vars[l.var] = Some(Scalar::Int(i));
            }
            self.run(&l.body, members)?;
        }
        Ok(())
    }

    /// Statements without a barrier: each thread runs all of them.
    fn region(&mut self, list: &[&'f Stmt], members: &[usize]) -> Done {
        for t in self.order.of(members.to_vec()) {
            self.as_thread(t, |m| list.iter().try_for_each(|s| m.run(s)))?;
        }
        Ok(())
    }

    /// The value that `e` has in all of the threads, which decides whether they come to a barrier.
    fn agreed(
        &mut self,
        stmt: &'f Stmt,
        e: &'f Expr,
        members: &[usize],
    ) -> Result<i64, EvalErrorKind> {
        let mut first: Option<(usize, i64)> = None;
        for t in members {
            let value = self.as_thread(*t, |m| m.at(stmt).int(e))?;
            let (other, expected) = *first.get_or_insert((*t, value));
            if value != expected {
                let races = self.races();
                let (a, b) = (races.name(other), races.name(*t));
                let why = "what decides whether a barrier is reached";
                return Err(EvalErrorKind::Barrier(format!(
                    "{why} is {expected} for {a} and {value} for {b}"
                )));
            }
        }
        Ok(first.map_or(0, |(_, value)| value))
    }

    fn races(&mut self) -> &mut Races<'f> {
        self.evaluator.races.as_mut().expect("a launch runs")
    }

    fn as_thread<T>(
        &mut self,
        t: usize,
        f: impl FnOnce(&mut Evaluator<'f>) -> Result<T, EvalErrorKind>,
    ) -> Result<T, EvalErrorKind> {
        self.races().run(t);
        let mut thread = std::mem::take(&mut self.threads[t]);
        self.exchange(&mut thread);
        let result = f(self.evaluator);
        self.exchange(&mut thread);
        self.threads[t] = thread;
        result
    }

    fn exchange(&mut self, thread: &mut Thread) {
        std::mem::swap(&mut self.evaluator.vars, &mut thread.vars);
        for (buffer, memory) in &mut thread.private {
            std::mem::swap(&mut self.evaluator.memory[*buffer], memory);
        }
    }
}

/// Whether all threads of a block come to a barrier in a statement.
fn waits_for_block(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |s| found |= matches!(s, Stmt::Barrier(BarrierScope::Block)));
    found
}
