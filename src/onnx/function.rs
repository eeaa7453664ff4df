//! Bodies of model-local functions with the caller's attributes put in.

use std::collections::HashMap;

use crate::error::{Result, invalid};
use crate::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};

type Attributes<'a> = HashMap<&'a str, &'a AttributeProto>;

/// The nodes of `function` with the attributes of the call `node`.
pub(crate) fn specialise(function: &FunctionProto, node: &NodeProto) -> Result<Vec<NodeProto>> {
    let declared = |a: &AttributeProto| {
        function.attribute.contains(&a.name)
            || function.attribute_proto.iter().any(|d| d.name == a.name)
    };
    if let Some(unknown) = node.attribute.iter().find(|a| !declared(a)) {
        return Err(invalid(format!("function has no attribute `{}`", unknown.name)));
    }
    let defaults = function.attribute_proto.iter().map(|a| (a.name.as_str(), a));
    let mut attributes: Attributes = defaults.collect();
    attributes.extend(node.attribute.iter().map(|a| (a.name.as_str(), a)));
    Ok(function.node.iter().map(|node| substitute(node, &attributes)).collect())
}

fn substitute(node: &NodeProto, attributes: &Attributes) -> NodeProto {
    let attribute = |a: &AttributeProto| {
        if a.ref_attr_name.is_empty() {
            let g = a.g.as_ref().map(|g| substitute_graph(g, attributes));
            return Some(AttributeProto { g, ..a.clone() });
        }
        // A reference to an attribute that the call does not give leaves the operator's own default.
        let value = *attributes.get(a.ref_attr_name.as_str())?;
        Some(AttributeProto { name: a.name.clone(), ..value.clone() })
    };
    let attribute = node.attribute.iter().filter_map(attribute).collect();
    NodeProto { attribute, ..node.clone() }
}

fn substitute_graph(graph: &GraphProto, attributes: &Attributes) -> GraphProto {
    let node = graph.node.iter().map(|node| substitute(node, attributes)).collect();
    GraphProto { node, ..graph.clone() }
}
