//! The interface and the operators of a model, read without compiling it.

use std::collections::BTreeMap;
use std::fmt;

#[cfg(feature = "script")]
use reflex_graph::{FuncData, Module, Node};
use reflex_runtime::dtype::Elements;
use reflex_vm::bytecode::Instr;
use reflex_vm::executable::{Constant, Executable};
use serde::Serialize;

#[cfg(any(feature = "onnx", feature = "torch"))]
use crate::error::Result;
#[cfg(feature = "compiler")]
use crate::model_source::ModelSource;
use crate::signature::{Dim, Signature, TensorInfo};

/// A model's interface and operators.
#[derive(Clone, Debug, Serialize)]
pub struct ModelInfo {
    /// Format, version and producer.
    pub kind: String,
    /// Inputs of `main`.
    pub inputs: Vec<ValueInfo>,
    /// Outputs of `main`.
    pub outputs: Vec<ValueInfo>,
    /// Names of the dynamic dimensions of the inputs.
    pub symbols: Vec<String>,
    /// Functions that were compiled for known shapes, with the shapes of their inputs.
    pub variants: Vec<String>,
    /// The title of `operators`: operators of a model, callees of an executable.
    pub operators_title: &'static str,
    /// Name and count, most frequent first, then by name.
    pub operators: Vec<(String, usize)>,
    /// Unsupported operators and attributes, each with its node.
    pub unsupported: Vec<String>,
    /// The file's own description: of ONNX its domain, version and description where it has them,
    /// then its properties (`metadata_props`).
    pub metadata: Vec<(String, String)>,
    /// Elements of the constant tensors, which are weights for the most part.
    pub parameters: u64,
    /// Bytes of the constant tensors.
    pub parameter_bytes: u64,
    /// Bytes of the file, and of the files of its external data.
    pub file_bytes: u64,
}

/// An input or output as the file declares it.
#[derive(Clone, Debug, Serialize)]
pub struct ValueInfo {
    /// Name.
    pub name: String,
    /// Element type, or the type of a value that is not a tensor, such as `sequence(float32[2, n])`;
    /// `value` where the file does not say it.
    pub dtype: String,
    /// Shape; `None` if the rank is unknown.
    pub shape: Option<Vec<Dim>>,
}

impl ModelInfo {
    #[cfg(feature = "onnx")]
    pub(crate) fn of_onnx(source: &ModelSource) -> Result<ModelInfo> {
        let info = source.onnx_info()?;
        let opsets: Vec<String> =
            info.opsets.iter().map(|(domain, version)| format!("{domain} {version}")).collect();
        let producer = if info.producer.is_empty() { "unknown" } else { &info.producer };
        let inputs: Vec<ValueInfo> = info.inputs.iter().map(ValueInfo::from).collect();
        let unsupported = info.unsupported.iter().map(ToString::to_string).chain(info.problem);
        Ok(ModelInfo {
            kind: format!(
                "ONNX, IR version {}, opset {}, written by {producer}",
                info.ir_version,
                opsets.join(", ")
            ),
            symbols: symbols(&inputs),
            inputs,
            outputs: info.outputs.iter().map(ValueInfo::from).collect(),
            variants: vec![],
            operators_title: "operators",
            operators: by_count(info.operators),
            unsupported: unsupported.collect(),
            metadata: info.metadata,
            parameters: info.parameters.count,
            parameter_bytes: info.parameters.bytes,
            file_bytes: source.size() + info.external_bytes,
        })
    }

    #[cfg(feature = "torch")]
    pub(crate) fn of_torch(source: &ModelSource) -> Result<ModelInfo> {
        let info = source.torch_info()?;
        let (inputs, outputs) = match &info.module {
            Some(module) => {
                let main = Signature::of_module(module).remove("main").unwrap_or_default();
                let list = |tensors: &[TensorInfo]| tensors.iter().map(ValueInfo::from).collect();
                (list(&main.inputs), list(&main.outputs))
            }
            None => {
                let list = |values: &[reflex_torch::ValueInfo]| {
                    values.iter().map(ValueInfo::from).collect::<Vec<ValueInfo>>()
                };
                (list(&info.inputs), list(&info.outputs))
            }
        };
        let opsets: Vec<String> =
            info.opsets.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let ((major, minor), version) = (info.schema, &info.torch_version);
        let unsupported = info.unsupported.iter().map(ToString::to_string).chain(info.problem);
        Ok(ModelInfo {
            kind: format!(
                "PyTorch program, schema {major}.{minor}, opset {}, written by PyTorch {version}",
                opsets.join(", ")
            ),
            symbols: symbols(&inputs),
            inputs,
            outputs,
            variants: vec![],
            operators_title: "operators",
            operators: by_count(info.operators),
            unsupported: unsupported.collect(),
            metadata: vec![],
            parameters: info.parameters.count,
            parameter_bytes: info.parameters.bytes,
            file_bytes: source.size(),
        })
    }

    /// Of a module that was read from text of some kind.
    #[cfg(feature = "script")]
    pub(crate) fn of_text(kind: &str, source: &ModelSource, module: &Module) -> ModelInfo {
        let main = Signature::of_module(module).remove("main").unwrap_or_default();
        let mut operators: BTreeMap<String, usize> = BTreeMap::new();
        for func in module.funcs.values() {
            let FuncData::Graph(func) = func else { continue };
            func.body.walk(&mut |binding| {
                let name = match &binding.node {
                    Node::Op { op, .. } => format!("{op:?}"),
                    Node::CallTir { func, .. } | Node::CallFunc { func, .. } => {
                        module.funcs[*func].name().to_string()
                    }
                    Node::CallPacked { name, .. } => name.clone(),
                    Node::If { .. } => "If".to_string(),
                    Node::Loop(_) => "Loop".to_string(),
                    Node::Const(_)
                    | Node::Leaf(_)
                    | Node::Tuple(_)
                    | Node::TupleGet(..)
                    | Node::Data { .. }
                    | Node::MatchCast(_)
                    | Node::MatchShape { .. } => return,
                };
                // Attributes are left out; the function of `Unary(Exp)` is its name.
                let mut words = name.split(|c: char| !c.is_alphanumeric() && !"._".contains(c));
                let first = words.next().unwrap_or_default();
                let word = match first {
                    "Unary" | "Binary" => words.next().unwrap_or(first),
                    _ => first,
                };
                *operators.entry(word.to_string()).or_default() += 1;
            });
        }
        let inputs: Vec<ValueInfo> = main.inputs.iter().map(ValueInfo::from).collect();
        let consts = module.consts.values();
        let parameters = consts.fold(Elements::default(), |sum, c| sum.with(c.dtype(), c.shape()));
        ModelInfo {
            kind: format!("{kind} module"),
            symbols: symbols(&inputs),
            inputs,
            outputs: main.outputs.iter().map(ValueInfo::from).collect(),
            variants: vec![],
            operators_title: "operators",
            operators: by_count(operators),
            unsupported: vec![],
            metadata: vec![],
            parameters: parameters.count,
            parameter_bytes: parameters.bytes,
            file_bytes: source.size(),
        }
    }

    pub(crate) fn of_executable(
        kind: String,
        main: Option<Signature>,
        exec: &Executable,
    ) -> ModelInfo {
        let mut callees: BTreeMap<String, usize> = BTreeMap::new();
        for index in 0..exec.instr_offset.len() {
            if let Ok(Instr::Call { callee, .. }) = exec.instr(index)
                && let Some(func) = usize::try_from(callee).ok().and_then(|c| exec.functions.get(c))
            {
                *callees.entry(func.name.clone()).or_default() += 1;
            }
        }
        let (inputs, outputs) = match main {
            Some(main) => (main.inputs.iter().map(ValueInfo::from).collect(), main.outputs),
            None => (untyped_parameters(exec), vec![]),
        };
        let parameters = exec.constants.iter().fold(Elements::default(), |sum, c| match c {
            Constant::Tensor(tensor) => sum.with(tensor.dtype, &tensor.shape),
            _ => sum,
        });
        ModelInfo {
            kind,
            symbols: symbols(&inputs),
            inputs,
            outputs: outputs.iter().map(ValueInfo::from).collect(),
            variants: vec![],
            operators_title: "callees",
            operators: by_count(callees),
            unsupported: vec![],
            metadata: vec![],
            parameters: parameters.count,
            parameter_bytes: parameters.bytes,
            file_bytes: 0,
        }
    }
}

/// The parameters of a `main` that takes or returns values that are not tensors.
fn untyped_parameters(exec: &Executable) -> Vec<ValueInfo> {
    let main = exec.functions.iter().find(|func| func.name == "main");
    let names = main.map_or(&[][..], |func| func.param_names.as_slice());
    let value =
        |name: &String| ValueInfo { name: name.clone(), dtype: "value".into(), shape: None };
    names.iter().map(value).collect()
}

fn symbols(inputs: &[ValueInfo]) -> Vec<String> {
    let mut names = vec![];
    for dim in inputs.iter().flat_map(|p| p.shape.iter().flatten()) {
        if let Dim::Symbol(name) = dim
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    names
}

fn by_count(counts: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut list: Vec<_> = counts.into_iter().collect();
    list.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    list
}

impl From<&TensorInfo> for ValueInfo {
    fn from(tensor: &TensorInfo) -> ValueInfo {
        let dtype = tensor.dtype.to_string();
        ValueInfo { name: tensor.name.clone(), dtype, shape: Some(tensor.shape.clone()) }
    }
}

#[cfg(feature = "onnx")]
impl From<&reflex_onnx::ValueInfo> for ValueInfo {
    fn from(value: &reflex_onnx::ValueInfo) -> ValueInfo {
        let dim = |d: &reflex_onnx::Dim| match d {
            reflex_onnx::Dim::Fixed(n) => Dim::Const(*n),
            named => Dim::Symbol(named.to_string()),
        };
        let shape = value.dims.as_ref().map(|dims| dims.iter().map(dim).collect());
        ValueInfo { name: value.name.clone(), dtype: value.dtype.clone(), shape }
    }
}

#[cfg(feature = "torch")]
impl From<&reflex_torch::ValueInfo> for ValueInfo {
    fn from(value: &reflex_torch::ValueInfo) -> ValueInfo {
        let dim = |d: &reflex_torch::Dim| match d {
            reflex_torch::Dim::Fixed(n) => Dim::Const(*n),
            reflex_torch::Dim::Symbolic(name) => Dim::Symbol(name.clone()),
        };
        let shape = value.dims.as_ref().map(|dims| dims.iter().map(dim).collect());
        ValueInfo { name: value.name.clone(), dtype: value.dtype.clone(), shape }
    }
}

impl fmt::Display for ValueInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(shape) = &self.shape else { return write!(f, "{}: {}", self.name, self.dtype) };
        let shape: Vec<String> = shape.iter().map(Dim::to_string).collect();
        write!(f, "{}: {}[{}]", self.name, self.dtype, shape.join(", "))
    }
}
