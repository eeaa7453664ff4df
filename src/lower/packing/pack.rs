//! Copies constants into panels.

use std::sync::Arc;

use reflex_graph::Literal;
use reflex_runtime::aligned_bytes::AlignedBytes;
use reflex_tir::{DType, Expr};

use crate::packing::panels::{MatrixView, PackedElements, Packing};
use crate::packing::share::for_each_part;
use crate::packing::{blocks, vnni, winograd};

/// Panels of so many bytes are worth a system call that frees the memory of their source.
const LARGE: usize = 64 << 10;

/// The packed form of a constant, and of those that it [holds](Packing::holds) as well; `None` when they
/// are not the tensors the packing is for.
pub fn pack(packing: &Packing, parts: &[Literal]) -> Option<Literal> {
    let value = match (packing.elements, parts) {
        (PackedElements::Blocks(codes), parts) if !packing.holds.is_empty() => {
            &blocks::joined([codes.bits, codes.block, packing.shape[0]], parts)?
        }
        (_, [value]) => value,
        _ => return None,
    };
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
        PackedElements::Blocks(codes) => Some(blocks::packed(packing.width, &codes, value)?),
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
    let from = source.bytes();
    for_each_part(bytes.as_mut(), k * width * size, |outer, panel| {
        let (matrix, first) = (outer / panels * k * n, outer % panels * width);
        let part = Part {
            first: matrix + first * col_stride,
            row_stride,
            col_stride,
            columns: width.min(n - first),
            width,
        };
        match size {
            1 => copy_panel::<1>(from, panel, &part),
            2 => copy_panel::<2>(from, panel, &part),
            4 => copy_panel::<4>(from, panel, &part),
            _ => copy_panel::<8>(from, panel, &part),
        }
        // A large matrix and its packed copy would be in memory at once.
        if !by_rows && panel.len() >= LARGE {
            source.release_part(
                (matrix + first * k) * size..(matrix + (first + width).min(n) * k) * size,
            );
        }
    });
    Literal::new(value.dtype(), shape?, Arc::new(bytes))
}

/// The columns of a matrix that a panel holds.
struct Part {
    /// The element in the first row and the first of these columns.
    first: usize,
    row_stride: usize,
    col_stride: usize,
    columns: usize,
    /// Columns of the panel.
    width: usize,
}

/// Copies columns of elements of `N` bytes.
fn copy_panel<const N: usize>(source: &[u8], panel: &mut [u8], part: &Part) {
    let (from, to) = (source.as_chunks::<N>().0, panel.as_chunks_mut::<N>().0);
    for (row, line) in to.chunks_exact_mut(part.width).enumerate() {
        let first = part.first + row * part.row_stride;
        let line = &mut line[..part.columns];
        if part.col_stride == 1 {
            line.copy_from_slice(&from[first..first + part.columns]);
            continue;
        }
        let column = from[first..].iter().step_by(part.col_stride);
        line.iter_mut().zip(column).for_each(|(to, from)| *to = *from);
    }
}
