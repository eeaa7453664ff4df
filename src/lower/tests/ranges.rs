//! Ranges of dynamic quantization are taken by the kernel that writes the tensor, and are those of its elements.

mod harness;

use harness::{f32s, kernels, run_with, tensor};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Binary, ConvAttrs, Literal, Module, Op, ReduceKind, TensorType, Unary, Value};
use reflex_lower::pipeline::Options;
use reflex_runtime::split_mix::split_mix;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Expr};

/// Writes a tensor and its quantization.
struct Writer<'m> {
    b: FuncBuilder<'m>,
}

impl Writer<'_> {
    fn op(&mut self, op: Op, args: &[Value]) -> Value {
        self.b.emit1(op, args).unwrap()
    }

    fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.op(Op::Binary(op), &[a, b])
    }

    fn number(&mut self, value: f32) -> Value {
        self.b.constant(Literal::from_f32(vec![], &[value]))
    }

    fn constant(&mut self, shape: &[i64], seed: u64) -> Value {
        self.b.constant(f32s(shape, seed))
    }

    /// DynamicQuantizeLinear as the importer writes it: codes, scale, zero point.
    fn quantized(&mut self, x: Value, rank: usize) -> [Value; 3] {
        let [zero, greatest] = [0.0, 255.0].map(|n| self.number(n));
        let axes: Vec<usize> = (0..rank).collect();
        let [most, least] = [(ReduceKind::Max, Binary::Max), (ReduceKind::Min, Binary::Min)].map(
            |(kind, limit)| {
                let all = self.op(Op::Reduce { kind, axes: axes.clone(), keep_dims: false }, &[x]);
                self.binary(limit, all, zero)
            },
        );
        let span = self.binary(Binary::Sub, most, least);
        let scale = self.binary(Binary::Div, span, greatest);
        let offset = self.binary(Binary::Div, least, scale);
        let offset = self.op(Op::Unary(Unary::Neg), &[offset]);
        let code = |writer: &mut Self, steps: Value, moved: Option<Value>| {
            let mut y = writer.op(Op::Unary(Unary::Round), &[steps]);
            if let Some(moved) = moved {
                y = writer.binary(Binary::Add, y, moved);
            }
            let y = writer.binary(Binary::Max, y, zero);
            let y = writer.binary(Binary::Min, y, greatest);
            writer.op(Op::Cast(DType::U8), &[y])
        };
        let point = code(self, offset, None);
        let wide = self.op(Op::Cast(DType::F32), &[point]);
        let steps = self.binary(Binary::Div, x, scale);
        [code(self, steps, Some(wide)), scale, point]
    }
}

/// A kernel that writes a tensor of the operand `[rows, columns]`.
type Producer = fn(&mut Writer<'_>, Value, i64) -> Value;

fn scaled(w: &mut Writer<'_>, x: Value, columns: i64) -> Value {
    let by = w.constant(&[columns], 3);
    w.binary(Binary::Mul, x, by)
}

fn normalized(w: &mut Writer<'_>, x: Value, columns: i64) -> Value {
    let [scale, bias] = [3, 4].map(|seed| w.constant(&[columns], seed));
    w.op(Op::LayerNorm { axis: 1, epsilon: 1e-5 }, &[x, scale, bias])
}

fn multiplied(w: &mut Writer<'_>, x: Value, columns: i64) -> Value {
    let weights = w.constant(&[columns, 40], 5);
    let y = w.op(Op::MatMul, &[x, weights]);
    w.op(Op::Unary(Unary::Sigmoid), &[y])
}

fn multiplied_integers(w: &mut Writer<'_>, x: Value, columns: i64) -> Value {
    let bytes = (0..columns * 33).map(|n| (n * 37 % 251) as u8).collect();
    let weights = w.b.constant(tensor(DType::I8, &[columns, 33], bytes));
    let [codes, scale, _] = w.quantized(x, 2);
    let y = w.op(Op::MatMulInteger, &[codes, weights]);
    let y = w.op(Op::Cast(DType::F32), &[y]);
    w.binary(Binary::Mul, y, scale)
}

fn module(producer: Producer, rows: Option<i64>, columns: i64) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let rows = rows.map_or_else(|| Expr::var(b.sym("n")), Expr::i64);
    let x = b.param("x", TensorType::new(DType::F32, vec![rows, columns.into()]));
    let mut writer = Writer { b };
    let y = producer(&mut writer, x, columns);
    let [codes, scale, point] = writer.quantized(y, 2);
    let names = ["y", "codes", "scale", "point"].map(String::from).to_vec();
    writer.b.finish(vec![y, codes, scale, point], names);
    module
}

/// Scale, zero point and codes of elements, as ONNX has them.
fn expected(y: &[f32]) -> (f32, u8, Vec<u8>) {
    let nan = y.iter().any(|y| y.is_nan());
    let most = if nan { f32::NAN } else { y.iter().fold(0f32, |a, b| a.max(*b)) };
    let least = if nan { f32::NAN } else { y.iter().fold(0f32, |a, b| a.min(*b)) };
    let scale = (most - least) / 255.0;
    let point = (-(least / scale)).round_ties_even().clamp(0.0, 255.0) as u8;
    let code = |y: &f32| ((y / scale).round_ties_even() + f32::from(point)).clamp(0.0, 255.0) as u8;
    (scale, point, y.iter().map(code).collect())
}

fn check(options: &Options, module: &Module, x: &Literal, what: &str) {
    let results = run_with(options, module, std::slice::from_ref(x)).unwrap();
    let [y, codes, scale, point] = &results[..] else {
        panic!("{what}: {} results", results.len())
    };
    let (want_scale, want_point, want_codes) = expected(&y.to_f32().unwrap());
    let scale = scale.to_f32().unwrap()[0];
    let same = scale.to_bits() == want_scale.to_bits() || scale.is_nan() && want_scale.is_nan();
    assert!(same, "{what}: {scale}, not {want_scale}");
    assert_eq!(point.bytes(), [want_point], "{what}");
    assert_eq!(codes.bytes(), want_codes, "{what}");
}

const PRODUCERS: [(&str, Producer, usize); 4] = [
    ("scaled", scaled, 2),
    ("normalized", normalized, 2),
    ("multiplied", multiplied, 2),
    ("multiplied_integers", multiplied_integers, 6),
];

#[test]
fn ranges_are_those_of_the_elements() {
    let mut state = 11;
    for (name, producer, most) in PRODUCERS {
        for case in 0..24 {
            let below = |state: &mut u64, n: u64| (split_mix(state) % n) as i64;
            let (rows, columns) = (1 + below(&mut state, 40), 4 * (1 + below(&mut state, 24)));
            let module = module(producer, (case % 2 == 0).then_some(rows), columns);
            let found = kernels(&module);
            assert!(found.len() <= most, "{name}: {found:?}");
            let x = f32s(&[rows, columns], case);
            let mut values = x.to_f32().unwrap();
            let special =
                [f32::NAN, -0.0, 0.0, 1e30, f32::INFINITY, -1e-40, f32::NEG_INFINITY, 7.0];
            let at = below(&mut state, values.len() as u64) as usize;
            match case % 4 {
                0 => values[at] = special[below(&mut state, 8) as usize],
                1 => values.fill(special[1 + below(&mut state, 2) as usize]),
                2 => values.iter_mut().for_each(|v| *v = v.abs()),
                _ => {}
            }
            let x = Literal::from_f32(vec![rows, columns], &values);
            let mut cpu = CpuTarget::host();
            cpu.vector_bytes = [16, 32, 64][case as usize % 3];
            let what = format!("{name} of {rows} x {columns}, case {case}");
            check(&Options::new(cpu), &module, &x, &what);
        }
    }
}

/// Enough elements for tasks, of which each has a part.
#[test]
fn tasks_have_parts_of_their_own() {
    for (name, producer, _) in PRODUCERS {
        for rows in [None, Some(130)] {
            let module = module(producer, rows, 256);
            let mut values = f32s(&[130, 256], 1).to_f32().unwrap();
            values[129 * 256 + 255] = 3.0;
            let x = Literal::from_f32(vec![130, 256], &values);
            check(&Options::new(CpuTarget::host()), &module, &x, name);
        }
    }
}

/// Feature maps, with a convolution of integers behind the codes.
#[test]
fn ranges_of_feature_maps() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let width = Expr::var(b.sym("w"));
    let x = b.param("x", TensorType::new(DType::F32, vec![1.into(), 3.into(), 9.into(), width]));
    let mut w = Writer { b };
    let weights = w.constant(&[32, 3, 3, 3], 5);
    let attrs = ConvAttrs {
        strides: vec![1, 1],
        pads_begin: vec![1, 1],
        pads_end: vec![1, 1],
        dilations: vec![1, 1],
        groups: 1,
    };
    let y = w.op(Op::Conv(attrs), &[x, weights]);
    let s = w.op(Op::Unary(Unary::Sigmoid), &[y]);
    let y = w.binary(Binary::Mul, y, s);
    let [codes, scale, point] = w.quantized(y, 4);
    let names = ["y", "codes", "scale", "point"].map(String::from).to_vec();
    w.b.finish(vec![y, codes, scale, point], names);
    let x = f32s(&[1, 3, 9, 21], 9);
    check(&Options::new(CpuTarget::host()), &module, &x, "convolution");
}
