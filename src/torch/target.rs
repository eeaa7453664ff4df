//! The name of what a node calls: `torch.ops.aten.add.Tensor`, `_operator.mul`, `torch.sym_max`.

/// A target in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'t> {
    /// Namespace: `aten`, another one of operators, or the Python module.
    pub namespace: &'t str,
    /// Name.
    pub name: &'t str,
}

impl<'t> Target<'t> {
    /// The parts of a target.
    pub(crate) fn of(target: &'t str) -> Target<'t> {
        let operator = target.strip_prefix("torch.ops.").and_then(|rest| {
            let (namespace, rest) = rest.split_once('.')?;
            let name = rest.rsplit_once('.').map_or(rest, |(name, _)| name);
            Some(Target { namespace, name })
        });
        operator.unwrap_or_else(|| {
            let (namespace, name) = target.rsplit_once('.').unwrap_or(("", target));
            Target { namespace, name }
        })
    }

    /// The same operator without the mark that it writes into its first argument.
    pub(crate) fn functional(self) -> Target<'t> {
        match self.name.strip_suffix('_').filter(|_| self.in_place()) {
            Some(name) => Target { name, ..self },
            None => self,
        }
    }

    /// Returns true if the operator writes into its first argument.
    pub(crate) fn in_place(self) -> bool {
        self.namespace == "aten" && self.name.ends_with('_') && !self.name.ends_with("__")
    }
}

/// The target as messages show it.
pub(crate) fn short(target: &str) -> &str {
    target.strip_prefix("torch.ops.").unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_parts() {
        let of = |text| (Target::of(text).namespace, Target::of(text).name);
        assert_eq!(of("torch.ops.aten.add.Tensor"), ("aten", "add"));
        assert_eq!(of("torch.ops.higher_order.cond"), ("higher_order", "cond"));
        assert_eq!(of("_operator.mul"), ("_operator", "mul"));
        assert_eq!(of("torch.sym_max"), ("torch", "sym_max"));
        assert_eq!(of("nothing"), ("", "nothing"));
        assert_eq!(Target::of("torch.ops.aten.relu_.default").functional().name, "relu");
        assert!(!Target::of("torch.ops.aten.__and__.Tensor").in_place());
    }
}
