//! The table of intrinsics that are written as calls.

use crate::{Intrin, Sign};

/// Script name and intrinsic, operands in order.
pub(super) const CALLS: &[(&str, Intrin)] = &[
    ("if_then_else", Intrin::IfThenElse),
    ("fma", Intrin::Fma),
    ("exp", Intrin::Exp),
    ("log", Intrin::Log),
    ("sqrt", Intrin::Sqrt),
    ("sin", Intrin::Sin),
    ("cos", Intrin::Cos),
    ("tan", Intrin::Tan),
    ("asin", Intrin::Asin),
    ("acos", Intrin::Acos),
    ("atan", Intrin::Atan),
    ("sinh", Intrin::Sinh),
    ("cosh", Intrin::Cosh),
    ("tanh", Intrin::Tanh),
    ("asinh", Intrin::Asinh),
    ("acosh", Intrin::Acosh),
    ("atanh", Intrin::Atanh),
    ("erf", Intrin::Erf),
    ("pow", Intrin::Pow),
    ("floor", Intrin::Floor),
    ("ceil", Intrin::Ceil),
    ("trunc", Intrin::Trunc),
    // TVM's `round` goes away from zero at ties; this is the one that goes to even.
    ("nearbyint", Intrin::Round),
    ("abs", Intrin::Abs),
    ("fabs", Intrin::Abs),
    ("isnan", Intrin::IsNan),
    ("isinf", Intrin::IsInf),
    ("shift_left", Intrin::Shl),
    ("shift_right", Intrin::Shr),
    ("bitwise_and", Intrin::BitAnd),
    ("bitwise_or", Intrin::BitOr),
    ("bitwise_xor", Intrin::BitXor),
    ("bitwise_not", Intrin::BitNot),
    ("dot_bf16", Intrin::DotBf16),
    ("pair_bf16", Intrin::PairBf16),
    ("dot_u8u8", Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Unsigned }),
    ("dot_u8s8", Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Signed }),
    ("dot_s8u8", Intrin::DotI8 { a: Sign::Signed, b: Sign::Unsigned }),
    ("dot_s8s8", Intrin::DotI8 { a: Sign::Signed, b: Sign::Signed }),
    ("dot_s16s16", Intrin::DotI16),
    ("pack_4x8", Intrin::Pack4x8),
    ("prefetch", Intrin::Prefetch),
];

/// The signednesses of a dot product of 8-bit integers, by its name: `dot_u8s8` and the like.
#[cfg(feature = "script")]
pub fn signs_of(name: &str) -> Option<[Sign; 2]> {
    CALLS.iter().find_map(|(known, op)| match op {
        Intrin::DotI8 { a, b } if *known == name => Some([*a, *b]),
        _ => None,
    })
}

/// The name an intrinsic is printed by.
pub(super) fn name_of(op: Intrin) -> &'static str {
    CALLS.iter().find(|(_, o)| *o == op).map_or("reinterpret", |(name, _)| name)
}
