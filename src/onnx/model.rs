//! A decoded model with where it came from, and the survey of its operators.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use prost::Message;
use prost::bytes::Bytes;
use reflex_runtime::mapped_file::MappedFile;

use crate::error::{Result, invalid, malformed, unsupported};
use crate::import::domain;
use crate::ops;
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::tensor::map_file;

/// Operator sets of the default domain that the table was written against.
pub(crate) const OPSETS: std::ops::RangeInclusive<i64> = 6..=28;

/// A model.
pub(crate) struct Model {
    pub proto: ModelProto,
    /// Where external data may be.
    pub folder: Option<PathBuf>,
    /// The model's own file, where it is not decoded from bytes.
    pub file: Option<MappedFile>,
}

/// An operator without an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// Operator set.
    pub domain: String,
    /// Name.
    pub operator: String,
    /// Version of the operator set that the model asks for.
    pub opset: i64,
    /// How often it occurs.
    pub count: usize,
    /// First node that uses it.
    pub node: String,
}

impl fmt::Display for UnsupportedOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnsupportedOperator { domain, operator, opset, count, node } = self;
        write!(f, "{domain}::{operator} of opset {opset} ({count} nodes, first `{node}`)")
    }
}

/// How often operators occur, and where first.
type Census = BTreeMap<(String, String), (usize, String)>;

impl Model {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Model> {
        let folder = path.parent().map(Path::to_path_buf);
        let file = map_file(path)?;
        let model = Model::decode(Bytes::from_owner(file.clone()), folder)?;
        Ok(Model { file: Some(file), ..model })
    }

    /// Decodes bytes.
    pub fn decode(bytes: Bytes, folder: Option<PathBuf>) -> Result<Model> {
        let proto = ModelProto::decode(bytes)
            .map_err(|e| malformed(format!("not an ONNX model, or damaged: {e}")))?;
        let model = Model { proto, folder, file: None };
        model.graph()?;
        model.opsets()?;
        Ok(model)
    }

    /// The main graph.
    pub fn graph(&self) -> Result<&GraphProto> {
        self.proto.graph.as_ref().ok_or_else(|| malformed("not an ONNX model: it has no graph"))
    }

    /// Imported operator sets by domain.
    pub fn opsets(&self) -> Result<HashMap<String, i64>> {
        let imports = &self.proto.opset_import;
        let opsets: HashMap<String, i64> =
            imports.iter().map(|o| (domain(&o.domain), o.version)).collect();
        if opsets.is_empty() {
            return Err(malformed("not an ONNX model: it imports no operator set"));
        }
        if let Some(version) = opsets.get("ai.onnx")
            && !OPSETS.contains(version)
        {
            let (oldest, newest) = (OPSETS.start(), OPSETS.end());
            let message = format!("opset {version}; {oldest} to {newest} are supported");
            return Err(if *version <= 0 { invalid(message) } else { unsupported(message) });
        }
        Ok(opsets)
    }

    /// Operators, those of subgraphs and of called functions included.
    pub fn census(&self) -> Result<Census> {
        let mut survey = Survey { model: self, census: Census::new(), entered: HashSet::new() };
        survey.graph(self.graph()?);
        Ok(survey.census)
    }

    /// Operators without an import.
    pub fn unsupported(&self) -> Vec<UnsupportedOperator> {
        let (Ok(census), Ok(opsets)) = (self.census(), self.opsets()) else { return vec![] };
        let missing = census.into_iter().filter(|((d, name), _)| {
            ops::find(d, name).is_none() && self.function(d, name).is_none()
        });
        let describe =
            |((domain, operator), (count, node)): ((String, String), (usize, String))| {
                let opset = opsets.get(&domain).copied().unwrap_or(0);
                UnsupportedOperator { domain, operator, opset, count, node }
            };
        missing.map(describe).collect()
    }

    fn function(&self, in_domain: &str, name: &str) -> Option<&FunctionProto> {
        let mut functions = self.proto.functions.iter();
        functions.find(|f| f.name == name && domain(&f.domain) == in_domain)
    }
}

struct Survey<'a> {
    model: &'a Model,
    census: Census,
    entered: HashSet<(String, String)>,
}

impl<'a> Survey<'a> {
    fn graph(&mut self, graph: &'a GraphProto) {
        self.nodes(&graph.node);
    }

    fn nodes(&mut self, nodes: &'a [NodeProto]) {
        for node in nodes {
            let key = (domain(&node.domain), node.op_type.clone());
            let first = || {
                let names = [&node.name, node.output.first().unwrap_or(&node.name)];
                let named = names.into_iter().find(|name| !name.is_empty());
                (0, named.cloned().unwrap_or_default())
            };
            self.census.entry(key.clone()).or_insert_with(first).0 += 1;
            for attribute in &node.attribute {
                attribute.g.iter().chain(&attribute.graphs).for_each(|g| self.graph(g));
            }
            if let Some(function) = self.model.function(&key.0, &key.1)
                && self.entered.insert(key)
            {
                self.nodes(&function.node);
            }
        }
    }
}
