//! A decoded model, its files, and a count of its operators.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::Path;

use prost::Message;
use prost::bytes::{Buf, Bytes};
use reflex_runtime::file_bytes::{FileAccess, FileStamp, open_regular};

use crate::custom::CustomOperators;
use crate::error::{ImportError, ImportErrorKind, Result, invalid, malformed, unsupported};
use crate::external_data::ExternalData;
use crate::model_file::ModelFile;
use crate::opset::{OPSETS, canonical_domain};
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::tensor::{Files, LateTensors, open_file};

/// A model.
pub(crate) struct Model {
    pub proto: ModelProto,
    /// Its own file, where it is not decoded from bytes, and those of its external data.
    pub files: Files,
    /// Operators that the importer does not know itself.
    pub custom: CustomOperators,
    /// Free dimensions that are constants.
    pub dims: BTreeMap<String, i64>,
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
    /// Number of nodes that use it.
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

/// Number of uses of each operator by domain and name, and the first node that uses it.
pub(crate) type OperatorCounts = BTreeMap<(String, String), (usize, String)>;

impl Model {
    /// Reads a file.
    pub fn open(path: &Path, access: FileAccess) -> Result<Model> {
        let (proto, bytes, stamp, late) = match access {
            FileAccess::Map => {
                let (bytes, stamp) = open_file(path, access)?;
                let proto = decoded(Bytes::from_owner(bytes.clone()))?;
                (proto, Some(bytes), stamp, LateTensors::default())
            }
            FileAccess::Read => {
                let failed = |e: io::Error| ImportError::new(ImportErrorKind::Io, e.to_string());
                let file = open_regular(path).map_err(failed)?;
                let stamp = FileStamp::of(&file).map_err(failed)?;
                let mut file = ModelFile::new(file, stamp.length());
                let proto = decoded(&mut file);
                let (file, left_out) = file.finish().map_err(failed)?;
                stamp.check(&file).map_err(failed)?;
                (proto?, None, stamp.clone(), LateTensors::new(file, stamp, left_out))
            }
        };
        let mut model = Model::of(proto, ExternalData::Absent)?;
        model.files = Files::of_model(path, bytes, stamp, access);
        model.files.set_late(late);
        Ok(model)
    }

    /// Decodes bytes.
    pub fn decode(bytes: Bytes, data: ExternalData) -> Result<Model> {
        Model::of(decoded(bytes)?, data)
    }

    fn of(proto: ModelProto, data: ExternalData) -> Result<Model> {
        let model = Model {
            proto,
            files: Files::of_memory(data),
            custom: CustomOperators::default(),
            dims: BTreeMap::new(),
        };
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
            imports.iter().map(|o| (canonical_domain(&o.domain), o.version)).collect();
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
    pub fn operator_counts(&self) -> Result<OperatorCounts> {
        let mut counter = OperatorCounter {
            model: self,
            operator_counts: OperatorCounts::new(),
            entered: HashSet::new(),
        };
        counter.graph(self.graph()?);
        Ok(counter.operator_counts)
    }

    /// A model-local function.
    pub fn function(&self, in_domain: &str, name: &str) -> Option<&FunctionProto> {
        let mut functions = self.proto.functions.iter();
        functions.find(|f| f.name == name && canonical_domain(&f.domain) == in_domain)
    }
}

fn decoded(bytes: impl Buf) -> Result<ModelProto> {
    ModelProto::decode(bytes).map_err(|e| malformed(format!("not an ONNX model, or damaged: {e}")))
}

struct OperatorCounter<'a> {
    model: &'a Model,
    operator_counts: OperatorCounts,
    entered: HashSet<(String, String)>,
}

impl<'a> OperatorCounter<'a> {
    fn graph(&mut self, graph: &'a GraphProto) {
        self.nodes(&graph.node);
    }

    fn nodes(&mut self, nodes: &'a [NodeProto]) {
        for node in nodes {
            let key = (canonical_domain(&node.domain), node.op_type.clone());
            let first = || {
                let names = [&node.name, node.output.first().unwrap_or(&node.name)];
                let named = names.into_iter().find(|name| !name.is_empty());
                (0, named.cloned().unwrap_or_default())
            };
            self.operator_counts.entry(key.clone()).or_insert_with(first).0 += 1;
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
