//! Intrinsic functions. Those without an instruction call the C mathematics library.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_tir::{DType, Intrin, Sign};

use crate::emit::{Emitter, value_type};
use crate::error::{BaselineError, Result};

impl Emitter<'_, '_, '_> {
    /// A call other than `if_then_else`, whose operands are evaluated and of one shape.
    pub(super) fn intrinsic(&mut self, op: Intrin, args: &[Value], dtype: DType) -> Result<Value> {
        match op {
            Intrin::Shl | Intrin::Shr => self.shift(op, args[0], args[1], dtype),
            Intrin::BitAnd => Ok(self.b.ins().band(args[0], args[1])),
            Intrin::BitOr => Ok(self.b.ins().bor(args[0], args[1])),
            Intrin::BitXor => Ok(self.b.ins().bxor(args[0], args[1])),
            Intrin::BitNot if dtype.is_bool() => Ok(self.not(args[0])),
            Intrin::BitNot => Ok(self.b.ins().bnot(args[0])),
            Intrin::DotI8 { a, b } => Ok(self.dot_i8([a, b], args)),
            Intrin::DotI16 => Ok(self.dot_i16(args)),
            Intrin::Pack4x8 => Ok(self.pack(args)),
            Intrin::PairBf16 if dtype == DType::BF16 => Ok(self.pair(args)),
            _ if dtype.is_float() => self.float_call(op, args, dtype),
            _ => self.int_call(op, args, dtype),
        }
    }

    /// Same bits as another type.
    pub(super) fn reinterpret(&mut self, value: Value, from: DType, to: DType) -> Result<Value> {
        if from.bits != to.bits || from.is_bool() || to.is_bool() {
            return Err(BaselineError::new(format!("cannot reinterpret {from} as {to}")));
        }
        if self.ty(value).is_vector() {
            let ty = if to == DType::F32 { types::F32X4 } else { types::I32X4 };
            return Ok(self.bitcast(ty, value));
        }
        let stored = self.store_form(value, from);
        let bits = self.bitcast(super::storage_type(to)?, stored);
        Ok(self.load_form(bits, to))
    }

    /// Not, of a bool or a mask.
    pub(super) fn not(&mut self, value: Value) -> Value {
        if self.ty(value).is_vector() {
            return self.b.ins().bnot(value);
        }
        let one = self.int(types::I8, 1);
        self.b.ins().bxor(value, one)
    }

    /// Calls `name` of the C mathematics library.
    pub(super) fn libm(&mut self, name: &str, args: &[Value]) -> Result<Value> {
        let ty = self.ty(args[0]);
        if ty.is_vector() {
            return Err(BaselineError::new(format!("no {name} of vectors")));
        }
        let suffix = if ty == types::F32 { "f" } else { "" };
        let function =
            self.unit.import(&format!("{name}{suffix}"), &vec![ty; args.len()], &[ty])?;
        Ok(self.call(function, args)[0])
    }

    fn float_call(&mut self, op: Intrin, args: &[Value], dtype: DType) -> Result<Value> {
        let value = match op {
            Intrin::Floor => return Ok(self.b.ins().floor(args[0])),
            Intrin::Ceil => return Ok(self.b.ins().ceil(args[0])),
            Intrin::Trunc => return Ok(self.b.ins().trunc(args[0])),
            Intrin::Round => return Ok(self.b.ins().nearest(args[0])),
            Intrin::Abs => return Ok(self.b.ins().fabs(args[0])),
            Intrin::IsNan => return Ok(self.fcmp(FloatCC::Unordered, args[0], args[0])),
            Intrin::IsInf => {
                let size = self.b.ins().fabs(args[0]);
                let infinity = self.float(self.ty(size), f64::INFINITY);
                return Ok(self.fcmp(FloatCC::Equal, size, infinity));
            }
            Intrin::Fma => self.b.ins().fma(args[0], args[1], args[2]),
            Intrin::Sqrt => self.b.ins().sqrt(args[0]),
            Intrin::Exp => self.libm("exp", args)?,
            Intrin::Log => self.libm("log", args)?,
            Intrin::Sin => self.libm("sin", args)?,
            Intrin::Cos => self.libm("cos", args)?,
            Intrin::Tan => self.libm("tan", args)?,
            Intrin::Asin => self.libm("asin", args)?,
            Intrin::Acos => self.libm("acos", args)?,
            Intrin::Atan => self.libm("atan", args)?,
            Intrin::Sinh => self.libm("sinh", args)?,
            Intrin::Cosh => self.libm("cosh", args)?,
            Intrin::Tanh => self.libm("tanh", args)?,
            Intrin::Asinh => self.libm("asinh", args)?,
            Intrin::Acosh => self.libm("acosh", args)?,
            Intrin::Atanh => self.libm("atanh", args)?,
            Intrin::Erf => self.libm("erf", args)?,
            Intrin::Pow => self.libm("pow", args)?,
            Intrin::IfThenElse
            | Intrin::Reinterpret
            | Intrin::DotBf16
            | Intrin::PairBf16
            | Intrin::DotI8 { .. }
            | Intrin::DotI16
            | Intrin::Pack4x8
            | Intrin::Prefetch
            | Intrin::Shl
            | Intrin::Shr
            | Intrin::BitAnd
            | Intrin::BitOr
            | Intrin::BitXor
            | Intrin::BitNot => return Err(BaselineError::new(format!("no {op:?} of {dtype}"))),
        };
        Ok(if dtype.is_half() { self.round_half(value, dtype) } else { value })
    }

    fn int_call(&mut self, op: Intrin, args: &[Value], dtype: DType) -> Result<Value> {
        match op {
            Intrin::Floor | Intrin::Ceil | Intrin::Trunc | Intrin::Round => Ok(args[0]),
            Intrin::Abs if dtype.is_int() => {
                let zero = self.int(self.ty(args[0]), 0);
                let negative = self.b.ins().icmp(IntCC::SignedLessThan, args[0], zero);
                let minus = self.b.ins().ineg(args[0]);
                Ok(self.select(negative, minus, args[0]))
            }
            Intrin::Abs => Ok(args[0]),
            Intrin::Fma => {
                let product = self.b.ins().imul(args[0], args[1]);
                Ok(self.b.ins().iadd(product, args[2]))
            }
            Intrin::IsNan | Intrin::IsInf => {
                let ty = self.ty(args[0]);
                Ok(self.int(if ty.is_vector() { ty } else { types::I8 }, 0))
            }
            _ => Err(BaselineError::new(format!("no {op:?} of {dtype}"))),
        }
    }

    /// Shifts by the width or more (or by a negative amount) push every bit out.
    fn shift(&mut self, op: Intrin, a: Value, b: Value, dtype: DType) -> Result<Value> {
        if dtype.is_float() || dtype.is_bool() || self.ty(b).is_vector() {
            return Err(BaselineError::new(format!("no {op:?} of {dtype}")));
        }
        let (ty, amount_ty) = (self.ty(a), value_type(dtype)?);
        let last = self.int(amount_ty, i64::from(dtype.bits) - 1);
        let inside = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, b, last);
        let amount = self.b.ins().select(inside, b, last);
        if op == Intrin::Shr && dtype.is_int() {
            return Ok(self.b.ins().sshr(a, amount));
        }
        let shifted = match op {
            Intrin::Shl => self.b.ins().ishl(a, amount),
            _ => self.b.ins().ushr(a, amount),
        };
        let zero = self.int(ty, 0);
        Ok(self.b.ins().select(inside, shifted, zero))
    }

    /// VNNI pairs of two bfloat16, which are computed in float32.
    fn pair(&mut self, args: &[Value]) -> Value {
        let (low, high) = (self.bits_of(args[0]), self.bits_of(args[1]));
        let low = self.ushr(low, 16);
        let mask = self.int(self.ty(high), 0xffff_0000);
        let high = self.b.ins().band(high, mask);
        self.b.ins().bor(low, high)
    }

    /// Four 8-bit integers as a word.
    fn pack(&mut self, bytes: &[Value]) -> Value {
        let byte_of = |e: &mut Self, byte: Value| match e.ty(byte) {
            types::I8 => e.b.ins().uextend(types::I32, byte),
            _ => e.and(byte, 0xff),
        };
        let mut packed = byte_of(self, bytes[0]);
        for (byte, shift) in bytes[1..].iter().zip([8, 16, 24]) {
            let wide = byte_of(self, *byte);
            let placed = self.shl(wide, shift);
            packed = self.b.ins().bor(packed, placed);
        }
        packed
    }

    /// Products and sums one after the other: integers, so that their order does not matter.
    fn dot_i8(&mut self, signs: [Sign; 2], args: &[Value]) -> Value {
        let mut sum = args[2];
        for up in [24, 16, 8, 0] {
            let [x, y] = [0, 1].map(|side: usize| self.part(args[side], up, 24, signs[side]));
            let product = self.b.ins().imul(x, y);
            sum = self.b.ins().iadd(sum, product);
        }
        sum
    }

    /// As [`Self::dot_i8`], of two integers in each word.
    fn dot_i16(&mut self, args: &[Value]) -> Value {
        let mut sum = args[2];
        for up in [16, 0] {
            let [x, y] = [0, 1].map(|side: usize| self.part(args[side], up, 16, Sign::Signed));
            let product = self.b.ins().imul(x, y);
            sum = self.b.ins().iadd(sum, product);
        }
        sum
    }

    /// An integer of a word, which is shifted up, then down.
    fn part(&mut self, word: Value, up: i32, down: i32, sign: Sign) -> Value {
        let top = self.shl(word, up);
        let by = self.i32(down);
        match sign {
            Sign::Signed => self.b.ins().sshr(top, by),
            Sign::Unsigned => self.b.ins().ushr(top, by),
        }
    }
}
