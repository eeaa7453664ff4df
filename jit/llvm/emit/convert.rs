//! Conversions between element types, and between a value and its stored form.
//!
//! LLVM's own conversions are used only where they need no library call and have no mode:
//! bfloat16 is rounded with integer operations on a CPU (the x86 instruction flushes denormals), and
//! float64 reaches 16 bits through a float32 rounded to odd, so it is rounded once.

use inkwell::values::{BasicValueEnum, InstructionOpcode};
use inkwell::{FloatPredicate, IntPredicate};
use reflex_tir::DType;

use crate::emit::ir::{element_of, result_of, vector_of};
use crate::emit::{Emitter, Unit};
use crate::error::{CodegenError, Result};

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// `value` of type `from` as `to`, with the meaning of a cast expression.
    pub(crate) fn cast(&self, value: Basic<'c>, from: DType, to: DType) -> Result<Basic<'c>> {
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
    pub(crate) fn scalar_from_word(
        &self,
        word: inkwell::values::IntValue<'c>,
        dtype: DType,
    ) -> Result<BasicValueEnum<'c>> {
        if dtype.is_float() {
            let double = self.ir.context.f64_type();
            let value = self.ir.convert(InstructionOpcode::BitCast, word.into(), double)?;
            return self.cast(value, DType::F64, dtype);
        }
        self.cast(word.into(), DType::I64, dtype)
    }

    /// The in-memory form of a computed `value`.
    pub(super) fn store_form(&self, value: Basic<'c>, dtype: DType) -> Result<Basic<'c>> {
        let c = self.ir.context;
        match dtype {
            DType::BOOL => self.ir.convert(InstructionOpcode::ZExt, value, c.i8_type()),
            DType::F16 => {
                let half = self.ir.convert(InstructionOpcode::FPTrunc, value, c.f16_type())?;
                self.ir.convert(InstructionOpcode::BitCast, half, c.i16_type())
            }
            DType::BF16 => {
                let bits = self.ir.convert(InstructionOpcode::BitCast, value, c.i32_type())?;
                let sixteen = self.ir.int_like(bits, c.i32_type(), 16);
                let high = self.ir.binary(InstructionOpcode::LShr, bits, sixteen)?;
                self.ir.convert(InstructionOpcode::Trunc, high, c.i16_type())
            }
            _ => Ok(value),
        }
    }

    /// The computed form of an element read from memory.
    pub(super) fn load_form(&self, stored: Basic<'c>, dtype: DType) -> Result<Basic<'c>> {
        let c = self.ir.context;
        match dtype {
            DType::BOOL => {
                let zero = self.ir.int_like(stored, c.i8_type(), 0);
                self.ir.icmp(IntPredicate::NE, stored, zero)
            }
            DType::F16 => {
                let half = self.ir.convert(InstructionOpcode::BitCast, stored, c.f16_type())?;
                self.widened_half(half)
            }
            DType::BF16 => {
                let wide = self.ir.convert(InstructionOpcode::ZExt, stored, c.i32_type())?;
                let sixteen = self.ir.int_like(wide, c.i32_type(), 16);
                let bits = self.ir.binary(InstructionOpcode::Shl, wide, sixteen)?;
                self.ir.convert(InstructionOpcode::BitCast, bits, c.f32_type())
            }
            _ => Ok(stored),
        }
    }

    /// A float16 as float32. LLVM would compare float16 instead of what was widened, which x86 does for one element at
    /// a time; the fence keeps the comparison in float32.
    fn widened_half(&self, half: Basic<'c>) -> Result<Basic<'c>> {
        let wide = self.ir.convert(InstructionOpcode::FPExt, half, self.ir.context.f32_type())?;
        match self.unit {
            Unit::Cpu => self.ir.pure_intrinsic("llvm.arithmetic.fence", &[wide]),
            Unit::Gpu => Ok(wide),
        }
    }

    /// Rounds a float32 to the nearest value of a 16-bit type, still as float32.
    pub(super) fn round_half(&self, value: Basic<'c>, dtype: DType) -> Result<Basic<'c>> {
        let c = self.ir.context;
        match dtype {
            DType::F16 => {
                let half = self.ir.convert(InstructionOpcode::FPTrunc, value, c.f16_type())?;
                self.widened_half(half)
            }
            DType::BF16 => self.round_bf16(value),
            _ => Ok(value),
        }
    }

    /// Nearest-even on the upper 16 bits; NaN becomes quiet instead of rounding to infinity.
    fn round_bf16(&self, value: Basic<'c>) -> Result<Basic<'c>> {
        if self.unit == Unit::Gpu {
            return self.converted_bf16(value);
        }
        let (ir, i32t) = (&self.ir, self.ir.context.i32_type());
        let bits = ir.convert(InstructionOpcode::BitCast, value, i32t)?;
        let constant = |v: i64| ir.int_like(bits, i32t, v);
        let high = ir.binary(InstructionOpcode::LShr, bits, constant(16))?;
        let odd = ir.binary(InstructionOpcode::And, high, constant(1))?;
        let half = ir.binary(InstructionOpcode::Add, bits, constant(0x7fff))?;
        let rounded = ir.binary(InstructionOpcode::Add, half, odd)?;
        let quiet = ir.binary(InstructionOpcode::Or, bits, constant(0x0040_0000))?;
        let nan = ir.fcmp(FloatPredicate::UNO, value, value)?;
        let chosen = ir.select(nan, quiet, rounded)?;
        let kept = ir.binary(InstructionOpcode::And, chosen, constant(0xffff_0000))?;
        ir.convert(InstructionOpcode::BitCast, kept, self.ir.context.f32_type())
    }

    /// The same by a GPU's conversion, of two lanes at once.
    fn converted_bf16(&self, value: Basic<'c>) -> Result<Basic<'c>> {
        let (ir, c) = (&self.ir, self.ir.context);
        let upper = |bits: Basic<'c>| {
            let wide = ir.convert(InstructionOpcode::ZExt, bits, c.i32_type())?;
            ir.binary(InstructionOpcode::Shl, wide, ir.int_like(wide, c.i32_type(), 16))
        };
        let BasicValueEnum::VectorValue(lanes) = value else {
            let half = result_of(ir.intrinsic("llvm.nvvm.f2bf16.rn", &[], &[value.into()])?)?;
            let bits = ir.convert(InstructionOpcode::BitCast, half, c.i16_type())?;
            return ir.convert(InstructionOpcode::BitCast, upper(bits)?, c.f32_type());
        };
        let count = lanes.get_type().get_size();
        let mut all = vector_of(c.i16_type().into(), count)?.get_undef();
        for first in (0..count).step_by(2) {
            let lane = |n: u32| ir.builder.build_extract_element(lanes, ir.i32(n as i32), "");
            // The first operand becomes the upper half.
            let (low, high) = (lane(first)?, lane((first + 1).min(count - 1))?);
            let pair = ir.intrinsic("llvm.nvvm.ff2bf16x2.rn", &[], &[high.into(), low.into()])?;
            let pair = ir.builder.build_bit_cast(
                result_of(pair)?,
                vector_of(c.i16_type().into(), 2)?,
                "",
            )?;
            for n in first..(first + 2).min(count) {
                let from = ir.i32((n - first) as i32);
                let bits = ir.builder.build_extract_element(pair.into_vector_value(), from, "")?;
                all = ir.builder.build_insert_element(all, bits, ir.i32(n as i32), "")?;
            }
        }
        ir.convert(InstructionOpcode::BitCast, upper(all.into())?, c.f32_type())
    }

    fn float_to_float(&self, value: Basic<'c>, from: DType, to: DType) -> Result<Basic<'c>> {
        let c = self.ir.context;
        match (from, to) {
            (DType::F64, DType::F32) => {
                self.ir.convert(InstructionOpcode::FPTrunc, value, c.f32_type())
            }
            (DType::F64, _) => self.round_half(self.round_to_odd(value)?, to),
            (_, DType::F64) => self.ir.convert(InstructionOpcode::FPExt, value, c.f64_type()),
            _ => self.round_half(value, to),
        }
    }

    /// float64 to float32 such that a second rounding to at most 22 bits is exact: an inexact
    /// result takes the neighbour whose last bit is set.
    fn round_to_odd(&self, value: Basic<'c>) -> Result<Basic<'c>> {
        let (ir, c) = (&self.ir, self.ir.context);
        let near = ir.convert(InstructionOpcode::FPTrunc, value, c.f32_type())?;
        let back = ir.convert(InstructionOpcode::FPExt, near, c.f64_type())?;
        let (size, back_size) =
            (ir.pure_intrinsic("llvm.fabs", &[value])?, ir.pure_intrinsic("llvm.fabs", &[back])?);
        let inexact = ir.fcmp(FloatPredicate::ONE, back, value)?;
        let too_big = ir.fcmp(FloatPredicate::OGT, back_size, size)?;
        let bits = ir.convert(InstructionOpcode::BitCast, near, c.i32_type())?;
        let big = ir.convert(InstructionOpcode::ZExt, too_big, c.i32_type())?;
        let towards_zero = ir.binary(InstructionOpcode::Sub, bits, big)?;
        let sticky = ir.convert(InstructionOpcode::ZExt, inexact, c.i32_type())?;
        let odd = ir.binary(InstructionOpcode::Or, towards_zero, sticky)?;
        ir.convert(InstructionOpcode::BitCast, odd, c.f32_type())
    }

    fn float_to_int(&self, value: Basic<'c>, from: DType, to: DType) -> Result<Basic<'c>> {
        if to.is_bool() {
            let ty = element_of(value.get_type()).into_float_type();
            let zero = self.ir.float_like(value, ty, 0.0);
            return self.ir.fcmp(FloatPredicate::UNE, value, zero);
        }
        if !from.is_float() || !(to.is_int() || to.is_uint()) {
            return Err(CodegenError::new(format!("no conversion from {from} to {to}")));
        }
        self.saturating(value, to)
    }

    /// Truncation inside the range, the nearest end outside, 0 for NaN. What the plain
    /// conversion gives outside is never chosen. (LLVM's saturating intrinsic means the same,
    /// but goes lane by lane on x86.)
    fn saturating(&self, value: Basic<'c>, to: DType) -> Result<Basic<'c>> {
        let (ir, signed) = (&self.ir, to.is_int());
        let float = element_of(value.get_type()).into_float_type();
        let int = self.value_type(to)?.into_int_type();
        // Narrow results go through int32, the narrowest that vectors convert to.
        let wide = if to.bits < 32 { ir.context.i32_type() } else { int };
        let op = match signed || to.bits < 32 {
            true => InstructionOpcode::FPToSI,
            false => InstructionOpcode::FPToUI,
        };
        let mut inside = ir.convert(op, value, wide)?;
        if to.bits < 32 {
            inside = ir.convert(InstructionOpcode::Trunc, inside, int)?;
        }
        let bits = i32::from(to.bits);
        let (least, beyond, min, max) = match signed {
            true => (-f64::powi(2.0, bits - 1), f64::powi(2.0, bits - 1), 1i64 << (bits - 1), {
                ((1u64 << (bits - 1)) - 1) as i64
            }),
            false => (0.0, f64::powi(2.0, bits), 0, -1),
        };
        let below = ir.fcmp(FloatPredicate::OLT, value, ir.float_like(value, float, least))?;
        let above = ir.fcmp(FloatPredicate::OGE, value, ir.float_like(value, float, beyond))?;
        let nan = ir.fcmp(FloatPredicate::UNO, value, value)?;
        let low = ir.select(below, ir.int_like(value, int, min), inside)?;
        let high = ir.select(above, ir.int_like(value, int, max), low)?;
        ir.select(nan, ir.int_like(value, int, 0), high)
    }

    /// [`Self::saturating`] of a float32 that is NaN or within the range of a type of 16 bits or fewer.
    pub(super) fn clipped_to_int(&self, value: Basic<'c>, to: DType) -> Result<Basic<'c>> {
        let (ir, word) = (&self.ir, self.ir.context.i32_type());
        let int = self.value_type(to)?.into_int_type();
        let lanes = match value {
            BasicValueEnum::VectorValue(vector) => vector.get_type().get_size(),
            _ => 1,
        };
        // Of NaN these give the least integer, whose lower half is 0.
        let whole = match (self.instructions.x86_vector_bytes, lanes) {
            (16.., 4) => Some(("llvm.x86.sse2.cvttps2dq", vec![value.into()])),
            (32.., 8) => Some(("llvm.x86.avx.cvtt.ps2dq.256", vec![value.into()])),
            (64.., 16) => {
                let (rest, all) = (word.vec_type(16).const_zero(), ir.context.i16_type());
                let args =
                    vec![value.into(), rest.into(), all.const_all_ones().into(), ir.i32(4).into()];
                Some(("llvm.x86.avx512.mask.cvttps2dq.512", args))
            }
            _ => None,
        };
        if let Some((name, args)) = whole {
            let whole = result_of(ir.intrinsic(name, &[], &args)?)?;
            return ir.convert(InstructionOpcode::Trunc, whole, int);
        }
        let inside = ir.convert(InstructionOpcode::FPToSI, value, word)?;
        let inside = ir.convert(InstructionOpcode::Trunc, inside, int)?;
        let nan = ir.fcmp(FloatPredicate::UNO, value, value)?;
        ir.select(nan, ir.int_like(value, int, 0), inside)
    }

    fn int_to_float(&self, value: Basic<'c>, from: DType, to: DType) -> Result<Basic<'c>> {
        let op = if from.is_int() { InstructionOpcode::SIToFP } else { InstructionOpcode::UIToFP };
        // Narrow floats round twice, through float32: the meaning the loop IR gives the cast.
        let float = self.ir.convert(op, value, self.value_type(to)?)?;
        self.round_half(float, to)
    }

    fn int_to_int(&self, value: Basic<'c>, from: DType, to: DType) -> Result<Basic<'c>> {
        if to.is_bool() {
            let ty = element_of(value.get_type()).into_int_type();
            let zero = self.ir.int_like(value, ty, 0);
            return self.ir.icmp(IntPredicate::NE, value, zero);
        }
        let ty = self.value_type(to)?;
        let width = if from.is_bool() { 1 } else { from.bits };
        let op = match width.cmp(&to.bits) {
            std::cmp::Ordering::Equal => return Ok(value),
            std::cmp::Ordering::Greater => InstructionOpcode::Trunc,
            std::cmp::Ordering::Less if from.is_int() => InstructionOpcode::SExt,
            std::cmp::Ordering::Less => InstructionOpcode::ZExt,
        };
        self.ir.convert(op, value, ty)
    }
}
