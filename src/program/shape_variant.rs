//! Variants of functions for shapes that are known ahead of time: one program holds the general
//! function and its variants, and each call goes to the one that fits.
//!
//! A variant is the function with its symbolic dimensions bound, compiled in the same module: it
//! shares the constants, gives the same bits, and is saved with the program.
//!
//! Decision: docs/decisions/0046-shape-variants.md

use std::collections::BTreeMap;
use std::fmt;

#[cfg(feature = "compiler")]
use reflex_graph::{Func, FuncData, Module};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::AnyView;
use serde::{Deserialize, Serialize};

#[cfg(feature = "compiler")]
use crate::error::{Error, Result};

/// Shapes of inputs by name, to compile a variant for.
#[cfg(feature = "compiler")]
pub(crate) type InputShapes = BTreeMap<String, Vec<i64>>;

/// A variant by names, as an artifact describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedVariant {
    /// The general function.
    pub(crate) function: String,
    /// The function that was compiled for the shapes.
    pub(crate) variant: String,
    /// The shapes of its inputs, in call order; `None` for dimensions that are left open.
    pub(crate) shapes: Vec<Vec<Option<i64>>>,
}

/// A variant by function indices, to dispatch to.
pub(crate) struct ShapeVariant {
    func: u32,
    pub(crate) variant: u32,
    shapes: Vec<Vec<Option<i64>>>,
}

impl NamedVariant {
    /// Returns the variant in a program whose functions `index` finds; `None` if it lacks one.
    pub(crate) fn link(&self, index: impl Fn(&str) -> Option<u32>) -> Option<ShapeVariant> {
        let (func, variant) = (index(&self.function)?, index(&self.variant)?);
        Some(ShapeVariant { func, variant, shapes: self.shapes.clone() })
    }
}

impl fmt::Display for NamedVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dim = |dim: &Option<i64>| dim.map_or("?".to_owned(), |size| size.to_string());
        let shape = |dims: &Vec<Option<i64>>| {
            let dims: Vec<String> = dims.iter().map(dim).collect();
            format!("[{}]", dims.join(", "))
        };
        let shapes: Vec<String> = self.shapes.iter().map(shape).collect();
        write!(f, "{}({})", self.function, shapes.join(", "))
    }
}

impl ShapeVariant {
    /// Returns true if a call of `func` on `args` has these shapes.
    pub(crate) fn matches(&self, func: u32, args: &[AnyView<'_>]) -> bool {
        let fits = |shape: &[Option<i64>], tensor: &Tensor| {
            let mut dims = shape.iter().zip(tensor.shape());
            shape.len() == tensor.shape().len() && dims.all(|(dim, n)| dim.is_none_or(|d| d == *n))
        };
        self.func == func
            && self.shapes.len() == args.len()
            && self.shapes.iter().zip(args).all(|(shape, arg)| {
                arg.downcast_ref::<Tensor>().is_some_and(|tensor| fits(shape, tensor))
            })
    }
}

/// Adds a variant of the functions that have the named inputs to the module, for each of `wanted`.
/// An error if there is no such function, or if a shape does not fit.
#[cfg(feature = "compiler")]
pub(crate) fn add(module: &mut Module, wanted: &[InputShapes]) -> Result<Vec<NamedVariant>> {
    let mut variants: Vec<NamedVariant> = vec![];
    for shapes in wanted {
        let has_inputs = |func: &Func| shapes.keys().all(|name| param(func, name).is_some());
        let general: Vec<Func> = graphs(module)
            .filter(|func| !variants.iter().any(|v| v.variant == func.name) && has_inputs(func))
            .cloned()
            .collect();
        if general.is_empty() {
            let asked: Vec<&str> = shapes.keys().map(String::as_str).collect();
            let text = format!("no function has the inputs {}", asked.join(", "));
            return Err(Error::input(text));
        }
        for func in general {
            let (func, named) = variant(func, shapes, variants.len())?;
            if variants.iter().any(|v| v.function == named.function && v.shapes == named.shapes) {
                continue;
            }
            module.funcs.push(FuncData::Graph(func));
            variants.push(named);
        }
    }
    Ok(variants)
}

#[cfg(feature = "compiler")]
fn graphs(module: &Module) -> impl Iterator<Item = &Func> {
    module.funcs.values().filter_map(|func| match func {
        FuncData::Graph(func) => Some(func),
        FuncData::Prim(_) => None,
    })
}

/// The index of a parameter.
#[cfg(feature = "compiler")]
fn param(func: &Func, name: &str) -> Option<usize> {
    func.params.iter().position(|value| func.values[*value].name == name)
}

/// Binds the dimensions of `func` to `shapes`.
#[cfg(feature = "compiler")]
fn variant(mut func: Func, shapes: &InputShapes, number: usize) -> Result<(Func, NamedVariant)> {
    let mut values = std::collections::HashMap::new();
    for (name, shape) in shapes {
        let at = param(&func, name).ok_or_else(|| Error::input(format!("no input {name}")))?;
        let ty = func.values[func.params[at]].ty.as_tensor();
        let wrong = |why: &str| {
            let dims: Vec<String> = shape.iter().map(i64::to_string).collect();
            Error::input(format!("shape {name}={}: {why}", dims.join("x")))
        };
        let ty = ty.ok_or_else(|| wrong("the input is not a tensor"))?;
        if ty.shape.len() != shape.len() {
            return Err(wrong(&format!("the input has {} dimensions", ty.shape.len())));
        }
        for (dim, size) in ty.shape.iter().zip(shape) {
            let known = match dim.as_var() {
                Some(var) => *values.entry(var).or_insert(*size),
                None => dim.as_int().unwrap_or(*size),
            };
            if known != *size {
                return Err(wrong(&format!("a dimension is {known}, not {size}")));
            }
        }
    }
    func.bind_symbolic_vars(&values);
    let function = func.name.clone();
    func.name = format!("{function}__shape{number}");
    let shapes = func.params.iter().map(|value| {
        let shape = func.values[*value].ty.as_tensor().map(|ty| &ty.shape);
        shape.into_iter().flatten().map(|dim| dim.as_int()).collect()
    });
    let named = NamedVariant { shapes: shapes.collect(), variant: func.name.clone(), function };
    Ok((func, named))
}
