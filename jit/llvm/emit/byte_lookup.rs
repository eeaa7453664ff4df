//! Lookups of bytes in a table of 256, a register of codes at a time: what a gather of bytes would take one element
//! after the other for.
//!
//! With AVX512_VBMI the table is in four registers, and `vpermi2b` looks up in two of them. Elsewhere `pshufb` looks up
//! in sixteenths of the table, and gives zero for the codes of others.
//!
//! Source: Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (2019), 3.1.1: classification by `pshufb`.
//!
//! Decision: docs/decisions/0102-lookup-tables.md

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, InstructionOpcode, PointerValue, VectorValue};
use reflex_tir::{Buffer, DType, Expr, ExprKind};

use crate::emit::Emitter;
use crate::emit::instructions::ByteLookups;
use crate::emit::ir::{const_vector, result_of};
use crate::emit::value::LaneValue;
use crate::error::Result;

type Basic<'c> = BasicValueEnum<'c>;

impl<'c> Emitter<'_, 'c> {
    /// `buffer[indices]` as a lookup by the instructions for it; `None` where it is none.
    pub(super) fn byte_lookup(
        &mut self,
        buffer: Buffer,
        indices: &[Expr],
    ) -> Result<Option<LaneValue<'c>>> {
        let data = &self.func.buffers[buffer];
        let [index] = indices else { return Ok(None) };
        let (ExprKind::Cast { value: codes, .. }, [extent]) = (index.kind(), &data.shape[..])
        else {
            return Ok(None);
        };
        let is_table = extent.as_int() == Some(256) && matches!(data.dtype, DType::U8 | DType::I8);
        let is_coded = codes.dtype() == DType::U8 && self.lanes.is_some();
        if !is_table || !is_coded || self.instructions.byte_lookups == ByteLookups::Plain {
            return Ok(None);
        }
        let table = self.base(buffer)?;
        let LaneValue::Varying(codes) = self.expr(codes)? else { return Ok(None) };
        let found = match self.instructions.byte_lookups {
            // Less than a register of codes is not worth sixteen shuffles.
            ByteLookups::Shuffle { .. } if codes.get_type().get_size() < 16 => return Ok(None),
            ByteLookups::Shuffle { bytes } => {
                self.in_registers([codes], [16, bytes], &|[codes]| self.shuffled(table, codes))?
            }
            ByteLookups::Permute => {
                self.in_registers([codes], [64, 64], &|[codes]| self.permuted(table, codes))?
            }
            ByteLookups::Plain => return Ok(None),
        };
        Ok(Some(LaneValue::of(found)))
    }

    /// Lookups in the lower and the upper half, of which the highest bit of a code chooses one.
    fn permuted(&self, table: PointerValue<'c>, codes: VectorValue<'c>) -> Result<VectorValue<'c>> {
        let in_half = |half: i64| {
            let [low, high] = [half, half + 64].map(|at| self.bytes_of(table, at, 64));
            let args = [low?.into(), codes.into(), high?.into()];
            result_of(self.ir.intrinsic("llvm.x86.avx512.vpermi2var.qi.512", &[], &args)?)
        };
        let codes: Basic<'c> = codes.into();
        let zero = self.ir.int_like(codes, self.ir.context.i8_type(), 0);
        let is_upper = self.ir.icmp(IntPredicate::SLT, codes, zero)?;
        Ok(self.ir.select(is_upper, in_half(128)?, in_half(0)?)?.into_vector_value())
    }

    /// Lookups in sixteenths. A code of another one is 16 or more once its sixteenth's bits are flipped, and has its highest
    /// bit set once 112 is added, for which `pshufb` gives zero.
    fn shuffled(&self, table: PointerValue<'c>, codes: VectorValue<'c>) -> Result<VectorValue<'c>> {
        let (byte, width) = (self.ir.context.i8_type(), codes.get_type().get_size());
        let name = match width {
            16 => "llvm.x86.ssse3.pshuf.b.128",
            32 => "llvm.x86.avx2.pshuf.b",
            _ => "llvm.x86.avx512.pshuf.b.512",
        };
        let codes: Basic<'c> = codes.into();
        let lanes: Vec<Basic<'c>> =
            (0..width).map(|lane| self.ir.i32((lane % 16) as i32).into()).collect();
        let mut found = self.ir.int_like(codes, byte, 0);
        for first in (0..256).step_by(16) {
            let part = self.bytes_of(table, first, 16)?;
            let rest = part.get_type().get_poison();
            let part =
                self.ir.builder.build_shuffle_vector(part, rest, const_vector(&lanes), "")?;
            let bits = self.ir.int_like(codes, byte, first);
            let within = self.ir.binary(InstructionOpcode::Xor, codes, bits)?;
            let most = self.ir.int_like(codes, byte, 0x70);
            let within = self.ir.pure_intrinsic("llvm.uadd.sat", &[within, most])?;
            let one = result_of(self.ir.intrinsic(name, &[], &[part.into(), within.into()])?)?;
            found = self.ir.binary(InstructionOpcode::Or, found, one)?;
        }
        Ok(found.into_vector_value())
    }

    /// So many bytes of a table.
    fn bytes_of(&self, table: PointerValue<'c>, first: i64, bytes: u32) -> Result<VectorValue<'c>> {
        let at = self.ir.offset_bytes(table, self.ir.i64(first))?;
        let ty = self.ir.context.i8_type().vec_type(bytes);
        Ok(self.plain_load(ty.into(), at, DType::U8)?.into_vector_value())
    }
}
