//! Forms of operators in older operator sets, and sequences of narrow types: what ONNX Runtime does not run,
//! by numbers from NumPy.

use reflex_graph::Literal;

use super::tests::{Build, int};
use crate::proto::{AttributeProto, attribute_type};

fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), f, r#type: attribute_type::FLOAT, ..Default::default() }
}

fn f32s(literal: &Literal) -> Vec<f32> {
    let chunks = literal.bytes().chunks_exact(4);
    chunks.map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

fn near(found: &Literal, wanted: &[f32]) {
    let found = f32s(found);
    assert_eq!(found.len(), wanted.len());
    let far = found.iter().zip(wanted).any(|(a, b)| (a - b).abs() > 2e-5);
    assert!(!far, "{found:?} instead of {wanted:?}");
}

/// Before opset 14 the number of results says that it is training, before opset 7 `is_test`. The batch's own
/// mean and variance (of the whole population) are results too.
#[test]
fn batch_normalization_of_older_sets_is_trained() {
    let x = [1.25, -1.75, -1.25, -1.0, -1.25, 1.25, 1.5, 0.25, -2.0, -1.75, -0.75, -0.25];
    let wanted = [
        3.79262, -0.48544, -1.541, -1.40575, 0.22757, 3.79262, -0.05325, -0.7295, -0.84194,
        -0.48544, -1.2705, -1.0,
    ];
    let (mean, variance) = ([-0.708_333_3, -0.25], [1.967_013, 0.854_166_7]);
    let x = Literal::from_f32(vec![3, 2, 2], &x);
    let row = |values: [f32; 2]| Literal::from_f32(vec![2], &values);
    let args = [x, row([2.0, 0.5]), row([1.0, -1.0]), row([1.0, 2.0]), row([3.0, 4.0])];
    let args: Vec<&Literal> = args.iter().collect();
    let inputs = ["x: f32[n, 2, m]", "s: f32[2]", "b: f32[2]", "mean: f32[2]", "var: f32[2]"];
    for opset in [6, 7, 9] {
        let names = ["y", "running", "spread", "own", "own_spread"];
        let text = format!("{} = BatchNormalization(x, s, b, mean, var)", names.join(", "));
        let attributes = vec![float("momentum", 0.75)];
        let found = Build::inputs(&inputs).opset(opset).node(&text, attributes).eval(&names, &args);
        near(&found[0], &wanted);
        near(&found[1], &[0.572_916_7, 1.4375]);
        near(&found[2], &[2.741_753_5, 3.213_541_7]);
        near(&found[3], &mean);
        near(&found[4], &variance);
    }
    // One result, of test: by the running mean and variance.
    let tested = |opset: i64, attributes: Vec<AttributeProto>| {
        let b = Build::inputs(&inputs).opset(opset);
        b.node("y = BatchNormalization(x, s, b, mean, var)", attributes).eval(&["y"], &args)
    };
    let (old, new) = (tested(6, vec![int("is_test", 1)]), tested(9, vec![]));
    near(&old[0], &f32s(&new[0]));
    assert!((f32s(&new[0])[0] - wanted[0]).abs() > 0.1);
    let attributes = vec![int("spatial", 0)];
    let b = Build::inputs(&inputs).opset(7);
    let b = b.node("y, m = BatchNormalization(x, s, b, mean, var)", attributes);
    assert!(b.import(&["y"]).unwrap_err().contains("spatial"));
}

/// 8-bit floats and 4-bit integers in sequences whose structure only a run knows.
#[test]
fn sequences_hold_narrow_types() {
    let values = [-2.0, 0.0, 3.0, 7.0];
    let x = Literal::from_f32(vec![4], &values);
    for (code, at) in [(17, 0), (19, 1), (22, 1), (21, 0), (23, 1)] {
        let b = Build::inputs(&["x: f32[n]", "at: i64[]"]).opset(25);
        let b = b.node("narrow = Cast(x)", vec![int("to", code)]);
        let b = b.node("s = SequenceConstruct(narrow)", vec![]);
        let b = b.node("t = SequenceInsert(s, narrow, at)", vec![]);
        let b = b.node("z = SequenceAt(t, at)", vec![]);
        let b = b.node("c = ConcatFromSequence(t)", vec![int("axis", 0)]);
        let b = b.node("y = Cast(z)", vec![int("to", 1)]);
        let b = b.node("both = Cast(c)", vec![int("to", 1)]);
        let found = b.eval(&["y", "both"], &[&x, &Literal::from_i64(vec![], &[at])]);
        let kept = match code {
            // Unsigned integers and 4-bit floats have other numbers there.
            21 => [0.0, 0.0, 3.0, 7.0],
            23 => [-2.0, 0.0, 3.0, 6.0],
            _ => values,
        };
        let (found, both) = (f32s(&found[0]), f32s(&found[1]));
        if code == 21 {
            assert_eq!(found[1..], kept[1..]);
        } else {
            assert_eq!((&found, &both), (&kept.to_vec(), &[kept, kept].concat()), "{code}");
        }
    }
}
