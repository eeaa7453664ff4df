//! Fused multiply-adds: one instruction, or an exact sequence of others.
//!
//! The sequence computes in float64. The product of two float32 numbers is exact there, and so is the error of the
//! sum (Knuth's two-sum). A sum that was rounded is rounded to odd instead, so that rounding it again, to
//! float32, gives the float32 that is nearest to the exact sum.
//!
//! Source: Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to
//! Odd" (2008), section 5.
//!
//! Decision: docs/decisions/0104-webassembly.md

use inkwell::values::{BasicValueEnum, InstructionOpcode, VectorValue};
use inkwell::{FloatPredicate, IntPredicate};

use crate::emit::Emitter;
use crate::emit::instructions::Fma;
use crate::emit::ir::{element_of, result_of};
use crate::error::Result;

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// `a * b + c`, rounded once.
    pub(super) fn fused_multiply_add(&self, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let ty = element_of(args[0].get_type()).into_float_type();
        match (self.instructions.fma, args) {
            (Fma::Relaxed, [a, b, c]) => self.relaxed_madd([*a, *b, *c]),
            (Fma::Sequence, [a, b, c]) if ty == self.ir.context.f32_type() => {
                self.fma_in_float64([*a, *b, *c])
            }
            _ => self.ir.pure_intrinsic("llvm.fma", args),
        }
    }

    fn relaxed_madd(&self, args: [Basic<'c>; 3]) -> Result<Basic<'c>> {
        let ty = element_of(args[0].get_type()).into_float_type();
        let lanes = if ty == self.ir.context.f32_type() { 4 } else { 2 };
        let madd = |operands: [VectorValue<'c>; 3]| {
            let ty = [ty.vec_type(lanes).into()];
            let call =
                self.ir.intrinsic("llvm.wasm.relaxed.madd", &ty, &operands.map(Into::into))?;
            Ok(result_of(call)?.into_vector_value())
        };
        let [
            BasicValueEnum::VectorValue(a),
            BasicValueEnum::VectorValue(b),
            BasicValueEnum::VectorValue(c),
        ] = args
        else {
            let vectors = args.map(|scalar| {
                let (rest, first) = (ty.vec_type(lanes).get_poison(), self.ir.i32(0));
                self.ir.builder.build_insert_element(rest, scalar, first, "")
            });
            let [a, b, c] = vectors;
            return Ok(self.ir.builder.build_extract_element(
                madd([a?, b?, c?])?,
                self.ir.i32(0),
                "",
            )?);
        };
        self.in_registers([a, b, c], [lanes, lanes], &madd)
    }

    fn fma_in_float64(&self, args: [Basic<'c>; 3]) -> Result<Basic<'c>> {
        use InstructionOpcode::{Add, And, BitCast, FAdd, FMul, FPExt, FPTrunc, FSub, Xor};
        let (ir, double) = (&self.ir, self.ir.context.f64_type());
        let bits = ir.context.i64_type();
        let [a, b, c] = args.map(|x| ir.convert(FPExt, x, double));
        let (product, c) = (ir.binary(FMul, a?, b?)?, c?);
        let sum = ir.binary(FAdd, product, c)?;
        // sum + error is product + c.
        let of_c = ir.binary(FSub, sum, product)?;
        let of_product = ir.binary(FSub, sum, of_c)?;
        let errors = [ir.binary(FSub, product, of_product)?, ir.binary(FSub, c, of_c)?];
        let error = ir.binary(FAdd, errors[0], errors[1])?;
        // The neighbour of an even sum, in the direction of the error, is odd.
        let number = ir.convert(BitCast, sum, bits)?;
        let zero = ir.int_like(number, bits, 0);
        let lowest = ir.binary(And, number, ir.int_like(number, bits, 1))?;
        let is_even = ir.icmp(IntPredicate::EQ, lowest, zero)?;
        // An error of infinities is NaN, which is not ordered.
        let is_rounded = ir.fcmp(FloatPredicate::ONE, error, ir.float_like(error, double, 0.0))?;
        let signs = ir.binary(Xor, ir.convert(BitCast, error, bits)?, number)?;
        let is_outward = ir.icmp(IntPredicate::SGE, signs, zero)?;
        let (out, inward) = (ir.int_like(number, bits, 1), ir.int_like(number, bits, -1));
        let neighbour = ir.binary(Add, number, ir.select(is_outward, out, inward)?)?;
        let odd = ir.select(ir.binary(And, is_even, is_rounded)?, neighbour, number)?;
        ir.convert(FPTrunc, ir.convert(BitCast, odd, double)?, ir.context.f32_type())
    }
}
