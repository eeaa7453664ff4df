//! Graphs of nodes as packed functions, for `reflex.ir`.

use reflex_node::graph::{Data, Field, Graph, NodeId, Value};
use reflex_node::{equal, hash, json};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::arg;
use reflex_runtime::object::{self, RustObject};
use reflex_runtime::value::{Any, AnyView};

type FfiResult<T = Any> = Result<T, Raised>;

pub(super) struct GraphObject(pub(super) Graph);

impl RustObject for GraphObject {
    const KEY: &'static str = "reflex.ir.Graph";
}

/// A graph as a value.
pub(super) fn wrap(graph: Graph) -> Any {
    Any::from(object::wrap(GraphObject(graph)))
}

/// The graph that a value is, if it is one.
pub(super) fn unwrap<'a>(value: &'a AnyView<'_>) -> Option<&'a Graph> {
    let object = value.object_ref().and_then(object::get::<GraphObject>)?;
    Some(&object.0)
}

fn with<T>(
    args: &[AnyView<'_>],
    at: usize,
    run: impl FnOnce(&Graph) -> FfiResult<T>,
) -> FfiResult<T> {
    let object = args.get(at).and_then(|value| value.object_ref());
    match object.and_then(object::get::<GraphObject>) {
        Some(GraphObject(graph)) => run(graph),
        None => Err(Raised::type_error(format!("argument {at} is no graph"))),
    }
}

/// `(text)`: the graph of a JSON text.
pub(super) fn load(args: &[AnyView<'_>]) -> FfiResult {
    let text = args.first().and_then(|text| text.as_str());
    let text = text.ok_or_else(|| Raised::type_error("the JSON of a graph is a string"))?;
    let graph = json::load(text).map_err(|e| Raised::value_error(e.to_string()))?;
    Ok(wrap(graph))
}

/// `(graph)`: its JSON.
pub(super) fn save(args: &[AnyView<'_>]) -> FfiResult {
    with(args, 0, |graph| Ok(Any::from(json::save(graph).as_str())))
}

/// `(graph)`: the module that it is, as TVMScript.
pub(super) fn script(args: &[AnyView<'_>]) -> FfiResult {
    with(args, 0, |graph| {
        let module = crate::ir::to_module(graph).map_err(|e| e.to_object())?;
        Ok(Any::from(reflex_graph::print::module_with_metadata(&module).as_str()))
    })
}

/// `(graph)`: the root and the number of nodes.
pub(super) fn size(args: &[AnyView<'_>]) -> FfiResult {
    with(args, 0, |graph| {
        let count = i64::try_from(graph.nodes().len()).unwrap_or(i64::MAX);
        Ok(Array::new([Any::from(i64::from(graph.root())), Any::from(count)]).into())
    })
}

/// `(graph, node)`: its key, the form of its data (`none`, `value`, `items`, `numbers`, `fields`), the names of
/// fields, and what it holds: plain values, and nodes as arrays of their number.
pub(super) fn node(args: &[AnyView<'_>]) -> FfiResult {
    let id = arg::<i64>(args, 1)?;
    with(args, 0, |graph| {
        let found = usize::try_from(id).ok().and_then(|id| graph.nodes().get(id));
        let found = found.ok_or_else(|| Raised::new("IndexError", format!("no node {id}")))?;
        let list = |items: Vec<Any>| Any::from(Array::new(items));
        let (mut names, mut held) = (vec![], vec![]);
        let form = match &found.data {
            Data::None => "none",
            Data::Value(value) => {
                held.push(plain(value));
                "value"
            }
            Data::Items(items) => {
                held.extend(items.iter().map(|id| reference(*id)));
                "items"
            }
            Data::Numbers(numbers) => {
                held.extend(numbers.iter().map(plain));
                "numbers"
            }
            Data::Fields(fields) => {
                for (name, field) in fields {
                    names.push(Any::from(&**name));
                    held.push(match field {
                        Field::Node(id) => reference(*id),
                        Field::Value(value) => plain(value),
                    });
                }
                "fields"
            }
        };
        Ok(list(vec![Any::from(&*found.key), Any::from(form), list(names), list(held)]))
    })
}

fn reference(id: NodeId) -> Any {
    Array::new([Any::from(i64::from(id))]).into()
}

fn plain(value: &Value) -> Any {
    match value {
        Value::Null => Any::NONE,
        Value::Bool(truth) => Any::from(*truth),
        Value::Int(number) => Any::from(*number),
        Value::Float(number) => Any::from(*number),
        Value::Text(text) => Any::from(&**text),
    }
}

/// `(graph, graph)`: the path and the kind of their first difference, or None.
pub(super) fn mismatch(args: &[AnyView<'_>]) -> FfiResult {
    with(args, 0, |a| {
        with(args, 1, |b| {
            let Some(found) = equal::first_mismatch(a, b) else { return Ok(Any::NONE) };
            let path = found.path.to_string();
            let parts = [Any::from(path.as_str()), Any::from(found.difference.as_str())];
            Ok(Array::new(parts).into())
        })
    })
}

/// `(graph)`: its structural hash, in hexadecimal.
pub(super) fn structural_hash(args: &[AnyView<'_>]) -> FfiResult {
    with(args, 0, |graph| Ok(Any::from(hash::structural_hash(graph).to_hex().as_str())))
}
