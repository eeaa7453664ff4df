//! Split-bf16: float32 contractions emulated by bfloat16 contractions on AMX tiles (bf16x3), in precision
//! `f32-fast`.
//!
//! ```text
//! look at the exponents of both operands
//! if no sum can overflow, and none can be subnormal:
//!   a0, a1 = the terms of a;  b0, b1 = those of b              VNNI-packed along the depth
//!   for each 32 of the depth
//!     out += a1 b0 + a0 b0 + a0 b1                              by AMX tiles
//! else:
//!   out = a b                                                   by `gemm`
//! ```
//! A term is the rest of an element after the terms before it, rounded to bfloat16. Two terms and three
//! products miss a product by 2^-15 at most. AMX flushes subnormal numbers; where all products are multiples of the smallest normal
//! number, every sum is, so there are none to miss. Anything else (an infinity, NaN, exponents far
//! apart) takes float32's own nest, so such inputs give the same results as on other CPUs. The
//! module `operands` lays out the terms.
//!
//! Decision: docs/decisions/0043-split-bf16.md

use reflex_tir::arith::Analyzer;
use reflex_tir::{DType, Expr, Intrin, Stmt};

use crate::precision::SPLIT_BF16_ATTR;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::Stage;
use crate::schedule::gemm::kernel::Gemm;
use crate::schedule::split_bf16::exponents::{in_range, scan};
use crate::schedule::split_bf16::operands::{Bf16Gemm, SplitOperands};

/// The largest value that is assumed for a symbolic extent.
const ASSUMED_MAX_EXTENT: i64 = 1 << 12;

/// The terms of an element.
const TERMS: i64 = 2;

/// Multiply-adds for which each element that is split has to be used. Measured on a Xeon with AMX: at 60 uses the split
/// form takes as long as float32's own, at 96 to 118 0.8 of it, at 512 half.
const MIN_USES: i64 = 96;

/// Multiply-adds of a result. Sums go from tiles through memory: with 64 the split form took 1.2 of the time of
/// float32's own, with 256 0.8.
const MIN_DEPTH: i64 = 128;

/// Multiply-adds for which each pair that is interleaved with another block's has to be used. Half
/// tiles do some 75 multiply-adds of pairs in a cycle, whole ones 150, vectors fewer than either; a
/// copy takes a third of a cycle.
const MIN_PAIR_USES: i64 = 48;

/// The nest of a VNNI-packed contraction in a blocked layout, with the pairs of two blocks
/// interleaved so that they fill AMX tiles, and the condition under which that is faster.
pub fn interleaved_vnni(
    nest: &mut Nest<'_>,
    kernel: &Gemm,
    threads: Parallel,
) -> Option<(Expr, Stmt)> {
    if kernel.op != Intrin::DotBf16 || !nest.has_amx_bf16() {
        return None;
    }
    let operands = SplitOperands::of_vnni(nest, kernel).ok()?;
    let by = operands.bf16_gemm(nest, kernel, 1).ok()?;
    let axes = kernel.stage.spatial.iter().chain(&kernel.stage.reduce);
    let products = axes.fold(Expr::i64(1), |n, a| n * a.extent.clone());
    let often = products.ge(kernel.elements(&kernel.row) * MIN_PAIR_USES);
    let worth = often.and(operands.fills_tiles(kernel, &by)).and(by.fits.clone());
    let worth = Analyzer::new().simplify(&worth);
    if worth.as_int() == Some(0) {
        return None;
    }
    let stmt = by.nests(nest, kernel, threads).ok()?;
    let name = &kernel.stage.name;
    nest.steps.push(format!("{name}: VNNI pairs of two blocks interleaved"));
    Some((worth, stmt))
}

/// The nest of a float32 contraction by split-bf16 where that is faster.
pub fn split_bf16(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Stmt, Refusal> {
    let SplitGemm { kernel, operands, by, worth } = SplitGemm::of(nest, stage, epilogue)?;
    let emulated = by.nests(nest, &kernel, threads)?;
    let plain = kernel.nest(nest, None, threads)?;
    let name = &kernel.stage.name;
    nest.steps.push(format!("{name}: bf16x3 where exponents allow"));

    let ranges = nest.local("ranges", DType::I32, &[4]);
    let [a, b] = [operands.row, operands.column];
    let scans = Stmt::Seq(vec![scan(nest, a, ranges, 0), scan(nest, b, ranges, 2)]);
    let cond = in_range(nest, ranges, &kernel.stage.reduce)?;
    let either =
        Stmt::If { cond, then: Box::new(emulated), otherwise: Some(Box::new(plain.clone())) };
    let looked = Stmt::Allocate { buffer: ranges, body: Box::new(Stmt::Seq(vec![scans, either])) };
    Ok(match worth.as_int() {
        Some(_) => looked,
        None => Stmt::If { cond: worth, then: Box::new(looked), otherwise: Some(Box::new(plain)) },
    })
}

/// Whether contractions of float32 may be split: in `f32-fast`, where there are AMX tiles.
pub fn is_allowed(nest: &Nest<'_>) -> bool {
    nest.has_amx_bf16() && nest.func.attrs.contains_key(SPLIT_BF16_ATTR)
}

/// Whether split-bf16 takes a stage, at some extents at least.
pub fn suits(nest: &Nest<'_>, stage: &Stage) -> bool {
    let mut nest = Nest::new(nest.func.clone(), nest.target);
    SplitGemm::of(&mut nest, stage, None).is_ok()
}

/// A contraction, and its split-bf16 form.
struct SplitGemm {
    kernel: Gemm,
    operands: SplitOperands,
    by: Bf16Gemm,
    /// The condition under which the split form is faster.
    worth: Expr,
}

impl SplitGemm {
    fn of(
        nest: &mut Nest<'_>,
        stage: &Stage,
        epilogue: Option<&Stage>,
    ) -> Result<SplitGemm, Refusal> {
        let kernel = Gemm::of(nest, stage, epilogue)?;
        let depth =
            kernel.stage.reduce.iter().try_fold(1, |n: i64, a| n.checked_mul(a.extent.as_int()?));
        if depth.is_none_or(|depth| depth < MIN_DEPTH) {
            return Err(Refusal::TooSmall);
        }
        // Terms of codes would be copies of all weights.
        if kernel.op != Intrin::Fma || kernel.has_codes() {
            return Err(Refusal::ElementType);
        }
        let operands = SplitOperands::of(nest, &kernel)?;
        let by = operands.bf16_gemm(nest, &kernel, TERMS)?;
        let worth = worth(&operands, &kernel, &by);
        let facts = Analyzer::new();
        // Many rows use an element of the columns more often, never less.
        let most = worth.substitute(&|_| Some(Expr::i64(ASSUMED_MAX_EXTENT)));
        if facts.simplify(&most).as_int() == Some(0) {
            return Err(Refusal::TooSmall);
        }
        let worth = facts.simplify(&worth.and(by.fits.clone()));
        if worth.as_int() == Some(0) {
            return Err(Refusal::OutOfCache);
        }
        Ok(SplitGemm { kernel, operands, by, worth })
    }
}

/// The condition under which split-bf16 is faster: every element is used often enough, and few
/// multiply-adds are spent on padding. It is the same for static and for symbolic extents.
fn worth(operands: &SplitOperands, kernel: &Gemm, by: &Bf16Gemm) -> Expr {
    let elements = kernel.elements(&kernel.row) + kernel.elements(&kernel.column);
    let axes = kernel.stage.spatial.iter().chain(&kernel.stage.reduce);
    let products = axes.fold(Expr::i64(1), |n, a| n * a.extent.clone());
    let often = products.ge(elements * MIN_USES);
    Analyzer::new().simplify(&often.and(operands.fills_tiles(kernel, by)))
}
