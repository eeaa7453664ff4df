//! Script names of operators and attribute values: one table for both directions.
//!
//! The printer's side matches every variant, so a new one does not compile without a name.

use crate::{
    Activations, ArgReduceKind, Binary, PadMode, ReduceKind, ResizeCoord, ResizeNearest,
    RnnActivation, RnnDir, ScanKind, ScatterReduce, Unary,
};

/// An attribute value or operator that is written as one fixed name.
pub(crate) trait ScriptName: Sized {
    /// The name.
    fn script_name(self) -> &'static str;
    /// The value of that name.
    fn from_script_name(name: &str) -> Option<Self>;
}

macro_rules! script_names { ($($ty:ident { $($variant:ident = $name:literal,)* })*) => { $(
    impl ScriptName for $ty {
        fn script_name(self) -> &'static str {
            match self { $($ty::$variant => $name,)* }
        }
        fn from_script_name(name: &str) -> Option<$ty> {
            match name { $($name => Some($ty::$variant),)* _ => None }
        }
    }
)* } }

script_names! {
    Unary {
        Neg = "negative", Abs = "abs", Sign = "sign", Exp = "exp", Log = "log", Sqrt = "sqrt",
        Reciprocal = "reciprocal",
        Sin = "sin", Cos = "cos", Tan = "tan", Asin = "asin", Acos = "acos", Atan = "atan",
        Sinh = "sinh", Cosh = "cosh", Tanh = "tanh", Asinh = "asinh", Acosh = "acosh",
        Atanh = "atanh", Erf = "erf", Sigmoid = "sigmoid", Floor = "floor", Ceil = "ceil",
        Round = "round", IsNan = "isnan", IsInf = "isinf", Not = "logical_not",
        BitNot = "bitwise_not",
    }
    Binary {
        Add = "add", Sub = "subtract", Mul = "multiply", Div = "divide", FloorMod = "floor_mod",
        TruncMod = "mod", Pow = "power", Min = "minimum", Max = "maximum", Equal = "equal",
        NotEqual = "not_equal", Less = "less", LessEqual = "less_equal", Greater = "greater",
        GreaterEqual = "greater_equal", And = "logical_and", Or = "logical_or",
        Xor = "logical_xor", BitAnd = "bitwise_and", BitOr = "bitwise_or",
        BitXor = "bitwise_xor", Shl = "left_shift", Shr = "right_shift",
    }
    ReduceKind { Sum = "sum", Mean = "mean", Max = "max", Min = "min", Prod = "prod", }
    ScanKind { Sum = "cumsum", Prod = "cumprod", }
    ArgReduceKind { Max = "argmax", Min = "argmin", }
    PadMode { Constant = "constant", Reflect = "reflect", Edge = "replicate", Wrap = "circular", }
    ScatterReduce { Replace = "update", Add = "add", Mul = "mul", Max = "max", Min = "min", }
    ResizeNearest {
        RoundPreferFloor = "round_prefer_floor", RoundPreferCeil = "round_prefer_ceil",
        Floor = "floor", Ceil = "ceil",
    }
    ResizeCoord {
        HalfPixel = "half_pixel", PytorchHalfPixel = "pytorch_half_pixel",
        AlignCorners = "align_corners", Asymmetric = "asymmetric",
    }
    Activations { Int8 = "int8", Int16 = "int16", }
    RnnDir { Forward = "forward", Reverse = "reverse", Both = "both", }
    RnnActivation { Sigmoid = "sigmoid", Tanh = "tanh", Relu = "relu", }
}
