//! Lookup tables hold what the operators would compute, for every code; compiled programs with them give the same.

mod harness;

use harness::{kernels, run, tensor};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, EvalValue, FuncData, GatherKind, Literal, Module, Node, Op, TensorType, Unary, Value,
    eval_func,
};
use reflex_lower::graph::{eliminate_dead_code, use_lookup_tables};
use reflex_runtime::split_mix::split_mix;
use reflex_tir::DType;

const UNARY: [Unary; 12] = [
    Unary::Sigmoid,
    Unary::Tanh,
    Unary::Erf,
    Unary::Exp,
    Unary::Log,
    Unary::Sin,
    Unary::Sqrt,
    Unary::Neg,
    Unary::Abs,
    Unary::Round,
    Unary::Reciprocal,
    Unary::Sign,
];
const BINARY: [Binary; 7] =
    [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min, Binary::Pow];

/// Writes random functions of codes.
struct Functions<'m> {
    b: FuncBuilder<'m>,
    state: u64,
}

impl Functions<'_> {
    fn below(&mut self, n: usize) -> usize {
        (split_mix(&mut self.state) % n as u64) as usize
    }

    fn op(&mut self, op: Op, args: &[Value]) -> Value {
        self.b.emit1(op, args).unwrap()
    }

    fn number(&mut self) -> Value {
        let value = self.below(4000) as f32 / 500.0 - 4.0;
        let shape = vec![1; self.below(3)];
        self.b.constant(Literal::from_f32(shape, &[value]))
    }

    /// `(x - 100) / 16` as float32.
    fn dequantized(&mut self, x: Value) -> Value {
        let x = self.op(Op::Cast(DType::F32), &[x]);
        let [zero, scale] = [100.0, 16.0].map(|n| self.b.constant(Literal::from_f32(vec![], &[n])));
        let x = self.op(Op::Binary(Binary::Sub), &[x, zero]);
        self.op(Op::Binary(Binary::Div), &[x, scale])
    }

    fn quantized(&mut self, x: Value, to: DType) -> Value {
        let (low, high) = if to == DType::U8 { (0.0, 255.0) } else { (-128.0, 127.0) };
        let [scale, low, high] =
            [9.0, low, high].map(|n| self.b.constant(Literal::from_f32(vec![1], &[n])));
        let x = self.op(Op::Binary(Binary::Mul), &[x, scale]);
        let x = self.op(Op::Unary(Unary::Round), &[x]);
        let x = self.op(Op::Binary(Binary::Max), &[x, low]);
        let x = self.op(Op::Binary(Binary::Min), &[x, high]);
        self.op(Op::Cast(to), &[x])
    }

    /// A function of so many operators, with quantisations on its way.
    fn function(&mut self, x: Value, operators: usize) -> Value {
        let mut values = vec![self.dequantized(x)];
        for _ in 0..operators {
            let last = *values.last().unwrap();
            let made = match self.below(8) {
                0..4 => {
                    let kind = UNARY[self.below(UNARY.len())];
                    self.op(Op::Unary(kind), &[last])
                }
                4 | 5 => {
                    let (kind, number) = (BINARY[self.below(BINARY.len())], self.number());
                    self.op(Op::Binary(kind), &[last, number])
                }
                6 => {
                    let (kind, at) = (BINARY[self.below(4)], self.below(values.len()));
                    self.op(Op::Binary(kind), &[last, values[at]])
                }
                _ => {
                    let codes = self.quantized(last, DType::U8);
                    self.dequantized(codes)
                }
            };
            values.push(made);
        }
        let to = if self.below(2) == 0 { DType::U8 } else { DType::I8 };
        self.quantized(*values.last().unwrap(), to)
    }
}

/// A function of every code, in two rows.
fn module(codes: DType, seed: u64) -> (Module, Literal) {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", TensorType::new(codes, vec![2.into(), 256.into()]));
    let mut functions = Functions { b, state: seed };
    let operators = 1 + functions.below(7);
    let y = functions.function(x, operators);
    functions.b.finish(vec![y], vec!["y".into()]);
    let bytes = (0..512).map(|n| (n * 37 + seed as usize) as u8).collect();
    (module, tensor(codes, &[2, 256], bytes))
}

/// The results of the graph evaluator.
fn expected(module: &Module, args: &[Literal]) -> Vec<Literal> {
    let args: Vec<EvalValue> = args.iter().cloned().map(EvalValue::Tensor).collect();
    let main = module.funcs.keys().next().unwrap();
    let results = eval_func(module, main, &args).unwrap();
    results.iter().map(|value| value.as_tensor().unwrap().clone()).collect()
}

/// Numbers of lookups and of other operators.
fn operators(module: &Module) -> [usize; 2] {
    let mut count = [0, 0];
    for func in module.funcs.values() {
        let FuncData::Graph(func) = func else { continue };
        func.body.walk(&mut |binding| match &binding.node {
            Node::Op { op: Op::Gather { kind: GatherKind::Axis(0), .. }, .. } => count[0] += 1,
            Node::Op { .. } => count[1] += 1,
            _ => {}
        });
    }
    count
}

#[test]
fn tables_are_what_operators_compute() {
    let mut tables = 0;
    for seed in 0..400 {
        let codes = if seed % 2 == 0 { DType::U8 } else { DType::I8 };
        let (before, x) = module(codes, seed);
        let mut after = before.clone();
        use_lookup_tables(&mut after).unwrap();
        eliminate_dead_code(&mut after).unwrap();
        let [lookups, others] = operators(&after);
        assert!(lookups == 0 || (lookups, others) == (1, 0), "{seed}: {lookups} and {others}");
        tables += lookups;
        let x = [x];
        assert_eq!(expected(&before, &x), expected(&after, &x), "{seed}");
        if seed < 40 {
            assert_eq!(run(&before, &x).unwrap(), expected(&before, &x), "{seed}");
        }
    }
    assert!((250..400).contains(&tables), "{tables} of 400");
}

/// A value that something else needs is computed; its codes then cost little.
#[test]
fn what_others_read_stays() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", TensorType::new(DType::U8, vec![2.into(), 256.into()]));
    let mut functions = Functions { b, state: 0 };
    let wide = functions.dequantized(x);
    let y = functions.op(Op::Unary(Unary::Sigmoid), &[wide]);
    let z = functions.quantized(y, DType::U8);
    functions.b.finish(vec![y, z], vec!["y".into(), "z".into()]);
    let before = operators(&module);
    use_lookup_tables(&mut module).unwrap();
    assert_eq!(operators(&module), before);
}

/// The contraction before a lookup stores codes, and the lookup is a kernel of its own.
#[test]
fn sums_are_quantized_where_they_are_computed() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", TensorType::new(DType::F32, vec![8.into(), 16.into()]));
    let w = b.param("w", TensorType::new(DType::F32, vec![16.into(), 64.into()]));
    let mut functions = Functions { b, state: 0 };
    let product = functions.op(Op::MatMul, &[x, w]);
    let codes = functions.quantized(product, DType::I8);
    let wide = functions.dequantized(codes);
    let y = functions.op(Op::Unary(Unary::Tanh), &[wide]);
    let y = functions.quantized(y, DType::I8);
    functions.b.finish(vec![y], vec!["y".into()]);
    assert_eq!(kernels(&module).len(), 2, "{:?}", kernels(&module));
    let args = [harness::f32s(&[8, 16], 1), harness::f32s(&[16, 64], 2)];
    assert_eq!(run(&module, &args).unwrap(), expected(&module, &args));
}
