//! Launches whose loops are pipelined: a warpgroup copies (the producer), the others multiply (the consumers).
//!
//! ```text
//! thread 0: makes the barrier objects; all wait for that
//! producer, its first thread:                   consumers:
//!     for k: wait until stage k % n is empty        for k: wait until stage k % n is full
//!            expect its bytes                              issue the products of stage k % n
//!            copy boxes to it                              wait for those of iteration k - 1
//!                                                          say that its stage is empty
//! ```
//!
//! Two barrier objects (mbarriers) of a stage say that it is full, by the bytes that copies bring, and that it is empty, by
//! one arrival of each consumer. A stage's object is in its next phase each time that the ring has gone round, so threads
//! keep the parity of the phase. The products of one iteration go on while the next ones are issued. The producer gives
//! registers to the consumers.
//!
//! Blocks of a cluster do the same iterations. Of a box that is the same one for all of them each producer copies a part of the
//! rows, to the same place in all blocks (multicast), whose barrier objects get its bytes. So a stage is empty when the
//! consumers of all blocks have said so, to every block. All threads of a cluster wait for each other once barrier objects are made,
//! and before a block ends whose shared memory others may write to.
//!
//! [`reflex_tir::pipeline`] says when a loop may be split so.
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", version 8.0, "Asynchronous Barrier: mbarrier", "Data Movement and
//! Conversion Instructions: Bulk copy", "setmaxnreg".
//!
//! Decisions: docs/decisions/0105-warp-specialisation.md, docs/decisions/0112-clusters.md

use inkwell::IntPredicate;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, FunctionValue, IntValue, PointerValue};
use reflex_tir::box_copy::BoxCopy;
use reflex_tir::launch::Launch;
use reflex_tir::mma::PANEL;
use reflex_tir::pipeline::{
    BARRIER_BYTES, Pipeline, has_pipelined, is_pipelined, parts, same_map, tile_bytes,
};
use reflex_tir::thread::{ThreadAxis, WARP};
use reflex_tir::{DType, Expr, For, ForKind, Stmt};

use crate::emit::Emitter;
use crate::emit::in_flight::InFlight;
use crate::emit::ir::result_of;
use crate::emit::ring::Ring;
use crate::emit::stmt::TripCount;
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

/// The number of the block in its cluster.
const RANK: &str = "llvm.nvvm.read.ptx.sreg.cluster.ctaid.x";
/// Registers that a producer's thread keeps.
const PRODUCER_REGISTERS: i64 = 40;
/// Registers of a multiprocessor, and what a thread's number of them is a multiple of.
const REGISTERS: i64 = 64 << 10;
const REGISTER_UNIT: i64 = 8;
/// Bytes and alignment of a tensor map (`CUtensorMap`).
const MAP_BYTES: u32 = 128;
const MAP_ALIGN: u64 = 64;

const WAIT: &str = "{\n\t.reg .pred p;\n\tWAIT_${:uid}:\n\t\
    mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\n\t\
    @p bra DONE_${:uid};\n\tbra WAIT_${:uid};\n\tDONE_${:uid}:\n\t}";
const WAIT_CLUSTER: &str = "{\n\t.reg .pred p;\n\tWAIT_${:uid}:\n\t\
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [$0], $1;\n\t\
    @p bra DONE_${:uid};\n\tbra WAIT_${:uid};\n\tDONE_${:uid}:\n\t}";
const INIT: &str = "mbarrier.init.shared::cta.b64 [$0], $1;";
const INIT_FENCE: &str = "fence.mbarrier_init.release.cluster;";
const EXPECT: &str = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;";
const ARRIVE: &str = "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t\
    @p mbarrier.arrive.shared::cta.b64 _, [$0];\n\t}";
const ARRIVE_AT: &str = "{\n\t.reg .pred p;\n\t.reg .b32 there;\n\tsetp.ne.b32 p, $1, 0;\n\t\
    mapa.shared::cluster.u32 there, $0, $2;\n\t\
    @p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t}";
const CLUSTER_BARRIER: &str = "barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;";

/// Adds the attributes of a tensor map to parameters from `first` on, which are passed by value and never written.
/// Returns the numbers of the parameters, from 1 on, as LLVM annotates them.
pub fn mark_maps(
    e: &Emitter<'_, '_>,
    function: FunctionValue<'_>,
    first: u32,
    count: u32,
) -> Vec<u64> {
    let context = e.ir.context;
    let bytes = context.i8_type().array_type(MAP_BYTES);
    for position in first..first + count {
        let by_value = Attribute::get_named_enum_kind_id("byval");
        let by_value = context.create_type_attribute(by_value, bytes.into());
        let align = Attribute::get_named_enum_kind_id("align");
        let align = context.create_enum_attribute(align, MAP_ALIGN);
        function.add_attribute(AttributeLoc::Param(position), by_value);
        function.add_attribute(AttributeLoc::Param(position), align);
    }
    (first..first + count).map(|position| u64::from(position) + 1).collect()
}

impl<'c> Emitter<'_, 'c> {
    /// Emits the two parts of a launch, with its shared memory and the addresses of its tensor maps.
    pub(super) fn warp_specialised(
        &mut self,
        launch: &Launch<'_>,
        pipeline: &Pipeline,
        memory: PointerValue<'c>,
        maps: Vec<PointerValue<'c>>,
    ) -> Result<()> {
        let axis = |e: &mut Self, axis| {
            let l = launch.thread(axis).ok_or_else(|| CodegenError::new("no loop over threads"))?;
            let number = e.uniform_int(&Expr::from(l.var), "a thread's number")?;
            Ok::<_, CodegenError>((l.var, number))
        };
        let (x, thread) = axis(self, ThreadAxis::ThreadX)?;
        let (y, team) = axis(self, ThreadAxis::ThreadY)?;
        let maps = pipeline.maps.iter().cloned().zip(maps).collect();
        let mut end = 0;
        let mut place = |tile: &_| {
            let at = end;
            end += tile_bytes(self.func, *tile);
            (*tile, at)
        };
        let tiles = pipeline.tiles.iter().map(&mut place).collect();
        let word = self.ir.context.i32_type();
        let ring = Ring {
            memory,
            stage_bytes: pipeline.stage_bytes(self.func),
            tiles,
            maps,
            pipeline: pipeline.clone(),
            thread,
            stage: self.alloca(word, 4)?,
            parity: self.alloca(word, 4)?,
            full: None,
            issued: vec![],
        };
        for place in [ring.stage, ring.parity] {
            self.ir.builder.build_store(place, self.ir.i32(0))?;
        }
        let zero = self.ir.i64(0);
        let equal = |e: &Self, a: IntValue<'c>, b: IntValue<'c>| {
            Ok::<_, CodegenError>(e.ir.builder.build_int_compare(IntPredicate::EQ, a, b, "")?)
        };
        let block = |e: &Self, name| e.ir.block(e.function, name);
        let first = self.ir.builder.build_or(thread, team, "")?;
        let (init, start) = (block(self, "init"), block(self, "start"));
        let (producer, copies) = (block(self, "producer"), block(self, "copies"));
        let (consumer, done) = (block(self, "consumer"), block(self, "done"));
        self.ir.builder.build_conditional_branch(equal(self, first, zero)?, init, start)?;
        self.ir.builder.position_at_end(init);
        self.make_barriers(&ring, pipeline.consumers)?;
        self.ir.builder.build_unconditional_branch(start)?;
        self.ir.builder.position_at_end(start);
        match pipeline.cluster {
            1 => drop(self.ir.intrinsic("llvm.nvvm.barrier0", &[], &[])?),
            _ => self.run(CLUSTER_BARRIER, &[])?,
        }
        let produces = equal(self, team, self.ir.i64(pipeline.consumers))?;
        self.ir.builder.build_conditional_branch(produces, producer, consumer)?;

        self.ir.builder.position_at_end(producer);
        self.registers_of(pipeline.consumers, true)?;
        self.ir.builder.build_conditional_branch(equal(self, thread, zero)?, copies, done)?;
        self.ir.builder.position_at_end(copies);
        self.ring = Some(ring.clone());
        // Copies are the first thread's.
        let first = LaneValue::Uniform(zero.into());
        self.bound(x, first, |e| e.bound(y, first, |e| e.produce(launch.body)))?;
        self.ir.builder.build_unconditional_branch(done)?;

        self.ir.builder.position_at_end(consumer);
        self.registers_of(pipeline.consumers, false)?;
        self.ring = Some(ring);
        self.stmt(launch.body)?;
        self.ring = None;
        self.ir.builder.build_unconditional_branch(done)?;
        self.ir.builder.position_at_end(done);
        if pipeline.cluster > 1 {
            self.run(CLUSTER_BARRIER, &[])?;
        }
        Ok(())
    }

    /// Makes the barrier objects of all stages: a full stage has one arrival, that with the bytes, an empty one those of
    /// consumers, of all blocks of the cluster.
    fn make_barriers(&mut self, ring: &Ring<'c>, consumers: i64) -> Result<()> {
        for stage in 0..ring.pipeline.stages {
            let number = self.ir.i32(stage as i32);
            for (empty, count) in [(false, 1), (true, consumers * ring.pipeline.cluster)] {
                let at = self.barrier_object(ring, number, empty)?;
                self.run(INIT, &[at, self.ir.i32(count as i32)])?;
            }
        }
        self.run(INIT_FENCE, &[])
    }

    /// Gives registers of a producer to the consumers, where there are too few for all.
    fn registers_of(&mut self, consumers: i64, producer: bool) -> Result<()> {
        if consumers < 2 {
            return Ok(());
        }
        let whole = |n: i64| n / REGISTER_UNIT * REGISTER_UNIT;
        let all = whole(REGISTERS / (4 * WARP * (consumers + 1))) * (consumers + 1);
        let (change, count) = match producer {
            true => ("dec", PRODUCER_REGISTERS),
            false => ("inc", whole((all - PRODUCER_REGISTERS) / consumers)),
        };
        let name = format!("llvm.nvvm.setmaxnreg.{change}.sync.aligned.u32");
        self.ir.intrinsic(&name, &[], &[self.ir.i32(count as i32).into()])?;
        Ok(())
    }

    /// Emits the producer's part of a statement.
    fn produce(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            _ if !has_pipelined(stmt) => Ok(()),
            Stmt::Seq(all) => all.iter().try_for_each(|s| self.produce(s)),
            Stmt::Allocate { body, .. } => self.produce(body),
            Stmt::Let { var, value, body } => {
                let value = self.expr(value)?;
                self.bound(*var, value, |e| e.produce(body))
            }
            Stmt::For(l) if is_pipelined(l) => self.copies(l),
            Stmt::For(l) if l.kind == ForKind::Serial => {
                let min = self.uniform_int(&l.min, "loop start")?;
                let extent = self.uniform_int(&l.extent, "loop extent")?;
                let end = self.ir.builder.build_int_add(min, extent, "")?;
                self.counted(l.var, min, end, TripCount::Unknown, |e| e.produce(&l.body))
            }
            _ => Err(CodegenError::new("a pipelined loop in a statement that has no producer")),
        }
    }

    /// The producer's part of a pipelined loop.
    fn copies(&mut self, l: &For) -> Result<()> {
        let parts = parts(l).map_err(CodegenError::new)?;
        self.stages(l, |e| {
            let (stage, parity) = e.stage()?;
            let ring = e.ring()?.clone();
            let before = e.ir.builder.build_xor(parity, e.ir.i32(1), "")?;
            let empty = e.barrier_object(&ring, stage, true)?;
            let wait = if ring.pipeline.cluster > 1 { WAIT_CLUSTER } else { WAIT };
            e.run(wait, &[empty, before])?;
            let full = e.barrier_object(&ring, stage, false)?;
            e.run(EXPECT, &[full, e.ir.i32(ring.pipeline.copied_bytes as i32)])?;
            e.place_tiles(stage)?;
            e.ring_mut()?.full = Some(full);
            parts.copies.iter().try_for_each(|s| e.stmt(s))
        })
    }

    /// The consumers' part of a pipelined loop.
    pub(crate) fn products(&mut self, l: &For) -> Result<()> {
        let parts = parts(l).map_err(CodegenError::new)?;
        let word = self.ir.context.i32_type();
        // The object that says that the stage of the iteration before is empty.
        let before = self.alloca(word, 4)?;
        self.ir.builder.build_store(before, self.ir.i32(0))?;
        let mut sums = vec![];
        self.stages(l, |e| {
            let (stage, parity) = e.stage()?;
            let ring = e.ring()?.clone();
            let full = e.barrier_object(&ring, stage, false)?;
            e.run(WAIT, &[full, parity])?;
            e.place_tiles(stage)?;
            e.ring_mut()?.issued.clear();
            parts.products.iter().try_for_each(|s| e.stmt(s))?;
            let issued = e.ring()?.issued.len();
            let going = std::mem::take(&mut e.in_flight);
            sums = going.iter().map(|f| f.sums.clone()).collect();
            e.settle_but(issued, &going)?;
            let k = e.uniform_int(&Expr::from(l.var), "an iteration")?;
            let min = e.uniform_int(&l.min, "loop start")?;
            let later = e.ir.builder.build_int_compare(IntPredicate::NE, k, min, "")?;
            e.release(before, Some(later))?;
            let empty = e.barrier_object(&ring, stage, true)?;
            e.ir.builder.build_store(before, empty)?;
            Ok(())
        })?;
        let values = |sums| Ok(InFlight { values: self.load_sums(&sums)?, sums });
        let going = sums.into_iter().map(values).collect::<Result<Vec<_>>>()?;
        self.settle_but(0, &going)?;
        self.release(before, None)
    }

    /// Emits a loop with what `body` does for the stage at hand.
    fn stages(&mut self, l: &For, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let min = self.uniform_int(&l.min, "loop start")?;
        let extent = self.uniform_int(&l.extent, "loop extent")?;
        let end = self.ir.builder.build_int_add(min, extent, "")?;
        self.counted(l.var, min, end, TripCount::Positive, |e| {
            body(e)?;
            e.next_stage()
        })
    }

    fn ring(&self) -> Result<&Ring<'c>> {
        self.ring.as_ref().ok_or_else(outside)
    }

    fn ring_mut(&mut self) -> Result<&mut Ring<'c>> {
        self.ring.as_mut().ok_or_else(outside)
    }

    /// Number and parity of the stage at hand.
    fn stage(&self) -> Result<(IntValue<'c>, IntValue<'c>)> {
        let ring = self.ring()?;
        let word = self.ir.context.i32_type();
        let stage = self.ir.builder.build_load(word, ring.stage, "")?.into_int_value();
        let parity = self.ir.builder.build_load(word, ring.parity, "")?.into_int_value();
        Ok((stage, parity))
    }

    fn next_stage(&self) -> Result<()> {
        let (stage, parity) = self.stage()?;
        let (ring, builder) = (self.ring()?, &self.ir.builder);
        let next = builder.build_int_add(stage, self.ir.i32(1), "")?;
        let last = self.ir.i32(ring.pipeline.stages as i32);
        let wraps = builder.build_int_compare(IntPredicate::EQ, next, last, "")?;
        let next = builder.build_select(wraps, self.ir.i32(0), next, "")?;
        let round = builder.build_int_z_extend(wraps, self.ir.context.i32_type(), "")?;
        let parity = builder.build_xor(parity, round, "")?;
        builder.build_store(ring.stage, next)?;
        builder.build_store(ring.parity, parity)?;
        Ok(())
    }

    /// The address of a stage's barrier object in shared memory.
    fn barrier_object(
        &self,
        ring: &Ring<'c>,
        stage: IntValue<'c>,
        empty: bool,
    ) -> Result<IntValue<'c>> {
        let builder = &self.ir.builder;
        let first = ring.pipeline.stages * (ring.stage_bytes + BARRIER_BYTES * i64::from(empty));
        let word = self.ir.context.i32_type();
        let memory = builder.build_ptr_to_int(ring.memory, word, "")?;
        let at = builder.build_int_mul(stage, self.ir.i32(BARRIER_BYTES as i32), "")?;
        let at = builder.build_int_add(at, self.ir.i32(first as i32), "")?;
        Ok(builder.build_int_add(memory, at, "")?)
    }

    /// Lets tiles be those of a stage.
    fn place_tiles(&mut self, stage: IntValue<'c>) -> Result<()> {
        let ring = self.ring()?.clone();
        let bytes = self.ir.i32(ring.stage_bytes as i32);
        let first = self.ir.builder.build_int_mul(stage, bytes, "")?;
        let first = self.ir.builder.build_int_z_extend(first, self.ir.context.i64_type(), "")?;
        let memory = self.ir.offset_bytes(ring.memory, first)?;
        for (tile, at) in &ring.tiles {
            let place = self.ir.offset_bytes(memory, self.ir.i64(*at))?;
            self.buffers.insert(*tile, place);
        }
        Ok(())
    }

    /// The first thread of a warpgroup says that the stage whose object is kept here is empty. In a cluster the first threads
    /// say it, one to each block.
    fn release(&mut self, object: PointerValue<'c>, cond: Option<IntValue<'c>>) -> Result<()> {
        let (word, ring) = (self.ir.context.i32_type(), self.ring()?);
        let (thread, cluster) = (ring.thread, ring.pipeline.cluster);
        let builder = &self.ir.builder;
        let blocks = self.ir.i64(cluster);
        let mut releases = builder.build_int_compare(IntPredicate::ULT, thread, blocks, "")?;
        if let Some(cond) = cond {
            releases = builder.build_and(releases, cond, "")?;
        }
        let releases = builder.build_int_z_extend(releases, word, "")?;
        let object = builder.build_load(word, object, "")?.into_int_value();
        if cluster == 1 {
            return self.run(ARRIVE, &[object, releases]);
        }
        let block = builder.build_int_truncate(thread, word, "")?;
        self.run(ARRIVE_AT, &[object, releases, block])
    }

    /// Issues the copy of a box.
    pub(crate) fn box_copy(&mut self, copy: &BoxCopy) -> Result<()> {
        let ring = self.ring()?.clone();
        let (is_multicast, part) = (ring.pipeline.is_multicast(copy), ring.pipeline.part(copy));
        let map = ring.maps.iter().find(|(map, _)| same_map(map, &part));
        let (Some((_, map)), Some(full)) = (map, ring.full) else { return Err(outside()) };
        let base = self.base(copy.to)?;
        let mut first = self.uniform_int(&copy.first, "the begin of a panel")?;
        let mut own_rows = None;
        if is_multicast {
            let block = result_of(self.ir.intrinsic(RANK, &[], &[])?)?.into_int_value();
            let block =
                self.ir.builder.build_int_z_extend(block, self.ir.context.i64_type(), "")?;
            let rows = self.ir.i64(part.dims[1].count);
            let rows = self.ir.builder.build_int_mul(block, rows, "")?;
            let elements = self.ir.builder.build_int_mul(rows, self.ir.i64(PANEL), "")?;
            first = self.ir.builder.build_int_add(first, elements, "")?;
            own_rows = Some(rows);
        }
        let to = self.element(base, first, DType::F16)?;
        let word = self.ir.context.i32_type();
        let to = self.ir.builder.build_ptr_to_int(to, word, "")?;
        let mut words = vec![];
        for (n, dim) in copy.dims.iter().enumerate() {
            let mut at = self.uniform_int(&dim.at, "the begin of a box")?;
            if let (1, Some(rows)) = (n, own_rows) {
                at = self.ir.builder.build_int_add(at, rows, "")?;
            }
            words.push(self.ir.builder.build_int_truncate(at, word, "")?);
        }
        let rank = words.len();
        let places: Vec<String> = (0..rank).map(|n| format!("${}", n + 3)).collect();
        // All blocks of the cluster.
        let (to_all, mask) = match is_multicast {
            true => (".multicast::cluster", format!(", {}", (1 << ring.pipeline.cluster) - 1)),
            false => ("", String::new()),
        };
        let text = format!(
            "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{to_all} \
             [$0], [$1, {{{}}}], [$2]{mask};",
            places.join(", ")
        );
        let mut values: Vec<BasicMetadataValueEnum<'c>> =
            vec![to.into(), (*map).into(), full.into()];
        values.extend(words.into_iter().map(BasicMetadataValueEnum::from));
        let mut types: Vec<BasicMetadataTypeEnum<'c>> = vec![word.into(); values.len()];
        types[1] = map.get_type().into();
        self.assemble(&text, &types, &values)
    }

    /// Inline assembly of 32-bit words that reads and writes memory.
    fn run(&self, text: &str, words: &[IntValue<'c>]) -> Result<()> {
        let values: Vec<_> = words.iter().map(|word| BasicMetadataValueEnum::from(*word)).collect();
        let types = vec![self.ir.context.i32_type().into(); words.len()];
        self.assemble(text, &types, &values)
    }

    fn assemble(
        &self,
        text: &str,
        types: &[BasicMetadataTypeEnum<'c>],
        values: &[BasicMetadataValueEnum<'c>],
    ) -> Result<()> {
        let context = self.ir.context;
        let of = |value: &BasicMetadataValueEnum<'c>| match value.is_pointer_value() {
            true => "l",
            false => "r",
        };
        let constraints: Vec<&str> = values.iter().map(of).chain(["~{memory}"]).collect();
        let function = context.void_type().fn_type(types, false);
        let (text, constraints) = (text.to_owned(), constraints.join(","));
        let code = context.create_inline_asm(function, text, constraints, true, false, None, false);
        let call = self.ir.builder.build_indirect_call(function, code, values, "")?;
        for name in ["convergent", "nounwind"] {
            let kind = Attribute::get_named_enum_kind_id(name);
            call.add_attribute(AttributeLoc::Function, context.create_enum_attribute(kind, 0));
        }
        Ok(())
    }
}

fn outside() -> CodegenError {
    CodegenError::new("a copy of a box outside of a pipelined loop")
}
