//! Attention in one launch on a GPU: threads in several orders and serialised ones have the same bits, near those of
//! float64.

mod common;

use common::{noise, to_literal, to_tensor};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Binary, FuncData, Literal, Module, Op, TensorType, Value};
use reflex_lower::pipeline::{
    DeviceTarget, NoObserver, Options, WithoutCode, lower_for_gpu, run_graph,
};
use reflex_lower::precision::Precision;
use reflex_lower::schedule::schedule_for;
use reflex_tir::codegen::{CpuTarget, GpuTarget, Target};
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval, eval_threads};
use reflex_tir::lower::serialise;
use reflex_tir::verify::verify_gpu;
use reflex_tir::{DType, Expr, PrimFunc, script};

const SCALE: f32 = 0.75;

/// An attention of heads: extents, masks, and what is known of them.
#[derive(Clone, Copy)]
struct Attention {
    heads: i64,
    rows: i64,
    keys: i64,
    depth: i64,
    columns: i64,
    dtype: DType,
    /// Of an additive mask of rows and keys.
    masked: bool,
    known: bool,
    /// Whether results have rows before heads.
    rows_first: bool,
    precision: Precision,
}

const PLAIN: Attention = Attention {
    heads: 2,
    rows: 17,
    keys: 40,
    depth: 12,
    columns: 24,
    dtype: DType::F32,
    masked: false,
    known: true,
    rows_first: false,
    precision: Precision::F32,
};

impl Attention {
    /// Queries, keys, values and mask, no two of a shape.
    fn shapes(&self) -> Vec<Vec<i64>> {
        let Attention { heads, rows, keys, depth, columns, .. } = *self;
        let mut shapes = vec![
            vec![1, heads, rows, depth],
            vec![1, heads, keys, depth],
            vec![1, heads, keys, columns],
        ];
        if self.masked {
            shapes.push(vec![rows, keys]);
        }
        shapes
    }

    /// Numbers for them, rounded to the type. The mask forbids keys behind a row's own, all of the first ones
    /// to some rows, and everything to none.
    fn inputs(&self) -> Vec<Vec<f64>> {
        let rounded = |x: f32| match self.dtype {
            DType::F16 => half::f16::from_f32(x).to_f64(),
            DType::BF16 => half::bf16::from_f32(x).to_f64(),
            _ => f64::from(x),
        };
        let numbers = |(n, shape): (usize, &Vec<i64>)| -> Vec<f64> {
            let values = noise(shape, n as u64 + 1).to_f32().expect("float32");
            let mask = |at: usize| {
                let (row, key) = (at as i64 / self.keys, at as i64 % self.keys);
                let behind = key > row + self.keys - self.rows;
                let before = row % 3 == 1 && key < self.keys - self.rows;
                if behind || before { f64::NEG_INFINITY } else { 0.0 }
            };
            match n {
                3 => (0..values.len()).map(mask).collect(),
                _ => values.iter().map(|x| rounded(*x)).collect(),
            }
        };
        self.shapes().iter().enumerate().map(numbers).collect()
    }

    fn module(&self) -> Module {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let keys = if self.known { Expr::i64(self.keys) } else { Expr::var(b.sym("keys")) };
        let typed = |shape: &[i64]| {
            let extent = |n: &i64| if *n == self.keys { keys.clone() } else { Expr::i64(*n) };
            TensorType::new(self.dtype, shape.iter().map(extent).collect())
        };
        let names = ["q", "k", "v", "mask"];
        let values: Vec<Value> = self
            .shapes()
            .iter()
            .zip(names)
            .map(|(shape, name)| b.param(name, typed(shape)))
            .collect();
        let [q, k, v, ..] = values[..] else { panic!("three operands") };
        let k = b.emit1(Op::Transpose(vec![0, 1, 3, 2]), &[k]).unwrap();
        let mut scores = b.emit1(Op::MatMul, &[q, k]).unwrap();
        let scale = b.constant(literal(&[f64::from(SCALE)], &[], self.dtype));
        scores = b.emit1(Op::Binary(Binary::Mul), &[scores, scale]).unwrap();
        if let Some(mask) = values.get(3) {
            scores = b.emit1(Op::Binary(Binary::Add), &[scores, *mask]).unwrap();
        }
        let weights = b.emit1(Op::Softmax { axis: 3, log: false }, &[scores]).unwrap();
        let mut out = b.emit1(Op::MatMul, &[weights, v]).unwrap();
        if self.rows_first {
            out = b.emit1(Op::Transpose(vec![0, 2, 1, 3]), &[out]).unwrap();
        }
        b.finish(vec![out], vec!["y".into()]);
        module
    }

    /// The result in float64.
    fn expected(&self) -> Vec<f64> {
        let inputs = self.inputs();
        let Attention { heads, rows, keys, depth, columns, .. } = *self;
        let at = |n: usize, index: i64| inputs[n][index as usize];
        let mut out = vec![];
        let mut results: Vec<_> = (0..heads).flat_map(|h| (0..rows).map(move |r| (h, r))).collect();
        if self.rows_first {
            results.sort_by_key(|(h, r)| (*r, *h));
        }
        for (h, r) in results {
            let score = |n: i64| {
                let of = |d| at(0, (h * rows + r) * depth + d) * at(1, (h * keys + n) * depth + d);
                let mask = if self.masked { at(3, r * keys + n) } else { 0.0 };
                (0..depth).map(of).sum::<f64>() * f64::from(SCALE) + mask
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            out.extend((0..columns).map(|c| {
                let of = |n: i64| weights[n as usize] * at(2, (h * keys + n) * columns + c);
                (0..keys).map(of).sum::<f64>() / total
            }));
        }
        out
    }

    /// The only kernel of the module.
    fn kernel(&self, gpu: &GpuTarget) -> PrimFunc {
        let mut options = Options::new(CpuTarget::host());
        options.device = Some(DeviceTarget { gpu: gpu.clone(), without_code: WithoutCode::Refuse });
        options.precision = self.precision;
        let module = run_graph(self.module(), &options, &NoObserver).expect("it is compiled");
        let kernels = module.funcs.into_iter().filter_map(|(_, func)| match func {
            FuncData::Prim(kernel) => Some(kernel),
            FuncData::Graph(_) => None,
        });
        let kernels: Vec<PrimFunc> = kernels.collect();
        let [kernel] = &kernels[..] else { panic!("{} kernels", kernels.len()) };
        kernel.clone()
    }

    /// One rule takes all stages, and the launches answer as float64 does, in every order of threads.
    fn check(&self, rule: &str, launches: usize, orders: &[ThreadOrder]) {
        for gpu in GpuTarget::known() {
            let kernel = self.kernel(&gpu);
            let scheduled = schedule_for(&kernel, &Target::Gpu(gpu.clone()));
            let taken = scheduled.decisions.iter().all(|d| d.rule == rule);
            assert!(taken, "{scheduled}");
            let lowered = lower_for_gpu(&kernel, &gpu);
            let text = script::print(&lowered);
            assert_eq!(verify_gpu(&lowered, &gpu), Ok(()), "{text}");
            assert_eq!(text.matches("thread=\"blockIdx.x\"").count(), launches, "{text}");
            if gpu.name != GpuTarget::known()[0].name {
                // The same kernel.
                continue;
            }
            self.run(&lowered, orders);
        }
    }

    fn run(&self, lowered: &PrimFunc, orders: &[ThreadOrder]) {
        let (shapes, inputs) = (self.shapes(), self.inputs());
        let out = match self.rows_first {
            true => [1, self.rows, self.heads, self.columns],
            false => [1, self.heads, self.rows, self.columns],
        };
        let mut args: Vec<EvalArg> = vec![];
        for buffer in lowered.buffer_params() {
            let data = &lowered.buffers[buffer];
            let own = |shape: &Vec<i64>| {
                let elements = |n: i64| shape.iter().product::<i64>() == n;
                let extent = |e: &Expr| e.as_int().unwrap_or(self.keys);
                elements(data.shape.iter().map(extent).product())
            };
            let tensor = match shapes.iter().position(own) {
                Some(n) => to_tensor(&literal(&inputs[n], &shapes[n], self.dtype)),
                None => EvalTensor::zeros(self.dtype, &out),
            };
            args.push(EvalArg::Tensor(tensor));
        }
        let result = |order: Option<ThreadOrder>| {
            let mut args = args.clone();
            let done = match order {
                Some(order) => eval_threads(lowered, &mut args, order),
                None => eval(&serialise(lowered), &mut args),
            };
            done.unwrap_or_else(|e| panic!("{e}\n{}", script::print(lowered)));
            to_literal(args.last().expect("a result").tensor())
        };
        let serial = result(None);
        for order in orders {
            assert!(result(Some(*order)).bytes() == serial.bytes(), "{order:?}");
        }
        let allowed = match (self.dtype, self.precision) {
            (DType::F32, Precision::F32) => 2e-6,
            (DType::F16, _) => 2e-3,
            _ => 1.5e-2,
        };
        let found = numbers(&serial);
        for (n, (found, want)) in found.iter().zip(self.expected()).enumerate() {
            assert!((found - want).abs() <= allowed, "{n}: {found}, not {want}");
        }
    }
}

fn literal(values: &[f64], shape: &[i64], dtype: DType) -> Literal {
    let bytes: Vec<u8> = match dtype {
        DType::F16 => values.iter().flat_map(|x| half::f16::from_f64(*x).to_le_bytes()).collect(),
        DType::BF16 => values.iter().flat_map(|x| half::bf16::from_f64(*x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
    };
    Literal::new(dtype, shape.to_vec(), std::sync::Arc::new(bytes)).expect("it fits")
}

fn numbers(values: &Literal) -> Vec<f64> {
    let pairs = values.bytes().as_chunks::<2>().0;
    match values.dtype() {
        DType::F16 => pairs.iter().map(|b| half::f16::from_le_bytes(*b).to_f64()).collect(),
        DType::BF16 => pairs.iter().map(|b| half::bf16::from_le_bytes(*b).to_f64()).collect(),
        _ => {
            let words = values.bytes().as_chunks::<4>().0;
            words.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
        }
    }
}

#[test]
fn float32_is_multiplied_by_threads() {
    PLAIN.check("attention", 1, &ThreadOrder::ALL);
    Attention { masked: true, rows: 34, heads: 1, ..PLAIN }.check(
        "attention",
        1,
        &[ThreadOrder::Reverse],
    );
    let any = Attention { known: false, masked: true, ..PLAIN };
    any.check("attention", 1, &[ThreadOrder::Reverse]);
}

#[test]
fn halves_are_multiplied_on_tensor_cores() {
    let rule = "attention, tensor cores";
    let halves = Attention { dtype: DType::F16, ..PLAIN };
    halves.check(rule, 1, &ThreadOrder::ALL);
    let masked = Attention { dtype: DType::BF16, masked: true, depth: 16, columns: 28, ..PLAIN };
    let masked = Attention { rows_first: true, ..masked };
    masked.check(rule, 1, &[ThreadOrder::Reverse]);
    let rounded = Attention { precision: Precision::Bf16, ..PLAIN };
    rounded.check(rule, 1, &[ThreadOrder::Reverse]);
}

#[test]
fn few_rows_share_the_keys_in_parts() {
    let row = Attention { rows: 1, keys: 530, depth: 8, columns: 10, ..PLAIN };
    row.check("attention", 2, &ThreadOrder::ALL);
    let rows = Attention {
        rows: 3,
        keys: 530,
        heads: 1,
        dtype: DType::F16,
        masked: true,
        depth: 8,
        ..PLAIN
    };
    rows.check("attention", 2, &[ThreadOrder::Reverse]);
    // Some parts have no keys.
    let any =
        Attention { rows: 1, keys: 90, heads: 1, depth: 4, columns: 6, known: false, ..PLAIN };
    any.check("attention", 2, &[ThreadOrder::Reverse]);
}
