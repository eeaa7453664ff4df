//! Functions and checks that several test files share.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../../tests/common/property.rs"]
mod property;

use arbtest::arbitrary::{Result, Unstructured};
pub use property::property;
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::eval::{self, EvalArg};
use reflex_tir::script;
use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{DType, Expr, Intrin, PrimFunc, Stmt};

const F: DType = DType::F32;

fn sum() -> Reducer<'static> {
    Reducer { init: Expr::float(0.0, F), combine: &|x, y| x + y }
}

/// `c[i, j] = sum_k a[i, k] * b[k, j]`
pub fn matmul(m: Expr, n: Expr, k: Expr) -> PrimFunc {
    let mut f = FuncBuilder::new("matmul");
    matmul_into(&mut f, m, n, k)
}

/// GEMM whose rows are a symbolic dimension.
pub fn matmul_symbolic(n: i64, k: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("matmul");
    let m = f.symbol("m");
    matmul_into(&mut f, m, n.into(), k.into())
}

fn matmul_into(f: &mut FuncBuilder, m: Expr, n: Expr, k: Expr) -> PrimFunc {
    let a = f.input("a", F, vec![m.clone(), k.clone()]);
    let b = f.input("b", F, vec![k.clone(), n.clone()]);
    f.reduce_output("matmul", "c", F, vec![m, n], &[k], sum(), |f, i, r| {
        f.at(a, &[i[0].clone(), r[0].clone()]) * f.at(b, &[r[0].clone(), i[1].clone()])
    });
    std::mem::replace(f, FuncBuilder::new("")).finish()
}

/// `scaled = x * 2; biased = scaled + bias; y = exp(biased)` over `[n, m]`, `n` symbolic.
pub fn chain(m: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("chain");
    let n = f.symbol("n");
    let shape = vec![n, m.into()];
    let x = f.input("x", F, shape.clone());
    let bias = f.input("bias", F, vec![m.into()]);
    let scaled =
        f.stage("scale", "scaled", F, shape.clone(), |f, i| f.at(x, i) * Expr::float(2.0, F));
    let biased = f.stage("bias_add", "biased", F, shape.clone(), |f, i| {
        f.at(scaled, i) + f.at(bias, &i[1..])
    });
    f.output("exp", "y", F, shape, |f, i| Expr::call(Intrin::Exp, vec![f.at(biased, i)]));
    f.finish()
}

/// GEMM, bias, relu.
pub fn dense(m: Expr, n: i64, k: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("dense");
    let a = f.input("a", F, vec![m.clone(), k.into()]);
    let b = f.input("b", F, vec![k.into(), n.into()]);
    let bias = f.input("bias", F, vec![n.into()]);
    let shape = vec![m, n.into()];
    let c = f.reduce_stage("matmul", "c", F, shape.clone(), &[k.into()], sum(), |f, i, r| {
        f.at(a, &[i[0].clone(), r[0].clone()]) * f.at(b, &[r[0].clone(), i[1].clone()])
    });
    let d = f.stage("bias_add", "d", F, shape.clone(), |f, i| f.at(c, i) + f.at(bias, &i[1..]));
    f.output("relu", "y", F, shape, |f, i| f.at(d, i).max(Expr::float(0.0, F)));
    f.finish()
}

/// Softmax over the last axis.
pub fn softmax(n: i64, m: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("softmax");
    let x = f.input("x", F, vec![n.into(), m.into()]);
    let lowest = Expr::float(f64::from(f32::MIN), F);
    let at = |i: &[Expr], r: &[Expr]| [i[0].clone(), r[0].clone()];
    let max = Reducer { init: lowest, combine: &|a, b| a.max(b) };
    let top = f.reduce_stage("max", "top", F, vec![n.into()], &[m.into()], max, |f, i, r| {
        f.at(x, &at(i, r))
    });
    let e = f.stage("exp", "e", F, vec![n.into(), m.into()], |f, i| {
        Expr::call(Intrin::Exp, vec![f.at(x, i) - f.at(top, &i[..1])])
    });
    let total = f.reduce_stage("sum", "total", F, vec![n.into()], &[m.into()], sum(), |f, i, r| {
        f.at(e, &at(i, r))
    });
    f.output("div", "y", F, vec![n.into(), m.into()], |f, i| f.at(e, i) / f.at(total, &i[..1]));
    f.finish()
}

/// A small convolution with padding: a guarded stage, then a reduction over three axes.
pub fn conv(h: i64, c: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("conv");
    let x = f.input("x", F, vec![c.into(), h.into()]);
    let w = f.input("w", F, vec![2.into(), c.into(), 3.into()]);
    let padded = f.stage("pad", "padded", F, vec![c.into(), (h + 2).into()], |f, i| {
        let at = i[1].clone() - 1;
        let inside = at.clone().ge(0).and(at.clone().lt(h));
        Expr::if_then_else(inside, f.at(x, &[i[0].clone(), at]), Expr::float(0.0, F))
    });
    let axes = [c.into(), 3.into()];
    f.reduce_output("conv", "y", F, vec![2.into(), h.into()], &axes, sum(), |f, i, r| {
        f.at(padded, &[r[0].clone(), i[1].clone() + r[1].clone()])
            * f.at(w, &[i[0].clone(), r[0].clone(), r[1].clone()])
    });
    f.finish()
}

/// One of the functions above with random sizes.
pub fn any_func(u: &mut Unstructured<'_>) -> Result<PrimFunc> {
    if u.ratio(1, 2)? {
        return reflex_tir::fuzzgen::func(u, &[F, F, F, DType::F64, DType::I32]);
    }
    let mut n = || u.int_in_range(1..=11);
    let (a, b, c) = (n()?, n()?, n()?);
    Ok(match u.int_in_range(0..=7)? {
        7 => {
            let mut f = FuncBuilder::new("reshape");
            let x = f.input("x", F, vec![a.into(), b.into()]);
            let twice =
                f.stage("twice", "t", F, vec![a.into(), b.into()], |f, i| f.at(x, i) + f.at(x, i));
            f.output("flat", "y", F, vec![(a * b).into()], |f, i| f.at(twice, i));
            f.finish()
        }
        0 => matmul(a.into(), b.into(), c.into()),
        1 => matmul_symbolic(b, c),
        2 => chain(b),
        3 => dense(a.into(), b, c),
        4 => softmax(a, b),
        5 => conv(a, c),
        _ => {
            let mut f = FuncBuilder::new("transpose");
            let x = f.input("x", F, vec![a.into(), b.into()]);
            f.output("t", "y", F, vec![b.into(), a.into()], |f, i| {
                f.at(x, &[i[1].clone(), i[0].clone()])
            });
            f.finish()
        }
    })
}

/// Evaluates both and compares every bit.
pub fn assert_same(
    before: &PrimFunc,
    after: &PrimFunc,
    args: &[EvalArg],
    what: &dyn Fn() -> String,
) {
    let mut form = IrForm::Lowered;
    after.body.visit(&mut |s| {
        if matches!(s, Stmt::Block(_)) {
            form = IrForm::Scheduled;
        }
    });
    if let Err(faults) = verify(after, form) {
        panic!("{faults:?}\n{}\n{}", what(), script::print(after));
    }
    let (mut a, mut b) = (args.to_vec(), args.to_vec());
    eval::eval(before, &mut a).unwrap_or_else(|e| panic!("before: {e}\n{}", what()));
    eval::eval(after, &mut b)
        .unwrap_or_else(|e| panic!("after: {e}\n{}\n{}", what(), script::print(after)));
    assert!(a == b, "results differ\n{}\n{}", what(), script::print(after));
}

/// Bits that follow from a seed (xorshift): more of them than a case has bytes.
pub struct Bits(u64);

impl Bits {
    /// Any seed.
    pub fn new(seed: u64) -> Bits {
        Bits(seed | 1)
    }

    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    pub fn within(&mut self, first: u32, last: u32) -> u32 {
        first + self.word() % (last - first + 1)
    }

    /// A bfloat16: any bits, a small exponent, a large one, or a special value.
    pub fn half(&mut self) -> u32 {
        const SPECIAL: [u32; 9] =
            [0, 0x8000, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0x0080, 0x8080, 0x7f7f];
        let (bits, kind) = (self.word() >> 16, self.within(0, 5));
        let exponent = |e: u32| (bits & 0x807f) | e << 7;
        match kind {
            0 => bits,
            1 => exponent(self.within(0, 3)),
            2 => exponent(self.within(40, 86)),
            3 => exponent(self.within(189, 255)),
            4 => SPECIAL[self.within(0, 8) as usize],
            _ => exponent(self.within(120, 134)),
        }
    }

    /// A sum near the products, near the end of the normal numbers, or anything.
    pub fn sum(&mut self) -> u32 {
        const SPECIAL: [u32; 4] = [0, 0x7f80_0000, 0x7f7f_ffff, 0x7fc0_0000];
        let bits = self.word();
        let (sign, rest) = (bits & 0x8000_0000, bits & 0x807f_ffff);
        match self.within(0, 4) {
            0 => bits,
            1 => sign | self.within(0x0080_0000 - 2, 0x0080_0000 + 2),
            2 => rest | self.within(0, 3) << 23,
            3 => sign | SPECIAL[self.within(0, 3) as usize],
            _ => rest | self.within(110, 150) << 23,
        }
    }
}
