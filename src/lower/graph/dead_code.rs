//! Removes bindings that nothing needs.

use std::collections::HashSet;

use reflex_graph::{Body, Module, Value};

use super::edit::{each_func, release_constants};
use crate::LowerError;

/// Removes bindings whose outputs are never read and that have no effect, and the data of
/// constants that no binding names any more.
pub fn eliminate_dead_code(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |_, func| {
        let mut live = HashSet::new();
        sweep(&mut func.body, &mut live);
        Ok(())
    })?;
    release_constants(module);
    Ok(())
}

/// Last to first: what is read by something kept is live.
fn sweep(body: &mut Body, live: &mut HashSet<Value>) {
    live.extend(body.results.iter().copied());
    let mut kept = vec![];
    for mut binding in std::mem::take(&mut body.bindings).into_iter().rev() {
        let needed = binding.outputs.iter().any(|v| live.contains(v));
        if !needed && !binding.node.has_effect() {
            continue;
        }
        for nested in binding.node.bodies_mut() {
            sweep(nested, live);
        }
        binding.node.operands(&mut |v| {
            live.insert(v);
        });
        kept.push(binding);
    }
    kept.reverse();
    body.bindings = kept;
}

#[cfg(test)]
mod tests {
    use reflex_graph::builder::FuncBuilder;
    use reflex_graph::{FuncData, Op, TensorType, Unary};
    use reflex_tir::{DType, Expr};

    use super::*;

    #[test]
    fn unread_results_go_and_checks_stay() {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let n = Expr::var(b.sym("n"));
        let x = b.param("x", TensorType::new(DType::F32, vec![n]));
        let dead = b.emit1(Op::Unary(Unary::Exp), &[x]).unwrap();
        b.emit1(Op::Unary(Unary::Neg), &[dead]).unwrap();
        b.match_cast(x, TensorType::new(DType::F32, vec![Expr::i64(3)]));
        let y = b.emit1(Op::Unary(Unary::Abs), &[x]).unwrap();
        let id = b.finish(vec![y], vec!["y".into()]);
        eliminate_dead_code(&mut module).unwrap();
        let FuncData::Graph(f) = &module.funcs[id] else { unreachable!() };
        assert_eq!(f.body.bindings.len(), 2);
    }
}
