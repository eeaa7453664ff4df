//! Blocks and expressions.

use super::{DEPTH_LIMIT, Parser};
use crate::relay::ast::{Arm, Binding, Block, Expr, ExprKind, Param};
use crate::relay::lex::Token;
use crate::relay::source::{Offset, Result};

/// Binary operators by how tightly they bind, and the operator that each stands for.
const INFIX: [(&str, u8, &str); 10] = [
    ("==", 1, "equal"),
    ("!=", 1, "not_equal"),
    ("<", 2, "less"),
    ("<=", 2, "less_equal"),
    (">", 2, "greater"),
    (">=", 2, "greater_equal"),
    ("+", 3, "add"),
    ("-", 3, "subtract"),
    ("*", 4, "multiply"),
    ("/", 4, "divide"),
];

impl Parser<'_> {
    /// `{ let %x = a; %0 = b; c }`
    pub(super) fn block(&mut self) -> Result<Block> {
        self.expect("{")?;
        let block = self.nested(Self::bindings)?;
        self.expect("}")?;
        Ok(block)
    }

    fn bindings(&mut self) -> Result<Block> {
        let mut bindings = vec![];
        loop {
            let is_let = self.accept_word("let");
            let named =
                matches!(self.peek(), Token::Local(_)) && *self.peek_second() == Token::Sign("=");
            if !is_let && !named {
                return Ok(Block { bindings, result: self.expr()? });
            }
            let var: Param = self.param()?;
            self.expect("=")?;
            let value = self.expr()?;
            self.expect(";")?;
            bindings.push(Binding { is_let, var, value });
        }
    }

    /// An expression.
    pub(super) fn expr(&mut self) -> Result<Expr> {
        let around = std::mem::take(&mut self.height);
        let e = self.nested(|p| p.infix(0))?;
        self.enclose(e.at)?;
        self.height = self.height.max(around);
        Ok(e)
    }

    /// An expression of operators that bind more tightly than `least`.
    fn infix(&mut self, least: u8) -> Result<Expr> {
        let mut left = self.postfix()?;
        loop {
            let Token::Sign(sign) = self.peek() else { return Ok(left) };
            let found = INFIX.iter().find(|(name, level, _)| name == sign && *level > least);
            let Some((_, level, op)) = found else { return Ok(left) };
            let at = self.at();
            self.advance();
            let right = self.nested(|p| p.infix(*level))?;
            let callee = Box::new(Expr { at, kind: ExprKind::Name((*op).to_string()) });
            let kind = ExprKind::Call { callee, args: vec![left, right], attrs: vec![] };
            left = Expr { at, kind };
            self.enclose(at)?;
        }
    }

    /// Calls and projections after an expression.
    fn postfix(&mut self) -> Result<Expr> {
        let mut e = self.primary()?;
        loop {
            let at = e.at;
            if self.accept("(") {
                e = self.call(at, e)?;
            } else if *self.peek() == Token::Sign(".") {
                self.advance();
                e = self.projections(at, e)?;
            } else {
                return Ok(e);
            }
            self.enclose(at)?;
        }
    }

    /// Counts a call, a projection or an operator after what is read so far, which it encloses.
    fn enclose(&mut self, at: Offset) -> Result<()> {
        self.height += 1;
        match self.height > DEPTH_LIMIT {
            true => self.refuse(at, format!("nested more than {DEPTH_LIMIT} levels deep")),
            false => Ok(()),
        }
    }

    /// `0` or `0.1`, after a dot.
    fn projections(&mut self, at: Offset, mut e: Expr) -> Result<Expr> {
        let Token::Number(digits) = self.peek().clone() else {
            return self.expected("the number of a field");
        };
        for part in digits.split('.') {
            let Ok(index) = part.parse() else { return self.expected("the number of a field") };
            e = Expr { at, kind: ExprKind::Project(Box::new(e), index) };
            self.enclose(at)?;
        }
        self.advance();
        Ok(e)
    }

    fn call(&mut self, at: Offset, callee: Expr) -> Result<Expr> {
        let (mut args, mut attrs) = (vec![], vec![]);
        self.list(")", |p| {
            let named = matches!(p.peek(), Token::Word(_) | Token::Str(_))
                && *p.peek_second() == Token::Sign("=");
            if named {
                attrs.push(p.attr()?);
            } else {
                args.push(p.expr()?);
            }
            Ok(())
        })?;
        Ok(Expr { at, kind: ExprKind::Call { callee: Box::new(callee), args, attrs } })
    }

    fn primary(&mut self) -> Result<Expr> {
        let at = self.at();
        if let Some(number) = self.accept_number()? {
            return Ok(Expr { at, kind: ExprKind::Number(number) });
        }
        let kind = match self.peek().clone() {
            Token::Local(name) => {
                self.advance();
                ExprKind::Var(name)
            }
            Token::Global(name) => {
                self.advance();
                ExprKind::Global(name)
            }
            Token::Sign("(") => return self.tuple(at),
            Token::Sign("{") => ExprKind::Block(Box::new(self.block()?)),
            Token::Word(word) => return self.word_expr(at, &word),
            _ => return self.expected("an expression"),
        };
        Ok(Expr { at, kind })
    }

    fn word_expr(&mut self, at: Offset, word: &str) -> Result<Expr> {
        if word == "meta" {
            return Ok(Expr { at, kind: ExprKind::Meta(self.meta_ref()?) });
        }
        self.advance();
        let kind = match word {
            "True" | "False" => ExprKind::Bool(word == "True"),
            "fn" => ExprKind::Function(Box::new(self.function()?)),
            "if" => {
                self.expect("(")?;
                let cond = self.expr()?;
                self.expect(")")?;
                let then = self.block()?;
                if !self.accept_word("else") {
                    return self.expected("`else`");
                }
                ExprKind::If(Box::new(cond), Box::new(then), Box::new(self.block()?))
            }
            "match" => self.match_expr()?,
            "ref" | "ref_read" | "ref_write" => {
                let text = format!("`{word}`: references are not supported");
                return self.refuse(at, format!("{text}; pass values on instead"));
            }
            "let" => return self.refuse(at, "`let` belongs into a block"),
            _ => ExprKind::Name(word.to_string()),
        };
        Ok(Expr { at, kind })
    }

    /// `(e) { p => { a }, q => { b }, }`, after `match`; `match?` may be incomplete.
    fn match_expr(&mut self) -> Result<ExprKind> {
        let complete = !self.accept("?");
        self.expect("(")?;
        let value = Box::new(self.expr()?);
        self.expect(")")?;
        self.expect("{")?;
        let arms = self.list("}", |p| {
            let pattern = p.pattern()?;
            p.expect("=>")?;
            let braces = *p.peek() == Token::Sign("{");
            let body = match braces {
                true => p.block()?,
                false => Block { bindings: vec![], result: p.expr()? },
            };
            Ok(Arm { pattern, body })
        })?;
        Ok(ExprKind::Match { value, complete, arms })
    }

    /// `()`, `(a,)`, `(a, b)`, or an expression in brackets.
    fn tuple(&mut self, at: Offset) -> Result<Expr> {
        self.advance();
        if self.accept(")") {
            return Ok(Expr { at, kind: ExprKind::Tuple(vec![]) });
        }
        let first = self.expr()?;
        if self.accept(")") {
            return Ok(first);
        }
        self.expect(",")?;
        let mut items = vec![first];
        items.extend(self.list(")", Self::expr)?);
        Ok(Expr { at, kind: ExprKind::Tuple(items) })
    }
}
