//! Quantization: a float32 model to one whose products are of 8-bit integers, or whose weights have 4
//! bits.
//!
//! Decision: docs/decisions/0092-quantizing-models.md
//!
//! [`FloatModel`] reads a model. [`FloatModel::quantize`] replaces products with constant weights in its
//! main graph (MatMul, Gemm, Conv) by standard operators, which every engine for ONNX runs:
//!
//! | method | activations | weights | operators |
//! |---|---|---|---|
//! | [`Method::Dynamic`] | u8, one scale for each tensor and call | i8, a scale for each channel | DynamicQuantizeLinear, MatMulInteger, ConvInteger |
//! | [`Method::Static`] | u8, one scale for each tensor | i8, a scale for each channel | QuantizeLinear, DequantizeLinear |
//! | [`Method::Weights4`] | float32 | 4 bits, a scale for each block | DequantizeLinear of opset 21, MatMulNBits before |
//!
//! Scales of activations follow ONNX's DynamicQuantizeLinear; weights are symmetric. Everything that is
//! not replaced is copied byte by byte.

mod block_weights;
mod codes;
mod dynamic;
mod graph_edit;
mod options;
mod qdq;
mod site;
mod wire;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use prost::bytes::Bytes;
use reflex_runtime::file_bytes::FileAccess;

use crate::error::{ImportError, Result, invalid, unsupported};
use crate::external_data::ExternalData;
use crate::model::Model;
use crate::proto::{NodeProto, TensorProto, data_type};
use crate::tensor::{Files, literal, open_file};

pub use codes::decibels;
use graph_edit::{GraphEdit, constants};
pub use options::{Method, OPERATORS, QuantizeOptions, Ranges};
use site::{Site, floats};

/// A node that was quantized.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name, or that of its result if it has none.
    pub node: String,
    /// Operator.
    pub operator: String,
    /// Its result, a float32 value in both models.
    pub output: String,
    /// Its weights.
    pub weight: String,
    /// Number of weights.
    pub elements: usize,
    /// Signal to quantization noise of the weights in decibels.
    pub weight_sqnr_db: f64,
}

/// A node that could have been quantized and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptNode {
    /// Its name, or that of its result if it has none.
    pub node: String,
    /// Operator.
    pub operator: String,
    /// Why.
    pub reason: String,
}

/// A quantized model.
#[derive(Clone, Debug)]
pub struct QuantizedModel {
    /// The file.
    pub bytes: Vec<u8>,
    /// Quantized layers, in the order of the graph.
    pub layers: Vec<Layer>,
    /// Nodes that were not.
    pub kept: Vec<KeptNode>,
}

/// A model to quantize.
pub struct FloatModel {
    model: Model,
    bytes: Bytes,
}

/// Sites in the order of the graph, and what is none.
struct Sites<'a> {
    sites: Vec<Site<'a>>,
    kept: Vec<KeptNode>,
}

impl FloatModel {
    /// Reads a file.
    pub fn open(path: &Path) -> std::result::Result<FloatModel, ImportError> {
        let read = || {
            let (bytes, stamp) = open_file(path, FileAccess::Read)?;
            let bytes = Bytes::from_owner(bytes);
            let mut model = Model::decode(bytes.clone(), ExternalData::Absent)?;
            model.files = Files::of_model(path, None, stamp, FileAccess::Read);
            Ok(FloatModel { model, bytes })
        };
        read().map_err(|e: ImportError| e.at(path.display()))
    }

    /// A model in memory, without external data.
    pub fn of_bytes(bytes: Vec<u8>) -> std::result::Result<FloatModel, ImportError> {
        let bytes = Bytes::from(bytes);
        let model = Model::decode(bytes.clone(), ExternalData::Absent)?;
        Ok(FloatModel { model, bytes })
    }

    /// The model with float32 values of its graph as further results; external data stays where it is.
    pub fn with_outputs(&self, names: &[String]) -> std::result::Result<Vec<u8>, ImportError> {
        let mut edit = GraphEdit::new(&self.model)?;
        names.iter().for_each(|name| edit.output(name));
        edit.write(&self.bytes, &HashSet::new(), false)
    }

    /// The values whose ranges [`Method::Static`] needs.
    pub fn values_to_calibrate(
        &self,
        options: &QuantizeOptions,
    ) -> std::result::Result<Vec<String>, ImportError> {
        let sites = self.sites(options)?;
        Ok(qdq::activations(self.model.graph()?, &sites.sites))
    }

    /// Quantizes.
    ///
    /// # Errors
    ///
    /// An operator set that is too old for the method, an excluded node that is not there, nothing to
    /// quantize, a range that is missing.
    pub fn quantize(
        &self,
        options: &QuantizeOptions,
    ) -> std::result::Result<QuantizedModel, ImportError> {
        self.check_options(options)?;
        let Sites { sites, mut kept } = self.sites(options)?;
        if sites.is_empty() {
            let reasons: Vec<String> = kept
                .iter()
                .take(3)
                .map(|k| format!("node `{}` ({}): {}", k.node, k.operator, k.reason))
                .collect();
            let names = options.operators.iter().map(String::as_str).collect::<Vec<_>>();
            return Err(unsupported(format!(
                "nothing to quantize: no {} with float32 weights that can be. {}",
                names.join(" or "),
                reasons.join("; ")
            )));
        }
        let mut edit = GraphEdit::new(&self.model)?;
        let opset = self.model.opsets()?.get("ai.onnx").copied().unwrap_or(0);
        let layers = match &options.method {
            Method::Dynamic => dynamic::rewrite(&mut edit, self.model.graph()?, &sites, options),
            Method::Static(ranges) => {
                qdq::rewrite(&mut edit, self.model.graph()?, &sites, options, ranges)?
            }
            Method::Weights4(block) => {
                block_weights::rewrite(&mut edit, &self.model, &sites, *block, opset)?
            }
        };
        let replaced = sites.iter().map(|site| site.weight_name().to_owned());
        let biases = sites.iter().filter_map(|site| site.node.input.get(2).cloned());
        let names: HashMap<&str, &TensorProto> = constants(&self.model)?;
        let biases = biases.filter(|name| names.contains_key(name.as_str()));
        let bytes = edit.write(&self.bytes, &replaced.chain(biases).collect(), true)?;
        let layers = sites.iter().zip(layers).map(|(site, weight_sqnr_db)| Layer {
            node: name_of(site.node),
            operator: site.node.op_type.clone(),
            output: site.node.output[0].clone(),
            weight: site.weight_name().to_owned(),
            elements: site.value.count(),
            weight_sqnr_db,
        });
        kept.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(QuantizedModel { bytes, layers: layers.collect(), kept })
    }

    fn check_options(&self, options: &QuantizeOptions) -> Result<()> {
        let opset = self.model.opsets()?.get("ai.onnx").copied().unwrap_or(0);
        let least = match options.method {
            Method::Dynamic => 11,
            Method::Static(_) => 13,
            Method::Weights4(_) => 7,
        };
        if opset < least {
            return Err(unsupported(format!(
                "opset {opset}: what is written needs opset {least}; onnx.version_converter makes a model of it"
            )));
        }
        if let Method::Weights4(block) = options.method
            && !(block.is_power_of_two() && (16..=4096).contains(&block))
        {
            return Err(invalid(format!(
                "blocks of {block} weights: a power of two from 16 to 4096 is expected"
            )));
        }
        if let Some(operator) = options.operators.iter().find(|o| !OPERATORS.contains(&o.as_str()))
        {
            let known = OPERATORS.join(", ");
            return Err(unsupported(format!("operator {operator} is not quantized; {known} are")));
        }
        let nodes = &self.model.graph()?.node;
        let there = |name: &String| nodes.iter().any(|node| name_of(node) == *name);
        match options.exclude.iter().find(|name| !there(name)) {
            Some(name) => {
                Err(invalid(format!("node `{name}` is to be left out, and is not there")))
            }
            None => Ok(()),
        }
    }

    fn sites(&self, options: &QuantizeOptions) -> Result<Sites<'_>> {
        let constants = constants(&self.model)?;
        let mut all = Sites { sites: vec![], kept: vec![] };
        for (index, node) in self.model.graph()?.node.iter().enumerate() {
            let known = OPERATORS.contains(&node.op_type.as_str());
            if !known || !matches!(node.domain.as_str(), "" | "ai.onnx") {
                continue;
            }
            let site = match refusal(node, options) {
                Some(reason) => Err(reason),
                None => self.site(index, node, &constants)?,
            };
            match site {
                Ok(site) => all.sites.push(site),
                Err(reason) => all.kept.push(KeptNode {
                    node: name_of(node),
                    operator: node.op_type.clone(),
                    reason: reason.to_owned(),
                }),
            }
        }
        Ok(all)
    }

    /// A node with its weights, or why it stays.
    fn site<'a>(
        &'a self,
        index: usize,
        node: &'a NodeProto,
        constants: &HashMap<&str, &'a TensorProto>,
    ) -> Result<std::result::Result<Site<'a>, &'static str>> {
        let Some(weight) = node.input.get(1).and_then(|name| constants.get(name.as_str())) else {
            return Ok(Err("its second operand is not a constant"));
        };
        if constants.contains_key(node.input[0].as_str()) {
            return Ok(Err("its first operand is a constant"));
        }
        if weight.data_type != data_type::FLOAT {
            return Ok(Err("its weights are not float32"));
        }
        let ranks = if node.op_type == "Conv" { 3..=5 } else { 2..=2 };
        if !ranks.contains(&weight.dims.len()) {
            return Ok(Err("its weights have a rank that is not quantized"));
        }
        let value = literal(weight, &self.model.files)?;
        if value.count() == 0 || !floats(&value).all(f32::is_finite) {
            return Ok(Err("its weights are empty or not finite"));
        }
        let bias = node.input.get(2).and_then(|name| constants.get(name.as_str()));
        let bias = bias.filter(|b| b.data_type == data_type::FLOAT && b.dims.len() == 1);
        let bias = bias.map(|bias| literal(bias, &self.model.files)).transpose()?;
        let bias_values = bias.map(|bias| floats(&bias).collect());
        let shape = weight.dims.iter().map(|d| *d as usize).collect();
        Ok(Ok(Site { index, node, weight, shape, value, bias_values }))
    }
}

/// Why a node stays, by what is written in it.
fn refusal(node: &NodeProto, options: &QuantizeOptions) -> Option<&'static str> {
    let attribute = |name: &str| node.attribute.iter().find(|a| a.name == name);
    let not_one = |name: &str| attribute(name).is_some_and(|a| a.f != 1.0);
    let bias = node.input.get(2).is_some_and(|name| !name.is_empty());
    let set = |name: &str| attribute(name).is_some_and(|a| a.i != 0);
    if options.exclude.contains(&name_of(node)) {
        Some("it is excluded")
    } else if !options.operators.contains(&node.op_type) {
        Some("its operator is not among those asked for")
    } else if node.input.len() < 2 || node.output.len() != 1 || node.input[0].is_empty() {
        Some("it has no two operands and one result")
    } else if node.op_type == "Conv" && matches!(options.method, Method::Weights4(_)) {
        Some("no operator has 4-bit weights of convolutions")
    } else if node.op_type == "Gemm" && (set("transA") || not_one("alpha")) {
        Some("its transA or alpha is not the default")
    } else if node.op_type == "Gemm" && bias && not_one("beta") {
        Some("its beta is not the default")
    } else {
        None
    }
}

/// The name of a node, or that of its first result.
fn name_of(node: &NodeProto) -> String {
    let names = [Some(&node.name), node.output.first()];
    names.into_iter().flatten().find(|name| !name.is_empty()).cloned().unwrap_or_default()
}
