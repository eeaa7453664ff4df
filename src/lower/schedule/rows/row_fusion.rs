//! Row-wise fusion: stages that are no contraction, alone or as a group that shares its outer loops
//! (softmax and normalisation run row by row, their intermediates one row long).

use std::collections::HashSet;

use reflex_tir::schedule::Schedule;
use reflex_tir::{Buffer, Expr, PrimFunc, Scope, Stmt};

use crate::extent::assumed_extent;
use crate::schedule::core::access::{contiguous, widest};
use crate::schedule::core::affine::same;
use crate::schedule::core::contraction::Contraction;
use crate::schedule::core::cost::cost;
use crate::schedule::core::decision::{Decision, Refusal};
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::primitives::{StageLoops, note_steps, parallelize, scheduled, vectors};
use crate::schedule::core::stage::{Axis, Item, Stage, loads_of, touched_outside};
use crate::schedule::rows::elementwise::elementwise;
use crate::schedule::rows::reduction::{ReductionLanes, merged_loops, reduce};

/// Longest row kept on the stack, bytes.
const MAX_ROW_BYTES: i64 = 32 << 10;

type Refused = (&'static str, Refusal);

/// The nest of the item at `at` and of those after it that fuse with it, and their number.
pub fn row_stages(
    nest: &mut Nest<'_>,
    all: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    threads: Parallel,
    refused: Option<Refused>,
    decisions: &mut Vec<Decision>,
) -> (Stmt, usize) {
    let items = &all[at..];
    let products = items.iter().position(|i| match i {
        Item::Stage(s) => Contraction::of(&nest.func, &s.squeezed()).is_ok(),
        _ => false,
    });
    let eligible = &items[..products.unwrap_or(items.len()).max(1)];
    if let Some((count, depth)) = row_group(&nest.func, eligible) {
        let outside = touched_outside(all, at..at + count, around);
        let group = RowGroup::of(nest, &items[..count], depth, &outside);
        if let Ok(stmt) = group.nest(nest, threads, decisions) {
            return (stmt, count);
        }
    }
    match &items[0] {
        Item::Stage(stage) => (single(nest, stage, threads, refused, decisions), 1),
        _ => (Stmt::nop(), 1),
    }
}

fn single(
    nest: &mut Nest<'_>,
    stage: &Stage,
    threads: Parallel,
    refused: Option<Refused>,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    let mut refused: Vec<Refused> = refused.into_iter().collect();
    let stage_name = stage.name.clone();
    let (tried, taken) = match stage.squeezed().init {
        None => {
            ("elementwise", elementwise(nest, stage, threads).map(|stmt| ("elementwise", stmt)))
        }
        Some(_) => ("reduction", reduce(nest, stage, threads, &mut refused)),
    };
    let (rule, stmt) = taken.unwrap_or_else(|why| {
        refused.push((tried, why));
        ("naive", stage.naive())
    });
    decisions.push(Decision { stage: stage_name, rule, refused });
    stmt
}

/// Stages that run row by row.
pub struct RowGroup {
    /// The stages, in order.
    pub stages: Vec<Stage>,
    /// Leading axes that all share, without those of extent 1.
    pub depth: usize,
    /// The stages whose results nothing else uses.
    pub private: Vec<bool>,
}

impl RowGroup {
    /// The group of stages that share their first `depth` axes; buffers that are `outside` stay.
    pub fn of(
        nest: &mut Nest<'_>,
        items: &[Item],
        depth: usize,
        outside: &HashSet<Buffer>,
    ) -> RowGroup {
        let members = items.iter().filter_map(|i| match i {
            Item::Stage(s) => Some(s.clone()),
            _ => None,
        });
        let mut stages: Vec<Stage> = members.collect();
        let private = |nest: &Nest<'_>, b| nest.func.allocs.contains(&b) && !outside.contains(&b);
        for n in 0..stages.len() {
            let (name, buffer) = (stages[n].name.clone(), stages[n].buffer);
            if private(nest, buffer)
                && !is_row(nest, buffer, depth)
                && let Some(out) = stored_over(nest, &stages, n)
            {
                stages = stages.iter().map(|s| with_buffer(s, buffer, out)).collect();
                nest.steps.push(format!("{name}: its rows are kept where the last result goes"));
            }
        }
        let rows = |s: &Stage| private(nest, s.buffer) && is_row(nest, s.buffer, depth);
        let private = stages.iter().map(rows).collect();
        let axes = &stages[0].spatial[..depth];
        let depth = axes.iter().filter(|a| a.extent.as_int() != Some(1)).count();
        let stages = stages.iter().map(Stage::squeezed).collect();
        RowGroup { stages, depth, private }
    }

    /// One pass over the shared axes; each stage inside by its own rule.
    fn nest(
        &self,
        nest: &mut Nest<'_>,
        threads: Parallel,
        decisions: &mut Vec<Decision>,
    ) -> Result<Stmt, Refusal> {
        let ways: Vec<StageRule> = self.stages.iter().map(|s| self.way(nest, s)).collect();
        let names = self.stages.iter().map(|s| &s.name[..]).collect::<Vec<_>>().join(", ");
        let mut decided = vec![];
        let stmt = scheduled(nest, &self.stages, |nest, s, parts| {
            for level in 0..self.depth {
                for part in &parts[1..] {
                    s.fuse_adjacent(parts[0].loops[level], part.loops[level])?;
                }
            }
            let shared = &parts[0].loops[..self.depth];
            for (part, _) in parts.iter().zip(&self.private).filter(|(_, private)| **private) {
                match shared.last() {
                    Some(row) => s.store_at(&part.block, *row, Scope::Local)?,
                    None => s.set_scope(&part.block, Scope::Local)?,
                }
            }
            if threads == Parallel::Yes {
                parallelize(nest, s, shared, shared, self.work())?;
            }
            note_steps(nest, s, 0, &names);
            for ((stage, part), way) in self.stages.iter().zip(parts).zip(ways) {
                let inner = StageLoops {
                    block: part.block.clone(),
                    loops: part.loops[self.depth..].to_vec(),
                    spatial: part.spatial - self.depth,
                };
                decided.push(way.apply(nest, s, stage, &inner));
            }
            Ok(())
        })?;
        decisions.append(&mut decided);
        Ok(stmt)
    }

    /// The rule of a stage inside of the shared loops.
    fn way(&self, nest: &mut Nest<'_>, stage: &Stage) -> StageRule {
        let mut inner = stage.clone();
        inner.spatial.drain(..self.depth);
        match inner.init {
            None => StageRule::Elementwise(nest.lanes(widest(&nest.func, &inner))),
            Some(_) => StageRule::Reduction(ReductionLanes::of(nest, &inner)),
        }
    }

    fn work(&self) -> i64 {
        let extent = |a: &Axis| assumed_extent(&a.extent);
        let work = |s: &Stage| {
            let axes = s.spatial[self.depth..].iter().chain(&s.reduce);
            axes.map(extent).fold(1 + cost(&s.value) as i64, i64::saturating_mul)
        };
        self.stages.iter().map(work).fold(0, i64::saturating_add)
    }
}

/// A rule for a stage inside of shared loops.
enum StageRule {
    /// Vectors of so many lanes.
    Elementwise(i64),
    Reduction(Result<Vec<ReductionLanes>, Refusal>),
}

impl StageRule {
    /// Schedules the stage; a stage that no rule takes stays as it is.
    fn apply(
        self,
        nest: &mut Nest<'_>,
        s: &mut Schedule,
        stage: &Stage,
        part: &StageLoops,
    ) -> Decision {
        let mut refused = vec![];
        let ways = match self {
            StageRule::Elementwise(lanes) => vec![("elementwise", Ok(lanes))],
            StageRule::Reduction(Ok(ways)) => {
                ways.into_iter().map(|way| (way.rule, Err(way))).collect()
            }
            StageRule::Reduction(Err(why)) => {
                refused.push(("reduction", why));
                vec![]
            }
        };
        for (rule, way) in ways {
            let (before, from) = (s.clone(), s.steps().len());
            let (loops, spatial) = merged_loops(s, part);
            let done = match way {
                Ok(_) if spatial == 0 => Ok(()),
                Ok(lanes) => vectors(s, loops[spatial - 1], lanes),
                Err(way) => way.apply(s, &part.block, &loops),
            };
            let name = &stage.name;
            match done {
                Ok(()) => {
                    note_steps(nest, s, from, name);
                    return Decision { stage: name.clone(), rule, refused };
                }
                Err(why) => {
                    nest.steps.push(format!("{name}: {why}"));
                    refused.push((rule, Refusal::Primitive(why.primitive)));
                    *s = before;
                }
            }
        }
        Decision { stage: stage.name.clone(), rule: "naive", refused }
    }
}

/// Whether one row of `buffer` has a known and modest size.
fn is_row(nest: &Nest<'_>, buffer: Buffer, depth: usize) -> bool {
    let data = &nest.func.buffers[buffer];
    let mut row = data.shape[depth..].iter();
    let count = row.try_fold(1i64, |n, e| n.checked_mul(e.as_int()?));
    count.is_some_and(|count| count * data.dtype.itemsize() as i64 <= MAX_ROW_BYTES)
}

/// The output that can hold the result of stage `n` meanwhile: only its writer reads that
/// result from then on, each element where it overwrites it.
fn stored_over(nest: &Nest<'_>, stages: &[Stage], n: usize) -> Option<Buffer> {
    let from = stages[n].buffer;
    let last = stages.iter().rposition(|s| s.reads(from))?;
    let writer = &stages[last];
    let (a, b) = (&nest.func.buffers[from], &nest.func.buffers[writer.buffer]);
    let alike = a.dtype == b.dtype && a.shape == b.shape && last > n;
    let unread = !stages.iter().any(|s| s.reads(writer.buffer));
    let in_place = writer.init.is_none()
        && loads_of(&writer.value, from).iter().all(|at| *at == writer.indices);
    let one_writer = stages.iter().filter(|s| s.buffer == writer.buffer).count() == 1;
    (alike && unread && in_place && one_writer && stages[n].indices.len() == writer.indices.len())
        .then_some(writer.buffer)
}

/// The stage with another buffer of the same kind instead of `from`.
fn with_buffer(stage: &Stage, from: Buffer, to: Buffer) -> Stage {
    let value =
        stage.value.replace_loads(from, &mut |at, dtype| Expr::load(to, at.to_vec(), dtype));
    let buffer = if stage.buffer == from { to } else { stage.buffer };
    Stage { value, buffer, ..stage.clone() }
}

/// The number of leading items that share an outer loop, and of the axes that they share: each
/// later item reads an earlier one's result only at its own leading index. An axis along which a
/// reduction is vectorised is not shared: one element at a time, the reduction would jump from row
/// to row.
pub fn row_group(func: &PrimFunc, items: &[Item]) -> Option<(usize, usize)> {
    let Item::Stage(first) = items.first()? else { return None };
    let mut depth = leading(first);
    let mut members: Vec<&Stage> = vec![first];
    for item in &items[1..] {
        let Item::Stage(stage) = item else { break };
        let Some(shared) = shared_depth(&members, stage, depth) else { break };
        depth = shared;
        members.push(stage);
    }
    let (count, reduces) = (members.len(), members.iter().any(|s| s.init.is_some()));
    for stage in members {
        let (spatial, reduced) = contiguous(func, &stage.squeezed());
        let vectors = stage.spatial.iter().rposition(|axis| axis.extent.as_int() != Some(1));
        // Windows that slide are contiguous both ways; along them there is little to vectorise.
        if stage.init.is_some() && spatial > 0 && spatial >= reduced {
            depth = depth.min(vectors.unwrap_or(depth));
        }
    }
    (count > 1 && reduces && depth > 0).then_some((count, depth))
}

/// Leading axes that are the leading indices of the store.
fn leading(stage: &Stage) -> usize {
    stage.spatial.iter().zip(&stage.indices).take_while(|(a, i)| i.as_var() == Some(a.var)).count()
}

fn shared_depth(members: &[&Stage], stage: &Stage, depth: usize) -> Option<usize> {
    let mut depth = depth.min(leading(stage));
    let extents = stage.spatial.iter().zip(&members[0].spatial);
    depth = depth.min(extents.take_while(|(a, b)| same(&a.extent, &b.extent)).count());
    let mut depends = false;
    for member in members {
        for indices in loads_of(&stage.value, member.buffer) {
            depends = true;
            let own = indices.iter().zip(&stage.spatial);
            depth = depth.min(own.take_while(|(i, a)| a.is_index(i)).count());
        }
        // Writing what an earlier member reads or writes would need the same care.
        if member.buffer == stage.buffer || member.reads(stage.buffer) {
            return None;
        }
    }
    (depends && depth > 0).then_some(depth)
}
