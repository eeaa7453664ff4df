//! Expressions: immutable trees shared by loop IR and by the graph IR's symbolic dimensions.
//!
//! Arithmetic is explicit: nothing here is reassociated, and a fused multiply-add exists only where
//! [`Intrin::Fma`] or [`Intrin::DotBf16`] is written. Constructors fold integer constants and the
//! identities `x + 0`, `x * 1`, `x * 0`, `x // 1`, `x % 1`; they never touch floating-point values.
//!
//! Decision: docs/decisions/0003-numeric-contract.md
//! Decision: docs/decisions/0040-bf16-dot-product.md

use std::ops;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{Buffer, DType, Var};

/// A reference-counted expression tree; `clone` is cheap.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Expr(Arc<ExprKind>);

/// Binary arithmetic. Operands have the same type, which is the result's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinOp {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Sub,
    /// `a * b`; integers wrap.
    Mul,
    /// `a / b`; integers truncate towards zero.
    Div,
    /// Remainder of [`BinOp::Div`] (sign of `a`).
    Mod,
    /// Integer division rounding towards negative infinity.
    FloorDiv,
    /// Remainder of [`BinOp::FloorDiv`] (sign of `b`).
    FloorMod,
    /// `if a < b or a is NaN { a } else { b }`.
    Min,
    /// `if a > b or a is NaN { a } else { b }`.
    Max,
}

/// Comparisons. Operands have the same type, the result is bool. On floats all are ordered
/// (false when an operand is NaN) but `Ne`, which is true then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CmpOp {
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

/// Intrinsic functions. Unless said otherwise the operands and the result have one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Intrin {
    /// `if_then_else(cond, a, b)`: evaluates only the chosen side (guards loads).
    IfThenElse,
    /// `a * b + c` with one rounding.
    Fma,
    /// e^x
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root, correctly rounded.
    Sqrt,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Arc sine.
    Asin,
    /// Arc cosine.
    Acos,
    /// Arc tangent.
    Atan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine.
    Acosh,
    /// Inverse hyperbolic tangent.
    Atanh,
    /// Error function.
    Erf,
    /// `pow(a, b)`
    Pow,
    /// Round towards negative infinity.
    Floor,
    /// Round towards positive infinity.
    Ceil,
    /// Round towards zero.
    Trunc,
    /// Round to nearest, ties to even.
    Round,
    /// Absolute value.
    Abs,
    /// Bool: is NaN.
    IsNan,
    /// Bool: is infinite.
    IsInf,
    /// `a << b`
    Shl,
    /// `a >> b`, arithmetic for signed types.
    Shr,
    /// Bitwise and.
    BitAnd,
    /// Bitwise or.
    BitOr,
    /// Bitwise exclusive or.
    BitXor,
    /// Bitwise not.
    BitNot,
    /// Same bits as another type of the same width.
    Reinterpret,
    /// `dot_bf16(a, b, c)`: dot product of two VNNI pairs of bfloat16, added to the float32 `c`, the
    /// upper halves first, as `vdpbf16ps` computes it. The uint32 `a` and `b` hold a pair each. Both
    /// additions are fused multiply-adds rounded to nearest even. Subnormal operands count as zero;
    /// subnormal results are zero with their sign.
    DotBf16,
    /// `pair_bf16(a, b)`: a VNNI pair: two float32 rounded to bfloat16, to nearest even, in a uint32,
    /// `a` in its lower half, as `vcvtne2ps2bf16` computes it. A subnormal operand is zero with its
    /// sign, NaN becomes quiet. Two bfloat16 are packed as they are.
    PairBf16,
    /// `dot_u8s8(a, b, c)` and the like: four products of 8-bit integers, added to the int32 `c`. The
    /// uint32 `a` and `b` hold four each (VNNI layout), whose signedness is named. Sums wrap, so they
    /// are the same in any order, and never saturate: `vpdpbusd`, not `vpdpbusds`.
    DotI8 {
        /// Of the integers in `a`.
        a: Sign,
        /// Of those in `b`.
        b: Sign,
    },
    /// `dot_s16s16(a, b, c)`: two products of int16, added to the int32 `c`. The uint32 `a` and `b` hold
    /// two each. Sums wrap: `pmaddwd` and `vpdpwssd`.
    DotI16,
    /// `pack_4x8(a, b, c, d)`: four uint8 or four int8 in a uint32, `a` in its lowest byte (VNNI
    /// layout).
    Pack4x8,
    /// `prefetch(x[i], n)`: the element itself. A code generator also asks the memory for what lies `n` bytes behind it, which need
    /// not be of the tensor: into the first-level cache (`prefetcht0`) where `n` is a constant of [`NEAR_BYTES`] at most, else into
    /// the second-level one (`prefetcht1`).
    Prefetch,
}

/// The greatest distance at which [`Intrin::Prefetch`] fills the first-level cache.
pub const NEAR_BYTES: i64 = 4096;

/// The signedness of 8-bit integers in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sign {
    /// uint8.
    Unsigned,
    /// int8.
    Signed,
}

impl Sign {
    /// That of an 8-bit integer type.
    pub fn of(dtype: DType) -> Option<Sign> {
        match dtype {
            DType::U8 => Some(Sign::Unsigned),
            DType::I8 => Some(Sign::Signed),
            _ => None,
        }
    }
}

/// The node of an [`Expr`].
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExprKind {
    /// Integer or bool constant, sign-extended to 64 bits (u64 by bit pattern).
    Int {
        /// Value.
        value: i64,
        /// Integer or bool type.
        dtype: DType,
    },
    /// Floating-point constant, kept as f64 bits so that trees are `Eq` and `Hash`.
    Float {
        /// `f64::to_bits` of the value.
        bits: u64,
        /// Floating-point type.
        dtype: DType,
    },
    /// Variable.
    Var {
        /// The variable.
        var: Var,
        /// Its type.
        dtype: DType,
    },
    /// Binary arithmetic.
    Binary {
        /// Operation.
        op: BinOp,
        /// Left operand.
        a: Expr,
        /// Right operand.
        b: Expr,
    },
    /// Comparison.
    Compare {
        /// Operation.
        op: CmpOp,
        /// Left operand.
        a: Expr,
        /// Right operand.
        b: Expr,
    },
    /// Logical and of bools (both sides may be evaluated).
    And(Expr, Expr),
    /// Logical or of bools (both sides may be evaluated).
    Or(Expr, Expr),
    /// Logical not.
    Not(Expr),
    /// Both sides are evaluated; use [`Intrin::IfThenElse`] to guard a load.
    Select {
        /// Bool.
        cond: Expr,
        /// Value when true.
        on_true: Expr,
        /// Value when false.
        on_false: Expr,
    },
    /// Conversion. Float to int truncates and saturates, NaN gives 0; int narrows by wrapping;
    /// to bool is `!= 0`.
    Cast {
        /// Target type.
        dtype: DType,
        /// Operand.
        value: Expr,
    },
    /// Element of a buffer.
    Load {
        /// The buffer.
        buffer: Buffer,
        /// One index per dimension, or a single one whatever the rank: the row-major position
        /// (a *flat* access).
        indices: Vec<Expr>,
        /// The buffer's element type.
        dtype: DType,
    },
    /// A call of an intrinsic function.
    Call {
        /// The function.
        op: Intrin,
        /// Operands.
        args: Vec<Expr>,
        /// Result type.
        dtype: DType,
    },
}

impl Expr {
    /// Wraps a node without folding.
    pub fn new(kind: ExprKind) -> Expr {
        Expr(Arc::new(kind))
    }

    /// The node.
    pub fn kind(&self) -> &ExprKind {
        &self.0
    }

    /// An int64 constant, the type of dimensions, indices and loop variables.
    pub fn i64(value: i64) -> Expr {
        Expr::int(value, DType::I64)
    }

    /// An integer constant.
    pub fn int(value: i64, dtype: DType) -> Expr {
        Expr::new(ExprKind::Int { value, dtype })
    }

    /// A bool constant.
    pub fn bool(value: bool) -> Expr {
        Expr::int(value as i64, DType::BOOL)
    }

    /// A floating-point constant.
    pub fn float(value: f64, dtype: DType) -> Expr {
        Expr::new(ExprKind::Float { bits: value.to_bits(), dtype })
    }

    /// A constant of any scalar type: `value` converted as [`ExprKind::Cast`] would.
    pub fn constant(value: f64, dtype: DType) -> Expr {
        if dtype.is_float() {
            Expr::float(value, dtype)
        } else if dtype == DType::BOOL {
            Expr::bool(value != 0.0)
        } else {
            Expr::int(value as i64, dtype)
        }
    }

    /// A variable of type int64.
    pub fn var(var: Var) -> Expr {
        Expr::new(ExprKind::Var { var, dtype: DType::I64 })
    }

    /// Element of a buffer.
    pub fn load(buffer: Buffer, indices: Vec<Expr>, dtype: DType) -> Expr {
        Expr::new(ExprKind::Load { buffer, indices, dtype })
    }

    /// A call whose result has the type of its first operand.
    pub fn call(op: Intrin, args: Vec<Expr>) -> Expr {
        let dtype = match op {
            Intrin::IfThenElse => args[1].dtype(),
            Intrin::DotBf16 => DType::F32,
            Intrin::DotI8 { .. } | Intrin::DotI16 => DType::I32,
            Intrin::PairBf16 | Intrin::Pack4x8 => DType::U32,
            Intrin::IsNan | Intrin::IsInf => DType::BOOL,
            _ => args[0].dtype(),
        };
        Expr::new(ExprKind::Call { op, args, dtype })
    }

    /// Same bits as `dtype`.
    pub fn reinterpret(self, dtype: DType) -> Expr {
        Expr::new(ExprKind::Call { op: Intrin::Reinterpret, args: vec![self], dtype })
    }

    /// Lazy choice.
    pub fn if_then_else(cond: Expr, a: Expr, b: Expr) -> Expr {
        match cond.as_int() {
            Some(0) => b,
            Some(_) => a,
            None => Expr::call(Intrin::IfThenElse, vec![cond, a, b]),
        }
    }

    /// Eager choice.
    pub fn select(cond: Expr, on_true: Expr, on_false: Expr) -> Expr {
        match cond.as_int() {
            Some(0) => on_false,
            Some(_) => on_true,
            None => Expr::new(ExprKind::Select { cond, on_true, on_false }),
        }
    }

    /// Conversion; a no-op when the type is already `dtype`.
    pub fn cast(self, dtype: DType) -> Expr {
        match self.kind() {
            _ if self.dtype() == dtype => self,
            ExprKind::Int { value, dtype: from } if *from != DType::U64 && dtype == DType::I64 => {
                Expr::i64(*value)
            }
            _ => Expr::new(ExprKind::Cast { dtype, value: self }),
        }
    }

    /// The value's type.
    pub fn dtype(&self) -> DType {
        match self.kind() {
            ExprKind::Int { dtype, .. }
            | ExprKind::Float { dtype, .. }
            | ExprKind::Var { dtype, .. }
            | ExprKind::Cast { dtype, .. }
            | ExprKind::Load { dtype, .. }
            | ExprKind::Call { dtype, .. } => *dtype,
            ExprKind::Binary { a, .. } => a.dtype(),
            ExprKind::Select { on_true, .. } => on_true.dtype(),
            ExprKind::Compare { .. } | ExprKind::And(..) | ExprKind::Or(..) | ExprKind::Not(_) => {
                DType::BOOL
            }
        }
    }

    /// The value of an integer or bool constant.
    pub fn as_int(&self) -> Option<i64> {
        match self.kind() {
            ExprKind::Int { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The value of a floating-point constant.
    pub fn as_float(&self) -> Option<f64> {
        match self.kind() {
            ExprKind::Float { bits, .. } => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }

    /// The variable, if this is one.
    pub fn as_var(&self) -> Option<Var> {
        match self.kind() {
            ExprKind::Var { var, .. } => Some(*var),
            _ => None,
        }
    }

    /// Binary arithmetic with the foldings the module header names.
    pub fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
        debug_assert_eq!(a.dtype(), b.dtype(), "operand types differ: {a:?} {op:?} {b:?}");
        fold_binary(op, &a, &b).unwrap_or_else(|| Expr::new(ExprKind::Binary { op, a, b }))
    }

    /// Comparison; folds integer constants.
    pub fn compare(op: CmpOp, a: Expr, b: Expr) -> Expr {
        debug_assert_eq!(a.dtype(), b.dtype(), "operand types differ: {a:?} {op:?} {b:?}");
        match (a.as_int(), b.as_int()) {
            (Some(x), Some(y)) if a.dtype() != DType::U64 => Expr::bool(op.holds(&x, &y)),
            _ => Expr::new(ExprKind::Compare { op, a, b }),
        }
    }

    /// `self // b`
    pub fn floordiv(self, b: impl Into<Expr>) -> Expr {
        Expr::binary(BinOp::FloorDiv, self, b.into())
    }

    /// `self % b` with the sign of `b`.
    pub fn floormod(self, b: impl Into<Expr>) -> Expr {
        Expr::binary(BinOp::FloorMod, self, b.into())
    }

    /// `(self + b - 1) // b`
    pub fn ceildiv(self, b: i64) -> Expr {
        (self + (b - 1)).floordiv(b)
    }

    /// Minimum.
    pub fn min(self, b: impl Into<Expr>) -> Expr {
        Expr::binary(BinOp::Min, self, b.into())
    }

    /// Maximum.
    pub fn max(self, b: impl Into<Expr>) -> Expr {
        Expr::binary(BinOp::Max, self, b.into())
    }

    /// `self < b`
    pub fn lt(self, b: impl Into<Expr>) -> Expr {
        Expr::compare(CmpOp::Lt, self, b.into())
    }

    /// `self <= b`
    pub fn le(self, b: impl Into<Expr>) -> Expr {
        Expr::compare(CmpOp::Le, self, b.into())
    }

    /// `self >= b`
    pub fn ge(self, b: impl Into<Expr>) -> Expr {
        Expr::compare(CmpOp::Ge, self, b.into())
    }

    /// `self > b`
    pub fn gt(self, b: impl Into<Expr>) -> Expr {
        Expr::compare(CmpOp::Gt, self, b.into())
    }

    /// `self == b` as an expression.
    pub fn equal(self, b: impl Into<Expr>) -> Expr {
        Expr::compare(CmpOp::Eq, self, b.into())
    }

    /// Logical and; folds constants.
    pub fn and(self, b: Expr) -> Expr {
        match (self.as_int(), b.as_int()) {
            (Some(0), _) | (_, Some(0)) => Expr::bool(false),
            (Some(_), _) => b,
            (_, Some(_)) => self,
            _ => Expr::new(ExprKind::And(self, b)),
        }
    }

    /// Logical or; folds constants.
    pub fn or(self, b: Expr) -> Expr {
        match (self.as_int(), b.as_int()) {
            (Some(0), _) => b,
            (_, Some(0)) => self,
            (Some(_), _) | (_, Some(_)) => Expr::bool(true),
            _ => Expr::new(ExprKind::Or(self, b)),
        }
    }

    /// Logical not.
    pub fn logical_not(self) -> Expr {
        match self.as_int() {
            Some(v) => Expr::bool(v == 0),
            None => Expr::new(ExprKind::Not(self)),
        }
    }

    /// The direct operands, in order.
    pub fn children(&self) -> SmallVec<[&Expr; 4]> {
        let mut list = SmallVec::new();
        self.for_each_child(&mut |e| list.push(e));
        list
    }

    /// Calls `f` on the direct operands, in order.
    pub fn for_each_child<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        match self.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Var { .. } => {}
            ExprKind::Binary { a, b, .. }
            | ExprKind::Compare { a, b, .. }
            | ExprKind::And(a, b)
            | ExprKind::Or(a, b) => {
                f(a);
                f(b);
            }
            ExprKind::Not(a) | ExprKind::Cast { value: a, .. } => f(a),
            ExprKind::Select { cond, on_true, on_false } => {
                f(cond);
                f(on_true);
                f(on_false);
            }
            ExprKind::Load { indices: list, .. } | ExprKind::Call { args: list, .. } => {
                list.iter().for_each(f);
            }
        }
    }

    /// Whether both are one node in memory.
    fn is(&self, other: &Expr) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The node with `f` applied to each direct operand, folding constants again; the node itself
    /// where `f` gives back every operand.
    pub fn map_children(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
        match self.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Var { .. } => self.clone(),
            ExprKind::Binary { op, a, b } => match (f(a), f(b)) {
                (x, y) if x.is(a) && y.is(b) => self.clone(),
                (x, y) => Expr::binary(*op, x, y),
            },
            ExprKind::Compare { op, a, b } => match (f(a), f(b)) {
                (x, y) if x.is(a) && y.is(b) => self.clone(),
                (x, y) => Expr::compare(*op, x, y),
            },
            ExprKind::And(a, b) => match (f(a), f(b)) {
                (x, y) if x.is(a) && y.is(b) => self.clone(),
                (x, y) => x.and(y),
            },
            ExprKind::Or(a, b) => match (f(a), f(b)) {
                (x, y) if x.is(a) && y.is(b) => self.clone(),
                (x, y) => x.or(y),
            },
            ExprKind::Not(a) => match f(a) {
                x if x.is(a) => self.clone(),
                x => x.logical_not(),
            },
            ExprKind::Select { cond, on_true, on_false } => {
                match (f(cond), f(on_true), f(on_false)) {
                    (c, x, y) if c.is(cond) && x.is(on_true) && y.is(on_false) => self.clone(),
                    (c, x, y) => Expr::select(c, x, y),
                }
            }
            ExprKind::Cast { dtype, value } => match f(value) {
                x if x.is(value) => self.clone(),
                x => x.cast(*dtype),
            },
            ExprKind::Load { buffer, indices, dtype } => {
                let at: SmallVec<[Expr; 4]> = indices.iter().map(f).collect();
                match at.iter().zip(indices).all(|(x, y)| x.is(y)) {
                    true => self.clone(),
                    false => Expr::load(*buffer, at.into_vec(), *dtype),
                }
            }
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
                match (f(&args[0]), f(&args[1]), f(&args[2])) {
                    (c, x, y) if c.is(&args[0]) && x.is(&args[1]) && y.is(&args[2]) => self.clone(),
                    (c, x, y) => Expr::if_then_else(c, x, y),
                }
            }
            ExprKind::Call { op, args, dtype } => {
                let mapped: SmallVec<[Expr; 3]> = args.iter().map(f).collect();
                match mapped.iter().zip(args).all(|(x, y)| x.is(y)) {
                    true => self.clone(),
                    false => {
                        let args = mapped.into_vec();
                        Expr::new(ExprKind::Call { op: *op, args, dtype: *dtype })
                    }
                }
            }
        }
    }

    /// Replaces variables: `f` returns the replacement or `None` to keep one.
    pub fn substitute(&self, f: &dyn Fn(Var) -> Option<Expr>) -> Expr {
        match self.kind() {
            ExprKind::Var { var, .. } => f(*var).unwrap_or_else(|| self.clone()),
            _ => self.map_children(&mut |e| e.substitute(f)),
        }
    }

    /// Calls `f` on this node and every node below, parents first.
    pub fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        self.for_each_child(&mut |e| e.visit(f));
    }
}

impl CmpOp {
    /// Whether the comparison holds for two values.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Lt => a < b,
            CmpOp::Le => a <= b,
            CmpOp::Gt => a > b,
            CmpOp::Ge => a >= b,
        }
    }
}

fn fold_binary(op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let dtype = a.dtype();
    if dtype.is_float() || dtype == DType::U64 {
        return None;
    }
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        // Narrow types may wrap; only int64 is folded without a range question.
        if dtype != DType::I64 {
            return None;
        }
        let value = match op {
            BinOp::Add => x.wrapping_add(y),
            BinOp::Sub => x.wrapping_sub(y),
            BinOp::Mul => x.wrapping_mul(y),
            BinOp::Min => x.min(y),
            BinOp::Max => x.max(y),
            BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod if y == 0 => return None,
            BinOp::Div => x.wrapping_div(y),
            BinOp::Mod => x.wrapping_rem(y),
            BinOp::FloorDiv => {
                let (q, r) = (x.wrapping_div(y), x.wrapping_rem(y));
                if r != 0 && (r < 0) != (y < 0) { q - 1 } else { q }
            }
            BinOp::FloorMod => {
                let r = x.wrapping_rem(y);
                if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
            }
        };
        return Some(Expr::i64(value));
    }
    match (op, a.as_int(), b.as_int()) {
        (BinOp::Add, Some(0), _) => Some(b.clone()),
        (BinOp::Add | BinOp::Sub, _, Some(0)) => Some(a.clone()),
        (BinOp::Mul, Some(1), _) => Some(b.clone()),
        (BinOp::Mul | BinOp::FloorDiv | BinOp::Div, _, Some(1)) => Some(a.clone()),
        (BinOp::Mul, Some(0), _) => Some(a.clone()),
        (BinOp::Mul, _, Some(0)) => Some(b.clone()),
        (BinOp::FloorMod | BinOp::Mod, _, Some(1)) => Some(Expr::int(0, dtype)),
        (BinOp::FloorDiv | BinOp::FloorMod, Some(0), _) => Some(a.clone()),
        (BinOp::Sub, ..) if a == b => Some(Expr::int(0, dtype)),
        (BinOp::Min | BinOp::Max, ..) if a == b => Some(a.clone()),
        _ => None,
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::i64(value)
    }
}

impl From<Var> for Expr {
    fn from(var: Var) -> Expr {
        Expr::var(var)
    }
}

macro_rules! operators { ($($trait:ident $method:ident $op:ident;)*) => { $(
    impl<T: Into<Expr>> ops::$trait<T> for Expr {
        type Output = Expr;
        fn $method(self, b: T) -> Expr { Expr::binary(BinOp::$op, self, b.into()) }
    }
)* } }
operators! { Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; }

impl ops::Neg for Expr {
    type Output = Expr;
    /// `-x`; on floats as a multiplication by -1, which keeps signed zeros right.
    fn neg(self) -> Expr {
        let dtype = self.dtype();
        Expr::binary(BinOp::Mul, self, Expr::constant(-1.0, dtype))
    }
}

impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            ExprKind::Int { value, .. } => write!(f, "{value}"),
            ExprKind::Float { bits, .. } => write!(f, "{:?}", f64::from_bits(*bits)),
            ExprKind::Var { var, .. } => write!(f, "{var}"),
            ExprKind::Binary { op, a, b } => write!(f, "{op:?}({a:?}, {b:?})"),
            ExprKind::Compare { op, a, b } => write!(f, "{op:?}({a:?}, {b:?})"),
            ExprKind::And(a, b) => write!(f, "And({a:?}, {b:?})"),
            ExprKind::Or(a, b) => write!(f, "Or({a:?}, {b:?})"),
            ExprKind::Not(a) => write!(f, "Not({a:?})"),
            ExprKind::Select { cond, on_true, on_false } => {
                write!(f, "Select({cond:?}, {on_true:?}, {on_false:?})")
            }
            ExprKind::Cast { dtype, value } => write!(f, "{dtype}({value:?})"),
            ExprKind::Load { buffer, indices, .. } => write!(f, "{buffer}{indices:?}"),
            ExprKind::Call { op, args, .. } => write!(f, "{op:?}{args:?}"),
        }
    }
}
