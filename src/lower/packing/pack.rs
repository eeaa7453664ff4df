//! Copies constants into panels.

use std::sync::Arc;

use reflex_graph::Literal;
use reflex_tir::{DType, Expr};
use reflex_vm::executable::AlignedBytes;

use crate::packing::panels::{MatrixView, PackedElements, Packing};
use crate::packing::{vnni, winograd};

/// Panels of so many bytes are worth a system call that frees the memory of their source.
const LARGE: usize = 64 << 10;

/// The packed form of a constant; `None` when it is not the tensor the packing is for.
pub fn pack(packing: &Packing, value: &Literal) -> Option<Literal> {
    if value.shape() != packing.shape {
        return None;
    }
    let shape: Option<Vec<i64>> = packing.packed_shape().iter().map(Expr::as_int).collect();
    if let MatrixView::Winograd(tile) = packing.matrix {
        let packed = winograd::pack(packing, tile, value)?;
        return Literal::new(value.dtype(), shape?, Arc::new(packed));
    }
    let words = match packing.elements {
        PackedElements::AsStored => None,
        PackedElements::Bf16Pairs => Some(vnni::packed(packing, value)?),
        PackedElements::Int8Words => Some(vnni::packed_bytes(packing, value)?),
    };
    if let Some(words) = words {
        return Literal::new(DType::U32, shape?, Arc::new(words));
    }
    let (batch, k, n) = packing.matrix.extents(&packing.shape)?;
    let (batch, k, n, width) = (batch as usize, k as usize, n as usize, packing.width as usize);
    let size = value.dtype().itemsize();
    // A transposed matrix is read where it comes from.
    let rank = value.shape().len();
    let transposed = value.permutation().filter(|(_, perm)| {
        let rows_are_axis = packing.matrix != MatrixView::NByRest || rank == 2;
        rows_are_axis && perm[rank - 2..] == [rank - 1, rank - 2] && perm[..rank - 2].is_sorted()
    });
    let by_rows = (packing.matrix == MatrixView::KByN) != transposed.is_some();
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
        // A large matrix and its packed copy would be in memory at once.
        if !by_rows && panel.len() >= LARGE {
            source.release_part(
                (matrix + first * k) * size..(matrix + (first + width).min(n) * k) * size,
            );
        }
    }
    Literal::new(value.dtype(), shape?, Arc::new(bytes))
}
