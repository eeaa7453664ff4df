//! Words of four 8-bit integers (VNNI layout) and their dot products.
//!
//! The sums are the same integers on every CPU: `vpdpbusd` where there is VNNI, elsewhere operands
//! widened to 16 bits and `pmaddwd`, which is exact. `pmaddubsw` is not: its sums of two products
//! saturate at 16 bits.
//!
//! Decision: docs/decisions/0057-int8-dot-product.md

use inkwell::values::{BasicValueEnum, InstructionOpcode, VectorValue};
use reflex_tir::{Expr, ExprKind, Sign};

use crate::emit::Emitter;
use crate::emit::adjacent::next_to;
use crate::emit::int8_instructions::Int8Dots;
use crate::emit::ir::{const_vector, result_of, vector_of};
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// The dot products of `a` and `b` added to `c`, in every lane.
    pub(super) fn dot_i8(&self, signs: [Sign; 2], args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [a, b, c] = args else {
            return Err(CodegenError::new("a dot product takes three operands"));
        };
        let (BasicValueEnum::VectorValue(c), false) = (c, self.int8_dots == Int8Dots::Plain) else {
            return self.plain_dot(signs, [*a, *b, *c]);
        };
        let most = match self.int8_dots {
            Int8Dots::Vnni { lanes } | Int8Dots::Widened { lanes } => lanes,
            Int8Dots::Plain => 4,
        };
        let operands = [a.into_vector_value(), b.into_vector_value(), *c];
        self.in_registers(operands, most, &|[a, b, c]| match (self.int8_dots, signs) {
            (Int8Dots::Vnni { .. }, [Sign::Unsigned, Sign::Signed]) => self.vnni(c, a, b),
            (Int8Dots::Vnni { .. }, [Sign::Signed, Sign::Unsigned]) => self.vnni(c, b, a),
            _ => self.widened(signs, [a, b, c]),
        })
    }

    /// Four 8-bit integers as a word, in every lane.
    pub(super) fn packed_word(&self, bytes: &[Basic<'c>]) -> Result<Basic<'c>> {
        let (ir, word) = (&self.ir, self.ir.context.i32_type());
        let mut packed: Option<Basic<'c>> = None;
        for (n, byte) in bytes.iter().enumerate() {
            let wide = ir.convert(InstructionOpcode::ZExt, *byte, word)?;
            let placed =
                ir.binary(InstructionOpcode::Shl, wide, ir.int_like(wide, word, 8 * n as i64))?;
            packed = Some(match packed {
                Some(low) => ir.binary(InstructionOpcode::Or, low, placed)?,
                None => placed,
            });
        }
        packed.ok_or_else(|| CodegenError::new("a word of no integers"))
    }

    /// The word of four neighbours in memory: one load. `None` where they are not.
    pub(super) fn adjacent_bytes(&mut self, args: &[Expr]) -> Result<Option<LaneValue<'c>>> {
        let whole = self.lanes.is_none_or(|l| l.mask.is_none());
        let neighbours = args.windows(2).all(|pair| next_to(&pair[0], &pair[1]).is_some());
        let Some(ExprKind::Load { buffer, indices, dtype }) = args.first().map(Expr::kind) else {
            return Ok(None);
        };
        if !whole || !neighbours {
            return Ok(None);
        }
        let word = self.ir.context.i32_type();
        let (first, ty) = match (self.offset(*buffer, indices)?, self.lanes) {
            (LaneValue::Uniform(first), _) => (first.into_int_value(), word.into()),
            (LaneValue::Ramp { base, stride: 4 }, Some(lanes)) => {
                (base, word.vec_type(lanes.count).into())
            }
            _ => return Ok(None),
        };
        let at = self.element(self.base(*buffer)?, first, *dtype)?;
        Ok(Some(LaneValue::of(self.plain_load(ty, at, *dtype)?)))
    }

    /// Products and sums one after the other, of scalars or of lanes.
    fn plain_dot(&self, signs: [Sign; 2], [a, b, c]: [Basic<'c>; 3]) -> Result<Basic<'c>> {
        let ir = &self.ir;
        let word = ir.context.i32_type();
        let byte = |x: Basic<'c>, sign: Sign, n: i64| {
            let (up, down) = (24 - 8 * n, InstructionOpcode::LShr);
            let top = ir.binary(InstructionOpcode::Shl, x, ir.int_like(x, word, up))?;
            let down = if sign == Sign::Signed { InstructionOpcode::AShr } else { down };
            ir.binary(down, top, ir.int_like(x, word, 24))
        };
        let mut sum = c;
        for n in 0..4 {
            let product =
                ir.binary(InstructionOpcode::Mul, byte(a, signs[0], n)?, byte(b, signs[1], n)?)?;
            sum = ir.binary(InstructionOpcode::Add, sum, product)?;
        }
        Ok(sum)
    }

    /// `vpdpbusd`: unsigned integers first.
    fn vnni(
        &self,
        sum: VectorValue<'c>,
        unsigned: VectorValue<'c>,
        signed: VectorValue<'c>,
    ) -> Result<VectorValue<'c>> {
        let name = format!("llvm.x86.avx512.vpdpbusd.{}", sum.get_type().get_size() * 32);
        let call = self.ir.intrinsic(&name, &[], &[sum.into(), unsigned.into(), signed.into()])?;
        Ok(result_of(call)?.into_vector_value())
    }

    /// Even and odd bytes in 16 bits each, and two times `pmaddwd`.
    fn widened(
        &self,
        signs: [Sign; 2],
        [a, b, c]: [VectorValue<'c>; 3],
    ) -> Result<VectorValue<'c>> {
        let lanes = c.get_type().get_size();
        let name = match lanes {
            4 => "llvm.x86.sse2.pmadd.wd",
            8 => "llvm.x86.avx2.pmadd.wd",
            _ => "llvm.x86.avx512.pmaddw.d.512",
        };
        let mut sum: Basic<'c> = c.into();
        let [a, b] = [self.halves(a, signs[0])?, self.halves(b, signs[1])?];
        for (a, b) in a.into_iter().zip(b) {
            let call = self.ir.intrinsic(name, &[], &[a.into(), b.into()])?;
            sum = self.ir.binary(InstructionOpcode::Add, sum, result_of(call)?)?;
        }
        Ok(sum.into_vector_value())
    }

    /// The even and the odd bytes of words, in 16 bits each.
    fn halves(&self, words: VectorValue<'c>, sign: Sign) -> Result<[Basic<'c>; 2]> {
        let ir = &self.ir;
        let half = ir.context.i16_type();
        let ty = half.vec_type(2 * words.get_type().get_size());
        let all: Basic<'c> = ir.builder.build_bit_cast(words, ty, "")?;
        let by = ir.int_like(all, half, 8);
        Ok(match sign {
            Sign::Unsigned => [
                ir.binary(InstructionOpcode::And, all, ir.int_like(all, half, 0xff))?,
                ir.binary(InstructionOpcode::LShr, all, by)?,
            ],
            Sign::Signed => {
                let up = ir.binary(InstructionOpcode::Shl, all, by)?;
                [
                    ir.binary(InstructionOpcode::AShr, up, by)?,
                    ir.binary(InstructionOpcode::AShr, all, by)?,
                ]
            }
        })
    }

    /// `f` of vectors of one length, in vectors of 4, 8 or 16 lanes, `most` at most.
    fn in_registers(
        &self,
        operands: [VectorValue<'c>; 3],
        most: u32,
        f: &dyn Fn([VectorValue<'c>; 3]) -> Result<VectorValue<'c>>,
    ) -> Result<Basic<'c>> {
        let lanes = operands[0].get_type().get_size();
        let width = lanes.next_power_of_two().clamp(4, most);
        if lanes == width {
            return Ok(f(operands)?.into());
        }
        let mut result = vector_of(self.ir.context.i32_type().into(), lanes)?.get_poison();
        for first in (0..lanes).step_by(width as usize) {
            // Lanes past the end repeat the last one; nothing reads them.
            let lane = |i: u32| self.ir.i32((first + i).min(lanes - 1) as i32).into();
            let picked: Vec<Basic<'c>> = (0..width).map(lane).collect();
            let mut parts = operands;
            for part in &mut parts {
                let rest = part.get_type().get_poison();
                *part =
                    self.ir.builder.build_shuffle_vector(*part, rest, const_vector(&picked), "")?;
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
}
