//! Convolutions of 3x3 windows by minimal filtering (Winograd): fewer multiplications, between
//! linear transforms of tiles.
//!
//! With `t = m + 2`, an output tile of `m` by `m` positions is `A (sum over c of (G w Gᵀ) ∘
//! (Bᵀ x B)) Aᵀ` of a `t` by `t` input tile `x`. `G w Gᵀ` is computed while weights are packed, in
//! float64; what remains are three stages: a transform of the input by tiles, one matrix product
//! for each of the `t * t` places in a tile, and a transform back. A table of constants is an
//! expression that selects by its indices; [`crate::policy`] unrolls it.
//!
//! Sums are taken in another order than in the plain convolution. The error, as a part of the sum
//! of absolute products, stays under `2^-20`, some four times that of a float32 sum in order (a
//! test measures both). What else differs: an infinity in the input reaches results of its tiles as
//! NaN, beyond those whose windows hold it, and results near the largest float may overflow.

use reflex_graph::{ConvAttrs, Literal, TensorType};
use reflex_tir::builder::Reducer;
use reflex_tir::{DType, Expr};

use super::conv::{add_bias, padded_by};
use super::{Cx, Packing, sum_of_products};

/// Window of the filter on each side.
const TAPS: usize = 3;

/// The matrices for tiles of `m` by `m` results, each by rows.
struct Tables {
    /// `[t, t]`
    input: &'static [&'static [f64]],
    /// `[t, 3]`
    weights: &'static [&'static [f64]],
    /// `[m, t]`
    output: &'static [&'static [f64]],
}

/// Interpolation at 0, 1, -1 and infinity.
const TWO: Tables = Tables {
    input: &[
        &[1.0, 0.0, -1.0, 0.0],
        &[0.0, 1.0, 1.0, 0.0],
        &[0.0, -1.0, 1.0, 0.0],
        &[0.0, -1.0, 0.0, 1.0],
    ],
    weights: &[&[1.0, 0.0, 0.0], &[0.5, 0.5, 0.5], &[0.5, -0.5, 0.5], &[0.0, 0.0, 1.0]],
    output: &[&[1.0, 1.0, 1.0, 0.0], &[0.0, 1.0, -1.0, 1.0]],
};

/// Interpolation at 0, 3/4, -3/4, 3/2, -3/2 and infinity: of the points that need no more digits
/// than these, those with the least error.
const FOUR: Tables = Tables {
    input: &[
        &[81.0 / 64.0, 0.0, -45.0 / 16.0, 0.0, 1.0, 0.0],
        &[0.0, -27.0 / 16.0, -9.0 / 4.0, 0.75, 1.0, 0.0],
        &[0.0, 27.0 / 16.0, -9.0 / 4.0, -0.75, 1.0, 0.0],
        &[0.0, -27.0 / 32.0, -9.0 / 16.0, 1.5, 1.0, 0.0],
        &[0.0, 27.0 / 32.0, -9.0 / 16.0, -1.5, 1.0, 0.0],
        &[0.0, 81.0 / 64.0, 0.0, -45.0 / 16.0, 0.0, 1.0],
    ],
    weights: &[
        &[64.0 / 81.0, 0.0, 0.0],
        &[-128.0 / 243.0, -32.0 / 81.0, -8.0 / 27.0],
        &[-128.0 / 243.0, 32.0 / 81.0, -8.0 / 27.0],
        &[32.0 / 243.0, 16.0 / 81.0, 8.0 / 27.0],
        &[32.0 / 243.0, -16.0 / 81.0, 8.0 / 27.0],
        &[0.0, 0.0, 1.0],
    ],
    output: &[
        &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        &[0.0, 0.75, -0.75, 1.5, -1.5, 0.0],
        &[0.0, 9.0 / 16.0, 9.0 / 16.0, 9.0 / 4.0, 9.0 / 4.0, 0.0],
        &[0.0, 27.0 / 64.0, -27.0 / 64.0, 27.0 / 8.0, -27.0 / 8.0, 1.0],
    ],
};

fn tables(m: i64) -> &'static Tables {
    match m {
        2 => &TWO,
        _ => &FOUR,
    }
}

/// `table[row][column]`.
fn entry(table: &[&[f64]], row: &Expr, column: &Expr) -> Expr {
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
pub fn conv(cx: &mut Cx<'_>, attrs: &ConvAttrs, m: i64) {
    let TensorType { shape, .. } = cx.outs[0].clone();
    let (batch, channels) = (shape[0].clone(), shape[1].clone());
    let depth = cx.args[0].shape[1].clone();
    let tiles: Vec<Expr> = shape[2..].iter().map(|n| n.clone().ceildiv(m)).collect();
    let side = Expr::i64(m + TAPS as i64 - 1);
    let Tables { input, output, .. } = tables(m);
    let reducer = || Reducer { init: Expr::float(0.0, DType::F32), combine: &sum_of_products };
    // Whole tiles and what their windows reach past them.
    let reach = |d: usize| tiles[d].clone() * m + (TAPS as i64 - 1);
    let padded = padded_by(cx, &attrs.pads_begin, &[reach(0), reach(1)]);
    let places = [batch, side.clone(), side.clone(), tiles[0].clone(), tiles[1].clone()];
    let of = |channels: &Expr| [&places[..], std::slice::from_ref(channels)].concat();
    let window = [side.clone(), side.clone()];
    let transformed = cx.f.reduce_stage(
        "input_tiles",
        "v",
        DType::F32,
        of(&depth),
        &window,
        reducer(),
        |f, i, k| {
            let at = |d: usize| i[d + 3].clone() * m + k[d].clone();
            let x = f.at(padded, &[i[0].clone(), i[5].clone(), at(0), at(1)]);
            entry(input, &i[1], &k[0]) * entry(input, &i[2], &k[1]) * x
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
            let at = [i[1].clone() * side.clone() + i[2].clone(), i[5].clone(), k[0].clone()];
            let v = f.at(transformed, &[&i[..5], k].concat());
            weights(f, &at) * v
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
            let lane = |d: usize| i[d + 2].clone().floormod(m);
            let tile = |d: usize| i[d + 2].clone().floordiv(m);
            let at = [i[0].clone(), k[0].clone(), k[1].clone(), tile(0), tile(1), i[1].clone()];
            let tables = entry(output, &lane(0), &k[0]) * entry(output, &lane(1), &k[1]);
            tables * f.at(products, &at)
        },
    );
    add_bias(cx, sum, &<[Expr]>::to_vec);
}

/// `G w Gᵀ` of every window of `[n, k, 3, 3]`, as `[t * t, ceil(n / width), k, width]`.
pub fn pack(packing: &Packing, m: i64, value: &Literal) -> Option<Vec<u8>> {
    let [n, k, ..] = packing.shape[..] else { return None };
    let (n, k, width) = (n as usize, k as usize, packing.width as usize);
    let (panels, table) = (n.div_ceil(width), tables(m).weights);
    let side = table.len();
    let words = value.bytes().as_chunks::<4>().0;
    let mut out = vec![0u8; side * side * panels * k * width * 4];
    for (at, window) in words.chunks_exact(TAPS * TAPS).enumerate() {
        let (row, depth) = (at / k, at % k);
        let w = |i: usize, j: usize| f64::from(f32::from_le_bytes(window[i * TAPS + j]));
        for (a, left) in table.iter().enumerate() {
            let left: [f64; TAPS] =
                std::array::from_fn(|j| (0..TAPS).map(|i| left[i] * w(i, j)).sum());
            for (b, right) in table.iter().enumerate() {
                let sum: f64 = left.iter().zip(*right).map(|(l, g)| l * g).sum();
                let place = (a * side + b) * panels + row / width;
                let to = ((place * k + depth) * width + row % width) * 4;
                out[to..to + 4].copy_from_slice(&(sum as f32).to_le_bytes());
            }
        }
    }
    Some(out)
}
