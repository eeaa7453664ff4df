//! Numbers and element types as Relay writes them.

use reflex_tir::DType;

/// A number: `1` is int32, `1f` float32, `1i64` and `2.5f64` what they say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub dtype: DType,
    pub value: NumberValue,
}

/// The value of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NumberValue {
    Int(i64),
    Float(f64),
}

/// Suffixes with the types they stand for.
const SUFFIXES: [(&str, DType); 13] = [
    ("", DType::I32),
    ("f", DType::F32),
    ("f16", DType::F16),
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("i8", DType::I8),
    ("i16", DType::I16),
    ("i32", DType::I32),
    ("i64", DType::I64),
    ("u8", DType::U8),
    ("u16", DType::U16),
    ("u32", DType::U32),
    ("u64", DType::U64),
];

impl Number {
    /// Reads a number with its sign and suffix.
    pub fn read(text: &str) -> Result<Number, String> {
        let wrong = || format!("`{text}` is not a number");
        // An `e` belongs to the digits, so the suffix begins with the first `f`, `i` or `u`.
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let start = text.len() - unsigned.len() + if is_not_finite(unsigned) { 3 } else { 0 };
        let split = text[start..].find(['f', 'i', 'u']).map_or(text.len(), |n| start + n);
        let (digits, suffix) = text.split_at(split);
        let (_, dtype) = SUFFIXES.iter().find(|(name, _)| *name == suffix).ok_or_else(wrong)?;
        let is_float = digits.contains(['.', 'e', 'E']);
        // A fraction without a suffix is a float32, as in attributes.
        let dtype = if is_float && suffix.is_empty() { DType::F32 } else { *dtype };
        let value = if dtype.is_float() {
            NumberValue::Float(digits.parse().map_err(|_| wrong())?)
        } else {
            NumberValue::Int(digits.parse().map_err(|_| wrong())?)
        };
        let number = Number { dtype, value };
        if number.fits() { Ok(number) } else { Err(format!("`{text}` is out of range")) }
    }

    /// Returns true if the type holds the value.
    fn fits(self) -> bool {
        let NumberValue::Int(value) = self.value else { return true };
        let bits = u32::from(self.dtype.bits);
        match (self.dtype.is_uint(), bits) {
            (false, 64) => true,
            (true, 64) => value >= 0,
            (false, _) => (-(1i64 << (bits - 1))..1 << (bits - 1)).contains(&value),
            (true, _) => (0..1i64 << bits).contains(&value),
        }
    }
}

/// Returns true for `inff` and `nanf` and their kinds, which look like words.
pub(super) fn is_not_finite(word: &str) -> bool {
    let suffix = word.strip_prefix("inf").or_else(|| word.strip_prefix("nan"));
    matches!(suffix, Some("f" | "f16" | "f32" | "f64"))
}

/// Element types by name.
const ELEMENT_TYPES: [(&str, DType); 13] = [
    ("bool", DType::BOOL),
    ("uint1", DType::BOOL),
    ("float16", DType::F16),
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("int8", DType::I8),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
];

/// The element type of a name.
pub(super) fn element_type(name: &str) -> Option<DType> {
    ELEMENT_TYPES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// Returns true if a word names an element type.
pub(super) fn is_element_type(name: &str) -> bool {
    element_type(name).is_some()
}
