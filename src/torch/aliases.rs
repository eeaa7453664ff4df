//! Tensors that share memory in PyTorch, for operators that write into a tensor.
//!
//! A graph value is never written to: the operator's result takes the name of what it wrote into. That is right where
//! nothing else sees the memory later. Where another view of it is used afterwards, or where the memory is an input's, a
//! parameter's or a buffer's, the program is refused by name.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Result, unsupported};
use crate::schema::{Graph, Node, TensorMeta, tensor_names};
use crate::target::Target;

/// Operators whose results may share the memory of their first argument.
const VIEWS: &[&str] = &[
    "_reshape_alias",
    "_unsafe_view",
    "adaptive_avg_pool2d",
    "alias",
    "alpha_dropout",
    "as_strided",
    "broadcast_to",
    "chunk",
    "contiguous",
    "detach",
    "diagonal",
    "dropout",
    "expand",
    "expand_as",
    "feature_dropout",
    "flatten",
    "lift_fresh_copy",
    "mT",
    "movedim",
    "narrow",
    "numpy_T",
    "permute",
    "positive",
    "real",
    "reshape",
    "reshape_as",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "transpose",
    "unbind",
    "unflatten",
    "unfold",
    "unsqueeze",
    "view",
    "view_as",
];

/// Operators that return their first argument itself where it has the wanted type.
const CONVERSIONS: &[&str] = &["to", "type_as"];

/// The memory of each tensor, and when names are used for the last time.
pub(crate) struct Aliases<'g> {
    types: &'g BTreeMap<String, TensorMeta>,
    /// The first name of the memory that a name sees.
    roots: HashMap<&'g str, &'g str>,
    /// Every name of a memory, by its first one.
    members: HashMap<&'g str, Vec<&'g str>>,
    last_use: HashMap<&'g str, usize>,
    kept: HashMap<&'g str, &'g str>,
}

impl<'g> Aliases<'g> {
    /// Of a graph; `kept` are the names that must not be written to, and what they are.
    pub(crate) fn of(graph: &'g Graph, kept: &'g [(String, String)]) -> Aliases<'g> {
        let mut last_use = HashMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            for name in node.inputs.iter().flat_map(|input| tensor_names(&input.arg)) {
                last_use.insert(name, index);
            }
        }
        for name in graph.outputs.iter().flat_map(tensor_names) {
            last_use.insert(name, usize::MAX);
        }
        let kept = kept.iter().map(|(name, what)| (name.as_str(), what.as_str())).collect();
        let types = &graph.tensor_values;
        Aliases { types, roots: HashMap::new(), members: HashMap::new(), last_use, kept }
    }

    /// Returns true if a node's result is not known to have another type than its argument.
    fn keeps_type(&self, argument: &str, node: &Node) -> bool {
        let result = node.outputs.iter().flat_map(tensor_names).next();
        let dtype = |name: &str| self.types.get(name).map(|meta| meta.dtype);
        result.is_none_or(|result| dtype(result) == dtype(argument))
    }

    fn root(&self, name: &'g str) -> &'g str {
        self.roots.get(name).copied().unwrap_or(name)
    }

    /// Takes a node into account, which is refused if it writes into memory that others see.
    pub(crate) fn check(&mut self, index: usize, node: &'g Node) -> Result<()> {
        let target = Target::of(&node.target);
        let base = node.inputs.first().and_then(|i| tensor_names(&i.arg).first().copied());
        let in_place = target.in_place() && !["detach_", "lift_fresh_"].contains(&target.name);
        let Some(base) = base else { return Ok(()) };
        if in_place {
            self.check_write(index, base)?;
        }
        let views = target.namespace == "aten"
            && (VIEWS.contains(&target.name)
                || CONVERSIONS.contains(&target.name) && self.keeps_type(base, node));
        if in_place || target.in_place() || views {
            let root = self.root(base);
            for name in node.outputs.iter().flat_map(tensor_names) {
                self.roots.insert(name, root);
                self.members.entry(root).or_insert_with(|| vec![root]).push(name);
            }
        }
        Ok(())
    }

    fn check_write(&self, index: usize, written: &'g str) -> Result<()> {
        let root = self.root(written);
        if let Some(what) = self.kept.get(root) {
            let text = format!("it writes into {what}; a program's state is not kept");
            return Err(unsupported(format!("{text}: export a module without it")));
        }
        let others = self.members.get(root).into_iter().flatten();
        let mut later = others.filter(|name| {
            **name != written && self.last_use.get(*name).is_some_and(|last| *last > index)
        });
        match later.next() {
            None => Ok(()),
            Some(other) => {
                let text = format!("it writes into memory that `{other}` sees");
                Err(unsupported(format!("{text}: export it by run_decompositions()")))
            }
        }
    }
}
