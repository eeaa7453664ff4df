//! Symbolic dimensions as Python expressions, with the parentheses that precedence needs.

use reflex_tir::{BinOp, CmpOp, DType, Expr, ExprKind, Intrin, Var};

use reflex_tir::script::float;

/// Binding strength, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Compare,
    Sum,
    Product,
    Unary,
    Atom,
}

/// How variables are called.
pub(super) struct DimText<'a>(pub &'a dyn Fn(Var) -> String);

impl DimText<'_> {
    pub fn text(&self, e: &Expr) -> String {
        self.at_level(e).0
    }

    fn operand(&self, e: &Expr, level: Level) -> String {
        let (text, own) = self.at_level(e);
        if own >= level { text } else { format!("({text})") }
    }

    fn infix(&self, a: &Expr, op: &str, b: &Expr, own: Level, sides: (Level, Level)) -> Text {
        (format!("{} {op} {}", self.operand(a, sides.0), self.operand(b, sides.1)), own)
    }

    fn call(&self, name: &str, args: &[&Expr]) -> Text {
        let args: Vec<String> = args.iter().map(|e| self.text(e)).collect();
        (format!("T.{name}({})", args.join(", ")), Level::Atom)
    }

    fn at_level(&self, e: &Expr) -> Text {
        match e.kind() {
            ExprKind::Int { value, dtype } => integer(*value, *dtype),
            ExprKind::Float { bits, dtype } => {
                (format!("T.{dtype}({})", float(f64::from_bits(*bits))), Level::Atom)
            }
            ExprKind::Var { var, .. } => ((self.0)(*var), Level::Atom),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b),
            ExprKind::Compare { op, a, b } => {
                let sides = (Level::Sum, Level::Sum);
                self.infix(a, compare_text(*op), b, Level::Compare, sides)
            }
            ExprKind::And(a, b) => self.infix(a, "and", b, Level::And, (Level::And, Level::Not)),
            ExprKind::Or(a, b) => self.infix(a, "or", b, Level::Or, (Level::Or, Level::And)),
            ExprKind::Not(a) => (format!("not {}", self.operand(a, Level::Not)), Level::Not),
            ExprKind::Select { cond, on_true, on_false } => {
                self.call("Select", &[cond, on_true, on_false])
            }
            ExprKind::Cast { dtype, value } => {
                (format!("T.Cast(\"{dtype}\", {})", self.text(value)), Level::Atom)
            }
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
                self.call("if_then_else", &args.iter().collect::<Vec<_>>())
            }
            // The verifier admits neither in a dimension; show them as what they are.
            ExprKind::Call { .. } | ExprKind::Load { .. } => (format!("{e:?}"), Level::Atom),
        }
    }

    fn binary(&self, op: BinOp, a: &Expr, b: &Expr) -> Text {
        let sum = (Level::Sum, Level::Product);
        let product = (Level::Product, Level::Unary);
        match (op, b.as_int()) {
            (BinOp::Add, Some(value)) if value < 0 && value > i64::MIN => {
                self.infix(a, "-", &Expr::int(-value, b.dtype()), Level::Sum, sum)
            }
            (BinOp::Add, _) => self.infix(a, "+", b, Level::Sum, sum),
            (BinOp::Sub, _) => self.infix(a, "-", b, Level::Sum, sum),
            (BinOp::Mul, _) => self.infix(a, "*", b, Level::Product, product),
            (BinOp::FloorDiv, _) => self.infix(a, "//", b, Level::Product, product),
            (BinOp::FloorMod, _) => self.infix(a, "%", b, Level::Product, product),
            (BinOp::Div, _) => self.call("truncdiv", &[a, b]),
            (BinOp::Mod, _) => self.call("truncmod", &[a, b]),
            (BinOp::Min, _) => self.call("min", &[a, b]),
            (BinOp::Max, _) => self.call("max", &[a, b]),
        }
    }
}

type Text = (String, Level);

/// Dimensions are int64, so that type goes without saying.
fn integer(value: i64, dtype: DType) -> Text {
    match dtype {
        DType::I64 if value < 0 => (value.to_string(), Level::Unary),
        DType::I64 => (value.to_string(), Level::Atom),
        DType::BOOL => {
            let text = if value != 0 { "True" } else { "False" };
            (format!("T.bool({text})"), Level::Atom)
        }
        DType::U64 => (format!("T.uint64({})", value as u64), Level::Atom),
        _ => (format!("T.{dtype}({value})"), Level::Atom),
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
