//! The exponents of operands, looked at when a kernel runs: split-bf16 is exact enough only where no
//! sum can overflow and none can be subnormal.

use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Buffer, DType, Expr, ExprKind, ForKind, Intrin, Stmt};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Axis;

/// Biased exponents of float32.
const BIAS: i64 = 127;

/// The largest exponent of an element that is split: its first bfloat16 term is finite.
const HIGHEST: i64 = 100;

/// The smallest: its last bit, 23 below, is a normal number.
const LOWEST: i64 = -100;

/// The smallest sum of two operands' exponents: the product of their last bits is a normal number.
const LOWEST_PRODUCT: i64 = -80;

/// No sum is larger than 2 to this.
const HIGHEST_SUM: i64 = 126;

/// Stores the largest absolute value of a buffer's elements, and the smallest but zero, as bits.
pub fn scan(nest: &mut Nest<'_>, buffer: Buffer, ranges: Buffer, at: i64) -> Stmt {
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

/// Whether split-bf16 is exact enough: see the header of `rule`.
pub fn in_range(nest: &Nest<'_>, ranges: Buffer, reduce: &[Axis]) -> Result<Expr, Refusal> {
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
