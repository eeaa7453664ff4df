//! Walks an ONNX graph and builds the module's function `main`.
//!
//! Inputs become parameters with symbolic dimensions, initialisers become constants, nodes go
//! through the operator table. Names of inputs, outputs and intermediate values are kept.
//! Operator semantics live in [`crate::ops`].

use std::collections::HashMap;

use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Literal, Module, TensorType};
use reflex_tir::{DType, Expr};

use crate::call::Call;
use crate::error::{Result, invalid, malformed, unsupported};
use crate::model::Model;
use crate::ops;
use crate::proto::{
    DimensionValue, FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto,
};
use crate::tensor::{Files, dtype, literal};
use crate::value::{Tensor, Val};

/// Functions that call each other deeper than this are taken for recursive.
const MAX_DEPTH: usize = 32;

/// An import under way.
pub(crate) struct Cx<'m> {
    /// The function being built.
    pub b: FuncBuilder<'m>,
    files: Files,
    functions: HashMap<(String, String, String), &'m FunctionProto>,
    opsets: HashMap<String, i64>,
    symbols: HashMap<String, Expr>,
    frames: Vec<Frame>,
    depth: usize,
}

/// Named values of one graph. The search for a name ends at a function's frame.
#[derive(Default)]
struct Frame {
    values: HashMap<String, Val>,
    opaque: bool,
}

/// Builds the module of a model.
pub(crate) fn import_model(model: &Model) -> Result<Module> {
    let missing = model.unsupported();
    if !missing.is_empty() {
        let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Err(unsupported(format!("unsupported operators: {}", list.join("; "))));
    }
    let graph = model.graph()?;
    if !graph.sparse_initializer.is_empty() {
        return Err(unsupported("sparse initialisers"));
    }
    let mut module = Module::default();
    let functions = model.proto.functions.iter();
    let key = |f: &FunctionProto| (domain(&f.domain), f.name.clone(), f.overload.clone());
    let mut cx = Cx {
        b: FuncBuilder::new(&mut module, "main"),
        files: Files::new(model.file.clone(), model.folder.clone()),
        functions: functions.map(|f| (key(f), f)).collect(),
        opsets: model.opsets()?,
        symbols: HashMap::new(),
        frames: vec![Frame::default()],
        depth: 0,
    };
    cx.initialisers(graph)?;
    cx.parameters(graph)?;
    cx.nodes(&graph.node)?;
    let mut results = vec![];
    for output in &graph.output {
        let place = |e: crate::error::ImportError| e.at(format_args!("output `{}`", output.name));
        let Val::Tensor(tensor) = cx.lookup(&output.name).map_err(place)? else {
            return Err(place(unsupported("a result that is not a tensor")));
        };
        results.push(cx.value(&tensor)?);
    }
    let names = graph.output.iter().map(|o| o.name.clone()).collect();
    let Cx { b, .. } = cx;
    b.finish(results, names);
    Ok(module)
}

impl<'m> Cx<'m> {
    fn initialisers(&mut self, graph: &GraphProto) -> Result<()> {
        for tensor in &graph.initializer {
            let literal = self.literal(tensor)?;
            self.define(&tensor.name, Val::Tensor(Tensor::literal(literal)));
        }
        Ok(())
    }

    fn parameters(&mut self, graph: &GraphProto) -> Result<()> {
        for input in &graph.input {
            // Old models list initialisers as inputs too.
            if self.frames[0].values.contains_key(&input.name) {
                continue;
            }
            let place = format!("input `{}`", input.name);
            let ty = self.declared(input).map_err(|e| e.at(&place))?;
            let value = self.b.param(input.name.clone(), ty.clone());
            self.define(&input.name, Val::Tensor(Tensor::value(value, ty)));
        }
        Ok(())
    }

    /// The tensor type that a model declares, with a symbol for each free dimension.
    fn declared(&mut self, info: &ValueInfoProto) -> Result<TensorType> {
        let ty = info.r#type.as_ref().ok_or_else(|| malformed("has no type"))?;
        let Some(tensor) = &ty.tensor_type else {
            return Err(unsupported("only tensors can be inputs (no sequence, optional or map)"));
        };
        let shape = tensor.shape.as_ref();
        let shape = shape.ok_or_else(|| unsupported("has no declared shape; a rank is needed"))?;
        let mut dims = vec![];
        for (axis, dim) in shape.dim.iter().enumerate() {
            dims.push(match &dim.value {
                Some(DimensionValue::DimValue(value)) if *value >= 0 => Expr::i64(*value),
                Some(DimensionValue::DimParam(name)) if !name.is_empty() && name != "?" => {
                    self.symbol(name)
                }
                _ => Expr::var(self.b.sym(format!("{}_{axis}", info.name))),
            });
        }
        Ok(TensorType::new(supported(dtype(tensor.elem_type)?)?, dims))
    }

    fn symbol(&mut self, name: &str) -> Expr {
        if let Some(known) = self.symbols.get(name) {
            return known.clone();
        }
        let fresh = Expr::var(self.b.sym(name));
        self.symbols.insert(name.to_string(), fresh.clone());
        fresh
    }

    /// A tensor's literal.
    pub fn literal(&mut self, tensor: &TensorProto) -> Result<Literal> {
        let literal = literal(tensor, &mut self.files)?;
        supported(literal.dtype()).map_err(|e| e.at(format_args!("tensor `{}`", tensor.name)))?;
        Ok(literal)
    }

    /// Makes a name known in the innermost graph.
    pub fn define(&mut self, name: &str, value: Val) {
        let frame = self.frames.last_mut().expect("the model's own frame");
        frame.values.insert(name.to_string(), value);
    }

    /// The value of a name, from the innermost graph outwards.
    pub fn lookup(&self, name: &str) -> Result<Val> {
        for frame in self.frames.iter().rev() {
            if let Some(value) = frame.values.get(name) {
                return Ok(value.clone());
            }
            if frame.opaque {
                break;
            }
        }
        Err(invalid(format!("value `{name}` is not defined before its use")))
    }

    fn nodes(&mut self, nodes: &[NodeProto]) -> Result<()> {
        for (index, node) in nodes.iter().enumerate() {
            self.node(node).map_err(|e| {
                let name =
                    if node.name.is_empty() { format!("#{index}") } else { node.name.clone() };
                e.at(format_args!("node `{name}` ({})", node.op_type))
            })?;
        }
        Ok(())
    }

    fn node(&mut self, node: &NodeProto) -> Result<()> {
        let optional = |name: &String| match name.as_str() {
            "" => Ok(None),
            name => self.lookup(name).map(Some),
        };
        let inputs = node.input.iter().map(optional).collect::<Result<Vec<Option<Val>>>>()?;
        let domain = domain(&node.domain);
        let key = (domain.clone(), node.op_type.clone(), node.overload.clone());
        self.b.set_source(if node.name.is_empty() { &node.op_type } else { &node.name });
        let outputs = if let Some(function) = self.functions.get(&key).copied() {
            self.function(function, node, inputs)?
        } else {
            let Some(operator) = ops::find(&domain, &node.op_type) else {
                return Err(unsupported(format!("operator {domain}::{}", node.op_type)));
            };
            let Some(opset) = self.opsets.get(&domain).copied() else {
                return Err(invalid(format!("the model does not import operator set {domain}")));
            };
            let call = Call::new(node, opset, inputs);
            let outputs = operator(self, &call)?;
            call.check_attributes()?;
            outputs
        };
        for (index, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let Some(value) = outputs.get(index) else {
                return Err(unsupported(format!("output {index} (`{name}`)")));
            };
            self.name(name, value);
            self.define(name, value.clone());
        }
        Ok(())
    }

    fn name(&mut self, name: &str, value: &Val) {
        if let Val::Tensor(Tensor { value: Some(value), .. }) = value
            && self.b.name(*value).is_empty()
        {
            self.b.set_name(*value, name);
        }
    }

    /// Imports a subgraph in its own frame and returns its outputs.
    pub fn subgraph(&mut self, graph: &GraphProto, inputs: Vec<Val>) -> Result<Vec<Val>> {
        if graph.input.len() != inputs.len() {
            let (want, have) = (graph.input.len(), inputs.len());
            return Err(invalid(format!("subgraph `{}`: {want} inputs, {have} given", graph.name)));
        }
        self.nested(Frame::default(), |cx| {
            cx.initialisers(graph)?;
            for (info, value) in graph.input.iter().zip(inputs) {
                cx.name(&info.name, &value);
                cx.define(&info.name, value);
            }
            cx.nodes(&graph.node)?;
            graph.output.iter().map(|o| cx.lookup(&o.name)).collect()
        })
    }

    /// Inlines a model-local function.
    fn function(
        &mut self,
        function: &FunctionProto,
        node: &NodeProto,
        inputs: Vec<Option<Val>>,
    ) -> Result<Vec<Val>> {
        let frame = Frame { opaque: true, ..Frame::default() };
        let mut opsets = self.opsets.clone();
        opsets.extend(function.opset_import.iter().map(|o| (domain(&o.domain), o.version)));
        let outer = std::mem::replace(&mut self.opsets, opsets);
        let body = ops::function::specialise(function, node);
        let result = body.and_then(|body| {
            self.nested(frame, |cx| {
                for (name, value) in function.input.iter().zip(inputs) {
                    if let Some(value) = value {
                        cx.define(name, value);
                    }
                }
                cx.nodes(&body)?;
                function.output.iter().map(|name| cx.lookup(name)).collect()
            })
        });
        self.opsets = outer;
        result.map_err(|e| e.at(format_args!("function `{}`", function.name)))
    }

    fn nested<T>(&mut self, frame: Frame, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(invalid("graphs and functions are nested too deeply"));
        }
        self.depth += 1;
        self.frames.push(frame);
        let result = run(self);
        self.frames.pop();
        self.depth -= 1;
        result
    }
}

/// The default domain has two spellings.
pub(crate) fn domain(name: &str) -> String {
    if name.is_empty() { "ai.onnx".into() } else { name.into() }
}

/// Whether operators compute on a type. Others (8-bit floats, sub-byte integers, complex
/// numbers) are refused.
pub(crate) fn computes(dtype: DType) -> bool {
    let floats = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::BOOL];
    let whole = (dtype.is_int() || dtype.is_uint()) && dtype.bits >= 8;
    dtype.is_scalar() && (whole || floats.contains(&dtype))
}

fn supported(dtype: DType) -> Result<DType> {
    if computes(dtype) { Ok(dtype) } else { Err(unsupported(format!("element type {dtype}"))) }
}
