//! Expressions as text, with the parentheses that Python's precedence needs.

use super::ops;
use super::precedence::Precedence;
use super::print::Printer;
use crate::{BinOp, CmpOp, DType, Expr, ExprKind, Intrin};

impl Printer<'_> {
    pub(super) fn expr(&self, e: &Expr) -> String {
        self.at_level(e).0
    }

    pub(super) fn exprs(&self, list: &[Expr]) -> String {
        list.iter().map(|e| self.expr(e)).collect::<Vec<_>>().join(", ")
    }

    /// `e`, in parentheses unless it binds at least as strongly as `level`.
    fn operand(&self, e: &Expr, level: Precedence) -> String {
        let (text, own) = self.at_level(e);
        if own >= level { text } else { format!("({text})") }
    }

    fn infix(
        &self,
        a: &Expr,
        op: &str,
        b: &Expr,
        level: Precedence,
        right: Precedence,
    ) -> (String, Precedence) {
        // Comparisons do not chain here, so both sides must bind more strongly.
        let left = if level == Precedence::Compare { right } else { level };
        let a = if bare(b) { self.typed(a) } else { None }.unwrap_or_else(|| self.operand(a, left));
        (format!("{a} {op} {}", self.operand(b, right)), level)
    }

    /// A bare number with its type, where the other operand does not determine it.
    fn typed(&self, e: &Expr) -> Option<String> {
        bare(e).then(|| format!("T.int32({})", self.expr(e)))
    }

    /// Operands of a function, at least one of which shows their type.
    fn operands(&self, args: &[Expr]) -> String {
        match args.split_first() {
            Some((first, rest)) if args.iter().all(bare) => {
                let first = self.typed(first).unwrap_or_else(|| self.expr(first));
                let rest = rest.iter().map(|e| self.expr(e));
                std::iter::once(first).chain(rest).collect::<Vec<_>>().join(", ")
            }
            _ => self.exprs(args),
        }
    }

    fn at_level(&self, e: &Expr) -> (String, Precedence) {
        let call = |text: String| (text, Precedence::Atom);
        match e.kind() {
            ExprKind::Int { value, dtype } => int(*value, *dtype),
            ExprKind::Float { bits, dtype } => {
                call(format!("T.{dtype}({})", float(f64::from_bits(*bits))))
            }
            ExprKind::Var { var, .. } => call(self.var(*var)),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b),
            ExprKind::Compare { op, a, b } => {
                let op = match op {
                    CmpOp::Eq => "==",
                    CmpOp::Ne => "!=",
                    CmpOp::Lt => "<",
                    CmpOp::Le => "<=",
                    CmpOp::Gt => ">",
                    CmpOp::Ge => ">=",
                };
                self.infix(a, op, b, Precedence::Compare, Precedence::BitOr)
            }
            ExprKind::And(a, b) => self.infix(a, "and", b, Precedence::And, Precedence::Not),
            ExprKind::Or(a, b) => self.infix(a, "or", b, Precedence::Or, Precedence::And),
            ExprKind::Not(a) => {
                (format!("not {}", self.operand(a, Precedence::Not)), Precedence::Not)
            }
            ExprKind::Select { cond, on_true, on_false } => {
                let args = self.exprs(&[cond.clone(), on_true.clone(), on_false.clone()]);
                call(format!("T.Select({args})"))
            }
            ExprKind::Cast { dtype, value } => {
                call(format!("T.Cast(\"{dtype}\", {})", self.expr(value)))
            }
            ExprKind::Load { buffer, indices, .. } => {
                call(format!("{}[{}]", self.buffer(*buffer), self.indices(indices)))
            }
            ExprKind::Call { op, args, dtype } => self.call(*op, args, *dtype),
        }
    }

    pub(super) fn indices(&self, indices: &[Expr]) -> String {
        match indices {
            [] => "()".into(),
            _ => indices.iter().map(|i| self.index(i)).collect::<Vec<_>>().join(", "),
        }
    }

    /// An index, which widens to int64 by itself.
    pub(super) fn index(&self, e: &Expr) -> String {
        match e.kind() {
            ExprKind::Cast { dtype: DType::I64, value } if value.dtype().is_int() => {
                self.expr(value)
            }
            _ => self.expr(e),
        }
    }

    fn binary(&self, op: BinOp, a: &Expr, b: &Expr) -> (String, Precedence) {
        let float = a.dtype().is_float();
        let function = |name: &str| {
            (format!("T.{name}({})", self.operands(&[a.clone(), b.clone()])), Precedence::Atom)
        };
        let product = |op: &str| self.infix(a, op, b, Precedence::Product, Precedence::Unary);
        match op {
            BinOp::Add => self.infix(a, "+", b, Precedence::Sum, Precedence::Product),
            BinOp::Sub => self.infix(a, "-", b, Precedence::Sum, Precedence::Product),
            BinOp::Mul => product("*"),
            BinOp::Div if float => product("/"),
            BinOp::Div => function("Div"),
            BinOp::Mod if float => function("fmod"),
            BinOp::Mod => function("truncmod"),
            BinOp::FloorDiv if float => function("floordiv"),
            BinOp::FloorDiv => product("//"),
            BinOp::FloorMod if float => function("floormod"),
            BinOp::FloorMod => product("%"),
            BinOp::Min => function("min"),
            BinOp::Max => function("max"),
        }
    }

    fn call(&self, op: Intrin, args: &[Expr], dtype: DType) -> (String, Precedence) {
        match (op, args) {
            (Intrin::Shl, [a, b]) => self.infix(a, "<<", b, Precedence::Shift, Precedence::Sum),
            (Intrin::Shr, [a, b]) => self.infix(a, ">>", b, Precedence::Shift, Precedence::Sum),
            (Intrin::BitAnd, [a, b]) => {
                self.infix(a, "&", b, Precedence::BitAnd, Precedence::Shift)
            }
            (Intrin::BitXor, [a, b]) => {
                self.infix(a, "^", b, Precedence::BitXor, Precedence::BitAnd)
            }
            (Intrin::BitOr, [a, b]) => self.infix(a, "|", b, Precedence::BitOr, Precedence::BitXor),
            (Intrin::BitNot, [a]) => {
                let a = self.typed(a).unwrap_or_else(|| self.operand(a, Precedence::Unary));
                (format!("~{a}"), Precedence::Unary)
            }
            (Intrin::Reinterpret, [a]) => {
                (format!("T.reinterpret(\"{dtype}\", {})", self.expr(a)), Precedence::Atom)
            }
            (Intrin::Abs, [a]) if dtype.is_float() => {
                (format!("T.fabs({})", self.expr(a)), Precedence::Atom)
            }
            _ => (format!("T.{}({})", ops::name_of(op), self.operands(args)), Precedence::Atom),
        }
    }
}

/// Whether a constant prints as a bare number.
fn bare(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Int { dtype: DType::I32, .. })
}

/// 32-bit integers are Python's own numbers, others carry their type.
fn int(value: i64, dtype: DType) -> (String, Precedence) {
    match dtype {
        DType::BOOL => {
            (format!("T.bool({})", if value != 0 { "True" } else { "False" }), Precedence::Atom)
        }
        DType::I32 if value < 0 => (value.to_string(), Precedence::Unary),
        DType::I32 => (value.to_string(), Precedence::Atom),
        DType::U64 => (format!("T.uint64({})", value as u64), Precedence::Atom),
        _ => (format!("T.{dtype}({value})"), Precedence::Atom),
    }
}

/// 17 significant digits, enough to read the same value back; whole numbers in full.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "\"nan\"".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "\"inf\"".into() } else { "\"-inf\"".into() };
    }
    if x.trunc() == x {
        return format!("{x:.1}");
    }
    // C's `%.17g`.
    let scientific = format!("{x:.16e}");
    let (digits, exponent) = scientific.split_once('e').expect("scientific notation");
    let exponent: i32 = exponent.parse().expect("an exponent");
    if (-4..17).contains(&exponent) {
        let fixed = format!("{x:.*}", (16 - exponent) as usize);
        return fixed.trim_end_matches('0').to_string();
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    #[test]
    fn floats_print_as_c_does() {
        let cases = [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.5, "0.5"),
            (0.1, "0.10000000000000001"),
            (std::f64::consts::FRAC_1_SQRT_2, "0.70710678118654757"),
            (1e-5, "1.0000000000000001e-05"),
            (1.5e-300, "1.5000000000000001e-300"),
            (f64::from(f32::MIN), "-340282346638528859811704183484516925440.0"),
            (123.25, "123.25"),
        ];
        for (x, text) in cases {
            assert_eq!(super::float(x), text);
        }
    }
}
