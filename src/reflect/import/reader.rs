//! Nodes by their fields, within bounds.

use reflex_node::graph::{Data, Field, Graph, Node, NodeId, Value};
use reflex_tir::DType;
use reflex_tir::script::string;

use super::prim;

/// A part that was read, or the reason that it cannot be.
pub(super) type Read<T> = Result<T, String>;

/// Nesting of nodes that is read, as deep as that of texts.
const MAX_DEPTH: usize = 128;
/// Nodes that are visited, for each there is: a node is printed as often as it is referred to.
const VISITS_PER_NODE: usize = 64;
/// Nodes that are visited at least before it is too much.
const MIN_VISITS: usize = 1 << 16;

/// The nodes of a graph, and the bounds of their reading.
pub(super) struct Nodes<'g> {
    graph: &'g Graph,
    depth: usize,
    visits: usize,
}

impl<'g> Nodes<'g> {
    pub fn new(graph: &'g Graph) -> Nodes<'g> {
        let visits = graph.nodes().len().saturating_mul(VISITS_PER_NODE).saturating_add(MIN_VISITS);
        Nodes { graph, depth: 0, visits }
    }

    pub fn root(&self) -> NodeId {
        self.graph.root()
    }

    /// One level deeper, into a node.
    pub fn enter(&mut self, id: NodeId) -> Read<()> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("{} is nested too deeply", self.key(id)));
        }
        self.visit()?;
        self.depth += 1;
        Ok(())
    }

    /// Counts a visit of a node.
    pub fn visit(&mut self) -> Read<()> {
        self.visits =
            self.visits.checked_sub(1).ok_or("nodes are shared too often to be printed")?;
        Ok(())
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    pub fn node(&self, id: NodeId) -> &'g Node {
        self.graph.node(id)
    }

    pub fn key(&self, id: NodeId) -> &'g str {
        &self.node(id).key
    }

    /// An error unless a node is of a type.
    pub fn expect(&self, id: NodeId, key: &str) -> Read<()> {
        match self.key(id) {
            found if found == key => Ok(()),
            found => Err(format!("{found:.64} where {key} is expected")),
        }
    }

    /// An error unless a node is a variable.
    pub fn expect_var(&self, id: NodeId) -> Read<()> {
        match self.key(id) {
            "ir.Var" | "relax.expr.DataflowVar" => Ok(()),
            found => Err(format!("{found:.64} where a variable is expected")),
        }
    }

    /// The node in a field.
    pub fn child(&self, id: NodeId, name: &str) -> Read<NodeId> {
        match self.node(id).field(name) {
            Some(Field::Node(child)) => Ok(*child),
            _ => Err(format!("{:.64} has no node `{name}`", self.key(id))),
        }
    }

    /// The node in a field, unless it is nothing.
    pub fn optional(&self, id: NodeId, name: &str) -> Read<Option<NodeId>> {
        match self.node(id).field(name) {
            Some(Field::Node(child)) if self.key(*child) == "None" => Ok(None),
            Some(Field::Node(child)) => Ok(Some(*child)),
            Some(Field::Value(Value::Null)) | None => Ok(None),
            Some(Field::Value(_)) => Err(format!("{:.64} has no node `{name}`", self.key(id))),
        }
    }

    /// The text that a node is.
    pub fn text(&self, id: NodeId) -> Read<&'g str> {
        self.node(id).text().ok_or_else(|| format!("{:.64} is no text", self.key(id)))
    }

    /// The text in a field, inline or a node.
    pub fn child_text(&self, id: NodeId, name: &str) -> Read<&'g str> {
        match self.node(id).field(name) {
            Some(Field::Node(child)) => self.text(*child),
            Some(Field::Value(Value::Text(text))) => Ok(text),
            _ => Err(format!("{:.64} has no text `{name}`", self.key(id))),
        }
    }

    /// The integer that a node is.
    pub fn int(&self, id: NodeId) -> Read<i64> {
        match (&self.node(id).data, self.key(id)) {
            (Data::Value(Value::Int(value)), _) => Ok(*value),
            (_, "ir.IntImm") => self.child_int(id, "value"),
            (_, key) => Err(format!("{key:.64} is no integer")),
        }
    }

    /// The integer in a field, inline or a node.
    pub fn child_int(&self, id: NodeId, name: &str) -> Read<i64> {
        match self.node(id).field(name) {
            Some(Field::Value(Value::Int(value))) => Ok(*value),
            Some(Field::Node(child)) => match &self.node(*child).data {
                Data::Value(Value::Int(value)) => Ok(*value),
                _ => Err(format!("{:.64} has no integer `{name}`", self.key(id))),
            },
            _ => Err(format!("{:.64} has no integer `{name}`", self.key(id))),
        }
    }

    /// The items of an array.
    pub fn items(&self, id: NodeId) -> Read<Vec<NodeId>> {
        match (&self.node(id).data, self.key(id)) {
            (Data::Items(items), "ffi.Array" | "ffi.List") => Ok(items.clone()),
            (_, key) => Err(format!("{key:.64} where ffi.Array is expected")),
        }
    }

    /// The items of the array in a field; none where the field is nothing.
    pub fn list(&self, id: NodeId, name: &str) -> Read<Vec<NodeId>> {
        self.optional(id, name)?.map_or(Ok(vec![]), |list| self.items(list))
    }

    /// The keys and values of a map.
    pub fn entries(&self, id: NodeId) -> Read<Vec<(NodeId, NodeId)>> {
        match (&self.node(id).data, self.key(id)) {
            (Data::Items(items), "ffi.Map" | "ffi.Dict") => {
                Ok(items.chunks_exact(2).map(|entry| (entry[0], entry[1])).collect())
            }
            (_, key) => Err(format!("{key:.64} where ffi.Map is expected")),
        }
    }

    /// The keys and values of a map whose keys are texts.
    pub fn named(&self, id: NodeId) -> Read<Vec<(String, NodeId)>> {
        let entries = self.entries(id)?;
        entries.into_iter().map(|(key, value)| Ok((self.text(key)?.to_owned(), value))).collect()
    }

    /// The keys and values of `ir.DictAttrs`.
    pub fn attrs(&self, id: Option<NodeId>) -> Read<Vec<(String, NodeId)>> {
        let Some(id) = id else { return Ok(vec![]) };
        self.expect(id, "ir.DictAttrs")?;
        self.named(self.child(id, "__dict__")?)
    }

    /// The element type of `ir.PrimType`.
    pub fn dtype(&self, ty: NodeId) -> Read<DType> {
        self.expect(ty, "ir.PrimType")?;
        let text = self.child_text(ty, "dtype")?;
        text.parse().map_err(|_| format!("the data type `{text:.32}`"))
    }

    /// The type of a scalar variable or expression.
    pub fn dtype_of(&self, id: NodeId) -> Read<DType> {
        self.dtype(self.child(id, "ty")?)
    }

    /// True for a variable of a scalar type.
    pub fn is_scalar(&self, var: NodeId) -> bool {
        self.child(var, "ty").is_ok_and(|ty| self.key(ty) == "ir.PrimType")
    }

    /// The value of a constant, without its type.
    pub fn immediate(&self, id: NodeId) -> Read<String> {
        match (self.key(id), self.node(id).field("value")) {
            ("ir.StringImm", _) => Ok(string(self.child_text(id, "value")?)),
            (_, Some(Field::Value(value))) => Ok(prim::value(value)),
            (_, Some(Field::Node(value))) => match &self.node(*value).data {
                Data::Value(value) => Ok(prim::value(value)),
                _ => Err(format!("{:.64} without a value", self.key(id))),
            },
            (key, None) => Err(format!("{key:.64} without a value")),
        }
    }

    /// Calls `visit` with every node that one reaches, once, but for what lies behind global variables.
    pub fn reached(&mut self, from: NodeId, visit: &mut dyn FnMut(&Self, NodeId)) -> Read<()> {
        let mut seen = std::collections::HashSet::new();
        let mut stack = vec![from];
        while let Some(id) = stack.pop() {
            if !seen.insert(id) || self.key(id) == "ir.GlobalVar" {
                continue;
            }
            self.visit()?;
            visit(self, id);
            let start = stack.len();
            self.node(id).children(&mut |child| stack.push(child));
            stack[start..].reverse();
        }
        Ok(())
    }
}
