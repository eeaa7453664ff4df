//! Values while importing: tensors of the graph, and numbers that the program computes from extents.

use reflex_graph::Value;
use reflex_tir::{DType, Expr};

/// A number that is no tensor.
#[derive(Clone, Debug)]
pub(crate) enum Number {
    /// An integer, which may be made of symbols.
    Int(Expr),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

/// A value of a program.
#[derive(Clone, Debug)]
pub(crate) enum TorchValue {
    /// No value.
    None,
    /// A tensor.
    Tensor(Value),
    /// Tensors, some of which may be left out.
    Tensors(Vec<Option<Value>>),
    /// A number.
    Number(Number),
    /// Numbers.
    Numbers(Vec<Number>),
    /// A string.
    Text(String),
    /// An element type.
    DType(DType),
    /// A value that no operator reads, in words: a device, a layout, a condition on symbols.
    Other(&'static str),
}

impl Number {
    /// The type that PyTorch gives a tensor of the number.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Number::Int(_) => DType::I64,
            Number::Float(_) => DType::F32,
            Number::Bool(_) => DType::BOOL,
        }
    }

    /// The number, unless it is made of symbols.
    pub(crate) fn known(&self) -> Option<f64> {
        match self {
            Number::Int(value) => value.as_int().map(|value| value as f64),
            Number::Float(value) => Some(*value),
            Number::Bool(value) => Some(f64::from(u8::from(*value))),
        }
    }
}

impl TorchValue {
    /// An integer.
    pub(crate) fn int(value: i64) -> TorchValue {
        TorchValue::Number(Number::Int(Expr::i64(value)))
    }
}
