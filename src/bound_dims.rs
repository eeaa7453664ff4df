//! Symbolic dimensions that are constants from the import on: ONNX Runtime's free dimension overrides, Relax's
//! `BindSymbolicVars`.
//!
//! A program for any shape leaves open what the dimensions decide, and takes longer to compile. One whose caller knows them
//! has no general form: other sizes are errors. The import of ONNX has these constants from its first node on, where shapes are
//! computed by nodes; in other modules they are bound afterwards.
//!
//! Decision: docs/decisions/0119-free-dimension-overrides.md

use std::collections::{BTreeMap, BTreeSet, HashMap};

use reflex_graph::{Func, FuncData, Module, unknown_dim};
use reflex_tir::Var;

use crate::error::{Error, Result};

/// The values of dimensions, by name.
pub(crate) type Dims = BTreeMap<String, i64>;

/// Refuses sizes that no tensor with elements has.
pub(crate) fn check(dims: &Dims) -> Result<()> {
    match dims.iter().find(|(_, size)| **size < 1) {
        None => Ok(()),
        Some((name, size)) => {
            Err(Error::input(format!("dimension {name} is at least 1, not {size}")))
        }
    }
}

/// Makes the dimensions constants in every function whose inputs have them.
pub(crate) fn bind(module: &mut Module, dims: &Dims) -> Result<()> {
    check(dims)?;
    let mut known = BTreeSet::new();
    for func in module.funcs.values_mut() {
        let FuncData::Graph(func) = func else { continue };
        let vars = symbolic_inputs(func);
        let value = |(var, name): (&Var, &String)| Some((*var, *dims.get(name)?));
        let values: HashMap<Var, i64> = vars.iter().filter_map(value).collect();
        if !values.is_empty() {
            func.bind_symbolic_vars(&values);
        }
        known.extend(vars.into_values());
    }
    unknown_dim(dims, &known).map_or(Ok(()), |why| Err(Error::input(why)))
}

/// The names of symbolic dimensions that inputs have by themselves.
fn symbolic_inputs(func: &Func) -> BTreeMap<Var, String> {
    let types = func.params.iter().filter_map(|param| func.values[*param].ty.as_tensor());
    let vars = types.flat_map(|ty| ty.shape.iter().filter_map(|dim| dim.as_var()));
    vars.map(|var| (var, func.syms[var].name.to_string())).collect()
}

/// Reads `batch=1,height=320`.
pub(crate) fn parse(text: &str) -> Result<Dims> {
    let dim = |part: &str| {
        let (name, size) = part.rsplit_once('=')?;
        Some((name.to_owned(), size.parse().ok()?))
    };
    let dims: Option<Dims> = text.split(',').map(dim).collect();
    dims.ok_or_else(|| {
        Error::input(format!("{text:?}: expected dimensions such as batch=1,height=320"))
    })
}
