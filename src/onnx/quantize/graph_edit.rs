//! A graph that is written again with some nodes replaced.

use std::collections::{HashMap, HashSet};

use prost::bytes::Bytes;

use crate::error::{Result, malformed, unsupported};
use crate::external_data;
use crate::model::Model;
use crate::proto::{
    AttributeProto, GraphProto, LOCATION_EXTERNAL, NodeProto, OperatorSetIdProto, TensorProto,
    TensorTypeProto, TypeProto, ValueInfoProto, attribute_type, data_type,
};
use crate::tensor::literal;

use super::wire::{Field, fields, put_bytes, put_message, put_number};

/// Field numbers of `onnx.proto`.
const MODEL_IR_VERSION: u64 = 1;
const MODEL_GRAPH: u64 = 7;
const MODEL_OPSET_IMPORT: u64 = 8;
const GRAPH_NODE: u64 = 1;
const GRAPH_INITIALIZER: u64 = 5;
const GRAPH_INPUT: u64 = 11;
const GRAPH_OUTPUT: u64 = 12;

/// Bytes that a protobuf message may take.
const LARGEST_MESSAGE: usize = i32::MAX as usize;

/// A node of the graph that is written.
enum Written {
    /// One of the model, by number.
    Kept(usize),
    Made(NodeProto),
}

/// Changes to a model's main graph.
pub(super) struct GraphEdit<'a> {
    model: &'a Model,
    graph: &'a GraphProto,
    names: HashSet<String>,
    nodes: Vec<Written>,
    initializers: Vec<TensorProto>,
    outputs: Vec<ValueInfoProto>,
    /// Operator sets that the model does not import yet.
    pub opsets: Vec<OperatorSetIdProto>,
    /// The oldest file format that has what is written.
    pub ir_version: i64,
}

impl<'a> GraphEdit<'a> {
    pub fn new(model: &'a Model) -> Result<GraphEdit<'a>> {
        let graph = model.graph()?;
        let mut names = HashSet::new();
        collect_names(graph, &mut names);
        Ok(GraphEdit {
            model,
            graph,
            names,
            nodes: vec![],
            initializers: vec![],
            outputs: vec![],
            opsets: vec![],
            ir_version: model.proto.ir_version,
        })
    }

    /// A name that nothing has, such as `base_suffix`.
    pub fn fresh(&mut self, base: &str, suffix: &str) -> String {
        let first = format!("{base}_{suffix}");
        let more = (1u64..).map(|k| format!("{base}_{suffix}_{k}"));
        let mut candidates = std::iter::once(first).chain(more);
        let name = candidates.find(|name| !self.names.contains(name)).expect("endless");
        self.names.insert(name.clone());
        name
    }

    /// Keeps a node of the model.
    pub fn keep(&mut self, node: usize) {
        self.nodes.push(Written::Kept(node));
    }

    /// Adds a node that is already made, such as a changed copy.
    pub fn push(&mut self, node: NodeProto) {
        self.nodes.push(Written::Made(node));
    }

    /// Adds a node with one result called `output`.
    pub fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attribute: Vec<AttributeProto>,
    ) {
        self.node_of("", operator, inputs, &[output], attribute);
    }

    /// Adds a node.
    pub fn node_of(
        &mut self,
        domain: &str,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let name = self.fresh(outputs.first().copied().unwrap_or_default(), operator);
        self.push(NodeProto {
            input: owned(inputs),
            output: owned(outputs),
            name,
            op_type: operator.to_owned(),
            domain: domain.to_owned(),
            attribute,
            ..NodeProto::default()
        });
    }

    /// Adds a constant and returns its name.
    pub fn initializer(
        &mut self,
        (base, suffix): (&str, &str),
        data_type: i32,
        dims: Vec<i64>,
        raw: Vec<u8>,
    ) -> String {
        let name = self.fresh(base, suffix);
        self.initializers.push(TensorProto {
            dims,
            data_type,
            name: name.clone(),
            raw_data: Some(raw.into()),
            ..TensorProto::default()
        });
        name
    }

    /// Adds float32 scales.
    pub fn scales(&mut self, base: &str, dims: Vec<i64>, values: &[f32]) -> String {
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.initializer((base, "scale"), data_type::FLOAT, dims, raw)
    }

    /// Makes a float32 value a result of the graph, unless it is one.
    pub fn output(&mut self, name: &str) {
        if self.graph.output.iter().any(|output| output.name == name) {
            return;
        }
        let tensor = TensorTypeProto { elem_type: data_type::FLOAT, shape: None };
        let r#type = Some(TypeProto { tensor_type: Some(tensor), ..TypeProto::default() });
        self.outputs.push(ValueInfoProto { name: name.to_owned(), r#type });
    }

    /// The model with these changes, as one file. Constants that nothing uses are left out if they are
    /// among `replaced`; external data becomes part of the file if `inline` says so.
    pub fn write(
        mut self,
        bytes: &Bytes,
        replaced: &HashSet<String>,
        inline: bool,
    ) -> Result<Vec<u8>> {
        if self.nodes.is_empty() {
            self.nodes = (0..self.graph.node.len()).map(Written::Kept).collect();
        }
        let mut out = vec![];
        for field in fields(bytes)? {
            match field.number {
                MODEL_IR_VERSION => put_number(&mut out, MODEL_IR_VERSION, self.ir_version as u64),
                MODEL_GRAPH => {
                    let graph = self.write_graph(&field.payload, replaced, inline)?;
                    put_bytes(&mut out, MODEL_GRAPH, &graph);
                }
                _ => out.extend_from_slice(&field.whole),
            }
        }
        for opset in &self.opsets {
            put_message(&mut out, MODEL_OPSET_IMPORT, opset);
        }
        if out.len() > LARGEST_MESSAGE {
            let size = out.len() >> 20;
            return Err(unsupported(format!(
                "the quantized model would take {size} MiB, more than the 2 GiB that a file of ONNX holds"
            )));
        }
        Ok(out)
    }

    fn write_graph(
        &mut self,
        payload: &Bytes,
        replaced: &HashSet<String>,
        inline: bool,
    ) -> Result<Vec<u8>> {
        let dropped = self.unused(replaced);
        let fields = fields(payload)?;
        let of = |number: u64| -> Vec<&Field> {
            fields.iter().filter(|field| field.number == number).collect()
        };
        let (nodes, tensors, inputs) = (of(GRAPH_NODE), of(GRAPH_INITIALIZER), of(GRAPH_INPUT));
        let same = nodes.len() == self.graph.node.len()
            && tensors.len() == self.graph.initializer.len()
            && inputs.len() == self.graph.input.len();
        if !same {
            return Err(malformed("the graph is in several parts"));
        }
        let mut out = vec![];
        for node in &self.nodes {
            match node {
                Written::Kept(index) => {
                    let node = &self.graph.node[*index];
                    if node.output.len() == 1 && dropped.contains(&node.output[0]) {
                        continue;
                    }
                    if inline && external_data::in_attributes(node) {
                        let message =
                            "external data of an attribute: convert the model to one file";
                        return Err(unsupported(message).at(format_args!("node `{}`", node.name)));
                    }
                    out.extend_from_slice(&nodes[*index].whole);
                }
                Written::Made(node) => put_message(&mut out, GRAPH_NODE, node),
            }
        }
        for (tensor, field) in self.graph.initializer.iter().zip(tensors) {
            if dropped.contains(&tensor.name) {
                continue;
            }
            if inline && tensor.data_location == LOCATION_EXTERNAL {
                put_message(&mut out, GRAPH_INITIALIZER, &inlined(tensor, self.model)?);
            } else {
                out.extend_from_slice(&field.whole);
            }
        }
        for tensor in &self.initializers {
            put_message(&mut out, GRAPH_INITIALIZER, tensor);
        }
        for (input, field) in self.graph.input.iter().zip(inputs) {
            if !dropped.contains(&input.name) {
                out.extend_from_slice(&field.whole);
            }
        }
        let written = [GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_INPUT];
        for field in fields.iter().filter(|field| !written.contains(&field.number)) {
            out.extend_from_slice(&field.whole);
        }
        for output in &self.outputs {
            put_message(&mut out, GRAPH_OUTPUT, output);
        }
        Ok(out)
    }

    /// The names among `replaced` that no written node reads.
    fn unused(&self, replaced: &HashSet<String>) -> HashSet<String> {
        let mut used: HashSet<&str> = self.graph.output.iter().map(|o| o.name.as_str()).collect();
        for node in &self.nodes {
            match node {
                Written::Kept(index) => reads(&self.graph.node[*index], &mut used),
                Written::Made(node) => reads(node, &mut used),
            }
        }
        replaced.iter().filter(|name| !used.contains(name.as_str())).cloned().collect()
    }
}

/// A tensor of external data as one of the file.
fn inlined(tensor: &TensorProto, model: &Model) -> Result<TensorProto> {
    let value = literal(tensor, &model.files)?;
    Ok(TensorProto {
        dims: tensor.dims.clone(),
        data_type: tensor.data_type,
        name: tensor.name.clone(),
        raw_data: Some(Bytes::copy_from_slice(value.bytes())),
        ..TensorProto::default()
    })
}

/// The names that a node reads, those of graphs inside it too.
pub(super) fn reads<'a>(node: &'a NodeProto, names: &mut HashSet<&'a str>) {
    names.extend(node.input.iter().map(String::as_str));
    for graph in node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs)) {
        names.extend(graph.output.iter().map(|output| output.name.as_str()));
        graph.node.iter().for_each(|node| reads(node, names));
    }
}

fn collect_names(graph: &GraphProto, names: &mut HashSet<String>) {
    let values = graph.input.iter().chain(&graph.output).chain(&graph.value_info);
    names.extend(values.map(|value| value.name.clone()));
    names.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
    for node in &graph.node {
        names.insert(node.name.clone());
        names.extend(node.input.iter().chain(&node.output).cloned());
        let graphs = node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs));
        graphs.for_each(|graph| collect_names(graph, names));
    }
}

/// An attribute that is an integer.
pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: attribute_type::INT,
        i: value,
        ..AttributeProto::default()
    }
}

/// The constants of a graph by name: initializers that no caller overrides, and results of `Constant`.
pub(super) fn constants(model: &Model) -> Result<HashMap<&str, &TensorProto>> {
    let graph = model.graph()?;
    let inputs: HashSet<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    // Before version 4 every initializer is listed among the inputs.
    let overridable = |name: &str| model.proto.ir_version >= 4 && inputs.contains(name);
    let initializers = graph.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor));
    let initializers = initializers.filter(|(name, _)| !overridable(name));
    let value = |node: &'_ NodeProto| node.op_type == "Constant" && node.domain.is_empty();
    let nodes = graph.node.iter().filter(|node| value(node)).filter_map(|node| {
        let attribute = node.attribute.iter().find(|a| a.name == "value")?;
        Some((node.output.first()?.as_str(), attribute.t.as_ref()?))
    });
    Ok(initializers.chain(nodes).collect())
}
