//! Expressions as written: what is accepted, and their text.

use std::collections::HashMap;

use reflex_tir::script::{Precedence, string};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::{tvm_compat, unsupported};
use crate::script::source::{Result, Source};
use crate::script::types::is_path;

/// Refuses what TVMScript has no expression for.
pub(super) fn accept(source: Source<'_>, e: &Py) -> Result<()> {
    let all = |list: &[Py]| list.iter().try_for_each(|e| accept(source, e));
    let some = |e: &Option<Box<Py>>| e.iter().try_for_each(|e| accept(source, e));
    match e {
        Py::Name(_)
        | Py::StringLiteral(_)
        | Py::NumberLiteral(_)
        | Py::BooleanLiteral(_)
        | Py::NoneLiteral(_) => Ok(()),
        Py::Attribute(a) => accept(source, &a.value),
        Py::Call(call) => {
            accept(source, &call.func)?;
            all(&call.arguments.args)?;
            call.arguments.keywords.iter().try_for_each(|k| match k.arg {
                Some(_) => accept(source, &k.value),
                None => unsupported(source, k),
            })
        }
        Py::Tuple(t) => all(&t.elts),
        Py::List(l) => all(&l.elts),
        Py::Dict(d) => d.items.iter().try_for_each(|item| match &item.key {
            Some(key) => accept(source, key).and_then(|()| accept(source, &item.value)),
            None => unsupported(source, d),
        }),
        Py::Subscript(s) => accept(source, &s.value).and_then(|()| accept(source, &s.slice)),
        Py::Slice(s) => some(&s.lower).and_then(|()| some(&s.upper)).and_then(|()| some(&s.step)),
        Py::UnaryOp(u) => accept(source, &u.operand),
        Py::BinOp(b) => accept(source, &b.left).and_then(|()| accept(source, &b.right)),
        Py::BoolOp(b) => all(&b.values),
        Py::Compare(c) => accept(source, &c.left).and_then(|()| all(&c.comparators)),
        Py::If(i) => [&i.test, &i.body, &i.orelse].into_iter().try_for_each(|e| accept(source, e)),
        Py::Lambda(l) if lambda_names(l).is_some() => accept(source, &l.body),
        _ => unsupported(source, e),
    }
}

/// The parameters of a lambda that has plain ones alone, as index maps do.
fn lambda_names(lambda: &ast::ExprLambda) -> Option<Vec<&str>> {
    let Some(params) = &lambda.parameters else { return Some(vec![]) };
    let plain = params.posonlyargs.is_empty()
        && params.kwonlyargs.is_empty()
        && params.vararg.is_none()
        && params.kwarg.is_none()
        && params.args.iter().all(|p| p.default.is_none());
    plain.then(|| params.args.iter().map(|p| p.parameter.name.as_str()).collect())
}

/// Prints expressions, with the names in `names` replaced.
pub(super) struct ExprPrinter<'s> {
    pub source: Source<'s>,
    pub names: HashMap<String, String>,
}

impl ExprPrinter<'_> {
    pub fn name(&self, name: &str) -> String {
        self.names.get(name).cloned().unwrap_or_else(|| name.to_string())
    }

    pub fn expr(&self, e: &Py) -> String {
        self.with_precedence(e).0
    }

    pub fn exprs(&self, list: &[Py]) -> String {
        list.iter().map(|e| self.inner(e)).collect::<Vec<_>>().join(", ")
    }

    /// An expression among others: a tuple keeps its brackets.
    pub fn inner(&self, e: &Py) -> String {
        self.operand(e, Precedence::Choice)
    }

    fn operand(&self, e: &Py, level: Precedence) -> String {
        let (text, own) = self.with_precedence(e);
        if own >= level { text } else { format!("({text})") }
    }

    fn with_precedence(&self, e: &Py) -> (String, Precedence) {
        let atom = |text: String| (text, Precedence::Atom);
        match e {
            Py::Name(n) => atom(self.name(n.id.as_str())),
            Py::StringLiteral(s) => atom(literal(s.value.to_str())),
            Py::BooleanLiteral(b) => atom(if b.value { "True" } else { "False" }.to_string()),
            Py::NoneLiteral(_) => atom("None".to_string()),
            Py::NumberLiteral(n) => atom(self.number(n)),
            Py::Attribute(a) => {
                atom(format!("{}.{}", self.operand(&a.value, Precedence::Atom), a.attr))
            }
            Py::Call(call) => atom(self.call(call)),
            Py::Tuple(t) => match &t.elts[..] {
                [] => atom("()".to_string()),
                [one] => atom(format!("({},)", self.inner(one))),
                list => atom(format!("({})", self.exprs(list))),
            },
            Py::List(l) => atom(format!("[{}]", self.exprs(&l.elts))),
            Py::Dict(d) => atom(self.dict(d)),
            Py::Subscript(s) => atom(self.subscript(s)),
            Py::Slice(s) => atom(self.slice(s)),
            Py::UnaryOp(u) => self.unary(u),
            Py::BinOp(b) => {
                let (left, own, right) = precedence(b.op);
                let (x, y) = (self.operand(&b.left, left), self.operand(&b.right, right));
                (format!("{x} {} {y}", b.op.as_str()), own)
            }
            Py::BoolOp(b) => self.bool_op(b),
            Py::Compare(c) => self.compare(c),
            Py::If(i) => {
                let then = self.operand(&i.body, Precedence::Or);
                let test = self.operand(&i.test, Precedence::Or);
                let otherwise = self.inner(&i.orelse);
                (format!("{then} if {test} else {otherwise}"), Precedence::Choice)
            }
            Py::Lambda(l) => {
                let names = lambda_names(l).unwrap_or_default();
                let names: Vec<String> = names.into_iter().map(|name| self.name(name)).collect();
                let body = self.inner(&l.body);
                (format!("lambda {}: {body}", names.join(", ")), Precedence::Choice)
            }
            // Nothing else is accepted.
            _ => atom(self.source.shown(e)),
        }
    }

    /// A number as it is written: every digit counts.
    fn number(&self, number: &ast::ExprNumberLiteral) -> String {
        let range = number.range();
        let text = self.source.text.get(range.start().into()..range.end().into());
        text.unwrap_or("").to_string()
    }

    fn dict(&self, dict: &ast::ExprDict) -> String {
        let items = dict.items.iter().map(|item| {
            let key = item.key.as_ref().map_or(String::new(), |key| self.inner(key));
            format!("{key}: {}", self.inner(&item.value))
        });
        format!("{{{}}}", items.collect::<Vec<_>>().join(", "))
    }

    fn subscript(&self, s: &ast::ExprSubscript) -> String {
        let index = match &*s.slice {
            Py::Tuple(t) if t.elts.len() > 1 => self.exprs(&t.elts),
            one => self.inner(one),
        };
        format!("{}[{index}]", self.operand(&s.value, Precedence::Atom))
    }

    fn slice(&self, s: &ast::ExprSlice) -> String {
        let part = |e: &Option<Box<Py>>| e.as_ref().map_or(String::new(), |e| self.inner(e));
        let step = s.step.as_ref().map_or(String::new(), |e| format!(":{}", self.inner(e)));
        format!("{}:{}{step}", part(&s.lower), part(&s.upper))
    }

    fn unary(&self, u: &ast::ExprUnaryOp) -> (String, Precedence) {
        let (sign, own) = match u.op {
            ast::UnaryOp::Not => ("not ", Precedence::Not),
            ast::UnaryOp::USub => ("-", Precedence::Unary),
            ast::UnaryOp::UAdd => ("+", Precedence::Unary),
            ast::UnaryOp::Invert => ("~", Precedence::Unary),
        };
        (format!("{sign}{}", self.operand(&u.operand, own)), own)
    }

    fn bool_op(&self, b: &ast::ExprBoolOp) -> (String, Precedence) {
        let (infix, own, inner) = match b.op {
            ast::BoolOp::And => (" and ", Precedence::And, Precedence::Not),
            ast::BoolOp::Or => (" or ", Precedence::Or, Precedence::And),
        };
        let parts = b.values.iter().map(|e| self.operand(e, inner));
        (parts.collect::<Vec<_>>().join(infix), own)
    }

    fn compare(&self, c: &ast::ExprCompare) -> (String, Precedence) {
        let mut text = self.operand(&c.left, Precedence::BitOr);
        for (op, e) in c.ops.iter().zip(&c.comparators) {
            text += &format!(" {} {}", op.as_str(), self.operand(e, Precedence::BitOr));
        }
        (text, Precedence::Compare)
    }

    fn call(&self, call: &ast::ExprCall) -> String {
        let is_type = ["R.Tensor", "R.Shape"].iter().any(|name| is_path(&call.func, name));
        let args = call.arguments.args.iter().map(|e| match is_type {
            true => tvm_compat::dims(self, e),
            false => self.inner(e),
        });
        let keywords = call.arguments.keywords.iter().map(|k| {
            let name = k.arg.as_ref().map_or("", |name| name.as_str());
            match (name, &k.value) {
                ("ty_args", Py::Tuple(t)) => {
                    format!("ty_args=({},)", tvm_compat::fields(self, &t.elts))
                }
                (_, value) => format!("{name}={}", self.inner(value)),
            }
        });
        let list: Vec<String> = args.chain(keywords).collect();
        format!("{}({})", self.operand(&call.func, Precedence::Atom), list.join(", "))
    }
}

/// Precedence that the left operand needs, precedence of the operator, precedence that the right
/// operand needs.
fn precedence(op: ast::Operator) -> (Precedence, Precedence, Precedence) {
    let left = |level, above| (level, level, above);
    match op {
        ast::Operator::BitOr => left(Precedence::BitOr, Precedence::BitXor),
        ast::Operator::BitXor => left(Precedence::BitXor, Precedence::BitAnd),
        ast::Operator::BitAnd => left(Precedence::BitAnd, Precedence::Shift),
        ast::Operator::LShift | ast::Operator::RShift => left(Precedence::Shift, Precedence::Sum),
        ast::Operator::Add | ast::Operator::Sub => left(Precedence::Sum, Precedence::Product),
        ast::Operator::Mult
        | ast::Operator::MatMult
        | ast::Operator::Div
        | ast::Operator::Mod
        | ast::Operator::FloorDiv => left(Precedence::Product, Precedence::Unary),
        ast::Operator::Pow => (Precedence::Atom, Precedence::Power, Precedence::Unary),
    }
}

/// A string literal; one of many lines keeps them.
fn literal(text: &str) -> String {
    if !text.contains('\n') || text.contains("\"\"\"") || text.ends_with('"') {
        return string(text);
    }
    format!("\"\"\"{}\"\"\"", text.replace('\\', "\\\\"))
}
