//! Nodes, and graphs of them.

use std::sync::Arc;

/// The number of a node in its graph.
pub type NodeId = u32;

/// A graph of nodes: every node refers to nodes before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The nodes.
    pub(crate) nodes: Vec<Node>,
    /// The node that the graph is about.
    pub(crate) root: NodeId,
    /// Text about the file, such as `tvm_version`; none where the file has none.
    pub(crate) metadata: Option<Vec<(String, String)>>,
}

/// A node: the key of its type, and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The key of its type, such as `ir.Call`.
    pub key: Arc<str>,
    /// Its data.
    pub data: Data,
}

/// The data of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Nothing.
    None,
    /// A value.
    Value(Value),
    /// The items of an array; the keys and values, in turn, of a map.
    Items(Vec<NodeId>),
    /// The numbers of a shape or a device.
    Numbers(Vec<Value>),
    /// The fields of an object.
    Fields(Vec<(Arc<str>, Field)>),
}

/// A plain value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text: a string, a type, the name of an operator, the bytes of a tensor in base64.
    Text(Arc<str>),
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A node.
    Node(NodeId),
    /// A value that stands in the object itself.
    Value(Value),
}

impl Graph {
    /// The nodes, each after those it refers to.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The number of the node that the graph is about.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// The node of a number.
    ///
    /// # Panics
    /// There is no such node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Calls `visit` with every node that the root reaches, once, in the order of a walk that sees a
    /// node before what it refers to.
    pub fn visit(&self, visit: &mut dyn FnMut(NodeId, &Node)) {
        let mut seen = vec![false; self.nodes.len()];
        let mut stack = vec![self.root];
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut seen[id as usize], true) {
                continue;
            }
            let node = self.node(id);
            visit(id, node);
            let before = stack.len();
            node.children(&mut |child| stack.push(child));
            stack[before..].reverse();
        }
    }

    /// The graph with every node replaced by what `map` makes of it; the nodes that it refers to were
    /// replaced before. What it gives refers to the same nodes or others before it.
    ///
    /// # Errors
    /// A replacement refers to its own node or one after it.
    pub fn map(&self, map: &mut dyn FnMut(NodeId, Node) -> Node) -> Result<Graph, String> {
        let nodes = Vec::with_capacity(self.nodes.len());
        let mut graph = Graph { nodes, root: self.root, metadata: self.metadata.clone() };
        for (id, node) in (0..).zip(&self.nodes) {
            let made = map(id, node.clone());
            let mut late = None;
            made.children(&mut |child| {
                if child >= id {
                    late = Some(child);
                }
            });
            if let Some(child) = late {
                return Err(format!("node {id} refers to node {child}, which is not before it"));
            }
            graph.nodes.push(made);
        }
        Ok(graph)
    }
}

impl Node {
    /// Calls `visit` with the nodes that it refers to, in order.
    pub fn children(&self, visit: &mut dyn FnMut(NodeId)) {
        match &self.data {
            Data::Items(items) => items.iter().for_each(|id| visit(*id)),
            Data::Fields(fields) => fields.iter().for_each(|(_, field)| {
                if let Field::Node(id) = field {
                    visit(*id);
                }
            }),
            Data::None | Data::Value(_) | Data::Numbers(_) => {}
        }
    }

    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match &self.data {
            Data::Fields(fields) => fields.iter().find(|(n, _)| &**n == name).map(|(_, f)| f),
            _ => None,
        }
    }

    /// The text that it holds, if that is all.
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Value(Value::Text(text)) => Some(text),
            _ => None,
        }
    }
}
