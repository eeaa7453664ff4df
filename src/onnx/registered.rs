//! Operators registered from outside: a node `NAME` of domain `SPACE` is the operator `SPACE.NAME`, whose
//! attributes are those of the node.

use std::sync::Arc;

use reflex_graph::registered::{self, AttrValue, OpDef};

use crate::error::{Result, malformed, unsupported};
use crate::proto::{AttributeProto, NodeProto, attribute_type};

/// The registered operator of a node's domain and type.
pub(crate) fn find(domain: &str, operator: &str) -> Option<Arc<OpDef>> {
    registered::find(&format!("{domain}.{operator}"))
}

/// The attributes of a node.
pub(crate) fn attributes(node: &NodeProto) -> Result<Vec<(String, AttrValue)>> {
    node.attribute.iter().map(|a| Ok((a.name.clone(), attribute(a)?))).collect()
}

fn attribute(a: &AttributeProto) -> Result<AttrValue> {
    match a.r#type {
        attribute_type::INT => Ok(AttrValue::Int(a.i)),
        attribute_type::FLOAT => Ok(AttrValue::Float(f64::from(a.f))),
        attribute_type::STRING => match std::str::from_utf8(&a.s) {
            Ok(text) => Ok(AttrValue::Str(text.to_owned())),
            Err(_) => Err(malformed(format!("attribute `{}` is not UTF-8", a.name))),
        },
        attribute_type::INTS => Ok(AttrValue::Ints(a.ints.clone())),
        attribute_type::FLOATS => {
            Ok(AttrValue::Floats(a.floats.iter().map(|value| f64::from(*value)).collect()))
        }
        kind => Err(unsupported(format!("attribute `{}` of type {kind}", a.name))),
    }
}
