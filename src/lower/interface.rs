//! The interface of a module: its functions with the types of what they take and give, which a pass from
//! outside keeps.

use std::collections::BTreeMap;

use reflex_graph::{Func, FuncData, Module, Type, Value};
use reflex_tir::{DType, Expr, Var};

/// A dimension as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Known(i64),
    /// A symbol, by the order in which the parameters name them.
    Symbol(usize),
    /// An expression over symbols.
    Computed,
}

/// A type as callers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Tensor(DType, Vec<Extent>),
    Shape(Vec<Extent>),
    Tuple(Vec<Shown>),
    /// Another type, by its text.
    Other(String),
}

/// The types of a function as callers see them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sides {
    params: Vec<Shown>,
    results: Vec<Shown>,
}

/// The functions of a module that are no kernels, by name.
pub struct Interface(BTreeMap<String, Sides>);

impl Interface {
    /// The interface of a module.
    pub fn of(module: &Module) -> Interface {
        let graph = module.funcs.values().filter_map(|func| match func {
            FuncData::Graph(func) => Some((func.name.clone(), sides(func))),
            FuncData::Prim(_) => None,
        });
        Interface(graph.collect())
    }

    /// Checks that `other` has the same functions, and perhaps more.
    pub fn check(&self, other: &Interface) -> Result<(), String> {
        for (name, sides) in &self.0 {
            match other.0.get(name) {
                None => return Err(format!("the function {name:?} is gone")),
                Some(found) if found.params != sides.params => {
                    return Err(format!("the parameters of {name:?} have changed"));
                }
                Some(found) if found.results != sides.results => {
                    return Err(format!("the results of {name:?} have changed"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn sides(func: &Func) -> Sides {
    let mut symbols: Vec<Var> = Vec::new();
    let mut named = |dim: &Expr| match (dim.as_int(), dim.as_var()) {
        (Some(size), _) => Extent::Known(size),
        (_, Some(var)) => {
            let known = symbols.iter().position(|symbol| *symbol == var);
            Extent::Symbol(known.unwrap_or_else(|| {
                symbols.push(var);
                symbols.len() - 1
            }))
        }
        _ => Extent::Computed,
    };
    // Two ways of writing the size of a result are no change of it.
    let mut sized = |dim: &Expr| dim.as_int().map_or(Extent::Computed, Extent::Known);
    let types = |values: &[Value], extent: &mut dyn FnMut(&Expr) -> Extent| -> Vec<Shown> {
        values.iter().map(|value| shown(&func.values[*value].ty, extent)).collect()
    };
    let params = types(&func.params, &mut named);
    Sides { params, results: types(&func.body.results, &mut sized) }
}

fn shown(ty: &Type, extent: &mut dyn FnMut(&Expr) -> Extent) -> Shown {
    match ty {
        Type::Tensor(ty) => Shown::Tensor(ty.dtype, ty.shape.iter().map(extent).collect()),
        Type::Shape(dims) => Shown::Shape(dims.iter().map(extent).collect()),
        Type::Tuple(fields) => Shown::Tuple(fields.iter().map(|ty| shown(ty, extent)).collect()),
        other => Shown::Other(format!("{other:?}")),
    }
}
