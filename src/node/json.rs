//! Graphs as JSON, as `tvm.ir.save_json` writes it and `tvm.ir.load_json` reads it.

use std::collections::HashSet;
use std::sync::Arc;

pub use crate::reader::JsonError;

use crate::graph::{Data, Field, Graph, Node, NodeId, Value};
use crate::reader::{Json, Reader};
use crate::table::{self, TypeInfo};
use crate::writer;

/// Reads a graph. Its memory is bounded by the length of the text.
///
/// # Errors
/// The text is no JSON of this form; a node refers to itself or to one after it; the object lacks
/// `root_index` or `nodes`.
pub fn load(text: &str) -> Result<Graph, JsonError> {
    let mut reader = Reader::new(text);
    let mut loader = Loader::default();
    let (mut root, mut metadata) = (None, None);
    reader.expect(b'{')?;
    reader.items(b'}', &mut |reader| {
        match reader.key()?.as_str() {
            "root_index" => match reader.value()? {
                Json::Int(index) => root = Some(index),
                _ => return reader.error("`root_index` is no number"),
            },
            "nodes" if loader.nodes.is_empty() => {
                reader.expect(b'[')?;
                reader.items(b']', &mut |reader| loader.node(reader))?;
            }
            "metadata" => {
                let Json::Object(entries) = reader.value()? else {
                    return reader.error("`metadata` is no object");
                };
                let text = |(key, value)| match value {
                    Json::Text(text) => Some((key, text)),
                    _ => None,
                };
                let entries: Option<Vec<_>> = entries.into_iter().map(text).collect();
                let Some(entries) = entries else {
                    return reader.error("`metadata` holds something else than strings");
                };
                metadata = Some(entries);
            }
            key => return reader.error(format!("an unexpected key `{key:.32}`")),
        }
        Ok(())
    })?;
    reader.end()?;
    let count = loader.nodes.len();
    let within = root.and_then(|at| NodeId::try_from(at).ok()).filter(|at| (*at as usize) < count);
    match within {
        Some(root) => Ok(Graph { nodes: loader.nodes, root, metadata }),
        None => reader.error(format!("`root_index` is none of the {count} nodes")),
    }
}

/// Writes a graph. What was read by [`load`] from what TVM wrote is the same text.
pub fn save(graph: &Graph) -> String {
    let mut out = format!("{{\"root_index\":{},\"nodes\":[", graph.root);
    for (at, node) in graph.nodes.iter().enumerate() {
        out.push_str(if at == 0 { "{\"type\":" } else { ",{\"type\":" });
        writer::string(&mut out, &node.key);
        data(&mut out, &node.data);
        out.push('}');
    }
    out.push(']');
    if let Some(metadata) = &graph.metadata {
        out.push_str(",\"metadata\":{");
        for (at, (key, text)) in metadata.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            writer::string(&mut out, key);
            out.push(':');
            writer::string(&mut out, text);
        }
        out.push('}');
    }
    out.push('}');
    out
}

fn data(out: &mut String, data: &Data) {
    let number = |out: &mut String, id: NodeId| writer::value(out, &Value::Int(i64::from(id)));
    match data {
        Data::None => return,
        Data::Value(value) => {
            out.push_str(",\"data\":");
            return writer::value(out, value);
        }
        Data::Items(items) => {
            out.push_str(",\"data\":[");
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                number(out, *item);
            }
        }
        Data::Numbers(numbers) => {
            out.push_str(",\"data\":[");
            for (at, item) in numbers.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                writer::value(out, item);
            }
        }
        Data::Fields(fields) => {
            out.push_str(",\"data\":{");
            for (at, (name, field)) in fields.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                writer::string(out, name);
                out.push(':');
                match field {
                    Field::Node(id) => number(out, *id),
                    Field::Value(value) => writer::value(out, value),
                }
            }
            return out.push('}');
        }
    }
    out.push(']');
}

/// Nodes read so far, and the names that they share.
#[derive(Default)]
struct Loader {
    nodes: Vec<Node>,
    names: HashSet<Arc<str>>,
}

impl Loader {
    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = text.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    fn node(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        if self.nodes.len() >= NodeId::MAX as usize {
            return reader.error("too many nodes");
        }
        reader.expect(b'{')?;
        let (mut key, mut found) = (None, None);
        reader.items(b'}', &mut |reader| {
            match reader.key()?.as_str() {
                "type" => match reader.value()? {
                    Json::Text(text) => key = Some(text),
                    _ => return reader.error("`type` is no string"),
                },
                "data" => found = Some(reader.value()?),
                name => return reader.error(format!("an unexpected key `{name:.32}`")),
            }
            Ok(())
        })?;
        let Some(key) = key else { return reader.error("a node without `type`") };
        match self.data(&key, found) {
            Ok(data) => {
                let key = self.name(&key);
                self.nodes.push(Node { key, data });
                Ok(())
            }
            Err(why) => {
                reader.error(format!("node {} of type `{key:.64}`: {why}", self.nodes.len()))
            }
        }
    }

    fn data(&mut self, key: &str, found: Option<Json>) -> Result<Data, String> {
        Ok(match (key, found) {
            (_, None) => Data::None,
            ("ffi.Array" | "ffi.List", Some(Json::List(items))) => Data::Items(self.ids(items)?),
            ("ffi.Map" | "ffi.Dict", Some(Json::List(items))) => match items.len() % 2 {
                0 => Data::Items(self.entries(items)?),
                _ => return Err("a key without a value".to_owned()),
            },
            (_, Some(Json::List(items))) => {
                let plain = |item| plain(item).ok_or("a list of something else than numbers");
                Data::Numbers(items.into_iter().map(plain).collect::<Result<_, _>>()?)
            }
            (_, Some(Json::Object(fields))) => self.fields(table::find(key), fields)?,
            (_, Some(value)) => Data::Value(plain(value).expect("neither list nor object")),
        })
    }

    fn ids(&self, items: Vec<Json>) -> Result<Vec<NodeId>, String> {
        items.into_iter().map(|item| self.id(&item)).collect()
    }

    /// Keys and values in turn. No key is there twice, as the same node or the same plain value.
    fn entries(&self, items: Vec<Json>) -> Result<Vec<NodeId>, String> {
        let ids = self.ids(items)?;
        let mut plain: Vec<(&str, &Value)> = vec![];
        let mut seen = HashSet::new();
        for id in ids.iter().step_by(2) {
            let node = &self.nodes[*id as usize];
            let known = match &node.data {
                Data::Value(value) => plain.contains(&(&*node.key, value)),
                _ => false,
            };
            if known || !seen.insert(*id) {
                return Err(format!("a key twice, node {id}"));
            }
            if let Data::Value(value) = &node.data {
                plain.push((&*node.key, value));
            }
        }
        Ok(ids)
    }

    fn id(&self, item: &Json) -> Result<NodeId, String> {
        match item {
            Json::Int(at) if usize::try_from(*at).is_ok_and(|at| at < self.nodes.len()) => {
                Ok(NodeId::try_from(*at).expect("below the number of nodes"))
            }
            Json::Int(at) => Err(format!("it refers to node {at}, which is not before it")),
            _ => Err("it refers to something else than a node".to_owned()),
        }
    }

    /// Fields of a type that the table lacks are values: what refers to a node is not known.
    fn fields(
        &mut self,
        info: Option<&TypeInfo>,
        fields: Vec<(String, Json)>,
    ) -> Result<Data, String> {
        let mut made: Vec<(Arc<str>, Field)> = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let known = info.and_then(|info| info.fields.iter().find(|field| field.name == name));
            if made.iter().any(|(other, _)| **other == *name) {
                return Err(format!("two fields `{name:.32}`"));
            }
            let field = match known {
                Some(known) if !known.inline => Field::Node(self.id(&value)?),
                _ => match plain(value) {
                    Some(value) => Field::Value(value),
                    None => return Err(format!("the field `{name:.32}` is a list or an object")),
                },
            };
            made.push((self.name(&name), field));
        }
        Ok(Data::Fields(made))
    }
}

fn plain(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(truth),
        Json::Int(number) => Value::Int(number),
        Json::Float(number) => Value::Float(number),
        Json::Text(text) => Value::Text(text.into()),
        Json::List(_) | Json::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use arbtest::arbtest;

    use super::*;
    use crate::path::Step;
    use crate::{equal, hash};

    const TEXT: &str = r#"{"root_index":6,"nodes":[{"type":"ffi.String","data":"n"},{"type":"None"},{"type":"int","data":-4},{"type":"ir.Var","data":{"span":1,"ty":1,"name":0}},{"type":"ffi.Array","data":[3,2,3]},{"type":"ffi.Map","data":[0,4,2,1]},{"type":"ir.Call","data":{"span":1,"ty":1,"op":5,"args":4,"attrs":1,"ty_args":4}}],"metadata":{"tvm_version":"0.27.0"}}"#;

    #[test]
    fn changed_texts_are_refused_or_graphs_like_any_other() {
        arbtest(|u| {
            let mut bytes = TEXT.as_bytes().to_vec();
            for _ in 0..u.int_in_range(0..=4)? {
                let at = u.choose_index(bytes.len())?;
                match u.int_in_range(0..=2)? {
                    0 => bytes[at] = *u.choose(b"0123456789{}[],:\"\\eu-.ntf ")?,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, *u.choose(b"0123456789{}[],:\"\\eu-.ntf ")?),
                }
            }
            let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(()) };
            let Ok(graph) = load(text) else { return Ok(()) };
            let again = load(&save(&graph)).expect("what was written is read");
            assert_eq!(save(&again), save(&graph));
            // A type that the table lacks equals nothing, nor does a key that is a variable which nothing
            // before its map has: no order of entries says which one stands for it.
            let mismatch = equal::first_mismatch(&graph, &again);
            let unknown = |found: &equal::Mismatch| {
                let variable = matches!(found.path.0.last(),
                    Some(Step::Key(key)) if key.starts_with("ir.Var"));
                found.difference.ends_with("no structural equality")
                    || (variable && found.difference == "only in the first")
            };
            assert!(mismatch.as_ref().is_none_or(unknown), "{mismatch:?}");
            assert_eq!(hash::structural_hash(&graph), hash::structural_hash(&again));
            Ok(())
        })
        .budget_ms(500);
    }

    #[test]
    fn a_key_is_there_once() {
        let refused = |text: String| load(&text).unwrap_err().to_string();
        let same_node = refused(TEXT.replace("[0,4,2,1]", "[0,4,0,1]"));
        assert!(same_node.contains("a key twice, node 0"), "{same_node}");
        let int = r#"{"type":"int","data":-4}"#;
        let text = TEXT.replace(int, r#"{"type":"ffi.String","data":"n"}"#);
        let same_text = refused(text);
        assert!(same_text.contains("a key twice, node 2"), "{same_text}");
    }

    /// Two nodes of one meaning are two keys, as in TVM; entries correspond in order.
    #[test]
    fn keys_of_one_meaning_correspond_in_order() {
        let graph = |values: [i64; 2]| {
            let [a, b] = values;
            let text = format!(
                r#"{{"root_index":4,"nodes":[{{"type":"ffi.Array","data":[]}},{{"type":"int","data":{a}}},{{"type":"ffi.Array","data":[]}},{{"type":"int","data":{b}}},{{"type":"ffi.Map","data":[0,1,2,3]}}],"metadata":{{"tvm_version":"0.27.0"}}}}"#
            );
            load(&text).unwrap()
        };
        let two = graph([7, 8]);
        assert_eq!(equal::first_mismatch(&two, &load(&save(&two)).unwrap()), None);
        let found = equal::first_mismatch(&two, &graph([7, 9])).unwrap();
        assert_eq!(found.difference, "8 is not 9");
    }

    #[test]
    fn visits_see_nodes_once_and_maps_replace_them() {
        let graph = load(TEXT).unwrap();
        let mut seen = vec![];
        graph.visit(&mut |id, _| seen.push(id));
        assert_eq!(seen, [6, 1, 5, 0, 4, 3, 2]);
        let doubled = graph
            .map(&mut |_, mut node| {
                if let Data::Value(Value::Int(number)) = &mut node.data {
                    *number *= 2;
                }
                node
            })
            .unwrap();
        let mismatch = equal::first_mismatch(&graph, &doubled).unwrap().to_string();
        assert_eq!(mismatch, "<root>.op[\"n\"][1]: -4 is not -8");
        let late = |_, mut node: Node| {
            if let Data::Items(items) = &mut node.data {
                items.push(6);
            }
            node
        };
        let error = graph.map(&mut { late }).unwrap_err();
        assert_eq!(error, "node 4 refers to node 6, which is not before it");
    }

    #[test]
    fn names_of_variables_do_not_count_but_their_places_do() {
        let graph = |args: &str, first: &str| {
            let text = format!(
                r#"{{"root_index":6,"nodes":[{{"type":"None"}},{{"type":"ffi.String","data":"{first}"}},{{"type":"ffi.String","data":"b"}},{{"type":"ir.Var","data":{{"span":0,"ty":0,"name":1}}}},{{"type":"ir.Var","data":{{"span":0,"ty":0,"name":2}}}},{{"type":"None"}},{{"type":"ffi.Array","data":{args}}}]}}"#
            );
            load(&text).unwrap()
        };
        let (ab, renamed) = (graph("[3,4,3]", "a"), graph("[3,4,3]", "z"));
        assert_eq!(equal::first_mismatch(&ab, &renamed), None);
        assert_eq!(hash::structural_hash(&ab), hash::structural_hash(&renamed));
        // The other variable first: the same pattern.
        assert_eq!(equal::first_mismatch(&ab, &graph("[4,3,4]", "a")), None);
        let other = graph("[3,4,4]", "a");
        let mismatch = equal::first_mismatch(&ab, &other).unwrap().to_string();
        assert_eq!(mismatch, "<root>[2]: ir.Var(\"a\") is another variable than ir.Var(\"b\")");
        assert_ne!(hash::structural_hash(&ab), hash::structural_hash(&other));
    }
}
