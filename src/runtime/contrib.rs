//! Packed functions that kernels of TVM call by name and that TVM's own libraries register:
//! sorting. They are found like registered ones, and registering another under the name of
//! one of them replaces it.

mod sort;

use std::sync::LazyLock;

use crate::error::Error;
use crate::function::Function;
use crate::value::{Any, AnyView};

type Body = fn(&[AnyView<'_>]) -> Result<Any, Error>;

const FUNCTIONS: [(&str, Body); 4] = [
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

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}
