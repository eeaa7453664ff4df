//! Loops of multiply-adds in Cranelift's kernels: which become micro-kernels, and that these have the
//! evaluator's bits.

mod common;
#[path = "../../../src/tir/tests/common/mod.rs"]
mod tir;

use arbtest::arbitrary::{Result, Unstructured};
use common::{Kernel, assert_same};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::eval::{self, EvalArg, EvalTensor};
use reflex_tir::{Buffer, DType, Expr, ForKind, Intrin, PrimFunc, Scope, Sign, Stmt, Var};
use tir::property;

/// Elements of each operand, more than any index below.
const ELEMENTS: i64 = 1 << 13;

/// The host, and the host without AVX-512; each with the vectors of its micro-kernels.
fn targets() -> Vec<CpuTarget> {
    let host = CpuTarget::host();
    let mut older = host.clone();
    older.features.retain(|f| !f.starts_with("avx512"));
    vec![host, older]
}

/// A tile of accumulators and the loops into it.
#[derive(Clone, Debug)]
struct Contraction {
    rows: i64,
    columns: i64,
    lanes: i64,
    /// Iterations of each loop; `None` is the length of a tensor.
    loops: Vec<Option<i64>>,
    /// Lanes of the last column that are there.
    mask: Option<i64>,
    /// Whether an operand moves by a remainder of the innermost loop's variable.
    phases: bool,
    /// Whether each row has a distance of its own.
    uneven: bool,
    /// Whether the distance of rows is the length of a tensor, so that each has a pointer of its own.
    symbolic: bool,
    /// Whether the accumulators begin at zero; otherwise at elements of a tensor.
    zeros: bool,
    /// Dot products of 8-bit integers, whose first operand is unsigned or not; otherwise floats.
    dots: Option<bool>,
}

impl Contraction {
    fn any(u: &mut Unstructured<'_>) -> Result<Contraction> {
        let lanes = *u.choose(&[8, 16, 24, 32])?;
        let mut loops = vec![];
        for _ in 0..u.int_in_range(1..=3)? {
            loops.push(if u.ratio(1, 4)? { None } else { Some(u.int_in_range(1..=9)?) });
        }
        Ok(Contraction {
            rows: u.int_in_range(1..=9)?,
            columns: u.int_in_range(1..=3)?,
            lanes,
            loops,
            mask: if u.ratio(1, 3)? { Some(u.int_in_range(0..=lanes + 1)?) } else { None },
            phases: u.ratio(1, 4)?,
            uneven: u.ratio(1, 3)?,
            symbolic: u.ratio(1, 4)?,
            zeros: u.ratio(1, 2)?,
            dots: if u.ratio(1, 4)? { Some(u.arbitrary()?) } else { None },
        })
    }

    /// `y` is what the accumulators hold after the loops; `n` has the length of loops without another.
    fn func(&self) -> PrimFunc {
        let mut f = FuncBuilder::new("contraction");
        let length = f.symbol("length");
        let all = self.rows * self.columns * self.lanes;
        let n = f.input("n", DType::F32, vec![length.clone()]);
        let (operand, sum) = self.dtypes();
        let x = f.input("x", operand, vec![ELEMENTS.into()]);
        let w = f.input("w", operand, vec![ELEMENTS.into()]);
        let y = f.declare_output("y", sum, vec![all.into()]);
        let shape = vec![self.rows.into(), self.columns.into(), self.lanes.into()];
        let acc = f.func_mut().new_buffer("acc", sum, shape, Scope::Local);
        let vars: Vec<Var> =
            (0..self.loops.len()).map(|k| f.func_mut().new_var(format!("k{k}"))).collect();
        let [first, last, lane] = ["first", "last", "lane"].map(|name| f.func_mut().new_var(name));
        let tile = |at: Expr| -> Vec<Expr> {
            let row = at.clone().floordiv(self.columns * self.lanes);
            vec![
                row,
                at.clone().floordiv(self.lanes).floormod(self.columns),
                at.floormod(self.lanes),
            ]
        };
        let before = match self.dots {
            _ if self.zeros => Expr::constant(0.0, sum),
            Some(_) => Expr::from(first).cast(sum),
            None => f.at(x, &[first.into()]) * Expr::float(0.5, DType::F32),
        };
        let start = Stmt::store(acc, tile(first.into()), before);
        let end = Stmt::store(y, vec![last.into()], f.at(acc, &tile(last.into())));
        let steps = self.steps(&mut f, [x, w, acc], &vars, lane, &length);
        let mut nest = Stmt::loop_of(ForKind::Vectorized, lane, self.lanes.into(), steps);
        for (var, extent) in vars.iter().zip(&self.loops).rev() {
            nest = Stmt::serial(*var, extent.map_or_else(|| length.clone(), Expr::i64), nest);
        }
        let body = Stmt::Seq(vec![
            Stmt::serial(first, all.into(), start),
            nest,
            Stmt::serial(last, all.into(), end),
        ]);
        f.push(Stmt::Allocate { buffer: acc, body: Box::new(body) });
        let _ = n;
        f.finish()
    }

    /// The types of operands and of accumulators.
    fn dtypes(&self) -> (DType, DType) {
        match self.dots {
            Some(_) => (DType::U32, DType::I32),
            None => (DType::F32, DType::F32),
        }
    }

    fn step(&self) -> Intrin {
        match self.dots {
            Some(true) => Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Signed },
            Some(false) => Intrin::DotI8 { a: Sign::Signed, b: Sign::Unsigned },
            None => Intrin::Fma,
        }
    }

    /// The multiply-adds of an iteration: vectors by name first, as schedules write them.
    fn steps(
        &self,
        f: &mut FuncBuilder,
        [x, w, acc]: [Buffer; 3],
        vars: &[Var],
        lane: Var,
        length: &Expr,
    ) -> Stmt {
        let moved = |strides: [i64; 3]| {
            let terms = vars.iter().zip(strides);
            terms.fold(Expr::i64(3), |sum, (var, stride)| sum + Expr::var(*var) * stride)
        };
        let mut lets = vec![];
        for column in 0..self.columns {
            let mut at = moved([211, 37, 50]) + Expr::var(lane) + column * self.lanes;
            if self.phases {
                let innermost = Expr::from(*vars.last().unwrap());
                at = at + innermost.clone().floormod(3) * 100 + innermost.floordiv(3);
            }
            let load = f.at(w, &[at]);
            let value = match self.mask.filter(|_| column + 1 == self.columns) {
                Some(lanes) => {
                    let cond = (Expr::var(lane) + 5).lt(Expr::i64(lanes + 5));
                    Expr::if_then_else(cond, load, Expr::constant(0.0, self.dtypes().0))
                }
                None => load,
            };
            let var = f.func_mut().new_var(format!("w{column}"));
            f.func_mut().vars[var].dtype = self.dtypes().0;
            lets.push((var, value));
        }
        let mut body = vec![];
        for row in 0..self.rows {
            let distance = if self.uneven { row * row * 7 } else { row };
            let mut at = moved([97, 13, 1]) + distance;
            if self.symbolic {
                at = at + length.clone() * row;
            }
            let element = f.at(x, &[at]);
            for (column, (var, _)) in lets.iter().enumerate() {
                let at = vec![row.into(), Expr::i64(column as i64), lane.into()];
                let dtype = self.dtypes().0;
                let vector = Expr::new(reflex_tir::ExprKind::Var { var: *var, dtype });
                let sum = f.at(acc, &at);
                let step = Expr::call(self.step(), vec![element.clone(), vector, sum]);
                body.push(Stmt::store(acc, at, step));
            }
        }
        lets.into_iter().rev().fold(Stmt::Seq(body), |body, (var, value)| Stmt::Let {
            var,
            value,
            body: Box::new(body),
        })
    }

    fn args(&self, length: i64) -> Vec<EvalArg> {
        let values = |scale: f64| -> Vec<f64> {
            let special = [f64::NAN, f64::INFINITY, 1e-42, -0.0];
            let value = |i: i64| match i % 1009 {
                at @ 500..504 => special[at as usize - 500],
                at => (at as f64 - 480.0) * scale,
            };
            (0..ELEMENTS).map(value).collect()
        };
        let words = |factor: i64| -> Vec<f64> {
            (0..ELEMENTS).map(|i| ((i * factor) & 0xffff_ffff) as f64).collect()
        };
        let (operand, sum) = self.dtypes();
        let tensor = |dtype: DType, shape: &[i64], values: &[f64]| {
            EvalArg::Tensor(EvalTensor::from_f64(dtype, shape, values).unwrap())
        };
        let [x, w] = match self.dots {
            Some(_) => [words(0x9e37_79b1), words(0x85eb_ca77)],
            None => [values(0.37), values(0.011)],
        };
        vec![
            tensor(DType::F32, &[length], &vec![0.0; length as usize]),
            tensor(operand, &[ELEMENTS], &x),
            tensor(operand, &[ELEMENTS], &w),
            EvalArg::Tensor(EvalTensor::zeros(sum, &[self.rows * self.columns * self.lanes])),
        ]
    }

    /// Whether Cranelift's kernel for `target` calls a micro-kernel; both efforts are held to the evaluator.
    fn check(&self, target: &CpuTarget, length: i64) -> bool {
        self.assembly(target, length).contains("micro_kernel")
    }

    /// The assembly of Cranelift's kernel, after both efforts were held to the evaluator.
    fn assembly(&self, target: &CpuTarget, length: i64) -> String {
        let func = self.func();
        let args = self.args(length);
        let mut expected = args.clone();
        eval::eval(&func, &mut expected).unwrap();
        for kernel in [Kernel::baseline(&func, target), Kernel::quick_baseline(&func, target)] {
            let mut actual = args.clone();
            kernel.run(&mut actual).unwrap();
            assert_same(&func, &format!("{self:?}"), &expected, &actual);
        }
        reflex_baseline::compile_with_asm(&func, target).unwrap().asm.unwrap()
    }
}

fn plain() -> Contraction {
    Contraction {
        rows: 3,
        columns: 2,
        lanes: 16,
        loops: vec![Some(3), Some(8)],
        mask: None,
        phases: false,
        uneven: false,
        symbolic: false,
        zeros: false,
        dots: None,
    }
}

#[test]
fn contractions_have_the_bits_of_the_evaluator() {
    let targets = targets();
    let mut found = 0;
    property(150, |u| {
        let contraction = Contraction::any(u)?;
        let target = u.choose(&targets)?;
        found += u32::from(contraction.check(target, u.int_in_range(0..=7)?));
        Ok(())
    });
    if targets[1].features.contains("fma") {
        assert!(found > 30, "{found} of 150 became micro-kernels");
    }
}

#[test]
fn tiles_of_the_schedules_become_micro_kernels() {
    for target in targets().iter().filter(|t| t.features.contains("fma")) {
        let cases = [
            plain(),
            Contraction { loops: vec![None, Some(3)], ..plain() },
            Contraction { lanes: 8, ..plain() },
            // Each copy of the innermost loop has places of its own.
            Contraction { phases: true, loops: vec![Some(9), Some(5)], ..plain() },
            Contraction { mask: Some(5), rows: 2, columns: 1, ..plain() },
            Contraction { uneven: true, ..plain() },
            // Ten pointers: what counts the outer loops is in memory.
            Contraction { symbolic: true, rows: 9, columns: 1, lanes: 8, ..plain() },
        ];
        let has_dots = target.features.contains(match target.features.contains("avx512f") {
            true => "avx512vnni",
            false => "avxvnni",
        });
        for first_is_unsigned in [true, false] {
            let dots = Contraction { dots: Some(first_is_unsigned), ..plain() };
            assert_eq!(dots.check(target, 2), has_dots, "{dots:?}");
        }
        for case in cases {
            assert!(case.check(target, 2), "{case:?}");
        }
    }
}

/// A register that becomes zero, as bytes of the micro-kernel: `vpxord zmm0, zmm0, zmm0` or `vxorps ymm0, ymm0, ymm0`.
#[test]
fn zeros_of_a_tile_stay_in_registers() {
    for target in targets().iter().filter(|t| t.features.contains("fma")) {
        let zero = match target.features.contains("avx512f") {
            true => "0x62, 0xf1, 0x7d, 0x48, 0xef, 0xc0",
            false => "0xc5, 0xfc, 0x57, 0xc0",
        };
        let zeros = Contraction { zeros: true, ..plain() };
        assert!(zeros.assembly(target, 2).contains(zero));
        assert!(!plain().assembly(target, 2).contains(zero));
        // Where the loops may have no iteration, the tile is filled in memory.
        let perhaps = Contraction { loops: vec![None, Some(8)], ..zeros };
        assert!(!perhaps.assembly(target, 0).contains(zero));
    }
}

#[test]
fn what_is_no_tile_stays_a_loop() {
    for target in targets() {
        let cases = [
            // Too many accumulators for the registers.
            Contraction { rows: 9, columns: 3, lanes: 32, ..plain() },
            // A remainder in a loop that is too long to copy.
            Contraction { phases: true, loops: vec![Some(9)], ..plain() },
            // Not worth a call.
            Contraction { loops: vec![Some(7)], ..plain() },
        ];
        for case in cases {
            assert!(!case.check(&target, 2), "{case:?}");
        }
    }
    let mut plainest = CpuTarget::host();
    plainest.features.retain(|f| f != "fma" && !f.starts_with("avx512"));
    assert!(!plain().check(&plainest, 2));
}

/// Accumulators that are an operand too change what later steps read.
#[test]
fn accumulators_that_are_operands_stay_in_memory() {
    let mut f = FuncBuilder::new("recurrence");
    let x = f.input("x", DType::F32, vec![64.into()]);
    let y = f.declare_output("y", DType::F32, vec![32.into()]);
    let acc = f.func_mut().new_buffer("acc", DType::F32, vec![32.into()], Scope::Local);
    let [first, last, k, lane] = ["a", "b", "k", "l"].map(|name| f.func_mut().new_var(name));
    let start = Stmt::store(acc, vec![first.into()], f.at(x, &[first.into()]));
    let end = Stmt::store(y, vec![last.into()], f.at(acc, &[last.into()]));
    let at = [Expr::var(lane) + 16];
    let operands = vec![f.at(x, &[k.into()]), f.at(acc, &[lane.into()]), f.at(acc, &at)];
    let step = Stmt::store(acc, at.to_vec(), Expr::call(Intrin::Fma, operands));
    let operands = vec![f.at(x, &[k.into()]), f.at(acc, &at), f.at(acc, &[lane.into()])];
    let back = Stmt::store(acc, vec![lane.into()], Expr::call(Intrin::Fma, operands));
    let row = Stmt::loop_of(ForKind::Vectorized, lane, 16.into(), Stmt::Seq(vec![step, back]));
    let body = Stmt::Seq(vec![
        Stmt::serial(first, 32.into(), start),
        Stmt::serial(k, 9.into(), row),
        Stmt::serial(last, 32.into(), end),
    ]);
    f.push(Stmt::Allocate { buffer: acc, body: Box::new(body) });
    let values: Vec<f64> = (0..64).map(|i| f64::from(i) * 0.03 - 0.7).collect();
    let args = [
        EvalArg::Tensor(EvalTensor::from_f64(DType::F32, &[64], &values).unwrap()),
        EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[32])),
    ];
    common::check(&f.finish(), &args);
}

/// `1 / sqrt(variance[()] + epsilon)` is taken once, before the loops.
#[test]
fn invariant_roots_are_taken_before_loops() {
    let mut f = FuncBuilder::new("scaled");
    let x = f.input("x", DType::F32, vec![64.into()]);
    let y = f.declare_output("y", DType::F32, vec![64.into()]);
    let variance = f.func_mut().new_buffer("variance", DType::F32, vec![], Scope::Local);
    let [o, i] = ["o", "i"].map(|name| f.func_mut().new_var(name));
    let at = Expr::var(o) * 16 + i;
    let root = Expr::call(Intrin::Sqrt, vec![f.at(variance, &[])]);
    let value = f.at(x, std::slice::from_ref(&at)) * (Expr::float(1.0, DType::F32) / root);
    let inner = Stmt::loop_of(ForKind::Vectorized, i, 16.into(), Stmt::store(y, vec![at], value));
    let body = Stmt::Seq(vec![
        Stmt::store(variance, vec![], f.at(x, &[Expr::i64(7)])),
        Stmt::serial(o, 4.into(), inner),
    ]);
    f.push(Stmt::Allocate { buffer: variance, body: Box::new(body) });
    let func = f.finish();
    let values: Vec<f64> = (0..64).map(|i| f64::from(i) + 0.25).collect();
    let args = [
        EvalArg::Tensor(EvalTensor::from_f64(DType::F32, &[64], &values).unwrap()),
        EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[64])),
    ];
    common::check(&func, &args);
    let asm = reflex_baseline::compile_with_asm(&func, &CpuTarget::host()).unwrap().asm.unwrap();
    assert_eq!(asm.matches("sqrtss").count(), 1, "{asm}");
    let (root, loops) = (asm.find("sqrtss").unwrap(), asm.find("mulps").unwrap());
    assert!(root < loops, "{asm}");
}
