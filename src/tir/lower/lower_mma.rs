//! Products of tensor cores as integer arithmetic, for the CPU that runs a launch's threads one after
//! the other.
//!
//! ```text
//! T.tile_mma(sum[0], ..)    for n in range(8):          the elements that the thread keeps
//!                               for k in range(16):     significands and exponents of products
//!                                   term[k], exponent[k] = ..
//!                               sum[n] = the terms, aligned to the largest exponent, as mma::dot adds them
//! ```

use super::lower_blocks::seq;
use crate::mma::{FRACTION, Half, SIDE, ZERO_EXPONENT};
use crate::tile::{Mma, MmaOperand, TileOp};
use crate::{Buffer, DType, Expr, For, ForKind, Intrin, PrimFunc, Scope, Stmt, Var, VarData};

/// Writes out every product of tensor cores.
pub fn lower_mma(func: &PrimFunc) -> PrimFunc {
    let mut func = func.clone();
    let body = func.body.clone();
    func.body = statement(&mut func, &body);
    func
}

fn is_mma(s: &Stmt) -> bool {
    matches!(s, Stmt::Tile(TileOp::Mma(_)))
}

fn statement(func: &mut PrimFunc, s: &Stmt) -> Stmt {
    let mut any = false;
    s.visit(&mut |s| any |= is_mma(s));
    match s {
        _ if !any => s.clone(),
        Stmt::Tile(TileOp::Mma(mma)) => Lower { func }.mma(mma),
        // A copy for each iteration is too long.
        Stmt::For(l) if l.kind == ForKind::Unrolled => {
            let body = statement(func, &l.body);
            Stmt::For(Box::new(For { kind: ForKind::Serial, ..l.with_body(body) }))
        }
        _ => s.map_children(&mut |s| statement(func, s)),
    }
}

struct Lower<'f> {
    func: &'f mut PrimFunc,
}

/// Names for values, and what is computed of them.
struct Names {
    lets: Vec<(Var, Expr)>,
}

impl Names {
    fn bind(&mut self, func: &mut PrimFunc, name: &str, value: Expr) -> Expr {
        let dtype = value.dtype();
        let var = func.vars.push(VarData { name: name.into(), dtype });
        self.lets.push((var, value));
        Expr::new(crate::ExprKind::Var { var, dtype })
    }

    fn around(self, body: Stmt) -> Stmt {
        self.lets.into_iter().rev().fold(body, |body, (var, value)| Stmt::Let {
            var,
            value,
            body: Box::new(body),
        })
    }
}

fn int(value: i64) -> Expr {
    Expr::i64(value)
}

fn shift(op: Intrin, e: Expr, by: impl Into<Expr>) -> Expr {
    Expr::call(op, vec![e, by.into()])
}

fn masked(e: Expr, mask: i64) -> Expr {
    Expr::call(Intrin::BitAnd, vec![e, int(mask)])
}

/// The significand, with its sign, and the exponent of a float's bits.
fn parts(bits: &Expr, width: i32, fraction: i32, bias: i32) -> (Expr, Expr) {
    let sign = int(1 << (width - 1));
    let field =
        shift(Intrin::Shr, masked(bits.clone(), (1 << (width - 1)) - 1), i64::from(fraction));
    let low = masked(bits.clone(), (1 << fraction) - 1);
    let normal = low.clone() + (1_i64 << fraction);
    let significand = Expr::select(field.clone().equal(0), low, normal);
    let exponent = field.max(1) - i64::from(bias);
    let zero = significand.clone().equal(0);
    let exponent = Expr::select(zero, int(ZERO_EXPONENT.into()), exponent);
    let negative = bits.clone().ge(sign);
    (Expr::select(negative, int(0) - significand.clone(), significand), exponent)
}

impl Lower<'_> {
    fn mma(&mut self, mma: &Mma) -> Stmt {
        let data = &self.func.buffers[mma.a.rows.buffer];
        let (dtype, half) = (data.dtype, Half::of(data.dtype).expect("verified"));
        let terms = SIDE + 1;
        let mut local =
            |name: &str, dtype| self.func.new_buffer(name, dtype, vec![terms.into()], Scope::Local);
        let (term, exponent) = (local("term", DType::I64), local("exponent", DType::I64));
        let total = self.func.new_buffer("total", DType::I64, vec![], Scope::Local);
        let largest = self.func.new_buffer("largest", DType::I64, vec![], Scope::Local);
        let plain = self.func.new_buffer("plain", DType::F64, vec![], Scope::Local);
        let n = self.func.new_var("n");
        let at = mma.first.clone() + Expr::from(n);
        let of = |divisor: i64, modulus: i64| Expr::from(n).floordiv(divisor).floormod(modulus);
        let [row, column] = mma.team.origin(&mma.lane);
        // As `mma::element`.
        let (row, right) = (row + of(2, 2) * 8, Expr::from(n).floordiv(4) * 8);
        let column = column + right + of(1, 2);

        let old = Expr::load(mma.sum, vec![at.clone()], DType::F32);
        let bits = old.clone().reinterpret(DType::U32).cast(DType::I64);
        let (m, e) = parts(&bits, 32, 23, 127);
        let first = seq(vec![
            Stmt::store(term, vec![int(SIDE)], m),
            Stmt::store(exponent, vec![int(SIDE)], e),
            Stmt::store(plain, vec![], old.cast(DType::F64)),
        ]);
        let products = self.products((mma, dtype, half), (&row, &column), [term, exponent, plain]);
        let k = self.func.new_var("k");
        let e = Expr::load(exponent, vec![k.into()], DType::I64);
        let max = Expr::load(largest, vec![], DType::I64).max(e.clone());
        let find = seq(vec![
            Stmt::store(largest, vec![], int(i64::from(i32::MIN))),
            Stmt::serial(k, int(terms), Stmt::store(largest, vec![], max)),
            Stmt::store(total, vec![], int(0)),
        ]);
        let add = self.aligned_sum(half, [term, exponent, largest, total]);
        let result = self.rounded([plain, total, largest]);
        let store = result.1.around(Stmt::store(mma.sum, vec![at], result.0));
        let body = seq(vec![first, products, find, add, store]);
        [term, exponent, total, largest, plain].iter().fold(
            Stmt::serial(n, int(mma.team.each()), body),
            |body, buffer| Stmt::Allocate { buffer: *buffer, body: Box::new(body) },
        )
    }

    /// The products of a row and a column, as terms and plainly.
    fn products(
        &mut self,
        (mma, dtype, half): (&Mma, DType, Half),
        (row, column): (&Expr, &Expr),
        [term, exponent, plain]: [Buffer; 3],
    ) -> Stmt {
        let k = self.func.new_var("k");
        let mut names = Names { lets: vec![] };
        let mut element = |name: &str, operand: &MmaOperand, row: &Expr| {
            let at = operand.position(mma.team, row.clone(), k.into());
            let value = Expr::load(operand.rows.buffer, vec![at], dtype);
            let value = names.bind(self.func, name, value);
            let bits = value.clone().reinterpret(DType::U16).cast(DType::I64);
            let bits = names.bind(self.func, "bits", bits);
            let (m, e) = parts(&bits, 16, half.fraction, half.bias);
            (value, names.bind(self.func, "m", m), names.bind(self.func, "e", e))
        };
        let (x, m, e) = element("a", &mma.a, row);
        let (y, n, f) = element("b", &mma.b, column);
        let product = x.cast(DType::F64) * y.cast(DType::F64);
        let body = seq(vec![
            Stmt::store(term, vec![k.into()], m * n),
            Stmt::store(exponent, vec![k.into()], e + f),
            Stmt::store(plain, vec![], Expr::load(plain, vec![], DType::F64) + product),
        ]);
        Stmt::serial(k, int(SIDE), names.around(body))
    }

    /// Adds the terms in units of the largest one's last bit.
    fn aligned_sum(&mut self, half: Half, [term, exponent, largest, total]: [Buffer; 4]) -> Stmt {
        let k = self.func.new_var("k");
        let mut names = Names { lets: vec![] };
        let load = |buffer, at: Vec<Expr>| Expr::load(buffer, at, DType::I64);
        // The sum of before has float32's fraction.
        let fraction =
            Expr::select(Expr::from(k).equal(SIDE), int(23), int(i64::from(2 * half.fraction)));
        let by = load(exponent, vec![k.into()]) - load(largest, vec![]) - fraction;
        let by = names.bind(self.func, "by", by + i64::from(FRACTION));
        let value = names.bind(self.func, "value", load(term, vec![k.into()]));
        let size = value.clone().max(int(0) - value.clone());
        let left = shift(Intrin::Shl, size.clone(), by.clone().max(0).min(62));
        let right = shift(Intrin::Shr, size, (int(0) - by.clone()).max(0).min(62));
        let size = names.bind(self.func, "size", Expr::select(by.ge(0), left, right));
        let signed = Expr::select(value.lt(0), int(0) - size.clone(), size);
        let sum = Stmt::store(total, vec![], load(total, vec![]) + signed);
        Stmt::serial(k, int(SIDE + 1), names.around(sum))
    }

    /// The sum as float32, rounded towards zero, or the plain one where that is not finite.
    fn rounded(&mut self, [plain, total, largest]: [Buffer; 3]) -> (Expr, Names) {
        let mut names = Names { lets: vec![] };
        let exponent = Expr::load(largest, vec![], DType::I64) + i64::from(1023 - FRACTION);
        let scale = shift(Intrin::Shl, exponent, 52).reinterpret(DType::F64);
        let exact = Expr::load(total, vec![], DType::I64).cast(DType::F64) * scale;
        let exact = names.bind(self.func, "exact", exact);
        let near = names.bind(self.func, "near", exact.clone().cast(DType::F32));
        let size = |e: Expr| Expr::call(Intrin::Abs, vec![e]);
        let above = size(near.clone().cast(DType::F64)).gt(size(exact.clone()));
        let above = above.and(size(exact).lt(Expr::float(2_f64.powi(128), DType::F64)));
        let lower = (near.clone().reinterpret(DType::U32) - Expr::int(1, DType::U32))
            .reinterpret(DType::F32);
        let rounded = Expr::select(above, lower, near);
        let plain = names.bind(self.func, "plain", Expr::load(plain, vec![], DType::F64));
        let special = Expr::call(Intrin::IsNan, vec![plain.clone()])
            .or(Expr::call(Intrin::IsInf, vec![plain.clone()]));
        (Expr::select(special, plain.cast(DType::F32), rounded), names)
    }
}
