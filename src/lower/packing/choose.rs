//! The choice of constant operands that are packed, and of their panels.

use reflex_graph::{ConvAttrs, Literal, Op, TensorType};
use reflex_tir::{DType, Expr};

use crate::layout::{LAYOUT_LANES, conv_panel_rows, panel_width};
use crate::packing::blocks::BlockCodes;
use crate::packing::panels::{MatrixView, PackedElements, Packing, PanelRole};
use crate::precision::Precision;
use crate::winograd::{winograd_phases_tile, winograd_tile};

/// The packings that `op` wants for those operands that are constant. Only float32 is packed, and 8-bit
/// integers that are multiplied as such.
pub fn packings(
    op: &Op,
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    precision: Precision,
) -> Vec<Packing> {
    let (rounded, elements) = (uses_vnni(op, precision), elements(op, precision));
    let pack = |operand, matrix, width: &dyn Fn(i64) -> i64| {
        let packing = packing(operand, matrix, types, is_constant, width)?;
        suits(elements, types[operand].dtype).then_some(Packing { elements, ..packing })
    };
    match op {
        Op::MatMul | Op::MatMulInteger => pack(1, MatrixView::KByN, &panel_width)
            .filter(|p| {
                p.shape.len() == 2 && p.shape[1] >= LAYOUT_LANES && !types[0].shape.is_empty()
            })
            .into_iter()
            .collect(),
        Op::Conv(attrs) if attrs.groups == 1 => {
            // With one position per feature map, the output channels are the columns.
            let one = |d: &Expr| d.as_int() == Some(1);
            let one_position = types[0].shape.iter().skip(2).all(one);
            let count = positions(attrs, types);
            let packed = match one_position {
                true => pack(1, MatrixView::NByRest, &panel_width),
                false if channels_are_columns(attrs, types, count) => {
                    pack(1, MatrixView::NByRest, &panel_width)
                        .map(|p| Packing { role: PanelRole::Channels, ..p })
                }
                false => pack(1, MatrixView::NByRest, &|n| conv_panel_rows(n, count))
                    .map(|p| Packing { role: PanelRole::Rows, ..p }),
            };
            packed.into_iter().collect()
        }
        Op::ConvInteger(attrs) if attrs.groups == 1 && types[1].shape[1].as_int() != Some(1) => {
            let count = positions(attrs, types);
            pack(1, MatrixView::NByRest, &|n| conv_panel_rows(n, count))
                .map(|p| Packing { role: PanelRole::Rows, ..p })
                .into_iter()
                .collect()
        }
        // Each group's output channels are a panel.
        Op::Conv(attrs) if rounded && vnni_suits_groups(attrs, &types[1]) => {
            pack(1, MatrixView::NByRest, &|n| n / attrs.groups)
                .map(|p| Packing { role: PanelRole::Rows, ..p })
                .into_iter()
                .collect()
        }
        Op::Rnn(_) => {
            [1, 2].into_iter().filter_map(|n| pack(n, MatrixView::NByK, &panel_width)).collect()
        }
        _ => vec![],
    }
}

/// The packing of the right operand of a matmul that is a constant of codes, which stay codes; that of
/// codes, scales and zero points that are operands of their own holds them all.
pub fn block_packing(
    op: &Op,
    types: &[TensorType],
    constant: &dyn Fn(usize) -> Option<Literal>,
    precision: Precision,
) -> Option<Packing> {
    let depth = types.first()?.shape.last()?;
    let (codes, shape, holds) = match op {
        Op::MatMul if precision != Precision::Bf16 => {
            let value = constant(1)?;
            (BlockCodes::of(&value)?, value.shape().to_vec(), vec![])
        }
        Op::MatMulNBits(attrs) => {
            let parts: Option<Vec<Literal>> = (1..types.len()).map(constant).collect();
            let [codes, _, zeros @ ..] = &parts?[..] else { return None };
            let shape = vec![depth.as_int()?, codes.shape()[0]];
            let codes = BlockCodes::of_integers(*attrs, zeros.first())?;
            (codes, shape, (2..types.len()).collect())
        }
        _ => return None,
    };
    let matrix = MatrixView::KByN;
    let (_, k, n) = matrix.extents(&shape)?;
    let (width, role) = (panel_width(n), PanelRole::Columns);
    let elements = PackedElements::Blocks(codes);
    (n >= LAYOUT_LANES && k > 0).then_some(Packing {
        operand: 1,
        width,
        shape,
        matrix,
        role,
        elements,
        holds,
    })
}

/// Whether the columns of a 1-D convolution are its channels: its stride is so long that positions
/// would be copied one by one, or there are so few positions (`count`) that they fill less than a
/// vector, and the channels more.
fn channels_are_columns(attrs: &ConvAttrs, types: &[TensorType], count: Option<i64>) -> bool {
    let channels = types[1].shape[0].as_int().unwrap_or(0);
    let apart = |stride| stride > 8 || count.is_some_and(|n| n <= LAYOUT_LANES / 2);
    matches!(attrs.strides[..], [stride] if apart(stride)) && channels >= LAYOUT_LANES
}

/// The elements that the constant operands of `op` are packed as.
fn elements(op: &Op, precision: Precision) -> PackedElements {
    match op {
        Op::MatMulInteger | Op::ConvInteger(_) => PackedElements::Int8Words,
        _ if uses_vnni(op, precision) => PackedElements::Bf16Pairs,
        _ => PackedElements::AsStored,
    }
}

/// Whether constants of a type are packed as such elements.
fn suits(elements: PackedElements, dtype: DType) -> bool {
    match elements {
        PackedElements::Int8Words => matches!(dtype, DType::U8 | DType::I8),
        PackedElements::AsStored | PackedElements::Bf16Pairs => dtype == DType::F32,
        PackedElements::Blocks(_) => false,
    }
}

/// Whether `op` multiplies VNNI pairs of bfloat16; recurrent cells do not.
fn uses_vnni(op: &Op, precision: Precision) -> bool {
    matches!(op, Op::MatMul | Op::Conv(_)) && precision == Precision::Bf16
}

/// The packings of a convolution with results in a blocked layout.
pub fn blocked_packings(
    op: &Op,
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    block: i64,
    precision: Precision,
) -> Vec<Packing> {
    let all = matches!(op, Op::Conv(attrs) | Op::ConvInteger(attrs) if attrs.groups == 1);
    let elements = if all { elements(op, precision) } else { PackedElements::AsStored };
    let packing = packing(1, MatrixView::NByRest, types, is_constant, &|_| block)
        .filter(|_| suits(elements, types[1].dtype));
    packing.map(|p| Packing { elements, ..p }).into_iter().collect()
}

/// The packings of a convolution that a GPU's tensor cores compute: results next to each other, so that a run of them is
/// loaded at once. `rounds` says whether float32 is rounded for them.
pub fn gpu_packings(
    op: &Op,
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    rounds: bool,
) -> Vec<Packing> {
    let dense = matches!(op, Op::Conv(attrs) if attrs.groups == 1 && attrs.strides.len() == 2);
    let floats = |ty: &TensorType| ty.dtype.is_half() || rounds && ty.dtype == DType::F32;
    let channels = types.get(1).and_then(|ty| ty.shape.first()?.as_int()).unwrap_or(0);
    if !dense || !types.iter().all(floats) || channels == 0 {
        return vec![];
    }
    packing(1, MatrixView::NByRest, types, is_constant, &|_| channels).into_iter().collect()
}

/// The packings of a convolution with results in a blocked layout, where minimal filtering is worth
/// it and its feature map fills blocks too, or is taken by phases. It multiplies in float32 in any
/// precision: the transforms enlarge errors. `shape` is the shape of the feature map that this is
/// chosen by.
pub fn winograd_packings(
    op: &Op,
    shape: &[Expr],
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    block: i64,
    precision: Precision,
) -> Vec<Packing> {
    let Op::Conv(attrs) = op else { return vec![] };
    let w = &types[1].shape;
    let in_blocks = types[0].shape[1].as_int().is_some_and(|c| c % block == 0);
    let tile = winograd_tile(attrs, shape, w, precision).filter(|_| in_blocks);
    let tile = tile.or_else(|| winograd_phases_tile(attrs, shape, w, precision));
    let floats = types[1].dtype == DType::F32;
    let packing = |tile| packing(1, MatrixView::Winograd(tile), types, is_constant, &panel_width);
    tile.filter(|_| floats).and_then(packing).into_iter().collect()
}

fn packing(
    operand: usize,
    matrix: MatrixView,
    types: &[TensorType],
    is_constant: &dyn Fn(usize) -> bool,
    width: &dyn Fn(i64) -> i64,
) -> Option<Packing> {
    let ty = types.get(operand)?;
    let shape = ty.const_shape()?;
    let packed = matches!(ty.dtype, DType::F32 | DType::U8 | DType::I8) || ty.dtype.is_half();
    if !packed || !is_constant(operand) || shape.contains(&0) {
        return None;
    }
    let (_, _, n) = matrix.extents(&shape)?;
    let elements = PackedElements::AsStored;
    let (role, holds) = (PanelRole::Columns, vec![]);
    Some(Packing { operand, width: width(n), shape, matrix, role, elements, holds })
}

/// Positions per feature map of a convolution's result, where known.
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

/// Matmuls of two variable tensors over a shorter depth stay in float32.
const MIN_DEPTH: i64 = 16;

/// Whether a matmul of operands that are not packed is computed from VNNI pairs.
pub fn vnni_suits_matmul(precision: Precision, a: &TensorType, b: &TensorType) -> bool {
    let long = |n: &Expr, least: i64| n.as_int().is_none_or(|n| n >= least);
    let ([.., rows, depth], [.., columns]) = (&a.shape[..], &b.shape[..]) else { return false };
    let floats = (a.dtype, b.dtype) == (DType::F32, DType::F32) && b.shape.len() > 1;
    // A row alone would use each of the other operand's elements once.
    precision == Precision::Bf16
        && floats
        && long(rows, 2)
        && long(depth, MIN_DEPTH)
        && long(columns, LAYOUT_LANES)
}

/// Whether a grouped convolution is computed from VNNI pairs: each group has an even number of
/// channels, and enough of them for the copy of its input to pay.
pub fn vnni_suits_groups(attrs: &ConvAttrs, weights: &TensorType) -> bool {
    let channels = |n: &Expr| n.as_int().is_some_and(|n| n >= MIN_DEPTH && n % 2 == 0);
    let outputs = weights.shape[0].as_int().unwrap_or(0) / attrs.groups;
    attrs.groups > 1 && channels(&weights.shape[1]) && outputs > 1
}
