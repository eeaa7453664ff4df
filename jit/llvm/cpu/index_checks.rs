//! Checks of index tensors before the body: one pass in vectors, one branch, and a cold path that
//! looks for the first bad index.
//!
//! `i` is in `-n..n` unless `n + i` or `n - 1 - i` is negative, in 64 bits that wrap (extents are
//! far below 2^62). So the pass gathers the sign bits of both, for all elements, without a branch.
//!
//! Decision: docs/decisions/0047-index-checks.md

use inkwell::IntPredicate;
use inkwell::types::BasicType;
use inkwell::values::{
    BasicValue, BasicValueEnum, InstructionOpcode, IntValue, PhiValue, PointerValue, VectorValue,
};
use reflex_tir::{DType, IndexCheck};

use crate::emit::Emitter;
use crate::emit::ir::result_of;
use crate::error::{CodegenError, Result};

/// Elements of one vector: a cache line of int64.
const LANES: usize = 8;

/// The index tensor of a check.
struct Indices<'c> {
    data: PointerValue<'c>,
    count: IntValue<'c>,
    is_narrow: bool,
}

/// A loop under construction: the number of the element that it is at, and the sign bits so far.
struct Pass<'c> {
    at: PhiValue<'c>,
    signs: PhiValue<'c>,
}

impl<'c> Emitter<'_, 'c> {
    /// Leaves the function with an error unless the elements of an index tensor are in range.
    pub(super) fn check_indices(&mut self, check: &IndexCheck) -> Result<()> {
        let buffer = &self.func.buffers[check.buffer];
        let mut count = self.ir.i64(1);
        for extent in &buffer.shape {
            let extent = self.uniform_int(extent, "an extent")?;
            count = self.ir.builder.build_int_mul(count, extent, "")?;
        }
        let data = self.buffers[&check.buffer];
        let indices = Indices { data, count, is_narrow: buffer.dtype == DType::I32 };
        let mut bounds = vec![];
        for bound in &check.bounds {
            bounds.push(self.uniform_int(bound, "a bound")?);
        }

        let signs = self.index_signs(&indices, &bounds)?;
        let zero = self.ir.i64(0);
        let bad = self.ir.builder.build_int_compare(IntPredicate::SLT, signs, zero, "")?;
        let search = self.ir.block(self.function, "bad_index");
        let fine = self.ir.block(self.function, "indices_fine");
        self.ir.builder.build_conditional_branch(bad, search, fine)?;
        self.ir.builder.position_at_end(search);
        self.fail_index(check, &indices, &bounds)?;
        // Another thread has mended the index meanwhile. The body clamps what it reads.
        self.ir.builder.build_unconditional_branch(fine)?;
        self.ir.builder.position_at_end(fine);
        Ok(())
    }

    /// Returns a number that is negative if an element is out of range. The bounds apply to the
    /// elements in turn.
    fn index_signs(&self, indices: &Indices<'c>, bounds: &[IntValue<'c>]) -> Result<IntValue<'c>> {
        let builder = &self.ir.builder;
        let vectors =
            (1..=bounds.len()).find(|n| (n * LANES).is_multiple_of(bounds.len())).unwrap_or(1);
        let lane_bounds = (0..vectors)
            .map(|vector| self.lane_bounds(bounds, vector * LANES))
            .collect::<Result<Vec<_>>>()?;
        let chunk = self.ir.i64((vectors * LANES) as i64);
        let rest = builder.build_int_unsigned_rem(indices.count, chunk, "")?;
        let whole = builder.build_int_sub(indices.count, rest, "")?;

        let no_lanes = self.ir.context.i64_type().vec_type(LANES as u32).const_zero();
        let start = (self.ir.i64(0), no_lanes.into());
        let lanes = self.index_pass(start, whole, chunk, |at, signs| {
            let mut signs = signs;
            for (vector, bound) in lane_bounds.iter().enumerate() {
                let offset = self.ir.i64((vector * LANES) as i64);
                let at = builder.build_int_add(at, offset, "")?;
                let value = self.load_indices(indices, at, Some(LANES))?;
                signs = self.add_signs(signs, (*bound).into(), value)?;
            }
            Ok(signs)
        })?;
        let ty = lanes.get_type();
        let or = self.ir.intrinsic("llvm.vector.reduce.or", &[ty], &[lanes.into()])?;
        let step = self.ir.i64(bounds.len() as i64);
        // One index for each bound, and never half of them.
        let rest = builder.build_int_unsigned_rem(indices.count, step, "")?;
        let end = builder.build_int_sub(indices.count, rest, "")?;
        let signs = self.index_pass((whole, result_of(or)?), end, step, |at, signs| {
            let mut signs = signs;
            for (element, bound) in bounds.iter().enumerate() {
                let at = builder.build_int_add(at, self.ir.i64(element as i64), "")?;
                let value = self.load_indices(indices, at, None)?;
                signs = self.add_signs(signs, (*bound).into(), value)?;
            }
            Ok(signs)
        })?;
        Ok(signs.into_int_value())
    }

    /// Emits a loop from `start` to `end` in steps, and returns the sign bits after it.
    fn index_pass(
        &self,
        start: (IntValue<'c>, BasicValueEnum<'c>),
        end: IntValue<'c>,
        step: IntValue<'c>,
        body: impl Fn(IntValue<'c>, BasicValueEnum<'c>) -> Result<BasicValueEnum<'c>>,
    ) -> Result<BasicValueEnum<'c>> {
        let builder = &self.ir.builder;
        let before = self.ir.here()?;
        let [head, inside, after] = ["indices", "some_indices", "indices_read"]
            .map(|name| self.ir.block(self.function, name));
        builder.build_unconditional_branch(head)?;
        builder.position_at_end(head);
        let pass = Pass {
            at: builder.build_phi(self.ir.context.i64_type(), "")?,
            signs: builder.build_phi(start.1.get_type(), "")?,
        };
        let at = pass.at.as_basic_value().into_int_value();
        let more = builder.build_int_compare(IntPredicate::SLT, at, end, "")?;
        builder.build_conditional_branch(more, inside, after)?;
        builder.position_at_end(inside);
        let signs = body(at, pass.signs.as_basic_value())?;
        let next = builder.build_int_nuw_add(at, step, "")?;
        builder.build_unconditional_branch(head)?;
        pass.at.add_incoming(&[(&start.0, before), (&next, inside)]);
        let (first, later): (&dyn BasicValue<'c>, &dyn BasicValue<'c>) = (&start.1, &signs);
        pass.signs.add_incoming(&[(first, before), (later, inside)]);
        builder.position_at_end(after);
        Ok(pass.signs.as_basic_value())
    }

    /// The bounds of the elements from `first` on, one for each lane.
    fn lane_bounds(&self, bounds: &[IntValue<'c>], first: usize) -> Result<VectorValue<'c>> {
        if let [bound] = bounds {
            return self.ir.splat((*bound).into(), LANES as u32);
        }
        let mut lanes = self.ir.context.i64_type().vec_type(LANES as u32).get_poison();
        for lane in 0..LANES {
            let bound = bounds[(first + lane) % bounds.len()];
            let position = self.ir.i32(lane as i32);
            lanes = self.ir.builder.build_insert_element(lanes, bound, position, "")?;
        }
        Ok(lanes)
    }

    /// Loads an element, or a vector of them, as int64.
    fn load_indices(
        &self,
        indices: &Indices<'c>,
        at: IntValue<'c>,
        lanes: Option<usize>,
    ) -> Result<BasicValueEnum<'c>> {
        let context = self.ir.context;
        let (element, bytes) = match indices.is_narrow {
            true => (context.i32_type(), 4),
            false => (context.i64_type(), 8),
        };
        let offset = self.ir.builder.build_int_mul(at, self.ir.i64(bytes), "")?;
        let address = self.ir.offset_bytes(indices.data, offset)?;
        let value = match lanes {
            Some(lanes) => {
                self.ir.builder.build_load(element.vec_type(lanes as u32), address, "")?
            }
            None => self.ir.builder.build_load(element, address, "")?,
        };
        if let Some(load) = value.as_instruction_value() {
            // A vector is as aligned as its elements.
            load.set_alignment(bytes as u32).map_err(|e| CodegenError::new(e.to_string()))?;
        }
        match indices.is_narrow {
            true => self.ir.convert(
                InstructionOpcode::SExt,
                value,
                context.i64_type().as_basic_type_enum(),
            ),
            false => Ok(value),
        }
    }

    /// `signs | (bound + value) | (bound - 1 - value)`.
    fn add_signs(
        &self,
        signs: BasicValueEnum<'c>,
        bound: BasicValueEnum<'c>,
        value: BasicValueEnum<'c>,
    ) -> Result<BasicValueEnum<'c>> {
        use InstructionOpcode::{Add, Or, Sub};
        let one = self.ir.int_like(value, self.ir.context.i64_type(), 1);
        let last = self.ir.binary(Sub, bound, one)?;
        let below = self.ir.binary(Add, bound, value)?;
        let above = self.ir.binary(Sub, last, value)?;
        let either = self.ir.binary(Or, below, above)?;
        self.ir.binary(Or, signs, either)
    }

    /// Leaves the function with the error of the first index out of range.
    fn fail_index(
        &self,
        check: &IndexCheck,
        indices: &Indices<'c>,
        bounds: &[IntValue<'c>],
    ) -> Result<()> {
        let name = match indices.is_narrow {
            true => "reflex.fail_index_i32",
            false => "reflex.fail_index_i64",
        };
        let message = self.ir.builder.build_global_string_ptr(&check.message(), "")?;
        let step = self.ir.i64(bounds.len() as i64);
        for (first, bound) in bounds.iter().enumerate() {
            let args = [
                indices.data.into(),
                self.ir.i64(first as i64).into(),
                step.into(),
                indices.count.into(),
                (*bound).into(),
                message.as_pointer_value().into(),
            ];
            let status = self.call_shared(name, &args)?;
            self.check_status(status)?;
        }
        Ok(())
    }
}
