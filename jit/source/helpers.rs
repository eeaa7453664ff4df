//! Functions that the text begins with: operations whose meaning in loop IR is not that of an operator of C.
//!
//! Integers wrap, division by zero gives zero, conversions saturate, `min` and `max` have one meaning for NaN.
//! Each is written once, with words of the dialect in place of `$T` and the like, and printed where it is used.

use reflex_tir::{DType, Sign};

use crate::dialect::{Dialect, tag};
use crate::error::{Result, SourceError};

/// A function for a type: its name, what it calls, and its text.
struct Template {
    name: &'static str,
    /// The types it is for.
    of: Of,
    needs: &'static [&'static str],
    text: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Signed,
    Unsigned,
    Integer,
    Float,
    Any,
}

impl Of {
    fn takes(self, dtype: DType) -> bool {
        match self {
            Of::Signed => dtype.is_int(),
            Of::Unsigned => dtype.is_uint(),
            Of::Integer => dtype.is_int() || dtype.is_uint(),
            Of::Float => matches!(dtype, DType::F32 | DType::F64),
            Of::Any => true,
        }
    }
}

const fn row(
    name: &'static str,
    of: Of,
    needs: &'static [&'static str],
    text: &'static str,
) -> Template {
    Template { name, of, needs, text }
}

/// `$f` begins a function, `$T` is the type and `$t` its tag, `$U` the unsigned type as wide, `$W` one that C does
/// not promote, `$B` the number of bits; `$floor(` and the like are functions of the type.
const TEMPLATES: &[Template] = &[
    row("add", Of::Integer, &[], "$f $T rf_add_$t($T a, $T b) { return ($T)(($W)a + ($W)b); }"),
    row("sub", Of::Integer, &[], "$f $T rf_sub_$t($T a, $T b) { return ($T)(($W)a - ($W)b); }"),
    row("mul", Of::Integer, &[], "$f $T rf_mul_$t($T a, $T b) { return ($T)(($W)a * ($W)b); }"),
    row("min", Of::Integer, &[], "$f $T rf_min_$t($T a, $T b) { return a < b ? a : b; }"),
    row("max", Of::Integer, &[], "$f $T rf_max_$t($T a, $T b) { return a > b ? a : b; }"),
    row("sub", Of::Float, &[], "$f $T rf_sub_$t($T a, $T b) { return a - b; }"),
    row("min", Of::Float, &[], "$f $T rf_min_$t($T a, $T b) { return a < b || a != a ? a : b; }"),
    row("max", Of::Float, &[], "$f $T rf_max_$t($T a, $T b) { return a > b || a != a ? a : b; }"),
    row(
        "div",
        Of::Signed,
        &[],
        "$f $T rf_div_$t($T a, $T b) { return b == 0 ? 0 : b == -1 ? ($T)(0 - ($W)a) : ($T)(a / b); }",
    ),
    row(
        "mod",
        Of::Signed,
        &[],
        "$f $T rf_mod_$t($T a, $T b) { return b == 0 || b == -1 ? 0 : ($T)(a % b); }",
    ),
    row(
        "floordiv",
        Of::Signed,
        &["div", "mod"],
        "$f $T rf_floordiv_$t($T a, $T b) {
    $T rest = rf_mod_$t(a, b);
    return ($T)(rf_div_$t(a, b) - (rest != 0 && (rest < 0) != (b < 0)));
}",
    ),
    row(
        "floormod",
        Of::Signed,
        &["mod"],
        "$f $T rf_floormod_$t($T a, $T b) {
    $T rest = rf_mod_$t(a, b);
    return ($T)(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}",
    ),
    row(
        "div",
        Of::Unsigned,
        &[],
        "$f $T rf_div_$t($T a, $T b) { return b == 0 ? 0 : ($T)(a / b); }",
    ),
    row(
        "mod",
        Of::Unsigned,
        &[],
        "$f $T rf_mod_$t($T a, $T b) { return b == 0 ? 0 : ($T)(a % b); }",
    ),
    row(
        "floormod",
        Of::Float,
        &["mul"],
        "$f $T rf_floormod_$t($T a, $T b) { return a - rf_mul_$t($floor(a / b), b); }",
    ),
    row("mul", Of::Float, &[], "$f $T rf_mul_$t($T a, $T b) { return $product; }"),
    row(
        "shl",
        Of::Signed,
        &[],
        "$f $T rf_shl_$t($T a, $T b) { return b >= 0 && b < $B ? ($T)(($W)a << b) : 0; }",
    ),
    row(
        "shr",
        Of::Signed,
        &[],
        "$f $T rf_shr_$t($T a, $T b) { return ($T)(a >> (b >= 0 && b < $B ? b : $B - 1)); }",
    ),
    row(
        "shl",
        Of::Unsigned,
        &[],
        "$f $T rf_shl_$t($T a, $T b) { return b < $B ? ($T)(($W)a << b) : 0; }",
    ),
    row(
        "shr",
        Of::Unsigned,
        &[],
        "$f $T rf_shr_$t($T a, $T b) { return b < $B ? ($T)(a >> b) : 0; }",
    ),
    row(
        "abs",
        Of::Signed,
        &[],
        "$f $T rf_abs_$t($T a) { return a < 0 ? ($T)(0 - ($W)a) : a; }",
    ),
    row("isnan", Of::Float, &[], "$f bool rf_isnan_$t($T a) { return a != a; }"),
    row("isinf", Of::Float, &[], "$f bool rf_isinf_$t($T a) { return $fabs(a) == $infinity; }"),
    row(
        "from_f16",
        Of::Any,
        &["float"],
        "$f float rf_from_f16($U16 code) {
    $U32 sign = ($U32)(code & 0x8000u) << 16, rest = ($U32)(code & 0x7fffu) << 13;
    if (rest < 0x00800000u) return rf_float(sign | rf_bits((float)(code & 0x7fffu) * 5.9604644775390625e-8f));
    return rf_float(sign | (rest + (rest < 0x0f800000u ? 0x38000000u : 0x70000000u)));
}",
    ),
    row(
        "to_f16",
        Of::Any,
        &["float"],
        "$f $U16 rf_to_f16(float value) {
    $U32 bits = rf_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return ($U16)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return ($U16)(sign | 0x7c00u);
    if (size < 0x38800000u) return ($U16)(sign | (rf_bits(rf_float(size) + 0.5f) - 0x3f000000u));
    return ($U16)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}",
    ),
    row(
        "round_f16",
        Of::Any,
        &["from_f16", "to_f16"],
        "$f float rf_round_f16(float value) { return rf_from_f16(rf_to_f16(value)); }",
    ),
    row(
        "from_bf16",
        Of::Any,
        &["float"],
        "$f float rf_from_bf16($U16 code) { return rf_float(($U32)code << 16); }",
    ),
    row(
        "to_bf16",
        Of::Any,
        &["float"],
        "$f $U16 rf_to_bf16(float value) {
    $U32 bits = rf_bits(value);
    return ($U16)(value != value ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}",
    ),
    // Of a float32 that a bfloat16 holds: as it is, a signalling NaN too.
    row(
        "bits_bf16",
        Of::Any,
        &["float"],
        "$f $U16 rf_bits_bf16(float value) { return ($U16)(rf_bits(value) >> 16); }",
    ),
    row(
        "round_bf16",
        Of::Any,
        &["from_bf16", "to_bf16"],
        "$f float rf_round_bf16(float value) { return rf_from_bf16(rf_to_bf16(value)); }",
    ),
    // What is rounded again, to fewer than 22 bits, is rounded as if at once: the last bit of an inexact number is set.
    row(
        "odd",
        Of::Any,
        &["float"],
        "$f float rf_odd(double value) {
    double back = (double)(float)value, size = back < 0 ? -back : back;
    $U32 bits = rf_bits((float)value);
    if (back == value || value != value) return (float)value;
    return rf_float((bits - (size > (value < 0 ? -value : value))) | 1u);
}",
    ),
    row("float", Of::Any, &[], "$bits"),
    row("double", Of::Any, &[], "$double"),
    row(
        "normal",
        Of::Any,
        &["float"],
        "$f float rf_normal(float value) {
    $U32 bits = rf_bits(value);
    return (bits & 0x7fffffffu) < 0x00800000u ? rf_float(bits & 0x80000000u) : value;
}",
    ),
    row(
        "pair_bf16",
        Of::Any,
        &[],
        "$f $U32 rf_pair_bf16($U16 a, $U16 b) { return ($U32)b << 16 | ($U32)a; }",
    ),
    row(
        "dot_s16s16",
        Of::Any,
        &[],
        "$f $I32 rf_dot_s16s16($U32 a, $U32 b, $I32 sum) {
    $I32 low = ($I32)($I16)a * ($I32)($I16)b, high = ($I32)($I16)(a >> 16) * ($I32)($I16)(b >> 16);
    return ($I32)(($U32)sum + ($U32)low + ($U32)high);
}",
    ),
    row(
        "pack_4x8",
        Of::Any,
        &[],
        "$f $U32 rf_pack_4x8($I32 a, $I32 b, $I32 c, $I32 d) {
    return ($U32)(a & 255) | ($U32)(b & 255) << 8 | ($U32)(c & 255) << 16 | ($U32)(d & 255) << 24;
}",
    ),
];

/// The bits of a float32 and back, by what each language has for it.
fn bits(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::C => {
            "static inline uint32_t rf_bits(float value) {
    union { float value; uint32_t bits; } both = { value };
    return both.bits;
}
static inline float rf_float(uint32_t bits) {
    union { uint32_t bits; float value; } both = { bits };
    return both.value;
}"
        }
        Dialect::Cuda => {
            "static __device__ __forceinline__ unsigned int rf_bits(float value) { return __float_as_uint(value); }
static __device__ __forceinline__ float rf_float(unsigned int bits) { return __uint_as_float(bits); }"
        }
        Dialect::OpenCl => {
            "static inline uint rf_bits(float value) { return as_uint(value); }
static inline float rf_float(uint bits) { return as_float(bits); }"
        }
    }
}

/// The same for float64.
fn double(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::C => {
            "static inline uint64_t rf_double_bits(double value) {
    union { double value; uint64_t bits; } both = { value };
    return both.bits;
}
static inline double rf_double(uint64_t bits) {
    union { uint64_t bits; double value; } both = { bits };
    return both.value;
}"
        }
        Dialect::Cuda => {
            "static __device__ __forceinline__ unsigned long long rf_double_bits(double value) {
    return (unsigned long long)__double_as_longlong(value);
}
static __device__ __forceinline__ double rf_double(unsigned long long bits) {
    return __longlong_as_double((long long)bits);
}"
        }
        Dialect::OpenCl => {
            "static inline ulong rf_double_bits(double value) { return as_ulong(value); }
static inline double rf_double(ulong bits) { return as_double(bits); }"
        }
    }
}

/// The unsigned type of as many bits.
pub fn unsigned(dtype: DType) -> DType {
    match dtype.bits {
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        _ => DType::U64,
    }
}

/// The functions that a text has used so far.
pub struct Helpers {
    dialect: Dialect,
    /// By name, each behind those that it calls.
    used: Vec<(String, String)>,
    /// Whether anything is computed in float64.
    pub has_double: bool,
}

impl Helpers {
    /// None yet.
    pub fn new(dialect: Dialect) -> Helpers {
        Helpers { dialect, used: vec![], has_double: false }
    }

    /// The text of all that were used.
    pub fn text(&self) -> String {
        self.used.iter().map(|(_, text)| format!("{text}\n")).collect()
    }

    /// The name of a function for a type.
    pub fn of(&mut self, name: &'static str, dtype: DType) -> Result<String> {
        let missing = || SourceError::new(format!("no {name} of {dtype}"));
        let template = TEMPLATES.iter().find(|t| t.name == name && t.of.takes(dtype));
        let template = template.ok_or_else(missing)?;
        let full = match template.of {
            Of::Any => format!("rf_{name}"),
            _ => format!("rf_{name}_{}", tag(dtype)?),
        };
        if !self.knows(&full) {
            for needed in template.needs {
                self.of(needed, dtype)?;
            }
            let text = self.filled(template.text, dtype)?;
            self.used.push((full.clone(), text));
        }
        Ok(full)
    }

    /// The name of a function that needs no type.
    pub fn plain(&mut self, name: &'static str) -> Result<String> {
        self.of(name, DType::I32)
    }

    fn knows(&self, name: &str) -> bool {
        self.used.iter().any(|(known, _)| known == name)
    }

    fn filled(&mut self, text: &str, dtype: DType) -> Result<String> {
        let dialect = self.dialect;
        if text == "$bits" {
            return Ok(bits(dialect).to_owned());
        }
        if text == "$double" {
            self.has_double = true;
            return Ok(double(dialect).to_owned());
        }
        self.has_double |= text.contains("double") || dtype == DType::F64;
        let wide = if dtype.bits == 64 { DType::U64 } else { DType::U32 };
        let product = match dialect.product(dtype) {
            Some(function) => format!("{function}(a, b)"),
            None => "a * b".to_owned(),
        };
        let words = [
            ("$product", product),
            ("$floor", dialect.function("floor", dtype)),
            ("$fabs", dialect.function("fabs", dtype)),
            ("$infinity", dialect.infinity(dtype).to_owned()),
            ("$f ", format!("{} ", dialect.inline())),
            ("$I16", dialect.word(DType::I16)?.to_owned()),
            ("$I32", dialect.word(DType::I32)?.to_owned()),
            ("$U16", dialect.word(DType::U16)?.to_owned()),
            ("$U32", dialect.word(DType::U32)?.to_owned()),
            ("$T", dialect.word(dtype)?.to_owned()),
            ("$W", dialect.word(wide)?.to_owned()),
            ("$U", dialect.word(unsigned(dtype))?.to_owned()),
            ("$t", tag(dtype)?.to_owned()),
            ("$B", dtype.bits.to_string()),
        ];
        let fill = |text: String, (from, to): &(&str, String)| text.replace(from, to);
        Ok(words.iter().fold(text.to_owned(), fill))
    }

    /// The name of the conversion of a float to an integer: towards zero, to the nearest end outside, 0 for NaN.
    pub fn saturating(&mut self, from: DType, to: DType) -> Result<String> {
        let name = format!("rf_{}_to_{}", tag(from)?, tag(to)?);
        if self.knows(&name) {
            return Ok(name);
        }
        let (dialect, bits) = (self.dialect, i32::from(to.bits));
        let (float, int) = (dialect.word(from)?, dialect.word(to)?);
        let (least, beyond, min, max) = match to.is_int() {
            true => {
                let max = i64::MAX >> (64 - bits);
                let (end, min) = (f64::powi(2.0, bits - 1), format!("-{max} - 1"));
                (-end, end, min, format!("{max}"))
            }
            false => {
                let max = u64::MAX >> (64 - bits);
                (0.0, f64::powi(2.0, bits), "0".to_owned(), format!("{max}u"))
            }
        };
        let suffix = if from == DType::F32 { "f" } else { "" };
        let text = format!(
            "{} {int} {name}({float} value) {{
    if (value != value) return 0;
    return value < {least:?}{suffix} ? ({int})({min}) : value >= {beyond:?}{suffix} ? ({int}){max} : ({int})value;
}}",
            dialect.inline()
        );
        self.has_double |= from == DType::F64;
        self.used.push((name.clone(), text));
        Ok(name)
    }

    /// The name of the dot product of four bytes by four bytes.
    pub fn dot_i8(&mut self, a: Sign, b: Sign) -> Result<String> {
        let letter = |sign| if sign == Sign::Signed { "s8" } else { "u8" };
        let name = format!("rf_dot_{}{}", letter(a), letter(b));
        if !self.knows(&name) {
            let dialect = self.dialect;
            let byte =
                |sign| dialect.word(if sign == Sign::Signed { DType::I8 } else { DType::U8 });
            let (x, y) = (byte(a)?, byte(b)?);
            let (word, int) = (dialect.word(DType::U32)?, dialect.word(DType::I32)?);
            let text = format!(
                "{} {int} {name}({word} a, {word} b, {int} sum) {{
    for ({int} by = 0; by < 32; by += 8)
        sum = ({int})(({word})sum + ({word})(({int})({x})(a >> by) * ({int})({y})(b >> by)));
    return sum;
}}",
                dialect.inline()
            );
            self.used.push((name.clone(), text));
        }
        Ok(name)
    }
}
