//! Local rewrites, each exact or within the rounding of its operands: identities, chains of
//! views and transposes, equal subexpressions, and constants per channel folded into weights.
//!
//! Rewrites never make work and never move it into a loop. Rules that look at one binding are in
//! [`rules`], those that look at a contraction and its only consumer in [`absorb`], divisions by
//! constants in [`reciprocal`].

mod absorb;
mod reciprocal;
mod rules;

use std::collections::HashMap;

use reflex_graph::{Binding, Body, Const, Func, Module, Node, Op, Value};

use self::rules::{Definitions, Rewrite};
use super::dead_code::eliminate_dead_code;
use super::edit::{constants, each_func, renamed};
use super::fold_constants::fold_constants;
use crate::LowerError;

/// Most rounds; each one only removes or simplifies, so it ends sooner in practice.
const MAX_ROUNDS: usize = 8;

/// Simplifies every function until nothing changes. Constants that become so are folded to at most
/// `max_grown` bytes.
pub fn simplify(module: &mut Module, max_grown: usize) -> Result<(), LowerError> {
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        each_func(module, |module, func| {
            let mut body = std::mem::take(&mut func.body);
            let consts = constants(&body);
            let mut pass = Simplifier { module, consts, renames: HashMap::new(), changed: false };
            pass.body(func, &mut body, &HashMap::new());
            changed |= pass.changed;
            changed |= reciprocal::multiply_by_reciprocals(module, func, &mut body);
            changed |= absorb::absorb(module, func, &mut body)?;
            func.body = body;
            Ok(())
        })?;
        if !changed {
            break;
        }
        fold_constants(module, max_grown)?;
        eliminate_dead_code(module)?;
    }
    Ok(())
}

struct Simplifier<'a> {
    module: &'a mut Module,
    consts: HashMap<Value, Const>,
    renames: HashMap<Value, Value>,
    changed: bool,
}

impl Simplifier<'_> {
    /// `outer` holds the definitions that are in scope around the body.
    fn body(&mut self, func: &mut Func, body: &mut Body, outer: &HashMap<Value, (Op, Vec<Value>)>) {
        let mut defs = outer.clone();
        let mut seen: HashMap<String, Value> = HashMap::new();
        for mut binding in std::mem::take(&mut body.bindings) {
            binding.node.operands_mut(&mut |v| *v = renamed(&self.renames, *v));
            for nested in binding.node.bodies_mut() {
                self.body(func, nested, &defs);
            }
            if self.rewrite(func, &defs, &mut binding) {
                continue;
            }
            if let (Node::Op { op, args }, [output]) = (&binding.node, &binding.outputs[..]) {
                let key = format!("{op:?} {args:?}");
                if let Some(first) = seen.get(&key) {
                    self.renames.insert(*output, *first);
                    self.changed = true;
                    continue;
                }
                seen.insert(key, *output);
                defs.insert(*output, (op.clone(), args.clone()));
            }
            body.bindings.push(binding);
        }
        body.results.iter_mut().for_each(|v| *v = renamed(&self.renames, *v));
    }

    /// Applies rules; true when the binding's value is another one.
    fn rewrite(
        &mut self,
        func: &Func,
        defs: &HashMap<Value, (Op, Vec<Value>)>,
        binding: &mut Binding,
    ) -> bool {
        // Every rule makes the node simpler, so the chain of rewrites is short.
        while let (Node::Op { op, args }, [output]) = (&binding.node, &binding.outputs[..]) {
            let (module, consts) = (&*self.module, &self.consts);
            let constant = |v: Value| consts.get(&v).map(|c| &module.consts[*c]);
            let view = Definitions { func, defs, constant: &constant };
            match rules::rewrite(&view, op, args, *output) {
                None => return false,
                Some(Rewrite::Same(value)) => {
                    self.renames.insert(*output, value);
                    self.changed = true;
                    return true;
                }
                Some(Rewrite::Op(op, args)) => {
                    binding.node = Node::Op { op, args };
                    self.changed = true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use reflex_graph::builder::FuncBuilder;
    use reflex_graph::{Binary, FuncData, Literal, TensorType};
    use reflex_tir::{DType, Expr};

    use super::*;
    use crate::graph::MAX_GROWN;

    /// The operators left of what `build` makes of an `[n, 1, 4]` parameter.
    fn left(build: impl FnOnce(&mut FuncBuilder<'_>, Value) -> Value) -> Vec<String> {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let n = Expr::var(b.sym("n"));
        let x = b.param("x", TensorType::new(DType::F32, vec![n, 1.into(), 4.into()]));
        let y = build(&mut b, x);
        let id = b.finish(vec![y], vec!["y".into()]);
        simplify(&mut module, MAX_GROWN).unwrap();
        let FuncData::Graph(f) = &module.funcs[id] else { unreachable!() };
        let ops = f.body.bindings.iter().filter_map(|b| match &b.node {
            Node::Op { op, .. } => Some(format!("{op:?}").split(['(', ' ']).next()?.to_string()),
            _ => None,
        });
        ops.collect()
    }

    fn transposed(b: &mut FuncBuilder<'_>, x: Value, perm: [usize; 3]) -> Value {
        b.emit1(Op::Transpose(perm.to_vec()), &[x]).unwrap()
    }

    #[test]
    fn transposes_cancel_compose_and_become_views() {
        let none: [&str; 0] = [];
        let twice = |b: &mut FuncBuilder<'_>, x| {
            let y = transposed(b, x, [2, 0, 1]);
            transposed(b, y, [1, 2, 0])
        };
        assert_eq!(left(twice), none);
        assert_eq!(left(|b, x| transposed(b, x, [1, 0, 2])), ["Reshape"]);
        assert_eq!(left(|b, x| transposed(b, x, [2, 1, 0])), ["Transpose"]);
    }

    #[test]
    fn exact_identities_go_and_inexact_ones_stay() {
        let with = |f, value| {
            move |b: &mut FuncBuilder<'_>, x| {
                let c = b.constant(Literal::from_f32(vec![], &[value]));
                b.emit1(Op::Binary(f), &[x, c]).unwrap()
            }
        };
        let none: [&str; 0] = [];
        assert_eq!(left(with(Binary::Mul, 1.0)), none);
        assert_eq!(left(with(Binary::Sub, 0.0)), none);
        // -0 + 0 is 0.
        assert_eq!(left(with(Binary::Add, 0.0)), ["Binary"]);
        assert_eq!(left(with(Binary::Sub, -0.0)), ["Binary"]);
    }

    #[test]
    fn equal_work_is_done_once() {
        let ops = left(|b, x| {
            let a = b.emit1(Op::Cast(DType::F64), &[x]).unwrap();
            let c = b.emit1(Op::Cast(DType::F64), &[x]).unwrap();
            b.emit1(Op::Binary(Binary::Mul), &[a, c]).unwrap()
        });
        assert_eq!(ops, ["Cast", "Binary"]);
    }
}
