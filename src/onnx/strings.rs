//! Tensors of strings as tensors of bytes, in the layout of NumPy's type `S`: a tensor of strings of
//! shape `[..]` is a uint8 tensor `[.., width]`. Strings are UTF-8, filled up with zeros; the width is
//! that of the longest, or more.
//!
//! So strings are ordinary tensors for passes, kernels, artifacts and callers. A string that ends with
//! a zero byte has no such form and is refused.
//!
//! Decision: docs/decisions/0078-onnx-ml.md

use std::sync::Arc;

use reflex_graph::Literal;
use reflex_tir::DType;

use crate::error::{Result, malformed, unsupported};
use crate::proto::TensorProto;
use crate::value::Tensor;

/// Wider tensors of strings are refused, as are tables of more bytes.
const MAX_BYTES: usize = 1 << 26;

/// The bytes of strings of a shape, as wide as the longest needs, at least one.
pub(crate) fn bytes(shape: &[i64], strings: &[&str]) -> Result<Literal> {
    if strings.iter().any(|s| s.ends_with('\0')) {
        return Err(unsupported("strings that end with a zero byte"));
    }
    let width = strings.iter().map(|s| s.len()).max().unwrap_or(0).max(1);
    let size = strings.len().checked_mul(width).filter(|n| *n <= MAX_BYTES);
    let size = size.ok_or_else(|| unsupported("strings of more than 64 MiB"))?;
    let mut data = vec![0; size];
    for (row, string) in data.chunks_exact_mut(width).zip(strings) {
        row[..string.len()].copy_from_slice(string.as_bytes());
    }
    let shape = shape.iter().copied().chain([width as i64]).collect();
    Literal::new(DType::U8, shape, Arc::new(data)).ok_or_else(|| malformed("extents of strings"))
}

/// A constant list of strings, `[count, width]`.
pub(crate) fn constant(strings: &[&str]) -> Result<Tensor> {
    bytes(&[strings.len() as i64], strings).map(Tensor::literal)
}

/// The bytes of a tensor of strings in a model.
pub(crate) fn literal(tensor: &TensorProto) -> Result<Literal> {
    let mut count = 1usize;
    for dim in &tensor.dims {
        let dim = usize::try_from(*dim).map_err(|_| malformed(format!("extent {dim}")))?;
        count = count.checked_mul(dim).ok_or_else(|| malformed("extents overflow"))?;
    }
    let found = tensor.string_data.len();
    if found != count {
        return Err(malformed(format!("{count} strings declared, {found} are there")));
    }
    let text = |s| std::str::from_utf8(s).map_err(|_| malformed("a string that is not UTF-8"));
    let strings = tensor.string_data.iter().map(|s| text(s)).collect::<Result<Vec<&str>>>()?;
    bytes(&tensor.dims, &strings)
}

/// The strings of a constant.
pub(crate) fn known(tensor: &Tensor) -> Option<Vec<String>> {
    let literal = tensor.as_literal()?;
    Some(texts(literal))
}

/// The strings of bytes, whose last axis is the width.
pub(crate) fn texts(bytes: &Literal) -> Vec<String> {
    let width = bytes.shape().last().map_or(1, |w| usize::try_from(*w).unwrap_or(1)).max(1);
    let text = |row: &[u8]| {
        let end = row.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        String::from_utf8_lossy(&row[..end]).into_owned()
    };
    bytes.bytes().chunks_exact(width).map(text).collect()
}
