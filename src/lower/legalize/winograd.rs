//! Convolutions by minimal filtering (Winograd): fewer multiplications, between linear transforms
//! of tiles.
//!
//! With windows of `r` by `r` and `t = m + r - 1`, an output tile of `m` by `m` positions is
//! `A (sum over c of (G w Gᵀ) ∘ (Bᵀ x B)) Aᵀ` of a `t` by `t` input tile `x`; in a direction
//! without a window there is no tile and no transform. `G w Gᵀ` is computed while weights are
//! packed, in float64; what remains are three stages: a transform of the input by tiles, one matrix
//! product for each of the places in a tile, and a transform back. A table of constants is an
//! expression that selects by its indices; [`crate::policy`] unrolls it.
//!
//! Sums are taken in another order than in the plain convolution. The error, as a part of the sum
//! of absolute products, stays under `2^-20`, some four times that of a float32 sum in order (a
//! test measures both). What else differs: an infinity in the input reaches results of its tiles as
//! NaN, beyond those whose windows hold it, and results near the largest float may overflow.

use reflex_graph::{ConvAttrs, Literal, TensorType};
use reflex_tir::builder::Reducer;
use reflex_tir::{DType, Expr};
use reflex_vm::executable::AlignedBytes;

use super::conv::{add_bias, padded_by};
use super::{Cx, Packing, flatten, sum_of_products};

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

/// A convolution whose weights are packed as tiles of `m` results.
pub fn conv(cx: &mut Cx<'_>, attrs: &ConvAttrs, m: [i64; 2]) {
    let TensorType { shape, .. } = cx.outs[0].clone();
    let (batch, channels) = (shape[0].clone(), shape[1].clone());
    let depth = cx.args[0].shape[1].clone();
    let taps: Vec<i64> = cx.args[1].shape[2..].iter().filter_map(Expr::as_int).collect();
    let sides = sides(m, &taps);
    let tables = sides.map(Side::tables);
    let tiled: Vec<usize> = (0..2).filter(|d| sides[*d].len() > 1).collect();
    // The axis of a direction among those of a tile.
    let axis = |d: usize| tiled.iter().position(|t| *t == d);
    let tiles = [0, 1].map(|d| match axis(d) {
        Some(_) => shape[d + 2].clone().ceildiv(sides[d].m),
        None => shape[d + 2].clone(),
    });
    let window: Vec<Expr> = tiled.iter().map(|d| Expr::i64(sides[*d].len())).collect();
    let reducer = || Reducer { init: Expr::float(0.0, DType::F32), combine: &sum_of_products };
    // Whole tiles and what their windows reach past them.
    let reach = [0, 1].map(|d| tiles[d].clone() * sides[d].m + (sides[d].taps - 1));
    let padded = padded_by(cx, &attrs.pads_begin, &reach);
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
            let x = f.at(padded, &[i[0].clone(), i[first + 2].clone(), at(0), at(1)]);
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

/// `G w Gᵀ` of every window of `[n, k, h, w]`, as `[places, ceil(n / width), k, width]`.
pub fn pack(packing: &Packing, m: [i64; 2], value: &Literal) -> Option<AlignedBytes> {
    let [n, k, ref taps @ ..] = packing.shape[..] else { return None };
    let (n, k, width) = (n as usize, k as usize, packing.width as usize);
    let [high, wide] = sides(m, taps).map(|side| side.tables().weights);
    let (rows, columns) = (high[0].len(), wide[0].len());
    let panels = n.div_ceil(width);
    let words = value.bytes().as_chunks::<4>().0;
    let mut packed = AlignedBytes::zeroed(high.len() * wide.len() * panels * k * width * 4);
    let out = packed.as_mut();
    for (at, window) in words.chunks_exact(rows * columns).enumerate() {
        let (row, depth) = (at / k, at % k);
        let w = |i: usize, j: usize| f64::from(f32::from_le_bytes(window[i * columns + j]));
        for (a, left) in high.iter().enumerate() {
            let left: Vec<f64> =
                (0..columns).map(|j| (0..rows).map(|i| left[i] * w(i, j)).sum()).collect();
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
