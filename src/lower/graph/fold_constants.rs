//! Constant folding: operators over constants are evaluated at compile time.
//!
//! Growth is bounded: a result much larger than its operands (a constant spread over a big shape)
//! is folded only up to a size that weights have, and only so much of it in all. A result is
//! released as soon as its readers are folded: a chain of them holds two.

use std::collections::{HashMap, HashSet};

use reflex_graph::{Binding, Body, Const, Func, Literal, Module, Node, Value, eval_op};

use super::edit::{constants, each_func, release, renamed, type_of};
use crate::LowerError;

/// Largest result of smaller operands that is folded by default, in bytes.
pub const MAX_GROWN: usize = 64 << 20;
/// Most bytes that folding may add to a module.
const BUDGET: usize = 1 << 30;

/// Folds operators over constants, and branches whose condition is constant. A result that is larger
/// than its operands has at most `max_grown` bytes.
pub fn fold_constants(module: &mut Module, max_grown: usize) -> Result<(), LowerError> {
    let mut budget = BUDGET;
    each_func(module, |module, func| {
        let known = constants(&func.body);
        let mut uses = HashMap::new();
        func.body.uses(&mut |value| *uses.entry(value).or_insert(0) += 1);
        let renames = HashMap::new();
        let (made, budget) = (HashMap::new(), &mut budget);
        let mut folder = Folder { module, known, renames, uses, made, budget, max_grown };
        let mut body = std::mem::take(&mut func.body);
        folder.body(func, &mut body);
        let unread: HashSet<Value> =
            folder.made.into_iter().filter_map(|(value, kept)| (!kept).then_some(value)).collect();
        drop_bindings(&mut body, &unread);
        func.body = body;
        Ok(())
    })
}

struct Folder<'a> {
    module: &'a mut Module,
    known: HashMap<Value, Const>,
    renames: HashMap<Value, Value>,
    /// Number of reads of each value by operators that are not folded.
    uses: HashMap<Value, usize>,
    /// Results of folding, and whether anything reads them.
    made: HashMap<Value, bool>,
    budget: &'a mut usize,
    max_grown: usize,
}

impl Folder<'_> {
    fn body(&mut self, func: &mut Func, body: &mut Body) {
        for mut binding in std::mem::take(&mut body.bindings) {
            binding.node.operands_mut(&mut |v| *v = renamed(&self.renames, *v));
            if let Some(taken) = self.taken_branch(&mut binding) {
                let mut taken = taken;
                self.body(func, &mut taken);
                body.bindings.append(&mut taken.bindings);
                for (output, result) in binding.outputs.iter().zip(taken.results) {
                    let reads = self.uses.get(output).copied().unwrap_or(0);
                    *self.uses.entry(result).or_insert(0) += reads;
                    self.renames.insert(*output, result);
                }
                continue;
            }
            for nested in binding.node.bodies_mut() {
                self.body(func, nested);
            }
            match self.fold(func, &binding) {
                Some(literals) => {
                    for (value, literal) in binding.outputs.iter().zip(literals) {
                        func.values[*value].ty = type_of(&literal);
                        let id = self.module.add_const(literal);
                        self.known.insert(*value, id);
                        self.made.insert(*value, true);
                        body.bindings.push(Binding {
                            outputs: vec![*value],
                            node: Node::Const(id),
                            source: binding.source.clone(),
                        });
                    }
                    binding.node.operands(&mut |value| self.release_use(value));
                }
                None => body.bindings.push(binding),
            }
        }
        body.results.iter_mut().for_each(|v| *v = renamed(&self.renames, *v));
    }

    /// Notes that a reader of `value` was folded.
    fn release_use(&mut self, value: Value) {
        let Some(uses) = self.uses.get_mut(&value) else { return };
        *uses = uses.saturating_sub(1);
        if *uses > 0 {
            return;
        }
        let constant = self.known[&value];
        match self.made.get_mut(&value) {
            Some(kept) => {
                *kept = false;
                release(self.module, constant);
            }
            // Others may name it.
            None => self.module.consts[constant].release(),
        }
    }

    /// The side that a constant condition takes.
    fn taken_branch(&mut self, binding: &mut Binding) -> Option<Body> {
        let Node::If { cond, then, otherwise } = &mut binding.node else { return None };
        let literal = &self.module.consts[*self.known.get(cond)?];
        let taken = if literal.bytes().first() == Some(&0) { otherwise } else { then };
        Some(std::mem::take(taken))
    }

    fn fold(&mut self, func: &Func, binding: &Binding) -> Option<Vec<Literal>> {
        let Node::Op { op, args } = &binding.node else { return None };
        let operands: Vec<&Literal> = args
            .iter()
            .map(|v| self.known.get(v).map(|c| &self.module.consts[*c]))
            .collect::<Option<_>>()?;
        let growth = (*self.budget).min(self.max_grown);
        let operand_bytes: usize = operands.iter().map(|l| l.size()).sum();
        // Refused before it is computed.
        if declared_bytes(func, binding)? > operand_bytes.saturating_add(growth) {
            return None;
        }
        // An operator that cannot be evaluated (a division by zero, say) is left for the run to
        // report.
        let results = eval_op(op, &operands, &|_| None).ok()?;
        let bytes: usize = results.iter().map(|l| l.size()).sum();
        *self.budget -= bytes.saturating_sub(operand_bytes).min(*self.budget);
        Some(results)
    }
}

/// Drops the bindings of these values.
fn drop_bindings(body: &mut Body, values: &HashSet<Value>) {
    body.bindings.retain_mut(|binding| {
        binding.node.bodies_mut().into_iter().for_each(|nested| drop_bindings(nested, values));
        !binding.outputs.iter().any(|value| values.contains(value))
    });
}

/// Bytes of all outputs; `None` when a dimension is symbolic.
fn declared_bytes(func: &Func, binding: &Binding) -> Option<usize> {
    binding.outputs.iter().try_fold(0usize, |sum, value| {
        let ty = func.values[*value].ty.as_tensor()?;
        let count = ty
            .const_shape()?
            .iter()
            .try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))?;
        sum.checked_add(ty.dtype.bytes_for(count)?)
    })
}

#[cfg(test)]
mod tests {
    use reflex_graph::builder::FuncBuilder;
    use reflex_graph::{Binary, FuncData, Op, TensorType};
    use reflex_tir::{DType, Expr};

    use super::*;

    #[test]
    fn chains_of_constants_become_one() {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let one = b.constant(Literal::from_f32(vec![], &[1.0]));
        let row = b.emit1(Op::Broadcast(vec![Expr::i64(3)]), &[one]).unwrap();
        let two = b.emit1(Op::Binary(Binary::Add), &[row, one]).unwrap();
        let x = b.param("x", TensorType::new(DType::F32, vec![Expr::i64(3)]));
        let y = b.emit1(Op::Binary(Binary::Mul), &[x, two]).unwrap();
        let id = b.finish(vec![y], vec!["y".into()]);
        fold_constants(&mut module, MAX_GROWN).unwrap();
        let FuncData::Graph(f) = &module.funcs[id] else { unreachable!() };
        let ops = f.body.bindings.iter().filter(|b| matches!(b.node, Node::Op { .. })).count();
        assert_eq!(ops, 1);
        let Node::Op { args, .. } = &f.body.bindings.last().unwrap().node else { unreachable!() };
        let c = constants(&f.body)[&args[1]];
        assert_eq!(module.consts[c], Literal::from_f32(vec![3], &[2.0; 3]));
        // The row, which was only read by what is folded, is gone.
        assert_eq!(f.body.bindings.len(), 3);
        let sizes: Vec<usize> = module.consts.values().map(|l| l.size()).collect();
        assert_eq!(sizes, [4, 0, 12]);
    }

    #[test]
    fn a_huge_broadcast_is_not_stored() {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let one = b.constant(Literal::from_f32(vec![], &[1.0]));
        let big = b.emit1(Op::Broadcast(vec![Expr::i64(1 << 40)]), &[one]).unwrap();
        b.finish(vec![big], vec!["y".into()]);
        fold_constants(&mut module, MAX_GROWN).unwrap();
        assert_eq!(module.consts.len(), 1);
    }
}
