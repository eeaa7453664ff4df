//! Products of a warp on tensor cores: fragments by `ldmatrix`, `mma.sync.m16n8k16` for each half of the
//! columns. Those of a warpgroup are `wgmma`'s.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, IntValue};
use reflex_tir::DType;
use reflex_tir::mma::Team;
use reflex_tir::tile::{Mma, MmaOperand};

use crate::emit::Emitter;
use crate::emit::ir::result_of;
use crate::error::{CodegenError, Result};

/// Which operand a fragment is of: they differ in the order of the four matrices of 8 by 8.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
}

impl<'c> Emitter<'_, 'c> {
    /// Emits a product. The sum's elements go through their local memory, which LLVM turns into
    /// registers.
    pub(crate) fn mma(&mut self, mma: &Mma) -> Result<()> {
        if self.lanes.is_some() {
            return Err(CodegenError::new("a product of tensor cores in a vector loop"));
        }
        if let Team::Warpgroup { columns } = mma.team {
            return self.issue(mma, columns);
        }
        let dtype = self.func.buffers[mma.a.rows.buffer].dtype;
        let a = self.fragment(&mma.a, &mma.lane, Side::A)?;
        let b = self.fragment(&mma.b, &mma.lane, Side::B)?;
        let sum = self.base(mma.sum)?;
        let first = self.uniform_int(&mma.first, "the first element of a sum")?;
        let each = mma.team.each();
        let f32_type: BasicTypeEnum<'c> = self.ir.context.f32_type().into();
        for half in 0..2 {
            let places = (0..each / 2).map(|n| {
                let at = self.ir.i64(each / 2 * half + n);
                let at = self.ir.builder.build_int_add(first, at, "")?;
                self.element(sum, at, DType::F32)
            });
            let places = places.collect::<Result<Vec<_>>>()?;
            let columns = &b[2 * half as usize..][..2];
            let mut operands: Vec<BasicMetadataValueEnum<'c>> = vec![];
            for word in a.iter().chain(columns) {
                operands.push(self.half_pair(*word, dtype)?.into());
            }
            for place in &places {
                operands.push(self.ir.builder.build_load(f32_type, *place, "")?.into());
            }
            let name = match dtype {
                DType::F16 => "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
                DType::BF16 => "llvm.nvvm.mma.m16n8k16.row.col.bf16",
                other => {
                    return Err(CodegenError::new(format!("tensor cores do not multiply {other}")));
                }
            };
            let result = result_of(self.ir.intrinsic(name, &[], &operands)?)?.into_struct_value();
            for (n, place) in places.into_iter().enumerate() {
                let value = self.ir.builder.build_extract_value(result, n as u32, "")?;
                self.ir.builder.build_store(place, value)?;
            }
        }
        Ok(())
    }

    /// Two neighbours as the intrinsic has them.
    fn half_pair(&self, word: BasicValueEnum<'c>, dtype: DType) -> Result<BasicValueEnum<'c>> {
        match dtype {
            DType::F16 => {
                let pair = self.ir.context.f16_type().vec_type(2);
                Ok(self.ir.builder.build_bit_cast(word, pair, "")?)
            }
            _ => Ok(word),
        }
    }

    /// The thread's part of four matrices of 8 by 8, of which each thread of a quarter of the warp has the
    /// address of a row.
    ///
    /// Matrices of the first operand are in the order of `mma`: upper and lower rows, then later
    /// steps; those of the second one: steps of the left columns, then of the right ones.
    fn fragment(
        &mut self,
        operand: &MmaOperand,
        lane: &reflex_tir::Expr,
        side: Side,
    ) -> Result<Vec<BasicValueEnum<'c>>> {
        let rows = &operand.rows;
        let lane = self.uniform_int(lane, "a thread's number in its warp")?;
        let first = self.uniform_int(&rows.first, "a position of rows")?;
        let stride = self.uniform_int(&rows.stride, "the distance of rows")?;
        let base = self.base(rows.buffer)?;
        // The matrix that the thread has a row of: two bits, of which one says which of 8 rows (or
        // columns) and the other which of 8 steps.
        let low = self.bits(lane, 3, 1)?;
        let high = self.bits(lane, 4, 1)?;
        let within = self.bits(lane, 0, 7)?;
        let (across, along) = match side {
            Side::A => (low, high),
            Side::B => (high, low),
        };
        let (far, near) = if operand.transposed { (along, across) } else { (across, along) };
        let builder = &self.ir.builder;
        let eight = self.ir.i64(8);
        let far = builder.build_int_add(builder.build_int_mul(far, eight, "")?, within, "")?;
        let near = builder.build_int_mul(near, eight, "")?;
        // What differs between threads comes first, so that it is made once.
        let own = builder.build_int_add(builder.build_int_mul(far, stride, "")?, near, "")?;
        let own = self.element(base, own, DType::F16)?;
        let address = self.element(own, first, DType::F16)?;
        let trans = if operand.transposed { ".trans" } else { "" };
        let name = format!("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{trans}.b16");
        let call = self.ir.intrinsic(&name, &[address.get_type().into()], &[address.into()])?;
        let words = result_of(call)?.into_struct_value();
        let word = |n| Ok(self.ir.builder.build_extract_value(words, n, "")?);
        (0..4).map(word).collect()
    }

    /// `lane >> shift & mask`
    fn bits(&self, lane: IntValue<'c>, shift: i64, mask: i64) -> Result<IntValue<'c>> {
        let shifted = self.ir.builder.build_right_shift(lane, self.ir.i64(shift), false, "")?;
        Ok(self.ir.builder.build_and(shifted, self.ir.i64(mask), "")?)
    }
}
