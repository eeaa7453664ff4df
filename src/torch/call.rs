//! A node as its operator reads it: arguments by their names in the operator's schema.
//!
//! An argument that has its default value is left out of the file. Every other one must be read or ignored by the
//! operator; an unread one is an error.

use std::cell::RefCell;

use reflex_graph::Value;
use reflex_tir::{DType, Expr};

use crate::error::{ImportError, Result, invalid, unsupported};
use crate::value::{Number, TorchValue};

/// Arguments that say where and how tensors are kept, which is not a program's business here.
const PLACEMENT: [&str; 8] = [
    "device",
    "layout",
    "pin_memory",
    "memory_format",
    "non_blocking",
    "copy",
    "requires_grad",
    "implicit",
];

/// A call of an operator.
pub(crate) struct Call {
    args: Vec<(String, TorchValue)>,
    seen: RefCell<Vec<bool>>,
}

impl Call {
    /// A call with its arguments.
    pub(crate) fn new(args: Vec<(String, TorchValue)>) -> Call {
        let seen = RefCell::new(vec![false; args.len()]);
        Call { args, seen }
    }

    /// Returns true if an argument is given and is not none.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.args.iter().any(|(known, value)| known == name && !matches!(value, TorchValue::None))
    }

    /// An argument that is given.
    pub(crate) fn get(&self, name: &str) -> Option<&TorchValue> {
        let at = self.args.iter().position(|(known, _)| known == name)?;
        self.seen.borrow_mut()[at] = true;
        match &self.args[at].1 {
            TorchValue::None => None,
            value => Some(value),
        }
    }

    /// Accepts arguments that have no effect in this use.
    pub(crate) fn ignore(&self, names: &[&str]) {
        for name in names {
            self.get(name);
        }
    }

    /// Checks that every argument was asked for.
    pub(crate) fn check(&self) -> Result<()> {
        self.ignore(&PLACEMENT);
        let seen = self.seen.borrow();
        let unread = self
            .args
            .iter()
            .zip(&*seen)
            .find(|((_, value), seen)| !**seen && !matches!(value, TorchValue::None));
        match unread {
            None => Ok(()),
            Some(((name, _), _)) => {
                Err(unsupported(format!("argument `{name}` is not supported here")))
            }
        }
    }

    /// The arguments in order.
    pub(crate) fn positional(&self) -> Vec<&TorchValue> {
        self.seen.borrow_mut().fill(true);
        self.args.iter().map(|(_, value)| value).collect()
    }

    /// An optional tensor.
    pub(crate) fn opt(&self, name: &str) -> Result<Option<Value>> {
        match self.get(name) {
            None => Ok(None),
            Some(TorchValue::Tensor(value)) => Ok(Some(*value)),
            Some(_) => Err(invalid(format!("argument `{name}` is no tensor"))),
        }
    }

    /// A tensor.
    pub(crate) fn tensor(&self, name: &str) -> Result<Value> {
        self.opt(name)?.ok_or_else(|| missing(name))
    }

    /// The first of several names that a tensor may have.
    pub(crate) fn tensor_of(&self, names: &[&str]) -> Result<Value> {
        let name = names.iter().find(|name| self.has(name)).unwrap_or(&names[0]);
        self.tensor(name)
    }

    /// A list of tensors, none of them left out.
    pub(crate) fn tensors(&self, name: &str) -> Result<Vec<Value>> {
        let list = self.opt_tensors(name)?;
        let list: Option<Vec<Value>> = list.into_iter().collect();
        list.ok_or_else(|| invalid(format!("a tensor of `{name}` is missing")))
    }

    /// A list of tensors of which some may be left out.
    pub(crate) fn opt_tensors(&self, name: &str) -> Result<Vec<Option<Value>>> {
        match self.get(name) {
            Some(TorchValue::Tensors(list)) => Ok(list.clone()),
            Some(TorchValue::Numbers(list)) if list.is_empty() => Ok(vec![]),
            Some(_) => Err(invalid(format!("argument `{name}` is no list of tensors"))),
            None => Err(missing(name)),
        }
    }

    /// A number.
    pub(crate) fn opt_number(&self, name: &str) -> Result<Option<Number>> {
        match self.get(name) {
            None => Ok(None),
            Some(TorchValue::Number(number)) => Ok(Some(number.clone())),
            Some(TorchValue::Other(what)) => Err(unsupported(format!("`{name}` is {what}"))),
            Some(_) => Err(invalid(format!("argument `{name}` is no number"))),
        }
    }

    /// A floating-point number.
    pub(crate) fn opt_float(&self, name: &str) -> Result<Option<f64>> {
        let Some(number) = self.opt_number(name)? else { return Ok(None) };
        let known = number.known();
        known.map(Some).ok_or_else(|| unsupported(format!("a symbolic `{name}`")))
    }

    /// A floating-point number with a default.
    pub(crate) fn float(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.opt_float(name)?.unwrap_or(default))
    }

    /// An integer, maybe of symbols.
    pub(crate) fn opt_dim(&self, name: &str) -> Result<Option<Expr>> {
        match self.opt_number(name)? {
            None => Ok(None),
            Some(Number::Int(value)) => Ok(Some(value)),
            Some(Number::Bool(value)) => Ok(Some(Expr::i64(value.into()))),
            Some(Number::Float(_)) => Err(invalid(format!("`{name}` is no integer"))),
        }
    }

    /// An integer that is known.
    pub(crate) fn opt_int(&self, name: &str) -> Result<Option<i64>> {
        let Some(value) = self.opt_dim(name)? else { return Ok(None) };
        let known = value.as_int();
        known.map(Some).ok_or_else(|| unsupported(format!("a symbolic `{name}`")))
    }

    /// An integer that is known, with a default.
    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.opt_int(name)?.unwrap_or(default))
    }

    /// A truth value with a default.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.opt_number(name)? {
            None => Ok(default),
            Some(Number::Bool(value)) => Ok(value),
            Some(number) => Ok(number.known().is_some_and(|value| value != 0.0)),
        }
    }

    /// A string with a default.
    pub(crate) fn text<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str> {
        match self.get(name) {
            None => Ok(default),
            Some(TorchValue::Text(text)) => Ok(text),
            Some(_) => Err(invalid(format!("argument `{name}` is no string"))),
        }
    }

    /// An element type.
    pub(crate) fn dtype(&self, name: &str) -> Result<Option<DType>> {
        match self.get(name) {
            None => Ok(None),
            Some(TorchValue::DType(dtype)) => Ok(Some(*dtype)),
            Some(_) => Err(invalid(format!("argument `{name}` is no element type"))),
        }
    }

    /// Integers, maybe of symbols. One integer is a list of one.
    pub(crate) fn opt_dims(&self, name: &str) -> Result<Option<Vec<Expr>>> {
        let list = match self.get(name) {
            None => return Ok(None),
            Some(TorchValue::Numbers(list)) => list.clone(),
            Some(TorchValue::Number(number)) => vec![number.clone()],
            Some(_) => return Err(invalid(format!("argument `{name}` is no list of integers"))),
        };
        let dim = |number: Number| match number {
            Number::Int(value) => Ok(value),
            Number::Bool(_) | Number::Float(_) => Err(invalid(format!("integers of `{name}`"))),
        };
        list.into_iter().map(dim).collect::<Result<_>>().map(Some)
    }

    /// Integers, maybe of symbols.
    pub(crate) fn dims(&self, name: &str) -> Result<Vec<Expr>> {
        self.opt_dims(name)?.ok_or_else(|| missing(name))
    }

    /// Integers that are known.
    pub(crate) fn opt_ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        let Some(list) = self.opt_dims(name)? else { return Ok(None) };
        let known: Option<Vec<i64>> = list.iter().map(Expr::as_int).collect();
        known.map(Some).ok_or_else(|| unsupported(format!("symbols in `{name}`")))
    }

    /// Floating-point numbers.
    pub(crate) fn opt_floats(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let list = match self.get(name) {
            None => return Ok(None),
            Some(TorchValue::Numbers(list)) => list.clone(),
            Some(TorchValue::Number(number)) => vec![number.clone()],
            Some(_) => return Err(invalid(format!("argument `{name}` is no list of numbers"))),
        };
        let known: Option<Vec<f64>> = list.iter().map(Number::known).collect();
        known.map(Some).ok_or_else(|| unsupported(format!("symbols in `{name}`")))
    }

    /// One integer for each of some spatial axes; a single one stands for all. An empty list is left out.
    pub(crate) fn spatial(&self, name: &str, axes: usize) -> Result<Option<Vec<i64>>> {
        match self.opt_ints(name)? {
            None => Ok(None),
            Some(list) if list.is_empty() => Ok(None),
            Some(list) if list.len() == axes => Ok(Some(list)),
            Some(list) if list.len() == 1 => Ok(Some(vec![list[0]; axes])),
            Some(list) => Err(invalid(format!("`{name}` has {} entries, not {axes}", list.len()))),
        }
    }

    /// An axis, from the end when negative.
    pub(crate) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize> {
        axis(self.int(name, default)?, rank)
    }

    /// Axes in order of their numbers. None or an empty list stand for all.
    pub(crate) fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>> {
        let given = self.opt_ints(name)?.unwrap_or_default();
        let mut axes = given.iter().map(|a| axis(*a, rank)).collect::<Result<Vec<usize>>>()?;
        if axes.is_empty() {
            return Ok((0..rank).collect());
        }
        axes.sort_unstable();
        axes.dedup();
        Ok(if rank == 0 { vec![] } else { axes })
    }
}

/// Normalises an axis that may count from the end. A scalar has an axis 0.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let count = rank.max(1) as i64;
    if (-count..count).contains(&axis) {
        return Ok(if axis < 0 { axis + count } else { axis } as usize);
    }
    Err(invalid(format!("axis {axis} of a tensor of rank {rank}")))
}

fn missing(name: &str) -> ImportError {
    invalid(format!("argument `{name}` is missing"))
}
