//! Packed panels: constant weights stored the way micro-kernels read them.
//!
//! A matrix `[k, n]` is packed as `[ceil(n / width), k, width]`: panels of `width` columns (the
//! last one padded with zeros), so that a kernel reads whole vectors in order. A matrix that comes
//! as `[n, k]` is transposed on the way. Packing is a choice of layout only: the naive kernel that
//! reads the packed form computes the same sums in the same order.
//!
//! In precision [`Bf16`](crate::precision::Precision::Bf16) neighbours along `k` are VNNI-packed:
//! `[ceil(n / width), ceil(k / 2), width]` of uint32. So are four 8-bit integers:
//! `[ceil(n / width), ceil(k / 4), width]`. Neighbours of a convolution are input channels: `k` counts
//! pairs (fours) of channels, then the positions in the kernel.
//!
//! Weights of codes stay codes: [`crate::packing::blocks`].

use reflex_tir::builder::FuncBuilder;
use reflex_tir::{Buffer, DType, Expr};

use crate::layout::flatten;
use crate::packing::blocks::{BlockCodes, CodeIndex};
use crate::winograd::{WinogradTile, phase_taps};

/// The packed form of a constant operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Which operand.
    pub operand: usize,
    /// Columns per panel.
    pub width: i64,
    /// The operand's own shape.
    pub shape: Vec<i64>,
    /// The operand as batches of matrices.
    pub matrix: MatrixView,
    /// The operand of the GEMM that a panel holds.
    pub role: PanelRole,
    /// The elements of the packed form.
    pub elements: PackedElements,
    /// Other operands that the packed form holds: scales and zero points of codes.
    pub holds: Vec<usize>,
}

/// The elements of packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedElements {
    /// Those of the constant.
    AsStored,
    /// uint32 with two along `k`, rounded to bfloat16.
    Bf16Pairs,
    /// uint32 with four along `k`, 8-bit integers.
    Int8Words,
    /// uint32 with codes of a block, and with their scale.
    Blocks(BlockCodes),
}

impl PackedElements {
    /// Elements of the constant along `k` that share one.
    pub fn along_k(self) -> i64 {
        match self {
            PackedElements::AsStored | PackedElements::Blocks(_) => 1,
            PackedElements::Bf16Pairs => 2,
            PackedElements::Int8Words => 4,
        }
    }
}

/// The operand of a GEMM that packed weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelRole {
    /// Operand A, broadcast: a panel holds the rows of a tile.
    Rows,
    /// Operand B, in vectors: a panel holds the columns of a tile.
    Columns,
    /// Operand B of a convolution whose sums are stored with their channels last.
    Channels,
}

/// A tensor as batches of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixView {
    /// `[..., k, n]`
    KByN,
    /// `[..., n, k]`
    NByK,
    /// `[n, k...]`: everything after the first axis is `k`.
    NByRest,
    /// `[n, k, h, w]`, transformed for Winograd tiles.
    Winograd(WinogradTile),
}

impl Packing {
    /// Shape of the packed tensor.
    pub fn packed_shape(&self) -> Vec<Expr> {
        let (batch, k, n) = self.matrix.extents(&self.shape).unwrap_or((0, 0, 0));
        let k = self.rows(k);
        let panels = (n + self.width - 1) / self.width;
        let mut shape = vec![panels, k, self.width];
        if self.shape.len() > 2 && self.matrix != MatrixView::NByRest {
            shape.insert(0, batch);
        }
        shape.into_iter().map(Expr::i64).collect()
    }

    /// Rows for `k` elements: lines of words, where they are codes.
    fn rows(&self, k: i64) -> i64 {
        if let PackedElements::Blocks(codes) = &self.elements {
            return codes.lines(k);
        }
        let (taps, shared) = (self.taps(), self.elements.along_k());
        match shared {
            1 => k,
            _ => (k / taps + shared - 1) / shared * taps,
        }
    }

    /// Positions in the kernel for each channel that is paired.
    pub fn taps(&self) -> i64 {
        match self.matrix {
            MatrixView::NByRest => self.shape.iter().skip(2).product(),
            MatrixView::KByN | MatrixView::NByK | MatrixView::Winograd(_) => 1,
        }
    }

    /// The element type of the packed form of a constant of type `dtype`.
    pub fn dtype(&self, dtype: DType) -> DType {
        if self.elements == PackedElements::AsStored { dtype } else { DType::U32 }
    }

    /// The element of a packed buffer at an index of the operand's own shape.
    pub fn element(&self, f: &FuncBuilder, packed: Buffer, index: &[Expr]) -> Expr {
        match (&self.elements, index) {
            (PackedElements::Blocks(codes), [k, column]) => {
                let (block, within) =
                    (k.clone().floordiv(codes.block), k.clone().floormod(codes.block));
                let word = within.clone().floordiv(codes.per_word());
                let at = CodeIndex { block, word, code: within.floormod(codes.per_word()) };
                self.code(f, packed, &at, column)
            }
            _ => f.at(packed, &self.packed_index(index)),
        }
    }

    /// The element of a packed buffer of codes at a place in a column.
    pub fn code(&self, f: &FuncBuilder, packed: Buffer, at: &CodeIndex, column: &Expr) -> Expr {
        let PackedElements::Blocks(codes) = &self.elements else {
            unreachable!("only codes are addressed by block");
        };
        codes.element(self.shape[0], at, &|line| self.line(f, packed, column, line))
    }

    /// A line of a column of a packed buffer of codes.
    pub fn line(&self, f: &FuncBuilder, packed: Buffer, column: &Expr, line: Expr) -> Expr {
        let (panel, lane) =
            (column.clone().floordiv(self.width), column.clone().floormod(self.width));
        f.at(packed, &[panel, line, lane])
    }

    /// The packed index of an index of the operand's own shape, whose `k` (or channel) counts pairs
    /// or words where it is VNNI-packed; for Winograd, of `[position in the tile, n, k]`.
    pub fn packed_index(&self, index: &[Expr]) -> Vec<Expr> {
        let dims: Vec<Expr> = self.shape.iter().map(|n| Expr::i64(*n)).collect();
        let last = index.len() - 1;
        let (batch, k, n) = match self.matrix {
            MatrixView::KByN => (&index[..last - 1], index[last - 1].clone(), &index[last]),
            MatrixView::NByK => (&index[..last - 1], index[last].clone(), &index[last - 1]),
            MatrixView::NByRest => (&index[..0], flatten(&dims[1..], &index[1..]), &index[0]),
            MatrixView::Winograd(_) => (&index[..1], index[2].clone(), &index[1]),
        };
        if let MatrixView::Winograd(_) = self.matrix {
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

impl MatrixView {
    /// (batch, k, n) of a tensor; `None` when its rank is too low.
    pub fn extents(self, shape: &[i64]) -> Option<(i64, i64, i64)> {
        let split = match self {
            MatrixView::NByRest | MatrixView::Winograd(_) => 1,
            MatrixView::KByN | MatrixView::NByK => shape.len().checked_sub(2)?,
        };
        let product = |dims: &[i64]| dims.iter().product::<i64>();
        Some(match (self, shape.split_at_checked(split)?) {
            (MatrixView::KByN, (batch, [k, n])) => (product(batch), *k, *n),
            (MatrixView::NByK, (batch, [n, k])) => (product(batch), *k, *n),
            (MatrixView::NByRest, ([n], rest)) => (1, product(rest), *n),
            (MatrixView::Winograd(WinogradTile { outputs: [i, j], step }), ([n], [k, h, w])) => {
                let side = |m: i64, taps: i64| m + phase_taps(taps, step) - 1;
                (side(i, *h) * side(j, *w), k * step * step, *n)
            }
            _ => return None,
        })
    }
}
