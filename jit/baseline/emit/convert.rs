//! Conversions between element types, and between a value and its stored form.
//!
//! 16-bit floats are converted by integer operations, which need no instructions of their own;
//! float64 reaches 16 bits through a float32 rounded to odd, so it is rounded once.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use reflex_tir::DType;

use crate::emit::{Emitter, value_type};
use crate::error::{BaselineError, Result};

/// float32's bits of the smallest number that is infinite as float16.
const F16_OVERFLOW: i64 = 0x4780_0000;
/// Those of the smallest normal float16.
const F16_NORMAL: i64 = 0x3880_0000;
/// Those of 0.5, whose last bit is worth as much as the last bit of a subnormal float16.
const F16_SUBNORMAL_ROUNDING: i64 = 0x3f00_0000;
/// Those of infinity.
const INFINITY: i64 = 0x7f80_0000;
/// The distance of the exponents' biases, 112, in float32's exponent field.
const BIAS: i64 = 112 << 23;

impl Emitter<'_, '_, '_> {
    /// `value` of type `from` as `to`, with the meaning of a cast expression.
    pub(crate) fn cast(&mut self, value: Value, from: DType, to: DType) -> Result<Value> {
        if from == to {
            return Ok(value);
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => self.float_to_float(value, from, to),
            (true, false) => self.float_to_int(value, from, to),
            (false, true) => self.int_to_float(value, from, to),
            (false, false) => self.int_to_int(value, from, to),
        }
    }

    /// A scalar parameter from the 64-bit word it travels in (floats as float64 bits).
    pub(crate) fn scalar_from_word(&mut self, word: Value, dtype: DType) -> Result<Value> {
        if dtype.is_float() {
            let value = self.bitcast(types::F64, word);
            return self.cast(value, DType::F64, dtype);
        }
        self.cast(word, DType::I64, dtype)
    }

    /// The in-memory form of a computed scalar. Of vectors, the 16-bit floats stay in the lower halves
    /// of their lanes.
    pub(super) fn store_form(&mut self, value: Value, dtype: DType) -> Value {
        let half = match dtype {
            DType::F16 => self.half_bits(value),
            DType::BF16 => {
                let bits = self.bits_of(value);
                self.ushr(bits, 16)
            }
            _ => return value,
        };
        if self.ty(half).is_vector() { half } else { self.b.ins().ireduce(types::I16, half) }
    }

    /// The computed form of an element read from memory, or of a vector whose 16-bit floats are in the
    /// lower halves of lanes.
    pub(super) fn load_form(&mut self, stored: Value, dtype: DType) -> Value {
        match dtype {
            DType::BOOL => {
                let zero = self.int(types::I8, 0);
                self.b.ins().icmp(IntCC::NotEqual, stored, zero)
            }
            DType::F16 | DType::BF16 => {
                let wide = match self.ty(stored) {
                    types::I16 => self.b.ins().uextend(types::I32, stored),
                    _ => stored,
                };
                if dtype == DType::F16 {
                    return self.half_bits_to_float(wide);
                }
                let bits = self.shl(wide, 16);
                self.as_float(bits)
            }
            _ => stored,
        }
    }

    /// Rounds a float32 to the nearest value of a 16-bit type, still as float32.
    pub(super) fn round_half(&mut self, value: Value, dtype: DType) -> Value {
        match dtype {
            DType::F16 => {
                let half = self.half_bits(value);
                self.half_bits_to_float(half)
            }
            DType::BF16 => self.round_bf16(value),
            _ => value,
        }
    }

    /// `value << by`, in every lane.
    pub(super) fn shl(&mut self, value: Value, by: i32) -> Value {
        let by = self.i32(by);
        self.b.ins().ishl(value, by)
    }

    /// `value >> by` with zeros, in every lane.
    pub(super) fn ushr(&mut self, value: Value, by: i32) -> Value {
        let by = self.i32(by);
        self.b.ins().ushr(value, by)
    }

    /// The bits of float32, as 32-bit integers of the same shape.
    pub(super) fn bits_of(&mut self, value: Value) -> Value {
        let ty = if self.ty(value).is_vector() { types::I32X4 } else { types::I32 };
        self.bitcast(ty, value)
    }

    /// The float32 with these bits.
    pub(super) fn as_float(&mut self, bits: Value) -> Value {
        let ty = if self.ty(bits).is_vector() { types::F32X4 } else { types::F32 };
        self.bitcast(ty, bits)
    }

    fn combine(
        &mut self,
        value: Value,
        constant: i64,
        op: fn(&mut Self, Value, Value) -> Value,
    ) -> Value {
        let constant = self.int(self.ty(value), constant);
        op(self, value, constant)
    }

    pub(super) fn and(&mut self, value: Value, mask: i64) -> Value {
        self.combine(value, mask, |e, a, b| e.b.ins().band(a, b))
    }

    fn plus(&mut self, value: Value, constant: i64) -> Value {
        self.combine(value, constant, |e, a, b| e.b.ins().iadd(a, b))
    }

    fn signed_less(&mut self, value: Value, constant: i64) -> Value {
        self.combine(value, constant, |e, a, b| e.b.ins().icmp(IntCC::SignedLessThan, a, b))
    }

    /// Nearest-even on the upper 16 bits; NaN becomes quiet instead of rounding to infinity.
    fn round_bf16(&mut self, value: Value) -> Value {
        let bits = self.bits_of(value);
        let high = self.ushr(bits, 16);
        let odd = self.and(high, 1);
        let half = self.plus(bits, 0x7fff);
        let rounded = self.b.ins().iadd(half, odd);
        let quiet = self.combine(bits, 0x0040_0000, |e, a, b| e.b.ins().bor(a, b));
        let nan = self.fcmp(FloatCC::Unordered, value, value);
        let chosen = self.select(nan, quiet, rounded);
        let kept = self.and(chosen, 0xffff_0000);
        self.as_float(kept)
    }

    /// A float32 as float16, to nearest even, in the lower half of a 32-bit integer.
    fn half_bits(&mut self, value: Value) -> Value {
        let all = self.bits_of(value);
        let ty = self.ty(all);
        let bits = self.and(all, 0x7fff_ffff);
        // Below the smallest normal number: an addition of floats shifts and rounds.
        let rounding = self.int(ty, F16_SUBNORMAL_ROUNDING);
        let (size, magic) = (self.as_float(bits), self.as_float(rounding));
        let sum = self.b.ins().fadd(size, magic);
        let sum = self.bits_of(sum);
        let subnormal = self.b.ins().isub(sum, rounding);
        // Among the normal numbers: round by integers, which may carry into the exponent.
        let last = self.ushr(bits, 13);
        let odd = self.and(last, 1);
        let rebased = self.plus(bits, 0xfff - BIAS);
        let rounded = self.b.ins().iadd(rebased, odd);
        let normal = self.ushr(rounded, 13);
        // Beyond.
        let (infinite, quiet) = (self.int(ty, 0x7c00), self.int(ty, 0x7e00));
        let not_nan = self.signed_less(bits, INFINITY + 1);
        let special = self.select(not_nan, infinite, quiet);
        let is_subnormal = self.signed_less(bits, F16_NORMAL);
        let finite = self.select(is_subnormal, subnormal, normal);
        let is_finite = self.signed_less(bits, F16_OVERFLOW);
        let size = self.select(is_finite, finite, special);
        let sign = self.ushr(all, 16);
        let sign = self.and(sign, 0x8000);
        self.b.ins().bor(size, sign)
    }

    /// The float32 of a float16 in the lower half of a 32-bit integer.
    fn half_bits_to_float(&mut self, half: Value) -> Value {
        let size = self.and(half, 0x7fff);
        let size = self.shl(size, 13);
        let normal = self.plus(size, BIAS);
        let special = self.plus(normal, BIAS);
        // With the smallest normal exponent in front, then without: floats normalise.
        let shifted = self.plus(normal, 1 << 23);
        let least = self.int(self.ty(half), F16_NORMAL);
        let (shifted, least) = (self.as_float(shifted), self.as_float(least));
        let subnormal = self.b.ins().fsub(shifted, least);
        let subnormal = self.bits_of(subnormal);
        let is_subnormal = self.signed_less(size, 1 << 23);
        let finite = self.select(is_subnormal, subnormal, normal);
        let is_finite = self.signed_less(size, 0x7c00 << 13);
        let size = self.select(is_finite, finite, special);
        let sign = self.and(half, 0x8000);
        let sign = self.shl(sign, 16);
        let bits = self.b.ins().bor(size, sign);
        self.as_float(bits)
    }

    fn float_to_float(&mut self, value: Value, from: DType, to: DType) -> Result<Value> {
        for dtype in [from, to] {
            value_type(dtype)?;
            if dtype.is_float8() {
                return Err(BaselineError::new(format!("no conversion from {from} to {to}")));
            }
        }
        Ok(match (from, to) {
            (DType::F64, DType::F32) => self.b.ins().fdemote(types::F32, value),
            (DType::F64, _) => {
                let odd = self.round_to_odd(value);
                self.round_half(odd, to)
            }
            (_, DType::F64) => self.b.ins().fpromote(types::F64, value),
            _ => self.round_half(value, to),
        })
    }

    /// float64 to float32 such that a second rounding to at most 22 bits is exact: an inexact
    /// result takes the neighbour whose last bit is set.
    fn round_to_odd(&mut self, value: Value) -> Value {
        let near = self.b.ins().fdemote(types::F32, value);
        let back = self.b.ins().fpromote(types::F64, near);
        let (size, back_size) = (self.b.ins().fabs(value), self.b.ins().fabs(back));
        let inexact = self.fcmp(FloatCC::OrderedNotEqual, back, value);
        let too_big = self.fcmp(FloatCC::GreaterThan, back_size, size);
        let bits = self.bits_of(near);
        let big = self.b.ins().uextend(types::I32, too_big);
        let towards_zero = self.b.ins().isub(bits, big);
        let sticky = self.b.ins().uextend(types::I32, inexact);
        let odd = self.b.ins().bor(towards_zero, sticky);
        self.as_float(odd)
    }

    /// Truncation inside the range, the nearest end outside, 0 for NaN.
    fn float_to_int(&mut self, value: Value, from: DType, to: DType) -> Result<Value> {
        let ty = self.ty(value);
        if to.is_bool() {
            let zero = self.float(ty, 0.0);
            return Ok(self.fcmp(FloatCC::NotEqual, value, zero));
        }
        if from.is_float8() || !(to.is_int() || to.is_uint()) {
            return Err(BaselineError::new(format!("no conversion from {from} to {to}")));
        }
        let wide = match (ty.is_vector(), to.bits) {
            (true, _) => types::I32X4,
            (false, 64) => types::I64,
            (false, _) => types::I32,
        };
        if to.bits >= 32 {
            return Ok(match to.is_int() {
                true => self.b.ins().fcvt_to_sint_sat(wide, value),
                false => self.b.ins().fcvt_to_uint_sat(wide, value),
            });
        }
        let (least, most) = match to.is_int() {
            true => (-(1i64 << (to.bits - 1)), (1i64 << (to.bits - 1)) - 1),
            false => (0, (1i64 << to.bits) - 1),
        };
        let inside = self.b.ins().fcvt_to_sint_sat(wide, value);
        let (least, most) = (self.int(wide, least), self.int(wide, most));
        let above = self.b.ins().smax(inside, least);
        let kept = self.b.ins().smin(above, most);
        if ty.is_vector() {
            return Ok(kept);
        }
        let ty = value_type(to)?;
        Ok(self.b.ins().ireduce(ty, kept))
    }

    /// Narrow floats round twice, through float32: the meaning the loop IR gives the cast.
    fn int_to_float(&mut self, value: Value, from: DType, to: DType) -> Result<Value> {
        let value = match self.ty(value) {
            types::I32X4 => {
                let value = if from.is_bool() { self.and(value, 1) } else { value };
                let float = match from.is_uint() && from.bits == 32 {
                    true => self.b.ins().fcvt_from_uint(types::F32X4, value),
                    false => self.b.ins().fcvt_from_sint(types::F32X4, value),
                };
                return Ok(self.round_half(float, to));
            }
            types::I8 | types::I16 if from.is_int() => self.b.ins().sextend(types::I32, value),
            types::I8 | types::I16 => self.b.ins().uextend(types::I32, value),
            types::I32 if from.is_uint() => self.b.ins().uextend(types::I64, value),
            _ => value,
        };
        let ty = value_type(to)?;
        let float = match from {
            DType::U64 => self.b.ins().fcvt_from_uint(ty, value),
            _ => self.b.ins().fcvt_from_sint(ty, value),
        };
        Ok(self.round_half(float, to))
    }

    fn int_to_int(&mut self, value: Value, from: DType, to: DType) -> Result<Value> {
        let ty: Type = self.ty(value);
        if to.is_bool() {
            let zero = self.int(ty, 0);
            return Ok(self.b.ins().icmp(IntCC::NotEqual, value, zero));
        }
        if ty.is_vector() {
            return Ok(match (from.is_bool(), to.bits, to.is_int()) {
                (true, ..) => self.and(value, 1),
                (_, 8, true) => {
                    let up = self.shl(value, 24);
                    let by = self.i32(24);
                    self.b.ins().sshr(up, by)
                }
                (_, 8, false) => self.and(value, 0xff),
                _ => value,
            });
        }
        let wanted = value_type(to)?;
        Ok(match ty.bits().cmp(&wanted.bits()) {
            std::cmp::Ordering::Equal => value,
            std::cmp::Ordering::Greater => self.b.ins().ireduce(wanted, value),
            std::cmp::Ordering::Less if from.is_int() => self.b.ins().sextend(wanted, value),
            std::cmp::Ordering::Less => self.b.ins().uextend(wanted, value),
        })
    }
}
