//! Products of float32 as sums of products of bfloat16 in the CPU's matrix registers.
//!
//! ```text
//! look at the exponents of both operands
//! if no sum can overflow, and none can be subnormal:
//!   a0, a1, a2 = the terms of a;  b0, b1, b2 = those of b      in pairs along the depth
//!   out = a2 b0 + a1 b1 + a0 b2 + a1 b0 + a0 b1 + a0 b0         by `tiles`
//! else:
//!   out = a b                                                   by `gemm`
//! ```
//! A term is what is left of an element by those before it, rounded to bfloat16. Three of them miss
//! an element by 2^-26 of it at most, and the products that are left out are 2^-24 of a product at
//! most; sums over 32 and more have larger roundings in float32's own order. In `f32-fast` there are
//! two terms and three products, which miss a product by 2^-15 at most. The registers know no
//! subnormal numbers; where all products are multiples of the smallest normal number, every sum is,
//! so there are none to miss. Anything else (an infinity, NaN, exponents far apart) takes
//! float32's own nest, so such inputs give what they give on other CPUs. Where terms are is in `terms`.

use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Buffer, DType, Expr, ExprKind, ForKind, Intrin, Stmt};

use super::Refusal;
use super::gemm::Gemm;
use super::nest::{Nest, Parallel};
use super::stage::{Axis, Stage};
use super::terms::{ByTerms, Operands};
use crate::precision::BF16X3_ATTR;

/// Biased exponents of float32.
const BIAS: i64 = 127;
/// The largest exponent of an element that is split: its first term is finite.
const HIGHEST: i64 = 100;
/// The smallest: its last bit, 23 below, is a normal number.
const LOWEST: i64 = -100;
/// The smallest sum of two factors' exponents: the product of their last bits is a normal number.
const LOWEST_PRODUCT: i64 = -80;
/// No sum is larger than 2 to this.
const HIGHEST_SUM: i64 = 126;

/// An extent that is known only when the kernel runs, at its largest.
const MANY: i64 = 1 << 12;

/// How often each element that is split has to be used, by products of terms. A unit of vectors
/// does 32 products of float32 in a cycle and the matrix registers some 300 of bfloat16; an element
/// takes a cycle to look at and to split.
fn least_uses(terms: i64) -> i64 {
    if terms == 3 { 96 } else { 48 }
}

/// How often each word that is copied beside another block's has to be used. Half registers do some
/// 75 products of pairs in a cycle, and whole ones 150, vectors fewer than either; a copy takes a
/// third of a cycle.
const WORD_USES: i64 = 48;

/// The nest of a contraction of pairs in blocks, whose words are laid side by side so that they fill
/// matrix registers, and where that is faster.
pub fn words(nest: &mut Nest<'_>, kernel: &Gemm, threads: Parallel) -> Option<(Expr, Stmt)> {
    if kernel.op != Intrin::DotBf16 || !nest.target.has_amx_bf16() {
        return None;
    }
    let operands = Operands::of_words(nest, kernel).ok()?;
    let by = operands.by_terms(nest, kernel, 1).ok()?;
    let axes = kernel.stage.spatial.iter().chain(&kernel.stage.reduce);
    let products = axes.fold(Expr::i64(1), |n, a| n * a.extent.clone());
    let often = products.ge(kernel.elements(&kernel.row) * WORD_USES);
    let worth = often.and(operands.fills_registers(kernel, &by)).and(by.fits.clone());
    let worth = Analyzer::new().simplify(&worth);
    if worth.as_int() == Some(0) {
        return None;
    }
    let stmt = by.nests(nest, kernel, threads).ok()?;
    let name = &kernel.stage.name;
    nest.steps.push(format!("{name}: words of two blocks side by side"));
    Some((worth, stmt))
}

/// The nest of a contraction of float32 by terms where that is faster.
pub fn splits(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Stmt, Refusal> {
    let Plan { kernel, operands, by, terms, worth } = Plan::of(nest, stage, epilogue)?;
    let by_terms = by.nests(nest, &kernel, threads)?;
    let plain = kernel.nest(nest, None, threads)?;
    let name = &kernel.stage.name;
    nest.steps.push(format!("{name}: float32 as {terms} terms of bfloat16 where exponents allow"));

    let ranges = nest.local("ranges", DType::I32, &[4]);
    let [a, b] = [operands.row, operands.column];
    let scans = Stmt::Seq(vec![scan(nest, a, ranges, 0), scan(nest, b, ranges, 2)]);
    let cond = in_range(nest, ranges, &kernel.stage.reduce)?;
    let either =
        Stmt::If { cond, then: Box::new(by_terms), otherwise: Some(Box::new(plain.clone())) };
    let looked = Stmt::Allocate { buffer: ranges, body: Box::new(Stmt::Seq(vec![scans, either])) };
    Ok(match worth.as_int() {
        Some(_) => looked,
        None => Stmt::If { cond: worth, then: Box::new(looked), otherwise: Some(Box::new(plain)) },
    })
}

/// Whether the products of a stage become those of terms, at some extents at least.
pub fn suit(nest: &Nest<'_>, stage: &Stage) -> bool {
    let (func, target) = (nest.func.clone(), nest.target);
    let mut nest = Nest { func, target, enough: None, steps: vec![] };
    Plan::of(&mut nest, stage, None).is_ok()
}

/// Products, and those of terms for them.
struct Plan {
    kernel: Gemm,
    operands: Operands,
    by: ByTerms,
    terms: i64,
    /// Where these are faster.
    worth: Expr,
}

impl Plan {
    fn of(nest: &mut Nest<'_>, stage: &Stage, epilogue: Option<&Stage>) -> Result<Plan, Refusal> {
        let kernel = Gemm::of(nest, stage, epilogue)?;
        if kernel.op != Intrin::Fma {
            return Err(Refusal::ElementType);
        }
        let terms = if nest.func.attrs.contains_key(BF16X3_ATTR) { 2 } else { 3 };
        let operands = Operands::of(nest, &kernel)?;
        let by = operands.by_terms(nest, &kernel, terms)?;
        let worth = worth(&operands, &kernel, &by, terms);
        let facts = Analyzer::new();
        // Many rows use an element of the columns more often, never less.
        let most = worth.substitute(&|_| Some(Expr::i64(MANY)));
        if facts.simplify(&most).as_int() == Some(0) {
            return Err(Refusal::TooSmall);
        }
        let worth = facts.simplify(&worth.and(by.fits.clone()));
        if worth.as_int() == Some(0) {
            return Err(Refusal::OutOfCache);
        }
        Ok(Plan { kernel, operands, by, terms, worth })
    }
}

/// Whether it is faster: every element has to be used often enough, and few products may be of what
/// fills registers up. The same for extents that are known and those that are not.
fn worth(operands: &Operands, kernel: &Gemm, by: &ByTerms, terms: i64) -> Expr {
    let elements = kernel.elements(&kernel.row) + kernel.elements(&kernel.column);
    let axes = kernel.stage.spatial.iter().chain(&kernel.stage.reduce);
    let products = axes.fold(Expr::i64(1), |n, a| n * a.extent.clone());
    let often = products.ge(elements * least_uses(terms));
    Analyzer::new().simplify(&often.and(operands.fills_registers(kernel, by)))
}

/// Stores the largest absolute value of a buffer's elements, and the smallest but zero, as bits.
fn scan(nest: &mut Nest<'_>, buffer: Buffer, ranges: Buffer, at: i64) -> Stmt {
    let lanes = nest.lanes(4);
    let shape = &nest.func.buffers[buffer].shape;
    let count = shape.iter().fold(Expr::i64(1), |n, e| n * e.clone());
    let count = Analyzer::new().simplify(&count);
    let [most, least] = ["most", "least"].map(|name| nest.local(name, DType::I32, &[lanes]));
    let int = |n: i64| Expr::int(n, DType::I32);
    let none = i64::from(i32::MAX);
    let look = |nest: &mut Nest<'_>, place: Expr, lane: Expr| {
        let bits = Expr::load(buffer, vec![place], DType::F32).reinterpret(DType::I32);
        let bits = Expr::call(Intrin::BitAnd, vec![bits, int(none)]);
        let var = nest.var_of("bits", DType::I32);
        let bound = Expr::new(ExprKind::Var { var, dtype: DType::I32 });
        let some = Expr::select(bound.clone().equal(int(0)), int(none), bound.clone());
        let update = |nest: &Nest<'_>, of: Buffer, op: BinOp, value: Expr| {
            let old = nest.func.load(of, vec![lane.clone()]);
            Stmt::store(of, vec![lane.clone()], Expr::binary(op, old, value))
        };
        let both =
            vec![update(nest, most, BinOp::Max, bound), update(nest, least, BinOp::Min, some)];
        Stmt::Let { var, value: bits, body: Box::new(Stmt::Seq(both)) }
    };
    let start = nest.lanes_of(lanes, |_, l| {
        Stmt::Seq(vec![
            Stmt::store(most, vec![l.clone()], int(0)),
            Stmt::store(least, vec![l], int(none)),
        ])
    });
    let whole = count.clone().floordiv(lanes);
    let main = nest.repeat(ForKind::Serial, "v", whole.clone(), |nest, v| {
        nest.lanes_of(lanes, |nest, l| look(nest, v * lanes + l.clone(), l))
    });
    let first = whole * lanes;
    let rest = nest.repeat(ForKind::Serial, "v", count - first.clone(), |nest, v| {
        look(nest, first.clone() + v, Expr::i64(0))
    });
    let finish = nest.repeat(ForKind::Serial, "l", lanes, |nest, l| {
        let fold = |to: i64, of: Buffer, op: BinOp| {
            let (old, new) =
                (nest.func.load(ranges, vec![to.into()]), nest.func.load(of, vec![l.clone()]));
            Stmt::store(ranges, vec![to.into()], Expr::binary(op, old, new))
        };
        Stmt::Seq(vec![fold(at, most, BinOp::Max), fold(at + 1, least, BinOp::Min)])
    });
    let clear = Stmt::Seq(vec![
        Stmt::store(ranges, vec![at.into()], int(0)),
        Stmt::store(ranges, vec![(at + 1).into()], int(none)),
    ]);
    let body = Stmt::Seq(vec![start, main, rest, clear, finish]);
    [least, most]
        .into_iter()
        .fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
}

/// Whether terms do: see the module's header.
fn in_range(nest: &Nest<'_>, ranges: Buffer, reduce: &[Axis]) -> Result<Expr, Refusal> {
    let known = |n: i64, a: &Axis| a.extent.as_int().and_then(|e| n.checked_mul(e));
    let products = reduce.iter().try_fold(1, known).ok_or(Refusal::NotAffine)?;
    let sum_bits = i64::from(u64::BITS - (products as u64).leading_zeros());
    let int = |n: i64| Expr::int(n, DType::I32);
    let exponent = |at: i64| {
        let bits = nest.func.load(ranges, vec![at.into()]);
        Expr::call(Intrin::Shr, vec![bits, int(23)])
    };
    let [a_most, a_least, b_most, b_least] = [0, 1, 2, 3].map(exponent);
    let high = |e: &Expr| e.clone().le(int(HIGHEST + BIAS));
    let low = |e: &Expr| e.clone().ge(int(LOWEST + BIAS));
    let conditions = [
        high(&a_most),
        high(&b_most),
        low(&a_least),
        low(&b_least),
        (a_most + b_most).le(int(HIGHEST_SUM + 2 * BIAS - 2 - sum_bits)),
        (a_least + b_least).ge(int(LOWEST_PRODUCT + 2 * BIAS)),
    ];
    Ok(conditions.into_iter().fold(Expr::bool(true), Expr::and))
}
