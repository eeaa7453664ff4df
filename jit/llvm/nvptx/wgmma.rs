//! Products of a warpgroup on tensor cores: `wgmma.mma_async` of operands in swizzled shared memory.
//!
//! Products are issued and go on by themselves; sums are waited for (*settled*) where the next statement
//! needs them: before a barrier, behind which another thread may overwrite the operands, before any
//! access to the sums, and where the loop or branch that issued them ends.
//!
//! Threads write operands through the generic proxy and tensor cores read them through the async proxy, so
//! each barrier comes behind a `fence.proxy.async`.
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", version 8.0, "Asynchronous Warpgroup Level Matrix
//! Multiply-Accumulate Operations".

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, IntValue, PointerValue};
use reflex_tir::launch::Launch;
use reflex_tir::mma::Team;
use reflex_tir::tile::{Mma, MmaOperand, TileOp};
use reflex_tir::uses::Uses;
use reflex_tir::{Buffer, DType, ForKind, Stmt};

use crate::emit::Emitter;
use crate::emit::in_flight::{InFlight, Sums};
use crate::emit::ir::result_of;
use crate::error::{CodegenError, Result};

/// Alignment of operands: eight rows of a panel, bytes.
pub const PANELS_ALIGN: u32 = 1024;
/// The part of a descriptor that is the same for all operands: swizzling of 128 bytes, and the
/// distance of one group of eight rows to the next.
const SWIZZLED: i64 = 1 << 62 | (PANELS_ALIGN as i64 >> 4) << 32;

/// Makes registers that were written ready for products.
const FENCE: &str = "wgmma.fence.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";

/// Whether warpgroups multiply in a launch.
pub fn has_warpgroups(launch: &Launch<'_>) -> bool {
    let mut any = false;
    launch.body.visit(&mut |s| any |= is_issued(s));
    any
}

/// A product that goes on by itself.
fn is_issued(s: &Stmt) -> bool {
    matches!(s, Stmt::Tile(TileOp::Mma(mma)) if mma.team != Team::Warp)
}

impl<'c> Emitter<'_, 'c> {
    /// Emits the issue of a product with so many columns.
    pub(super) fn issue(&mut self, mma: &Mma, columns: i64) -> Result<()> {
        let dtype = self.func.buffers[mma.a.rows.buffer].dtype;
        let (a, b) = (self.descriptor(&mma.a)?, self.descriptor(&mma.b)?);
        let element = match dtype {
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            other => {
                return Err(CodegenError::new(format!("tensor cores do not multiply {other}")));
            }
        };
        let before = self.in_flight.len();
        let sums = self.sums_of(mma)?;
        if let Some(ring) = &mut self.ring {
            ring.issued.push(sums.clone());
        }
        let same = |f: &InFlight<'c>| (f.sums.buffer, f.sums.first) == (sums.buffer, sums.first);
        let values = match self.in_flight.iter().position(same) {
            Some(at) => self.in_flight.remove(at).values,
            None => self.load_sums(&sums)?,
        };
        let count = values.len();
        let registers: Vec<String> = (0..count).map(|n| format!("${n}")).collect();
        let turned = |operand: &MmaOperand| i32::from(operand.transposed);
        let mut lines = vec![];
        if before == 0 {
            lines.push(FENCE.to_owned());
        }
        // The predicate says that the sums so far take part.
        lines.push("setp.eq.u32 p, 0, 0;".to_owned());
        lines.push(format!(
            "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{element}.{element} \
             {{{}}}, ${}, ${}, p, 1, 1, {}, {};",
            registers.join(", "),
            2 * count,
            2 * count + 1,
            turned(&mma.a),
            turned(&mma.b),
        ));
        lines.push("wgmma.commit_group.sync.aligned;".to_owned());
        if self.synchronous {
            lines.push(WAIT.to_owned());
        }
        let text = format!("{{\n\t.reg .pred p;\n\t{}\n\t}}", lines.join("\n\t"));
        let values = self.assembly(&text, &values, &[a, b])?;
        match self.synchronous {
            true => self.store_sums(&sums, &values),
            false => {
                self.in_flight.push(InFlight { sums, values });
                Ok(())
            }
        }
    }

    /// Waits for all products that were issued.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let all = std::mem::take(&mut self.in_flight);
        if all.is_empty() {
            return Ok(());
        }
        self.settle_but(0, &all)
    }

    /// Waits for all products but the last ones, as many as are `left`. The sums of those are not there yet: they go
    /// on in their registers, which nothing may touch before it has waited for them.
    pub(super) fn settle_but(&mut self, left: usize, all: &[InFlight<'c>]) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        let values: Vec<_> = all.iter().flat_map(|f| f.values.clone()).collect();
        let wait = format!("wgmma.wait_group.sync.aligned {left};");
        let values = self.assembly(&wait, &values, &[])?;
        let mut rest = &values[..];
        for InFlight { sums, values } in all {
            let (own, others) = rest.split_at(values.len());
            self.store_sums(sums, own)?;
            rest = others;
        }
        Ok(())
    }

    /// Whether products that were issued have to be waited for before `s`, or before what is in it.
    pub(crate) fn settles(&self, s: &Stmt) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        let is_sum = |buffer: &Buffer| self.in_flight.iter().any(|f| f.sums.buffer == *buffer);
        match s {
            // What is in them comes by itself.
            Stmt::Seq(_) | Stmt::Allocate { .. } => false,
            Stmt::For(l) if l.kind == ForKind::Unrolled => false,
            Stmt::Let { .. } => Uses::of_exprs(s).buffers.iter().any(is_sum),
            Stmt::Tile(_) if is_issued(s) => false,
            _ => {
                let mut waits = false;
                s.visit(&mut |s| waits |= matches!(s, Stmt::Barrier(_)) || is_issued(s));
                waits || Uses::of(self.func, s).buffers.iter().any(is_sum)
            }
        }
    }

    pub(super) fn load_sums(&self, sums: &Sums<'c>) -> Result<Vec<BasicValueEnum<'c>>> {
        let load = |place: &PointerValue<'c>| {
            Ok(self.ir.builder.build_load(self.ir.context.f32_type(), *place, "")?)
        };
        sums.places.iter().map(load).collect()
    }

    fn store_sums(&self, sums: &Sums<'c>, values: &[BasicValueEnum<'c>]) -> Result<()> {
        for (place, value) in sums.places.iter().zip(values) {
            self.ir.builder.build_store(*place, *value)?;
        }
        Ok(())
    }

    /// Makes what this thread wrote to shared memory visible to tensor cores.
    pub(super) fn fence_proxy(&self) -> Result<()> {
        self.assembly("fence.proxy.async.shared::cta;", &[], &[]).map(drop)
    }

    fn sums_of(&mut self, mma: &Mma) -> Result<Sums<'c>> {
        let base = self.base(mma.sum)?;
        let first = self.uniform_int(&mma.first, "the first element of a sum")?;
        let Some(known) = first.get_zero_extended_constant() else {
            return Err(CodegenError::new("a sum of a warpgroup at a place that is not constant"));
        };
        let place = |n: i64| {
            let at = self.ir.builder.build_int_add(first, self.ir.i64(n), "")?;
            self.element(base, at, DType::F32)
        };
        let places = (0..mma.team.each()).map(place).collect::<Result<_>>()?;
        Ok(Sums { buffer: mma.sum, first: known, places })
    }

    /// The matrix descriptor of an operand.
    fn descriptor(&mut self, operand: &MmaOperand) -> Result<IntValue<'c>> {
        let rows = &operand.rows;
        let base = self.base(rows.buffer)?;
        let first = self.uniform_int(&rows.first, "a position of rows")?;
        let panels = match (operand.transposed, rows.stride.as_int()) {
            (true, None) => {
                return Err(CodegenError::new("a distance of panels that is not constant"));
            }
            (true, Some(distance)) => distance * 2,
            // There is one panel, and the field counts for nothing.
            (false, _) => 16,
        };
        let (builder, short) = (&self.ir.builder, self.ir.context.i32_type());
        let base = self.local_word(builder.build_ptr_to_int(base, short, "")?)?;
        let first = builder.build_int_truncate(first, short, "")?;
        let bytes = builder.build_int_mul(first, short.const_int(2, false), "")?;
        let address = builder.build_int_add(base, bytes, "")?;
        let units = builder.build_right_shift(address, short.const_int(4, false), false, "")?;
        let units = builder.build_and(units, short.const_int(0x3fff, false), "")?;
        let units = builder.build_int_z_extend(units, self.ir.context.i64_type(), "")?;
        Ok(builder.build_or(units, self.ir.i64(SWIZZLED | panels >> 4 << 16), "")?)
    }

    /// The same word, of which LLVM knows nothing: what is made of it stays where it is used. The descriptors of a loop would
    /// take two registers each around it.
    fn local_word(&self, word: IntValue<'c>) -> Result<IntValue<'c>> {
        let ty = word.get_type();
        let (text, constraints) = ("mov.b32 $0, $1;".to_owned(), "=r,r".to_owned());
        let function = ty.fn_type(&[ty.into()], false);
        let code = self.ir.context.create_inline_asm(
            function,
            text,
            constraints,
            true,
            false,
            None,
            false,
        );
        let call = self.ir.builder.build_indirect_call(function, code, &[word.into()], "")?;
        Ok(result_of(call)?.into_int_value())
    }

    /// Inline assembly that all threads of a warp come to. It changes `sums`, of float32, in place, and reads 64-bit
    /// integers. Returns the sums.
    fn assembly(
        &self,
        text: &str,
        sums: &[BasicValueEnum<'c>],
        words: &[IntValue<'c>],
    ) -> Result<Vec<BasicValueEnum<'c>>> {
        let context = self.ir.context;
        let float = BasicTypeEnum::from(context.f32_type());
        let mut values: Vec<BasicMetadataValueEnum<'c>> =
            sums.iter().map(|v| (*v).into()).collect();
        values.extend(words.iter().map(|word| BasicMetadataValueEnum::from(*word)));
        let mut constraints = vec!["=f".to_owned(); sums.len()];
        constraints.extend((0..sums.len()).map(|n| n.to_string()));
        constraints.extend(words.iter().map(|_| "l".to_owned()));
        let mut inputs: Vec<BasicMetadataTypeEnum<'c>> = vec![float.into(); sums.len()];
        inputs.extend(words.iter().map(|word| BasicMetadataTypeEnum::from(word.get_type())));
        // A warpgroup's thread has four sums at least.
        let function = match sums.len() {
            0 => context.void_type().fn_type(&inputs, false),
            many => context.struct_type(&vec![float; many], false).fn_type(&inputs, false),
        };
        let (text, constraints) = (text.to_owned(), constraints.join(","));
        let code = context.create_inline_asm(function, text, constraints, true, false, None, false);
        let call = self.ir.builder.build_indirect_call(function, code, &values, "")?;
        for name in ["convergent", "nounwind"] {
            let kind = Attribute::get_named_enum_kind_id(name);
            call.add_attribute(AttributeLoc::Function, context.create_enum_attribute(kind, 0));
        }
        if sums.is_empty() {
            return Ok(vec![]);
        }
        let results = result_of(call)?.into_struct_value();
        let value = |n| Ok(self.ir.builder.build_extract_value(results, n as u32, "")?);
        (0..sums.len()).map(value).collect()
    }
}
