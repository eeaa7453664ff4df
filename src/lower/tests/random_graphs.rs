//! Random graphs: what the pipeline makes of them answers as the graph evaluator does.
//!
//! Every value has shape `[n, 4, 6]` or is brought back to it, so any value can feed any
//! operator; fusion then sees chains, diamonds, expansions and reductions in all orders.

mod harness;

use harness::{agree, f32s};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, FuncData, GatherKind, Literal, Module, Op, ReduceKind, TensorType, Unary, Value,
};
use reflex_tir::{DType, Expr};

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

fn shape(n: &Expr) -> Vec<Expr> {
    vec![n.clone(), Expr::i64(4), Expr::i64(6)]
}

fn step(b: &mut FuncBuilder<'_>, r: &mut Random, n: &Expr, values: &[Value]) -> Value {
    // Recent values more often: chains make groups.
    let recent = &values[values.len().saturating_sub(4)..];
    let (x, y) = (r.pick(recent), r.pick(values));
    let mut op = |op: Op, args: &[Value]| b.emit1(op, args).unwrap();
    match r.below(9) {
        0 => op(Op::Unary(r.pick(&[Unary::Tanh, Unary::Sigmoid, Unary::Erf])), &[x]),
        1 => op(Op::Unary(r.pick(&[Unary::Neg, Unary::Abs, Unary::Sign])), &[x]),
        2 | 3 => {
            let f = r.pick(&[Binary::Add, Binary::Sub, Binary::Max, Binary::Min]);
            op(Op::Binary(f), &[x, y])
        }
        4 => {
            let kind = r.pick(&[ReduceKind::Mean, ReduceKind::Max]);
            let axes = r.pick(&[vec![0], vec![1], vec![2], vec![1, 2]]);
            let s = op(Op::Reduce { kind, axes, keep_dims: true }, &[x]);
            let s = op(Op::Unary(Unary::Tanh), &[s]);
            op(Op::Binary(Binary::Sub), &[y, s])
        }
        5 => {
            let t = op(Op::Transpose(vec![0, 2, 1]), &[x]);
            let t = op(Op::Unary(Unary::Neg), &[t]);
            op(Op::Reshape(shape(n)), &[t])
        }
        6 => {
            let w = b.constant(f32s(&[6, 6], r.below(1000) as u64));
            let mut op = |op: Op, args: &[Value]| b.emit1(op, args).unwrap();
            let p = op(Op::MatMul, &[x, w]);
            op(Op::Unary(Unary::Tanh), &[p])
        }
        7 => {
            let half = |at: i64| Op::Slice {
                begin: vec![Expr::i64(0), Expr::i64(0), Expr::i64(at)],
                extent: vec![n.clone(), Expr::i64(4), Expr::i64(3)],
                stride: vec![1; 3],
            };
            let (left, right) = (op(half(0), &[x]), op(half(3), &[y]));
            op(Op::Concat { axis: 2 }, &[right, left])
        }
        _ => {
            let at = b.constant(harness::i64s(&[4], &[3, 0, -3, 0]));
            b.emit1(Op::Gather(GatherKind::Axis(1)), &[x, at]).unwrap()
        }
    }
}

fn graph(seed: u64) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let mut r = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let n = Expr::var(b.sym("n"));
    let mut values = vec![];
    for name in ["x", "y"] {
        values.push(b.param(name, TensorType::new(DType::F32, shape(&n))));
    }
    for _ in 0..3 + r.below(14) {
        let value = step(&mut b, &mut r, &n, &values);
        values.push(value);
    }
    let mut results = vec![*values.last().unwrap()];
    results.extend((0..r.below(3)).map(|_| r.pick(&values)));
    let names = (0..results.len()).map(|n| format!("r{n}")).collect();
    b.finish(results, names);
    module
}

#[test]
fn random_graphs_mean_the_same_after_the_pipeline() {
    for seed in 0..60 {
        let module = graph(seed);
        let n = 1 + seed as i64 % 3;
        let args = [f32s(&[n, 4, 6], seed + 1), f32s(&[n, 4, 6], seed + 2)];
        // Shown when the test fails.
        println!("seed {seed}");
        agree(&module, &args);
    }
}

/// The module with the extents of `args` as constants.
fn bound(module: &Module, args: &[Literal]) -> Module {
    let mut module = module.clone();
    let shapes: Vec<&[i64]> = args.iter().map(Literal::shape).collect();
    for func in module.funcs.values_mut() {
        let FuncData::Graph(func) = func else { continue };
        func.bind_dims(&func.extents_of(&shapes));
    }
    module
}

#[test]
fn known_extents_change_no_bit() {
    for seed in 0..60 {
        let module = graph(seed);
        let n = [1, 2, 5, 16][seed as usize % 4];
        let args = [f32s(&[n, 4, 6], seed + 1), f32s(&[n, 4, 6], seed + 2)];
        println!("seed {seed}");
        let bound = bound(&module, &args);
        let [general, special] = [&module, &bound].map(|m| harness::run(m, &args).unwrap());
        assert_eq!(general.len(), special.len());
        for (general, special) in general.iter().zip(&special) {
            assert_eq!(general.shape(), special.shape());
            assert_eq!(general.bytes(), special.bytes());
        }
        let refused = harness::run(&bound, &[n, n].map(|n| f32s(&[n + 1, 4, 6], seed)));
        assert!(refused.unwrap_err().contains("mismatch"));
    }
}
