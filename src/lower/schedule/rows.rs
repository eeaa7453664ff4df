//! Stages that are no product: alone, or as a group that shares its outer loops (softmax and
//! normalisation run row by row, their intermediates one row long).

use std::collections::HashSet;

use reflex_tir::schedule::Schedule;
use reflex_tir::{Buffer, Expr, Scope, Stmt};

use super::contraction::Contraction;
use super::fuse::{cost, row_group};
use super::nest::{Nest, Parallel, likely, widest};
use super::reduce::{Lanes, merged_loops};
use super::stage::{Axis, Item, Stage, touched_outside};
use super::steps::{Part, note_steps, scheduled, share, vectors};
use super::{Decision, Refusal, map, reduce};

/// Longest row kept on the stack, bytes.
const ROW_BYTES: i64 = 32 << 10;

type Refused = (&'static str, Refusal);

/// The nest of the item at `at` and of those after it that go with it, and how many those are.
pub fn rows(
    nest: &mut Nest<'_>,
    (all, at): (&[Item], usize),
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
        let group = Group::of(nest, &items[..count], depth, &outside);
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
        None => ("map", map::map(nest, stage, threads).map(|stmt| ("map", stmt))),
        Some(_) => ("reduce", reduce::reduce(nest, stage, threads, &mut refused)),
    };
    let (rule, stmt) = taken.unwrap_or_else(|why| {
        refused.push((tried, why));
        ("naive", stage.naive())
    });
    decisions.push(Decision { stage: stage_name, rule, refused });
    stmt
}

/// Stages that run row by row.
struct Group {
    stages: Vec<Stage>,
    /// Leading axes that all share, without those of extent 1.
    depth: usize,
    /// The stages whose results nothing else uses.
    private: Vec<bool>,
}

impl Group {
    fn of(nest: &mut Nest<'_>, items: &[Item], depth: usize, outside: &HashSet<Buffer>) -> Group {
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
                stages = stages.iter().map(|s| with_buffer(s, (buffer, out))).collect();
                nest.steps.push(format!("{name}: its rows are kept where the last result goes"));
            }
        }
        let rows = |s: &Stage| private(nest, s.buffer) && is_row(nest, s.buffer, depth);
        let private = stages.iter().map(rows).collect();
        let axes = &stages[0].spatial[..depth];
        let depth = axes.iter().filter(|a| a.extent.as_int() != Some(1)).count();
        let stages = stages.iter().map(Stage::squeezed).collect();
        Group { stages, depth, private }
    }

    /// One pass over the shared axes; each stage inside by its own rule.
    fn nest(
        &self,
        nest: &mut Nest<'_>,
        threads: Parallel,
        decisions: &mut Vec<Decision>,
    ) -> Result<Stmt, Refusal> {
        let ways: Vec<Way> = self.stages.iter().map(|s| self.way(nest, s)).collect();
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
                share(nest, s, (shared, shared), self.work())?;
            }
            note_steps(nest, s, 0, &names);
            for ((stage, part), way) in self.stages.iter().zip(parts).zip(ways) {
                let inner = Part {
                    block: part.block.clone(),
                    loops: part.loops[self.depth..].to_vec(),
                    spatial: part.spatial - self.depth,
                };
                decided.push(way.apply(nest, s, (stage, &inner)));
            }
            Ok(())
        })?;
        decisions.append(&mut decided);
        Ok(stmt)
    }

    /// How a stage runs inside of the shared loops.
    fn way(&self, nest: &mut Nest<'_>, stage: &Stage) -> Way {
        let mut inner = stage.clone();
        inner.spatial.drain(..self.depth);
        match inner.init {
            None => Way::Map(nest.lanes(widest(&nest.func, &inner))),
            Some(_) => Way::Reduce(Lanes::of(nest, &inner)),
        }
    }

    fn work(&self) -> i64 {
        let extent = |a: &Axis| likely(&a.extent);
        let work = |s: &Stage| {
            let axes = s.spatial[self.depth..].iter().chain(&s.reduce);
            axes.map(extent).fold(1 + cost(&s.value) as i64, i64::saturating_mul)
        };
        self.stages.iter().map(work).fold(0, i64::saturating_add)
    }
}

/// A rule for a stage inside of shared loops.
enum Way {
    /// Vectors of so many lanes.
    Map(i64),
    Reduce(Result<Vec<Lanes>, Refusal>),
}

impl Way {
    /// Does it; a stage that no rule takes stays as it is.
    fn apply(
        self,
        nest: &mut Nest<'_>,
        s: &mut Schedule,
        (stage, part): (&Stage, &Part),
    ) -> Decision {
        let mut refused = vec![];
        let ways = match self {
            Way::Map(lanes) => vec![("map", Ok(lanes))],
            Way::Reduce(Ok(ways)) => ways.into_iter().map(|way| (way.rule, Err(way))).collect(),
            Way::Reduce(Err(why)) => {
                refused.push(("reduce", why));
                vec![]
            }
        };
        for (rule, way) in ways {
            let (before, from) = (s.clone(), s.steps().len());
            let (loops, spatial) = merged_loops(s, part);
            let done = match way {
                Ok(_) if spatial == 0 => Ok(()),
                Ok(lanes) => vectors(s, loops[spatial - 1], lanes),
                Err(way) => way.apply(s, (&part.block, &loops)),
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
    count.is_some_and(|count| count * data.dtype.itemsize() as i64 <= ROW_BYTES)
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
        && super::stage::loads_of(&writer.value, from).iter().all(|at| *at == writer.indices);
    let one_writer = stages.iter().filter(|s| s.buffer == writer.buffer).count() == 1;
    (alike && unread && in_place && one_writer && stages[n].indices.len() == writer.indices.len())
        .then_some(writer.buffer)
}

/// The stage with another buffer of the same kind in place of `from`.
fn with_buffer(stage: &Stage, (from, to): (Buffer, Buffer)) -> Stage {
    let value =
        stage.value.replace_loads(from, &mut |at, dtype| Expr::load(to, at.to_vec(), dtype));
    let buffer = if stage.buffer == from { to } else { stage.buffer };
    Stage { value, buffer, ..stage.clone() }
}
