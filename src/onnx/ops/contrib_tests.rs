//! Operators of com.microsoft over symbolic dimensions, and what they refuse. Their answers are
//! held to ONNX Runtime's by `./x conformance` (tests/onnx/contrib_cases.py).

use super::tests::{Build, int, ints, text};

#[test]
fn attention_over_symbolic_sequences() {
    let b = Build::inputs(&["q: f32[n, s, 16]", "k: f32[n, s, 16]", "past: f32[n, 2, p, 8]"]);
    let b = b.contrib(
        "y, pk, pv = MultiHeadAttention(q, k, k, _, _, _, past, past)",
        vec![int("num_heads", 2), int("unidirectional", 1)],
    );
    let cache = "float32[n, 2, Add(s, p), 8]";
    assert_eq!(b.types(&["y", "pk", "pv"]), format!("float32[n, s, 16] {cache} {cache}"));
}

#[test]
fn a_cache_grows_to_the_total_or_keeps_its_capacity() {
    let b = Build::inputs(&[
        "q: f32[n, s, 32]",
        "k: f32[n, s, 16]",
        "past: f32[n, 2, p, 8]",
        "last: i32[n]",
        "total: i32[]",
    ]);
    let b = b.contrib(
        "y, pk, pv = GroupQueryAttention(q, k, k, past, past, last, total)",
        vec![int("num_heads", 4), int("kv_num_heads", 2)],
    );
    let cache = "float32[n, 2, Max(total_sequence_length_0, p), 8]";
    assert_eq!(b.types(&["y", "pk", "pv"]), format!("float32[n, s, 32] {cache} {cache}"));
}

#[test]
fn rows_of_packed_tables_are_expanded() {
    let b = Build::inputs(&["t: u8[30, 16]", "ids: i64[n, s]", "scales: f32[30, 2]"]);
    let attributes = vec![int("bits", 4), int("block_size", 16), int("quantize_axis", 1)];
    let b = b.contrib("y = GatherBlockQuantized(t, ids, scales)", attributes);
    assert_eq!(b.types(&["y"]), "float32[n, s, 32]");
}

/// The error of a node over inputs of these types.
fn refusal(inputs: &[&str], node: &str, attributes: Vec<crate::proto::AttributeProto>) -> String {
    Build::inputs(inputs).contrib(node, attributes).import(&["y"]).unwrap_err()
}

#[test]
fn weights_in_blocks_refuse_by_attribute_and_shape() {
    let inputs = ["a: f32[n, 64]", "b: u8[8, 4, 8]", "s: f32[8, 4]"];
    let sizes =
        |bits, block| vec![int("K", 64), int("N", 8), int("bits", bits), int("block_size", block)];
    let error = refusal(&inputs, "y = MatMulNBits(a, b, s)", sizes(3, 16));
    assert!(error.contains("MatMulNBits") && error.contains("`bits` of 3"), "{error}");
    let error = refusal(&inputs, "y = MatMulNBits(a, b, s)", sizes(4, 24));
    assert!(error.contains("`block_size` is 24"), "{error}");
    let error = refusal(&inputs, "y = MatMulNBits(a, b, s)", sizes(4, 32));
    assert!(error.contains("MatMulNBits"), "fewer codes than named: {error}");
    let huge = vec![int("K", i64::MAX), int("N", 8), int("block_size", 16)];
    let error = refusal(&inputs, "y = MatMulNBits(a, b, s)", huge);
    assert!(error.contains("`K` is"), "{error}");
}

#[test]
fn attention_refuses_by_attribute_and_shape() {
    let inputs =
        ["q: f32[n, s, 16]", "w: f32[16, 48]", "p: f32[n, 2, 4, 8]", "l: i32[n]", "t: i32[]"];
    let error = refusal(&inputs, "y = MultiHeadAttention(q, q, q)", vec![int("num_heads", 0)]);
    assert!(error.contains("num_heads 0"), "{error}");
    let error = refusal(&inputs, "y = MultiHeadAttention(q, q, q)", vec![int("num_heads", 3)]);
    assert!(error.contains("3 heads of type"), "{error}");
    let widths = vec![int("num_heads", 2), ints("qkv_hidden_sizes", &[16, 16, 8])];
    let error = refusal(&inputs, "y = Attention(q, w)", widths);
    assert!(error.contains("qkv_hidden_sizes [16, 16, 8] of 48"), "{error}");
    let quantized =
        vec![int("num_heads", 2), int("kv_num_heads", 2), text("k_quant_type", "PER_TENSOR")];
    let node = "y = GroupQueryAttention(q, q, q, p, p, l, t)";
    let error = refusal(&inputs, node, quantized);
    assert!(error.contains("k_quant_type"), "{error}");
    let error = refusal(&inputs, node, vec![int("num_heads", 3), int("kv_num_heads", 2)]);
    assert!(error.contains("3 query heads share 2 key heads"), "{error}");
}
