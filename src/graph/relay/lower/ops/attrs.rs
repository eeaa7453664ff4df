//! The attributes of a call.

use std::collections::BTreeSet;

use reflex_tir::DType;

use crate::relay::ast::{Attr, AttrValue};
use crate::relay::lower::func::Term;
use crate::relay::number::{Number, NumberValue, element_type};
use crate::relay::source::{Offset, RelayError, Result, Source};

/// A call of an operator.
pub(in crate::relay::lower) struct OpCall<'a> {
    source: Source<'a>,
    pub at: Offset,
    pub name: &'a str,
    pub args: Vec<Term>,
    attrs: &'a [Attr],
    /// Attributes that were read.
    read: BTreeSet<&'static str>,
}

impl<'a> OpCall<'a> {
    pub fn new(
        source: Source<'a>,
        at: Offset,
        name: &'a str,
        args: Vec<Term>,
        attrs: &'a [Attr],
    ) -> OpCall<'a> {
        OpCall { source, at, name, args, attrs, read: BTreeSet::new() }
    }

    /// Refuses attributes that the operator did not read.
    pub fn check_attrs(&self) -> Result<()> {
        let mut unread = self.attrs.iter().filter(|a| !self.read.contains(a.name.as_str()));
        match unread.next() {
            None => Ok(()),
            Some(attr) => {
                let text = format!("attribute `{}` of `{}` is not supported", attr.name, self.name);
                Err(self.source.refuse(attr.at, text))
            }
        }
    }

    /// An attribute that is given and not `None`.
    fn get(&mut self, name: &'static str) -> Option<&'a Attr> {
        self.read.insert(name);
        let found = self.attrs.iter().find(|attr| attr.name == name);
        found.filter(|attr| attr.value != AttrValue::None)
    }

    /// Returns true if the attribute is given and not `None`.
    pub fn has(&mut self, name: &'static str) -> bool {
        self.get(name).is_some()
    }

    /// Attributes that say again what types do.
    pub fn ignore(&mut self, names: &[&'static str]) {
        self.read.extend(names);
    }

    fn wrong(&self, attr: &Attr, want: &str) -> RelayError {
        let text = format!("attribute `{}` of `{}` is not {want}", attr.name, self.name);
        self.source.refuse(attr.at, text)
    }

    /// An error of this call.
    pub fn refuse(&self, message: &str) -> RelayError {
        self.source.refuse(self.at, format!("`{}`: {message}", self.name))
    }

    pub fn int(&mut self, name: &'static str, default: i64) -> Result<i64> {
        match self.get(name) {
            None => Ok(default),
            Some(attr) => int(&attr.value).ok_or_else(|| self.wrong(attr, "an integer")),
        }
    }

    pub fn float(&mut self, name: &'static str, default: f64) -> Result<f64> {
        match self.get(name) {
            None => Ok(default),
            Some(attr) => float(&attr.value).ok_or_else(|| self.wrong(attr, "a number")),
        }
    }

    pub fn flag(&mut self, name: &'static str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(attr) => match &attr.value {
                AttrValue::Bool(value) => Ok(*value),
                other => match int(other) {
                    Some(value @ (0 | 1)) => Ok(value == 1),
                    _ => Err(self.wrong(attr, "`True` or `False`")),
                },
            },
        }
    }

    pub fn text(&mut self, name: &'static str, default: &'a str) -> Result<&'a str> {
        match self.get(name) {
            None => Ok(default),
            Some(attr) => match &attr.value {
                AttrValue::Str(text) => Ok(text),
                _ => Err(self.wrong(attr, "a string")),
            },
        }
    }

    /// An element type; absent, empty and `void` are none.
    pub fn dtype(&mut self, name: &'static str) -> Result<Option<DType>> {
        let Some(attr) = self.get(name) else { return Ok(None) };
        match &attr.value {
            AttrValue::Str(text) if text.is_empty() || text == "void" => Ok(None),
            AttrValue::Str(text) => match element_type(text) {
                Some(dtype) => Ok(Some(dtype)),
                None => Err(self.wrong(attr, "an element type")),
            },
            _ => Err(self.wrong(attr, "an element type")),
        }
    }

    /// Integers: a list, or one.
    pub fn ints(&mut self, name: &'static str) -> Result<Option<Vec<i64>>> {
        let Some(attr) = self.get(name) else { return Ok(None) };
        let list = match &attr.value {
            AttrValue::List(items) => items.iter().map(int).collect(),
            one => int(one).map(|one| vec![one]),
        };
        list.map(Some).ok_or_else(|| self.wrong(attr, "a list of integers"))
    }

    /// Lists of integers.
    pub fn int_lists(&mut self, name: &'static str) -> Result<Vec<Vec<i64>>> {
        let Some(attr) = self.get(name) else { return Ok(vec![]) };
        let lists = match &attr.value {
            AttrValue::List(items) => items
                .iter()
                .map(|item| match item {
                    AttrValue::List(items) => items.iter().map(int).collect::<Option<Vec<i64>>>(),
                    _ => None,
                })
                .collect::<Option<_>>(),
            _ => None,
        };
        lists.ok_or_else(|| self.wrong(attr, "a list of lists of integers"))
    }

    /// Returns true if the attribute is one integer rather than a list.
    pub fn is_int(&mut self, name: &'static str) -> bool {
        self.get(name).is_some_and(|attr| int(&attr.value).is_some())
    }
}

fn int(value: &AttrValue) -> Option<i64> {
    let AttrValue::Number(text) = value else { return None };
    match Number::read(text).ok()?.value {
        NumberValue::Int(value) => Some(value),
        NumberValue::Float(value) if value.trunc() == value && value.abs() < 1e15 => {
            Some(value as i64)
        }
        NumberValue::Float(_) => None,
    }
}

fn float(value: &AttrValue) -> Option<f64> {
    let AttrValue::Number(text) = value else { return None };
    match Number::read(text).ok()?.value {
        NumberValue::Int(value) => Some(value as f64),
        NumberValue::Float(value) => Some(value),
    }
}
