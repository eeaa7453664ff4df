//! Graphs built node by node.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{Data, Field, Graph, Node, NodeId, Value};
use crate::table::{self, Equality};

/// The version of TVM whose format [`Builder::finish`] names.
const TVM_VERSION: &str = "0.27.0.post1";

/// The value of a field of a new object.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A node.
    Node(NodeId),
    /// A value. The table says whether it stands in the object itself or is a node.
    Value(Value),
    /// The data type of a name.
    DType(String),
    /// Nothing.
    None,
}

/// Nodes that become a graph. Equal nodes are one node, but for those whose identity counts: variables, functions
/// and branches.
#[derive(Debug, Default)]
pub struct Builder {
    nodes: Vec<Node>,
    known: HashMap<Vec<u8>, NodeId>,
    names: HashMap<String, Arc<str>>,
}

impl Builder {
    /// A builder without nodes.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Nothing.
    pub fn none(&mut self) -> NodeId {
        self.shared("None", Data::None)
    }

    /// A text.
    pub fn string(&mut self, text: &str) -> NodeId {
        self.shared("ffi.String", Data::Value(Value::Text(text.into())))
    }

    /// An integer, as a value of its own.
    pub fn int(&mut self, value: i64) -> NodeId {
        self.shared("int", Data::Value(Value::Int(value)))
    }

    /// A truth value, as a value of its own.
    pub fn bool(&mut self, value: bool) -> NodeId {
        self.shared("bool", Data::Value(Value::Bool(value)))
    }

    /// A float, as a value of its own.
    pub fn float(&mut self, value: f64) -> NodeId {
        self.shared("float", Data::Value(Value::Float(value)))
    }

    /// An object that is a name in the file: an operator, a data type, a function of the environment.
    pub fn named(&mut self, key: &str, name: &str) -> NodeId {
        self.shared(key, Data::Value(Value::Text(name.into())))
    }

    /// A tensor, by its bytes in base64.
    pub fn tensor(&mut self, base64: String) -> NodeId {
        self.push("ffi.Tensor", Data::Value(Value::Text(base64.into())))
    }

    /// An array.
    pub fn array(&mut self, items: Vec<NodeId>) -> NodeId {
        self.shared("ffi.Array", Data::Items(items))
    }

    /// A map: keys and values in turn.
    pub fn map(&mut self, entries: Vec<NodeId>) -> NodeId {
        self.shared("ffi.Map", Data::Items(entries))
    }

    /// An object of a type of the table, by its fields in any order; those that are not given are nothing.
    ///
    /// # Panics
    /// The table has no such type, or the type no such field.
    pub fn object(&mut self, key: &str, given: &[(&str, Given)]) -> NodeId {
        let info = table::find(key).unwrap_or_else(|| panic!("the table has no {key}"));
        for (name, _) in given {
            assert!(info.fields.iter().any(|field| field.name == *name), "{key} has no {name}");
        }
        let mut fields = Vec::with_capacity(info.fields.len());
        for field in &info.fields {
            let value = given.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value);
            let made = match (value, field.inline) {
                (Some(Given::Node(id)), _) => Field::Node(*id),
                (Some(Given::Value(value)), true) => Field::Value(value.clone()),
                (Some(Given::DType(text)), true) => Field::Value(Value::Text(text.as_str().into())),
                (Some(Given::Value(value)), false) => Field::Node(self.value(value)),
                (Some(Given::DType(text)), false) => Field::Node(self.named("DataType", text)),
                (Some(Given::None) | None, true) => Field::Value(Value::Null),
                (Some(Given::None) | None, false) => Field::Node(self.none()),
            };
            fields.push((self.name(field.name), made));
        }
        match info.equality {
            Equality::Tree | Equality::Constant => self.shared(key, Data::Fields(fields)),
            _ => self.push(key, Data::Fields(fields)),
        }
    }

    /// A plain value as a node of its own.
    pub fn value(&mut self, value: &Value) -> NodeId {
        match value {
            Value::Null => self.none(),
            Value::Bool(truth) => self.bool(*truth),
            Value::Int(number) => self.int(*number),
            Value::Float(number) => self.float(*number),
            Value::Text(text) => self.string(text),
        }
    }

    /// The node of a number.
    ///
    /// # Panics
    /// There is no such node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// The graph that is about a node.
    ///
    /// # Panics
    /// There is no such node.
    pub fn finish(self, root: NodeId) -> Graph {
        assert!((root as usize) < self.nodes.len(), "the root is a node");
        let metadata = Some(vec![("tvm_version".to_owned(), TVM_VERSION.to_owned())]);
        Graph { nodes: self.nodes, root, metadata }
    }

    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = text.into();
        self.names.insert(text.to_owned(), Arc::clone(&name));
        name
    }

    fn push(&mut self, key: &str, data: Data) -> NodeId {
        let id = NodeId::try_from(self.nodes.len()).expect("fewer than 2^32 nodes");
        let key = self.name(key);
        self.nodes.push(Node { key, data });
        id
    }

    fn shared(&mut self, key: &str, data: Data) -> NodeId {
        let signature = signature(key, &data);
        if let Some(known) = self.known.get(&signature) {
            return *known;
        }
        let id = self.push(key, data);
        self.known.insert(signature, id);
        id
    }
}

/// Bytes that are the same for equal nodes alone.
fn signature(key: &str, data: &Data) -> Vec<u8> {
    fn value(out: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Null => out.push(0),
            Value::Bool(truth) => out.extend([1, u8::from(*truth)]),
            Value::Int(number) => {
                out.push(2);
                out.extend(number.to_le_bytes());
            }
            Value::Float(number) => {
                out.push(3);
                out.extend(number.to_bits().to_le_bytes());
            }
            Value::Text(text) => {
                out.push(4);
                out.extend(text.len().to_le_bytes());
                out.extend(text.as_bytes());
            }
        }
    }
    let mut out = key.as_bytes().to_vec();
    out.push(0);
    match data {
        Data::None => out.push(0),
        Data::Value(found) => value(&mut out, found),
        Data::Items(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
        Data::Numbers(numbers) => numbers.iter().for_each(|number| value(&mut out, number)),
        // Their names are the key's.
        Data::Fields(fields) => {
            for (_, field) in fields {
                match field {
                    Field::Node(id) => {
                        out.push(5);
                        out.extend(id.to_le_bytes());
                    }
                    Field::Value(found) => value(&mut out, found),
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn equal_nodes_are_one_but_for_variables() {
        let mut b = Builder::new();
        let int64 = b.object("ir.PrimType", &[("dtype", Given::DType("int64".to_owned()))]);
        let name = b.string("n");
        let fields = [("ty", Given::Node(int64)), ("name", Given::Node(name))];
        let (one, two) = (b.object("ir.Var", &fields), b.object("ir.Var", &fields));
        assert_ne!(one, two);
        let of = |value| Given::Value(Value::Int(value));
        let fields = [("ty", Given::Node(int64)), ("value", of(4))];
        let (four, same) = (b.object("ir.IntImm", &fields), b.object("ir.IntImm", &fields));
        assert_eq!(four, same);
        let root = b.array(vec![one, two, four]);
        let graph = b.finish(root);
        let text = json::save(&graph);
        assert_eq!(json::load(&text).unwrap(), graph);
        assert!(
            text.contains(r#"{"type":"ir.IntImm","data":{"span":0,"ty":1,"value":5}}"#),
            "{text}"
        );
    }
}
