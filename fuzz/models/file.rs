//! Model files and attributes.

use reflex_onnx::proto::*;

/// A model file.
pub(super) fn encoded(graph: GraphProto) -> Vec<u8> {
    let set = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let opset_import = vec![set("", 21), set("ai.onnx.ml", 3), set("com.microsoft", 1)];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..Default::default() }
        .encode_to_vec()
}

/// An integer attribute.
pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, r#type: attribute_type::INT, ..Default::default() }
}

/// An attribute of integers.
pub(super) fn ints(name: &str, list: &[i64]) -> AttributeProto {
    let ints = list.to_vec();
    AttributeProto { name: name.into(), ints, r#type: attribute_type::INTS, ..Default::default() }
}

/// An attribute of strings.
pub(super) fn texts(name: &str, list: &[&str]) -> AttributeProto {
    let strings = list.iter().map(|text| text.as_bytes().to_vec().into()).collect();
    AttributeProto {
        name: name.into(),
        strings,
        r#type: attribute_type::STRINGS,
        ..Default::default()
    }
}
