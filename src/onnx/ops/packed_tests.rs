//! Constant weights stay codes, and mean what the same operators compute from weights that are inputs.

use reflex_graph::{EvalValue, FuncData, Literal, eval_func};
use reflex_tir::DType;
use std::sync::Arc;

use super::tests::{Build, int, ops};
use crate::proto::{AttributeProto, data_type};

/// Deterministic bytes.
fn noise(count: usize, seed: u32) -> Vec<u8> {
    let next = |n: usize| (n as u32).wrapping_mul(2_654_435_761).wrapping_add(seed * 40_503);
    (0..count).map(|n| (next(n) >> 13) as u8).collect()
}

fn floats(shape: &[i64], seed: u32) -> Literal {
    let count = shape.iter().product::<i64>() as usize;
    let values: Vec<f32> =
        noise(count, seed).iter().map(|b| (f32::from(*b) - 100.0) / 77.0).collect();
    Literal::from_f32(shape.to_vec(), &values)
}

fn bytes(dtype: DType, shape: &[i64], seed: u32) -> Literal {
    let count = shape.iter().product::<i64>() as usize;
    Literal::new(dtype, shape.to_vec(), Arc::new(noise(count, seed))).unwrap()
}

const UINT4: i32 = 21;
const INT4: i32 = 22;

/// A node of com.microsoft or of ONNX.
type Node<'a> = (&'a str, Vec<AttributeProto>);

/// The last of `y`, with the parts of the weights as inputs, and as constants. Nothing but what is left
/// of `operators` stands before the matmul of constants.
fn check(weights: &[(&str, Literal)], nodes: &[Node<'_>], depth: i64, operators: &[&str]) {
    let a = floats(&[3, depth], 1);
    let type_of = |l: &Literal| match l.dtype() {
        DType::F32 => "f32",
        DType::I32 => "i32",
        DType::I8 => "i8",
        _ => "u8",
    };
    let declared = |name: &str, l: &Literal| {
        let dims: Vec<String> = l.shape().iter().map(i64::to_string).collect();
        format!("{name}: {}[{}]", type_of(l), dims.join(", "))
    };
    let mut inputs = vec![declared("a", &a)];
    inputs.extend(weights.iter().map(|(name, l)| declared(name, l)));
    let names: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let with_nodes = |mut b: Build| {
        for (node, attributes) in nodes {
            b = match node.contains("MatMulNBits") || node.contains("MatMulBnb4") {
                true => b.contrib(node, attributes.clone()),
                false => b.node(node, attributes.clone()),
            };
        }
        b
    };
    let args: Vec<&Literal> = std::iter::once(&a).chain(weights.iter().map(|(_, l)| l)).collect();
    let want = with_nodes(Build::inputs(&names)).eval(&["y"], &args).remove(0);

    let mut b = Build::inputs(&names[..1]);
    for (name, l) in weights {
        let code = match l.dtype() {
            DType::F32 => data_type::FLOAT,
            DType::I32 => data_type::INT32,
            DType::I8 => data_type::INT8,
            _ => data_type::UINT8,
        };
        b = b.raw(name, l.shape(), code, l.bytes());
    }
    let module = with_nodes(b).module(&["y"]).unwrap();
    let (id, data) = module.funcs.iter().next().expect("a function");
    let FuncData::Graph(func) = data else { panic!("no function of operators") };
    assert_eq!(ops(func), operators, "{nodes:?}");
    let packed = module.consts.values().filter(|c| c.as_block_quantized().is_some()).count();
    assert_eq!(packed, usize::from(operators.last() == Some(&"MatMul")), "{nodes:?}");
    let got = eval_func(&module, id, &[EvalValue::Tensor(a)]).unwrap();
    assert_eq!(got[0].as_tensor(), Some(&want), "{nodes:?}");
}

fn sizes(k: i64, n: i64, bits: i64, block: i64) -> Vec<AttributeProto> {
    vec![int("K", k), int("N", n), int("bits", bits), int("block_size", block)]
}

/// Attributes of a product whose activations stay float32.
fn of_floats(k: i64, n: i64, bits: i64, block: i64) -> Vec<AttributeProto> {
    [sizes(k, n, bits, block), vec![int("accuracy_level", 1)]].concat()
}

#[test]
fn matmul_nbits() {
    for (bits, k, block) in [(4, 64, 32), (4, 40, 16), (8, 64, 32), (2, 64, 16), (4, 96, 32)] {
        let (n, blocks) = (20, (k + block - 1) / block);
        let codes = bytes(DType::U8, &[n, blocks, block * bits / 8], 2);
        let base = vec![("b", codes), ("s", floats(&[n, blocks], 3))];
        let given = |zero: Literal| [&base[..], &[("z", zero)]].concat();
        let node = |text| [(text, of_floats(k, n, bits, block))];
        check(&base, &node("y = MatMulNBits(a, b, s)"), k, &["MatMul"]);
        let zeros = bytes(DType::U8, &[n, (blocks * bits + 7) / 8], 4);
        check(&given(zeros), &node("y = MatMulNBits(a, b, s, z)"), k, &["MatMul"]);
        let numbers = floats(&[n, blocks], 5);
        check(&given(numbers), &node("y = MatMulNBits(a, b, s, z)"), k, &["MatMul"]);
    }
}

#[test]
fn the_level_decides_the_type_of_activations() {
    let codes = bytes(DType::U8, &[20, 2, 16], 2);
    let model = |level: i64, depth: i64, zeros: bool| {
        let mut b = Build::inputs(&[&format!("a: f32[3, {depth}]")]);
        b = b.raw("b", codes.shape(), data_type::UINT8, codes.bytes());
        let scales = floats(&[20, 2], 3);
        b = b.raw("s", scales.shape(), data_type::FLOAT, scales.bytes());
        let numbers = floats(&[20, 2], 4);
        b = b.raw("z", numbers.shape(), data_type::FLOAT, numbers.bytes());
        let attributes = [sizes(64, 20, 4, 32), vec![int("accuracy_level", level)]].concat();
        let node = if zeros { "y = MatMulNBits(a, b, s, z)" } else { "y = MatMulNBits(a, b, s)" };
        b.contrib(node, attributes).module(&["y"])
    };
    let of = |level, zeros| {
        let module = model(level, 64, zeros).unwrap();
        let (_, FuncData::Graph(func)) = module.funcs.iter().next().expect("a function") else {
            panic!("no function of operators")
        };
        ops(func)
    };
    assert_eq!(of(1, false), ["MatMul"]);
    for level in [0, 2, 3, 4] {
        assert_eq!(of(level, false), ["MatMulNBits"], "{level}");
        assert_eq!(of(level, true), ["MatMul"], "{level}: zero points that are numbers");
    }
    let refused = |level, depth| model(level, depth, false).unwrap_err().to_string();
    assert!(refused(5, 64).contains("`accuracy_level` is 5"), "{}", refused(5, 64));
    // As many blocks, but other rows.
    assert_eq!(refused(4, 60), refused(0, 60));
}

#[test]
fn groups_in_order_are_none() {
    let base = [("b", bytes(DType::U8, &[20, 4, 8], 2)), ("s", floats(&[20, 4], 3))];
    let group = |of: &dyn Fn(i32) -> i32| {
        let values: Vec<u8> = (0..64).flat_map(|k| of(k).to_le_bytes()).collect();
        ("g", Literal::new(DType::I32, vec![64], Arc::new(values)).unwrap())
    };
    let node = [("y = MatMulNBits(a, b, s, _, g)", of_floats(64, 20, 4, 16))];
    let with = |g| [&base[..], &[g]].concat();
    check(&with(group(&|k| k / 16)), &node, 64, &["MatMul"]);
    let module = |g| {
        let b = Build::inputs(&["a: f32[3, 64]"]);
        let parts: Vec<(&str, Literal)> = with(g);
        let codes = [data_type::UINT8, data_type::FLOAT, data_type::INT32];
        let b = parts
            .iter()
            .zip(codes)
            .fold(b, |b, ((name, l), code)| b.raw(name, l.shape(), code, l.bytes()));
        b.contrib(node[0].0, node[0].1.clone()).module(&["y"]).unwrap()
    };
    let other = module(group(&|k| 3 - k / 16));
    assert!(other.consts.values().all(|c| c.as_block_quantized().is_none()));
}

#[test]
fn matmul_bnb4() {
    for kind in [0, 1] {
        let (n, k, block) = (20, 64, 16);
        let codes = bytes(DType::U8, &[n * k / 2], 2);
        let weights = [("b", codes), ("s", floats(&[n * k / block], 3))];
        let attributes =
            vec![int("K", k), int("N", n), int("block_size", block), int("quant_type", kind)];
        check(&weights, &[("y = MatMulBnb4(a, b, s)", attributes)], k, &["MatMul"]);
    }
}

#[test]
fn dequantized_blocks() {
    for dtype in [DType::U8, DType::I8] {
        let zero = |shape: &[i64], seed| bytes(dtype, shape, seed);
        // The depth is the first axis, or the last one of what is transposed.
        let weights = [
            ("c", bytes(dtype, &[64, 20], 2)),
            ("s", floats(&[4, 20], 3)),
            ("z", zero(&[4, 20], 4)),
        ];
        let block = vec![int("block_size", 16), int("axis", 0)];
        let product = ("y = MatMul(a, w)", vec![]);
        let node = ("w = DequantizeLinear(c, s, z)", block.clone());
        check(&weights, &[node, product.clone()], 64, &["MatMul"]);
        let node = ("w = DequantizeLinear(c, s)", block);
        check(&weights[..2], &[node, product], 64, &["MatMul"]);
        let weights = [
            ("c", bytes(dtype, &[20, 64], 2)),
            ("s", floats(&[20, 4], 3)),
            ("z", zero(&[20, 4], 4)),
        ];
        let nodes = [
            ("v = DequantizeLinear(c, s, z)", vec![int("block_size", 16), int("axis", -1)]),
            ("w = Transpose(v)", vec![]),
            ("y = MatMul(a, w)", vec![]),
        ];
        check(&weights, &nodes, 64, &["MatMul"]);
    }
}

/// Codes of 4 bits in a file, two in a byte.
#[test]
fn dequantized_narrow_integers() {
    let (scales, packed) = (floats(&[4, 20], 3), noise(64 * 20 / 2, 2));
    let wide = |signed: bool| -> Vec<u8> {
        let codes = packed.iter().flat_map(|b| [b & 15, b >> 4]);
        let sign = if signed { 8 } else { 0 };
        codes.map(|c: u8| (c ^ sign).wrapping_sub(sign)).collect()
    };
    let block = vec![int("block_size", 16), int("axis", 0)];
    for (narrow, byte, signed) in [(INT4, data_type::INT8, true), (UINT4, data_type::UINT8, false)]
    {
        let result = |code: i32, codes: &[u8]| {
            let b = Build::inputs(&["a: f32[3, 64]"]).raw("c", &[64, 20], code, codes);
            let b = b.raw("s", scales.shape(), data_type::FLOAT, scales.bytes());
            let b = b.node("w = DequantizeLinear(c, s)", block.clone());
            let b = b.node("y = MatMul(a, w)", vec![]);
            b.eval(&["y"], &[&floats(&[3, 64], 1)]).remove(0)
        };
        assert_eq!(result(narrow, &packed), result(byte, &wide(signed)));
    }
}

/// Weights with one scale for each column, or for all.
#[test]
fn dequantized_columns() {
    let (k, n) = (260, 256);
    let product = ("y = MatMul(a, w)", vec![]);
    let to_float = vec![int("to", i64::from(data_type::FLOAT))];
    for dtype in [DType::U8, DType::I8] {
        let codes = || bytes(dtype, &[k, n], 2);
        let cast = ("f = Cast(c)", to_float.clone());
        for shape in [&[1, n][..], &[n], &[1], &[]] {
            let weights = [("c", codes()), ("s", floats(shape, 3))];
            for mul in ["w = Mul(f, s)", "w = Mul(s, f)"] {
                let nodes = [cast.clone(), (mul, vec![]), product.clone()];
                check(&weights, &nodes, k, &["MatMul"]);
            }
        }
        let dequantize = ("w = DequantizeLinear(c, s, z)", vec![int("axis", 1)]);
        for shape in [&[n][..], &[]] {
            let weights = [("c", codes()), ("s", floats(shape, 3)), ("z", bytes(dtype, shape, 4))];
            check(&weights, &[dequantize.clone(), product.clone()], k, &["MatMul"]);
        }
        // The depth of a transposed matrix is the last axis of what is dequantised.
        let weights =
            [("c", bytes(dtype, &[n, k], 2)), ("s", floats(&[n], 3)), ("z", bytes(dtype, &[n], 4))];
        let dequantize = ("v = DequantizeLinear(c, s, z)", vec![int("axis", 0)]);
        let gemm = ("y = Gemm(a, v)", vec![int("transB", 1)]);
        check(&weights, &[dequantize, gemm], k, &["MatMul"]);
    }
}

/// Embeddings with one scale for each row or column, or for all, are gathered as integers; others as floats.
#[test]
fn rows_of_dequantized_tables() {
    let (rows, n) = (300, 256);
    let cast = ("f = Cast(c)", vec![int("to", i64::from(data_type::FLOAT))]);
    let mul = ("t = Mul(f, s)", vec![]);
    let dequantize = |axis| ("t = DequantizeLinear(c, s, z)", vec![int("axis", axis)]);
    let gather = |axis| ("y = Gather(t, i)", vec![int("axis", axis)]);
    let indices = Literal::from_i64(vec![2, 3], &[7, 0, -1, 199, 7, 1]);
    let cases: [(i64, &[i64], Vec<Node<'_>>, bool); 8] = [
        (rows, &[], vec![cast.clone(), mul.clone(), gather(0)], true),
        (rows, &[1, n], vec![cast.clone(), mul.clone(), gather(0)], true),
        (rows, &[], vec![dequantize(1), gather(0)], true),
        (rows, &[n], vec![dequantize(1), gather(0)], true),
        (rows, &[rows, 1], vec![cast.clone(), mul.clone(), gather(0)], true),
        (rows, &[rows], vec![dequantize(0), gather(0)], true),
        (rows, &[n], vec![dequantize(1), gather(1)], false),
        (200, &[n], vec![dequantize(1), gather(0)], false),
    ];
    for (rows, shape, nodes, gathered) in cases {
        let (codes, zeros) = (bytes(DType::I8, &[rows, n], 2), bytes(DType::I8, shape, 4));
        let scales = floats(shape, 3);
        let dims: Vec<String> = shape.iter().map(i64::to_string).collect();
        let dims = dims.join(", ");
        let types = [
            "i: i64[2, 3]".to_owned(),
            format!("c: i8[{rows}, {n}]"),
            format!("s: f32[{dims}]"),
            format!("z: i8[{dims}]"),
        ];
        let types = types.each_ref().map(String::as_str);
        let with = |b: Build| nodes.iter().fold(b, |b, (node, list)| b.node(node, list.clone()));
        let plain = with(Build::inputs(&types));
        let packed = || {
            let b = Build::inputs(&types[..1]);
            let b = b.raw("c", codes.shape(), data_type::INT8, codes.bytes());
            let b = b.raw("s", scales.shape(), data_type::FLOAT, scales.bytes());
            with(b.raw("z", zeros.shape(), data_type::INT8, zeros.bytes()))
        };
        let read = packed().import(&["y"]).unwrap();
        // Floats of a constant are folded.
        let behind = ops(&read).last().is_some_and(|op| *op != "Gather");
        assert_eq!(behind, gathered, "{shape:?}: {nodes:?}");
        let expected = plain.eval(&["y"], &[&indices, &codes, &scales, &zeros]);
        let got = packed().eval(&["y"], &[&indices]);
        assert!(got[0].bytes() == expected[0].bytes(), "{shape:?}: {nodes:?}");
        assert_eq!(got[0].shape(), expected[0].shape());
    }
}

/// Scales along the depth, and matrices that a cache holds, become floats.
#[test]
fn other_dequantized_matrices_are_floats() {
    let module = |k: i64, n: i64, scales: &[i64]| {
        let (codes, scales) = (bytes(DType::I8, &[k, n], 2), floats(scales, 3));
        let b = Build::inputs(&[&format!("a: f32[3, {k}]")]);
        let b = b.raw("c", codes.shape(), data_type::INT8, codes.bytes());
        let b = b.raw("s", scales.shape(), data_type::FLOAT, scales.bytes());
        let b = b.node("f = Cast(c)", vec![int("to", i64::from(data_type::FLOAT))]);
        let b = b.node("w = Mul(f, s)", vec![]);
        b.node("y = MatMul(a, w)", vec![]).module(&["y"]).unwrap()
    };
    for (k, n, scales) in [(256, 256, [256, 1]), (64, 64, [1, 64])] {
        let module = module(k, n, &scales);
        assert!(module.consts.values().all(|c| c.as_block_quantized().is_none()), "{k} x {n}");
    }
}
