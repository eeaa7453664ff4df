//! A call of a registered operator as the table of operators has it, and the values of its attributes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use reflex_tir::{DType, Expr, PrimFunc};

/// A call of a registered operator, as an operator of the table: with all that passes need of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredOp {
    /// Name of the operator, without `relax.`.
    pub name: String,
    /// The kind of its fusion.
    pub kind: FusionKind,
    /// Every attribute that the operator declares, in that order.
    pub attrs: Vec<(String, AttrValue)>,
    /// The element types and ranks of the operands.
    pub operands: Vec<(DType, usize)>,
    /// Element types and shapes of the results, over the function's dimensions.
    pub results: Vec<(DType, Vec<Expr>)>,
    /// The code.
    pub code: RegisteredCode,
}

/// The code of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum RegisteredCode {
    /// A kernel that takes the operands, then the results.
    Kernel(Arc<PrimFunc>),
    /// A packed function by its global name.
    Packed(String),
}

/// The dependence of an operator's output elements on its input elements, which decides what it fuses
/// with (TVM: `TOpPattern`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusionKind {
    /// Each output element from the input elements at its own index.
    Elementwise,
    /// The same with broadcasting.
    Broadcast,
    /// Each output element from one computed index of the input.
    Injective,
    /// Each output element from many input elements, each read once or a few times.
    Reduction,
    /// Reads input elements many times; elementwise operators after it join it.
    OutFusable,
    /// Alone.
    Opaque,
}

impl FusionKind {
    const NAMES: [(FusionKind, &str); 6] = [
        (FusionKind::Elementwise, "elementwise"),
        (FusionKind::Broadcast, "broadcast"),
        (FusionKind::Injective, "injective"),
        (FusionKind::Reduction, "reduction"),
        (FusionKind::OutFusable, "out_fusable"),
        (FusionKind::Opaque, "opaque"),
    ];
}

impl fmt::Display for FusionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = FusionKind::NAMES.iter().find(|(kind, _)| kind == self);
        f.write_str(found.map_or("opaque", |(_, name)| name))
    }
}

impl FromStr for FusionKind {
    type Err = String;

    fn from_str(text: &str) -> Result<FusionKind, String> {
        let found = FusionKind::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(kind, _)| *kind).ok_or_else(|| {
            let names: Vec<&str> = FusionKind::NAMES.iter().map(|(_, name)| *name).collect();
            format!("no fusion kind {text:?}; there are {}", names.join(", "))
        })
    }
}

/// The kind of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttrKind {
    /// A whole number.
    Int,
    /// A float; whole numbers are taken too.
    Float,
    /// A truth value; 0 and 1 are taken too.
    Bool,
    /// A string.
    Str,
    /// A list of whole numbers.
    Ints,
    /// A list of floats.
    Floats,
}

impl AttrKind {
    const NAMES: [(AttrKind, &str); 6] = [
        (AttrKind::Int, "int"),
        (AttrKind::Float, "float"),
        (AttrKind::Bool, "bool"),
        (AttrKind::Str, "str"),
        (AttrKind::Ints, "ints"),
        (AttrKind::Floats, "floats"),
    ];
}

impl fmt::Display for AttrKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = AttrKind::NAMES.iter().find(|(kind, _)| kind == self);
        f.write_str(found.map_or("int", |(_, name)| name))
    }
}

impl FromStr for AttrKind {
    type Err = String;

    fn from_str(text: &str) -> Result<AttrKind, String> {
        let found = AttrKind::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(kind, _)| *kind).ok_or_else(|| {
            let names: Vec<&str> = AttrKind::NAMES.iter().map(|(_, name)| *name).collect();
            format!("no kind of attribute {text:?}; there are {}", names.join(", "))
        })
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum AttrValue {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl AttrValue {
    /// The value that JSON has; `None` for what is none.
    pub fn from_json(json: &serde_json::Value) -> Option<AttrValue> {
        use serde_json::Value as Json;
        match json {
            Json::Bool(value) => Some(AttrValue::Bool(*value)),
            Json::String(text) => Some(AttrValue::Str(text.clone())),
            Json::Number(number) => number
                .as_i64()
                .map(AttrValue::Int)
                .or_else(|| number.as_f64().map(AttrValue::Float)),
            Json::Array(list) => {
                let ints: Option<Vec<i64>> = list.iter().map(Json::as_i64).collect();
                let floats = || list.iter().map(Json::as_f64).collect::<Option<Vec<f64>>>();
                ints.map(AttrValue::Ints).or_else(|| floats().map(AttrValue::Floats))
            }
            Json::Null | Json::Object(_) => None,
        }
    }

    /// Whether two values are the same: numbers by their size, whatever their kind.
    pub fn same(&self, other: &AttrValue) -> bool {
        let number = |value: &AttrValue| match value {
            AttrValue::Int(value) => Some(*value as f64),
            AttrValue::Float(value) => Some(*value),
            AttrValue::Bool(value) => Some(f64::from(u8::from(*value))),
            _ => None,
        };
        self == other || number(self).is_some_and(|own| number(other) == Some(own))
    }

    /// The value as one of a kind, where it can be.
    pub fn of_kind(self, kind: AttrKind) -> Option<AttrValue> {
        match (kind, self) {
            (AttrKind::Int, AttrValue::Bool(value)) => Some(AttrValue::Int(value.into())),
            (AttrKind::Float, AttrValue::Int(value)) => Some(AttrValue::Float(value as f64)),
            (AttrKind::Bool, AttrValue::Int(value @ (0 | 1))) => Some(AttrValue::Bool(value == 1)),
            (AttrKind::Floats, AttrValue::Ints(list)) => {
                Some(AttrValue::Floats(list.into_iter().map(|value| value as f64).collect()))
            }
            (AttrKind::Ints, AttrValue::Floats(list)) if list.is_empty() => {
                Some(AttrValue::Ints(vec![]))
            }
            (AttrKind::Int, value @ AttrValue::Int(_))
            | (AttrKind::Float, value @ AttrValue::Float(_))
            | (AttrKind::Bool, value @ AttrValue::Bool(_))
            | (AttrKind::Str, value @ AttrValue::Str(_))
            | (AttrKind::Ints, value @ AttrValue::Ints(_))
            | (AttrKind::Floats, value @ AttrValue::Floats(_)) => Some(value),
            _ => None,
        }
    }
}

impl From<i64> for AttrValue {
    fn from(value: i64) -> AttrValue {
        AttrValue::Int(value)
    }
}

impl From<f64> for AttrValue {
    fn from(value: f64) -> AttrValue {
        AttrValue::Float(value)
    }
}

impl From<bool> for AttrValue {
    fn from(value: bool) -> AttrValue {
        AttrValue::Bool(value)
    }
}

impl From<&str> for AttrValue {
    fn from(value: &str) -> AttrValue {
        AttrValue::Str(value.to_owned())
    }
}

impl From<Vec<i64>> for AttrValue {
    fn from(value: Vec<i64>) -> AttrValue {
        AttrValue::Ints(value)
    }
}
