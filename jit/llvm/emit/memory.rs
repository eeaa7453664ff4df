//! Loads and stores.
//!
//! An index that is the same in all lanes is a scalar access, one that advances by 1 per lane
//! a vector access, anything else a gather or scatter. Under a mask, inactive lanes touch
//! nothing: their addresses may be invalid.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{
    BasicValue, BasicValueEnum, InstructionOpcode, IntValue, PointerValue, VectorValue,
};
use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Buffer, DType, Expr, ExprKind, Stmt};

use crate::emit::index::constant_part;
use crate::emit::ir::{const_vector, result_of, vector_of};
use crate::emit::value::LaneValue;
use crate::emit::{Emitter, Unit, VectorLoop};
use crate::error::{CodegenError, Result};

/// Bytes of the widest access of a GPU's thread.
const WIDEST: u32 = 16;

/// The terms of a sum.
fn terms(e: &Expr) -> Vec<&Expr> {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Add, a, b } => [terms(a), terms(b)].concat(),
        _ => vec![e],
    }
}

impl<'c> Emitter<'_, 'c> {
    /// `buffer[indices]`
    pub(super) fn load(&mut self, buffer: Buffer, indices: &[Expr]) -> Result<LaneValue<'c>> {
        if let Some(found) = self.byte_lookup(buffer, indices)? {
            return Ok(found);
        }
        let dtype = self.func.buffers[buffer].dtype;
        let (base, offset) = self.address(buffer, indices)?;
        let stored = match offset {
            LaneValue::Uniform(offset) => {
                let at = self.element(base, offset.into_int_value(), dtype)?;
                self.load_one(at, dtype)?
            }
            LaneValue::Ramp { base: first, stride: 1 } => {
                let at = self.element(base, first, dtype)?;
                self.load_contiguous(at, dtype, self.alignment(buffer, indices))?
            }
            LaneValue::Ramp { base: first, stride: stride @ 2..=4 } if dtype.itemsize() >= 4 => {
                let at = self.element(base, first, dtype)?;
                self.load_strided(at, stride as u32, dtype)?
            }
            LaneValue::Ramp { base: first, stride } if self.mask().is_none() => {
                self.load_apart(base, first, stride, dtype)?
            }
            other => self.gather(base, other, dtype)?,
        };
        Ok(LaneValue::of(self.load_form(stored, dtype)?))
    }

    /// `buffer[indices] = value`
    pub(super) fn store(&mut self, buffer: Buffer, indices: &[Expr], value: &Expr) -> Result<()> {
        let dtype = self.func.buffers[buffer].dtype;
        if value.dtype() != dtype {
            let (from, name) = (value.dtype(), &self.func.buffers[buffer].name);
            return Err(CodegenError::new(format!("store of {from} to {name}, which is {dtype}")));
        }
        let (base, offset) = self.address(buffer, indices)?;
        let value = self.expr(value)?;
        match (offset, value) {
            (LaneValue::Uniform(offset), LaneValue::Uniform(value)) => {
                let stored = self.store_form(value, dtype)?;
                let at = self.element(base, offset.into_int_value(), dtype)?;
                self.store_one(at, stored, dtype)
            }
            (LaneValue::Uniform(_), _) => {
                Err(CodegenError::new("vector lanes store different values to one element"))
            }
            (offset, value) => {
                let wide = self.ir.widen(value, self.lane_count()?)?;
                let stored = self.store_form(wide.into(), dtype)?.into_vector_value();
                match offset {
                    LaneValue::Ramp { base: first, stride: 1 } => {
                        let at = self.element(base, first, dtype)?;
                        let alignment = self.alignment(buffer, indices);
                        self.store_contiguous(at, stored, dtype, alignment)
                    }
                    other => self.scatter(base, other, stored, dtype),
                }
            }
        }
    }

    /// Runs `body` with stack memory for `buffer`.
    pub(super) fn local(&mut self, buffer: Buffer, body: &Stmt) -> Result<()> {
        const LIMIT: i64 = 256 << 10;
        let data = &self.func.buffers[buffer];
        let count =
            data.shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?)).ok_or_else(
                || CodegenError::new(format!("local {} has no constant shape", data.name)),
            )?;
        let element = self.storage_type(data.dtype)?;
        if !(0..=LIMIT / data.dtype.itemsize() as i64).contains(&count) {
            let text = format!("local {} of {count} elements exceeds {LIMIT} bytes", data.name);
            return Err(CodegenError::new(text));
        }
        let array = match element {
            BasicTypeEnum::IntType(t) => t.array_type(count as u32),
            BasicTypeEnum::FloatType(t) => t.array_type(count as u32),
            _ => return Err(CodegenError::new("an array of something that is not a scalar")),
        };
        let slot = self.alloca(array, 64)?;
        let outer = self.buffers.insert(buffer, slot);
        self.stmt(body)?;
        match outer {
            Some(slot) => self.buffers.insert(buffer, slot),
            None => self.buffers.remove(&buffer),
        };
        Ok(())
    }

    /// An address, and the element offset from it.
    pub(crate) fn address(
        &mut self,
        buffer: Buffer,
        indices: &[Expr],
    ) -> Result<(PointerValue<'c>, LaneValue<'c>)> {
        let Some((memory, mut known)) = self.placed.get(&buffer).copied() else {
            return Ok((self.base(buffer)?, self.offset(buffer, indices)?));
        };
        // What is constant here comes last.
        let flat = Analyzer::new().simplify(&self.func.row_major(buffer, indices));
        let mut offset = LaneValue::Uniform(self.ir.i64(0).into());
        for term in terms(&flat) {
            let term = self.expr(term)?;
            match term {
                LaneValue::Uniform(BasicValueEnum::IntValue(n)) if n.is_constant_int() => {
                    known += n.get_sign_extended_constant().unwrap_or(0);
                }
                _ => offset = self.index_binary(InstructionOpcode::Add, offset, term)?,
            }
        }
        let known = LaneValue::Uniform(self.ir.i64(known).into());
        Ok((memory, self.index_binary(InstructionOpcode::Add, offset, known)?))
    }

    pub(crate) fn base(&self, buffer: Buffer) -> Result<PointerValue<'c>> {
        self.buffers.get(&buffer).copied().ok_or_else(|| {
            let name = &self.func.buffers[buffer].name;
            CodegenError::new(format!("buffer {name} is used outside its allocation"))
        })
    }

    /// The address of an element. A constant that is added last to its number is added last to the address.
    pub(crate) fn element(
        &self,
        base: PointerValue<'c>,
        offset: IntValue<'c>,
        dtype: DType,
    ) -> Result<PointerValue<'c>> {
        let size = self.ir.i64(dtype.itemsize() as i64);
        if self.unit == Unit::Cpu
            && let Some((rest, constant)) = constant_part(offset)
        {
            let bytes = self.ir.builder.build_int_mul(rest, size, "")?;
            let at = self.ir.offset_bytes(base, bytes)?;
            return self.ir.offset_bytes(at, constant.const_mul(size));
        }
        let bytes = self.ir.builder.build_int_mul(offset, size, "")?;
        self.ir.offset_bytes(base, bytes)
    }

    fn mask(&self) -> Option<VectorValue<'c>> {
        self.lanes.and_then(|l| l.mask)
    }

    /// One lane that is active when any lane is.
    fn any(&self, mask: VectorValue<'c>) -> Result<VectorValue<'c>> {
        let any = self.ir.intrinsic(
            "llvm.vector.reduce.or",
            &[mask.get_type().into()],
            &[mask.into()],
        )?;
        self.ir.splat(result_of(any)?, 1)
    }

    fn load_one(&self, at: PointerValue<'c>, dtype: DType) -> Result<BasicValueEnum<'c>> {
        let ty = self.storage_type(dtype)?;
        match self.mask() {
            None => self.plain_load(ty, at, dtype),
            Some(mask) => {
                let lane = self.masked_load(at, self.any(mask)?, dtype)?;
                let zero = self.ir.i32(0);
                let lane = lane.into_vector_value();
                Ok(self.ir.builder.build_extract_element(lane, zero, "")?)
            }
        }
    }

    /// The bytes that the address of the first lane is a multiple of. CPUs take vectors anywhere; a GPU
    /// only where they are aligned, so that others are split.
    pub(crate) fn alignment(&self, buffer: Buffer, indices: &[Expr]) -> u32 {
        let data = &self.func.buffers[buffer];
        let element = data.dtype.itemsize() as u32;
        let Some(VectorLoop { var, min: Some(min), count, .. }) = self.lanes else {
            return element;
        };
        if self.unit == Unit::Cpu || !count.is_power_of_two() {
            return element;
        }
        let first = self.func.row_major(buffer, indices) - Expr::var(var) + min;
        let set = Analyzer::new().modular(&first);
        let common = (set.stride | set.base | i64::from(count)).trailing_zeros();
        (element << common).min(WIDEST)
    }

    fn load_contiguous(
        &self,
        at: PointerValue<'c>,
        dtype: DType,
        alignment: u32,
    ) -> Result<BasicValueEnum<'c>> {
        match self.mask() {
            None => {
                let ty = vector_of(self.storage_type(dtype)?, self.lane_count()?)?;
                self.aligned_load(ty.into(), at, alignment)
            }
            Some(mask) => self.masked_load(at, mask, dtype),
        }
    }

    /// Every `stride`-th element: one wide load that skips the others (they may be foreign),
    /// then a shuffle. A gather takes several times as long.
    fn load_strided(
        &self,
        at: PointerValue<'c>,
        stride: u32,
        dtype: DType,
    ) -> Result<BasicValueEnum<'c>> {
        let lanes = self.lane_count()?;
        let bool_type = self.ir.context.bool_type();
        let active = match self.mask() {
            Some(mask) => mask,
            None => self.ir.splat(bool_type.const_all_ones().into(), lanes)?,
        };
        // Position p of the wide vector belongs to lane p / stride, or to none: lane `lanes`,
        // which is the first of the inactive ones.
        let owner = |p: u32| if p.is_multiple_of(stride) { p / stride } else { lanes };
        let spread: Vec<BasicValueEnum<'c>> =
            (0..lanes * stride).map(|p| self.ir.i32(owner(p) as i32).into()).collect();
        let none = active.get_type().const_zero();
        let b = &self.ir.builder;
        let mask = b.build_shuffle_vector(active, none, const_vector(&spread), "")?;
        let wide = self.masked_load(at, mask, dtype)?.into_vector_value();
        let picked: Vec<BasicValueEnum<'c>> =
            (0..lanes).map(|l| self.ir.i32((l * stride) as i32).into()).collect();
        let rest = wide.get_type().get_undef();
        Ok(b.build_shuffle_vector(wide, rest, const_vector(&picked), "")?.into())
    }

    /// Elements at a known distance, one by one: their addresses are constants away from each
    /// other, where a gather computes each and takes longer on every CPU so far.
    fn load_apart(
        &self,
        base: PointerValue<'c>,
        first: IntValue<'c>,
        stride: i64,
        dtype: DType,
    ) -> Result<BasicValueEnum<'c>> {
        let ty = self.storage_type(dtype)?;
        let at = self.element(base, first, dtype)?;
        let mut all = vector_of(ty, self.lane_count()?)?.get_undef();
        for lane in 0..self.lane_count()? {
            let step = self.ir.i64(i64::from(lane).wrapping_mul(stride));
            let one = self.plain_load(ty, self.element(at, step, dtype)?, dtype)?;
            let lane = self.ir.i32(lane as i32);
            all = self.ir.builder.build_insert_element(all, one, lane, "")?;
        }
        Ok(all.into())
    }

    pub(super) fn plain_load(
        &self,
        ty: BasicTypeEnum<'c>,
        at: PointerValue<'c>,
        dtype: DType,
    ) -> Result<BasicValueEnum<'c>> {
        self.aligned_load(ty, at, dtype.itemsize() as u32)
    }

    fn aligned_load(
        &self,
        ty: BasicTypeEnum<'c>,
        at: PointerValue<'c>,
        alignment: u32,
    ) -> Result<BasicValueEnum<'c>> {
        let value = self.ir.builder.build_load(ty, at, "")?;
        if let Some(instruction) = value.as_instruction_value() {
            instruction.set_alignment(alignment).map_err(|e| CodegenError::new(e.to_string()))?;
        }
        Ok(value)
    }

    fn masked_load(
        &self,
        at: PointerValue<'c>,
        mask: VectorValue<'c>,
        dtype: DType,
    ) -> Result<BasicValueEnum<'c>> {
        let ty = vector_of(self.storage_type(dtype)?, mask.get_type().get_size())?;
        let align = self.ir.i32(dtype.itemsize() as i32);
        let args = [at.into(), align.into(), mask.into(), ty.const_zero().into()];
        let types = [ty.into(), at.get_type().into()];
        result_of(self.ir.intrinsic("llvm.masked.load", &types, &args)?)
    }

    fn store_one(
        &self,
        at: PointerValue<'c>,
        stored: BasicValueEnum<'c>,
        dtype: DType,
    ) -> Result<()> {
        match self.mask() {
            None => self.plain_store(at, stored, dtype),
            Some(mask) => {
                let lane = self.ir.splat(stored, 1)?;
                self.masked_store(at, lane, self.any(mask)?, dtype)
            }
        }
    }

    fn store_contiguous(
        &self,
        at: PointerValue<'c>,
        stored: VectorValue<'c>,
        dtype: DType,
        alignment: u32,
    ) -> Result<()> {
        match self.mask() {
            None => self.aligned_store(at, stored.into(), alignment),
            Some(mask) => self.masked_store(at, stored, mask, dtype),
        }
    }

    fn plain_store(
        &self,
        at: PointerValue<'c>,
        stored: BasicValueEnum<'c>,
        dtype: DType,
    ) -> Result<()> {
        self.aligned_store(at, stored, dtype.itemsize() as u32)
    }

    fn aligned_store(
        &self,
        at: PointerValue<'c>,
        stored: BasicValueEnum<'c>,
        alignment: u32,
    ) -> Result<()> {
        let store = self.ir.builder.build_store(at, stored)?;
        store.set_alignment(alignment).map_err(|e| CodegenError::new(e.to_string()))
    }

    fn masked_store(
        &self,
        at: PointerValue<'c>,
        stored: VectorValue<'c>,
        mask: VectorValue<'c>,
        dtype: DType,
    ) -> Result<()> {
        let align = self.ir.i32(dtype.itemsize() as i32);
        let args = [stored.into(), at.into(), align.into(), mask.into()];
        let types = [stored.get_type().into(), at.get_type().into()];
        self.ir.intrinsic("llvm.masked.store", &types, &args)?;
        Ok(())
    }

    /// Addresses of the elements each lane accesses, and the lanes that do.
    fn addresses(
        &self,
        base: PointerValue<'c>,
        offset: LaneValue<'c>,
        dtype: DType,
    ) -> Result<(VectorValue<'c>, VectorValue<'c>)> {
        let lanes = self.lane_count()?;
        let offsets = self.ir.widen(offset, lanes)?;
        let addresses = self.ir.lane_addresses(self.storage_type(dtype)?, base, offsets)?;
        let all = self.ir.splat(self.ir.context.bool_type().const_int(1, false).into(), lanes)?;
        Ok((addresses, self.mask().unwrap_or(all)))
    }

    fn gather(
        &self,
        base: PointerValue<'c>,
        offset: LaneValue<'c>,
        dtype: DType,
    ) -> Result<BasicValueEnum<'c>> {
        let (addresses, mask) = self.addresses(base, offset, dtype)?;
        let ty = vector_of(self.storage_type(dtype)?, self.lane_count()?)?;
        let align = self.ir.i32(dtype.itemsize() as i32);
        let args = [addresses.into(), align.into(), mask.into(), ty.const_zero().into()];
        let types = [ty.into(), addresses.get_type().into()];
        result_of(self.ir.intrinsic("llvm.masked.gather", &types, &args)?)
    }

    fn scatter(
        &self,
        base: PointerValue<'c>,
        offset: LaneValue<'c>,
        stored: VectorValue<'c>,
        dtype: DType,
    ) -> Result<()> {
        let (addresses, mask) = self.addresses(base, offset, dtype)?;
        let align = self.ir.i32(dtype.itemsize() as i32);
        let args = [stored.into(), addresses.into(), align.into(), mask.into()];
        let types = [stored.get_type().into(), addresses.get_type().into()];
        self.ir.intrinsic("llvm.masked.scatter", &types, &args)?;
        Ok(())
    }
}
