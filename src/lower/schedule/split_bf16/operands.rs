//! The bfloat16 parts of two float32 operands, VNNI-packed for AMX tiles.
//!
//! AMX multiplies pairs along the reduced axes. Any elements may make a pair, as long as both
//! operands agree. Where a reduced axis is long they are its neighbours, and terms have the layout
//! of their operands. In a blocked layout of sixteen lanes the same lane of two blocks is a pair,
//! so that pairs are made of whole vectors of either block.
//!
//! ```text
//! row terms      [pair of blocks, kernel.., position.., lane]
//! column terms   [block of results, pair of blocks, kernel.., lane, lane of results]
//! ```
//! Operands that are VNNI-packed already, in precision `bf16`, are interleaved in the same way,
//! half a row of a tile from either block; their columns stay where they are.
//!
//! A position in a kernel has its own copy of the feature map's positions that it multiplies
//! (im2col), so rows of results of a feature map are one run of rows whatever the kernel and
//! strides: tiles are filled but for the end.
//!
//! Decision: docs/decisions/0043-split-bf16.md

use reflex_tir::arith::Analyzer;
use reflex_tir::tile::SIDE;
use reflex_tir::{Buffer, DType, Expr, ExprKind, Intrin, Stmt, Var};

use crate::schedule::core::affine::{linear, mentions, same};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::core::tile::TiledAxis;
use crate::schedule::gemm::amx::{AmxKernel, OperandPair, RowRemainder};
use crate::schedule::gemm::kernel::Gemm;
use crate::schedule::rows::elementwise::elementwise;

/// Bytes of terms that stay in the cache together with what is streamed: every CPU with AMX has an
/// L2 of 2 MiB for each core.
const CACHE_BYTES: i64 = 3 << 19;

/// The elements that make a VNNI pair.
enum PairLayout {
    /// Neighbours along an axis; half as many pairs.
    Neighbours { along: Var, pairs_axis: Axis },
    /// The same lane of two blocks; half as many blocks of pairs.
    Blocks { blocks: Axis, pairs: Axis, lane: Axis },
    /// Packed already: the pairs of a block fill half a row of a tile, those of two blocks all of
    /// it.
    Packed { blocks: Axis, pairs: Axis, lane: Axis, pairs_axis: Axis },
}

/// The operands of a contraction that is computed on AMX tiles from other buffers.
pub struct SplitOperands {
    /// Where elements of rows are.
    pub row: Buffer,
    /// Where those of columns are.
    pub column: Buffer,
    pairs: PairLayout,
}

/// The stages that fill the operands' buffers, and the contraction of those.
pub struct Bf16Gemm {
    fills: Vec<Stage>,
    /// The contraction, where its axes are not those of the original.
    kernel: Option<Gemm>,
    amx: AmxKernel,
    /// Whether one operand stays in the cache: where neither does, tiles wait for memory.
    pub fits: Expr,
}

/// The terms of both operands, and the stages that fill their buffers.
struct SplitTerms {
    fills: Vec<Stage>,
    rows: Vec<Expr>,
    columns: Vec<Expr>,
}

/// A buffer for a term: its name, the axes that it is filled over, and its shape.
struct TermBuffer {
    name: &'static str,
    axes: Vec<Axis>,
    shape: Vec<Expr>,
}

impl SplitOperands {
    /// The operands of `kernel`, where they can be split.
    pub fn of(nest: &mut Nest<'_>, kernel: &Gemm) -> Result<SplitOperands, Refusal> {
        let load = |e: &Expr| match e.kind() {
            ExprKind::Load { buffer, indices, dtype: DType::F32 } => Ok((*buffer, indices.clone())),
            _ => Err(Refusal::NotContiguous),
        };
        let ((row, at), (column, _)) = (load(&kernel.row)?, load(&kernel.column)?);
        let reduce = &kernel.stage.reduce;
        let along = reduce.iter().rposition(|a| {
            let linear = linear(&nest.func, row, &at, &[a.var]);
            linear.is_some_and(|l| l.coefficients[0].as_int() == Some(1))
        });
        let at = along.ok_or(Refusal::NotContiguous)?;
        let along = reduce[at].clone();
        let extent = along.extent.as_int().ok_or(Refusal::NotAffine)?;
        if kernel.both || kernel.spread {
            return Err(Refusal::NotContiguous);
        }
        // Whole registers: half of one has the rate of vectors.
        let pairs = if extent % (2 * SIDE) == 0 && matches!(kernel.rows, Some(TiledAxis::Plain(_)))
        {
            let pairs_axis = Axis { var: nest.var("k"), extent: (extent / 2).into() };
            PairLayout::Neighbours { along: along.var, pairs_axis }
        } else if extent == SIDE && at > 0 && matches!(kernel.columns, TiledAxis::Blocks { .. }) {
            let blocks = reduce[at - 1].clone();
            let count = blocks.extent.as_int().ok_or(Refusal::NotAffine)?;
            let pairs = Axis { var: nest.var("pair"), extent: ((count + 1) / 2).into() };
            PairLayout::Blocks { blocks, pairs, lane: along }
        } else {
            return Err(Refusal::NotContiguous);
        };
        Ok(SplitOperands { row, column, pairs })
    }

    /// The operands of `kernel`, where they are VNNI-packed in blocks that fill half a row of a
    /// tile.
    pub fn of_vnni(nest: &mut Nest<'_>, kernel: &Gemm) -> Result<SplitOperands, Refusal> {
        let load = |e: &Expr| match e.kind() {
            ExprKind::Load { buffer, indices, dtype: DType::U32 } => Ok((*buffer, indices.clone())),
            _ => Err(Refusal::ElementType),
        };
        let ((row, _), (column, at)) = (load(&kernel.row)?, load(&kernel.column)?);
        let lane = kernel.depth(nest).ok_or(Refusal::NotContiguous)?;
        let reduce = &kernel.stage.reduce;
        let position = reduce.iter().position(|a| a.var == lane.var).filter(|at| *at > 0);
        let blocks = reduce[position.ok_or(Refusal::NotContiguous)? - 1].clone();
        let half = lane.extent.as_int() == Some(SIDE / 2);
        let count = blocks.extent.as_int().filter(|n| n % 2 == 0 && half && !kernel.both);
        let count = count.ok_or(Refusal::NotContiguous)?;
        // Columns are read where they are.
        let steps = linear(&nest.func, column, &at, &[blocks.var, lane.var]);
        let [of_block, of_lane] = &steps.ok_or(Refusal::NotAffine)?.coefficients[..] else {
            return Err(Refusal::NotAffine);
        };
        let run_on = same(of_block, &(of_lane.clone() * (SIDE / 2)));
        if !run_on || !matches!(kernel.columns, TiledAxis::Blocks { .. }) {
            return Err(Refusal::NotContiguous);
        }
        let pairs = Axis { var: nest.var("pair"), extent: (count / 2).into() };
        let pairs_axis = Axis { var: nest.var("k"), extent: SIDE.into() };
        Ok(SplitOperands {
            row,
            column,
            pairs: PairLayout::Packed { blocks, pairs, lane, pairs_axis },
        })
    }

    /// The contraction of terms that replaces `kernel`.
    pub fn bf16_gemm(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
        terms: i64,
    ) -> Result<Bf16Gemm, Refusal> {
        let (mut fills, mut rows, mut columns) = (vec![], vec![], vec![]);
        if let PairLayout::Packed { .. } = &self.pairs {
            let (fill, row) = self.interleaved_rows(nest, kernel)?;
            fills.push(fill);
            rows.push(row);
            columns.push(self.interleaved_columns(kernel));
            return self.contraction(nest, kernel, SplitTerms { fills, rows, columns });
        }
        for term in 0..terms {
            let (fill, row) = match &self.pairs {
                PairLayout::Neighbours { along, pairs_axis } => {
                    self.whole_row_term(nest, kernel, *along, pairs_axis.var, term)?
                }
                PairLayout::Blocks { .. } | PairLayout::Packed { .. } => {
                    self.row_term(nest, kernel, term)?
                }
            };
            fills.push(fill);
            let (fill, column) = self.column_term(nest, kernel, term);
            fills.push(fill);
            rows.push(row);
            columns.push(column);
        }
        if let PairLayout::Neighbours { pairs_axis, .. } = &self.pairs {
            let pass = |(a, b): (usize, usize)| OperandPair {
                row: rows[a].clone(),
                column: columns[b].clone(),
            };
            let passes = term_pairs(terms).map(pass).collect();
            let amx = kernel.amx_of(nest, pairs_axis, passes, RowRemainder::Vectors);
            let amx = amx.ok_or(Refusal::NotContiguous)?;
            return Ok(Bf16Gemm { fills, kernel: None, amx, fits: Expr::bool(true) });
        }
        self.contraction(nest, kernel, SplitTerms { fills, rows, columns })
    }

    /// The contraction of the buffers that `fills` fill, as a kernel of its own.
    fn contraction(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
        terms: SplitTerms,
    ) -> Result<Bf16Gemm, Refusal> {
        let SplitTerms { fills, rows, columns } = terms;
        let ExprKind::Call { args, .. } = kernel.stage.value.kind() else {
            return Err(Refusal::NoContraction);
        };
        let terms = rows.len() as i64;
        let operands = vec![rows[0].clone(), columns[0].clone(), args[2].clone()];
        let value = Expr::call(Intrin::DotBf16, operands);
        let reduce = self.summed(kernel, &kernel.row);
        let stage = Stage { reduce, value, ..kernel.stage.clone() };
        // Its positions are contiguous now, so more of them collapse into one axis.
        let products = Gemm::of(nest, &stage, kernel.epilogue.as_ref())?;
        let pass = |(a, b): (usize, usize)| OperandPair {
            row: of_buffer(&products.row, &rows[a]),
            column: of_buffer(&products.column, &columns[b]),
        };
        let depth = products.depth(nest).ok_or(Refusal::NotContiguous)?;
        let passes = term_pairs(terms).map(pass).collect();
        let amx = products.amx_of(nest, &depth, passes, RowRemainder::ZeroFilled);
        let mut amx = amx.ok_or(Refusal::NotContiguous)?;
        let bytes = match &self.pairs {
            PairLayout::Packed { .. } => 4,
            PairLayout::Neighbours { .. } | PairLayout::Blocks { .. } => 2 * terms,
        };
        let [row_bytes, column_bytes] =
            [&kernel.row, &kernel.column].map(|operand| kernel.elements(operand) * bytes);
        let few_columns = column_bytes.as_int().is_some_and(|n| n <= CACHE_BYTES);
        let few_rows = Analyzer::new().simplify(&row_bytes.le(CACHE_BYTES));
        amx.rows_first = few_columns && few_rows.as_int() != Some(1);
        let fits = if few_columns { Expr::bool(true) } else { few_rows };
        Ok(Bf16Gemm { fills, kernel: Some(products), amx, fits })
    }

    /// The reduced axes over pairs, in the order of `operand`'s terms: the innermost one last.
    fn summed(&self, kernel: &Gemm, operand: &Expr) -> Vec<Axis> {
        let own = kernel.stage.reduce.iter().filter(|a| mentions(operand, a.var));
        match &self.pairs {
            PairLayout::Neighbours { along, pairs_axis } => {
                own.filter(|a| a.var != *along).chain([pairs_axis]).cloned().collect()
            }
            PairLayout::Blocks { blocks, pairs, lane }
            | PairLayout::Packed { blocks, pairs, lane, .. } => {
                let outer = own.filter(|a| a.var != lane.var);
                let outer = outer.map(|a| if a.var == blocks.var { pairs } else { a });
                let last = match &self.pairs {
                    PairLayout::Packed { pairs_axis, .. } => pairs_axis,
                    _ => lane,
                };
                outer.chain([last]).cloned().collect()
            }
        }
    }

    /// The stage that fills a term of the row operand's whole buffer, and how it is read: at half
    /// of every distance.
    fn whole_row_term(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
        along: Var,
        pairs_axis: Var,
        term: i64,
    ) -> Result<(Stage, Expr), Refusal> {
        let ExprKind::Load { indices, .. } = kernel.row.kind() else {
            return Err(Refusal::NotContiguous);
        };
        let axes: Vec<&Axis> = kernel.stage.spatial.iter().chain(&kernel.stage.reduce).collect();
        let vars: Vec<Var> = axes.iter().map(|a| a.var).collect();
        let at = linear(&nest.func, self.row, indices, &vars).ok_or(Refusal::NotAffine)?;
        let facts = Analyzer::new();
        let half = |e: &Expr| {
            let half = facts.simplify(&e.clone().floordiv(2));
            same(&(half.clone() * 2), e).then_some(half).ok_or(Refusal::NotContiguous)
        };
        let mut position = half(&at.rest)?;
        for (var, coefficient) in vars.iter().zip(&at.coefficients) {
            position = match *var == along {
                true => position + pairs_axis,
                false => position + Expr::var(*var) * half(coefficient)?,
            };
        }
        let shape = &nest.func.buffers[self.row].shape;
        let count = shape.iter().fold(Expr::i64(1), |n, e| n * e.clone());
        let count = facts.simplify(&count.floordiv(2));
        let buffer = nest.scratch("row_term", DType::U32, vec![count.clone()]);
        let p = Axis { var: nest.var("p"), extent: count };
        let element = |half: i64| {
            let at = Expr::var(p.var) * 2 + half;
            Expr::load(self.row, vec![at], DType::F32)
        };
        // A buffer of one dimension has the same index.
        let value = vnni_pair(&element(0), &element(1), term);
        let read = Expr::load(buffer, vec![position], DType::U32);
        Ok((Stage::fill("terms", buffer, vec![p], value), read))
    }

    /// The stage that fills a term of the row operand, positions contiguous for each position in
    /// the kernel, and how it is read.
    fn row_term(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
        term: i64,
    ) -> Result<(Stage, Expr), Refusal> {
        let (axes, shape) = self.row_layout(nest, kernel)?;
        Ok(self.filled(nest, &kernel.row, TermBuffer { name: "row_term", axes, shape }, term))
    }

    /// The axes of the row operand's pairs, positions contiguous for each position in the kernel,
    /// and the shape of a buffer for them.
    fn row_layout(
        &self,
        nest: &Nest<'_>,
        kernel: &Gemm,
    ) -> Result<(Vec<Axis>, Vec<Expr>), Refusal> {
        let mut axes = self.summed(kernel, &kernel.row);
        let lane = axes.pop().ok_or(Refusal::NotContiguous)?;
        let mut shape: Vec<Expr> = axes.iter().map(|a| a.extent.clone()).collect();
        let rows = kernel.stage.spatial.iter().filter(|a| mentions(&kernel.row, a.var));
        let rows: Vec<Axis> = rows.cloned().collect();
        shape.extend(padded_rows(nest, kernel, &rows)?);
        axes.extend(rows);
        shape.push(lane.extent.clone());
        axes.push(lane);
        Ok((axes, shape))
    }

    /// The stage that interleaves the pairs of two blocks, and how they are read.
    fn interleaved_rows(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
    ) -> Result<(Stage, Expr), Refusal> {
        let PairLayout::Packed { blocks, pairs, lane, .. } = &self.pairs else {
            return Err(Refusal::NotContiguous);
        };
        let (mut axes, shape) = self.row_layout(nest, kernel)?;
        let read = axes.iter().map(|a| a.var.into()).collect();
        axes.pop();
        let (mut copies, inside) = copied(nest, &axes, &shape);
        let buffer = nest.scratch("row_words", DType::U32, shape);
        let read = Expr::load(buffer, read, DType::U32);
        let half = Axis { var: nest.var("half"), extent: 2.into() };
        let within = Axis { var: nest.var("c"), extent: lane.extent.clone() };
        let of = |v: Var| axes.iter().position(|a| a.var == v).map(|n| Expr::from(copies[n].var));
        let value = kernel.row.substitute(&|v| match v {
            v if v == blocks.var => Some(of(pairs.var)? * 2 + half.var),
            v if v == lane.var => Some(within.var.into()),
            v => of(v),
        });
        let value = Expr::if_then_else(inside, value, Expr::int(0, DType::U32));
        let mut indices: Vec<Expr> = copies.iter().map(|a| a.var.into()).collect();
        indices.push(Expr::from(half.var) * (SIDE / 2) + within.var);
        copies.extend([half, within]);
        Ok((Stage { indices, ..Stage::fill("words", buffer, copies, value) }, read))
    }

    /// The load of a column's pairs, of two blocks one after the other.
    fn interleaved_columns(&self, kernel: &Gemm) -> Expr {
        let PairLayout::Packed { blocks, pairs, lane, pairs_axis } = &self.pairs else {
            return kernel.column.clone();
        };
        kernel.column.substitute(&|v| match v {
            v if v == blocks.var => Some(Expr::from(pairs.var) * 2),
            v if v == lane.var => Some(pairs_axis.var.into()),
            _ => None,
        })
    }

    /// The stage that fills a term of the column operand over its own axes, lanes innermost, and
    /// how it is read.
    fn column_term(&self, nest: &mut Nest<'_>, kernel: &Gemm, term: i64) -> (Stage, Expr) {
        let lane = match &kernel.columns {
            TiledAxis::Plain(axis) => axis.var,
            TiledAxis::Panels { lane, .. } => *lane,
            TiledAxis::Blocks { lane, .. } => lane.var,
        };
        let own = |a: &&Axis| mentions(&kernel.column, a.var);
        let spatial = kernel.stage.spatial.iter().filter(own);
        let (last, outer): (Vec<&Axis>, Vec<&Axis>) = spatial.partition(|a| a.var == lane);
        let summed = self.summed(kernel, &kernel.column);
        let axes: Vec<Axis> = outer.into_iter().chain(&summed).chain(last).cloned().collect();
        let shape = axes.iter().map(|a| a.extent.clone()).collect();
        self.filled(nest, &kernel.column, TermBuffer { name: "column_term", axes, shape }, term)
    }

    /// The stage that fills a buffer of `shape` with a term over `axes`, and how it is read.
    fn filled(
        &self,
        nest: &mut Nest<'_>,
        operand: &Expr,
        buffer: TermBuffer,
        term: i64,
    ) -> (Stage, Expr) {
        let TermBuffer { name, axes, shape } = buffer;
        let (copies, inside) = copied(nest, &axes, &shape);
        let buffer = nest.scratch(name, DType::U32, shape);
        let value = self.term_pair(operand, term).substitute(&|v| {
            let at = axes.iter().position(|a| a.var == v)?;
            Some(copies[at].var.into())
        });
        let value = Expr::if_then_else(inside, value, Expr::int(0, DType::U32));
        let at = axes.iter().map(|a| a.var.into()).collect();
        (Stage::fill("terms", buffer, copies, value), Expr::load(buffer, at, DType::U32))
    }

    /// A VNNI pair of an operand's term; past an odd last block there is a zero.
    fn term_pair(&self, operand: &Expr, term: i64) -> Expr {
        let (axis, pairs_axis) = match &self.pairs {
            PairLayout::Neighbours { along, pairs_axis } => (*along, pairs_axis.var),
            PairLayout::Blocks { blocks, pairs, .. } | PairLayout::Packed { blocks, pairs, .. } => {
                (blocks.var, pairs.var)
            }
        };
        let element = |half: i64| {
            operand.substitute(&|v| (v == axis).then(|| Expr::from(pairs_axis) * 2 + half))
        };
        let high = match &self.pairs {
            PairLayout::Blocks { blocks, .. }
                if blocks.extent.as_int().is_some_and(|n| n % 2 != 0) =>
            {
                let inside = (Expr::from(pairs_axis) * 2 + 1).lt(blocks.extent.clone());
                Expr::if_then_else(inside, element(1), Expr::constant(0.0, DType::F32))
            }
            _ => element(1),
        };
        vnni_pair(&element(0), &high, term)
    }

    /// Whether at most a quarter of the multiply-adds are spent on padding: remaining rows or
    /// zeros.
    pub fn fills_tiles(&self, kernel: &Gemm, by: &Bf16Gemm) -> Expr {
        let rows = by.kernel.as_ref().unwrap_or(kernel).rows.as_ref();
        let rows = rows.map_or(Expr::i64(1), |cut| cut.extent().clone());
        match &self.pairs {
            PairLayout::Neighbours { .. } => {
                (rows.clone().floordiv(SIDE) * (SIDE * 4)).ge(rows * 3)
            }
            PairLayout::Blocks { blocks, pairs, .. } | PairLayout::Packed { blocks, pairs, .. } => {
                let filled = rows.clone().ceildiv(SIDE) * SIDE * pairs.extent.clone() * 2;
                (rows * blocks.extent.clone() * 4).ge(filled * 3)
            }
        }
    }
}

impl Bf16Gemm {
    /// The nests that fill the buffers, and that of the contraction.
    pub fn nests(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
        threads: Parallel,
    ) -> Result<Stmt, Refusal> {
        let mut nests = vec![];
        for fill in &self.fills {
            nests.push(elementwise(nest, fill, threads)?);
        }
        let kernel = self.kernel.as_ref().unwrap_or(kernel);
        let products = kernel.nest(nest, Some(&self.amx), threads)?;
        nests.push(self.amx.allocated(&products));
        Ok(Stmt::Seq(nests))
    }
}

/// The pairs of terms that are multiplied. Those with a term in common follow each other, so that it stays in its
/// registers.
fn term_pairs(terms: i64) -> impl Iterator<Item = (usize, usize)> {
    let pairs = (0..terms).flat_map(move |b| (0..terms - b).rev().map(move |a| (a, b)));
    pairs.map(|(a, b)| (a as usize, b as usize))
}

/// Axes that fill a buffer of `shape`, and where there is an element of `axes`: elsewhere are zeros.
fn copied(nest: &mut Nest<'_>, axes: &[Axis], shape: &[Expr]) -> (Vec<Axis>, Expr) {
    let mut inside = Expr::bool(true);
    let each = axes.iter().zip(shape).map(|(axis, extent)| {
        let copy = Axis { var: nest.var("c"), extent: extent.clone() };
        if axis.extent != *extent {
            inside = inside.clone().and(Expr::from(copy.var).lt(axis.extent.clone()));
        }
        copy
    });
    (each.collect(), inside)
}

/// The shape of a row term's positions, with padding behind the last one for the rows that fill a
/// tile.
fn padded_rows(nest: &Nest<'_>, kernel: &Gemm, rows: &[Axis]) -> Result<Vec<Expr>, Refusal> {
    let Stage { buffer, indices, .. } = &kernel.stage;
    let vars: Vec<Var> = rows.iter().map(|a| a.var).collect();
    let store = linear(&nest.func, *buffer, indices, &vars).ok_or(Refusal::NotAffine)?;
    let mut extents: Vec<Expr> = rows.iter().map(|a| a.extent.clone()).collect();
    // Results whose axes run on from one to the next will be one axis.
    let mut first = rows.len().checked_sub(1).ok_or(Refusal::NotContiguous)?;
    let mut count = extents[first].clone();
    while let Some(above) = first.checked_sub(1)
        && same(
            &store.coefficients[above],
            &(store.coefficients[first].clone() * extents[first].clone()),
        )
    {
        first = above;
        count = count * extents[first].clone();
    }
    if count.as_int().is_none_or(|n| n % SIDE != 0) {
        let inner = extents[first + 1..].iter().try_fold(1, |n, e| Some(n * e.as_int()?.max(1)));
        let padding = (SIDE - 1 + inner.unwrap_or(1) - 1) / inner.unwrap_or(1);
        extents[first] = Analyzer::new().simplify(&(extents[first].clone() + padding));
    }
    Ok(extents)
}

/// `of`, loaded from the buffer of `like`, which has the same layout.
fn of_buffer(of: &Expr, like: &Expr) -> Expr {
    match (of.kind(), like.kind()) {
        (ExprKind::Load { indices, dtype, .. }, ExprKind::Load { buffer, .. }) => {
            Expr::load(*buffer, indices.clone(), *dtype)
        }
        _ => of.clone(),
    }
}

/// A VNNI pair of two elements' terms, the first one's in the lower half.
fn vnni_pair(low: &Expr, high: &Expr, term: i64) -> Expr {
    let rest = |x: &Expr| {
        (0..term).fold(x.clone(), |rest, _| {
            let first = rest.clone().cast(DType::BF16).cast(DType::F32);
            rest - first
        })
    };
    Expr::call(Intrin::PairBf16, vec![rest(low), rest(high)])
}
