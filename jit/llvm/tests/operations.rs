//! Every operation on every element type, scalar and vector, against the evaluator.

mod common;

use common::{Kernel, assert_same, check};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{self, EvalArg, EvalTensor, Scalar};
use reflex_tir::{BinOp, CmpOp, DType, Expr, ForKind, Intrin, PrimFunc, Stmt};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
const INTS: [DType; 8] =
    [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
/// A result type and how to compute it from the three operands.
type Output<'a> = (DType, &'a dyn Fn(&[Expr]) -> Expr);

/// `out[i] = value(a[i], b[i], c[i])` in vectors of `lanes`, or one by one.
fn pointwise(dtype: DType, n: usize, lanes: i64, values: &[Output<'_>]) -> PrimFunc {
    let mut f = FuncBuilder::new("pointwise");
    let shape = vec![Expr::i64(n as i64)];
    let inputs = ["a", "b", "c"].map(|name| f.input(name, dtype, shape.clone()));
    let mut body = vec![];
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = Expr::var(o) * lanes + i;
    let loads: Vec<Expr> = inputs.iter().map(|b| f.at(*b, std::slice::from_ref(&at))).collect();
    for (k, (out, value)) in values.iter().enumerate() {
        let y = f.declare_output(&format!("y{k}"), *out, shape.clone());
        body.push(Stmt::store(y, vec![at.clone()], value(&loads)));
    }
    let lanes_loop = Stmt::loop_of(ForKind::Vectorized, i, lanes.into(), Stmt::Seq(body));
    f.push(Stmt::serial(o, (n as i64 / lanes).into(), lanes_loop));
    f.finish()
}

/// Every combination of interesting values.
fn grid(dtype: DType) -> Vec<EvalArg> {
    let values: Vec<f64> = match dtype.is_float() {
        true => vec![
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -2.5,
            3.25,
            1e-3,
            -7.0,
            65504.0,
            1e30,
            -1e30,
            1e-40,
            0.1,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            2.5,
            255.5,
            2147483648.0,
            -2147483649.0,
            9.3e18,
            1.9e19,
            4294967296.0,
            -128.7,
        ],
        false => vec![1.0, -1.0, 2.0, 3.0, -3.0, 7.0, -8.0, 100.0, 127.0, -128.0, 255.0],
    };
    let signed = |x: &f64| !dtype.is_uint() || *x > 0.0;
    let values: Vec<f64> = values.into_iter().filter(signed).collect();
    let mut columns: [Vec<f64>; 3] = Default::default();
    for (i, x) in values.iter().enumerate() {
        for (j, y) in values.iter().enumerate() {
            columns[0].push(*x);
            columns[1].push(*y);
            columns[2].push(values[(i * 7 + j * 3) % values.len()]);
        }
    }
    let n = columns[0].len() as i64;
    columns.map(|c| EvalArg::Tensor(EvalTensor::from_f64(dtype, &[n], &c).unwrap())).to_vec()
}

fn run(dtype: DType, values: &[Output<'_>]) {
    let inputs = grid(dtype);
    // One by one, in whole registers, and in a width that needs legalising.
    for lanes in [1, 16, 13] {
        let n = inputs[0].tensor().len() / lanes * lanes;
        let cut = |arg: &EvalArg| {
            let mut t = arg.tensor().clone();
            t.shape = vec![n as i64];
            t.bytes.truncate(n * dtype.itemsize());
            EvalArg::Tensor(t)
        };
        let mut args: Vec<EvalArg> = inputs.iter().map(cut).collect();
        let out = |d: &DType| EvalArg::Tensor(EvalTensor::zeros(*d, &[n as i64]));
        args.extend(values.iter().map(|(d, _)| out(d)));
        check(&pointwise(dtype, n, lanes as i64, values), &args);
    }
}

fn binary(op: BinOp) -> impl Fn(&[Expr]) -> Expr {
    move |x| Expr::binary(op, x[0].clone(), x[1].clone())
}

fn compare(op: CmpOp) -> impl Fn(&[Expr]) -> Expr {
    move |x| Expr::compare(op, x[0].clone(), x[1].clone())
}

fn unary(op: Intrin) -> impl Fn(&[Expr]) -> Expr {
    move |x| Expr::call(op, vec![x[0].clone()])
}

const BINARY: [BinOp; 9] = [
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::Div,
    BinOp::Mod,
    BinOp::FloorDiv,
    BinOp::FloorMod,
    BinOp::Min,
    BinOp::Max,
];
const COMPARE: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];

#[test]
fn arithmetic_and_comparisons() {
    let operations = BINARY.map(binary);
    let comparisons = COMPARE.map(compare);
    for dtype in FLOATS.into_iter().chain(INTS) {
        let mut values: Vec<Output<'_>> = vec![];
        values.extend(operations.iter().map(|f| (dtype, f as &dyn Fn(&[Expr]) -> Expr)));
        values.extend(comparisons.iter().map(|f| (DType::BOOL, f as &dyn Fn(&[Expr]) -> Expr)));
        run(dtype, &values);
    }
}

#[test]
fn constant_limits() {
    for dtype in FLOATS {
        for limit in [0.0, -0.0, 1e-60, 6.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let at = |op: BinOp| {
                move |x: &[Expr]| Expr::binary(op, x[0].clone(), Expr::float(limit, dtype))
            };
            let (min, max) = (at(BinOp::Min), at(BinOp::Max));
            run(dtype, &[(dtype, &min), (dtype, &max)]);
        }
    }
}

#[test]
fn constant_divisors() {
    for dtype in INTS {
        for divisor in [1, 2, 3, 7, 8, 64] {
            let by = |op: BinOp| {
                move |x: &[Expr]| Expr::binary(op, x[0].clone(), Expr::int(divisor, dtype))
            };
            let all = [BinOp::Div, BinOp::Mod, BinOp::FloorDiv, BinOp::FloorMod].map(by);
            let values: Vec<Output<'_>> =
                all.iter().map(|f| (dtype, f as &dyn Fn(&[Expr]) -> Expr)).collect();
            run(dtype, &values);
        }
    }
}

#[test]
fn exact_intrinsics() {
    let rounding = [Intrin::Sqrt, Intrin::Floor, Intrin::Ceil, Intrin::Trunc, Intrin::Round];
    let unaries = rounding.map(unary);
    let fma = |x: &[Expr]| Expr::call(Intrin::Fma, x.to_vec());
    let (abs, nan, inf) = (unary(Intrin::Abs), unary(Intrin::IsNan), unary(Intrin::IsInf));
    for dtype in FLOATS {
        let mut values: Vec<Output<'_>> =
            vec![(dtype, &fma), (dtype, &abs), (DType::BOOL, &nan), (DType::BOOL, &inf)];
        values.extend(unaries.iter().map(|f| (dtype, f as &dyn Fn(&[Expr]) -> Expr)));
        run(dtype, &values);
    }
    let two = |op: Intrin| move |x: &[Expr]| Expr::call(op, vec![x[0].clone(), x[1].clone()]);
    let bits = [Intrin::BitAnd, Intrin::BitOr, Intrin::BitXor].map(two);
    let not = unary(Intrin::BitNot);
    for dtype in INTS {
        let amount = move |x: &[Expr]| {
            let mask = Expr::int(7, dtype);
            Expr::call(Intrin::BitAnd, vec![x[1].clone(), mask])
        };
        let shl = move |x: &[Expr]| Expr::call(Intrin::Shl, vec![x[0].clone(), amount(x)]);
        let shr = move |x: &[Expr]| Expr::call(Intrin::Shr, vec![x[0].clone(), amount(x)]);
        let mut values: Vec<Output<'_>> =
            vec![(dtype, &abs), (dtype, &not), (dtype, &shl), (dtype, &shr)];
        values.extend(bits.iter().map(|f| (dtype, f as &dyn Fn(&[Expr]) -> Expr)));
        run(dtype, &values);
    }
}

#[test]
fn conversions() {
    let all: Vec<DType> = FLOATS.into_iter().chain(INTS).chain([DType::BOOL]).collect();
    for from in &all {
        let to = all.clone().into_iter().map(|to| (to, move |x: &[Expr]| x[0].clone().cast(to)));
        let to: Vec<_> = to.collect();
        let values: Vec<Output<'_>> =
            to.iter().map(|(d, f)| (*d, f as &dyn Fn(&[Expr]) -> Expr)).collect();
        run(*from, &values);
    }
    for (a, b) in [(DType::F32, DType::I32), (DType::F64, DType::U64), (DType::BF16, DType::I16)] {
        run(a, &[(b, &|x| x[0].clone().reinterpret(b))]);
        run(b, &[(a, &|x| x[0].clone().reinterpret(a))]);
    }
}

#[test]
fn choices_and_logic() {
    let value = |x: &[Expr]| {
        let (less, more) = (x[0].clone().lt(x[1].clone()), x[2].clone().gt(x[1].clone()));
        let both = less.clone().and(more.clone()).or(less.clone().logical_not());
        Expr::select(both, x[0].clone(), Expr::if_then_else(more, x[1].clone(), x[2].clone()))
    };
    for dtype in FLOATS.into_iter().chain(INTS) {
        run(dtype, &[(dtype, &value)]);
    }
}

#[test]
fn library_functions_are_close() {
    let all = [
        Intrin::Exp,
        Intrin::Log,
        Intrin::Sin,
        Intrin::Cos,
        Intrin::Tan,
        Intrin::Asin,
        Intrin::Acos,
        Intrin::Atan,
        Intrin::Sinh,
        Intrin::Cosh,
        Intrin::Tanh,
        Intrin::Asinh,
        Intrin::Acosh,
        Intrin::Atanh,
        Intrin::Erf,
    ];
    let functions = all.map(unary);
    let pow = |x: &[Expr]| Expr::call(Intrin::Pow, vec![x[0].clone(), x[1].clone()]);
    for dtype in [DType::F32, DType::F64] {
        let mut values: Vec<Output<'_>> = vec![(dtype, &pow)];
        values.extend(functions.iter().map(|f| (dtype, f as &dyn Fn(&[Expr]) -> Expr)));
        let mut args: Vec<EvalArg> = grid(dtype)
            .iter()
            .map(|a| {
                let mut t = a.tensor().clone();
                t.shape = vec![48];
                t.bytes.truncate(48 * dtype.itemsize());
                EvalArg::Tensor(t)
            })
            .collect();
        args.extend(values.iter().map(|_| EvalArg::Tensor(EvalTensor::zeros(dtype, &[48]))));
        let func = pointwise(dtype, 48, 16, &values);
        let mut exact = args.clone();
        eval::eval(&func, &mut exact).unwrap();
        let levels = common::check_levels(&func, &args);
        for (a, b) in exact.iter().zip(&levels).skip(3) {
            for k in 0..48 {
                let value = |t: &EvalArg| t.tensor().get(k).map(Scalar::as_f64).unwrap();
                let (x, y) = (value(a), value(b));
                let close = (x - y).abs() <= 4e-7 * x.abs().max(1e-30);
                assert!(x == y || close || x.is_nan() && y.is_nan(), "{x} {y}");
            }
        }
    }
}

/// Division by zero and of the smallest integer by -1 do not trap.
#[test]
fn integer_division_never_traps() {
    let operations = [BinOp::Div, BinOp::Mod, BinOp::FloorDiv, BinOp::FloorMod].map(binary);
    for lanes in [1, 4] {
        let values: Vec<Output<'_>> =
            operations.iter().map(|f| (DType::I64, f as &dyn Fn(&[Expr]) -> Expr)).collect();
        let func = pointwise(DType::I64, 4, lanes, &values);
        let (a, b) = ([i64::MIN, 5, i64::MIN, 0], [-1, 0, 0, 0]);
        let mut args = vec![
            EvalArg::Tensor(EvalTensor::i64(&[4], &a)),
            EvalArg::Tensor(EvalTensor::i64(&[4], &b)),
            EvalArg::Tensor(EvalTensor::i64(&[4], &b)),
        ];
        args.extend((0..4).map(|_| EvalArg::Tensor(EvalTensor::zeros(DType::I64, &[4]))));
        for opt in [OptLevel::O0, OptLevel::O3] {
            let mut actual = args.clone();
            Kernel::new(&func, opt).run(&mut actual).unwrap();
            let mut expected = args.clone();
            expected[3] = EvalArg::Tensor(EvalTensor::i64(&[4], &[i64::MIN, 0, 0, 0]));
            expected[5] = expected[3].clone();
            assert_same(&func, &format!("{lanes} {opt:?}"), &expected, &actual);
        }
    }
}
