//! Loop IR to LLVM IR, for any target: expressions, memory, statements.
//!
//! Lanes: inside a vectorized loop each expression evaluates to a [`value::LaneValue`], a scalar
//! when all lanes agree. Conditions that differ between lanes become masks. Types: bool is i1
//! and is stored as a byte; float16 and bfloat16 are stored as 16 bits and computed as
//! float32, rounded after each operation. What is particular to a target (entry points,
//! threads, workspaces) is in [`crate::cpu`].

mod arith;
mod bf16_dot;
mod byte_lookup;
mod call;
mod convert;
pub(crate) mod expr;
mod fma;
pub mod in_flight;
mod index;
pub mod instructions;
mod int8_dot;
pub mod int8_instructions;
pub mod ir;
mod memory;
mod prefetch;
pub mod ring;
pub mod stmt;
mod tile;
pub mod value;
mod vectorizable;

use std::collections::{HashMap, HashSet};

use inkwell::basic_block::BasicBlock;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{FunctionValue, PointerValue, VectorValue};
use reflex_tir::index_width::IndexWidths;
use reflex_tir::{Buffer, DType, Expr, PrimFunc, Var};

use crate::emit::in_flight::{CopyWaits, InFlight};
use crate::error::{CodegenError, Result};
use instructions::Instructions;
use ir::Ir;
use ring::Ring;
use value::LaneValue;

/// The kind of processor that code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A CPU, on which a kernel is a function.
    Cpu,
    /// A GPU, on which a launch is a function that each thread runs.
    Gpu,
}

/// The vector loop that statements are in.
#[derive(Clone, Copy, Debug)]
pub struct VectorLoop<'c> {
    /// Its variable.
    pub var: Var,
    /// The first value of the variable, if it is constant.
    pub min: Option<i64>,
    /// Number of lanes.
    pub count: u32,
    /// Active lanes; all when absent.
    pub mask: Option<VectorValue<'c>>,
}

/// Emits the body of one LLVM function.
pub struct Emitter<'a, 'c> {
    /// Instructions.
    pub ir: Ir<'a, 'c>,
    /// The kind of processor.
    pub unit: Unit,
    /// The instructions of the CPU.
    pub instructions: Instructions,
    /// The kernel.
    pub func: &'a PrimFunc,
    /// The LLVM function under construction.
    pub function: FunctionValue<'c>,
    /// Variables in scope.
    pub vars: HashMap<Var, LaneValue<'c>>,
    /// Variables whose bytes have 7 bits or fewer.
    pub seven_bits: HashSet<Var>,
    /// Addresses of element 0.
    pub buffers: HashMap<Buffer, PointerValue<'c>>,
    /// Memory that buffers share, and the number of their first element in it. Numbers in a sum of offsets are
    /// added up, and are part of the access.
    pub placed: HashMap<Buffer, (PointerValue<'c>, i64)>,
    /// The block of instructions that asks for elements ahead, and what it has asked for.
    pub prefetched: Option<(BasicBlock<'c>, Vec<(Expr, Expr)>)>,
    /// The vector loop around, if any.
    pub lanes: Option<VectorLoop<'c>>,
    /// Matrix registers by number, while some are allocated.
    pub registers: HashMap<Buffer, u64>,
    /// Workspaces to release on every way out.
    pub workspaces: Vec<PointerValue<'c>>,
    /// Whether this function already is one part of a parallel loop.
    pub in_parallel: bool,
    /// Products of warpgroups that were issued and not waited for.
    pub in_flight: Vec<InFlight<'c>>,
    /// The stages of the pipelined loops of a launch.
    pub ring: Option<Ring<'c>>,
    /// Where copies are waited for.
    pub copy_waits: CopyWaits,
    /// Whether products are waited for where they are issued. Without optimisation, registers in flight would be
    /// copied.
    pub synchronous: bool,
    /// Whether tensor cores of warpgroups read shared memory.
    pub async_proxy: bool,
    /// The indices that are computed in 32 bits, on a GPU.
    pub widths: Option<IndexWidths>,
    /// Holds the allocas; ends in a branch to the body once finished.
    pub entry: BasicBlock<'c>,
}

impl<'a, 'c> Emitter<'a, 'c> {
    /// Starts the body of `function`, positioned after its entry block.
    pub fn new(
        context: &'c Context,
        module: &'a Module<'c>,
        func: &'a PrimFunc,
        function: FunctionValue<'c>,
    ) -> Emitter<'a, 'c> {
        let ir = Ir::new(context, module);
        let entry = ir.block(function, "entry");
        let body = ir.block(function, "body");
        ir.builder.position_at_end(body);
        Emitter {
            ir,
            unit: Unit::Cpu,
            instructions: Instructions::PLAIN,
            func,
            function,
            vars: HashMap::new(),
            seven_bits: HashSet::new(),
            buffers: HashMap::new(),
            placed: HashMap::new(),
            prefetched: None,
            lanes: None,
            registers: HashMap::new(),
            workspaces: vec![],
            in_parallel: false,
            in_flight: vec![],
            ring: None,
            copy_waits: CopyWaits::default(),
            synchronous: false,
            async_proxy: false,
            widths: None,
            entry,
        }
    }

    /// Ends the entry block; call once, when the body is complete.
    pub fn finish(&self) -> Result<()> {
        let body = self
            .entry
            .get_next_basic_block()
            .ok_or_else(|| CodegenError::new("the function lost its body"))?;
        self.ir.builder.position_at_end(self.entry);
        self.ir.builder.build_unconditional_branch(body)?;
        Ok(())
    }

    /// Stack memory that lives as long as the function.
    pub fn alloca(&self, ty: impl BasicType<'c>, align: u32) -> Result<PointerValue<'c>> {
        let here = self.ir.here()?;
        self.ir.builder.position_at_end(self.entry);
        let slot = self.ir.builder.build_alloca(ty, "")?;
        if let Some(instruction) = slot.as_instruction() {
            instruction.set_alignment(align).map_err(|e| CodegenError::new(e.to_string()))?;
        }
        self.ir.builder.position_at_end(here);
        Ok(slot)
    }

    /// The type expressions of `dtype` have while computed.
    pub fn value_type(&self, dtype: DType) -> Result<BasicTypeEnum<'c>> {
        let c = self.ir.context;
        Ok(match dtype {
            DType::F32 | DType::F16 | DType::BF16 => c.f32_type().into(),
            DType::F64 => c.f64_type().into(),
            DType::BOOL => c.bool_type().into(),
            _ => self.storage_type(dtype)?,
        })
    }

    /// The type elements of `dtype` have in memory.
    pub fn storage_type(&self, dtype: DType) -> Result<BasicTypeEnum<'c>> {
        let c = self.ir.context;
        Ok(match dtype {
            DType::F32 => c.f32_type().into(),
            DType::F64 => c.f64_type().into(),
            DType::I8 | DType::U8 | DType::BOOL => c.i8_type().into(),
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => c.i16_type().into(),
            DType::I32 | DType::U32 => c.i32_type().into(),
            DType::I64 | DType::U64 => c.i64_type().into(),
            // Only moved and reinterpreted.
            other if other.is_float8() => c.i8_type().into(),
            other => return Err(CodegenError::new(format!("no code for element type {other}"))),
        })
    }
}
