//! Types and patterns.

use super::Parser;
use crate::relay::ast::{Dim, Pattern, PatternKind, Type, TypeKind};
use crate::relay::lex::Token;
use crate::relay::number::is_element_type;
use crate::relay::source::Result;

impl Parser<'_> {
    /// A type.
    pub(super) fn ty(&mut self) -> Result<Type> {
        let at = self.at();
        let kind = self.nested(Self::type_kind)?;
        Ok(Type { at, kind })
    }

    fn type_kind(&mut self) -> Result<TypeKind> {
        if self.accept("(") {
            return Ok(TypeKind::Tuple(self.list(")", Self::ty)?));
        }
        let at = self.at();
        let name = self.word("a type")?;
        match name.as_str() {
            "_" => Ok(TypeKind::Unknown),
            "fn" => {
                let params = self.type_params()?;
                self.expect("(")?;
                let args = self.list(")", Self::ty)?;
                self.expect("->")?;
                Ok(TypeKind::Function(params, args, Box::new(self.ty()?)))
            }
            "Tensor" => self.tensor_type(),
            "ref" => self.refuse(at, "references are not supported: pass values on instead"),
            _ if is_element_type(&name) => Ok(TypeKind::Tensor(vec![], name)),
            _ if self.accept("[") => Ok(TypeKind::Apply(name, self.list("]", Self::ty)?)),
            _ => Ok(TypeKind::Name(name)),
        }
    }

    /// `[(1, ?), float32]`, after `Tensor`.
    fn tensor_type(&mut self) -> Result<TypeKind> {
        self.expect("[")?;
        self.expect("(")?;
        let dims = self.list(")", |p| {
            if p.accept("?") {
                return Ok(Dim::Any);
            }
            match p.peek().clone() {
                Token::Word(name) => {
                    p.advance();
                    Ok(Dim::Name(name))
                }
                Token::Number(digits) => {
                    // Printers write large dimensions with a suffix.
                    let digits = digits.strip_suffix("i64").unwrap_or(&digits);
                    let Ok(extent) = digits.parse() else { return p.expected("a dimension") };
                    p.advance();
                    Ok(Dim::Const(extent))
                }
                _ => p.expected("a dimension"),
            }
        })?;
        self.expect(",")?;
        let at = self.at();
        let dtype = self.word("an element type")?;
        if !is_element_type(&dtype) {
            return self.refuse(at, format!("`{dtype}` is not an element type"));
        }
        self.expect("]")?;
        Ok(TypeKind::Tensor(dims, dtype))
    }

    /// A pattern.
    pub(super) fn pattern(&mut self) -> Result<Pattern> {
        let at = self.at();
        let kind = self.nested(|p| match p.peek().clone() {
            Token::Local(_) => Ok(PatternKind::Var(p.param()?)),
            Token::Word(word) => {
                p.advance();
                if word == "_" {
                    return Ok(PatternKind::Wildcard);
                }
                let fields = if p.accept("(") { p.list(")", Self::pattern)? } else { vec![] };
                Ok(PatternKind::Constructor(word, fields))
            }
            Token::Sign("(") => {
                p.advance();
                Ok(PatternKind::Tuple(p.list(")", Self::pattern)?))
            }
            _ => p.expected("a pattern"),
        })?;
        Ok(Pattern { at, kind })
    }
}
