//! Imports a model: builds the module's function `main` from its graph.
//!
//! Inputs become parameters with symbolic dimensions, initialisers become constants, nodes go
//! through the operator table. Names of inputs, outputs and intermediate values are kept.
//! Operator semantics live in [`crate::ops`].

use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Module, Value};

use crate::context::ImportContext;
use crate::error::{ImportError, Result, unsupported};
use crate::model::Model;
use crate::ops;
use crate::value::OnnxValue;

/// Builds the module of a model.
pub(crate) fn import_model(model: &Model) -> Result<Module> {
    let missing = ops::unsupported(model);
    if !missing.is_empty() {
        let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Err(unsupported(format!("unsupported operators: {}", list.join("; "))));
    }
    let graph = model.graph()?;
    if !graph.sparse_initializer.is_empty() {
        return Err(unsupported("sparse initialisers"));
    }
    let mut module = Module::default();
    let b = FuncBuilder::new(&mut module, "main");
    let mut cx = ImportContext::new(b, model, ops::find)?;
    cx.initialisers(graph)?;
    cx.parameters(graph)?;
    cx.nodes(&graph.node)?;
    let mut results = vec![];
    for output in &graph.output {
        let location = |e: ImportError| e.at(format_args!("output `{}`", output.name));
        let value = cx.lookup(&output.name).and_then(|value| result(&mut cx, value));
        results.push(value.map_err(location)?);
    }
    let names = graph.output.iter().map(|o| o.name.clone()).collect();
    let ImportContext { b, .. } = cx;
    b.finish(results, names);
    model.files.check()?;
    Ok(module)
}

/// The value of the graph that an output is.
fn result(cx: &mut ImportContext, value: OnnxValue) -> Result<Value> {
    match value {
        OnnxValue::Tensor(tensor) => {
            let tensor = cx.narrow_output(&tensor)?;
            cx.value(&tensor)
        }
        OnnxValue::Strings(bytes) => cx.value(&bytes),
        other => cx.object(other).map(|(value, _)| value),
    }
}
