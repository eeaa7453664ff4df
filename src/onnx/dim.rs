//! Dimensions of inputs and outputs, as models declare them.

use std::fmt;

use crate::proto::{DimensionProto, DimensionValue};

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Fixed.
    Fixed(i64),
    /// Dynamic, by name (`dim_param`).
    Symbolic(String),
    /// Dynamic.
    Unknown,
}

impl Dim {
    /// The dimension that a model declares.
    pub(crate) fn of(dim: &DimensionProto) -> Dim {
        match &dim.value {
            Some(DimensionValue::DimValue(value)) if *value >= 0 => Dim::Fixed(*value),
            Some(DimensionValue::DimParam(name)) if !name.is_empty() && name != "?" => {
                Dim::Symbolic(name.clone())
            }
            _ => Dim::Unknown,
        }
    }

    /// The name of a dimension of an input that is not fixed: one that has none is called by the input and the axis.
    pub(crate) fn named(&self, input: &str, axis: usize) -> String {
        match self {
            Dim::Symbolic(name) => name.clone(),
            Dim::Fixed(_) | Dim::Unknown => format!("{input}_{axis}"),
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(value) => value.fmt(f),
            Dim::Symbolic(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}
