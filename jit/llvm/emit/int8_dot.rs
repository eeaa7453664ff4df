//! Words of four 8-bit or two 16-bit integers (VNNI layout) and their dot products.
//!
//! The sums are the same integers on every CPU: on x86-64 `vpdpbusd` where there is VNNI, elsewhere operands
//! widened to 16 bits and `pmaddwd`, which is exact. `pmaddubsw` is not: its sums of two products
//! saturate at 16 bits, but where the unsigned integers have 7 bits, as codes of 4 bits have.
//! On AArch64 they are `sdot`, `udot` and `usdot`, and WebAssembly has `pmaddwd` too.
//!
//! Decision: docs/decisions/0057-int8-dot-product.md

use inkwell::values::{BasicValueEnum, InstructionOpcode, VectorValue};
use reflex_tir::adjacent::adjacent_bytes;
use reflex_tir::{DType, Expr, Sign};

use crate::emit::Emitter;
use crate::emit::int8_instructions::Int8Dots;
use crate::emit::ir::{const_vector, result_of};
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// The dot products of `a` and `b` added to `c`, in every lane.
    pub(super) fn dot_i8(&self, signs: [Sign; 2], args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [a, b, c] = args else {
            return Err(CodegenError::new("a dot product takes three operands"));
        };
        let (BasicValueEnum::VectorValue(c), false) =
            (c, self.instructions.int8_dots == Int8Dots::Plain)
        else {
            return self.plain_dot(signs, [*a, *b, *c], 8);
        };
        let most = match self.instructions.int8_dots {
            Int8Dots::Vnni { lanes } | Int8Dots::Widened { lanes } => lanes,
            Int8Dots::Plain | Int8Dots::Simd128 | Int8Dots::Neon { .. } => 4,
        };
        let operands = [a.into_vector_value(), b.into_vector_value(), *c];
        self.in_registers(operands, [4, most], &|[a, b, c]| match (
            self.instructions.int8_dots,
            signs,
        ) {
            (Int8Dots::Vnni { .. }, [Sign::Unsigned, Sign::Signed]) => {
                self.vnni("vpdpbusd", [c, a, b])
            }
            (Int8Dots::Vnni { .. }, [Sign::Signed, Sign::Unsigned]) => {
                self.vnni("vpdpbusd", [c, b, a])
            }
            (Int8Dots::Neon { .. }, _) => self.neon_dot(signs, [a, b, c]),
            _ => self.widened(signs, [a, b, c]),
        })
    }

    /// [`Self::dot_i8`], where the unsigned integers of `a` or `b` have 7 bits.
    pub(super) fn dot_i8_of_7_bits(
        &self,
        signs: [Sign; 2],
        args: &[Basic<'c>],
    ) -> Result<Basic<'c>> {
        let (Int8Dots::Widened { lanes }, [a, b, BasicValueEnum::VectorValue(c)]) =
            (self.instructions.int8_dots, args)
        else {
            return self.dot_i8(signs, args);
        };
        if lanes < 8 {
            return self.dot_i8(signs, args);
        }
        let (unsigned, signed) = if signs[0] == Sign::Unsigned { (a, b) } else { (b, a) };
        let operands = [unsigned.into_vector_value(), signed.into_vector_value(), *c];
        self.in_registers(operands, [4, lanes], &|operands| self.pairs_of_products(operands))
    }

    /// The dot products of pairs of 16-bit integers, added to `c`, in every lane.
    pub(super) fn dot_i16(&self, args: &[Basic<'c>]) -> Result<Basic<'c>> {
        let [a, b, c] = args else {
            return Err(CodegenError::new("a dot product takes three operands"));
        };
        let (most, vnni) = match self.instructions.int8_dots {
            Int8Dots::Vnni { lanes } => (lanes, true),
            Int8Dots::Widened { lanes } => (lanes, false),
            Int8Dots::Simd128 => (4, false),
            Int8Dots::Plain | Int8Dots::Neon { .. } => (0, false),
        };
        let (BasicValueEnum::VectorValue(c), true) = (c, most > 0) else {
            return self.plain_dot([Sign::Signed; 2], [*a, *b, *c], 16);
        };
        let operands = [a.into_vector_value(), b.into_vector_value(), *c];
        self.in_registers(operands, [4, most], &|[a, b, c]| match vnni {
            true => self.vnni("vpdpwssd", [c, a, b]),
            false => {
                let [a, b] = [self.as_halves(a)?, self.as_halves(b)?];
                let products = self.pmaddwd(c.get_type().get_size(), a, b)?;
                let sum = self.ir.binary(InstructionOpcode::Add, c.into(), products)?;
                Ok(sum.into_vector_value())
            }
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
        let Some((buffer, indices)) = adjacent_bytes(args).filter(|_| whole) else {
            return Ok(None);
        };
        let word = self.ir.context.i32_type();
        let (first, ty) = match (self.offset(buffer, indices)?, self.lanes) {
            (LaneValue::Uniform(first), _) => (first.into_int_value(), word.into()),
            (LaneValue::Ramp { base, stride: 4 }, Some(lanes)) => {
                (base, word.vec_type(lanes.count).into())
            }
            _ => return Ok(None),
        };
        let at = self.element(self.base(buffer)?, first, DType::U8)?;
        Ok(Some(LaneValue::of(self.plain_load(ty, at, DType::U8)?)))
    }

    /// Products and sums one after the other, of scalars or of lanes, of integers of so many bits.
    fn plain_dot(
        &self,
        signs: [Sign; 2],
        [a, b, c]: [Basic<'c>; 3],
        bits: i64,
    ) -> Result<Basic<'c>> {
        let ir = &self.ir;
        let word = ir.context.i32_type();
        let part = |x: Basic<'c>, sign: Sign, n: i64| {
            let (up, down) = (32 - bits - bits * n, InstructionOpcode::LShr);
            let top = ir.binary(InstructionOpcode::Shl, x, ir.int_like(x, word, up))?;
            let down = if sign == Sign::Signed { InstructionOpcode::AShr } else { down };
            ir.binary(down, top, ir.int_like(x, word, 32 - bits))
        };
        let mut sum = c;
        for n in 0..32 / bits {
            let product =
                ir.binary(InstructionOpcode::Mul, part(a, signs[0], n)?, part(b, signs[1], n)?)?;
            sum = ir.binary(InstructionOpcode::Add, sum, product)?;
        }
        Ok(sum)
    }

    /// `vpdpbusd` (unsigned integers first) or `vpdpwssd`, the sum first.
    fn vnni(&self, name: &str, operands: [VectorValue<'c>; 3]) -> Result<VectorValue<'c>> {
        let bits = operands[0].get_type().get_size() * 32;
        let name = format!("llvm.x86.avx512.{name}.{bits}");
        let call = self.ir.intrinsic(&name, &[], &operands.map(Into::into))?;
        Ok(result_of(call)?.into_vector_value())
    }

    /// `sdot`, `udot` or `usdot`. Without the last, the unsigned operand of a mixed dot product is split into
    /// its low seven bits and its highest one, which both are signed.
    fn neon_dot(
        &self,
        signs: [Sign; 2],
        [a, b, c]: [VectorValue<'c>; 3],
    ) -> Result<VectorValue<'c>> {
        let (unsigned, signed) = match signs {
            [Sign::Signed, Sign::Signed] => return self.neon("sdot", c, a, b),
            [Sign::Unsigned, Sign::Unsigned] => return self.neon("udot", c, a, b),
            [Sign::Unsigned, Sign::Signed] => (a, b),
            [Sign::Signed, Sign::Unsigned] => (b, a),
        };
        if self.instructions.int8_dots == (Int8Dots::Neon { mixed: true }) {
            return self.neon("usdot", c, unsigned, signed);
        }
        let (ir, word) = (&self.ir, self.ir.context.i32_type());
        let bits: Basic<'c> = unsigned.into();
        let low = ir.binary(InstructionOpcode::And, bits, ir.int_like(bits, word, 0x7f7f_7f7f))?;
        // Of a byte, -128 where it is 128 or more: the same bit, read as signed.
        let high = ir.binary(InstructionOpcode::And, bits, ir.int_like(bits, word, 0x8080_8080))?;
        let zero: Basic<'c> = ir.int_like(bits, word, 0);
        let minus =
            self.neon("sdot", zero.into_vector_value(), high.into_vector_value(), signed)?;
        let sum = self.neon("sdot", c, low.into_vector_value(), signed)?;
        Ok(ir.binary(InstructionOpcode::Sub, sum.into(), minus.into())?.into_vector_value())
    }

    /// A dot product of NEON's.
    fn neon(
        &self,
        name: &str,
        sum: VectorValue<'c>,
        a: VectorValue<'c>,
        b: VectorValue<'c>,
    ) -> Result<VectorValue<'c>> {
        let bytes = self.ir.context.i8_type().vec_type(4 * sum.get_type().get_size());
        let [a, b] = [a, b].map(|words| self.ir.builder.build_bit_cast(words, bytes, ""));
        let types = [sum.get_type().into(), bytes.into()];
        let name = format!("llvm.aarch64.neon.{name}");
        let call = self.ir.intrinsic(&name, &types, &[sum.into(), a?.into(), b?.into()])?;
        Ok(result_of(call)?.into_vector_value())
    }

    /// Even and odd bytes in 16 bits each, and two times `pmaddwd`.
    fn widened(
        &self,
        signs: [Sign; 2],
        [a, b, c]: [VectorValue<'c>; 3],
    ) -> Result<VectorValue<'c>> {
        let lanes = c.get_type().get_size();
        let mut sum: Basic<'c> = c.into();
        let [a, b] = [self.halves(a, signs[0])?, self.halves(b, signs[1])?];
        for (a, b) in a.into_iter().zip(b) {
            sum = self.ir.binary(InstructionOpcode::Add, sum, self.pmaddwd(lanes, a, b)?)?;
        }
        Ok(sum.into_vector_value())
    }

    /// `pmaddubsw` of integers whose sums of two products fit into 16 bits, and `pmaddwd` by ones.
    fn pairs_of_products(
        &self,
        [unsigned, signed, c]: [VectorValue<'c>; 3],
    ) -> Result<VectorValue<'c>> {
        let (ir, lanes) = (&self.ir, c.get_type().get_size());
        let name = match lanes {
            4 => "llvm.x86.ssse3.pmadd.ub.sw.128",
            8 => "llvm.x86.avx2.pmadd.ub.sw",
            _ => "llvm.x86.avx512.pmaddubs.w.512",
        };
        let bytes = ir.context.i8_type().vec_type(4 * lanes);
        let [unsigned, signed] =
            [unsigned, signed].map(|x| ir.builder.build_bit_cast(x, bytes, ""));
        let call = ir.intrinsic(name, &[], &[unsigned?.into(), signed?.into()])?;
        let pairs = result_of(call)?;
        let ones = ir.int_like(pairs, ir.context.i16_type(), 1);
        let sum = ir.binary(InstructionOpcode::Add, c.into(), self.pmaddwd(lanes, pairs, ones)?)?;
        Ok(sum.into_vector_value())
    }

    /// `pmaddwd` of twice as many 16-bit integers as there are lanes.
    fn pmaddwd(&self, lanes: u32, a: Basic<'c>, b: Basic<'c>) -> Result<Basic<'c>> {
        let name = match lanes {
            4 if self.instructions.int8_dots == Int8Dots::Simd128 => "llvm.wasm.dot",
            4 => "llvm.x86.sse2.pmadd.wd",
            8 => "llvm.x86.avx2.pmadd.wd",
            _ => "llvm.x86.avx512.pmaddw.d.512",
        };
        result_of(self.ir.intrinsic(name, &[], &[a.into(), b.into()])?)
    }

    /// Words as 16-bit integers.
    fn as_halves(&self, words: VectorValue<'c>) -> Result<Basic<'c>> {
        let ty = self.ir.context.i16_type().vec_type(2 * words.get_type().get_size());
        Ok(self.ir.builder.build_bit_cast(words, ty, "")?)
    }

    /// The even and the odd bytes of words, in 16 bits each.
    fn halves(&self, words: VectorValue<'c>, sign: Sign) -> Result<[Basic<'c>; 2]> {
        let ir = &self.ir;
        let half = ir.context.i16_type();
        let all = self.as_halves(words)?;
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

    /// `f` of vectors of one length, in vectors of a power of two of lanes within a range. Results have the type of the
    /// first operand.
    pub(super) fn in_registers<const N: usize>(
        &self,
        operands: [VectorValue<'c>; N],
        [least, most]: [u32; 2],
        f: &dyn Fn([VectorValue<'c>; N]) -> Result<VectorValue<'c>>,
    ) -> Result<Basic<'c>> {
        let lanes = operands[0].get_type().get_size();
        let width = lanes.next_power_of_two().clamp(least, most);
        if lanes == width {
            return Ok(f(operands)?.into());
        }
        let mut result = operands[0].get_type().get_poison();
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
