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
//! float32's own nest, so such inputs give what they give on other CPUs.

use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Buffer, DType, Expr, ExprKind, ForKind, Intrin, Stmt, Var};

use super::affine::{linear, mentions, same};
use super::cut::Cut;
use super::gemm::Gemm;
use super::map::map;
use super::nest::{Nest, Parallel};
use super::stage::{Axis, Stage};
use super::tiles::Pass;
use super::{PRODUCTS, Refusal};

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
const MANY: i64 = 1 << 20;

/// How often each element that is split has to be used, by products of terms. A unit of vectors
/// does 32 products of float32 in a cycle and the matrix registers some 300 of bfloat16; an element
/// takes a cycle to look at and to split.
fn least_uses(terms: i64) -> i64 {
    if terms == 3 { 96 } else { 48 }
}

/// The nest of a contraction of float32 by terms where that is faster.
pub fn splits(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Stmt, Refusal> {
    let kernel = Gemm::of(nest, stage, epilogue)?;
    if kernel.op != Intrin::Fma {
        return Err(Refusal::ElementType);
    }
    let terms = if nest.func.attrs.contains_key(PRODUCTS) { 2 } else { 3 };
    let operands = Operands::of(nest, &kernel)?;
    let worth = operands.worth(&kernel, terms);
    // Many rows use an element of the columns more often, never less.
    let most = worth.substitute(&|_| Some(Expr::i64(MANY)));
    if Analyzer::new().simplify(&most).as_int() == Some(0) {
        return Err(Refusal::TooSmall);
    }
    let (fills, passes) = operands.terms(nest, &kernel, terms, threads)?;
    let depth = operands.depth.clone();
    let unit = kernel.unit_of(nest, &depth, passes).ok_or(Refusal::NotContiguous)?;
    let products = kernel.nest(nest, Some(&unit), threads)?;
    let products = unit.allocated(&products);
    let plain = kernel.nest(nest, None, threads)?;
    let name = &kernel.stage.name;
    nest.steps.push(format!("{name}: float32 as {terms} terms of bfloat16 where exponents allow"));

    let ranges = nest.local("ranges", DType::I32, &[4]);
    let [a, b] = [operands.row, operands.column];
    let scans = Stmt::Seq(vec![scan(nest, a, ranges, 0), scan(nest, b, ranges, 2)]);
    let cond = in_range(nest, ranges, &kernel.stage.reduce)?;
    let by_terms = Stmt::Seq(fills.into_iter().chain([products]).collect());
    let either =
        Stmt::If { cond, then: Box::new(by_terms), otherwise: Some(Box::new(plain.clone())) };
    let looked = Stmt::Allocate { buffer: ranges, body: Box::new(Stmt::Seq(vec![scans, either])) };
    Ok(match worth.as_int() {
        Some(_) => looked,
        None => Stmt::If { cond: worth, then: Box::new(looked), otherwise: Some(Box::new(plain)) },
    })
}

/// What is split.
struct Operands {
    row: Buffer,
    column: Buffer,
    /// The axis that pairs lie along, and its half: the pairs.
    along: Var,
    depth: Axis,
    rows: Axis,
}

impl Operands {
    fn of(nest: &mut Nest<'_>, kernel: &Gemm) -> Result<Operands, Refusal> {
        let Some(Cut::Plain(rows)) = &kernel.rows else { return Err(Refusal::NotContiguous) };
        let load = |e: &Expr| match e.kind() {
            ExprKind::Load { buffer, indices, dtype: DType::F32 } => Ok((*buffer, indices.clone())),
            _ => Err(Refusal::NotContiguous),
        };
        let ((row, at), (column, _)) = (load(&kernel.row)?, load(&kernel.column)?);
        let along = kernel.stage.reduce.iter().rev().find(|a| {
            let linear = linear(&nest.func, row, &at, &[a.var]);
            linear.is_some_and(|l| l.coefficients[0].as_int() == Some(1))
        });
        let along = along.ok_or(Refusal::NotContiguous)?.clone();
        let extent = along.extent.as_int().ok_or(Refusal::NotAffine)?;
        // Whole registers: half of one has the rate of vectors.
        if extent % 32 != 0 || kernel.both || kernel.spread {
            return Err(Refusal::NotContiguous);
        }
        let depth = Axis { var: nest.var("k"), extent: (extent / 2).into() };
        let rows = rows.clone();
        Ok(Operands { row, column, along: along.var, depth, rows })
    }

    /// Whether it is faster: every element has to be used often enough, and few rows may be left
    /// over. The same for extents that are known and those that are not.
    fn worth(&self, kernel: &Gemm, terms: i64) -> Expr {
        let count = |axes: &mut dyn Iterator<Item = &Axis>| {
            axes.fold(Expr::i64(1), |n, a| n * a.extent.clone())
        };
        let axes = || kernel.stage.spatial.iter().chain(&kernel.stage.reduce);
        let of = |e: &Expr| count(&mut axes().filter(|a| mentions(e, a.var)));
        let elements = of(&kernel.row) + of(&kernel.column);
        let often = count(&mut axes()).ge(elements * least_uses(terms));
        let rows = self.rows.extent.clone();
        let whole = rows.clone().floordiv(16) * 64;
        let facts = Analyzer::new();
        facts.simplify(&often.and(whole.ge(rows * 3)))
    }

    /// The terms of both operands, and the products of them, small ones first.
    fn terms(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
        terms: i64,
        threads: Parallel,
    ) -> Result<(Vec<Stmt>, Vec<Pass>), Refusal> {
        let (mut fills, mut rows, mut columns) = (vec![], vec![], vec![]);
        for term in 0..terms {
            let (fill, row) = self.row_term(nest, kernel, term)?;
            fills.push(map(nest, &fill, threads)?);
            let (fill, column) = self.column_term(nest, kernel, term);
            fills.push(map(nest, &fill, threads)?);
            rows.push(row);
            columns.push(column);
        }
        let order = (0..terms).rev().flat_map(|sum| (0..=sum).map(move |b| (sum - b, b)));
        let pass = |(a, b): (i64, i64)| Pass {
            row: rows[a as usize].clone(),
            column: columns[b as usize].clone(),
        };
        Ok((fills, order.map(pass).collect()))
    }

    /// The stage that fills a term of the row operand's whole buffer, and how it is read: at half
    /// of every distance.
    fn row_term(
        &self,
        nest: &mut Nest<'_>,
        kernel: &Gemm,
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
        let mut place = half(&at.rest)?;
        for (var, coefficient) in vars.iter().zip(&at.coefficients) {
            place = match *var == self.along {
                true => place + self.depth.var,
                false => place + Expr::var(*var) * half(coefficient)?,
            };
        }
        let shape = &nest.func.buffers[self.row].shape;
        let count = shape.iter().fold(Expr::i64(1), |n, e| n * e.clone());
        let words = facts.simplify(&count.floordiv(2));
        let buffer = nest.scratch("row_term", DType::U32, vec![words.clone()]);
        let p = Axis { var: nest.var("p"), extent: words };
        let element = |half: i64| {
            let at = Expr::var(p.var) * 2 + half;
            Expr::load(self.row, vec![at], DType::F32)
        };
        // A buffer of one dimension has the same index.
        let value = pair(&element(0), &element(1), term);
        let read = Expr::load(buffer, vec![place], DType::U32);
        Ok((Stage::fill("terms", buffer, vec![p], value), read))
    }

    /// The stage that fills a term of the column operand over its own axes, lanes innermost, and
    /// how it is read.
    fn column_term(&self, nest: &mut Nest<'_>, kernel: &Gemm, term: i64) -> (Stage, Expr) {
        let lane = match &kernel.columns {
            Cut::Plain(axis) => axis.var,
            Cut::Panels { lane, .. } => *lane,
            Cut::Blocks { lane, .. } => lane.var,
        };
        let own = |a: &&Axis| mentions(&kernel.column, a.var);
        let spatial = kernel.stage.spatial.iter().filter(own);
        let (last, outer): (Vec<&Axis>, Vec<&Axis>) = spatial.partition(|a| a.var == lane);
        let reduce = kernel.stage.reduce.iter().filter(own).filter(|a| a.var != self.along);
        let axes: Vec<Axis> =
            outer.into_iter().chain(reduce).chain([&self.depth]).chain(last).cloned().collect();
        let shape = axes.iter().map(|a| a.extent.clone()).collect();
        let buffer = nest.scratch("column_term", DType::U32, shape);
        let copies: Vec<Axis> =
            axes.iter().map(|a| Axis { var: nest.var("c"), extent: a.extent.clone() }).collect();
        let element = |half: i64| {
            kernel.column.substitute(&|v| {
                let own = if v == self.along { self.depth.var } else { v };
                let copy: Expr = copies[axes.iter().position(|a| a.var == own)?].var.into();
                Some(if v == self.along { copy * 2 + half } else { copy })
            })
        };
        let value = pair(&element(0), &element(1), term);
        let at = axes.iter().map(|a| a.var.into()).collect();
        (Stage::fill("terms", buffer, copies, value), Expr::load(buffer, at, DType::U32))
    }
}

/// Two elements' terms in a word, the first one's in its lower half.
fn pair(low: &Expr, high: &Expr, term: i64) -> Expr {
    let rest = |x: &Expr| {
        (0..term).fold(x.clone(), |rest, _| {
            let first = rest.clone().cast(DType::BF16).cast(DType::F32);
            rest - first
        })
    };
    Expr::call(Intrin::PairBf16, vec![rest(low), rest(high)])
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
