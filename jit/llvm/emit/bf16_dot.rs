//! VNNI pairs of bfloat16 and their dot products, for CPUs with AVX512_BF16.

use inkwell::intrinsics::Intrinsic;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, InstructionOpcode, VectorValue};
use reflex_tir::adjacent::next_to;
use reflex_tir::{DType, Expr};

use crate::emit::Emitter;
use crate::emit::ir::{const_vector, result_of, vector_of};
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// `dot_bf16(a, b, c)` in every lane, a register at a time.
    pub(super) fn dot_bf16(&self, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [a, b, BasicValueEnum::VectorValue(c)] = args else {
            return self.one_dot(args);
        };
        let operands = [a.into_vector_value(), b.into_vector_value(), *c];
        let element = c.get_type().get_element_type();
        self.by_registers(operands, element, &|[a, b, c]| self.register_dot([a, b, c]))
    }

    /// `pair_bf16(low, high)` in every lane.
    pub(super) fn pair_bf16(&self, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [low, high] = args else {
            return Err(CodegenError::new("a pair has two halves"));
        };
        let (BasicValueEnum::VectorValue(low), BasicValueEnum::VectorValue(high)) = (low, high)
        else {
            let pairs = self.register_pair([self.ir.splat(*low, 4)?, self.ir.splat(*high, 4)?])?;
            return Ok(self.ir.builder.build_extract_element(pairs, self.ir.i32(0), "")?);
        };
        let word = self.ir.context.i32_type().into();
        self.by_registers([*low, *high], word, &|halves| self.register_pair(halves))
    }

    /// VNNI pairs of two bfloat16, which are computed in float32.
    pub(super) fn joined(&self, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [low, high] = args else {
            return Err(CodegenError::new("a pair has two halves"));
        };
        let (ir, word) = (&self.ir, self.ir.context.i32_type());
        let low = ir.convert(InstructionOpcode::BitCast, *low, word)?;
        let low = ir.binary(InstructionOpcode::LShr, low, ir.int_like(low, word, 16))?;
        let high = ir.convert(InstructionOpcode::BitCast, *high, word)?;
        let high = ir.binary(InstructionOpcode::And, high, ir.int_like(high, word, 0xffff_0000))?;
        ir.binary(InstructionOpcode::Or, low, high)
    }

    /// VNNI pairs of contiguous elements in memory: one load of both halves, which the instruction
    /// leaves in order; of bfloat16, the pairs themselves. `None` where they are not.
    pub(super) fn adjacent_pairs(&mut self, args: &[Expr]) -> Result<Option<LaneValue<'c>>> {
        if args.first().is_some_and(|a| a.dtype() == DType::BF16) {
            return self.adjacent_words(args);
        }
        let Some(lanes) = self.lanes.filter(|l| l.mask.is_none()).map(|l| l.count) else {
            return Ok(None);
        };
        let [low, high] = args else { return Ok(None) };
        let Some((buffer, indices)) = next_to(low, high).filter(|_| [4, 8, 16].contains(&lanes))
        else {
            return Ok(None);
        };
        let LaneValue::Ramp { base, stride: 2 } = self.offset(buffer, indices)? else {
            return Ok(None);
        };
        let start = self.base(buffer)?;
        let at = self.element(start, base, DType::F32)?;
        let both = vector_of(self.storage_type(DType::F32)?, 2 * lanes)?;
        let both = self.plain_load(both.into(), at, DType::F32)?.into_vector_value();
        let part = |first: u32| {
            let picked: Vec<Basic<'c>> =
                (first..first + lanes).map(|l| self.ir.i32(l as i32).into()).collect();
            let rest = both.get_type().get_poison();
            self.ir.builder.build_shuffle_vector(both, rest, const_vector(&picked), "")
        };
        let halves = self.rounded([part(0)?, part(lanes)?])?;
        let words = self.ir.context.i32_type().vec_type(lanes);
        let words = self.ir.builder.build_bit_cast(halves, words, "")?;
        Ok(Some(LaneValue::of(words)))
    }

    /// Two contiguous bfloat16 in memory as a VNNI pair, in one lane or every lane.
    fn adjacent_words(&mut self, args: &[Expr]) -> Result<Option<LaneValue<'c>>> {
        let [low, high] = args else { return Ok(None) };
        let whole = self.lanes.is_none_or(|l| l.mask.is_none());
        let Some((buffer, indices)) = next_to(low, high).filter(|_| whole) else {
            return Ok(None);
        };
        let word = self.ir.context.i32_type();
        let (first, ty) = match (self.offset(buffer, indices)?, self.lanes) {
            (LaneValue::Uniform(first), _) => (first.into_int_value(), word.into()),
            (LaneValue::Ramp { base, stride: 2 }, Some(lanes)) => {
                (base, word.vec_type(lanes.count).into())
            }
            _ => return Ok(None),
        };
        let at = self.element(self.base(buffer)?, first, DType::BF16)?;
        Ok(Some(LaneValue::of(self.plain_load(ty, at, DType::BF16)?)))
    }

    /// `f` of vectors of one length, in vectors of 4, 8 or 16 lanes.
    fn by_registers<const N: usize>(
        &self,
        operands: [VectorValue<'c>; N],
        element: BasicTypeEnum<'c>,
        f: &dyn Fn([VectorValue<'c>; N]) -> Result<VectorValue<'c>>,
    ) -> Result<Basic<'c>> {
        let lanes = operands[0].get_type().get_size();
        let width = match lanes {
            0..=4 => 4,
            5..=8 => 8,
            _ => 16,
        };
        if lanes == width {
            return Ok(f(operands)?.into());
        }
        let mut result = vector_of(element, lanes)?.get_poison();
        for first in (0..lanes).step_by(width as usize) {
            // Lanes past the end repeat the last one; nothing reads them.
            let lane = |i: u32| self.ir.i32((first + i).min(lanes - 1) as i32).into();
            let picked: Vec<Basic<'c>> = (0..width).map(lane).collect();
            let mut parts = operands;
            for part in &mut parts {
                let rest = part.get_type().get_poison();
                let picked = const_vector(&picked);
                *part = self.ir.builder.build_shuffle_vector(*part, rest, picked, "")?;
            }
            let results = f(parts)?;
            for i in 0..width.min(lanes - first) {
                let (from, to) = (self.ir.i32(i as i32), self.ir.i32((first + i) as i32));
                let value = self.ir.builder.build_extract_element(results, from, "")?;
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

    /// VNNI pairs in 4, 8 or 16 lanes.
    fn register_pair(&self, [low, high]: [VectorValue<'c>; 2]) -> Result<VectorValue<'c>> {
        let lanes = low.get_type().get_size();
        let halves = self.rounded([low, high])?;
        let place = |at: u32| self.ir.i32((at / 2 + at % 2 * lanes) as i32).into();
        let picked: Vec<Basic<'c>> = (0..2 * lanes).map(place).collect();
        let rest = halves.get_type().get_poison();
        let pairs =
            self.ir.builder.build_shuffle_vector(halves, rest, const_vector(&picked), "")?;
        let words = self.ir.context.i32_type().vec_type(lanes);
        Ok(self.ir.builder.build_bit_cast(pairs, words, "")?.into_vector_value())
    }

    /// The lanes of two vectors of 4, 8 or 16, rounded to 16 bits, those of the first one first.
    fn rounded(&self, [first, second]: [VectorValue<'c>; 2]) -> Result<VectorValue<'c>> {
        let lanes = first.get_type().get_size();
        let name = format!("llvm.x86.avx512bf16.cvtne2ps2bf16.{}", lanes * 32);
        let missing = || CodegenError::new(format!("LLVM has no intrinsic {name}"));
        let found = Intrinsic::find(&name).ok_or_else(missing)?;
        let function = found.get_declaration(self.ir.module, &[]).ok_or_else(missing)?;
        let call = self.ir.builder.build_call(function, &[second.into(), first.into()], "")?;
        let halves = self.ir.context.i16_type().vec_type(2 * lanes);
        Ok(self.ir.builder.build_bit_cast(result_of(call)?, halves, "")?.into_vector_value())
    }
}
