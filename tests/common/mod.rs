//! Small ONNX models as bytes, written field by field (numbers are those of `onnx.proto`).

#![allow(dead_code)] // each test binary uses a part

/// A length-delimited field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    varint(&mut out, content.len() as u64);
    out.extend(content);
    out
}

/// A varint field.
fn int(number: u8, value: u64) -> Vec<u8> {
    let mut out = vec![number << 3];
    varint(&mut out, value);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// `ValueInfoProto` of a float tensor; extents are numbers or names.
fn tensor(name: &str, dims: &[&str]) -> Vec<u8> {
    let dim = |d: &&str| match d.parse::<u64>() {
        Ok(value) => field(1, &int(1, value)),
        Err(_) => field(1, &field(2, d.as_bytes())),
    };
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    let tensor_type = [int(1, 1), field(2, &shape)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor_type))].concat()
}

/// A model of one node.
pub fn one_node(op: &str, inputs: &[(&str, &[&str])], output: (&str, &[&str])) -> Vec<u8> {
    let mut node: Vec<u8> = inputs.iter().flat_map(|(n, _)| field(1, n.as_bytes())).collect();
    node.extend(
        [field(2, output.0.as_bytes()), field(3, b"the_node"), field(4, op.as_bytes())].concat(),
    );
    let mut graph = [field(1, &node), field(2, b"graph")].concat();
    inputs.iter().for_each(|(n, dims)| graph.extend(field(11, &tensor(n, dims))));
    graph.extend(field(12, &tensor(output.0, output.1)));
    [int(1, 8), field(7, &graph), field(8, &int(2, 17))].concat()
}

/// `y = x + b`, x and y `[n, 3]`, b `[3]`.
pub fn add() -> Vec<u8> {
    one_node("Add", &[("x", &["n", "3"]), ("b", &["3"])], ("y", &["n", "3"]))
}
