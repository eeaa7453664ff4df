//! Packed functions that programs and kernels of TVM call by name and that TVM's own libraries and
//! Python package register: sorting, and what has no kernel (printing, assertions, `unique` and
//! `nonzero`). They are found like registered ones, and registering another under the name of one of
//! them replaces it.

mod host_tensor;
mod relax_run;
mod sort;

use std::sync::LazyLock;

use crate::error::Error;
use crate::function::Function;
use crate::value::{Any, AnyView};

type Body = fn(&[AnyView<'_>]) -> Result<Any, Error>;

const FUNCTIONS: [(&str, Body); 9] = [
    ("relax.run.assert_op", relax_run::assert_op),
    ("relax.run.nonzero", relax_run::nonzero),
    ("relax.run.print", relax_run::print),
    ("relax.run.shape_to_tensor", relax_run::shape_to_tensor),
    ("relax.run.unique", relax_run::unique),
    ("tvm.contrib.sort.argsort", sort::argsort),
    ("tvm.contrib.sort.argsort_nms", sort::argsort_nms),
    ("tvm.contrib.sort.sort", sort::sort),
    ("tvm.contrib.sort.topk", sort::topk),
];

static MADE: LazyLock<Vec<(&str, Function)>> =
    LazyLock::new(|| FUNCTIONS.map(|(name, body)| (name, Function::new(body))).into());

/// The function called `name`.
pub fn get(name: &str) -> Option<Function> {
    // Most names are others; nothing is made for them.
    names().find(|known| *known == name)?;
    MADE.iter().find(|(known, _)| *known == name).map(|(_, function)| function.clone())
}

/// Whether TVM's Python package registers `name`: in a process with TVM, its function is used.
pub fn is_of_python(name: &str) -> bool {
    name.starts_with("relax.run.")
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}
