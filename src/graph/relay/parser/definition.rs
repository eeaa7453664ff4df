//! Modules, type definitions, functions, attributes.

use super::Parser;
use crate::relay::ast::{
    Attr, AttrValue, ConstructorDef, Def, Function, MetaRef, Param, RelayModule, TypeDef,
};
use crate::relay::lex::Token;
use crate::relay::number::{Number, is_not_finite};
use crate::relay::source::Result;

/// The version of the text format, of all TVM releases that had Relay.
const VERSION: &str = "version = \"0.0.5\"";

impl Parser<'_> {
    pub(super) fn module(&mut self) -> Result<RelayModule> {
        let mut module = RelayModule::default();
        match self.peek().clone() {
            Token::Section(text) if text == VERSION => {
                self.advance();
            }
            _ => return self.expected(&format!("`#[{VERSION}]`")),
        }
        loop {
            match self.peek() {
                Token::End => return Ok(module),
                Token::Word(word) if word == "type" || word == "extern" => {
                    module.types.push(self.type_def()?);
                }
                Token::Word(word) if word == "def" => module.defs.push(self.def()?),
                Token::Word(word) if word == "import" || word == "free_var" => {
                    return self.refuse(self.at(), format!("`{word}` is not supported"));
                }
                _ => return self.expected("`type` or `def`"),
            }
        }
    }

    /// `type List[A] { Cons(A, List[A]), Nil, }` or `extern type Storage`
    fn type_def(&mut self) -> Result<TypeDef> {
        let at = self.at();
        let is_extern = self.accept_word("extern");
        if !self.accept_word("type") {
            return self.expected("`type`");
        }
        let name = self.word("the name of a type")?;
        let params = self.type_params()?;
        if is_extern {
            return Ok(TypeDef { at, name, params, constructors: None });
        }
        self.expect("{")?;
        let constructors = self.list("}", |p| {
            let name = p.word("the name of a constructor")?;
            let fields = if p.accept("(") { p.list(")", Self::ty)? } else { vec![] };
            Ok(ConstructorDef { name, fields })
        })?;
        Ok(TypeDef { at, name, params, constructors: Some(constructors) })
    }

    /// `[A, B]`, or nothing.
    pub(super) fn type_params(&mut self) -> Result<Vec<String>> {
        if !self.accept("[") {
            return Ok(vec![]);
        }
        self.list("]", |p| p.word("a type parameter"))
    }

    fn def(&mut self) -> Result<Def> {
        let at = self.at();
        self.advance();
        let Token::Global(name) = self.peek().clone() else {
            return self.expected("the name of a function");
        };
        self.advance();
        Ok(Def { at, name, function: self.function()? })
    }

    /// `[A](%x: A, key=1) -> A { ... }`
    pub(super) fn function(&mut self) -> Result<Function> {
        let type_params = self.type_params()?;
        self.expect("(")?;
        let (mut params, mut attrs) = (vec![], vec![]);
        self.list(")", |p| {
            match p.peek() {
                Token::Local(_) => params.push(p.param()?),
                _ => attrs.push(p.attr()?),
            }
            Ok(())
        })?;
        let result = if self.accept("->") { Some(self.ty()?) } else { None };
        let body = self.block()?;
        Ok(Function { type_params, params, attrs, result, body })
    }

    /// `%x: T`
    pub(super) fn param(&mut self) -> Result<Param> {
        let at = self.at();
        let name = self.local()?;
        let ty = if self.accept(":") { Some(self.ty()?) } else { None };
        Ok(Param { at, name, ty })
    }

    /// `name=value`
    pub(super) fn attr(&mut self) -> Result<Attr> {
        let at = self.at();
        let name = match self.peek().clone() {
            Token::Str(name) => {
                self.advance();
                name
            }
            _ => self.word("an attribute")?,
        };
        self.expect("=")?;
        Ok(Attr { at, name, value: self.nested(Self::attr_value)? })
    }

    fn attr_value(&mut self) -> Result<AttrValue> {
        if self.accept("[") {
            return Ok(AttrValue::List(self.list("]", |p| p.nested(Self::attr_value))?));
        }
        if let Some(number) = self.accept_number()? {
            return Ok(AttrValue::Number(number));
        }
        let value = match self.peek().clone() {
            Token::Str(text) => AttrValue::Str(text),
            Token::Word(word) => match word.as_str() {
                "True" => AttrValue::Bool(true),
                "False" => AttrValue::Bool(false),
                "None" => AttrValue::None,
                "meta" => return Ok(AttrValue::Meta(self.meta_ref()?)),
                _ => return self.expected("the value of an attribute"),
            },
            _ => return self.expected("the value of an attribute"),
        };
        self.advance();
        Ok(value)
    }

    /// A number with its sign.
    pub(super) fn accept_number(&mut self) -> Result<Option<String>> {
        let negative = *self.peek() == Token::Sign("-");
        let digits = match if negative { self.peek_second() } else { self.peek() } {
            Token::Number(digits) => digits.clone(),
            Token::Word(word) if is_not_finite(word) => word.clone(),
            _ => return Ok(None),
        };
        let at = self.at();
        if negative {
            self.advance();
        }
        self.advance();
        let text = if negative { format!("-{digits}") } else { digits };
        match Number::read(&text) {
            Ok(_) => Ok(Some(text)),
            Err(message) => self.refuse(at, message),
        }
    }

    /// `meta[relay.Constant][0]`
    pub(super) fn meta_ref(&mut self) -> Result<MetaRef> {
        self.advance();
        self.expect("[")?;
        let key = self.word("the type of a metadata entry")?;
        self.expect("]")?;
        self.expect("[")?;
        let index = match self.peek() {
            Token::Number(digits) => digits.parse().ok(),
            _ => None,
        };
        let Some(index) = index else { return self.expected("the number of a metadata entry") };
        self.advance();
        self.expect("]")?;
        Ok(MetaRef { key, index })
    }
}
