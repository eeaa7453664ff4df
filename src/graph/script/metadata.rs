//! The metadata table of a script: TVM's JSON graph of objects, of which constants are read.

use std::sync::Arc;

use reflex_tir::DType;
use serde_json::Value as Json;

use crate::Literal;

/// Magic number of a saved tensor.
pub(crate) const TENSOR_MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;
/// Device type of the CPU in a saved tensor.
const CPU: i32 = 1;

/// The constants of a table, in order.
pub(super) fn constants(json: &str) -> Result<Vec<Literal>, String> {
    let graph: Json = serde_json::from_str(json).map_err(|e| format!("metadata: {e}"))?;
    let graph = Graph(&graph);
    let root = graph.node(&graph.0["root_index"], "ffi.Map")?;
    let pairs = list(root)?;
    for pair in pairs.chunks(2) {
        let [key, value] = pair else { break };
        if graph.node(key, "ffi.String")?.as_str() == Some("ir.GenericConst") {
            let entries = list(graph.node(value, "ffi.Array")?)?;
            return entries.iter().map(|entry| graph.constant(entry)).collect();
        }
    }
    Ok(vec![])
}

struct Graph<'j>(&'j Json);

impl<'j> Graph<'j> {
    /// The data of a node, whose type has to be `ty`.
    fn node(&self, index: &Json, ty: &str) -> Result<&'j Json, String> {
        let index = index.as_u64().ok_or("metadata: a node index is missing")?;
        let node = &self.0["nodes"][index as usize];
        match node["type"].as_str() {
            Some(found) if found == ty => Ok(&node["data"]),
            found => Err(format!("metadata: node {index} is {found:?}, expected {ty}")),
        }
    }

    fn constant(&self, index: &Json) -> Result<Literal, String> {
        let data = self.node(index, "ir.GenericConst")?;
        let text = self.node(&data["value"], "ffi.Tensor")?.as_str();
        let bytes = text.and_then(unbase64).ok_or("metadata: a tensor is not base64")?;
        tensor(&bytes).ok_or_else(|| "metadata: a tensor is damaged".to_string())
    }
}

fn list(data: &Json) -> Result<&Vec<Json>, String> {
    data.as_array().ok_or_else(|| "metadata: a list is missing".to_string())
}

/// A tensor as TVM saves it.
pub(crate) fn tensor(bytes: &[u8]) -> Option<Literal> {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    let magic = u64::from_le_bytes(take(8)?.try_into().ok()?);
    let _reserved = take(8)?;
    let device = i32::from_le_bytes(take(4)?.try_into().ok()?);
    let _device_id = take(4)?;
    let rank = i32::from_le_bytes(take(4)?.try_into().ok()?);
    let [code, bits, lanes @ ..] = take(4)? else { return None };
    let lanes = u16::from_le_bytes(lanes.try_into().ok()?);
    if magic != TENSOR_MAGIC || device != CPU || lanes != 1 {
        return None;
    }
    let mut shape = vec![];
    for _ in 0..rank {
        shape.push(i64::from_le_bytes(take(8)?.try_into().ok()?));
    }
    let size = usize::try_from(i64::from_le_bytes(take(8)?.try_into().ok()?)).ok()?;
    let data = take(size)?.to_vec();
    // TVM writes bool as an unsigned integer of one bit, kept in a byte.
    let dtype = if (*code, *bits) == (1, 1) { DType::BOOL } else { DType::new(*code, *bits) };
    Literal::new(dtype, shape, Arc::new(data))
}

/// The bytes of a text in base64.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut word, mut bits) = (0u32, 0);
    for c in text.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    Some(out)
}
