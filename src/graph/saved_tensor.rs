//! Tensors as TVM saves them, in base64.

use std::sync::Arc;

use reflex_tir::DType;

use crate::Literal;

/// Magic number of a saved tensor.
const TENSOR_MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;
/// Device type of the CPU in a saved tensor.
const CPU: i32 = 1;

impl Literal {
    /// The text that TVM saves for a tensor: the bytes of its type, shape and elements in base64.
    pub fn to_saved(&self) -> String {
        base64(&saved(self))
    }

    /// The tensor that a text of TVM holds; `None` if it is damaged or on another device.
    pub fn from_saved(text: &str) -> Option<Literal> {
        tensor(&unbase64(text)?)
    }
}

/// A tensor as TVM saves it: magic, reserved field, CPU device, rank, type, shape, byte count,
/// bytes; all little-endian.
fn saved(literal: &Literal) -> Vec<u8> {
    let dtype = literal.dtype();
    let mut out = vec![];
    out.extend(TENSOR_MAGIC.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend(1i32.to_le_bytes());
    out.extend(0i32.to_le_bytes());
    out.extend((literal.shape().len() as i32).to_le_bytes());
    out.extend([dtype.code, dtype.bits]);
    out.extend(dtype.lanes.to_le_bytes());
    for dim in literal.shape() {
        out.extend(dim.to_le_bytes());
    }
    out.extend((literal.bytes().len() as i64).to_le_bytes());
    out.extend(literal.bytes());
    out
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            if digit <= chunk.len() {
                out.push(DIGITS[(word >> (18 - 6 * digit)) as usize & 63] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// A tensor as TVM saves it.
fn tensor(bytes: &[u8]) -> Option<Literal> {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    let magic = u64::from_le_bytes(take(8)?.try_into().ok()?);
    let _reserved = take(8)?;
    let device = i32::from_le_bytes(take(4)?.try_into().ok()?);
    let _device_id = take(4)?;
    let rank = i32::from_le_bytes(take(4)?.try_into().ok()?);
    let [code, bits, lanes @ ..] = take(4)? else { return None };
    let lanes = u16::from_le_bytes(lanes.try_into().ok()?);
    if magic != TENSOR_MAGIC || device != CPU || lanes != 1 {
        return None;
    }
    let mut shape = vec![];
    for _ in 0..rank {
        shape.push(i64::from_le_bytes(take(8)?.try_into().ok()?));
    }
    let size = usize::try_from(i64::from_le_bytes(take(8)?.try_into().ok()?)).ok()?;
    let data = take(size)?.to_vec();
    // TVM writes bool as an unsigned integer of one bit, kept in a byte.
    let dtype = if (*code, *bits) == (1, 1) { DType::BOOL } else { DType::new(*code, *bits) };
    Literal::new(dtype, shape, Arc::new(data))
}

/// The bytes of a text in base64.
fn unbase64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut word, mut bits) = (0u32, 0);
    for c in text.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    Some(out)
}
