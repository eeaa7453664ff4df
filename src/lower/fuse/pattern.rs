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
