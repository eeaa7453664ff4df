//! ONNX values while importing: constant propagation over tensors and symbolic shapes.
//!
//! A tensor may carry its literal, or, when it is a small integer tensor computed from
//! dimensions, one symbolic expression per element. Chains such as Shape, Gather, Concat,
//! Reshape then become symbolic dimensions and leave no run-time code; a run-time value is
//! made only when an operator really reads the elements.
//!
//! Decision: docs/decisions/0025-symbolic-dims.md

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use half::{bf16, f16};
use reflex_graph::{Literal, TensorType, Value, dims};
use reflex_tir::{DType, Expr, half_float};

/// Longer tensors are not tracked element by element.
pub(crate) const MAX_ELEMENTS: usize = 1024;

/// An ONNX value.
#[derive(Clone, Debug)]
pub(crate) enum OnnxValue {
    /// A tensor.
    Tensor(Tensor),
    /// A sequence of known length; its elements may be the bytes of strings.
    Sequence(Vec<Tensor>, Scalar),
    /// A tensor of strings as its bytes (see [`crate::strings`]): one axis more, the last.
    Strings(Tensor),
    /// An optional without content.
    Absent,
    /// A sequence, an optional or maps that only a run knows.
    Object(Value, ObjectKind),
}

/// The kind of a value that only a run knows and that is no tensor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObjectKind {
    /// A sequence of tensors.
    List(Element),
    /// An optional; where nothing is known of its content, no element.
    Optional(Option<Content>),
    /// A sequence of maps.
    Maps,
    /// A map.
    Map(MapKind),
}

/// Types of the keys and values of a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MapKind {
    /// Type of the keys.
    pub keys: Scalar,
    /// Type of the values.
    pub values: Scalar,
}

/// The type of an element, a key or a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// A string.
    Text,
    /// A number.
    Number(DType),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Text => f.write_str("string"),
            Scalar::Number(dtype) => dtype.fmt(f),
        }
    }
}

impl Scalar {
    /// Axes that a tensor has for one element.
    pub fn axes(self) -> usize {
        usize::from(self == Scalar::Text)
    }

    /// A tensor of such elements as a value.
    pub fn value(self, tensor: Tensor) -> OnnxValue {
        match self {
            Scalar::Text => OnnxValue::Strings(tensor),
            Scalar::Number(_) => OnnxValue::Tensor(tensor),
        }
    }
}

/// The content of an optional.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Tensor(Element),
    List(Element),
}

/// Tensors of one type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    /// Type of their elements.
    pub ty: Scalar,
    /// Their rank, of strings without the axis of bytes.
    pub rank: Rank,
}

/// The rank of the tensors in a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rank {
    /// There is no tensor.
    None,
    /// All have this one.
    Known(usize),
    /// They differ, or no rank is declared.
    Any,
}

impl Rank {
    /// The rank of tensors of both.
    pub fn and(self, other: Rank) -> Rank {
        match (self, other) {
            (Rank::None, rank) | (rank, Rank::None) => rank,
            (a, b) if a == b => a,
            _ => Rank::Any,
        }
    }
}

impl ObjectKind {
    /// The kind that has values of both kinds; `None` if there is none.
    pub fn and(&self, other: &ObjectKind) -> Option<ObjectKind> {
        let element = |a: &Element, b: &Element| {
            let rank = a.rank.and(b.rank);
            (a.ty == b.ty).then_some(Element { ty: a.ty, rank })
        };
        let content = |a: &Content, b: &Content| match (a, b) {
            (Content::Tensor(a), Content::Tensor(b)) => Some(Content::Tensor(element(a, b)?)),
            (Content::List(a), Content::List(b)) => Some(Content::List(element(a, b)?)),
            _ => None,
        };
        Some(match (self, other) {
            (ObjectKind::List(a), ObjectKind::List(b)) => ObjectKind::List(element(a, b)?),
            (ObjectKind::Optional(None), ObjectKind::Optional(known))
            | (ObjectKind::Optional(known), ObjectKind::Optional(None)) => {
                ObjectKind::Optional(known.clone())
            }
            (ObjectKind::Optional(Some(a)), ObjectKind::Optional(Some(b))) => {
                ObjectKind::Optional(Some(content(a, b)?))
            }
            (ObjectKind::Optional(known), ObjectKind::List(list))
            | (ObjectKind::List(list), ObjectKind::Optional(known)) => {
                let list = Content::List(list.clone());
                let known =
                    known.as_ref().map_or(Some(list.clone()), |known| content(known, &list));
                ObjectKind::Optional(Some(known?))
            }
            (ObjectKind::Maps, ObjectKind::Maps) => ObjectKind::Maps,
            (ObjectKind::Map(a), ObjectKind::Map(b)) if a == b => ObjectKind::Map(*a),
            _ => return None,
        })
    }
}

/// A tensor and its known elements.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// Type.
    pub ty: TensorType,
    pub(crate) known: KnownElements,
    pub(crate) value: Option<Value>,
    /// The integers that it is made of, where it is a dequantised tensor.
    pub(crate) dequantised: Option<Rc<Dequantised>>,
}

/// `(x - zero_point) * scale`.
#[derive(Clone, Debug)]
pub(crate) struct Dequantised {
    /// 8-bit integers.
    pub x: Tensor,
    /// One number, or one for each index of the axis.
    pub scale: Tensor,
    /// As many; `None` is 0.
    pub zero_point: Option<Tensor>,
    /// The axis.
    pub axis: usize,
}

/// The elements of a tensor as far as the import knows them.
#[derive(Clone, Debug)]
pub(crate) enum KnownElements {
    /// None.
    None,
    /// All of them.
    Constant(Literal),
    /// Integer expressions, row-major; bool elements are 0 or 1. At least one is symbolic.
    Symbolic(Rc<[Expr]>),
}

impl Tensor {
    /// A constant.
    pub fn literal(literal: Literal) -> Tensor {
        let shape = literal.shape().iter().map(|d| Expr::i64(*d)).collect();
        let ty = TensorType::new(literal.dtype(), shape);
        Tensor { ty, known: KnownElements::Constant(literal), value: None, dequantised: None }
    }

    /// A run-time tensor.
    pub fn value(value: Value, ty: TensorType) -> Tensor {
        Tensor { ty, known: KnownElements::None, value: Some(value), dequantised: None }
    }

    /// Symbolic elements of an integer or bool tensor of a known shape. A literal when all are
    /// numbers that the type holds.
    pub fn elements(dtype: DType, shape: &[i64], elements: Vec<Expr>) -> Option<Tensor> {
        let elements: Vec<Expr> = elements.iter().map(dims::simplify).collect();
        if let Some(numbers) = elements.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>() {
            let bytes: Option<Vec<Vec<u8>>> =
                numbers.iter().map(|v| encode_int(*v, dtype)).collect();
            let data = Arc::new(bytes?.concat());
            return Literal::new(dtype, shape.to_vec(), data).map(Tensor::literal);
        }
        let ty = TensorType::new(dtype, shape.iter().map(|d| Expr::i64(*d)).collect());
        Some(Tensor {
            ty,
            known: KnownElements::Symbolic(elements.into()),
            value: None,
            dequantised: None,
        })
    }

    /// A 1-D int64 tensor of dimensions.
    pub fn dims(values: &[Expr]) -> Tensor {
        let count = values.len() as i64;
        Tensor::elements(DType::I64, &[count], values.to_vec()).expect("int64 holds every number")
    }

    /// An int64 scalar.
    pub fn dim(value: &Expr) -> Tensor {
        let elements = vec![value.clone()];
        Tensor::elements(DType::I64, &[], elements).expect("int64 holds every number")
    }

    /// A scalar of any number type.
    pub fn scalar(value: f64, dtype: DType) -> Option<Tensor> {
        let bytes = encode_float(value, dtype)?;
        Literal::new(dtype, vec![], Arc::new(bytes)).map(Tensor::literal)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Shape.
    pub fn shape(&self) -> &[Expr] {
        &self.ty.shape
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.ty.shape.len()
    }

    /// Shape when all dimensions are numbers.
    pub fn const_shape(&self) -> Option<Vec<i64>> {
        self.ty.const_shape()
    }

    /// Number of elements when it is known.
    pub fn count(&self) -> Option<usize> {
        let dims = self.const_shape()?;
        dims.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))
    }

    /// The literal.
    pub fn as_literal(&self) -> Option<&Literal> {
        match &self.known {
            KnownElements::Constant(literal) => Some(literal),
            KnownElements::None | KnownElements::Symbolic(_) => None,
        }
    }

    /// Integer elements, numbers or not, of a small tensor.
    pub fn as_elements(&self) -> Option<Vec<Expr>> {
        match &self.known {
            KnownElements::None => None,
            KnownElements::Symbolic(elements) => Some(elements.to_vec()),
            KnownElements::Constant(literal) => {
                let whole = !self.dtype().is_float() && literal.dtype() != DType::U64;
                let small = whole && literal.count() <= MAX_ELEMENTS;
                let numbers = small.then(|| literal.to_i64())??;
                Some(numbers.into_iter().map(Expr::i64).collect())
            }
        }
    }

    /// Integer elements that are numbers.
    pub fn as_ints(&self) -> Option<Vec<i64>> {
        // A narrow float is carried by integers, which are not its elements.
        if self.dtype().is_float() { None } else { self.as_literal()?.to_i64() }
    }

    /// Floating-point elements of a constant, widened.
    pub fn as_floats(&self) -> Option<Vec<f64>> {
        let literal = self.as_literal()?;
        macro_rules! read {
            ($t:ty, $to:expr) => {
                literal
                    .bytes()
                    .chunks_exact(size_of::<$t>())
                    .map(|c| $to(<$t>::from_le_bytes(c.try_into().expect("exact chunk"))))
                    .collect()
            };
        }
        Some(match literal.dtype() {
            DType::F32 => read!(f32, f64::from),
            DType::F64 => read!(f64, |v| v),
            DType::F16 => read!(f16, f16::to_f64),
            DType::BF16 => read!(bf16, bf16::to_f64),
            _ => return None,
        })
    }

    /// The only element of a constant as f64, whatever its type.
    pub fn as_number(&self) -> Option<f64> {
        if self.count()? != 1 {
            return None;
        }
        match self.as_floats() {
            Some(values) => Some(values[0]),
            None => Some(self.as_ints()?[0] as f64),
        }
    }
}

/// Bytes of an integer or bool; `None` when the type does not hold it.
pub(crate) fn encode_int(value: i64, dtype: DType) -> Option<Vec<u8>> {
    let bits = u32::from(dtype.bits);
    let fits = match dtype {
        DType::BOOL => value == 0 || value == 1,
        _ if dtype.is_uint() => value >= 0 && (bits == 64 || value < 1 << bits),
        _ if dtype.is_int() => bits == 64 || (-(1 << (bits - 1))..1 << (bits - 1)).contains(&value),
        _ => false,
    };
    (fits && bits >= 8).then(|| value.to_le_bytes()[..dtype.itemsize()].to_vec())
}

/// Bytes of a number in any type the importer computes with.
pub(crate) fn encode_float(value: f64, dtype: DType) -> Option<Vec<u8>> {
    Some(match dtype {
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F16 => half_float::f64_to_f16(value).to_le_bytes().to_vec(),
        DType::BF16 => half_float::f64_to_bf16(value).to_le_bytes().to_vec(),
        _ if value.fract() == 0.0 => return encode_int(value as i64, dtype),
        _ => return None,
    })
}
