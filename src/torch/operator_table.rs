//! The importer's table of operators: that of `docs/torch.md`.

use std::collections::BTreeSet;
use std::fmt;

use crate::ops;

/// The operators of core ATen, as `tests/pytorch/core_aten.py` writes them.
const CORE: &str = include_str!("core_aten.txt");

/// An operator of PyTorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchOperator {
    /// Its namespace, such as `aten`.
    pub namespace: &'static str,
    /// Its name, without overload.
    pub name: &'static str,
    /// True if it is of core ATen, into which `run_decompositions` takes programs apart.
    pub core: bool,
    /// True if it is imported. One that is not is refused by name.
    pub imported: bool,
}

impl fmt::Display for TorchOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = if self.imported { "imported" } else { "not imported" };
        write!(f, "{}.{}: {status}", self.namespace, self.name)
    }
}

/// Every operator that is of core ATen or imported, by namespace and name.
///
/// ```
/// let table = reflex_torch::torch_operators();
/// let relu = table.iter().find(|operator| operator.name == "relu").unwrap();
/// assert_eq!(relu.to_string(), "aten.relu: imported");
/// assert!(relu.core);
/// ```
pub fn torch_operators() -> Vec<TorchOperator> {
    let known: BTreeSet<(&str, &str)> = ops::names().collect();
    let core: BTreeSet<(&str, &str)> = CORE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('.'))
        .collect();
    let operator = |&(namespace, name): &(&'static str, &'static str)| TorchOperator {
        namespace,
        name,
        core: core.contains(&(namespace, name)),
        imported: known.contains(&(namespace, name)),
    };
    known.union(&core).map(operator).collect()
}
