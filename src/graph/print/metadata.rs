//! The metadata table: large constants as TVM's JSON graph of objects.

use std::fmt::Write;

use crate::Literal;

/// The reference to a constant of the table.
pub(super) fn entry(index: usize) -> String {
    format!("metadata[\"ir.GenericConst\"][{index}]")
}

/// `metadata = tvm.ir.load_json(...)` with these constants.
pub(super) fn table(literals: &[&Literal]) -> String {
    let mut nodes = Nodes { text: String::new(), count: 0 };
    let key = nodes.push("ffi.String", "\"ir.GenericConst\"");
    let none = nodes.push_none();
    let int64 = nodes.push("ir.PrimType", &format!("{{\"span\": {none}, \"dtype\": \"int64\"}}"));
    let mut entries = vec![];
    for literal in literals {
        entries.push(nodes.constant(literal, none, int64).to_string());
    }
    let list = nodes.push("ffi.Array", &format!("[{}]", entries.join(", ")));
    let root = nodes.push("ffi.Map", &format!("[{key}, {list}]"));
    let json = format!(
        "{{\n  \"root_index\": {root},\n  \"nodes\": [{}\n  ],\n  \
         \"metadata\": {{\"tvm_version\": \"0.27.0\"}}\n}}",
        nodes.text
    );
    let quoted = json.replace('\\', "\\\\").replace('"', "\\\"");
    format!("metadata = tvm.ir.load_json(\"\"\"{quoted}\"\"\")\n")
}

struct Nodes {
    text: String,
    count: usize,
}

impl Nodes {
    fn add(&mut self, node: &str) -> usize {
        let comma = if self.count == 0 { "" } else { "," };
        let _ = write!(self.text, "{comma}\n    {node}");
        self.count += 1;
        self.count - 1
    }

    fn push(&mut self, ty: &str, data: &str) -> usize {
        self.add(&format!("{{\"type\": \"{ty}\", \"data\": {data}}}"))
    }

    fn push_none(&mut self) -> usize {
        self.add("{\"type\": \"None\"}")
    }

    /// A constant with its type; the index of the node.
    fn constant(&mut self, literal: &Literal, none: usize, int64: usize) -> usize {
        let mut dims = vec![];
        for dim in literal.shape() {
            let value = self.push("int", &dim.to_string());
            let data = format!("{{\"span\": {none}, \"ty\": {int64}, \"value\": {value}}}");
            dims.push(self.push("ir.IntImm", &data).to_string());
        }
        let rank = self.push("int", &dims.len().to_string());
        let values = self.push("ffi.Array", &format!("[{}]", dims.join(", ")));
        let ty = format!("{{\"span\": {none}, \"values\": {values}, \"ndim\": {rank}}}");
        let ty = self.push("relax.ShapeType", &ty);
        let shape = format!("{{\"span\": {none}, \"ty\": {ty}, \"values\": {values}}}");
        let shape = self.push("relax.expr.ShapeExpr", &shape);
        let dtype = format!("{{\"span\": {none}, \"dtype\": \"{}\"}}", literal.dtype());
        let dtype = self.push("ir.PrimType", &dtype);
        let tensor = format!(
            "{{\"span\": {none}, \"shape\": {shape}, \"dtype\": {dtype}, \"vdevice\": {none}, \
             \"ndim\": {rank}}}"
        );
        let ty = self.push("relax.TensorType", &tensor);
        let value = self.push("ffi.Tensor", &format!("\"{}\"", literal.to_saved()));
        let data = format!("{{\"span\": {none}, \"ty\": {ty}, \"value\": {value}}}");
        self.push("ir.GenericConst", &data)
    }
}
