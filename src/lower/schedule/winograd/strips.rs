//! Fused Winograd convolutions, strip by strip of the feature map.
//!
//! ```text
//! for batch.., strip of tile rows:  threads share these
//!   padded feature map              its rows under the strip's tiles
//!   input tiles                     winograd transform
//!   multiplications                 gemm
//!   output tiles                    winograd transform, stored
//! ```
//! Intermediates stay in the cache of the core that made them. Each stage goes by its own rule, so
//! results are those of the stages one after the other. Rows of the padded feature map that two
//! strips share are computed for both.
//!
//! Decision: docs/decisions/0038-winograd-strips.md

use std::collections::HashSet;

use reflex_tir::{BinOp, Buffer, Expr, ExprKind, Scope, Stmt, Var};

use crate::extent::UNKNOWN_EXTENT;
use crate::schedule::core::affine::{coefficient, mentions, same};
use crate::schedule::core::contraction::Contraction;
use crate::schedule::core::decision::Decision;
use crate::schedule::core::epilogue::epilogue_of;
use crate::schedule::core::nest::{Nest, Parallel, in_scratch};
use crate::schedule::core::panels::{PanelStages, aligned, split_panels};
use crate::schedule::core::stage::{Axis, Item, Stage, loads_of, touched_outside};
use crate::schedule::emit::emit;
use crate::schedule::split_bf16::rule::{is_allowed, suits};
use crate::schedule::winograd::constant_matrix::is_constant_matrix_product;
use crate::schedule::winograd::transform::TransformKernel;

/// Fewest tiles of a strip: so often is a weight used once it is loaded.
const MIN_TILES: i64 = 12;

/// A whole feature map of more than so many second-level caches is not kept by the next cache, and strips that are at
/// most such a part of it are.
const WHOLE: i64 = 16;
const STRIPS: i64 = 16;

/// The number of tiles that is assumed where it is symbolic.
const UNKNOWN_TILES: i64 = UNKNOWN_EXTENT / 4;

/// The stages of a convolution, and the position of the axis that is divided into strips.
struct StripGroup<'a> {
    pad: Option<PaddedInput<'a>>,
    input: &'a Stage,
    products: &'a Stage,
    output: &'a Stage,
    epilogue: Option<&'a Stage>,
    /// Position of the rows of tiles among the indices of `input` and `products`.
    position: usize,
}

/// A padded feature map: row `t` of tiles reads its rows from `t * step`, `span` of them.
struct PaddedInput<'a> {
    stage: &'a Stage,
    position: usize,
    step: i64,
    span: i64,
}

/// A strip's buffer that replaces one of the whole feature map, and the position of its rows among
/// the indices.
struct StripBuffer {
    from: Buffer,
    to: Buffer,
    position: usize,
}

/// The nest of the Winograd convolution that begins at `at`, and the number of its items.
pub fn winograd_strips(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    let (strips, count) = StripGroup::of(nest, items, at, around)?;
    // Contractions on AMX tiles are not divided: split operands have no buffers of their own in
    // strips.
    if is_allowed(nest) && suits(nest, strips.products) {
        return None;
    }
    let height = strips.height(nest)?;
    let batch = &strips.input.spatial[0];
    let tile_rows = strips.axis().extent.clone();
    let strip = Axis { var: nest.var("strip"), extent: tile_rows.floordiv(height) };
    // Threads share the first loop, of symbolic ones: a batch is most often of one.
    let axes = [strip, batch.clone()];
    let names = [&strips.input.name[..], &strips.products.name, &strips.output.name].join(", ");
    let divided = strips.divided(nest, &axes, height)?;
    nest.steps.push(format!("{names}: in strips of {height} rows of tiles"));
    let body = divided.nest(nest, decisions);
    let last = [(strips.output, "winograd transform")].into_iter();
    let last = last.chain(strips.epilogue.map(|e| (e, "epilogue of winograd transform")));
    decisions.extend(last.map(|(stage, rule)| Decision {
        stage: stage.name.clone(),
        rule,
        refused: vec![],
    }));
    let work = strips.work(height);
    let parallel = nest.parallel_for(&axes, work);
    if parallel == Parallel::Yes {
        nest.steps.push(format!("{names}: threads share the strips"));
    }
    Some((nest.outer(&axes, parallel, body), count))
}

fn extent(e: &Expr) -> i64 {
    e.as_int().unwrap_or(UNKNOWN_TILES)
}

impl<'a> StripGroup<'a> {
    fn of(
        nest: &Nest<'_>,
        items: &'a [Item],
        at: usize,
        around: &HashSet<Buffer>,
    ) -> Option<(StripGroup<'a>, usize)> {
        let stage = |n: usize| items.get(n).and_then(Item::stage);
        let padded = stage(at).filter(|s| s.init.is_none());
        let first = at + usize::from(padded.is_some());
        let (input, products, output) = (stage(first)?, stage(first + 1)?, stage(first + 2)?);
        let tables =
            is_constant_matrix_product(&input.value) && is_constant_matrix_product(&output.value);
        if !tables || Contraction::of(&nest.func, &products.squeezed()).is_err() {
            return None;
        }
        let mut end = first + 3;
        let epilogue = match epilogue_of(&nest.func, items, end - 1, around) {
            Some(reader) if reader == end => {
                end += 1;
                Some(stage(reader)?)
            }
            Some(_) => return None,
            None => None,
        };
        let position = row_position(input, products, output)?;
        let pad = match padded {
            Some(stage) => Some(PaddedInput::of(stage, input, input.indices[position].as_var()?)?),
            None => None,
        };
        let outside = touched_outside(items, at..end, around);
        let private = |b: Buffer| nest.func.allocs.contains(&b) && !outside.contains(&b);
        let inner = padded.into_iter().chain([input, products]).map(|s| s.buffer);
        let strips = StripGroup { pad, input, products, output, epilogue, position };
        inner.into_iter().all(private).then_some((strips, end - at))
    }

    /// The axis of the rows of tiles.
    fn axis(&self) -> &Axis {
        let var = self.input.indices[self.position].as_var();
        let mut axes = self.input.spatial.iter();
        axes.find(|a| Some(a.var) == var).expect("the position is one of an axis")
    }

    /// Rows of tiles in a strip: so few that its buffers stay in the cache, enough for the weights
    /// to be worth loading for each strip. A symbolic number of rows is divided into single rows;
    /// they may be short, so weights have to be small. Where even the fewest rows are too many for the cache, they are
    /// taken if the whole feature map is many times as much: the next cache has them, and memory has not.
    fn height(&self, nest: &Nest<'_>) -> Option<i64> {
        let cache = nest.cpu().l2_bytes as i64;
        let beside = |stage: &Stage| {
            let shape = nest.func.buffers[stage.buffer].shape.iter().enumerate();
            let rest = shape.filter(|(n, _)| *n != 0 && *n != self.position);
            rest.map(|(_, e)| extent(e)).fold(4, i64::saturating_mul)
        };
        let row_bytes = beside(self.input).saturating_add(beside(self.products));
        let squeezed = self.products.squeezed();
        let mut rows = Contraction::of(&nest.func, &squeezed).ok()?.rows(&squeezed);
        rows.retain(|a| *a != self.products.spatial[0]);
        let all =
            |axes: &[Axis]| axes.iter().map(|a| extent(&a.extent)).fold(1, i64::saturating_mul);
        let results = all(&self.products.spatial[1..]) / all(&rows);
        let weights = results.saturating_mul(all(&self.products.reduce)).saturating_mul(4);
        let tile_rows = self.axis().extent.as_int();
        let tiles_known = rows.iter().all(|a| a.extent.as_int().is_some());
        let tiles = all(&rows) / tile_rows.unwrap_or(UNKNOWN_TILES);
        let bytes = |height: i64| row_bytes.saturating_mul(height);
        let is_worth = |height: &i64| {
            let most = match tiles_known {
                true => (cache / 2).max(2 * bytes(*height)),
                false => cache / 8,
            };
            tile_rows.is_none_or(|n| n % height == 0)
                && height * tiles >= MIN_TILES
                && weights <= most
        };
        let mut heights = (1..=tile_rows.map_or(1, |n| n / 2)).filter(is_worth);
        let fewest = heights.next()?;
        let is_much_less = tile_rows
            .is_some_and(|all| bytes(all) > WHOLE * cache && bytes(fewest) <= bytes(all) / STRIPS);
        (bytes(fewest) <= cache / 2 || is_much_less).then_some(fewest)
    }

    /// Multiply-adds of a strip.
    fn work(&self, height: i64) -> i64 {
        let stages = [self.input, self.products, self.output].into_iter();
        let row = self.axis().extent.clone();
        let work = |s: &Stage| {
            let axes = s.spatial[1..].iter().chain(&s.reduce).map(|a| extent(&a.extent));
            axes.fold(1, i64::saturating_mul) / extent(&row)
        };
        stages.map(work).fold(0, i64::saturating_add).saturating_mul(height)
    }

    /// The stages of one strip.
    fn divided(
        &self,
        nest: &mut Nest<'_>,
        [strip, batch]: &[Axis; 2],
        height: i64,
    ) -> Option<StripStages> {
        let first = Expr::from(strip.var) * height;
        let mut moved = vec![];
        let mut scratch = |nest: &mut Nest<'_>, from: Buffer, position: usize, rows: i64| {
            let mut data = nest.func.buffers[from].clone();
            (data.shape[0], data.shape[position]) = (Expr::i64(1), Expr::i64(rows));
            let to = nest.func.new_buffer(data.name, data.dtype, data.shape, Scope::Global);
            moved.push(StripBuffer { from, to, position });
        };
        if let Some(pad) = &self.pad {
            scratch(nest, pad.stage.buffer, pad.position, pad.rows(height));
        }
        scratch(nest, self.input.buffer, self.position, height);
        scratch(nest, self.products.buffer, self.position, height);

        let slice = |nest: &mut Nest<'_>, axis: Var, batches: &Axis| StripSlice {
            axis,
            row: nest.var("row"),
            origin: first.clone(),
            rows: height,
            batch_axis: batches.var,
            batch: batch.var,
        };
        let mut inner = vec![];
        if let Some(pad) = &self.pad {
            let axis = pad.stage.indices[pad.position].as_var()?;
            let slice = slice(nest, axis, &pad.stage.spatial[0]);
            let (origin, rows) = (first.clone() * pad.step, pad.rows(height));
            inner.push(Item::Stage(StripSlice { origin, rows, ..slice }.slice(pad.stage, &moved)));
        }
        for stage in [self.input, self.products] {
            let slice = slice(nest, stage.indices[self.position].as_var()?, &stage.spatial[0]);
            inner.push(Item::Stage(slice.slice(stage, &moved)));
        }
        let (stage, epilogue) = aligned(self.output, self.epilogue);
        let PanelStages { stage, epilogue, mut panels } =
            split_panels(nest, stage, epilogue).ok()?;
        let axis = loads_of(&stage.value, self.products.buffer)[0][self.position].as_var()?;
        let slice = slice(nest, axis, &self.output.spatial[0]);
        for panel in panels.iter_mut().filter(|p| p.panel == axis) {
            panel.extent = match panel.is_whole() {
                true => Expr::i64(height * panel.width),
                false => panel.extent.clone() - first.clone() * panel.width,
            };
            panel.panel = slice.row;
        }
        let output = slice.slice(&stage, &moved);
        let epilogue = epilogue.map(|e| slice.slice(&e, &moved));
        let output =
            TransformKernel::new(nest, PanelStages { stage: output, epilogue, panels }).ok()?;
        Some(StripStages { inner, output, scratch: moved.iter().map(|m| m.to).collect() })
    }
}

/// The stages of one strip, and their buffers.
struct StripStages {
    inner: Vec<Item>,
    output: TransformKernel,
    scratch: Vec<Buffer>,
}

impl StripStages {
    fn nest(self, nest: &mut Nest<'_>, decisions: &mut Vec<Decision>) -> Stmt {
        in_scratch(nest, self.scratch, |nest| {
            let inner = emit(nest, &self.inner, &HashSet::new(), Parallel::No, decisions);
            Stmt::Seq(vec![inner, self.output.nest(nest, Parallel::No)])
        })
    }
}

/// The first index behind the batch that is the same axis of `input` and `products`, and a tile's
/// row, or a row, of the results.
fn row_position(input: &Stage, products: &Stage, output: &Stage) -> Option<usize> {
    let [read] = &loads_of(&products.value, input.buffer)[..] else { return None };
    let [last] = &loads_of(&output.value, products.buffer)[..] else { return None };
    let axis = |stage: &Stage, e: &Expr| {
        let var = e.as_var()?;
        stage.spatial.iter().find(|a| a.var == var && a.extent.as_int() != Some(1)).map(|a| a.var)
    };
    let row = |e: &Expr| match e.kind() {
        ExprKind::Binary { op: BinOp::FloorDiv, a, b } if b.as_int().is_some() => axis(output, a),
        _ => axis(output, e),
    };
    let batch = |s: &Stage| s.indices[0].as_var() == s.spatial.first().map(|a| a.var);
    let batches = [input, products, output].into_iter().all(batch);
    (1..input.indices.len()).find(|n| {
        batches
            && axis(input, &input.indices[*n]).is_some()
            && axis(products, &products.indices[*n]).is_some()
            && read.get(*n) == products.indices.get(*n)
            && last.get(*n).and_then(row).is_some()
    })
}

impl<'a> PaddedInput<'a> {
    /// `stage` as the padded feature map that `input` reads by rows of tiles `row`.
    fn of(stage: &'a Stage, input: &Stage, row: Var) -> Option<PaddedInput<'a>> {
        let loads = loads_of(&input.value, stage.buffer);
        let [read] = &loads[..] else { return None };
        let mut of_row = (0..read.len()).filter(|n| mentions(&read[*n], row));
        let (Some(position), None) = (of_row.next(), of_row.next()) else { return None };
        let index = &read[position];
        let step = coefficient(index, row)?.as_int()?;
        let mut within = input.reduce.iter().filter(|k| mentions(index, k.var));
        let span = match (within.next(), within.next()) {
            (None, _) => 1,
            (Some(k), None) => {
                coefficient(index, k.var)?.as_int().filter(|c| *c == 1)?;
                k.extent.as_int()?
            }
            _ => return None,
        };
        let zero = |v: Var| (v == row || input.reduce.iter().any(|k| k.var == v)).then(|| 0.into());
        let from_start = same(&index.substitute(&zero), &Expr::i64(0));
        let batch = stage.indices[0].as_var() == stage.spatial.first().map(|a| a.var);
        let own = stage.indices[position].as_var()?;
        let known = stage.spatial.iter().any(|a| a.var == own);
        (from_start && batch && known && read[0].as_var() == Some(input.spatial[0].var))
            .then_some(PaddedInput { stage, position, step, span })
    }

    /// Rows under so many rows of tiles.
    fn rows(&self, tiles: i64) -> i64 {
        (tiles - 1) * self.step + self.span
    }
}

/// A stage's slice in a strip: `rows` of `axis` from `origin`, of one element of the batch.
struct StripSlice {
    axis: Var,
    row: Var,
    origin: Expr,
    rows: i64,
    /// The stage's own batch axis.
    batch_axis: Var,
    batch: Var,
}

impl StripSlice {
    fn slice(&self, stage: &Stage, moved: &[StripBuffer]) -> Stage {
        let to_row = |v: Var| (v == self.axis).then(|| Expr::from(self.row));
        let within = |n: usize, at: &[Expr]| {
            let mut at = at.to_vec();
            at[0] = Expr::i64(0);
            let row = &mut at[moved[n].position];
            *row = row.substitute(&to_row);
            at
        };
        let whole = |v: Var| match v {
            v if v == self.axis => Some(self.origin.clone() + self.row),
            v if v == self.batch_axis => Some(Expr::from(self.batch)),
            _ => None,
        };
        let axis = |a: &Axis| match a.var == self.axis {
            true => Axis { var: self.row, extent: Expr::i64(self.rows) },
            false => a.clone(),
        };
        let own = stage.spatial.iter().filter(|a| a.var != self.batch_axis);
        let buffers: Vec<(Buffer, Buffer)> = moved.iter().map(|m| (m.from, m.to)).collect();
        stage.slice(own.map(axis).collect(), &whole, &buffers, &within)
    }
}
