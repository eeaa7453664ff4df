//! Independent loops side by side, each on a thread of its own: the directions of a recurrent layer.
//!
//! ```text
//! parallel for section in 0..2:
//!   if section < 1: for t: ..      forwards
//!   else:           for t: ..      backwards
//! ```
//! Steps in time come one after the other and are short: threads that shared each of them would wait for each other more
//! than they work. Two loops of which neither touches what the other one writes may run at the same time (sections, in
//! the words of OpenMP). Each core then reads the weights of one direction alone.
//!
//! Decision: docs/decisions/0115-parallel-sections.md

use std::collections::HashSet;

use reflex_tir::{Buffer, Expr, ExprKind, Stmt};

use crate::extent::assumed_extent;
use crate::schedule::core::decision::Decision;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::{Axis, Item, touched_outside};
use crate::schedule::emit::emit;

/// The nest of the loops from `at` on that are independent, and how many items it is.
pub fn parallel_sections(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    let mut loops: Vec<Section> = vec![];
    for item in &items[at..] {
        match Section::of(item).filter(|new| loops.iter().all(|old| old.is_independent(new))) {
            Some(new) => loops.push(new),
            None => break,
        }
    }
    let count = loops.len();
    if count < 2 {
        return None;
    }
    let Section { steps, work, .. } = loops.into_iter().min_by_key(|l| l.work)?;
    let axis = Axis { var: nest.var("section"), extent: Expr::i64(count as i64) };
    if nest.parallel_for(&[axis.clone(), steps], work) == Parallel::No {
        return None;
    }
    // The rules of the stages inside note what is enough for theirs.
    let enough = nest.enough.clone();
    let bodies: Vec<Stmt> = (at..at + count)
        .map(|n| {
            let outside = touched_outside(items, n..n + 1, around);
            emit(nest, &items[n..=n], &outside, Parallel::No, decisions)
        })
        .collect();
    nest.enough = enough;
    nest.steps.push(format!("{count} independent loops: a thread for each"));
    let chosen = bodies.into_iter().enumerate().rev().reduce(|(above, others), (n, body)| {
        let otherwise = Some(Box::new(others));
        let cond = Expr::from(axis.var).lt(above as i64);
        (n, Stmt::If { cond, then: Box::new(body), otherwise })
    });
    Some((nest.outer(&[axis], Parallel::Yes, chosen?.1), count))
}

/// A loop around stages.
struct Section {
    steps: Axis,
    /// Elements that a step computes, each as often as a sum adds to it.
    work: i64,
    reads: Vec<(Buffer, Vec<Expr>)>,
    writes: Vec<(Buffer, Vec<Expr>)>,
}

impl Section {
    fn of(item: &Item) -> Option<Section> {
        let Item::Loop { var, extent, items } = item else { return None };
        let steps = Axis { var: *var, extent: extent.clone() };
        let mut section = Section { steps, work: 0, reads: vec![], writes: vec![] };
        for item in items {
            let stage = item.stage()?;
            let axes = stage.spatial.iter().chain(&stage.reduce);
            let elements = axes.map(|a| assumed_extent(&a.extent)).fold(1, i64::saturating_mul);
            section.work = section.work.saturating_add(elements);
            section.writes.push((stage.buffer, stage.indices.clone()));
            for e in stage.init.iter().chain([&stage.value]) {
                e.visit(&mut |e| {
                    if let ExprKind::Load { buffer, indices, .. } = e.kind() {
                        section.reads.push((*buffer, indices.clone()));
                    }
                });
            }
        }
        Some(section)
    }

    /// Whether neither loop touches an element that the other one writes.
    fn is_independent(&self, other: &Section) -> bool {
        let one_way = |writer: &Section, other: &Section| {
            let mut touched = other.reads.iter().chain(&other.writes);
            touched.all(|touched| writer.writes.iter().all(|written| are_apart(written, touched)))
        };
        one_way(self, other) && one_way(other, self)
    }
}

/// Whether two accesses are of different buffers, or differ in an index that is constant.
fn are_apart((a, at): &(Buffer, Vec<Expr>), (b, other): &(Buffer, Vec<Expr>)) -> bool {
    let differ =
        |(x, y): (&Expr, &Expr)| x.as_int().is_some_and(|x| y.as_int().is_some_and(|y| x != y));
    a != b || at.len() == other.len() && at.iter().zip(other).any(differ)
}
