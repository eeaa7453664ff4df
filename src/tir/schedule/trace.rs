//! The steps taken, as text.

use super::state::Schedule;
use super::tree;
use crate::{BinOp, CmpOp, Expr, ExprKind, Var};

impl Schedule {
    /// The trace: the primitives applied so far, in order.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// Records a step.
    pub(super) fn note(&mut self, step: String) {
        self.steps.push(step);
        self.labels = tree::labels(&self.func);
    }

    /// The label of a variable: its name, or for a loop that shares its name, what is in it too.
    pub(super) fn name(&self, var: Var) -> &str {
        let plain = || self.func.vars.get(var).map_or("?", |v| &v.name);
        self.labels.get(&var).map(String::as_str).unwrap_or_else(plain)
    }

    /// The labels of variables, with commas; a block that all of them name appears once.
    pub(super) fn names(&self, vars: &[Var]) -> String {
        let names: Vec<&str> = vars.iter().map(|v| self.name(*v)).collect();
        let apart: Option<Vec<_>> = names.iter().map(|name| name.split_once(" of ")).collect();
        match apart.as_deref() {
            Some([(_, block), others @ ..]) if others.iter().all(|(_, b)| b == block) => {
                let loops: Vec<&str> =
                    names.iter().map(|n| n.split(' ').next().unwrap_or(n)).collect();
                format!("{} of {block}", loops.join(", "))
            }
            _ => names.join(", "),
        }
    }

    /// An integer expression or a comparison of such, types left out.
    pub(super) fn text(&self, e: &Expr) -> String {
        let operand = |e: &Expr| match e.kind() {
            ExprKind::Int { .. } | ExprKind::Var { .. } | ExprKind::Load { .. } => self.text(e),
            ExprKind::Binary { op: BinOp::Min | BinOp::Max, .. } => self.text(e),
            _ => format!("({})", self.text(e)),
        };
        match e.kind() {
            ExprKind::Int { value, .. } => value.to_string(),
            ExprKind::Var { var, .. } => self.name(*var).to_string(),
            ExprKind::Binary { op, a, b } => {
                let symbol = match op {
                    BinOp::Add => "+",
                    BinOp::Sub => "-",
                    BinOp::Mul => "*",
                    BinOp::Div => "/",
                    BinOp::Mod => "%",
                    BinOp::FloorDiv => "//",
                    BinOp::FloorMod => "%%",
                    BinOp::Min => return format!("min({}, {})", self.text(a), self.text(b)),
                    BinOp::Max => return format!("max({}, {})", self.text(a), self.text(b)),
                };
                format!("{} {symbol} {}", operand(a), operand(b))
            }
            ExprKind::Compare { op, a, b } => {
                let symbol = match op {
                    CmpOp::Lt => "<",
                    CmpOp::Le => "<=",
                    CmpOp::Gt => ">",
                    CmpOp::Ge => ">=",
                    CmpOp::Eq => "==",
                    CmpOp::Ne => "!=",
                };
                format!("{} {symbol} {}", self.text(a), self.text(b))
            }
            ExprKind::Load { buffer, indices, .. } => {
                let at: Vec<String> = indices.iter().map(|i| self.text(i)).collect();
                format!("{}[{}]", self.func.buffers[*buffer].name, at.join(", "))
            }
            _ => format!("{e:?}"),
        }
    }
}
