//! Symbolic dimensions as Python expressions, with the parentheses that precedence needs.

use reflex_tir::script::{Precedence, float};
use reflex_tir::{BinOp, CmpOp, DType, Expr, ExprKind, Intrin, Var};

/// The precedence that each operand of an infix operator needs to go without parentheses.
#[derive(Clone, Copy)]
struct Sides {
    left: Precedence,
    right: Precedence,
}

impl Sides {
    fn new(left: Precedence, right: Precedence) -> Sides {
        Sides { left, right }
    }
}

/// Prints dimensions; the function gives the names of variables.
pub(crate) struct DimPrinter<'a>(pub &'a dyn Fn(Var) -> String);

impl DimPrinter<'_> {
    pub fn text(&self, e: &Expr) -> String {
        self.with_precedence(e).0
    }

    fn operand(&self, e: &Expr, level: Precedence) -> String {
        let (text, own) = self.with_precedence(e);
        if own >= level { text } else { format!("({text})") }
    }

    fn infix(&self, a: &Expr, op: &str, b: &Expr, own: Precedence, sides: Sides) -> Text {
        (format!("{} {op} {}", self.operand(a, sides.left), self.operand(b, sides.right)), own)
    }

    fn call(&self, name: &str, args: &[&Expr]) -> Text {
        let args: Vec<String> = args.iter().map(|e| self.text(e)).collect();
        (format!("T.{name}({})", args.join(", ")), Precedence::Atom)
    }

    fn with_precedence(&self, e: &Expr) -> Text {
        match e.kind() {
            ExprKind::Int { value, dtype } => integer(*value, *dtype),
            ExprKind::Float { bits, dtype } => {
                (format!("T.{dtype}({})", float(f64::from_bits(*bits))), Precedence::Atom)
            }
            ExprKind::Var { var, .. } => ((self.0)(*var), Precedence::Atom),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b),
            ExprKind::Compare { op, a, b } => {
                let sides = Sides::new(Precedence::Sum, Precedence::Sum);
                self.infix(a, compare_text(*op), b, Precedence::Compare, sides)
            }
            ExprKind::And(a, b) => self.infix(
                a,
                "and",
                b,
                Precedence::And,
                Sides::new(Precedence::And, Precedence::Not),
            ),
            ExprKind::Or(a, b) => {
                self.infix(a, "or", b, Precedence::Or, Sides::new(Precedence::Or, Precedence::And))
            }
            ExprKind::Not(a) => {
                (format!("not {}", self.operand(a, Precedence::Not)), Precedence::Not)
            }
            ExprKind::Select { cond, on_true, on_false } => {
                self.call("Select", &[cond, on_true, on_false])
            }
            ExprKind::Cast { dtype, value } => {
                (format!("T.Cast(\"{dtype}\", {})", self.text(value)), Precedence::Atom)
            }
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
                self.call("if_then_else", &args.iter().collect::<Vec<_>>())
            }
            // The verifier admits neither in a dimension; show the debug form.
            ExprKind::Call { .. } | ExprKind::Load { .. } => (format!("{e:?}"), Precedence::Atom),
        }
    }

    fn binary(&self, op: BinOp, a: &Expr, b: &Expr) -> Text {
        let sum = Sides::new(Precedence::Sum, Precedence::Product);
        let product = Sides::new(Precedence::Product, Precedence::Unary);
        match (op, b.as_int()) {
            (BinOp::Add, Some(value)) if value < 0 && value > i64::MIN => {
                self.infix(a, "-", &Expr::int(-value, b.dtype()), Precedence::Sum, sum)
            }
            (BinOp::Add, _) => self.infix(a, "+", b, Precedence::Sum, sum),
            (BinOp::Sub, _) => self.infix(a, "-", b, Precedence::Sum, sum),
            (BinOp::Mul, _) => self.infix(a, "*", b, Precedence::Product, product),
            (BinOp::FloorDiv, _) => self.infix(a, "//", b, Precedence::Product, product),
            (BinOp::FloorMod, _) => self.infix(a, "%", b, Precedence::Product, product),
            (BinOp::Div, _) => self.call("truncdiv", &[a, b]),
            (BinOp::Mod, _) => self.call("truncmod", &[a, b]),
            (BinOp::Min, _) => self.call("min", &[a, b]),
            (BinOp::Max, _) => self.call("max", &[a, b]),
        }
    }
}

type Text = (String, Precedence);

/// Dimensions are int64, so that type goes without saying.
fn integer(value: i64, dtype: DType) -> Text {
    match dtype {
        DType::I64 if value < 0 => (value.to_string(), Precedence::Unary),
        DType::I64 => (value.to_string(), Precedence::Atom),
        DType::BOOL => {
            let text = if value != 0 { "True" } else { "False" };
            (format!("T.bool({text})"), Precedence::Atom)
        }
        DType::U64 => (format!("T.uint64({})", value as u64), Precedence::Atom),
        _ => (format!("T.{dtype}({value})"), Precedence::Atom),
    }
}

fn compare_text(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => "==",
        CmpOp::Ne => "!=",
        CmpOp::Lt => "<",
        CmpOp::Le => "<=",
        CmpOp::Gt => ">",
        CmpOp::Ge => ">=",
    }
}
