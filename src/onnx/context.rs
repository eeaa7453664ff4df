//! The context of an import: named values by scope, symbols, and the walk over nodes.
//!
//! Operators work on an [`ImportContext`]: they read their node through [`crate::call`] and emit
//! graph operators through the helpers of [`crate::emit`]. The table of operators is above this
//! file, which reaches it through a function pointer only.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use reflex_graph::builder::FuncBuilder;
use reflex_graph::registered::OpDef;
use reflex_graph::{Literal, TensorType, Type, Value, unknown_dim};
use reflex_tir::{DType, Expr};

use crate::call::Call;
use crate::custom::{CustomImport, CustomNode, CustomOperators};
use crate::dim::Dim;
use crate::error::{Result, invalid, malformed, unsupported};
use crate::function;
use crate::model::Model;
use crate::narrow;
use crate::node_order::{node_name, node_order};
use crate::opset::canonical_domain;
use crate::proto::{
    ElementTypeProto, FunctionProto, GraphProto, MapTypeProto, NodeProto, TensorProto,
    TensorTypeProto, TypeProto, ValueInfoProto, data_type,
};
use crate::registered;
use crate::strings;
use crate::tensor::{Files, dtype, literal, supported};
use crate::value::{Content, Element, MapKind, ObjectKind, OnnxValue, Rank, Scalar, Tensor};

/// Imports one node; returns its outputs in order, fewer when the rest is not supported.
pub(crate) type Operator = fn(&mut ImportContext, &Call) -> Result<Vec<OnnxValue>>;

/// Functions that call each other deeper than this are taken for recursive.
const MAX_DEPTH: usize = 32;

/// The state of an import, which every operator works on.
pub(crate) struct ImportContext<'m> {
    /// The function being built.
    pub b: FuncBuilder<'m>,
    files: &'m Files,
    /// Finds the import function of an operator by domain and name.
    operators: fn(&str, &str) -> Option<Operator>,
    custom: &'m CustomOperators,
    functions: HashMap<(String, String, String), &'m FunctionProto>,
    opsets: HashMap<String, i64>,
    symbols: HashMap<String, Expr>,
    /// Free dimensions that are constants.
    dims: &'m BTreeMap<String, i64>,
    /// The names of free dimensions of inputs.
    free_dims: BTreeSet<String>,
    scopes: Vec<Scope>,
    depth: usize,
}

/// The named values of one graph. The search for a name ends at an opaque scope.
#[derive(Default)]
struct Scope {
    values: HashMap<String, OnnxValue>,
    /// True for a function, whose body does not see the caller's values.
    opaque: bool,
}

impl<'m> ImportContext<'m> {
    /// An import of `model` into the function that `b` builds.
    pub fn new(
        b: FuncBuilder<'m>,
        model: &'m Model,
        operators: fn(&str, &str) -> Option<Operator>,
    ) -> Result<ImportContext<'m>> {
        let functions = model.proto.functions.iter();
        let key =
            |f: &FunctionProto| (canonical_domain(&f.domain), f.name.clone(), f.overload.clone());
        Ok(ImportContext {
            b,
            files: &model.files,
            operators,
            custom: &model.custom,
            functions: functions.map(|f| (key(f), f)).collect(),
            opsets: model.opsets()?,
            symbols: HashMap::new(),
            dims: &model.dims,
            free_dims: BTreeSet::new(),
            scopes: vec![Scope::default()],
            depth: 0,
        })
    }

    pub fn initialisers(&mut self, graph: &GraphProto) -> Result<()> {
        for tensor in &graph.initializer {
            let value = self.constant(tensor)?;
            self.define(&tensor.name, value);
        }
        Ok(())
    }

    pub fn parameters(&mut self, graph: &GraphProto) -> Result<()> {
        for input in &graph.input {
            // Old models list initialisers as inputs too.
            if self.scopes[0].values.contains_key(&input.name) {
                continue;
            }
            let location = format!("input `{}`", input.name);
            if is_string(input) {
                let dims = self.declared_dims(input).map_err(|e| e.at(&location))?;
                let strings = self.string_input(&input.name, dims);
                self.define(&input.name, OnnxValue::Strings(strings));
                continue;
            }
            if let Some(kind) = object_kind(input).map_err(|e| e.at(&location))? {
                let value = self.b.param_of(input.name.clone(), Type::Object);
                self.define(&input.name, OnnxValue::Object(value, kind));
                continue;
            }
            let ty = self.declared(input).map_err(|e| e.at(&location))?;
            let dtype = ty.dtype;
            let ty = TensorType::new(narrow::boundary(dtype), ty.shape);
            let value = self.b.param(input.name.clone(), ty.clone());
            let tensor = self.narrow_input(&Tensor::value(value, ty), dtype)?;
            self.define(&input.name, OnnxValue::Tensor(tensor));
        }
        unknown_dim(self.dims, &self.free_dims).map_or(Ok(()), |why| Err(unsupported(why)))
    }

    /// A parameter of strings: their bytes, in an axis of unknown width behind the others.
    fn string_input(&mut self, name: &str, mut shape: Vec<Expr>) -> Tensor {
        shape.push(Expr::var(self.b.sym(format!("{name}_bytes"))));
        let ty = TensorType::new(DType::U8, shape);
        Tensor::value(self.b.param(name, ty.clone()), ty)
    }

    /// The tensor type that a model declares, with a symbol for each free dimension.
    fn declared(&mut self, info: &ValueInfoProto) -> Result<TensorType> {
        let dims = self.declared_dims(info)?;
        let code = tensor_type(info)?.elem_type;
        Ok(TensorType::new(supported(dtype(code)?)?, dims))
    }

    fn declared_dims(&mut self, info: &ValueInfoProto) -> Result<Vec<Expr>> {
        let tensor = tensor_type(info)?;
        let shape = tensor.shape.as_ref();
        let shape = shape.ok_or_else(|| unsupported("has no declared shape; a rank is needed"))?;
        let mut dims = vec![];
        for (axis, dim) in shape.dim.iter().enumerate() {
            let dim = Dim::of(dim);
            if let Dim::Fixed(size) = dim {
                dims.push(Expr::i64(size));
                continue;
            }
            let name = dim.named(&info.name, axis);
            dims.push(match self.dims.get(&name) {
                Some(size) => Expr::i64(*size),
                None if dim == Dim::Unknown => Expr::var(self.b.sym(&*name)),
                None => self.symbol(&name),
            });
            self.free_dims.insert(name);
        }
        Ok(dims)
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
        let literal = literal(tensor, self.files)?;
        supported(literal.dtype()).map_err(|e| e.at(format_args!("tensor `{}`", tensor.name)))?;
        Ok(literal)
    }

    /// A tensor of a model as a value.
    pub fn constant(&mut self, tensor: &TensorProto) -> Result<OnnxValue> {
        if tensor.data_type == data_type::STRING {
            let bytes = strings::literal(tensor);
            let bytes = bytes.map_err(|e| e.at(format_args!("tensor `{}`", tensor.name)))?;
            return Ok(OnnxValue::Strings(Tensor::literal(bytes)));
        }
        Ok(OnnxValue::Tensor(Tensor::constant(self.literal(tensor)?)))
    }

    /// Makes a name known in the innermost graph.
    pub fn define(&mut self, name: &str, value: OnnxValue) {
        let scope = self.scopes.last_mut().expect("the model's own scope");
        scope.values.insert(name.to_string(), value);
    }

    /// The value of a name, from the innermost graph outwards.
    pub fn lookup(&self, name: &str) -> Result<OnnxValue> {
        for scope in self.scopes.iter().rev() {
            if let Some(value) = scope.values.get(name) {
                return Ok(value.clone());
            }
            if scope.opaque {
                break;
            }
        }
        Err(invalid(format!("value `{name}` is not defined")))
    }

    /// Imports the nodes of a graph or of a function's body.
    pub fn nodes(&mut self, nodes: &[NodeProto]) -> Result<()> {
        for index in node_order(nodes, |name| self.lookup(name).is_ok())? {
            self.node(&nodes[index]).map_err(|e| e.at(node_name(nodes, index)))?;
        }
        Ok(())
    }

    fn node(&mut self, node: &NodeProto) -> Result<()> {
        let optional = |name: &String| match name.as_str() {
            "" => Ok(None),
            name => self.lookup(name).map(Some),
        };
        let inputs = node.input.iter().map(optional).collect::<Result<Vec<Option<OnnxValue>>>>()?;
        let domain = canonical_domain(&node.domain);
        let key = (domain.clone(), node.op_type.clone(), node.overload.clone());
        self.b.set_source(if node.name.is_empty() { &node.op_type } else { &node.name });
        let custom = self.custom.find(&domain, &node.op_type);
        let outputs = if let Some(import) = custom {
            self.custom_operator(import.as_ref(), node, &domain, inputs)?
        } else if let Some(function) = self.functions.get(&key).copied() {
            self.inline_function(function, node, inputs)?
        } else if let Some(def) = registered::find(&domain, &node.op_type) {
            self.registered_operator(&def, node, inputs)?
        } else {
            let Some(operator) = (self.operators)(&domain, &node.op_type) else {
                return Err(unsupported(format!("operator {domain}::{}", node.op_type)));
            };
            let call = Call::new(node, self.opset(&domain)?, inputs);
            if call.moves_strings(&domain) {
                self.move_strings(operator, call)?
            } else if call.rounds_several_times(&domain) {
                self.in_single_precision(operator, call)?
            } else {
                let mut outputs = operator(self, &call)?;
                call.check_attributes()?;
                self.move_integers(operator, &domain, call, &mut outputs)?;
                outputs
            }
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

    fn opset(&self, domain: &str) -> Result<i64> {
        let version = self.opsets.get(domain).copied();
        let missing = || invalid(format!("the model does not import operator set {domain}"));
        version.ok_or_else(missing)
    }

    fn custom_operator(
        &mut self,
        import: &CustomImport,
        node: &NodeProto,
        domain: &str,
        inputs: Vec<Option<OnnxValue>>,
    ) -> Result<Vec<OnnxValue>> {
        let inputs = self.operands(inputs)?;
        let custom = CustomNode::new(node, self.opset(domain)?, inputs);
        let outputs = import(&mut self.b, &custom).map_err(invalid)?;
        self.results(outputs)
    }

    fn registered_operator(
        &mut self,
        def: &OpDef,
        node: &NodeProto,
        inputs: Vec<Option<OnnxValue>>,
    ) -> Result<Vec<OnnxValue>> {
        let mut inputs = self.operands(inputs)?;
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let inputs: Option<Vec<Value>> = inputs.into_iter().collect();
        let inputs = inputs.ok_or_else(|| {
            invalid(format!("operator {}: an input before others is left out", def.name()))
        })?;
        let attrs = registered::attributes(node)?;
        let outputs = self.b.emit_registered(def, &inputs, attrs).map_err(invalid)?;
        self.results(outputs)
    }

    /// The inputs of an operator from outside, as values of the function.
    fn operands(&mut self, inputs: Vec<Option<OnnxValue>>) -> Result<Vec<Option<Value>>> {
        let value = |input: Option<OnnxValue>| match input {
            None => Ok(None),
            Some(OnnxValue::Tensor(tensor)) if narrow::carrier(tensor.dtype()).is_some() => {
                Err(unsupported(format!("an input of type {}", tensor.ty)))
            }
            Some(OnnxValue::Tensor(tensor)) => self.value(&tensor).map(Some),
            Some(_) => Err(unsupported("an input that is not a tensor")),
        };
        inputs.into_iter().map(value).collect()
    }

    /// The outputs of an operator from outside.
    fn results(&mut self, outputs: Vec<Value>) -> Result<Vec<OnnxValue>> {
        let tensor = |value| match self.b.ty(value).as_tensor() {
            Some(_) => Ok(OnnxValue::Tensor(self.tensor_of(value))),
            None => Err(unsupported("an output that is not a tensor")),
        };
        outputs.into_iter().map(tensor).collect()
    }

    fn name(&mut self, name: &str, value: &OnnxValue) {
        if let OnnxValue::Tensor(tensor) | OnnxValue::Strings(tensor) = value
            && let Some(value) = &tensor.value
            && self.b.name(*value).is_empty()
        {
            self.b.set_name(*value, name);
        }
    }

    /// Imports a subgraph in its own scope and returns its outputs.
    pub fn subgraph(
        &mut self,
        graph: &GraphProto,
        inputs: Vec<OnnxValue>,
    ) -> Result<Vec<OnnxValue>> {
        if graph.input.len() != inputs.len() {
            let (want, have) = (graph.input.len(), inputs.len());
            return Err(invalid(format!("subgraph `{}`: {want} inputs, {have} given", graph.name)));
        }
        self.nested(Scope::default(), |cx| {
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
    fn inline_function(
        &mut self,
        function: &FunctionProto,
        node: &NodeProto,
        inputs: Vec<Option<OnnxValue>>,
    ) -> Result<Vec<OnnxValue>> {
        let scope = Scope { opaque: true, ..Scope::default() };
        let mut opsets = self.opsets.clone();
        opsets
            .extend(function.opset_import.iter().map(|o| (canonical_domain(&o.domain), o.version)));
        let outer = std::mem::replace(&mut self.opsets, opsets);
        let body = function::specialise(function, node);
        let result = body.and_then(|body| {
            self.nested(scope, |cx| {
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

    fn nested<T>(&mut self, scope: Scope, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(invalid("graphs and functions are nested too deeply"));
        }
        self.depth += 1;
        self.scopes.push(scope);
        let result = run(self);
        self.scopes.pop();
        self.depth -= 1;
        result
    }
}

/// The tensor type that a model declares.
fn tensor_type(info: &ValueInfoProto) -> Result<&TensorTypeProto> {
    let ty = info.r#type.as_ref().ok_or_else(|| malformed("has no type"))?;
    let tensor = ty.tensor_type.as_ref();
    tensor.ok_or_else(|| {
        unsupported("only tensors, maps, and sequences and optionals of tensors can be inputs")
    })
}

/// The kind of an input that is declared as a map, a sequence or an optional.
fn object_kind(info: &ValueInfoProto) -> Result<Option<ObjectKind>> {
    let Some(ty) = &info.r#type else { return Ok(None) };
    if let Some(map) = &ty.map_type {
        return map_kind(map).map(|kind| Some(ObjectKind::Map(kind)));
    }
    if let Some(list) = &ty.sequence_type {
        return Ok(Some(ObjectKind::List(list_element(list)?)));
    }
    let Some(optional) = &ty.optional_type else { return Ok(None) };
    let inner = optional.elem_type.as_deref().ok_or_else(|| malformed("has no type"))?;
    let content = match &inner.sequence_type {
        Some(list) => Content::List(list_element(list)?),
        None => Content::Tensor(tensor_element(inner)?),
    };
    Ok(Some(ObjectKind::Optional(Some(content))))
}

fn map_kind(map: &MapTypeProto) -> Result<MapKind> {
    let scalar = |code: i32| match code {
        data_type::STRING => Ok(Scalar::Text),
        code => dtype(code).map(Scalar::Number),
    };
    let value = map.value_type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let value = value.ok_or_else(|| unsupported("maps to other than strings and numbers"))?;
    let keys = match scalar(map.key_type)? {
        keys @ (Scalar::Text | Scalar::Number(DType::I64)) => keys,
        Scalar::Number(other) => {
            return Err(unsupported(format!("maps with keys of type {other}")));
        }
    };
    Ok(MapKind { keys, values: scalar(value.elem_type)? })
}

fn list_element(list: &ElementTypeProto) -> Result<Element> {
    let inner = list.elem_type.as_deref().ok_or_else(|| malformed("has no type"))?;
    tensor_element(inner)
}

fn tensor_element(ty: &TypeProto) -> Result<Element> {
    let tensor = ty.tensor_type.as_ref();
    let tensor = tensor.ok_or_else(|| unsupported("sequences of other than tensors"))?;
    let ty = match tensor.elem_type {
        data_type::STRING => Scalar::Text,
        code => Scalar::Number(supported(dtype(code)?)?),
    };
    let rank = tensor.shape.as_ref().map_or(Rank::Any, |shape| Rank::Known(shape.dim.len()));
    Ok(Element { ty, rank })
}

fn is_string(info: &ValueInfoProto) -> bool {
    tensor_type(info).is_ok_and(|tensor| tensor.elem_type == data_type::STRING)
}
