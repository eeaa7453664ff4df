//! Constant weights that stay codes: what MatMulNBits, MatMulBnb4 and DequantizeLinear say of
//! them, as a constant of the graph ([`BlockQuantized`]). What is not of this form is computed by
//! operators instead, and means the same. A Cast and a Mul dequantise too.
//!
//! Decision: docs/decisions/0117-codes-by-columns.md

use std::rc::Rc;
use std::sync::Arc;

use reflex_graph::{BlockQuantized, CodeMeaning, DepthAxis, Literal};
use reflex_tir::DType;

use crate::value::{Dequantised, Tensor};

/// Fewest elements of a matrix with a scale for each column that stays codes: smaller ones stay in a cache, where floats cost
/// no conversion.
pub(super) const LEAST_ELEMENTS: usize = 1 << 16;

/// Columns that codes are laid out of at once.
const COLUMNS_AT_ONCE: usize = 64;

/// Codes of 8 bits in a word: columns of codes are whole words.
const WORD: usize = 4;

/// The extents of weights, their blocks, and the bits of a code.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub columns: usize,
    pub depth: usize,
    pub block: usize,
    pub bits: usize,
}

impl Extents {
    fn blocks(&self) -> usize {
        self.depth.div_ceil(self.block.max(1))
    }
}

/// Weights `[depth, columns]` of elements of type `dtype`; `None` where the parts do not fit.
pub(super) fn packed_weights(
    extents: Extents,
    dtype: DType,
    codes: &Literal,
    scales: &Tensor,
    meaning: CodeMeaning,
) -> Option<Tensor> {
    let Extents { columns, depth, block, bits } = extents;
    let scales = floats(scales)?;
    let codes = codes.clone();
    let matrix = BlockQuantized { dtype, columns, depth, bits, block, codes, scales, meaning };
    Literal::block_quantized(Arc::new(matrix), DepthAxis::First).map(Tensor::literal)
}

/// The zero points of blocks: the middle of the codes where there are none, codes in the bits of bytes,
/// or numbers. Numbers of 16 bits have to be whole, so that no difference is rounded.
pub(super) fn zero_points(
    extents: Extents,
    dtype: DType,
    given: Option<&Tensor>,
) -> Option<CodeMeaning> {
    let Extents { columns, bits, .. } = extents;
    let Some(given) = given else {
        return Some(CodeMeaning::Centred((1u32 << (bits - 1)) as f32));
    };
    if given.dtype() != DType::U8 {
        let zeros = floats(given).filter(|_| given.dtype() == dtype)?;
        let whole = zeros.iter().all(|z| z.trunc() == *z && (0.0..256.0).contains(z));
        return (dtype == DType::F32 || whole).then(|| centred(zeros));
    }
    let (bytes, blocks) = (given.as_literal()?.bytes(), extents.blocks());
    let row = (blocks * bits).div_ceil(8);
    let mask = ((1u32 << bits) - 1) as u8;
    if Some(bytes.len()) != columns.checked_mul(row) {
        return None;
    }
    let each = |row: &[u8]| -> Vec<f32> {
        let code = |n: usize| (row[n * bits / 8] >> (n * bits % 8)) & mask;
        (0..blocks).map(|n| f32::from(code(n))).collect()
    };
    Some(centred(bytes.chunks_exact(row.max(1)).flat_map(each).collect()))
}

fn centred(zeros: Vec<f32>) -> CodeMeaning {
    match zeros.first() {
        Some(first) if zeros.iter().all(|z| z.to_bits() == first.to_bits()) => {
            CodeMeaning::Centred(*first)
        }
        _ => CodeMeaning::CentredByBlock(zeros),
    }
}

/// Whether each element's block is the one that it lies in.
pub(super) fn in_order(group: &Tensor, extents: Extents) -> bool {
    let Some(group) = group.as_literal().and_then(Literal::to_i64) else { return false };
    let within = group.iter().take(extents.depth).enumerate();
    group.len() >= extents.depth
        && within.into_iter().all(|(k, g)| *g == (k / extents.block) as i64)
}

/// The elements as float32, which holds them; `None` for other types, or where they are not known.
fn floats(x: &Tensor) -> Option<Vec<f32>> {
    x.as_literal()?.to_f32()
}

/// The result of a DequantizeLinear of constant integers of 2, 4 or 8 bits in blocks along `axis` of a
/// matrix: a matrix of codes.
pub(super) fn dequantized_blocks(
    x: &Tensor,
    [scale, zero]: [Option<&Tensor>; 2],
    axis: usize,
    block: i64,
    to: DType,
) -> Option<Tensor> {
    let (dtype, scale) = (x.dtype(), scale?);
    let bits = usize::from(dtype.bits);
    let integers = dtype.is_scalar() && (dtype.is_int() || dtype.is_uint());
    let block = usize::try_from(block).ok().filter(|b| *b > 0)?;
    let [rows, columns] = x.const_shape()?.try_into().ok()?;
    let shape: [usize; 2] = [usize::try_from(rows).ok()?, usize::try_from(columns).ok()?];
    if !integers || !matches!(bits, 2 | 4 | 8) || axis > 1 || (block * bits) % 8 != 0 {
        return None;
    }
    let extents = Extents { columns: shape[1 - axis], depth: shape[axis], block, bits };
    let blocks = extents.blocks();
    let mut each = shape.map(|n| n as i64);
    each[axis] = blocks as i64;
    // Codes are unsigned: signed ones are moved, and their zero points with them.
    let moved = if dtype.is_int() { 1i64 << (bits - 1) } else { 0 };
    let at = |column: usize, k: usize, extent: usize| match axis {
        0 => k * shape[1] + column,
        _ => column * extent + k,
    };
    let per_block = |values: Vec<f32>| -> Option<Vec<f32>> {
        let all = (0..extents.columns).flat_map(|c| (0..blocks).map(move |b| (c, b)));
        let in_place = |(c, b)| values.get(at(c, b, blocks)).copied();
        (values.len() == extents.columns * blocks).then(|| all.map(in_place).collect())?
    };
    let fits = |p: &Tensor| p.const_shape().is_some_and(|shape| shape == each);
    let scales = fits(scale).then(|| floats(scale)).flatten().and_then(per_block)?;
    let meaning = match zero {
        None => CodeMeaning::Centred(moved as f32),
        Some(zero) if fits(zero) && zero.dtype() == dtype => {
            let zeros = zero.as_literal()?.to_i64()?;
            centred(per_block(zeros.iter().map(|z| (z + moved) as f32).collect())?)
        }
        Some(_) => return None,
    };
    let bytes = x.as_literal().filter(|l| l.dtype().itemsize() == 1)?.bytes();
    let row = blocks * block * bits / 8;
    let mut codes = vec![0u8; extents.columns.checked_mul(row)?];
    // A few columns at once: neighbours in rows are read together, and so many lines are written.
    for (part, rows) in codes.chunks_mut((row * COLUMNS_AT_ONCE).max(1)).enumerate() {
        for k in 0..extents.depth {
            for (column, row) in rows.chunks_exact_mut(row).enumerate() {
                let from = at(part * COLUMNS_AT_ONCE + column, k, extents.depth);
                let code = bytes[from].wrapping_add(moved as u8) & ((1u32 << bits) - 1) as u8;
                row[k * bits / 8] |= code << (k * bits % 8);
            }
        }
    }
    let (columns, depth) = (extents.columns, extents.depth);
    let codes = Literal::new(DType::U8, vec![codes.len() as i64], Arc::new(codes))?;
    let matrix = BlockQuantized { dtype: to, columns, depth, bits, block, codes, scales, meaning };
    let order = if axis == 0 { DepthAxis::First } else { DepthAxis::Last };
    Literal::block_quantized(Arc::new(matrix), order).map(Tensor::literal)
}

/// The integers that a Cast to float32 makes a constant matrix of.
pub(super) fn converted_integers(x: &Tensor, to: DType) -> Option<Rc<Dequantised>> {
    let integers = matches!(x.dtype(), DType::I8 | DType::U8) && x.as_literal().is_some();
    let scale = Tensor::scalar(1.0, DType::F32).filter(|_| integers && to == DType::F32)?;
    (x.rank() == 2).then(|| Rc::new(Dequantised { x: x.clone(), scale, zero_point: None, axis: 1 }))
}

/// The integers of a constant matrix that [`converted_integers`] has, scaled as a whole, by rows or by columns.
pub(super) fn scaled_integers(a: &Tensor, b: &Tensor) -> Option<Rc<Dequantised>> {
    let of = |matrix: &Tensor, scale: &Tensor| {
        let d = matrix.dequantised.as_deref()?;
        let plain = d.zero_point.is_none() && floats(&d.scale)? == [1.0];
        let &[rows, columns] = d.x.as_literal().filter(|_| plain)?.shape() else { return None };
        let scale = scale.as_literal().filter(|scale| scale.dtype() == DType::F32)?;
        let (shape, axis) = match scale.shape() {
            [] | [1] | [1, 1] => (vec![], 1),
            [n] | [1, n] if *n == columns => (vec![columns], 1),
            [n, 1] if *n == rows => (vec![rows], 0),
            _ => return None,
        };
        let (x, scale) = (d.x.clone(), Tensor::literal(scale.reshaped(shape)?));
        Some(Rc::new(Dequantised { x, scale, zero_point: None, axis }))
    };
    of(a, b).or_else(|| of(b, a))
}

/// A constant matrix that is dequantised as a whole or by columns: a matrix of codes. `None` where it is small, or of another
/// form.
pub(super) fn dequantised_columns(d: &Dequantised) -> Option<Tensor> {
    let literal = d.x.as_literal()?;
    let &[depth, columns] = literal.shape() else { return None };
    let [depth, width] = [depth, columns].map(usize::try_from);
    let (depth, width) = (depth.ok()?, width.ok()?);
    let by_columns = |p: &Tensor| match p.count() {
        Some(1) => true,
        count => d.axis == 1 && count == Some(width),
    };
    let parameters = by_columns(&d.scale) && d.zero_point.as_ref().is_none_or(by_columns);
    if !parameters || depth.checked_mul(width)? < LEAST_ELEMENTS {
        return None;
    }
    let scales = floats(&d.scale)?;
    let scales: Vec<f32> = scales.iter().copied().cycle().take(width).collect();
    let scale = Tensor::literal(Literal::from_f32(vec![1, columns], &scales));
    let zero = match &d.zero_point {
        None => None,
        Some(zero) => {
            let zeros: Vec<u8> =
                zero.as_literal()?.bytes().iter().copied().cycle().take(width).collect();
            Some(Tensor::literal(Literal::new(literal.dtype(), vec![1, columns], Arc::new(zeros))?))
        }
    };
    let block = i64::try_from(depth.next_multiple_of(WORD)).ok()?;
    dequantized_blocks(&d.x, [Some(&scale), zero.as_ref()], 0, block, DType::F32)
}
