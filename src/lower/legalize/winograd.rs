//! Convolutions by minimal filtering (Winograd): fewer multiplications, between linear transforms
//! of tiles.
//!
//! With kernels of `r` by `r` and `t = m + r - 1`, an output tile of `m` by `m` positions is `A
//! (sum over c of (G w Gᵀ) ∘ (Bᵀ x B)) Aᵀ` of a `t` by `t` input tile `x`; in a direction in which
//! the kernel has one element there is no tile and no transform. `G w Gᵀ` is computed while weights
//! are packed, in float64; what remains are three stages: a transform of the input tiles, one
//! matrix multiplication for each position in a tile, and a transform of the output tiles. A
//! constant matrix is an expression that selects by its indices; [`crate::schedule`] unrolls it.
//!
//! Kernels of stride 2 become kernels of stride 1 over the four phases of the feature map, its rows
//! and columns of even and of odd number, as channels of their own: `X[n, c, 2 y + p, 2 x + q]`
//! times `W[o, c, 2 i + p, 2 j + q]`, where a row or column that the kernel lacks is zero.
//!
//! Sums are taken in another order than in the plain convolution. The error, as a part of the sum
//! of absolute products, stays under `2^-20`, some four times that of a float32 sum in order (a
//! test measures both). Two more differences: an infinity in the input reaches all results of its
//! tiles as NaN, and results near the largest float may overflow.
//!
//! Decision: docs/decisions/0036-winograd.md
//! Decision: docs/decisions/0037-winograd-stride-2.md

use reflex_graph::ConvAttrs;
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{Buffer, DType, Expr};

use crate::layout::flatten;
use crate::legalize::builder::{OpBuilder, sum_of_products};
use crate::legalize::conv::{add_bias, padded_by};
use crate::winograd::{PHASE_STEP, PHASES, TileSide, TransformMatrices, WinogradTile, sides};

/// `matrix[row][column]`, as nested selects.
fn entry(table: &[Vec<f64>], row: &Expr, column: &Expr) -> Expr {
    let float = |v: &f64| Expr::float(*v, DType::F32);
    let chosen = |values: Vec<Expr>, by: &Expr| {
        let mut values = values.into_iter().enumerate().rev();
        let (_, last) = values.next().expect("tables are not empty");
        values.fold(last, |rest, (n, v)| Expr::select(by.clone().equal(n as i64), v, rest))
    };
    let rows = table.iter().map(|r| chosen(r.iter().map(float).collect(), column));
    chosen(rows.collect(), row)
}

/// A convolution whose weights are packed for `tile`.
pub fn conv(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs, tile: WinogradTile) {
    let kernel = [2, 3].map(|d| cx.args[1].shape[d].as_int().expect("packed weights are known"));
    let filtering = Filtering::new(cx, sides(tile, kernel));
    let (depth, reach) = (cx.args[0].shape[1].clone(), filtering.reach());
    if tile.step == 1 {
        let padded = padded_by(cx, &attrs.pads_begin, &reach);
        let element: Element<'_> = &|f, [n, c, y, x]| f.at(padded, &[n, c, y, x]);
        return filtering.write(cx, depth, element);
    }
    let phases = phases(cx, attrs, &reach);
    let element: Element<'_> = &|f, [n, c, y, x]| f.at(phases, &[n, y, x, c]);
    filtering.write(cx, depth * PHASES, element);
}

/// Element `[n, c, y, x]` of the feature map.
type Element<'a> = &'a dyn Fn(&FuncBuilder, [Expr; 4]) -> Expr;

/// The padded feature map by phases, `[n, y, x, (c, row's phase, column's phase)]`: a vector holds
/// all channels and phases of a position.
fn phases(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs, reach: &[Expr; 2]) -> Buffer {
    let x = cx.args[0].clone();
    let shape = [&x.shape[..1], reach, &[x.shape[1].clone() * PHASES]].concat();
    let read = cx.reader(0);
    cx.f.stage("phases", "phases", DType::F32, shape, |f, i| {
        let channel = &i[3];
        let phase = [
            channel.clone().floordiv(PHASE_STEP).floormod(PHASE_STEP),
            channel.clone().floormod(PHASE_STEP),
        ];
        let mut at = vec![i[0].clone(), channel.clone().floordiv(PHASES)];
        let mut inside = Expr::bool(true);
        for (d, phase) in phase.into_iter().enumerate() {
            let from = i[d + 1].clone() * PHASE_STEP + phase - attrs.pads_begin[d];
            inside = inside.and(from.clone().ge(0)).and(from.clone().lt(x.shape[d + 2].clone()));
            at.push(from);
        }
        Expr::if_then_else(inside, read(f, &at), Expr::float(0.0, DType::F32))
    })
}

/// The three stages of minimal filtering.
struct Filtering {
    sides: [TileSide; 2],
    matrices: [TransformMatrices; 2],
    /// Directions in which there are tiles.
    tiled: Vec<usize>,
    /// Tiles in each direction; positions where there is no tile.
    tiles: [Expr; 2],
    /// Elements of an input tile along each of `tiled`.
    window: Vec<Expr>,
    /// Shape of a stage between the transforms, without its channels: batch, `window`, `tiles`.
    shape: Vec<Expr>,
}

impl Filtering {
    fn new(cx: &OpBuilder<'_>, sides: [TileSide; 2]) -> Filtering {
        let extent = |d: usize| cx.outs[0].shape[d + 2].clone();
        let tiles = [0, 1]
            .map(|d| if sides[d].len() > 1 { extent(d).ceildiv(sides[d].m) } else { extent(d) });
        let tiled: Vec<usize> = (0..2).filter(|d| sides[*d].len() > 1).collect();
        let window: Vec<Expr> = tiled.iter().map(|d| Expr::i64(sides[*d].len())).collect();
        let shape = [&cx.outs[0].shape[..1], &window[..], &tiles].concat();
        Filtering { sides, matrices: sides.map(TileSide::matrices), tiled, tiles, window, shape }
    }

    /// Extents of whole tiles and of what their kernels reach past them.
    fn reach(&self) -> [Expr; 2] {
        [0, 1].map(|d| self.tiles[d].clone() * self.sides[d].m + (self.sides[d].taps - 1))
    }

    /// Number of the axis that a direction has among those of a tile.
    fn axis(&self, d: usize) -> Option<usize> {
        self.tiled.iter().position(|t| *t == d)
    }

    /// First axis of the tiles' positions.
    fn first(&self) -> usize {
        1 + self.window.len()
    }

    fn of_channels(&self, channels: &Expr) -> Vec<Expr> {
        [&self.shape[..], std::slice::from_ref(channels)].concat()
    }

    /// The stages over a feature map of `depth` channels.
    fn write(&self, cx: &mut OpBuilder<'_>, depth: Expr, element: Element<'_>) {
        let transformed = self.input_tiles(cx, &depth, element);
        let products = self.multiply(cx, depth, transformed);
        let sum = self.output_tiles(cx, products);
        add_bias(cx, sum, &<[Expr]>::to_vec);
    }

    /// `Bᵀ x B` of every tile.
    fn input_tiles(&self, cx: &mut OpBuilder<'_>, depth: &Expr, element: Element<'_>) -> Buffer {
        let (shape, first) = (self.of_channels(depth), self.first());
        let (dtype, window) = (DType::F32, &self.window[..]);
        cx.f.reduce_stage("input_tiles", "v", dtype, shape, window, sum(), |f, i, k| {
            let at = |d: usize| match self.axis(d) {
                Some(n) => i[first + d].clone() * self.sides[d].m + k[n].clone(),
                None => i[first + d].clone(),
            };
            let x = element(f, [i[0].clone(), i[first + 2].clone(), at(0), at(1)]);
            let entries = self.tiled.iter().enumerate();
            let entries = entries.map(|(n, d)| entry(&self.matrices[*d].input, &i[1 + n], &k[n]));
            times(entries, x)
        })
    }

    /// One matrix multiplication for each position in a tile.
    fn multiply(&self, cx: &mut OpBuilder<'_>, depth: Expr, transformed: Buffer) -> Buffer {
        let (shape, first) = (self.of_channels(&cx.outs[0].shape[1]), self.first());
        let weights = cx.reader(1);
        cx.f.reduce_stage("products", "m", DType::F32, shape, &[depth], sum(), |f, i, k| {
            let position = flatten(&self.window, &i[1..first]);
            let v = f.at(transformed, &[&i[..first + 2], k].concat());
            weights(f, &[position, i[first + 2].clone(), k[0].clone()]) * v
        })
    }

    /// `A m Aᵀ` of every tile, at the positions of the result.
    fn output_tiles(&self, cx: &mut OpBuilder<'_>, products: Buffer) -> Buffer {
        let (shape, window) = (cx.outs[0].shape.clone(), &self.window[..]);
        cx.f.reduce_stage("output_tiles", "sum", DType::F32, shape, window, sum(), |f, i, k| {
            let tile = |d: usize| match self.axis(d) {
                Some(_) => i[d + 2].clone().floordiv(self.sides[d].m),
                None => i[d + 2].clone(),
            };
            let at = [&i[..1], k, &[tile(0), tile(1), i[1].clone()]].concat();
            let lane = |d: usize| i[d + 2].clone().floormod(self.sides[d].m);
            let entries = self.tiled.iter().enumerate();
            let entries = entries.map(|(n, d)| entry(&self.matrices[*d].output, &lane(*d), &k[n]));
            times(entries, f.at(products, &at))
        })
    }
}

/// The sum of multiply-adds in float32.
fn sum() -> Reducer<'static> {
    Reducer { init: Expr::float(0.0, DType::F32), combine: &sum_of_products }
}

/// The product of matrix entries, times an element.
fn times(entries: impl Iterator<Item = Expr>, element: Expr) -> Expr {
    match entries.reduce(|a, b| a * b) {
        Some(entry) => entry * element,
        None => element,
    }
}
