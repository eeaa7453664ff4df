//! The three languages, as a table of words: types, functions of the mathematics library, literals.
//!
//! Decision: docs/decisions/0099-source-text.md

use std::fmt;
use std::str::FromStr;

use reflex_tir::DType;

use crate::error::{Result, SourceError};

/// A language that kernels are printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// C11, for a CPU.
    C,
    /// CUDA C, for GPUs of NVIDIA.
    Cuda,
    /// OpenCL C 1.2, for GPUs and other devices.
    OpenCl,
}

/// TVM's name for it.
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Dialect::C => "c",
            Dialect::Cuda => "cuda",
            Dialect::OpenCl => "opencl",
        })
    }
}

/// Modules name OpenCL `cl`.
impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Dialect, String> {
        match text {
            "c" => Ok(Dialect::C),
            "cuda" => Ok(Dialect::Cuda),
            "opencl" | "cl" => Ok(Dialect::OpenCl),
            _ => Err(format!(
                "there is no language {text:?} to print kernels in; there are c, cuda and opencl"
            )),
        }
    }
}

/// A type, its tag in names of helpers, and its words in each language.
type Words = (DType, &'static str, [&'static str; 3]);

const TYPES: [Words; 11] = [
    (DType::I8, "i8", ["int8_t", "signed char", "char"]),
    (DType::I16, "i16", ["int16_t", "short", "short"]),
    (DType::I32, "i32", ["int32_t", "int", "int"]),
    (DType::I64, "i64", ["int64_t", "long long", "long"]),
    (DType::U8, "u8", ["uint8_t", "unsigned char", "uchar"]),
    (DType::U16, "u16", ["uint16_t", "unsigned short", "ushort"]),
    (DType::U32, "u32", ["uint32_t", "unsigned int", "uint"]),
    (DType::U64, "u64", ["uint64_t", "unsigned long long", "ulong"]),
    (DType::F32, "f32", ["float"; 3]),
    (DType::F64, "f64", ["double"; 3]),
    (DType::BOOL, "bool", ["bool"; 3]),
];

/// The type that elements of `dtype` are computed in: 16-bit floats in float32, 8-bit floats as their codes.
pub fn value_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other if other.is_float8() => DType::U8,
        other => other,
    }
}

/// The type that elements of `dtype` have in memory.
pub fn stored_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::U16,
        DType::BOOL => DType::U8,
        other => value_type(other),
    }
}

impl Dialect {
    fn column(self) -> usize {
        match self {
            Dialect::C => 0,
            Dialect::Cuda => 1,
            Dialect::OpenCl => 2,
        }
    }

    /// The word for a type that values have.
    pub fn word(self, dtype: DType) -> Result<&'static str> {
        let found = TYPES.iter().find(|(known, ..)| *known == dtype);
        let (.., words) = found.ok_or_else(|| no_type(dtype))?;
        Ok(words[self.column()])
    }

    /// A function of float32 or float64 by its name in C.
    pub fn function(self, name: &str, dtype: DType) -> String {
        let single = dtype == DType::F32;
        match (self, name) {
            (Dialect::Cuda, "fma") => if single { "__fmaf_rn" } else { "__fma_rn" }.to_owned(),
            (Dialect::Cuda, "sqrt") => if single { "__fsqrt_rn" } else { "__dsqrt_rn" }.to_owned(),
            (Dialect::OpenCl, name) => name.to_owned(),
            (_, name) if single => format!("{name}f"),
            (_, name) => name.to_owned(),
        }
    }

    /// A product that no compiler joins with a sum, if it takes a function.
    pub fn product(self, dtype: DType) -> Option<&'static str> {
        match (self, dtype) {
            (Dialect::Cuda, DType::F64) => Some("__dmul_rn"),
            (Dialect::Cuda, _) => Some("__fmul_rn"),
            _ => None,
        }
    }

    /// The words that a function of the prelude begins with.
    pub fn inline(self) -> &'static str {
        match self {
            Dialect::C | Dialect::OpenCl => "static inline",
            Dialect::Cuda => "static __device__ __forceinline__",
        }
    }

    /// Infinity, of float32 or float64.
    pub fn infinity(self, dtype: DType) -> &'static str {
        match (self, dtype) {
            (Dialect::C, DType::F64) => "HUGE_VAL",
            (Dialect::C, _) => "HUGE_VALF",
            (Dialect::Cuda, DType::F64) => "__longlong_as_double(0x7ff0000000000000ll)",
            (Dialect::Cuda, _) => "__int_as_float(0x7f800000)",
            (Dialect::OpenCl, DType::F64) => "as_double(0x7ff0000000000000ul)",
            (Dialect::OpenCl, _) => "as_float(0x7f800000u)",
        }
    }

    /// A quiet NaN, of float32 or float64.
    pub fn nan(self, dtype: DType) -> &'static str {
        match (self, dtype) {
            (Dialect::C, DType::F64) => "(double)NAN",
            (Dialect::C, _) => "NAN",
            (Dialect::Cuda, DType::F64) => "__longlong_as_double(0x7ff8000000000000ll)",
            (Dialect::Cuda, _) => "__int_as_float(0x7fc00000)",
            (Dialect::OpenCl, DType::F64) => "as_double(0x7ff8000000000000ul)",
            (Dialect::OpenCl, _) => "as_float(0x7fc00000u)",
        }
    }

    /// The line in front of a loop that is to be replicated.
    pub fn unroll(self, copies: i64) -> String {
        match self {
            // GCC takes up to 65534 copies.
            Dialect::C => format!("#pragma GCC unroll {}", copies.clamp(1, 4096)),
            Dialect::Cuda | Dialect::OpenCl => "#pragma unroll".to_owned(),
        }
    }
}

/// The tag of a type in names of helpers.
pub fn tag(dtype: DType) -> Result<&'static str> {
    match dtype {
        DType::F16 => Ok("f16"),
        DType::BF16 => Ok("bf16"),
        other => {
            let found = TYPES.iter().find(|(known, ..)| *known == other);
            Ok(found.ok_or_else(|| no_type(dtype))?.1)
        }
    }
}

fn no_type(dtype: DType) -> SourceError {
    SourceError::new(format!("no text for element type {dtype}"))
}
