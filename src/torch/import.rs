//! Imports a program: builds the module's function `main` from its graph.
//!
//! Inputs of users become parameters with symbolic extents; parameters, buffers and constants become constants; nodes go
//! through the table of operators. Names of inputs, outputs and intermediate values are kept.

use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Literal, Module, TensorType, Value};
use reflex_tir::DType;

use crate::archive::Archive;
use crate::context::ImportContext;
use crate::error::{ImportError, Result, invalid, malformed, unsupported};
use crate::ops;
use crate::program::Program;
use crate::schema::{
    Argument, ConstantValue, Graph, InputSpec, OutputSpec, SymIntArgument, TensorArgument,
    argument_name,
};
use crate::value::{Number, TorchValue};
use crate::weights::Weights;

/// Builds the module of an archive.
pub(crate) fn import_archive(archive: &mut Archive) -> Result<Module> {
    let program = Program::open(archive)?;
    let missing = program.unsupported();
    if !missing.is_empty() {
        let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Err(unsupported(format!("unsupported operators: {}", list.join("; "))));
    }
    let weights = Weights::open(archive, &program.name)?;
    import_program(&program, &weights)
}

/// Builds the module of a program.
pub(crate) fn import_program(program: &Program, weights: &Weights) -> Result<Module> {
    let exported = &program.exported;
    let module_graph = &exported.graph_module;
    let mut module = Module::default();
    let mut cx = ImportContext::new(FuncBuilder::new(&mut module, "main"), ops::find);
    let least = exported.range_constraints.iter();
    cx.set_ranges(least.filter_map(|(name, r)| Some((name.clone(), r.min_val?))).collect());
    let graph = &module_graph.graph;
    let mut kept = vec![];
    for (index, spec) in module_graph.signature.input_specs.iter().enumerate() {
        let name = spec_name(spec).unwrap_or_default();
        let at = |e: ImportError| e.at(format_args!("input {index} `{name}`"));
        let what = input(&mut cx, graph, weights, spec).map_err(at)?;
        kept.extend(what.map(|what| (name.to_owned(), what)));
    }
    // Extents that are computed of others are checked by the function's own type.
    cx.nodes(graph, &kept)?;
    let mut results = vec![];
    let mut names: Vec<String> = vec![];
    for (index, spec) in module_graph.signature.output_specs.iter().enumerate() {
        let output = output(&mut cx, spec);
        let output = output.map_err(|e| e.at(format_args!("output {index}")))?;
        let Some((name, value)) = output else { continue };
        let taken = |name: &String| names.contains(name);
        let unique = if taken(&name) { format!("{name}_{index}") } else { name };
        names.push(unique);
        results.push(value);
    }
    let ImportContext { b, .. } = cx;
    b.finish(results, names);
    Ok(module)
}

/// The name of an input in the graph.
pub(crate) fn spec_name(spec: &InputSpec) -> Option<&str> {
    match spec {
        InputSpec::UserInput(user) => argument_name(&user.arg),
        InputSpec::Parameter { arg, .. }
        | InputSpec::Buffer { arg, .. }
        | InputSpec::TensorConstant { arg, .. } => Some(&arg.name),
        InputSpec::ConstantInput { name, .. } => Some(name),
        InputSpec::CustomObj { custom_obj_name } => Some(custom_obj_name),
        InputSpec::Token(_) => None,
    }
}

/// Makes an input known; returns words for it where it is a tensor that must not be written to.
fn input(
    cx: &mut ImportContext,
    graph: &Graph,
    weights: &Weights,
    spec: &InputSpec,
) -> Result<Option<String>> {
    let mut stored = |arg: &TensorArgument, literal: &Literal, what: String| {
        check_weight(cx, graph, &arg.name, literal)?;
        let value = cx.b.constant(literal.clone());
        cx.define(&arg.name, TorchValue::Tensor(value));
        Ok(Some(what))
    };
    match spec {
        InputSpec::Parameter { arg, parameter_name } => {
            let literal = weights.parameter(parameter_name)?;
            stored(arg, literal, format!("the parameter `{parameter_name}`"))
        }
        InputSpec::Buffer { arg, buffer_name } => {
            let literal = weights.parameter(buffer_name)?;
            stored(arg, literal, format!("the buffer `{buffer_name}`"))
        }
        InputSpec::TensorConstant { arg, tensor_constant_name } => {
            let literal = weights.constant(tensor_constant_name)?;
            stored(arg, literal, format!("the constant `{tensor_constant_name}`"))
        }
        InputSpec::UserInput(user) => user_input(cx, graph, &user.arg),
        InputSpec::ConstantInput { name, value } => {
            cx.define(name, constant(value));
            Ok(None)
        }
        InputSpec::CustomObj { .. } => Err(unsupported("a custom object")),
        InputSpec::Token(_) => Err(unsupported("an effect token")),
    }
}

fn constant(value: &ConstantValue) -> TorchValue {
    match value {
        ConstantValue::AsNone(_) => TorchValue::None,
        ConstantValue::AsInt(value) => TorchValue::int(*value),
        ConstantValue::AsFloat(value) => TorchValue::Number(Number::Float(value.0)),
        ConstantValue::AsString(text) => TorchValue::Text(text.clone()),
        ConstantValue::AsBool(value) => TorchValue::Number(Number::Bool(*value)),
    }
}

/// A weight has the type that the graph declares.
fn check_weight(
    cx: &mut ImportContext,
    graph: &Graph,
    name: &str,
    literal: &Literal,
) -> Result<()> {
    let Some(meta) = graph.tensor_values.get(name) else { return Ok(()) };
    let wanted = cx.declared(meta)?;
    if wanted.dtype == literal.dtype() && wanted.const_shape().as_deref() == Some(literal.shape()) {
        return Ok(());
    }
    let (dtype, shape) = (literal.dtype(), literal.shape());
    Err(malformed(format!("the tensor is {dtype}{shape:?}, the graph says {wanted}")))
}

fn user_input(cx: &mut ImportContext, graph: &Graph, arg: &Argument) -> Result<Option<String>> {
    match arg {
        Argument::AsTensor(TensorArgument { name }) => {
            let meta = graph.tensor_values.get(name);
            let meta = meta.ok_or_else(|| malformed("its type is not declared"))?;
            let ty = cx.declared(meta)?;
            let value = cx.b.param(name.clone(), ty);
            cx.define(name, TorchValue::Tensor(value));
            Ok(Some(format!("the input `{name}`")))
        }
        Argument::AsSymInt(SymIntArgument::AsName(name)) => {
            // An integer of the caller's is a scalar whose element is a symbol.
            let ty = TensorType::new(DType::I64, vec![]);
            let value = cx.b.param(name.clone(), ty);
            let symbol = cx.b.match_shape(value, name);
            let symbol = symbol.into_iter().next().ok_or_else(|| invalid("no element"))?;
            cx.define(name, TorchValue::Number(Number::Int(symbol)));
            Ok(None)
        }
        // What is no tensor was fixed by the export.
        Argument::AsNone(_)
        | Argument::AsInt(_)
        | Argument::AsFloat(_)
        | Argument::AsBool(_)
        | Argument::AsString(_) => Ok(None),
        _ => Err(unsupported("an input of another kind than tensors and integers")),
    }
}

/// The name and the value of an output; none of `None`.
fn output(cx: &mut ImportContext, spec: &OutputSpec) -> Result<Option<(String, Value)>> {
    let state = |what: &str, name: &str| {
        let text = format!("it writes into the {what} `{name}`; a program's state is not kept");
        Err(unsupported(format!("{text}: export a module that returns it instead")))
    };
    let named = |cx: &mut ImportContext, name: &str| match cx.lookup(name)? {
        TorchValue::Tensor(value) => Ok(Some((name.to_owned(), value))),
        TorchValue::Number(number) => {
            let dtype = number.dtype();
            Ok(Some((name.to_owned(), cx.number(&number, dtype)?)))
        }
        TorchValue::None => Ok(None),
        _ => Err(unsupported(format!("`{name}`, which is neither a tensor nor a number"))),
    };
    match spec {
        OutputSpec::UserOutput { arg } => match argument_name(arg) {
            Some(name) => named(cx, name),
            None => match cx.argument(arg)? {
                TorchValue::None => Ok(None),
                TorchValue::Number(number) => {
                    let dtype = number.dtype();
                    Ok(Some(("constant".to_owned(), cx.number(&number, dtype)?)))
                }
                _ => Err(unsupported("an output that is neither a tensor nor a number")),
            },
        },
        OutputSpec::LossOutput { arg } => named(cx, &arg.name),
        OutputSpec::BufferMutation { buffer_name } => state("buffer", buffer_name),
        OutputSpec::ParameterMutation { parameter_name } => state("parameter", parameter_name),
        OutputSpec::UserInputMutation { user_input_name } => state("input", user_input_name),
        OutputSpec::GradientToParameter(_) | OutputSpec::GradientToUserInput(_) => {
            Err(unsupported("a gradient: export the module in inference"))
        }
        OutputSpec::Token(_) => Err(unsupported("an effect token")),
    }
}
