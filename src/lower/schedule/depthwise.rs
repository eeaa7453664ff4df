//! Depthwise convolutions, plane by plane.
//!
//! ```text
//! for block of channels, batch..:   threads share these
//!   padded plane                    elementwise, in scratch
//!   sums, stored                    gemm
//! ```
//! A block's padded plane is made by the core that reads it: it stays in that core's cache, and
//! threads synchronise once. Each stage goes by its own rule, so results are those of the stages
//! one after the other.
//!
//! Decision: docs/decisions/0031-depthwise-planes.md

use std::collections::HashSet;

use reflex_tir::{Buffer, Expr, Scope, Stmt, Var};

use crate::schedule::core::affine::same;
use crate::schedule::core::contraction::Contraction;
use crate::schedule::core::decision::Decision;
use crate::schedule::core::epilogue::epilogue_of;
use crate::schedule::core::nest::{Nest, Parallel, in_scratch};
use crate::schedule::core::panels::aligned;
use crate::schedule::core::stage::{Axis, Item, Stage, loads_of, touched_outside};
use crate::schedule::emit::emit;
use crate::schedule::gemm::kernel::Gemm;

/// Fewest blocks of channels: threads share them.
const MIN_BLOCKS: i64 = 4;

/// Axes outside of a plane: the batch, and the block of channels.
const OUTER: usize = 2;

/// The stages of a convolution.
struct PaddedDepthwise<'a> {
    pad: &'a Stage,
    product: &'a Stage,
    epilogue: Option<&'a Stage>,
}

/// The nest of the convolution that begins at `at` with its padding, and how many items it is.
pub fn padded_depthwise(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    let planes = PaddedDepthwise::of(nest, items, at, around)?;
    let (pad, product) = (planes.pad, planes.product);
    let names = format!("{}, {}", pad.name, product.name);
    let mut axes = product.spatial[..OUTER].to_vec();
    let data = nest.func.buffers[pad.buffer].clone();
    let shape = data.shape[OUTER..].to_vec();
    let scratch = nest.func.new_buffer(data.name, data.dtype, shape, Scope::Global);
    let padded = Item::Stage(planes.padded(scratch));
    let kernel = planes.kernel(nest, scratch)?;
    let (steps, mut refused) = (nest.steps.len(), false);
    let body = in_scratch(nest, vec![scratch], |nest| {
        let padded = emit(nest, &[padded], &HashSet::new(), Parallel::No, decisions);
        let sums = kernel.nest(nest, None, Parallel::No);
        refused = sums.is_err();
        Stmt::Seq([padded].into_iter().chain(sums).collect())
    });
    if refused {
        decisions.pop();
        nest.steps.truncate(steps);
        return None;
    }
    nest.steps.push(format!("{names}: plane by plane of a block of channels"));
    let rules = [(product, "gemm")].into_iter();
    for (stage, rule) in rules.chain(planes.epilogue.map(|e| (e, "epilogue of gemm"))) {
        decisions.push(Decision { stage: stage.name.clone(), rule, refused: vec![] });
    }
    let parallel = nest.parallel_for(&[&product.spatial[..], &product.reduce].concat(), 1);
    if parallel == Parallel::Yes {
        nest.steps.push(format!("{names}: threads share the planes"));
    }
    // Threads share the first loop: a batch is most often of one.
    axes.reverse();
    Some((nest.outer(&axes, parallel, body), 2 + usize::from(planes.epilogue.is_some())))
}

impl<'a> PaddedDepthwise<'a> {
    fn of(
        nest: &Nest<'_>,
        items: &'a [Item],
        at: usize,
        around: &HashSet<Buffer>,
    ) -> Option<PaddedDepthwise<'a>> {
        let stage = |n: usize| items.get(n).and_then(Item::stage);
        let (pad, product) = (stage(at)?, stage(at + 1)?);
        let each_alone = Contraction::of(&nest.func, &product.squeezed()).is_ok_and(|c| c.both);
        let in_planes = |s: &Stage| s.is_identity() && s.spatial.len() == OUTER + 3;
        let plain = pad.init.is_none() && in_planes(pad) && in_planes(product);
        if !each_alone
            || !plain
            || product.spatial[1].extent.as_int().is_none_or(|n| n < MIN_BLOCKS)
        {
            return None;
        }
        let epilogue = match epilogue_of(&nest.func, items, at + 1, around) {
            Some(reader) if reader == at + 2 => Some(stage(reader)?),
            Some(_) => return None,
            None => None,
        };
        let shared = |(a, b): (&Axis, &Axis)| same(&a.extent, &b.extent);
        let alike = pad.spatial.iter().zip(&product.spatial).take(OUTER).all(shared);
        let own_plane = |at: &Vec<Expr>| {
            at.iter().zip(&product.spatial).take(OUTER).all(|(i, a)| a.is_index(i))
        };
        let mut loads = loads_of(&product.value, pad.buffer).into_iter();
        let end = at + 2 + usize::from(epilogue.is_some());
        let elsewhere = epilogue.is_some_and(|e| e.reads(pad.buffer))
            || pad.reads(pad.buffer)
            || touched_outside(items, at..end, around).contains(&pad.buffer);
        let private = nest.func.allocs.contains(&pad.buffer) && !elsewhere;
        (alike && private && loads.len() > 0 && loads.all(|at| own_plane(&at)))
            .then_some(PaddedDepthwise { pad, product, epilogue })
    }

    /// The padding of one plane.
    fn padded(&self, scratch: Buffer) -> Stage {
        let axes = self.pad.spatial.iter().zip(&self.product.spatial).take(OUTER);
        let axes: Vec<(Var, Var)> = axes.map(|(own, shared)| (own.var, shared.var)).collect();
        let shared =
            |v: Var| axes.iter().find(|(own, _)| *own == v).map(|(_, shared)| Expr::from(*shared));
        let (inner, moved) = (self.pad.spatial[OUTER..].to_vec(), [(self.pad.buffer, scratch)]);
        self.pad.slice(inner, &shared, &moved, &|_, at| at[OUTER..].to_vec())
    }

    /// The sums of one plane.
    fn kernel(&self, nest: &mut Nest<'_>, scratch: Buffer) -> Option<Gemm> {
        let outer: Vec<Var> = self.product.spatial[..OUTER].iter().map(|a| a.var).collect();
        let plane = |stage: Stage| {
            let axes = stage.spatial.iter().filter(|a| !outer.contains(&a.var)).cloned().collect();
            let moved = [(self.pad.buffer, scratch)];
            stage.slice(axes, &|_| None, &moved, &|_, at| at[OUTER..].to_vec())
        };
        let (stage, epilogue) = aligned(self.product, self.epilogue);
        Gemm::of(nest, &plane(stage), epilogue.map(plane).as_ref()).ok()
    }
}
