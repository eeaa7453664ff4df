//! Structural equality, and the first difference of two graphs.
//!
//! Two graphs are equal if they are the same but for the names of variables, and for what TVM ignores, such
//! as spans. Variables correspond from where they are first met, one to one: also those that no node defines
//! (`map_free_vars=True` in tvm-ffi, where alone graphs of two files can be compared). What is one node of a
//! kind that keeps identity (functions, branches) must be one node in both.
//!
//! The order is that of TVM, fields as the table has them, so the first difference is the same.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use blake3::Hash;

use crate::equal_rules::{Compared, compared, equality, same};
use crate::graph::{Data, Field, Graph, Node, NodeId, Value};
use crate::hash::anonymous;
use crate::path::{Path, PathArena, PathId, Step};
use crate::table::Equality;

/// The first difference of two graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where it is.
    pub path: Path,
    /// The difference, in words.
    pub difference: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.difference)
    }
}

/// The first difference of two graphs, or none if they are equal.
pub fn first_mismatch(a: &Graph, b: &Graph) -> Option<Mismatch> {
    let mut comparison = Comparison {
        a,
        b,
        to_b: HashMap::new(),
        to_a: HashMap::new(),
        seen: HashSet::new(),
        digests: (anonymous(a), anonymous(b)),
        paths: PathArena::default(),
        stack: vec![],
    };
    comparison.stack.push(Task::Compare { a: a.root, b: b.root, path: 0 });
    while let Some(task) = comparison.stack.pop() {
        let (path, difference) = match task {
            Task::Compare { a, b, path } => match comparison.compare(a, b, path) {
                Ok(()) => continue,
                Err(difference) => (path, difference),
            },
            Task::Report { path, difference } => (path, difference),
        };
        return Some(Mismatch { path: comparison.paths.path(path), difference });
    }
    None
}

enum Task {
    Compare {
        a: NodeId,
        b: NodeId,
        path: PathId,
    },
    /// A difference that counts unless an earlier task finds one.
    Report {
        path: PathId,
        difference: String,
    },
}

/// A key of a map, as other keys are equal to it.
#[derive(PartialEq, Eq, Hash)]
enum MapKey {
    /// A value without variables.
    Digest(Hash),
    /// A variable, by its number in the first graph.
    Variable(NodeId),
}

struct Comparison<'g> {
    a: &'g Graph,
    b: &'g Graph,
    /// Variables, and nodes that keep identity, that correspond.
    to_b: HashMap<NodeId, NodeId>,
    to_a: HashMap<NodeId, NodeId>,
    /// Pairs that are compared, or will be: the first difference ends it all, so each once.
    seen: HashSet<(NodeId, NodeId)>,
    /// Digests of all nodes without regard to variables, for keys of maps.
    digests: (Vec<Hash>, Vec<Hash>),
    paths: PathArena,
    stack: Vec<Task>,
}

impl Comparison<'_> {
    /// Compares two nodes, and puts on the stack what they refer to.
    fn compare(&mut self, a: NodeId, b: NodeId, path: PathId) -> Result<(), String> {
        if !self.seen.insert((a, b)) {
            return Ok(());
        }
        let (x, y) = (self.a.node(a), self.b.node(b));
        if x.key != y.key {
            return Err(self.differs(a, b));
        }
        let Some(kind) = equality(x) else {
            return Err(format!("`{}` has no structural equality", x.key));
        };
        if matches!(kind, Equality::Variable | Equality::Dag) && self.corresponds(a, b, kind)? {
            return Ok(());
        }
        let pushed = self.stack.len();
        match (&x.data, &y.data) {
            (Data::None, Data::None) => {}
            (Data::Value(p), Data::Value(q)) if same(p, q) => {}
            (Data::Numbers(p), Data::Numbers(q)) if p == q => {}
            (Data::Items(p), Data::Items(q)) if matches!(&*x.key, "ffi.Map" | "ffi.Dict") => {
                self.maps(p, q, path);
            }
            (Data::Items(p), Data::Items(q)) => self.arrays(p, q, path),
            (Data::Fields(_), Data::Fields(_)) => self.fields(x, y, path),
            _ => return Err(self.differs(a, b)),
        }
        self.stack[pushed..].reverse();
        Ok(())
    }

    /// True if two nodes correspond already; else they do from now on, unless one does to another.
    fn corresponds(&mut self, a: NodeId, b: NodeId, kind: Equality) -> Result<bool, String> {
        match (self.to_b.get(&a), self.to_a.get(&b)) {
            (None, None) => {
                self.to_b.insert(a, b);
                self.to_a.insert(b, a);
                Ok(false)
            }
            (Some(known), _) if *known == b => Ok(true),
            _ => Err(match kind {
                Equality::Variable => {
                    let (x, y) = (shown(self.a, a), shown(self.b, b));
                    format!("{x} is another variable than {y}")
                }
                _ => "one node here, two there".to_owned(),
            }),
        }
    }

    fn differs(&self, a: NodeId, b: NodeId) -> String {
        format!("{} is not {}", shown(self.a, a), shown(self.b, b))
    }

    fn arrays(&mut self, a: &[NodeId], b: &[NodeId], path: PathId) {
        for (index, (x, y)) in a.iter().zip(b).enumerate() {
            let path = self.paths.push(path, Step::Item(index));
            self.stack.push(Task::Compare { a: *x, b: *y, path });
        }
        let shorter = a.len().min(b.len());
        if a.len() != b.len() {
            let side = if a.len() > b.len() { "first" } else { "second" };
            let path = self.paths.push(path, Step::Item(shorter));
            let difference = format!("only in the {side}");
            self.stack.push(Task::Report { path, difference });
        }
    }

    fn maps(&mut self, a: &[NodeId], b: &[NodeId], path: PathId) {
        // Keys of one meaning, which TVM has not in a map, correspond in order.
        let mut others: HashMap<MapKey, VecDeque<(NodeId, NodeId)>> = HashMap::new();
        for entry in b.chunks_exact(2) {
            let variable = |id: NodeId| self.to_a.get(&id).copied();
            if let Some(key) = map_key(self.b, &self.digests.1, entry[0], variable) {
                others.entry(key).or_default().push_back((entry[0], entry[1]));
            }
        }
        let mut matched: HashSet<NodeId> = HashSet::new();
        for entry in a.chunks_exact(2) {
            let step = Step::Key(shown(self.a, entry[0]));
            let path = self.paths.push(path, step);
            let variable = |id: NodeId| self.to_b.contains_key(&id).then_some(id);
            let other = map_key(self.a, &self.digests.0, entry[0], variable)
                .and_then(|key| others.get_mut(&key)?.pop_front());
            self.stack.push(match other {
                Some((key, value)) => {
                    matched.insert(key);
                    Task::Compare { a: entry[1], b: value, path }
                }
                None => Task::Report { path, difference: "only in the first".to_owned() },
            });
        }
        if let Some(entry) = b.chunks_exact(2).find(|entry| !matched.contains(&entry[0])) {
            let path = self.paths.push(path, Step::Key(shown(self.b, entry[0])));
            let difference = "only in the second".to_owned();
            self.stack.push(Task::Report { path, difference });
        }
    }

    fn fields(&mut self, x: &Node, y: &Node, path: PathId) {
        let (left, mut right) = (compared(self.a, x), compared(self.b, y));
        // The order is that of the first node: a binding of a function has another one.
        let known = |it: &Compared<'_>| match it {
            Compared::Known(name, _) => Some(*name),
            Compared::Unknown(..) => None,
        };
        right.sort_by_key(|it| {
            let place = |name| left.iter().position(|first| known(first) == Some(name));
            known(it).and_then(place).unwrap_or(usize::MAX)
        });
        for (p, q) in left.iter().zip(&right) {
            let (name, p, q) = match (p, q) {
                (Compared::Known(name, p), Compared::Known(_, q)) => (*name, *p, *q),
                (Compared::Unknown(name, p), Compared::Unknown(other, q)) if name == other => {
                    (*name, Some(*p), Some(*q))
                }
                _ => {
                    let difference = "other fields".to_owned();
                    return self.stack.push(Task::Report { path, difference });
                }
            };
            let path = self.paths.push(path, Step::Field(name.into()));
            let difference = match (p, q) {
                (Some(Field::Node(a)), Some(Field::Node(b))) => {
                    self.stack.push(Task::Compare { a: *a, b: *b, path });
                    continue;
                }
                (Some(Field::Value(p)), Some(Field::Value(q))) if same(p, q) => continue,
                (Some(Field::Value(p)), Some(Field::Value(q))) => {
                    format!("{} is not {}", plain(p), plain(q))
                }
                (None, None) => continue,
                (Some(_), None) => "only in the first".to_owned(),
                (None, Some(_)) => "only in the second".to_owned(),
                _ => "a node is no plain value".to_owned(),
            };
            self.stack.push(Task::Report { path, difference });
        }
        if left.len() != right.len() {
            self.stack.push(Task::Report { path, difference: "other fields".to_owned() });
        }
    }
}

/// The key of a map's entry; `variable` is the number of a variable that corresponds to one.
fn map_key(
    graph: &Graph,
    digests: &[Hash],
    id: NodeId,
    variable: impl Fn(NodeId) -> Option<NodeId>,
) -> Option<MapKey> {
    match equality(graph.node(id)) {
        Some(Equality::Variable) => variable(id).map(MapKey::Variable),
        _ => Some(MapKey::Digest(digests[id as usize])),
    }
}

/// A node in a few words.
fn shown(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    match &node.data {
        Data::None => "None".to_owned(),
        Data::Value(value) => match (&*node.key, value) {
            ("ffi.String" | "int" | "bool" | "float", value) => plain(value),
            (key, value) => format!("{key} {}", plain(value)),
        },
        Data::Numbers(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(plain).collect();
            format!("{} [{}]", node.key, numbers.join(", "))
        }
        Data::Items(items) => format!("{} of {}", node.key, items.len()),
        Data::Fields(_) => match node.field("name_hint").or_else(|| node.field("name")) {
            Some(Field::Node(name)) if graph.node(*name).text().is_some() => {
                // As TVM prints them.
                let key = if &*node.key == "ir.GlobalVar" { "I.GlobalVar" } else { &node.key };
                format!("{key}({})", shown(graph, *name))
            }
            _ => node.key.to_string(),
        },
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) if text.len() > 64 => {
            let head: String = text.chars().take(64).collect();
            format!("{head:?}...")
        }
        Value::Text(text) => format!("{text:?}"),
        Value::Null => "None".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::load;

    /// A binding of a variable, whose type is a number, to a node of a type.
    fn binding(value: &str, ty: i64) -> Graph {
        let text = format!(
            r#"{{"root_index": 5, "nodes": [
                {{"type": "None"}}, {{"type": "ffi.String", "data": "f"}}, {{"type": "int", "data": {ty}}},
                {{"type": "ir.Var", "data": {{"span": 0, "ty": 2, "name": 1}}}},
                {{"type": "{value}", "data": {{"span": 0, "ty": 0}}}},
                {{"type": "relax.expr.VarBinding", "data": {{"span": 0, "var": 3, "value": 4}}}}]}}"#
        );
        load(&text).unwrap()
    }

    /// The variable comes first where the first node binds a function, and the value elsewhere.
    #[test]
    fn fields_are_compared_in_the_order_of_the_first_node() {
        let path = |a: (&str, i64), b: (&str, i64)| {
            let found = first_mismatch(&binding(a.0, a.1), &binding(b.0, b.1));
            found.map(|mismatch| mismatch.path.to_string())
        };
        let (function, call) = ("relax.expr.Function", "ir.Call");
        assert_eq!(path((function, 1), (call, 2)).unwrap(), "<root>.var.ty");
        assert_eq!(path((call, 1), (function, 2)).unwrap(), "<root>.value");
        assert_eq!(path((function, 1), (call, 1)).unwrap(), "<root>.value");
        assert_eq!(path((function, 1), (function, 1)), None);
    }
}
