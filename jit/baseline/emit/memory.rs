//! Loads and stores.
//!
//! An index that is the same in all lanes is a scalar access, one that advances by 1 per lane
//! a vector access; of other distances each lane has its own.

use cranelift_codegen::ir::immediates::Offset32;
use cranelift_codegen::ir::{InstBuilder, Opcode, Value, types};
use reflex_tir::{Buffer, DType, Expr, Stmt};

use crate::emit::index::{Linear, no_ramp};
use crate::emit::value::{LANES, LaneValue};
use crate::emit::{Emitter, mapped, storage_type};
use crate::error::{BaselineError, Result};
use crate::position::{has_remainder, position};

/// An address and a constant distance from it.
#[derive(Clone, Copy)]
struct Place {
    address: Value,
    offset: i32,
}

impl Emitter<'_, '_, '_> {
    /// `buffer[indices]`
    pub(super) fn load(&mut self, buffer: Buffer, indices: &[Expr]) -> Result<LaneValue> {
        let dtype = self.func.buffers[buffer].dtype;
        let offset = self.offset(buffer, indices)?;
        let base = self.base(buffer)?;
        match offset.stride {
            0 => {
                let place = self.place(base, offset, 0, dtype);
                let stored = self.load_at(storage_type(dtype)?, place.address, place.offset);
                Ok(LaneValue::Uniform(self.load_form(stored, dtype)))
            }
            1 => {
                let place = self.place(base, offset, 0, dtype);
                let stored = self.load_vector(place, dtype)?;
                Ok(LaneValue::Varying(self.load_form(stored, dtype)))
            }
            stride => {
                let mut vector = None;
                for lane in 0..LANES {
                    let place = self.place(base, offset, lane * stride, dtype);
                    let one = self.load_at(storage_type(dtype)?, place.address, place.offset);
                    let one = match (self.ty(one), dtype) {
                        (types::I8, DType::I8) => self.b.ins().sextend(types::I32, one),
                        (types::I8 | types::I16, _) => self.b.ins().uextend(types::I32, one),
                        _ => one,
                    };
                    vector = Some(match vector {
                        None => self.widen(LaneValue::Uniform(one))?,
                        Some(vector) => self.b.ins().insertlane(vector, one, lane as u8),
                    });
                }
                let vector = vector.ok_or_else(|| BaselineError::new("a vector of no lanes"))?;
                Ok(LaneValue::Varying(self.load_form(vector, dtype)))
            }
        }
    }

    /// `buffer[indices] = value`
    pub(super) fn store(&mut self, buffer: Buffer, indices: &[Expr], value: &Expr) -> Result<()> {
        let dtype = self.func.buffers[buffer].dtype;
        if value.dtype() != dtype {
            let (from, name) = (value.dtype(), &self.func.buffers[buffer].name);
            return Err(BaselineError::new(format!("store of {from} to {name}, which is {dtype}")));
        }
        let offset = self.offset(buffer, indices)?;
        let base = self.base(buffer)?;
        let value = self.expr(value)?;
        match (offset.stride, value) {
            (0, LaneValue::Uniform(value)) => {
                let stored = self.store_form(value, dtype);
                let place = self.place(base, offset, 0, dtype);
                self.store_at(stored, place.address, place.offset);
                Ok(())
            }
            (0, _) => Err(BaselineError::new("vector lanes store different values to one element")),
            (_, value) => {
                let wide = self.widen(value)?;
                let stored = self.store_form(wide, dtype);
                self.store_lanes(base, offset, stored, dtype)
            }
        }
    }

    /// The word of four bytes from `buffer[indices]` on, where words of neighbouring lanes are neighbours.
    pub(super) fn load_word(
        &mut self,
        buffer: Buffer,
        indices: &[Expr],
    ) -> Result<Option<LaneValue>> {
        let (offset, base) = (self.offset(buffer, indices)?, self.base(buffer)?);
        let ty = match offset.stride {
            0 => types::I32,
            4 => types::I32X4,
            _ => return Ok(None),
        };
        let Place { address, offset } = self.place(base, offset, 0, DType::U8);
        let word = self.load_at(ty, address, offset);
        Ok(Some(match ty {
            types::I32 => LaneValue::Uniform(word),
            _ => LaneValue::Varying(word),
        }))
    }

    fn load_vector(&mut self, Place { address, offset }: Place, dtype: DType) -> Result<Value> {
        match dtype {
            DType::U8 | DType::I8 => {
                let word = self.load_at(types::I32, address, offset);
                let word = self.b.ins().scalar_to_vector(types::I32X4, word);
                let bytes = self.bitcast(types::I8X16, word);
                let widen = |e: &mut Self, narrow| match dtype {
                    DType::U8 => e.b.ins().uwiden_low(narrow),
                    _ => e.b.ins().swiden_low(narrow),
                };
                let halves = widen(self, bytes);
                Ok(widen(self, halves))
            }
            DType::F32 => Ok(self.load_at(types::F32X4, address, offset)),
            DType::I32 | DType::U32 => Ok(self.load_at(types::I32X4, address, offset)),
            DType::F16 | DType::BF16 => {
                Ok(self.b.ins().uload16x4(mapped(), address, Offset32::new(offset)))
            }
            other => Err(BaselineError::new(format!("no vectors of {other}"))),
        }
    }

    /// Stores a vector; 16-bit elements are in the lower halves of its lanes, 8-bit ones extended to 32 bits.
    fn store_lanes(&mut self, base: Value, at: Linear, stored: Value, dtype: DType) -> Result<()> {
        if at.stride == 1 {
            let Place { address, offset } = self.place(base, at, 0, dtype);
            // Nothing is clamped: lanes hold values of the narrow types.
            let narrow = |e: &mut Self, wide| match dtype.is_int() {
                true => e.b.ins().snarrow(wide, wide),
                false => e.b.ins().unarrow(wide, wide),
            };
            let (packed, all) = match dtype.itemsize() {
                1 => {
                    let halves = narrow(self, stored);
                    (narrow(self, halves), types::I32X4)
                }
                2 => (narrow(self, stored), types::I64X2),
                _ => {
                    self.store_at(stored, address, offset);
                    return Ok(());
                }
            };
            let words = self.bitcast(all, packed);
            let whole = self.b.ins().extractlane(words, 0);
            self.store_at(whole, address, offset);
            return Ok(());
        }
        for lane in 0..LANES {
            let one = self.b.ins().extractlane(stored, lane as u8);
            let one = match dtype.itemsize() {
                1 => self.b.ins().ireduce(types::I8, one),
                2 => self.b.ins().ireduce(types::I16, one),
                _ => one,
            };
            let Place { address, offset } = self.place(base, at, lane * at.stride, dtype);
            self.store_at(one, address, offset);
        }
        Ok(())
    }

    /// Runs `body` with stack memory for `buffer`.
    pub(super) fn local(&mut self, buffer: Buffer, body: &Stmt) -> Result<()> {
        const LIMIT: i64 = 256 << 10;
        let data = &self.func.buffers[buffer];
        let count =
            data.shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?)).ok_or_else(
                || BaselineError::new(format!("local {} has no constant shape", data.name)),
            )?;
        let item = data.dtype.itemsize() as i64;
        if !(0..=LIMIT / item).contains(&count) {
            let text = format!("local {} of {count} elements exceeds {LIMIT} bytes", data.name);
            return Err(BaselineError::new(text));
        }
        let memory = self.stack_memory((count * item) as u32);
        self.with_buffer(buffer, memory, |e| e.stmt(body))
    }

    /// Row-major element offset; a single index into another rank than 1 is one already.
    fn offset(&mut self, buffer: Buffer, indices: &[Expr]) -> Result<Linear> {
        let shape = &self.func.buffers[buffer].shape;
        let is_flat = indices.len() == 1 && shape.len() != 1;
        if !is_flat && shape.len() != indices.len() {
            let (name, n) = (&self.func.buffers[buffer].name, indices.len());
            return Err(BaselineError::new(format!("{n} indices into {name}")));
        }
        if is_flat || indices.iter().any(has_remainder) {
            return self.linear(&position(self.func, buffer, indices));
        }
        let mut offset = Linear::known(0);
        for (extent, index) in shape.iter().zip(indices) {
            let (extent, index) = (self.linear(extent)?, self.linear(index)?);
            let scaled = self.product(offset, extent).ok_or_else(no_ramp)?;
            offset = self.sum(scaled, index);
        }
        Ok(offset)
    }

    /// The address of a buffer's first element.
    pub(crate) fn base(&self, buffer: Buffer) -> Result<Value> {
        self.buffers.get(&buffer).copied().ok_or_else(|| {
            let name = &self.func.buffers[buffer].name;
            BaselineError::new(format!("buffer {name} is used outside its allocation"))
        })
    }

    /// The address of the element at `offset`.
    pub(crate) fn element(&mut self, base: Value, offset: Value, dtype: DType) -> Value {
        let Place { address, offset } = self.place(base, self.split(offset), 0, dtype);
        let offset = self.i64(i64::from(offset));
        self.add(address, offset)
    }

    /// The place of lane 0 of the elements at `offset + more`. Constants become part of the instruction.
    fn place(&mut self, base: Value, offset: Linear, more: i64, dtype: DType) -> Place {
        let size = dtype.itemsize() as i64;
        let bytes = offset.constant.wrapping_add(more).wrapping_mul(size);
        let mut address = base;
        if let Some(rest) = offset.rest {
            let size = self.i64(size);
            let scaled = self.mul(rest, size);
            address = self.binary_once(Opcode::Iadd, [base, scaled]);
        }
        match i32::try_from(bytes) {
            Ok(offset) => Place { address, offset },
            Err(_) => {
                let bytes = self.i64(bytes);
                Place { address: self.binary_once(Opcode::Iadd, [address, bytes]), offset: 0 }
            }
        }
    }
}
