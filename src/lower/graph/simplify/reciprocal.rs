//! Divisions by constants become multiplications by their reciprocals, where the dividend is
//! rounded already.
//!
//! A vector division takes the time of ten multiplications or more: of `x * clip(x + 3, 0, 6) / 6`
//! behind a convolution, the division took longer than the rest, and up to a third of the
//! convolution's time. The quotient moves by less than one more rounding. So the dividend has to be
//! the result of a contraction, or made of one by `+`, `-` and `*`: whole numbers (positions,
//! counts), whose quotients may be meant to be exact, are none. Nor may the quotient be read where
//! it decides a step, such as a rounding or a comparison.
//!
//! Decision: docs/decisions/0004-division-by-constants.md

use std::collections::{HashMap, HashSet};

use reflex_graph::{Binary, Body, Const, Func, Literal, Module, Node, Op, Unary, Value, eval_op};
use reflex_tir::DType;

use crate::graph::edit::{constants, new_constant};

/// Rewrites every such division of a function's body. Returns true if there was one.
pub(super) fn multiply_by_reciprocals(
    module: &mut Module,
    func: &mut Func,
    body: &mut Body,
) -> bool {
    let consts = constants(body);
    let mut steps = HashSet::new();
    body.walk(&mut |b| {
        if let Node::Op { op, args } = &b.node
            && is_step(op)
        {
            steps.extend(args);
        }
    });
    let mut cx =
        DivisionRewriter { module, func, consts, steps, rounded: HashSet::new(), changed: false };
    cx.body(body);
    cx.changed
}

struct DivisionRewriter<'a> {
    module: &'a mut Module,
    func: &'a mut Func,
    consts: HashMap<Value, Const>,
    /// Values that decide steps.
    steps: HashSet<Value>,
    /// Results of contractions, and values made of them.
    rounded: HashSet<Value>,
    changed: bool,
}

impl DivisionRewriter<'_> {
    fn body(&mut self, body: &mut Body) {
        for mut binding in std::mem::take(&mut body.bindings) {
            for nested in binding.node.bodies_mut() {
                self.body(nested);
            }
            if let (Node::Op { op, args }, [output]) = (&mut binding.node, &binding.outputs[..]) {
                let any_rounded = |args: &[Value]| args.iter().any(|a| self.rounded.contains(a));
                let rounded = match op {
                    Op::MatMul | Op::Conv(_) | Op::ConvTranspose { .. } => true,
                    Op::Binary(Binary::Add | Binary::Sub | Binary::Mul) => any_rounded(args),
                    Op::Binary(Binary::Div) => any_rounded(&args[..1]),
                    _ => false,
                };
                if rounded && *op == Op::Binary(Binary::Div) && !self.steps.contains(output) {
                    let divisor = self.consts.get(&args[1]).map(|c| &self.module.consts[*c]);
                    if let Some(reciprocal) = divisor.and_then(reciprocal) {
                        let constant = new_constant(self.module, self.func, "", reciprocal);
                        *op = Op::Binary(Binary::Mul);
                        args[1] = constant.outputs[0];
                        body.bindings.push(constant);
                        self.changed = true;
                    }
                }
                if rounded {
                    self.rounded.insert(*output);
                }
            }
            body.bindings.push(binding);
        }
    }
}

/// Whether results of `op` jump where its operands hardly change.
fn is_step(op: &Op) -> bool {
    match op {
        Op::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sign) => true,
        Op::Binary(f) => !matches!(
            f,
            Binary::Add
                | Binary::Sub
                | Binary::Mul
                | Binary::Div
                | Binary::Pow
                | Binary::Min
                | Binary::Max
        ),
        Op::Cast(to) => !to.is_float(),
        Op::ArgReduce { .. } => true,
        _ => false,
    }
}

/// The reciprocal of each element, where all are normal numbers.
fn reciprocal(divisor: &Literal) -> Option<Literal> {
    let result = eval_op(&Op::Unary(Unary::Reciprocal), &[divisor], &|_| None).ok()?.remove(0);
    let normal = |literal: &Literal| match literal.dtype() {
        DType::F32 => literal
            .bytes()
            .chunks_exact(4)
            .all(|b| b.try_into().is_ok_and(|b| f32::from_le_bytes(b).is_normal())),
        DType::F64 => literal
            .bytes()
            .chunks_exact(8)
            .all(|b| b.try_into().is_ok_and(|b| f64::from_le_bytes(b).is_normal())),
        _ => false,
    };
    (normal(divisor) && normal(&result)).then_some(result)
}
