//! The patterns by which operators fuse, after Relay's `OpPatternKind`, and their cost.

use reflex_graph::registered::FusionKind;
use reflex_graph::{Op, PadMode, Unary};

/// The dependence of an operator's output elements on its input elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpPattern {
    /// Each output element from the elements at its own index, or its broadcast index (`kElemWise`,
    /// `kBroadcast`).
    Elementwise,
    /// Each output element from one computed index of the input (`kInjective`).
    Injective,
    /// Joins several inputs: takes producers in, but several blocks write its output, so it
    /// is never a producer itself.
    Concat,
    /// Each output element from many input elements, each read once or a few times (`kCommReduce`).
    Reduce,
    /// Reads input elements many times (`kOutEWiseFusable`): epilogues join it, producers do not.
    Anchor,
    /// The same elements under another shape: a view, no kernel.
    View,
    /// Alone.
    Opaque,
}

/// The kind of an operator.
pub fn pattern(op: &Op) -> OpPattern {
    match op {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Where
        | Op::Cast(_)
        | Op::Bitcast(_)
        | Op::Broadcast(_) => OpPattern::Elementwise,
        Op::Transpose(_) | Op::Slice { .. } | Op::Iota { .. } => OpPattern::Injective,
        Op::Pad { mode: PadMode::Constant | PadMode::Edge, .. } => OpPattern::Injective,
        Op::Gather { .. } => OpPattern::Injective,
        Op::Concat { .. } => OpPattern::Concat,
        Op::Reduce { .. } => OpPattern::Reduce,
        Op::MatMul | Op::MatMulInteger | Op::MatMulNBits(_) | Op::Conv(_) | Op::ConvInteger(_) => {
            OpPattern::Anchor
        }
        Op::Reshape(_) => OpPattern::View,
        Op::Pad { .. }
        | Op::ArgReduce { .. }
        | Op::Scan { .. }
        | Op::ConvTranspose { .. }
        | Op::Pool(_)
        | Op::Softmax { .. }
        | Op::LayerNorm { .. }
        | Op::Scatter { .. }
        | Op::Resize(_)
        | Op::TopK { .. }
        | Op::Dims { .. }
        | Op::Rnn(_) => OpPattern::Opaque,
        Op::Registered(op) => match op.kind {
            FusionKind::Elementwise | FusionKind::Broadcast => OpPattern::Elementwise,
            FusionKind::Injective => OpPattern::Injective,
            FusionKind::Reduction => OpPattern::Reduce,
            FusionKind::OutFusable => OpPattern::Anchor,
            FusionKind::Opaque => OpPattern::Opaque,
        },
    }
}

/// Whether computing an element costs so much that it is never worth doing twice.
pub fn is_heavy(op: &Op) -> bool {
    match op {
        Op::Unary(f) => !matches!(
            f,
            Unary::Neg
                | Unary::Abs
                | Unary::Sign
                | Unary::Floor
                | Unary::Ceil
                | Unary::Round
                | Unary::IsNan
                | Unary::IsInf
                | Unary::Not
                | Unary::BitNot
        ),
        Op::Binary(f) => {
            use reflex_graph::Binary::*;
            matches!(f, Pow | FloorMod | TruncMod | Div)
        }
        // Nothing says what its kernel costs.
        Op::Registered(_) => true,
        _ => false,
    }
}

/// Whether an operator is a few instructions on elements at static indices.
pub fn is_cheap(op: &Op) -> bool {
    let static_indices = pattern(op) == OpPattern::Elementwise || matches!(op, Op::Slice { .. });
    static_indices && !is_heavy(op)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use reflex_graph::{FuncData, Node, ReduceKind, script};
    use reflex_tir::op_pattern::{OpPatternKind, op_pattern};

    use super::*;
    use crate::legalize::{OpCall, Operand, legalize};
    use crate::precision::Precision;

    /// Whether the accesses of an operator's kernel are those of its kind. `symbolic` kernels compute with
    /// dimensions, which are no iterators of the store: to the analysis of accesses such an index is unknown.
    fn agrees(op: &Op, found: OpPatternKind, symbolic: bool) -> bool {
        match (pattern(op), op) {
            (OpPattern::Elementwise, _) => found <= OpPatternKind::Broadcast,
            (OpPattern::Injective, _) => found <= OpPatternKind::Injective || symbolic,
            // The division after the sum.
            (OpPattern::Reduce, Op::Reduce { kind: ReduceKind::Mean, .. }) => {
                found <= OpPatternKind::OutEWiseFusable
            }
            (OpPattern::Reduce, _) => found <= OpPatternKind::CommReduce,
            // A product of vectors has one result, which each element serves.
            (OpPattern::Anchor, Op::MatMul) => {
                [OpPatternKind::CommReduce, OpPatternKind::OutEWiseFusable].contains(&found)
            }
            (OpPattern::Anchor, _) => found == OpPatternKind::OutEWiseFusable,
            // Alone for other reasons than accesses, or with blocks that write parts of the output.
            (OpPattern::Concat | OpPattern::View | OpPattern::Opaque, _) => true,
        }
    }

    #[test]
    fn kinds_of_operators_are_those_of_their_kernels() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/relax");
        let (mut counts, mut faults) = (BTreeMap::new(), vec![]);
        for entry in std::fs::read_dir(corpus).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "py") || path.ends_with("generate.py") {
                continue;
            }
            let module = script::parse_file(&path).unwrap_or_else(|e| panic!("{e}"));
            for func in module.funcs.values() {
                let FuncData::Graph(func) = func else { continue };
                func.body.walk(&mut |binding| {
                    let Node::Op { op, args } = &binding.node else { return };
                    let tensor = |v: &reflex_graph::Value| func.tensor(*v);
                    let operands: Vec<Operand<'_>> = args
                        .iter()
                        .map(|v| Operand { ty: tensor(v), constant: None, packing: None })
                        .collect();
                    let outs: Vec<_> = binding.outputs.iter().map(|v| tensor(v).clone()).collect();
                    let call = OpCall { operands: &operands, outs: &outs, dims: &func.syms };
                    let Ok(kernel) = legalize("kernel", op, &call, Precision::F32) else { return };
                    let (table, found) = (pattern(op), op_pattern(&kernel.func));
                    *counts.entry(format!("{table:?} {found}")).or_insert(0) += 1;
                    let types = operands.iter().map(|o| o.ty).chain(&outs);
                    let symbolic = types.flat_map(|ty| &ty.shape).any(|n| n.as_int().is_none());
                    if !agrees(op, found, symbolic) {
                        faults
                            .push(format!("{op:?}: {table:?} in the table, {found} by its kernel"));
                    }
                });
            }
        }
        println!("{counts:#?}");
        faults.sort();
        faults.dedup();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
