//! Structural hashes: graphs that [`equal`](crate::equal) finds equal have the same.
//!
//! A digest of 256 bits is computed for each node from those it refers to, in the order of their numbers, so
//! nothing recurses. Variables are hashed by the order in which a walk from the root meets them, so the walk
//! must not depend on the order of maps' entries: it takes them by the digests in which all variables are
//! alike.

use blake3::{Hash, Hasher};

use crate::equal_rules::{Compared, compared, equality};
use crate::graph::{Data, Field, Graph, Node, NodeId, Value};
use crate::table::Equality;

/// The structural hash of a graph. It holds no addresses, so it is the same in every process.
pub fn structural_hash(graph: &Graph) -> Hash {
    let anonymous = anonymous(graph);
    let order = variables(graph, &anonymous);
    let digests = digests(graph, &|id| order.get(id as usize).copied().flatten());
    digests[graph.root() as usize]
}

/// The digest of every node, with all variables alike.
pub(crate) fn anonymous(graph: &Graph) -> Vec<Hash> {
    digests(graph, &|_| None)
}

/// The order in which a walk from the root meets variables, by node.
fn variables(graph: &Graph, anonymous: &[Hash]) -> Vec<Option<u64>> {
    let mut order = vec![None; graph.nodes().len()];
    let mut seen = vec![false; graph.nodes().len()];
    let (mut next, mut stack) = (0, vec![graph.root()]);
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut seen[id as usize], true) {
            continue;
        }
        let node = graph.node(id);
        if equality(node) == Some(Equality::Variable) {
            order[id as usize] = Some(next);
            next += 1;
        }
        let start = stack.len();
        match &node.data {
            Data::Items(items) if is_map(node) => {
                let mut entries: Vec<&[NodeId]> = items.chunks_exact(2).collect();
                entries.sort_by_key(|entry| {
                    let digest = |id: NodeId| *anonymous[id as usize].as_bytes();
                    (digest(entry[0]), digest(entry[1]))
                });
                stack.extend(entries.concat());
            }
            Data::Items(items) => stack.extend(items),
            _ => each_field(graph, node, &mut |_, field| {
                if let Field::Node(id) = field {
                    stack.push(*id);
                }
            }),
        }
        stack[start..].reverse();
    }
    order
}

fn is_map(node: &Node) -> bool {
    matches!(&*node.key, "ffi.Map" | "ffi.Dict")
}

fn each_field<'n>(graph: &Graph, node: &'n Node, visit: &mut dyn FnMut(&'n str, &'n Field)) {
    for field in compared(graph, node) {
        match field {
            Compared::Known(name, Some(field)) => visit(name, field),
            Compared::Known(_, None) => {}
            Compared::Unknown(name, field) => visit(name, field),
        }
    }
}

fn digests(graph: &Graph, variable: &dyn Fn(NodeId) -> Option<u64>) -> Vec<Hash> {
    let mut digests: Vec<Hash> = Vec::with_capacity(graph.nodes().len());
    for (id, node) in (0..).zip(graph.nodes()) {
        let mut hasher = Hasher::new();
        text(&mut hasher, &node.key);
        if let Some(order) = variable(id) {
            hasher.update(&order.to_le_bytes());
        }
        match &node.data {
            Data::None => {}
            Data::Value(found) => value(&mut hasher, found),
            Data::Numbers(numbers) => numbers.iter().for_each(|number| value(&mut hasher, number)),
            Data::Items(items) => {
                let mut parts: Vec<Vec<u8>> = match is_map(node) {
                    true => items.chunks_exact(2).map(|entry| bytes(&digests, entry)).collect(),
                    false => items.iter().map(|item| bytes(&digests, &[*item])).collect(),
                };
                if is_map(node) {
                    parts.sort_unstable();
                }
                for part in &parts {
                    hasher.update(part);
                }
            }
            Data::Fields(_) => each_field(graph, node, &mut |name, field| {
                text(&mut hasher, name);
                match field {
                    Field::Node(id) => {
                        hasher.update(digests[*id as usize].as_bytes());
                    }
                    Field::Value(found) => value(&mut hasher, found),
                }
            }),
        }
        digests.push(hasher.finalize());
    }
    digests
}

fn bytes(digests: &[Hash], ids: &[NodeId]) -> Vec<u8> {
    ids.iter().flat_map(|id| *digests[*id as usize].as_bytes()).collect()
}

fn text(hasher: &mut Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

fn value(hasher: &mut Hasher, value: &Value) {
    let (kind, bytes): (&[u8], &[u8]) = match value {
        Value::Null => (b"0", &[]),
        Value::Bool(truth) => (b"b", &[u8::from(*truth)]),
        Value::Int(number) => (b"i", &number.to_le_bytes()),
        Value::Float(number) if number.is_nan() => (b"d", b"nan"),
        Value::Float(number) => (b"d", &number.to_bits().to_le_bytes()),
        Value::Text(found) => {
            hasher.update(b"s");
            return text(hasher, found);
        }
    };
    hasher.update(kind).update(bytes);
}
