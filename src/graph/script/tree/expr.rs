//! Expressions as written: what is accepted, and their text.

use std::collections::HashMap;

use reflex_tir::script::string;
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::super::types::is_path;
use super::super::{Read, Source};
use super::{respell, unsupported};

/// Binding strength of Python's expressions, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Choice,
    Or,
    And,
    Not,
    Compare,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Unary,
    Power,
    Atom,
}

/// Refuses what TVMScript has no expression for.
pub(super) fn accept(source: Source<'_>, e: &Py) -> Read<()> {
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
        _ => unsupported(source, e),
    }
}

/// Writes expressions; `names` are written otherwise than they stand.
pub(super) struct Writer<'s> {
    pub source: Source<'s>,
    pub names: HashMap<String, String>,
}

impl Writer<'_> {
    pub fn name(&self, name: &str) -> String {
        self.names.get(name).cloned().unwrap_or_else(|| name.to_string())
    }

    pub fn expr(&self, e: &Py) -> String {
        self.at_level(e).0
    }

    pub fn exprs(&self, list: &[Py]) -> String {
        list.iter().map(|e| self.inner(e)).collect::<Vec<_>>().join(", ")
    }

    /// An expression among others: a tuple keeps its brackets.
    pub fn inner(&self, e: &Py) -> String {
        self.operand(e, Level::Choice)
    }

    fn operand(&self, e: &Py, level: Level) -> String {
        let (text, own) = self.at_level(e);
        if own >= level { text } else { format!("({text})") }
    }

    fn at_level(&self, e: &Py) -> (String, Level) {
        let atom = |text: String| (text, Level::Atom);
        match e {
            Py::Name(n) => atom(self.name(n.id.as_str())),
            Py::StringLiteral(s) => atom(literal(s.value.to_str())),
            Py::BooleanLiteral(b) => atom(if b.value { "True" } else { "False" }.to_string()),
            Py::NoneLiteral(_) => atom("None".to_string()),
            // As written: every digit counts.
            Py::NumberLiteral(_) => {
                let range = e.range();
                let text = self.source.text.get(range.start().into()..range.end().into());
                atom(text.unwrap_or("").to_string())
            }
            Py::Attribute(a) => atom(format!("{}.{}", self.operand(&a.value, Level::Atom), a.attr)),
            Py::Call(call) => atom(self.call(call)),
            Py::Tuple(t) => match &t.elts[..] {
                [] => atom("()".to_string()),
                [one] => atom(format!("({},)", self.inner(one))),
                list => atom(format!("({})", self.exprs(list))),
            },
            Py::List(l) => atom(format!("[{}]", self.exprs(&l.elts))),
            Py::Dict(d) => {
                let items = d.items.iter().map(|item| {
                    let key = item.key.as_ref().map_or(String::new(), |key| self.inner(key));
                    format!("{key}: {}", self.inner(&item.value))
                });
                atom(format!("{{{}}}", items.collect::<Vec<_>>().join(", ")))
            }
            Py::Subscript(s) => {
                let index = match &*s.slice {
                    Py::Tuple(t) if t.elts.len() > 1 => self.exprs(&t.elts),
                    one => self.inner(one),
                };
                atom(format!("{}[{index}]", self.operand(&s.value, Level::Atom)))
            }
            Py::Slice(s) => {
                let part =
                    |e: &Option<Box<Py>>| e.as_ref().map_or(String::new(), |e| self.inner(e));
                let step = s.step.as_ref().map_or(String::new(), |e| format!(":{}", self.inner(e)));
                atom(format!("{}:{}{step}", part(&s.lower), part(&s.upper)))
            }
            Py::UnaryOp(u) => {
                let (sign, level) = match u.op {
                    ast::UnaryOp::Not => ("not ", Level::Not),
                    ast::UnaryOp::USub => ("-", Level::Unary),
                    ast::UnaryOp::UAdd => ("+", Level::Unary),
                    ast::UnaryOp::Invert => ("~", Level::Unary),
                };
                (format!("{sign}{}", self.operand(&u.operand, level)), level)
            }
            Py::BinOp(b) => {
                let (left, level, right) = strength(b.op);
                let (x, y) = (self.operand(&b.left, left), self.operand(&b.right, right));
                (format!("{x} {} {y}", b.op.as_str()), level)
            }
            Py::BoolOp(b) => {
                let (word, level, inner) = match b.op {
                    ast::BoolOp::And => (" and ", Level::And, Level::Not),
                    ast::BoolOp::Or => (" or ", Level::Or, Level::And),
                };
                let parts = b.values.iter().map(|e| self.operand(e, inner));
                (parts.collect::<Vec<_>>().join(word), level)
            }
            Py::Compare(c) => {
                let mut text = self.operand(&c.left, Level::BitOr);
                for (op, e) in c.ops.iter().zip(&c.comparators) {
                    text += &format!(" {} {}", op.as_str(), self.operand(e, Level::BitOr));
                }
                (text, Level::Compare)
            }
            Py::If(i) => {
                let (then, test) =
                    (self.operand(&i.body, Level::Or), self.operand(&i.test, Level::Or));
                (format!("{then} if {test} else {}", self.inner(&i.orelse)), Level::Choice)
            }
            // Nothing else is accepted.
            _ => atom(self.source.shown(e)),
        }
    }

    fn call(&self, call: &ast::ExprCall) -> String {
        let is_type = ["R.Tensor", "R.Shape"].iter().any(|name| is_path(&call.func, name));
        let args = call.arguments.args.iter().map(|e| match is_type {
            true => respell::dims(self, e),
            false => self.inner(e),
        });
        let keywords = call.arguments.keywords.iter().map(|k| {
            let name = k.arg.as_ref().map_or("", |name| name.as_str());
            match (name, &k.value) {
                ("ty_args", Py::Tuple(t)) => {
                    format!("ty_args=({},)", respell::fields(self, &t.elts))
                }
                (_, value) => format!("{name}={}", self.inner(value)),
            }
        });
        let list: Vec<String> = args.chain(keywords).collect();
        format!("{}({})", self.operand(&call.func, Level::Atom), list.join(", "))
    }
}

/// Strength asked of the left operand, own strength, strength asked of the right one.
fn strength(op: ast::Operator) -> (Level, Level, Level) {
    let left = |level, above| (level, level, above);
    match op {
        ast::Operator::BitOr => left(Level::BitOr, Level::BitXor),
        ast::Operator::BitXor => left(Level::BitXor, Level::BitAnd),
        ast::Operator::BitAnd => left(Level::BitAnd, Level::Shift),
        ast::Operator::LShift | ast::Operator::RShift => left(Level::Shift, Level::Sum),
        ast::Operator::Add | ast::Operator::Sub => left(Level::Sum, Level::Product),
        ast::Operator::Mult
        | ast::Operator::MatMult
        | ast::Operator::Div
        | ast::Operator::Mod
        | ast::Operator::FloorDiv => left(Level::Product, Level::Unary),
        ast::Operator::Pow => (Level::Atom, Level::Power, Level::Unary),
    }
}

/// A string literal; one of many lines keeps them.
fn literal(text: &str) -> String {
    if !text.contains('\n') || text.contains("\"\"\"") || text.ends_with('"') {
        return string(text);
    }
    format!("\"\"\"{}\"\"\"", text.replace('\\', "\\\\"))
}
