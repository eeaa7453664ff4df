//! Constant weights stored the way kernels read them.
//!
//! A matrix `[k, n]` is packed as `[ceil(n / width), k, width]`: panels of `width` columns (the
//! last one filled up with zeros), so that a kernel reads whole vectors in order. A matrix that
//! comes as `[n, k]` is transposed on the way. Packing is a choice of layout only: the naive
//! kernel that reads the packed form computes the same sums in the same order.
//!
//! Where products are those of bfloat16 ([`Precision::Bf16`]), neighbours along `k` share a word:
//! `[ceil(n / width), ceil(k / 2), width]` of uint32. Neighbours of a convolution are input
//! channels: `k` counts pairs of channels, then the places in the window.

use std::sync::Arc;

use reflex_graph::{ConvAttrs, Literal, Op, TensorType};
use reflex_tir::{DType, Expr};
use reflex_vm::executable::AlignedBytes;

use super::winograd::{self, STEP, phase_taps};
use super::{flatten, pairs};
use crate::precision::Precision;
use crate::schedule::{LAYOUT_LANES, conv_rows, panel_width, phases_tile, winograd_tile};

/// Panels of so many bytes are worth a call of the system for the memory of their source.
const LARGE: usize = 64 << 10;

/// How a constant operand is stored for its kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Which operand.
    pub operand: usize,
    /// Columns per panel.
    pub width: i64,
    /// The operand's own extents.
    pub shape: Vec<i64>,
    /// The operand as batches of matrices.
    pub matrix: Matrix,
    /// What a panel is for.
    pub role: Role,
    /// Whether elements are rounded to bfloat16, and two along `k` are a uint32.
    pub pairs: bool,
}

/// The part that packed weights play in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Broadcast factors: a panel holds the rows of a tile.
    Rows,
    /// Vector factors: a panel holds the columns of a tile.
    Columns,
    /// Vector factors of a convolution, whose sums are stored with their channels last.
    Channels,
}

/// How a tensor is read as batches of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// `[..., k, n]`
    KByN,
    /// `[..., n, k]`
    NByK,
    /// `[n, k...]`: everything after the first axis is `k`.
    NByRest,
    /// `[n, k, h, w]`, whose windows of stride `step` become tiles.
    Tiles {
        /// Results of a tile on each side.
        results: [i64; 2],
        /// Phases of the image on each side.
        step: i64,
    },
}

/// The packings that `op` wants for those operands that are constant. Only float32 is packed.
pub fn packings(
    op: &Op,
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    precision: Precision,
) -> Vec<Packing> {
    let rounded = in_pairs(op, precision);
    let pack = |operand, matrix, width: &dyn Fn(i64) -> i64| {
        let packing = packing(operand, matrix, types, is_constant, width)?;
        Some(Packing { pairs: rounded, ..packing })
    };
    match op {
        Op::MatMul => pack(1, Matrix::KByN, &panel_width)
            .filter(|p| {
                p.shape.len() == 2 && p.shape[1] >= LAYOUT_LANES && !types[0].shape.is_empty()
            })
            .into_iter()
            .collect(),
        Op::Conv(attrs) if attrs.groups == 1 => {
            // With one position per image, the output channels are the columns.
            let one = |d: &Expr| d.as_int() == Some(1);
            let one_position = types[0].shape.iter().skip(2).all(one);
            let count = positions(attrs, types);
            let packed = match one_position {
                true => pack(1, Matrix::NByRest, &panel_width),
                false if channels_along(attrs, types, count) => {
                    pack(1, Matrix::NByRest, &panel_width)
                        .map(|p| Packing { role: Role::Channels, ..p })
                }
                false => pack(1, Matrix::NByRest, &|n| conv_rows(n, count))
                    .map(|p| Packing { role: Role::Rows, ..p }),
            };
            packed.into_iter().collect()
        }
        // Each group's output channels are a panel.
        Op::Conv(attrs) if rounded && pairs::suit_groups(attrs, &types[1]) => {
            pack(1, Matrix::NByRest, &|n| n / attrs.groups)
                .map(|p| Packing { role: Role::Rows, ..p })
                .into_iter()
                .collect()
        }
        Op::Rnn(_) => {
            [1, 2].into_iter().filter_map(|n| pack(n, Matrix::NByK, &panel_width)).collect()
        }
        _ => vec![],
    }
}

/// Whether the columns of a 1-D convolution are its channels: its windows begin so far apart that
/// its positions would be copied one by one, or these are so few (`count`) that they fill less than
/// a vector, and the channels more.
fn channels_along(attrs: &ConvAttrs, types: &[TensorType], count: Option<i64>) -> bool {
    let channels = types[1].shape[0].as_int().unwrap_or(0);
    let apart = |stride| stride > 8 || count.is_some_and(|n| n <= LAYOUT_LANES / 2);
    matches!(attrs.strides[..], [stride] if apart(stride)) && channels >= LAYOUT_LANES
}

/// Whether the products of `op` are those of bfloat16 pairs: of recurrent cells they are not.
fn in_pairs(op: &Op, precision: Precision) -> bool {
    matches!(op, Op::MatMul | Op::Conv(_)) && precision == Precision::Bf16
}

/// The packings of a convolution that computes its results in blocks of channels.
pub fn block_packings(
    op: &Op,
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    block: i64,
    precision: Precision,
) -> Vec<Packing> {
    let all = matches!(op, Op::Conv(attrs) if attrs.groups == 1);
    let pairs = all && in_pairs(op, precision);
    let packing = packing(1, Matrix::NByRest, types, is_constant, &|_| block);
    packing.map(|p| Packing { pairs, ..p }).into_iter().collect()
}

/// The packings of a convolution that computes its results in blocks of channels, where minimal
/// filtering is worth it and its image fills blocks too, or is taken by phases. It multiplies in
/// float32 in any precision: the transforms enlarge errors. `image` is the shape that this is
/// chosen by.
pub fn tile_packings(
    op: &Op,
    (image, types): (&[Expr], &[TensorType]),
    is_constant: &dyn Fn(usize) -> bool,
    (block, precision): (i64, Precision),
) -> Vec<Packing> {
    let Op::Conv(attrs) = op else { return vec![] };
    let (x, w) = (image, &types[1].shape);
    let in_blocks = types[0].shape[1].as_int().is_some_and(|c| c % block == 0);
    let of = |step| move |results| Matrix::Tiles { results, step };
    let tiles = winograd_tile(attrs, x, w, precision).filter(|_| in_blocks).map(of(1));
    let matrix = tiles.or_else(|| phases_tile(attrs, x, w, precision).map(of(STEP)));
    let packing = matrix.and_then(|m| packing(1, m, types, is_constant, &panel_width));
    packing.into_iter().collect()
}

fn packing(
    operand: usize,
    matrix: Matrix,
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    width: &dyn Fn(i64) -> i64,
) -> Option<Packing> {
    let ty = types.get(operand)?;
    let shape = ty.const_shape()?;
    if ty.dtype != DType::F32 || !is_constant(operand) || shape.contains(&0) {
        return None;
    }
    let (_, _, n) = matrix.extents(&shape)?;
    Some(Packing { operand, width: width(n), shape, matrix, role: Role::Columns, pairs: false })
}

/// Positions per image of a convolution's result, where known.
fn positions(attrs: &ConvAttrs, types: &[TensorType]) -> Option<i64> {
    let (x, w) = (types.first()?.const_shape()?, types.get(1)?.const_shape()?);
    let mut count = 1i64;
    for d in 0..attrs.strides.len() {
        let padded = x.get(d + 2)? + attrs.pads_begin.get(d)? + attrs.pads_end.get(d)?;
        let window = (w.get(d + 2)? - 1) * attrs.dilations.get(d)?;
        count = count.checked_mul((padded - window - 1).checked_div(attrs.strides[d])? + 1)?;
    }
    Some(count)
}

/// The packed form of a constant; `None` when it is not the tensor the packing is for.
pub fn pack(packing: &Packing, value: &Literal) -> Option<Literal> {
    if value.shape() != packing.shape {
        return None;
    }
    let shape: Option<Vec<i64>> = packing.packed_shape().iter().map(Expr::as_int).collect();
    if let Matrix::Tiles { results, step } = packing.matrix {
        let packed = winograd::pack(packing, results, step, value)?;
        return Literal::new(value.dtype(), shape?, Arc::new(packed));
    }
    if packing.pairs {
        let bytes = pairs::packed(packing, value)?;
        return Literal::new(DType::U32, shape?, Arc::new(bytes));
    }
    let (batch, k, n) = packing.matrix.extents(&packing.shape)?;
    let (batch, k, n, width) = (batch as usize, k as usize, n as usize, packing.width as usize);
    let size = value.dtype().itemsize();
    // A transposed matrix is read where it comes from.
    let rank = value.shape().len();
    let transposed = value.permutation().filter(|(_, perm)| {
        let rows_are_axis = packing.matrix != Matrix::NByRest || rank == 2;
        rows_are_axis && perm[rank - 2..] == [rank - 1, rank - 2] && perm[..rank - 2].is_sorted()
    });
    let by_rows = (packing.matrix == Matrix::KByN) != transposed.is_some();
    let (row_stride, col_stride) = if by_rows { (n, 1) } else { (1, k) };
    let source = transposed.map(|(source, _)| source);
    let source = source.as_ref().unwrap_or(value);
    let panels = n.div_ceil(width);
    let mut bytes = AlignedBytes::zeroed(batch * panels * k * width * size);
    for (outer, panel) in bytes.as_mut().chunks_exact_mut((k * width * size).max(1)).enumerate() {
        let (matrix, first) = (outer / panels * k * n, outer % panels * width);
        for (row, line) in panel.chunks_exact_mut(width * size).enumerate() {
            for (lane, to) in line.chunks_exact_mut(size).take(n - first).enumerate() {
                let from = matrix + row * row_stride + (first + lane) * col_stride;
                to.copy_from_slice(&source.bytes()[from * size..][..size]);
            }
        }
        // Of a large matrix, what is read and what is written would be in memory beside each other.
        if !by_rows && panel.len() >= LARGE {
            source.release_part(
                (matrix + first * k) * size..(matrix + (first + width).min(n) * k) * size,
            );
        }
    }
    Literal::new(value.dtype(), shape?, Arc::new(bytes))
}

impl Packing {
    /// Extents of the packed tensor.
    pub fn packed_shape(&self) -> Vec<Expr> {
        let (batch, k, n) = self.matrix.extents(&self.shape).unwrap_or((0, 0, 0));
        let k = if self.pairs { self.pair_count(k) } else { k };
        let panels = (n + self.width - 1) / self.width;
        let mut shape = vec![panels, k, self.width];
        if self.shape.len() > 2 && self.matrix != Matrix::NByRest {
            shape.insert(0, batch);
        }
        shape.into_iter().map(Expr::i64).collect()
    }

    /// Pairs in place of `k` elements.
    fn pair_count(&self, k: i64) -> i64 {
        let taps = self.taps();
        (k / taps + 1) / 2 * taps
    }

    /// Places in the window for each element that is paired.
    pub(super) fn taps(&self) -> i64 {
        match self.matrix {
            Matrix::NByRest => self.shape.iter().skip(2).product(),
            Matrix::KByN | Matrix::NByK | Matrix::Tiles { .. } => 1,
        }
    }

    /// The element type of the packed form of a constant of type `dtype`.
    pub fn dtype(&self, dtype: DType) -> DType {
        if self.pairs { DType::U32 } else { dtype }
    }

    /// Where the element at an index of the operand's own shape is, whose `k` (or channel) counts
    /// pairs where it is stored so; for tiles, the element `[place in the tile, n, k]`.
    pub(super) fn packed_index(&self, index: &[Expr]) -> Vec<Expr> {
        let dims: Vec<Expr> = self.shape.iter().map(|n| Expr::i64(*n)).collect();
        let last = index.len() - 1;
        let (batch, k, n) = match self.matrix {
            Matrix::KByN => (&index[..last - 1], index[last - 1].clone(), &index[last]),
            Matrix::NByK => (&index[..last - 1], index[last].clone(), &index[last - 1]),
            Matrix::NByRest => (&index[..0], flatten(&dims[1..], &index[1..]), &index[0]),
            Matrix::Tiles { .. } => (&index[..1], index[2].clone(), &index[1]),
        };
        if let Matrix::Tiles { .. } = self.matrix {
            let lane = n.clone().floormod(self.width);
            return vec![batch[0].clone(), n.clone().floordiv(self.width), k, lane];
        }
        let mut at = match batch.is_empty() {
            true => vec![],
            false => vec![flatten(&dims[..batch.len()], batch)],
        };
        at.extend([n.clone().floordiv(self.width), k, n.clone().floormod(self.width)]);
        at
    }
}

impl Matrix {
    /// (batch, k, n) of a tensor; `None` when its rank is too low.
    pub(super) fn extents(self, shape: &[i64]) -> Option<(i64, i64, i64)> {
        let split = match self {
            Matrix::NByRest | Matrix::Tiles { .. } => 1,
            Matrix::KByN | Matrix::NByK => shape.len().checked_sub(2)?,
        };
        let product = |dims: &[i64]| dims.iter().product::<i64>();
        Some(match (self, shape.split_at_checked(split)?) {
            (Matrix::KByN, (batch, [k, n])) => (product(batch), *k, *n),
            (Matrix::NByK, (batch, [n, k])) => (product(batch), *k, *n),
            (Matrix::NByRest, ([n], rest)) => (1, product(rest), *n),
            (Matrix::Tiles { results: [i, j], step }, ([n], [k, h, w])) => {
                let side = |m: i64, taps: i64| m + phase_taps(taps, step) - 1;
                (side(i, *h) * side(j, *w), k * step * step, *n)
            }
            _ => return None,
        })
    }
}
