//! Constant matrices of 2-, 4- or 8-bit codes with a scale for each block along the depth. They stay
//! codes; floats are made of them only where something reads a constant's bytes.
//!
//! Decision: docs/decisions/0076-packed-weights.md

use half::{bf16, f16};
use reflex_tir::DType;

use crate::literal::Literal;

/// A matrix of `columns` columns over `depth`, each column in blocks of `block` codes. An element is
/// computed in float32 and rounded once to `dtype`.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockQuantized {
    /// The type of the elements: float32 or a 16-bit float.
    pub dtype: DType,
    /// Number of columns.
    pub columns: usize,
    /// Elements of a column.
    pub depth: usize,
    /// Bits of a code: 2, 4 or 8.
    pub bits: usize,
    /// Codes of a block; a column's last block may have unused ones at its end.
    pub block: usize,
    /// Bytes of codes, `[columns, blocks * block * bits / 8]`, the lowest bits first.
    pub codes: Literal,
    /// `[columns, blocks]`
    pub scales: Vec<f32>,
    /// The number that a code stands for, before it is scaled.
    pub meaning: CodeMeaning,
}

/// The numbers that codes stand for.
#[derive(Clone, Debug, PartialEq)]
pub enum CodeMeaning {
    /// The code without a zero point that all blocks have.
    Centred(f32),
    /// The code without its block's zero point, `[columns, blocks]`.
    CentredByBlock(Vec<f32>),
    /// The entry of a table of 16.
    Table([f32; 16]),
}

/// The axis of a matrix that its depth is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthAxis {
    /// `[depth, columns]`
    First,
    /// `[columns, depth]`
    Last,
}

impl DepthAxis {
    /// That of the transposed matrix.
    pub fn transposed(self) -> DepthAxis {
        match self {
            DepthAxis::First => DepthAxis::Last,
            DepthAxis::Last => DepthAxis::First,
        }
    }
}

impl BlockQuantized {
    /// Blocks of a column.
    pub fn blocks(&self) -> usize {
        self.depth.div_ceil(self.block.max(1))
    }

    /// Whether codes are bytes, and each column has one scale.
    pub fn is_by_columns(&self) -> bool {
        self.bits == 8 && self.blocks() == 1
    }

    /// Whether all parts have the extents that the matrix says.
    pub fn is_consistent(&self) -> bool {
        let each = self.columns.checked_mul(self.blocks());
        let bits = each.and_then(|n| n.checked_mul(self.block)?.checked_mul(self.bits));
        let meaning = match &self.meaning {
            CodeMeaning::Centred(_) => true,
            CodeMeaning::CentredByBlock(zeros) => Some(zeros.len()) == each,
            CodeMeaning::Table(_) => self.bits == 4,
        };
        matches!(self.dtype, DType::F32 | DType::F16 | DType::BF16)
            && matches!(self.bits, 2 | 4 | 8)
            && self.block > 0
            && (self.block * self.bits).is_multiple_of(8)
            && self.codes.dtype() == DType::U8
            && Some(self.codes.size()) == bits.map(|n| n / 8)
            && Some(self.scales.len()) == each
            && meaning
    }

    /// The code of an element.
    pub fn code(&self, codes: &[u8], column: usize, k: usize) -> u8 {
        let at = (column * self.blocks() * self.block + k) * self.bits;
        let mask = (1u32 << self.bits) - 1;
        (codes[at / 8] >> (at % 8)) & mask as u8
    }

    /// The elements in order, little-endian.
    pub(crate) fn expanded(&self, axis: DepthAxis) -> Vec<u8> {
        let codes = self.codes.bytes();
        let size = self.dtype.itemsize();
        let mut bytes = vec![0; self.columns * self.depth * size];
        for column in 0..self.columns {
            for k in 0..self.depth {
                let block = column * self.blocks() + k / self.block;
                let code = self.code(codes, column, k);
                let number = match &self.meaning {
                    CodeMeaning::Centred(zero) => f32::from(code) - zero,
                    CodeMeaning::CentredByBlock(zeros) => f32::from(code) - zeros[block],
                    CodeMeaning::Table(table) => table[usize::from(code)],
                };
                let at = match axis {
                    DepthAxis::First => k * self.columns + column,
                    DepthAxis::Last => column * self.depth + k,
                };
                let value = number * self.scales[block];
                let to = &mut bytes[at * size..][..size];
                match self.dtype {
                    DType::F16 => to.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
                    DType::BF16 => to.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
                    _ => to.copy_from_slice(&value.to_le_bytes()),
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn matrix() -> BlockQuantized {
        let codes = Literal::new(DType::U8, vec![2, 2], Arc::new(vec![0x10u8, 0x32, 0x54, 0x76]));
        BlockQuantized {
            dtype: DType::F32,
            columns: 2,
            depth: 3,
            bits: 4,
            block: 2,
            codes: codes.unwrap(),
            scales: vec![1.0, 10.0, 100.0, 0.5],
            meaning: CodeMeaning::CentredByBlock(vec![0.0, 1.0, 2.0, 0.5]),
        }
    }

    #[test]
    fn codes_become_numbers_when_bytes_are_read() {
        let x = Literal::block_quantized(Arc::new(matrix()), DepthAxis::Last).unwrap();
        assert_eq!((x.shape(), x.size()), (&[2, 3][..], 24));
        let turned = x.permuted(&[1, 0]).unwrap();
        let (same, axis) = turned.as_block_quantized().unwrap();
        assert_eq!((same, axis), (&matrix(), DepthAxis::First));
        assert_eq!(x, Literal::from_f32(vec![2, 3], &[0.0, 1.0, 10.0, 200.0, 300.0, 2.75]));
        assert_eq!(turned, Literal::from_f32(vec![3, 2], &[0.0, 200.0, 1.0, 300.0, 10.0, 2.75]));
        assert!(x.is_copy_of(&x.clone()) && !x.is_copy_of(&turned));
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let short = BlockQuantized { scales: vec![1.0; 3], ..matrix() };
        assert!(Literal::block_quantized(Arc::new(short), DepthAxis::Last).is_none());
        let wide = BlockQuantized { bits: 8, ..matrix() };
        assert!(Literal::block_quantized(Arc::new(wide), DepthAxis::Last).is_none());
        let codes = Literal::new(DType::U8, vec![0], Arc::new(vec![])).unwrap();
        let (scales, meaning) = (vec![1.0; 6], CodeMeaning::Centred(0.0));
        let empty = BlockQuantized { block: 0, codes, scales, meaning, ..matrix() };
        assert!(Literal::block_quantized(Arc::new(empty), DepthAxis::Last).is_none());
    }
}
