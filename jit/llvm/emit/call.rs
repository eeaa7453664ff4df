//! Intrinsic functions.
//!
//! Those with one x86 instruction become LLVM intrinsics; the rest call the C mathematics
//! library once per lane. Those calls are marked `nobuiltin`, so LLVM neither folds them with
//! its own library nor replaces them: every optimisation level calls the same function.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, InstructionOpcode};
use inkwell::{FloatPredicate, IntPredicate};
use reflex_tir::{DType, Intrin};

use crate::emit::ir::{element_of, result_of, vector_of};
use crate::emit::{Emitter, Unit};
use crate::error::{CodegenError, Result};

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// A call other than `if_then_else`, whose operands are evaluated and of one shape.
    pub(super) fn call(&self, op: Intrin, args: &[Basic<'c>], dtype: DType) -> Result<Basic<'c>> {
        match op {
            Intrin::Shl | Intrin::Shr => self.shift(op, args[0], args[1], dtype),
            Intrin::BitAnd => self.ir.binary(InstructionOpcode::And, args[0], args[1]),
            Intrin::BitOr => self.ir.binary(InstructionOpcode::Or, args[0], args[1]),
            Intrin::BitXor => self.ir.binary(InstructionOpcode::Xor, args[0], args[1]),
            Intrin::BitNot => {
                let ty = element_of(args[0].get_type()).into_int_type();
                let ones = self.ir.int_like(args[0], ty, -1);
                self.ir.binary(InstructionOpcode::Xor, args[0], ones)
            }
            Intrin::DotBf16 => self.dot_bf16(args),
            Intrin::DotI8 { a, b } => self.dot_i8([a, b], args),
            Intrin::DotI16 => self.dot_i16(args),
            Intrin::Pack4x8 => self.packed_word(args),
            Intrin::PairBf16 if dtype == DType::BF16 => self.joined(args),
            Intrin::PairBf16 => self.pair_bf16(args),
            _ if !dtype.is_float() => self.int_call(op, args, dtype),
            _ => self.float_call(op, args, dtype),
        }
    }

    /// Same bits as another type.
    pub(super) fn reinterpret(
        &self,
        value: Basic<'c>,
        from: DType,
        to: DType,
    ) -> Result<Basic<'c>> {
        if from.bits != to.bits || from.is_bool() || to.is_bool() {
            return Err(CodegenError::new(format!("cannot reinterpret {from} as {to}")));
        }
        let stored = self.store_form(value, from)?;
        let bits = self.ir.convert(InstructionOpcode::BitCast, stored, self.storage_type(to)?)?;
        self.load_form(bits, to)
    }

    /// Calls `name` of the C mathematics library on each lane.
    pub(super) fn each_lane(&self, name: &str, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        if self.unit == Unit::Gpu {
            let ty = element_of(args[0].get_type()).into_float_type();
            let ty = if ty == self.ir.context.f32_type() { DType::F32 } else { DType::F64 };
            return Err(CodegenError::new(format!("no {name} of {ty} on a GPU")));
        }
        let BasicValueEnum::VectorValue(first) = args[0] else {
            return self.libm(name, args);
        };
        let lanes = first.get_type().get_size();
        let ty = vector_of(element_of(first.get_type().into()), lanes)?;
        let mut result = ty.get_poison();
        for lane in 0..lanes {
            let at = self.ir.i32(lane as i32);
            let scalars = args
                .iter()
                .map(|a| {
                    Ok(self.ir.builder.build_extract_element(a.into_vector_value(), at, "")?)
                })
                .collect::<Result<Vec<_>>>()?;
            let value = self.libm(name, &scalars)?;
            result = self.ir.builder.build_insert_element(result, value, at, "")?;
        }
        Ok(result.into())
    }

    fn libm(&self, name: &str, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let ty = args[0].get_type().into_float_type();
        let suffix = if ty == self.ir.context.f32_type() { "f" } else { "" };
        let name = format!("{name}{suffix}");
        let function = self.ir.module.get_function(&name).unwrap_or_else(|| {
            let signature = ty.fn_type(&vec![ty.into(); args.len()], false);
            self.ir.module.add_function(&name, signature, None)
        });
        let operands: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|a| (*a).into()).collect();
        let call = self.ir.builder.build_call(function, &operands, "")?;
        for attribute in ["nobuiltin", "nounwind"] {
            let kind = Attribute::get_named_enum_kind_id(attribute);
            let attribute = self.ir.context.create_enum_attribute(kind, 0);
            call.add_attribute(AttributeLoc::Function, attribute);
        }
        result_of(call)
    }

    fn float_call(&self, op: Intrin, args: &[Basic<'c>], dtype: DType) -> Result<Basic<'c>> {
        let ir = &self.ir;
        let intrinsic = |name: &str| ir.pure_intrinsic(name, args);
        let value = match op {
            Intrin::Floor => return intrinsic("llvm.floor"),
            Intrin::Ceil => return intrinsic("llvm.ceil"),
            Intrin::Trunc => return intrinsic("llvm.trunc"),
            Intrin::Round => return intrinsic("llvm.roundeven"),
            Intrin::Abs => return intrinsic("llvm.fabs"),
            Intrin::IsNan => return ir.fcmp(FloatPredicate::UNO, args[0], args[0]),
            Intrin::IsInf => {
                let ty = element_of(args[0].get_type()).into_float_type();
                let size = ir.pure_intrinsic("llvm.fabs", args)?;
                let infinity = ir.float_like(size, ty, f64::INFINITY);
                return ir.fcmp(FloatPredicate::OEQ, size, infinity);
            }
            Intrin::Fma => self.fused_multiply_add(args)?,
            Intrin::Sqrt => intrinsic("llvm.sqrt")?,
            Intrin::Exp => self.each_lane("exp", args)?,
            Intrin::Log => self.each_lane("log", args)?,
            Intrin::Sin => self.each_lane("sin", args)?,
            Intrin::Cos => self.each_lane("cos", args)?,
            Intrin::Tan => self.each_lane("tan", args)?,
            Intrin::Asin => self.each_lane("asin", args)?,
            Intrin::Acos => self.each_lane("acos", args)?,
            Intrin::Atan => self.each_lane("atan", args)?,
            Intrin::Sinh => self.each_lane("sinh", args)?,
            Intrin::Cosh => self.each_lane("cosh", args)?,
            Intrin::Tanh => self.each_lane("tanh", args)?,
            Intrin::Asinh => self.each_lane("asinh", args)?,
            Intrin::Acosh => self.each_lane("acosh", args)?,
            Intrin::Atanh => self.each_lane("atanh", args)?,
            Intrin::Erf => self.each_lane("erf", args)?,
            Intrin::Pow => self.each_lane("pow", args)?,
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
            | Intrin::BitNot => return Err(CodegenError::new(format!("no {op:?} of {dtype}"))),
        };
        if dtype.is_half() { self.round_half(value, dtype) } else { Ok(value) }
    }

    fn int_call(&self, op: Intrin, args: &[Basic<'c>], dtype: DType) -> Result<Basic<'c>> {
        match op {
            Intrin::Floor | Intrin::Ceil | Intrin::Trunc | Intrin::Round => Ok(args[0]),
            Intrin::Abs if dtype.is_int() => {
                let ty = element_of(args[0].get_type()).into_int_type();
                let zero = self.ir.int_like(args[0], ty, 0);
                let negative = self.ir.icmp(IntPredicate::SLT, args[0], zero)?;
                let minus = self.ir.binary(InstructionOpcode::Sub, zero, args[0])?;
                self.ir.select(negative, minus, args[0])
            }
            Intrin::Abs => Ok(args[0]),
            Intrin::Fma => {
                let product = self.ir.binary(InstructionOpcode::Mul, args[0], args[1])?;
                self.ir.binary(InstructionOpcode::Add, product, args[2])
            }
            Intrin::IsNan | Intrin::IsInf => {
                Ok(self.ir.int_like(args[0], self.ir.context.bool_type(), 0))
            }
            _ => Err(CodegenError::new(format!("no {op:?} of {dtype}"))),
        }
    }

    /// Shifts by the width or more (or by a negative amount) push every bit out.
    fn shift(&self, op: Intrin, a: Basic<'c>, b: Basic<'c>, dtype: DType) -> Result<Basic<'c>> {
        if dtype.is_float() || dtype.is_bool() {
            return Err(CodegenError::new(format!("no {op:?} of {dtype}")));
        }
        let ir = &self.ir;
        let ty = element_of(a.get_type()).into_int_type();
        let last = ir.int_like(b, ty, i64::from(dtype.bits) - 1);
        let inside = ir.icmp(IntPredicate::ULE, b, last)?;
        let amount = ir.select(inside, b, last)?;
        match (op, dtype.is_int()) {
            (Intrin::Shr, true) => ir.binary(InstructionOpcode::AShr, a, amount),
            (op, _) => {
                let opcode = if op == Intrin::Shl {
                    InstructionOpcode::Shl
                } else {
                    InstructionOpcode::LShr
                };
                let shifted = ir.binary(opcode, a, amount)?;
                ir.select(inside, shifted, ir.int_like(a, ty, 0))
            }
        }
    }
}
