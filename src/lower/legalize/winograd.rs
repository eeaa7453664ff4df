//! Convolutions by minimal filtering (Winograd): fewer multiplications, between linear transforms
//! of tiles.
//!
//! With windows of `r` by `r` and `t = m + r - 1`, an output tile of `m` by `m` positions is
//! `A (sum over c of (G w Gᵀ) ∘ (Bᵀ x B)) Aᵀ` of a `t` by `t` input tile `x`; in a direction
//! without a window there is no tile and no transform. `G w Gᵀ` is computed while weights are
//! packed, in float64; what remains are three stages: a transform of the input by tiles, one matrix
//! product for each of the places in a tile, and a transform back. A table of constants is an
//! expression that selects by its indices; [`crate::schedule`] unrolls it.
//!
//! Windows of stride 2 become windows of stride 1 by the four phases of the image, its rows and its
//! columns of even and of odd number, as channels of their own: `X[n, c, 2 y + p, 2 x + q]` times
//! `W[o, c, 2 i + p, 2 j + q]`, where a row or column that the window lacks is zero.
//!
//! Sums are taken in another order than in the plain convolution. The error, as a part of the sum
//! of absolute products, stays under `2^-20`, some four times that of a float32 sum in order (a
//! test measures both). What else differs: an infinity in the input reaches results of its tiles as
//! NaN, beyond those whose windows hold it, and results near the largest float may overflow.

use reflex_graph::{ConvAttrs, Literal, TensorType};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{Buffer, DType, Expr};
use reflex_vm::executable::AlignedBytes;

use super::conv::{add_bias, padded_by};
use super::{Cx, Packing, flatten, sum_of_products};

/// Phases of an image in each direction, where windows are of stride 2.
pub const STEP: i64 = 2;
/// Phases of an image.
const PHASES: i64 = STEP * STEP;

type Table = Vec<Vec<f64>>;

/// Tiles in one direction: `m` results of windows of `taps` elements.
#[derive(Clone, Copy)]
struct Side {
    m: i64,
    taps: i64,
}

/// The matrices of one direction, each by rows.
struct Tables {
    /// `Bᵀ`: `[t, t]`
    input: Table,
    /// `G`: `[t, r]`
    weights: Table,
    /// `A`: `[m, t]`
    output: Table,
}

impl Side {
    /// Elements of a tile of the input.
    fn len(self) -> i64 {
        self.m + self.taps - 1
    }

    /// Where polynomials are evaluated, beside infinity: of the points that need no more digits
    /// than these, those with the least error.
    fn points(self) -> &'static [f64] {
        match self.len() {
            1 => &[],
            4 => &[0.0, 1.0, -1.0],
            6 => &[0.0, 0.75, -0.75, 1.5, -1.5],
            _ => &[0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0],
        }
    }

    /// The matrices by the interpolation of Toom and Cook (Blahut, *Fast Algorithms for Signal
    /// Processing*, chapter 5), transposed. All of `Bᵀ` and `A` is exact.
    fn tables(self) -> Tables {
        let (points, length) = (self.points(), self.len() as usize);
        let powers = |p: f64, n: i64| (0..n).map(|e| p.powi(e as i32)).collect::<Vec<f64>>();
        let unit = |n: i64| (0..n).map(|e| f64::from(e + 1 == n)).collect::<Vec<f64>>();
        // The coefficients of the product of `x - q`, the constant first.
        let monic = |roots: &mut dyn Iterator<Item = f64>| {
            let mut of = vec![1.0];
            for q in roots {
                of.insert(0, 0.0);
                (0..of.len() - 1).for_each(|n| of[n] -= q * of[n + 1]);
            }
            of.resize(length, 0.0);
            of
        };
        let others = |p: f64| points.iter().copied().filter(move |q| *q != p);
        let (mut input, mut weights) = (vec![], vec![]);
        for p in points {
            let scale: f64 = others(*p).map(|q| p - q).product();
            input.push(monic(&mut others(*p)));
            weights.push(powers(*p, self.taps).iter().map(|v| v / scale).collect());
        }
        input.push(monic(&mut points.iter().copied()));
        weights.push(unit(self.taps));
        let columns: Table = points.iter().map(|p| powers(*p, self.m)).collect();
        let output = (0..self.m as usize).map(|row| {
            let last = f64::from(row as i64 + 1 == self.m);
            columns.iter().map(|column| column[row]).chain([last]).collect()
        });
        Tables { input, weights, output: output.collect() }
    }
}

/// Both directions of tiles of `m` results.
fn sides(m: [i64; 2], taps: &[i64]) -> [Side; 2] {
    std::array::from_fn(|d| Side { m: m[d], taps: taps[d] })
}

/// `table[row][column]`.
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

/// Elements of a window of `taps` that are in one of `step` phases; a phase may lack the last one.
pub fn phase_taps(taps: i64, step: i64) -> i64 {
    (taps + step - 1) / step
}

/// A convolution of stride `step`, which is 1 or [`STEP`], whose weights are packed as tiles of `m`
/// results.
pub fn conv(cx: &mut Cx<'_>, attrs: &ConvAttrs, m: [i64; 2], step: i64) {
    let taps = [2, 3].map(|d| cx.args[1].shape[d].as_int().expect("packed weights are known"));
    let sides = sides(m, &taps.map(|taps| phase_taps(taps, step)));
    let (depth, reach) = (cx.args[0].shape[1].clone(), reach(cx, sides));
    if step == 1 {
        let padded = padded_by(cx, &attrs.pads_begin, &reach);
        return by_tiles(cx, sides, depth, &|f, [n, c, y, x]| f.at(padded, &[n, c, y, x]));
    }
    let phases = phases(cx, attrs, &reach);
    by_tiles(cx, sides, depth * PHASES, &|f, [n, c, y, x]| f.at(phases, &[n, y, x, c]));
}

/// Tiles in one direction: places where there is no window.
fn tiles(cx: &Cx<'_>, sides: [Side; 2]) -> [Expr; 2] {
    let extent = |d: usize| cx.outs[0].shape[d + 2].clone();
    [0, 1].map(|d| if sides[d].len() > 1 { extent(d).ceildiv(sides[d].m) } else { extent(d) })
}

/// Whole tiles and what their windows reach past them.
fn reach(cx: &Cx<'_>, sides: [Side; 2]) -> [Expr; 2] {
    let tiles = tiles(cx, sides);
    [0, 1].map(|d| tiles[d].clone() * sides[d].m + (sides[d].taps - 1))
}

/// The padded image by phases, `[n, y, x, (c, row's phase, column's phase)]`: a vector holds all of
/// a place.
fn phases(cx: &mut Cx<'_>, attrs: &ConvAttrs, reach: &[Expr; 2]) -> Buffer {
    let x = cx.args[0].clone();
    let shape = [&x.shape[..1], reach, &[x.shape[1].clone() * PHASES]].concat();
    let read = cx.reader(0);
    cx.f.stage("phases", "phases", DType::F32, shape, |f, i| {
        let channel = &i[3];
        let phase = [channel.clone().floordiv(STEP).floormod(STEP), channel.clone().floormod(STEP)];
        let mut at = vec![i[0].clone(), channel.clone().floordiv(PHASES)];
        let mut inside = Expr::bool(true);
        for (d, phase) in phase.into_iter().enumerate() {
            let from = i[d + 1].clone() * STEP + phase - attrs.pads_begin[d];
            inside = inside.and(from.clone().ge(0)).and(from.clone().lt(x.shape[d + 2].clone()));
            at.push(from);
        }
        Expr::if_then_else(inside, read(f, &at), Expr::float(0.0, DType::F32))
    })
}

/// The three stages over an image of `depth` channels whose element `[n, c, y, x]` is `image`.
fn by_tiles(
    cx: &mut Cx<'_>,
    sides: [Side; 2],
    depth: Expr,
    image: &dyn Fn(&FuncBuilder, [Expr; 4]) -> Expr,
) {
    let TensorType { shape, .. } = cx.outs[0].clone();
    let (batch, channels) = (shape[0].clone(), shape[1].clone());
    let tables = sides.map(Side::tables);
    let tiled: Vec<usize> = (0..2).filter(|d| sides[*d].len() > 1).collect();
    // The axis of a direction among those of a tile.
    let axis = |d: usize| tiled.iter().position(|t| *t == d);
    let tiles = tiles(cx, sides);
    let window: Vec<Expr> = tiled.iter().map(|d| Expr::i64(sides[*d].len())).collect();
    let reducer = || Reducer { init: Expr::float(0.0, DType::F32), combine: &sum_of_products };
    let places = [&[batch], &window[..], &tiles].concat();
    let of = |channels: &Expr| [&places[..], std::slice::from_ref(channels)].concat();
    let first = 1 + window.len();
    let product = |entries: &mut dyn Iterator<Item = Expr>, last: Expr| {
        entries.reduce(|a, b| a * b).map_or(last.clone(), |table| table * last)
    };
    let transformed = cx.f.reduce_stage(
        "input_tiles",
        "v",
        DType::F32,
        of(&depth),
        &window,
        reducer(),
        |f, i, k| {
            let at = |d: usize| match axis(d) {
                Some(n) => i[first + d].clone() * sides[d].m + k[n].clone(),
                None => i[first + d].clone(),
            };
            let x = image(f, [i[0].clone(), i[first + 2].clone(), at(0), at(1)]);
            let entries = tiled.iter().enumerate();
            product(&mut entries.map(|(n, d)| entry(&tables[*d].input, &i[1 + n], &k[n])), x)
        },
    );
    let weights = cx.reader(1);
    let products = cx.f.reduce_stage(
        "products",
        "m",
        DType::F32,
        of(&channels),
        &[depth],
        reducer(),
        |f, i, k| {
            let place = flatten(&window, &i[1..first]);
            let v = f.at(transformed, &[&i[..first + 2], k].concat());
            weights(f, &[place, i[first + 2].clone(), k[0].clone()]) * v
        },
    );
    let sum = cx.f.reduce_stage(
        "output_tiles",
        "sum",
        DType::F32,
        shape,
        &window,
        reducer(),
        |f, i, k| {
            let tile = |d: usize| match axis(d) {
                Some(_) => i[d + 2].clone().floordiv(sides[d].m),
                None => i[d + 2].clone(),
            };
            let at = [&i[..1], k, &[tile(0), tile(1), i[1].clone()]].concat();
            let lane = |d: usize| i[d + 2].clone().floormod(sides[d].m);
            let entries = tiled.iter().enumerate();
            let mut entries = entries.map(|(n, d)| entry(&tables[*d].output, &lane(*d), &k[n]));
            product(&mut entries, f.at(products, &at))
        },
    );
    add_bias(cx, sum, &<[Expr]>::to_vec);
}

/// `G w Gᵀ` of every window of `[n, k, h, w]`, as `[places, ceil(n / width), k, width]`; by phases,
/// `k` counts them with the channels.
pub fn pack(packing: &Packing, m: [i64; 2], step: i64, value: &Literal) -> Option<AlignedBytes> {
    let [n, k, h, w] = packing.shape[..] else { return None };
    let taps = [h, w].map(|taps| phase_taps(taps, step));
    let [n, k, h, w, step] = [n, k * step * step, h, w, step].map(|v| v as usize);
    let width = packing.width as usize;
    let [high, wide] = sides(m, &taps).map(|side| side.tables().weights);
    let (rows, columns) = (high[0].len(), wide[0].len());
    let panels = n.div_ceil(width);
    let words = value.bytes().as_chunks::<4>().0;
    let mut packed = AlignedBytes::zeroed(high.len() * wide.len() * panels * k * width * 4);
    let out = packed.as_mut();
    for at in 0..n * k {
        let (row, depth) = (at / k, at % k);
        let (window, phase) = (at / (step * step), at % (step * step));
        let element = |i: usize, j: usize| {
            let (i, j) = (i * step + phase / step, j * step + phase % step);
            let inside = i < h && j < w;
            inside.then(|| f64::from(f32::from_le_bytes(words[(window * h + i) * w + j])))
        };
        let element = |i: usize, j: usize| element(i, j).unwrap_or(0.0);
        for (a, left) in high.iter().enumerate() {
            let left: Vec<f64> =
                (0..columns).map(|j| (0..rows).map(|i| left[i] * element(i, j)).sum()).collect();
            for (b, right) in wide.iter().enumerate() {
                let sum: f64 = left.iter().zip(right).map(|(l, g)| l * g).sum();
                let place = (a * wide.len() + b) * panels + row / width;
                let to = ((place * k + depth) * width + row % width) * 4;
                out[to..to + 4].copy_from_slice(&(sum as f32).to_le_bytes());
            }
        }
    }
    Some(packed)
}
