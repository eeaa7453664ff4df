//! Operators that move dequantised elements move the integers instead, and mean the same.

use reflex_graph::{Func, Literal};
use reflex_tir::DType;
use std::sync::Arc;

use super::tests::{Build, int, ints, ops};
use crate::proto::{AttributeProto, data_type};

/// `y = Op(..)` on `a`, which is dequantised before, and the quantisation of `y`.
struct Case {
    node: &'static str,
    attributes: Vec<AttributeProto>,
    /// Whether the integers stand for the result as well.
    moves: bool,
}

fn case(node: &'static str, attributes: Vec<AttributeProto>, moves: bool) -> Case {
    Case { node, attributes, moves }
}

/// The model with parameters as constants, or as inputs, which no rule knows.
fn model(case: &Case, constant: bool, scale_out: f32) -> Build {
    let mut inputs = vec!["q: u8[1, 4, 6, 6]", "p: u8[1, 4, 6, 6]"];
    if !constant {
        inputs.extend(["scale: f32[]", "zero: u8[]"]);
    }
    let mut b = Build::inputs(&inputs);
    if constant {
        b = b.raw("scale", &[], data_type::FLOAT, &0.037_f32.to_le_bytes());
        b = b.raw("zero", &[], data_type::UINT8, &[131]);
    }
    b = b.raw("other", &[], data_type::FLOAT, &scale_out.to_le_bytes());
    for (name, values) in [("shape", vec![1, 4, 36]), ("pads", vec![0, 0, 1, 2, 0, 0, 2, 1])] {
        let bytes: Vec<u8> = values.iter().flat_map(|v: &i64| v.to_le_bytes()).collect();
        b = b.raw(name, &[values.len() as i64], data_type::INT64, &bytes);
    }
    let value = 0.5_f32.to_le_bytes();
    b = b.raw("half", &[], data_type::FLOAT, &value);
    b = b.node("a = DequantizeLinear(q, scale, zero)", vec![]);
    b = b.node("b = DequantizeLinear(p, scale, zero)", vec![]);
    b = b.node(case.node, case.attributes.clone());
    let by = if scale_out == 0.037 { "scale" } else { "other" };
    let back = format!("z = QuantizeLinear(y, {by}, zero)");
    b.node(&back, vec![])
}

/// Whether a quantisation is left; its rounding is the one operator of one operand.
fn rounds(func: &Func) -> bool {
    ops(func).iter().any(|op| op == "Unary")
}

#[test]
fn integers_are_moved_and_mean_the_same() {
    let cases = [
        case("y = Reshape(a, shape)", vec![], true),
        case("y = Transpose(a)", vec![ints("perm", &[0, 2, 3, 1])], true),
        case(
            "y = MaxPool(a)",
            vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])],
            true,
        ),
        case("y = Pad(a, pads)", vec![], true),
        case("y = Pad(a, pads, half)", vec![], false),
        case("y = Concat(a, b)", vec![int("axis", 1)], true),
        case("y = DepthToSpace(a)", vec![int("blocksize", 2)], true),
        case("y, rest = Split(a)", vec![int("axis", 2), int("num_outputs", 2)], true),
        case("y = Add(a, b)", vec![], false),
    ];
    let noise = |seed: usize| {
        let bytes: Vec<u8> = (0..144).map(|n: usize| (n * 7919 + seed * 104_729) as u8).collect();
        Literal::new(DType::U8, vec![1, 4, 6, 6], Arc::new(bytes)).unwrap()
    };
    let (q, p) = (noise(1), noise(2));
    let scale = Literal::from_f32(vec![], &[0.037]);
    let zero = Literal::new(DType::U8, vec![], Arc::new(vec![131])).unwrap();
    for case in &cases {
        let func = model(case, true, 0.037).import(&["z"]).unwrap();
        assert_eq!(rounds(&func), !case.moves, "{}", case.node);
        let other = model(case, true, 0.5).import(&["z"]).unwrap();
        assert!(rounds(&other), "{}: another scale", case.node);
        let moved = model(case, true, 0.037).eval(&["z", "y"], &[&q, &p]);
        let plain = model(case, false, 0.037).eval(&["z", "y"], &[&q, &p, &scale, &zero]);
        for (a, b) in moved.iter().zip(&plain) {
            assert!(a.bytes() == b.bytes() && a.shape() == b.shape(), "{}", case.node);
        }
    }
}
