//! The JSON of an exported program, as far as an import reads it.
//!
//! Unions are objects of one field whose name says the kind. Fields that say nothing to an import are skipped, so
//! minor versions of the schema that add fields are read as well.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

/// The major version of the schema that is read.
pub(crate) const MAJOR: i64 = 8;

/// A program.
#[derive(Debug, Deserialize)]
pub(crate) struct ExportedProgram {
    pub graph_module: GraphModule,
    #[serde(default)]
    pub opset_version: BTreeMap<String, i64>,
    #[serde(default)]
    pub range_constraints: BTreeMap<String, RangeConstraint>,
    pub schema_version: SchemaVersion,
    #[serde(default)]
    pub torch_version: String,
}

/// The least extent that a symbol may have. Whether one is above the greatest is not checked.
#[derive(Debug, Deserialize)]
pub(crate) struct RangeConstraint {
    pub min_val: Option<i64>,
}

/// A version of the schema.
#[derive(Debug, Deserialize)]
pub(crate) struct SchemaVersion {
    pub major: i64,
    #[serde(default)]
    pub minor: i64,
}

/// A graph with the meaning of its inputs and outputs.
#[derive(Debug, Deserialize)]
pub(crate) struct GraphModule {
    pub graph: Graph,
    pub signature: GraphSignature,
}

/// Nodes in order.
#[derive(Debug, Deserialize)]
pub(crate) struct Graph {
    #[serde(default)]
    pub inputs: Vec<Argument>,
    #[serde(default)]
    pub outputs: Vec<Argument>,
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub tensor_values: BTreeMap<String, TensorMeta>,
}

/// A call.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub target: String,
    pub inputs: Vec<NamedArgument>,
    pub outputs: Vec<Argument>,
}

/// An argument by its name in the operator's schema.
#[derive(Debug, Deserialize)]
pub(crate) struct NamedArgument {
    #[serde(default)]
    pub name: String,
    pub arg: Argument,
}

/// An argument or an output.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::enum_variant_names)] // as the schema has them
pub(crate) enum Argument {
    AsNone(de::IgnoredAny),
    AsTensor(TensorArgument),
    AsTensors(Vec<TensorArgument>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Real),
    AsFloats(Vec<Real>),
    AsString(String),
    AsStrings(de::IgnoredAny),
    AsSymInt(SymIntArgument),
    AsSymInts(Vec<SymIntArgument>),
    AsScalarType(i64),
    AsMemoryFormat(de::IgnoredAny),
    AsLayout(de::IgnoredAny),
    AsDevice(de::IgnoredAny),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsSymBool(SymBoolArgument),
    AsSymBools(de::IgnoredAny),
    AsGraph(Box<GraphArgument>),
    AsOptionalTensors(Vec<OptionalTensorArgument>),
    AsCustomObj(de::IgnoredAny),
    AsOperator(de::IgnoredAny),
    AsSymFloat(SymFloatArgument),
    AsSymFloats(de::IgnoredAny),
    AsOptionalTensor(OptionalTensorArgument),
    AsComplex(de::IgnoredAny),
}

/// The name of a tensor.
#[derive(Debug, Deserialize)]
pub(crate) struct TensorArgument {
    pub name: String,
}

/// A graph inside a node.
#[derive(Debug, Deserialize)]
pub(crate) struct GraphArgument {
    pub name: String,
    pub graph: Graph,
}

/// A tensor or none.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OptionalTensorArgument {
    AsTensor(TensorArgument),
    AsNone(de::IgnoredAny),
}

/// An integer, or the name of one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymIntArgument {
    AsName(String),
    AsInt(i64),
}

/// A number, or the name of one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymFloatArgument {
    AsName(String),
    AsFloat(Real),
}

/// A truth value, or the name of one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymBoolArgument {
    AsName(String),
    AsBool(bool),
}

/// A number; infinities and NaN are words in JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real(pub f64);

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Real, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(f64),
            Word(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(value) => Ok(Real(value)),
            Form::Word(word) => match word.as_str() {
                "Infinity" => Ok(Real(f64::INFINITY)),
                "-Infinity" => Ok(Real(f64::NEG_INFINITY)),
                "NaN" => Ok(Real(f64::NAN)),
                other => Err(de::Error::custom(format!("a number `{other}`"))),
            },
        }
    }
}

/// An extent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymInt {
    AsExpr(SymExpr),
    AsInt(i64),
}

/// An expression over symbols, as SymPy's `srepr` writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct SymExpr {
    pub expr_str: String,
}

/// Type and layout of a tensor.
#[derive(Debug, Deserialize)]
pub(crate) struct TensorMeta {
    pub dtype: i64,
    pub sizes: Vec<SymInt>,
    #[serde(default)]
    pub strides: Vec<SymInt>,
    pub storage_offset: Option<SymInt>,
    pub layout: Option<i64>,
}

/// The inputs and outputs of a graph in order.
#[derive(Debug, Deserialize)]
pub(crate) struct GraphSignature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

/// The meaning of an input.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputSpec {
    UserInput(UserInputSpec),
    Parameter { arg: TensorArgument, parameter_name: String },
    Buffer { arg: TensorArgument, buffer_name: String },
    TensorConstant { arg: TensorArgument, tensor_constant_name: String },
    CustomObj { custom_obj_name: String },
    Token(de::IgnoredAny),
    ConstantInput { name: String, value: ConstantValue },
}

/// An input that callers give.
#[derive(Debug, Deserialize)]
pub(crate) struct UserInputSpec {
    pub arg: Argument,
}

/// The value of an input that the export fixed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::enum_variant_names)] // as the schema has them
pub(crate) enum ConstantValue {
    AsNone(de::IgnoredAny),
    AsInt(i64),
    AsFloat(Real),
    AsString(String),
    AsBool(bool),
}

/// The meaning of an output.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputSpec {
    UserOutput { arg: Argument },
    LossOutput { arg: TensorArgument },
    BufferMutation { buffer_name: String },
    GradientToParameter(de::IgnoredAny),
    GradientToUserInput(de::IgnoredAny),
    UserInputMutation { user_input_name: String },
    Token(de::IgnoredAny),
    ParameterMutation { parameter_name: String },
}

/// The tensors of a folder by their names in the program.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct PayloadConfig {
    pub config: BTreeMap<String, PayloadMeta>,
}

/// A tensor's file.
#[derive(Debug, Deserialize)]
pub(crate) struct PayloadMeta {
    pub path_name: String,
    #[serde(default)]
    pub use_pickle: bool,
    pub tensor_meta: Option<TensorMeta>,
}

/// The name of an argument that has one.
pub(crate) fn argument_name(arg: &Argument) -> Option<&str> {
    match arg {
        Argument::AsTensor(tensor)
        | Argument::AsOptionalTensor(OptionalTensorArgument::AsTensor(tensor)) => {
            Some(&tensor.name)
        }
        Argument::AsSymInt(SymIntArgument::AsName(name))
        | Argument::AsSymFloat(SymFloatArgument::AsName(name))
        | Argument::AsSymBool(SymBoolArgument::AsName(name)) => Some(name),
        _ => None,
    }
}

/// The names of tensors in an argument.
pub(crate) fn tensor_names(arg: &Argument) -> Vec<&str> {
    match arg {
        Argument::AsTensors(list) => list.iter().map(|t| t.name.as_str()).collect(),
        Argument::AsOptionalTensors(list) => list
            .iter()
            .filter_map(|t| match t {
                OptionalTensorArgument::AsTensor(t) => Some(t.name.as_str()),
                OptionalTensorArgument::AsNone(_) => None,
            })
            .collect(),
        other => argument_name(other).into_iter().collect(),
    }
}

/// The name of a node: that of its first result.
pub(crate) fn node_name(node: &Node) -> &str {
    let first = node.outputs.iter().flat_map(tensor_names).next();
    first.unwrap_or(&node.target)
}

/// The graph of a node that only changes settings of automatic differentiation.
pub(crate) fn region(node: &Node) -> Option<&GraphArgument> {
    let wraps = ["wrap_with_set_grad_enabled", "wrap_with_autocast"];
    let name = node.target.strip_prefix("torch.ops.higher_order.")?;
    if !wraps.contains(&name) || (name == wraps[1] && !autocast_is_off(node)) {
        return None;
    }
    node.inputs.iter().find_map(|input| match &input.arg {
        Argument::AsGraph(graph) => Some(&**graph),
        _ => None,
    })
}

/// Returns true if a region of automatic precision has none (device, type, enabled, cache).
fn autocast_is_off(node: &Node) -> bool {
    let mut flags = node.inputs.iter().filter_map(|input| match &input.arg {
        Argument::AsBool(value) => Some(*value),
        _ => None,
    });
    flags.next() == Some(false)
}
