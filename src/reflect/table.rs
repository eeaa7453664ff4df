//! The table that both directions share: operators of TVM with the types of their attributes, arithmetic, and the
//! intrinsics of kernels.

use reflex_tir::{BinOp, CmpOp, Intrin, Sign};

/// Operators of TVM that a module of ours has, and the types of their attributes; none where there are none.
///
/// The text of a module names operators and attributes as TVM does, so that the fields of the type of attributes
/// are all that is needed to make the node of a call of its text, and the text of a node.
const OPERATORS: &[(&str, Option<&str>)] = &[
    ("relax.arange", Some("relax.attrs.InitAttrs")),
    ("relax.argmax", Some("relax.attrs.ArgmaxArgminAttrs")),
    ("relax.argmin", Some("relax.attrs.ArgmaxArgminAttrs")),
    ("relax.astype", Some("relax.attrs.AstypeAttrs")),
    ("relax.broadcast_to", None),
    ("relax.concat", Some("relax.attrs.ConcatAttrs")),
    ("relax.cumprod", Some("relax.attrs.ScanopAttrs")),
    ("relax.cumsum", Some("relax.attrs.ScanopAttrs")),
    ("relax.gather_elements", Some("relax.attrs.GatherElementsAttrs")),
    ("relax.gather_nd", Some("relax.attrs.GatherNDAttrs")),
    ("relax.image.resize2d", Some("relax.attrs.Resize2DAttrs")),
    ("relax.matmul", Some("relax.attrs.MatmulAttrs")),
    ("relax.max", Some("relax.attrs.StatisticalAttrs")),
    ("relax.mean", Some("relax.attrs.StatisticalAttrs")),
    ("relax.min", Some("relax.attrs.StatisticalAttrs")),
    ("relax.nn.avg_pool1d", Some("relax.attrs.Pool1DAttrs")),
    ("relax.nn.avg_pool2d", Some("relax.attrs.Pool2DAttrs")),
    ("relax.nn.avg_pool3d", Some("relax.attrs.Pool3DAttrs")),
    ("relax.nn.conv1d", Some("relax.attrs.Conv1DAttrs")),
    ("relax.nn.conv1d_transpose", Some("relax.attrs.Conv1DTransposeAttrs")),
    ("relax.nn.conv2d", Some("relax.attrs.Conv2DAttrs")),
    ("relax.nn.conv2d_transpose", Some("relax.attrs.Conv2DTransposeAttrs")),
    ("relax.nn.conv3d", Some("relax.attrs.Conv3DAttrs")),
    ("relax.nn.conv3d_transpose", Some("relax.attrs.Conv3DTransposeAttrs")),
    ("relax.nn.layer_norm", Some("relax.attrs.LayerNormAttrs")),
    ("relax.nn.log_softmax", Some("relax.attrs.SoftmaxAttrs")),
    ("relax.nn.max_pool1d", Some("relax.attrs.Pool1DAttrs")),
    ("relax.nn.max_pool2d", Some("relax.attrs.Pool2DAttrs")),
    ("relax.nn.max_pool3d", Some("relax.attrs.Pool3DAttrs")),
    ("relax.nn.pad", Some("relax.attrs.PadAttrs")),
    ("relax.nn.relu", None),
    ("relax.nn.softmax", Some("relax.attrs.SoftmaxAttrs")),
    ("relax.permute_dims", Some("relax.attrs.PermuteDimsAttrs")),
    ("relax.prod", Some("relax.attrs.StatisticalAttrs")),
    ("relax.reshape", None),
    ("relax.scatter_elements", Some("relax.attrs.ScatterElementsAttrs")),
    ("relax.scatter_nd", Some("relax.attrs.ScatterNDAttrs")),
    ("relax.shape_to_tensor", None),
    ("relax.strided_slice", Some("relax.attrs.StridedSliceAttrs")),
    ("relax.sum", Some("relax.attrs.StatisticalAttrs")),
    ("relax.take", Some("relax.attrs.TakeAttrs")),
    ("relax.tensor_to_shape", None),
    ("relax.topk", Some("relax.attrs.TopKAttrs")),
    ("relax.where", None),
];

/// Operators of TVM element by element, which have no attributes.
const ELEMENTWISE: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "floor",
    "floor_mod",
    "greater",
    "greater_equal",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "right_shift",
    "round",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
];

/// The type of the attributes of an operator of TVM; the outer `None` for an operator that TVM lacks.
pub(crate) fn attributes(operator: &str) -> Option<Option<&'static str>> {
    if let Some((_, attributes)) = OPERATORS.iter().find(|(name, _)| *name == operator) {
        return Some(*attributes);
    }
    let name = operator.strip_prefix("relax.")?;
    ELEMENTWISE.contains(&name).then_some(None)
}

/// Arithmetic of kernels and dimensions, by the types of TVM's nodes.
pub(crate) const BINARY: &[(BinOp, &str)] = &[
    (BinOp::Add, "prim.Add"),
    (BinOp::Sub, "prim.Sub"),
    (BinOp::Mul, "prim.Mul"),
    (BinOp::Div, "prim.Div"),
    (BinOp::Mod, "prim.Mod"),
    (BinOp::FloorDiv, "prim.FloorDiv"),
    (BinOp::FloorMod, "prim.FloorMod"),
    (BinOp::Min, "prim.Min"),
    (BinOp::Max, "prim.Max"),
];

/// Comparisons.
pub(crate) const COMPARE: &[(CmpOp, &str)] = &[
    (CmpOp::Eq, "prim.EQ"),
    (CmpOp::Ne, "prim.NE"),
    (CmpOp::Lt, "prim.LT"),
    (CmpOp::Le, "prim.LE"),
    (CmpOp::Gt, "prim.GT"),
    (CmpOp::Ge, "prim.GE"),
];

/// Operations on bits, nodes of two operands.
pub(crate) const BITS: &[(Intrin, &str)] = &[
    (Intrin::Shl, "prim.LShift"),
    (Intrin::Shr, "prim.RShift"),
    (Intrin::BitAnd, "prim.BitwiseAnd"),
    (Intrin::BitOr, "prim.BitwiseOr"),
    (Intrin::BitXor, "prim.BitwiseXor"),
];

/// Intrinsics, by the operators of TVM; those that it lacks are calls of external functions.
pub(crate) const INTRINSICS: &[(Intrin, &str)] = &[
    (Intrin::IfThenElse, "prim.if_then_else"),
    (Intrin::Fma, "tirx.fma"),
    (Intrin::Exp, "tirx.exp"),
    (Intrin::Log, "tirx.log"),
    (Intrin::Sqrt, "tirx.sqrt"),
    (Intrin::Sin, "tirx.sin"),
    (Intrin::Cos, "tirx.cos"),
    (Intrin::Tan, "tirx.tan"),
    (Intrin::Asin, "tirx.asin"),
    (Intrin::Acos, "tirx.acos"),
    (Intrin::Atan, "tirx.atan"),
    (Intrin::Sinh, "tirx.sinh"),
    (Intrin::Cosh, "tirx.cosh"),
    (Intrin::Tanh, "tirx.tanh"),
    (Intrin::Asinh, "tirx.asinh"),
    (Intrin::Acosh, "tirx.acosh"),
    (Intrin::Atanh, "tirx.atanh"),
    (Intrin::Erf, "tirx.erf"),
    (Intrin::Pow, "tirx.pow"),
    (Intrin::Floor, "tirx.floor"),
    (Intrin::Ceil, "prim.ceil"),
    (Intrin::Trunc, "tirx.trunc"),
    (Intrin::Round, "tirx.nearbyint"),
    (Intrin::Abs, "tirx.fabs"),
    (Intrin::IsNan, "tirx.isnan"),
    (Intrin::IsInf, "tirx.isinf"),
    (Intrin::Reinterpret, "tirx.reinterpret"),
];

/// Intrinsics that TVM lacks: names of external functions, which the text has after `T.`.
pub(crate) const EXTERNAL: &[(Intrin, &str)] = &[
    (Intrin::DotBf16, "dot_bf16"),
    (Intrin::PairBf16, "pair_bf16"),
    (Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Unsigned }, "dot_u8u8"),
    (Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Signed }, "dot_u8s8"),
    (Intrin::DotI8 { a: Sign::Signed, b: Sign::Unsigned }, "dot_s8u8"),
    (Intrin::DotI8 { a: Sign::Signed, b: Sign::Signed }, "dot_s8s8"),
    (Intrin::DotI16, "dot_s16s16"),
    (Intrin::Pack4x8, "pack_4x8"),
    (Intrin::Prefetch, "prefetch"),
    (Intrin::Abs, "abs"),
];

/// The right side of a row whose left side is `left`.
pub(crate) fn right<T: PartialEq>(table: &[(T, &'static str)], left: &T) -> Option<&'static str> {
    table.iter().find(|(key, _)| key == left).map(|(_, name)| *name)
}

/// The left side of a row whose right side is `right`.
pub(crate) fn left<T: Copy>(table: &[(T, &'static str)], right: &str) -> Option<T> {
    table.iter().find(|(_, name)| *name == right).map(|(key, _)| *key)
}
