//! Operators that users of the library import themselves.
//!
//! ONNX leaves room for operators of other domains. A [`CustomOperators`] holds an import function
//! for each: it gets the node as a [`CustomNode`] and writes what it means with the builder of graph
//! IR, as operators of [`reflex_graph::Op`] or as the call of a packed function, which the program
//! finds by name when it is loaded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Node, TensorType, Value};
use reflex_tir::Expr;

use crate::opset::canonical_domain;
use crate::proto::{AttributeProto, NodeProto, attribute_type};

/// Writes what a node means; returns its outputs in order. An error says why it cannot.
pub type CustomImport =
    dyn Fn(&mut FuncBuilder<'_>, &CustomNode<'_>) -> Result<Vec<Value>, String> + Send + Sync;

/// Import functions by domain and operator. They come before what the importer knows itself.
#[derive(Clone, Default)]
pub struct CustomOperators(BTreeMap<(String, String), Arc<CustomImport>>);

impl CustomOperators {
    /// Sets the import function of an operator; `""` and `ai.onnx` are ONNX's own domain.
    pub fn insert(&mut self, domain: &str, operator: &str, import: Arc<CustomImport>) {
        self.0.insert((canonical_domain(domain), operator.to_owned()), import);
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The import function of an operator.
    pub(crate) fn find(&self, domain: &str, operator: &str) -> Option<&Arc<CustomImport>> {
        self.0.get(&(domain.to_owned(), operator.to_owned()))
    }
}

impl fmt::Debug for CustomOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A node with its inputs as values of the function that is being built.
pub struct CustomNode<'a> {
    node: &'a NodeProto,
    opset: i64,
    inputs: Vec<Option<Value>>,
}

impl<'a> CustomNode<'a> {
    pub(crate) fn new(
        node: &'a NodeProto,
        opset: i64,
        inputs: Vec<Option<Value>>,
    ) -> CustomNode<'a> {
        CustomNode { node, opset, inputs }
    }

    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// Version of the operator set that the model imports for the node's domain.
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// Inputs; `None` where an optional one is left out.
    pub fn inputs(&self) -> &[Option<Value>] {
        &self.inputs
    }

    /// A required input.
    pub fn input(&self, index: usize) -> Result<Value, String> {
        let input = self.inputs.get(index).copied().flatten();
        input.ok_or_else(|| format!("input {index} is missing"))
    }

    /// Number of outputs that the node names.
    pub fn output_count(&self) -> usize {
        self.node.output.len()
    }

    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name, attribute_type::INT).map(|a| a.i)
    }

    /// A float attribute.
    pub fn float(&self, name: &str) -> Option<f32> {
        self.attribute(name, attribute_type::FLOAT).map(|a| a.f)
    }

    /// A string attribute, if it is UTF-8.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let attribute = self.attribute(name, attribute_type::STRING)?;
        std::str::from_utf8(&attribute.s).ok()
    }

    /// A list of integers.
    pub fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.attribute(name, attribute_type::INTS).map(|a| a.ints.as_slice())
    }

    /// A list of floats.
    pub fn floats(&self, name: &str) -> Option<&'a [f32]> {
        self.attribute(name, attribute_type::FLOATS).map(|a| a.floats.as_slice())
    }

    /// Calls a packed function with the node's inputs, and `ints` after them. It returns a tensor,
    /// or an array of them where `types` has several; they are checked against `types` whenever
    /// it is called.
    pub fn call_packed(
        &self,
        b: &mut FuncBuilder<'_>,
        function: &str,
        ints: Vec<Expr>,
        types: Vec<TensorType>,
    ) -> Vec<Value> {
        let args = self.inputs.iter().copied().flatten().collect();
        b.bind(Node::CallPacked { name: function.to_owned(), args, ints }, types)
    }

    fn attribute(&self, name: &str, kind: i32) -> Option<&'a AttributeProto> {
        let found = self.node.attribute.iter().find(|a| a.name == name);
        // Models older than the type field leave it out.
        found.filter(|a| a.r#type == kind || a.r#type == attribute_type::UNDEFINED)
    }
}
