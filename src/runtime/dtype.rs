//! Element types: DLPack's `{code, bits, lanes}` triple and TVM's text for it.
//!
//! `DType` has the layout of `DLDataType`, so a value can cross the C ABI as is.
//! It describes how elements are stored; what an operation on them means is the
//! business of the IRs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// DLPack type codes (`DLDataTypeCode`).
pub mod code {
    /// Signed integer.
    pub const INT: u8 = 0;
    /// Unsigned integer.
    pub const UINT: u8 = 1;
    /// IEEE 754 binary float.
    pub const FLOAT: u8 = 2;
    /// Opaque pointer.
    pub const HANDLE: u8 = 3;
    /// Brain float.
    pub const BFLOAT: u8 = 4;
    /// Complex number.
    pub const COMPLEX: u8 = 5;
    /// Boolean stored in one byte.
    pub const BOOL: u8 = 6;
    /// First of the 8-bit float formats.
    pub const FLOAT8_E3M4: u8 = 7;
    /// First code past those DLPack 1.3 defines.
    pub const END: u8 = 18;
}

/// Names of the sub-byte and 8-bit float codes, from [`code::FLOAT8_E3M4`] on,
/// with the width each one has.
const SMALL_FLOATS: [(&str, u8); 11] = [
    ("float8_e3m4", 8),
    ("float8_e4m3", 8),
    ("float8_e4m3b11fnuz", 8),
    ("float8_e4m3fn", 8),
    ("float8_e4m3fnuz", 8),
    ("float8_e5m2", 8),
    ("float8_e5m2fnuz", 8),
    ("float8_e8m0fnu", 8),
    ("float6_e2m3fn", 6),
    ("float6_e3m2fn", 6),
    ("float4_e2m1fn", 4),
];

/// An element type, laid out as DLPack's `DLDataType`.
///
/// ```
/// use reflex_runtime::dtype::DType;
/// assert_eq!("float32".parse::<DType>().unwrap(), DType::F32);
/// assert_eq!(DType::BOOL.to_string(), "bool");
/// assert_eq!(DType::F32.with_lanes(4).to_string(), "float32x4");
/// assert_eq!(DType::I64.itemsize(), 8);
/// ```
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DType {
    /// Kind of number: 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool; see [`code`].
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Vector lanes; 1 for a scalar. TVM stores scalable vectors as negative counts.
    pub lanes: u16,
}

const _: () = assert!(size_of::<DType>() == 4);

impl DType {
    /// The type with these bits in memory, as machine code has it in a register.
    ///
    /// ```
    /// use reflex_runtime::dtype::DType;
    /// assert_eq!(DType::from_bits(DType::F32.to_bits()), DType::F32);
    /// ```
    pub const fn from_bits(bits: i32) -> DType {
        let [code, bits, low, high] = bits.to_le_bytes();
        DType { code, bits, lanes: u16::from_le_bytes([low, high]) }
    }

    /// The bits of the type in memory.
    pub const fn to_bits(self) -> i32 {
        let [low, high] = self.lanes.to_le_bytes();
        i32::from_le_bytes([self.code, self.bits, low, high])
    }

    /// IEEE binary32.
    pub const F32: DType = DType::new(code::FLOAT, 32);
    /// IEEE binary64.
    pub const F64: DType = DType::new(code::FLOAT, 64);
    /// IEEE binary16.
    pub const F16: DType = DType::new(code::FLOAT, 16);
    /// Brain float, 16 bits.
    pub const BF16: DType = DType::new(code::BFLOAT, 16);
    /// Signed 8-bit integer.
    pub const I8: DType = DType::new(code::INT, 8);
    /// Signed 16-bit integer.
    pub const I16: DType = DType::new(code::INT, 16);
    /// Signed 32-bit integer.
    pub const I32: DType = DType::new(code::INT, 32);
    /// Signed 64-bit integer.
    pub const I64: DType = DType::new(code::INT, 64);
    /// Unsigned 8-bit integer.
    pub const U8: DType = DType::new(code::UINT, 8);
    /// Unsigned 16-bit integer.
    pub const U16: DType = DType::new(code::UINT, 16);
    /// Unsigned 32-bit integer.
    pub const U32: DType = DType::new(code::UINT, 32);
    /// Unsigned 64-bit integer.
    pub const U64: DType = DType::new(code::UINT, 64);
    /// Boolean, one byte.
    pub const BOOL: DType = DType::new(code::BOOL, 8);
    /// Opaque pointer.
    pub const HANDLE: DType = DType::new(code::HANDLE, 64);
    /// TVM's "no type": a handle of no bits.
    pub const VOID: DType = DType { code: code::HANDLE, bits: 0, lanes: 0 };

    /// A scalar type.
    pub const fn new(code: u8, bits: u8) -> DType {
        DType { code, bits, lanes: 1 }
    }

    /// The same element with `lanes` lanes.
    pub const fn with_lanes(self, lanes: u16) -> DType {
        DType { lanes, ..self }
    }

    /// The type of one lane.
    pub const fn element(self) -> DType {
        self.with_lanes(1)
    }

    /// Bytes that one value (all lanes) takes, rounded up.
    pub const fn itemsize(self) -> usize {
        (self.bits as usize * self.lanes as usize).div_ceil(8)
    }

    /// Bytes of `count` packed values, or `None` on overflow.
    ///
    /// Sub-byte elements are packed without gaps, as DLPack and TVM do.
    pub const fn bytes_for(self, count: usize) -> Option<usize> {
        match (self.bits as usize * self.lanes as usize).checked_mul(count) {
            Some(bits) => Some(bits.div_ceil(8)),
            None if self.bits.is_multiple_of(8) => self.itemsize().checked_mul(count),
            None => None,
        }
    }

    /// Whether this is an IEEE, brain or small float.
    pub const fn is_float(self) -> bool {
        self.code == code::FLOAT
            || self.code == code::BFLOAT
            || (self.code >= code::FLOAT8_E3M4 && self.code < code::END)
    }

    /// Whether this is one of the 16-bit float formats.
    pub fn is_half(self) -> bool {
        self == DType::F16 || self == DType::BF16
    }

    /// Whether this is one of the 8-bit float formats.
    pub const fn is_float8(self) -> bool {
        self.code >= code::FLOAT8_E3M4 && self.code < code::END && self.bits == 8
    }

    /// Whether this is a signed integer.
    pub const fn is_int(self) -> bool {
        self.code == code::INT
    }

    /// Whether this is an unsigned integer (booleans are not).
    pub const fn is_uint(self) -> bool {
        self.code == code::UINT
    }

    /// Whether this is a boolean.
    pub const fn is_bool(self) -> bool {
        self.code == code::BOOL
    }

    /// Whether this is a scalar (one lane).
    pub const fn is_scalar(self) -> bool {
        self.lanes == 1
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == DType::VOID {
            return f.write_str("void");
        }
        match self.code {
            code::BOOL if self.bits == 8 => f.write_str("bool")?,
            code::HANDLE => f.write_str("handle")?,
            code::INT => write!(f, "int{}", self.bits)?,
            code::UINT => write!(f, "uint{}", self.bits)?,
            code::FLOAT => write!(f, "float{}", self.bits)?,
            code::BFLOAT => write!(f, "bfloat{}", self.bits)?,
            code::COMPLEX => write!(f, "complex{}", self.bits)?,
            code::BOOL => write!(f, "bool{}", self.bits)?,
            small => match SMALL_FLOATS.get((small - code::FLOAT8_E3M4) as usize) {
                Some((name, _)) => f.write_str(name)?,
                None => write!(f, "custom[{small}]{}", self.bits)?,
            },
        }
        match self.lanes as i16 {
            1 | 0 => Ok(()),
            lanes if lanes < 0 => write!(f, "xvscalex{}", -i32::from(lanes)),
            lanes => write!(f, "x{lanes}"),
        }
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a data type that TVM prints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown data type `{0}`")]
pub struct ParseDTypeError(String);

impl FromStr for DType {
    type Err = ParseDTypeError;

    fn from_str(text: &str) -> Result<DType, ParseDTypeError> {
        parse(text).ok_or_else(|| ParseDTypeError(text.chars().take(64).collect()))
    }
}

fn parse(text: &str) -> Option<DType> {
    if text == "void" || text.is_empty() {
        return Some(DType::VOID);
    }
    // The longest name first: `float8_e4m3fn` is a prefix of `float8_e4m3fnuz`.
    let small = SMALL_FLOATS
        .iter()
        .enumerate()
        .filter(|(_, (name, _))| text.starts_with(name))
        .max_by_key(|(_, (name, _))| name.len());
    if let Some((index, (name, bits))) = small {
        let scalar = DType::new(code::FLOAT8_E3M4 + index as u8, *bits);
        return lanes(scalar, &text[name.len()..]);
    }
    for (name, fixed) in [("bool", DType::BOOL), ("handle", DType::HANDLE)] {
        if let Some(rest) = text.strip_prefix(name) {
            return lanes(fixed, rest);
        }
    }
    let families: [(&str, u8, &[u8]); 5] = [
        ("int", code::INT, &[1, 2, 4, 8, 16, 32, 64]),
        ("uint", code::UINT, &[1, 2, 4, 8, 16, 32, 64]),
        ("float", code::FLOAT, &[16, 32, 64]),
        ("bfloat", code::BFLOAT, &[16]),
        ("complex", code::COMPLEX, &[32, 64, 128]),
    ];
    families.iter().find_map(|(name, code, widths)| {
        let rest = text.strip_prefix(name)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let bits: u8 = rest[..digits].parse().ok()?;
        widths.contains(&bits).then(|| lanes(DType::new(*code, bits), &rest[digits..]))?
    })
}

/// Parses the lane suffix: nothing, `x4` or `xvscalex4`.
fn lanes(scalar: DType, suffix: &str) -> Option<DType> {
    if suffix.is_empty() {
        return Some(scalar);
    }
    let (count, scalable) = match suffix.strip_prefix("xvscalex") {
        Some(count) => (count, true),
        None => (suffix.strip_prefix('x')?, false),
    };
    let count: i16 = count.parse().ok().filter(|n| *n > 0)?;
    let stored = if scalable { -count } else { count };
    Some(scalar.with_lanes(stored as u16))
}

impl Serialize for DType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(self);
        }
        (self.code, self.bits, self.lanes).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
        if deserializer.is_human_readable() {
            let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
            return text.parse().map_err(serde::de::Error::custom);
        }
        let (code, bits, lanes) = Deserialize::deserialize(deserializer)?;
        Ok(DType { code, bits, lanes })
    }
}

/// The number of elements of some tensors, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// Elements.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Elements {
    /// These and the elements of a tensor of this type and shape.
    #[must_use]
    pub fn with(self, dtype: DType, shape: &[i64]) -> Elements {
        let extents = shape.iter().map(|n| u64::try_from(*n).ok());
        let count = extents.reduce(|n, d| n?.checked_mul(d?)).unwrap_or(Some(1)).unwrap_or(0);
        let bytes = usize::try_from(count).ok().and_then(|n| dtype.bytes_for(n)).unwrap_or(0);
        let count = self.count.saturating_add(count);
        Elements { count, bytes: self.bytes.saturating_add(bytes as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in [
            "float32",
            "float64",
            "float16",
            "bfloat16",
            "int8",
            "int64",
            "uint1",
            "uint8",
            "bool",
            "handle",
            "void",
            "float32x4",
            "boolx16",
            "int32xvscalex4",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e4m3",
            "float4_e2m1fn",
            "float4_e2m1fnx2",
            "complex64",
        ] {
            assert_eq!(text.parse::<DType>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn unknown_text_is_refused() {
        for text in ["float", "float33", "int", "floatx4", "float32x", "float32x0", "bool8y", "é"]
        {
            assert!(text.parse::<DType>().is_err(), "{text}");
        }
        assert_eq!(
            "tensor".parse::<DType>().unwrap_err().to_string(),
            "unknown data type `tensor`"
        );
    }

    #[test]
    fn sizes() {
        assert_eq!(DType::BOOL.itemsize(), 1);
        assert_eq!(DType::F32.with_lanes(4).itemsize(), 16);
        let int4 = DType::new(code::INT, 4);
        assert_eq!(int4.bytes_for(3), Some(2));
        assert_eq!(DType::F32.bytes_for(usize::MAX), None);
        assert_eq!(DType::U8.bytes_for(usize::MAX), Some(usize::MAX));
    }
}
