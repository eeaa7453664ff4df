//! Dot products of pairs of bfloat16, for CPUs that have the instruction.

use inkwell::intrinsics::Intrinsic;
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, VectorValue};

use crate::emit::Emitter;
use crate::emit::ir::{const_vector, result_of, vector_of};
use crate::error::{CodegenError, Result};

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// `dot_bf16(a, b, c)` in every lane, a register at a time.
    pub(super) fn dot_bf16(&self, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [a, b, BasicValueEnum::VectorValue(c)] = args else {
            return self.one_dot(args);
        };
        let (a, b) = (a.into_vector_value(), b.into_vector_value());
        let lanes = c.get_type().get_size();
        let width = match lanes {
            0..=4 => 4,
            5..=8 => 8,
            _ => 16,
        };
        if lanes == width {
            return Ok(self.register_dot([a, b, *c])?.into());
        }
        let element = c.get_type().get_element_type();
        let mut result = vector_of(element, lanes)?.get_poison();
        for first in (0..lanes).step_by(width as usize) {
            // What is past the end repeats the last lane, and is not used.
            let lane = |i: u32| self.ir.i32((first + i).min(lanes - 1) as i32).into();
            let picked: Vec<Basic<'c>> = (0..width).map(lane).collect();
            let part = |v: VectorValue<'c>| {
                let rest = v.get_type().get_poison();
                self.ir.builder.build_shuffle_vector(v, rest, const_vector(&picked), "")
            };
            let dots = self.register_dot([part(a)?, part(b)?, part(*c)?])?;
            for i in 0..width.min(lanes - first) {
                let (from, to) = (self.ir.i32(i as i32), self.ir.i32((first + i) as i32));
                let value = self.ir.builder.build_extract_element(dots, from, "")?;
                result = self.ir.builder.build_insert_element(result, value, to, "")?;
            }
        }
        Ok(result.into())
    }

    fn one_dot(&self, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [a, b, c] = args else {
            return Err(CodegenError::new("a dot product takes three operands"));
        };
        let wide = |v: &Basic<'c>| self.ir.splat(*v, 4);
        let dots = self.register_dot([wide(a)?, wide(b)?, wide(c)?])?;
        Ok(self.ir.builder.build_extract_element(dots, self.ir.i32(0), "")?)
    }

    /// Of 4, 8 or 16 lanes.
    fn register_dot(&self, [a, b, c]: [VectorValue<'c>; 3]) -> Result<VectorValue<'c>> {
        let name = format!("llvm.x86.avx512bf16.dpbf16ps.{}", c.get_type().get_size() * 32);
        let missing = || CodegenError::new(format!("LLVM has no intrinsic {name}"));
        let found = Intrinsic::find(&name).ok_or_else(missing)?;
        let function = found.get_declaration(self.ir.module, &[]).ok_or_else(missing)?;
        let pairs = function.get_nth_param(1).ok_or_else(missing)?.get_type();
        let mut operands: Vec<BasicMetadataValueEnum<'c>> = vec![c.into()];
        for pair in [a, b] {
            operands.push(self.ir.builder.build_bit_cast(pair, pairs, "")?.into());
        }
        let call = self.ir.builder.build_call(function, &operands, "")?;
        Ok(result_of(call)?.into_vector_value())
    }
}
