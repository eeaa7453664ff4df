//! Stages that are no product: alone, or as a group that shares its outer loops (softmax and
//! normalisation run row by row, their intermediates one row long).

use std::collections::HashSet;

use reflex_tir::{Buffer, DType, Expr, ExprKind, Scope, Stmt, Var};

use super::contraction::Contraction;
use super::fuse::{cost, row_group};
use super::nest::{Nest, Parallel, UNKNOWN_EXTENT};
use super::stage::{Axis, Item, Stage, touched_outside};
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
    match row_group(&nest.func, eligible) {
        Some((count, depth)) => {
            let outside = touched_outside(all, at..at + count, around);
            (group(nest, &items[..count], depth, threads, &outside, decisions), count)
        }
        None => match &items[0] {
            Item::Stage(stage) => (single(nest, stage, threads, refused, decisions), 1),
            _ => (Stmt::nop(), 1),
        },
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
    let took = |rule, refused| decisions.push(Decision { stage: stage_name, rule, refused });
    let (tried, taken) = match stage.squeezed().init {
        None => ("map", map::map(nest, stage, threads).map(|stmt| ("map", stmt))),
        Some(_) => ("reduce", reduce::reduce(nest, stage, threads)),
    };
    match taken {
        Ok((rule, stmt)) => {
            took(rule, refused);
            stmt
        }
        Err(why) => {
            refused.push((tried, why));
            took("naive", refused);
            stage.naive()
        }
    }
}

/// One pass over the shared leading axes.
fn group(
    nest: &mut Nest<'_>,
    group: &[Item],
    depth: usize,
    threads: Parallel,
    outside: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    let mut stages: Vec<Stage> = group
        .iter()
        .filter_map(|i| match i {
            Item::Stage(s) => Some(s.clone()),
            _ => None,
        })
        .collect();
    let shared: Vec<Axis> = stages[0].spatial[..depth].to_vec();
    for stage in &mut stages {
        *stage = under(stage, &shared, depth);
    }
    let list = |names: Vec<&str>| names.join(", ");
    let members = list(stages.iter().map(|s| &s.name[..]).collect());
    let axes = list(shared.iter().map(|a| &nest.func.vars[a.var].name[..]).collect());
    nest.steps.push(format!("{members}: one after the other in one loop over ({axes})"));
    let mut locals = vec![];
    for n in 0..stages.len() {
        let buffer = stages[n].buffer;
        if nest.func.allocs.contains(&buffer) && !outside.contains(&buffer) {
            let name = stages[n].name.clone();
            if let Some(row) = row_buffer(nest, buffer, depth) {
                for stage in &mut stages {
                    *stage = with_row(stage, buffer, row, depth);
                }
                locals.push(row);
                nest.steps.push(format!("{name}: its row stays on the stack"));
            } else if let Some(out) = stored_over(nest, &stages, n) {
                for stage in &mut stages {
                    *stage = with_buffer(stage, buffer, out);
                }
                nest.steps.push(format!("{name}: its rows are kept where the last result goes"));
            }
        }
    }
    let mut work = 0;
    let mut parts = vec![];
    for stage in &stages {
        let axes = stage.spatial.iter().chain(&stage.reduce);
        let elements: i64 = axes.map(|a| a.extent.as_int().unwrap_or(UNKNOWN_EXTENT)).product();
        work += elements * (1 + cost(&stage.value) as i64);
        parts.push(single(nest, stage, Parallel::No, None, decisions));
    }
    let body = locals
        .iter()
        .fold(Stmt::Seq(parts), |body, row| Stmt::Allocate { buffer: *row, body: Box::new(body) });
    let parallel = match threads {
        Parallel::Yes => nest.parallel_for(&shared, work),
        Parallel::No => Parallel::No,
    };
    if parallel == Parallel::Yes {
        nest.steps.push(format!("{members}: threads share the loop"));
    }
    nest.outer(&shared, parallel, body)
}

/// The stage inside loops over `shared`, which replace its leading axes.
fn under(stage: &Stage, shared: &[Axis], depth: usize) -> Stage {
    let own: Vec<Var> = stage.spatial[..depth].iter().map(|a| a.var).collect();
    let mut stage =
        stage.substitute(&|v| own.iter().position(|o| *o == v).map(|n| Expr::from(shared[n].var)));
    stage.spatial.drain(..depth);
    stage
}

/// A stack buffer for one row of `buffer`, where rows have a known and modest size.
fn row_buffer(nest: &mut Nest<'_>, buffer: Buffer, depth: usize) -> Option<Buffer> {
    let data = nest.func.buffers[buffer].clone();
    let shape = data.shape[depth..].to_vec();
    let count = shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?))?;
    let small = count * data.dtype.itemsize() as i64 <= ROW_BYTES;
    let name = data.name.clone();
    let dtype: DType = data.dtype;
    small.then(|| nest.func.new_buffer(name, dtype, shape, Scope::Local))
}

/// The stage with accesses of `buffer` turned to its row.
fn with_row(stage: &Stage, buffer: Buffer, row: Buffer, depth: usize) -> Stage {
    fn walk(e: &Expr, buffer: Buffer, row: Buffer, depth: usize) -> Expr {
        let e = e.map_children(&mut |c| walk(c, buffer, row, depth));
        match e.kind() {
            ExprKind::Load { buffer: b, indices, dtype } if *b == buffer => {
                Expr::load(row, indices[depth..].to_vec(), *dtype)
            }
            _ => e,
        }
    }
    let mut stage = stage.clone();
    stage.value = walk(&stage.value, buffer, row, depth);
    if stage.buffer == buffer {
        stage.buffer = row;
        stage.indices.drain(..depth);
    }
    stage
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

fn with_buffer(stage: &Stage, from: Buffer, to: Buffer) -> Stage {
    fn walk(e: &Expr, from: Buffer, to: Buffer) -> Expr {
        let e = e.map_children(&mut |c| walk(c, from, to));
        match e.kind() {
            ExprKind::Load { buffer, indices, dtype } if *buffer == from => {
                Expr::load(to, indices.clone(), *dtype)
            }
            _ => e,
        }
    }
    let mut stage = stage.clone();
    stage.value = walk(&stage.value, from, to);
    if stage.buffer == from {
        stage.buffer = to;
    }
    stage
}
