//! Loop IR to Cranelift IR: expressions, memory, statements.
//!
//! Types: bool is an 8-bit integer, 0 or 1, and a mask in vectors; float16 and bfloat16 are stored as
//! 16 bits and computed as float32, rounded after each operation. Entry points, threads and
//! workspaces are in [`crate::cpu`].

mod arith;
mod call;
mod convert;
mod expr;
mod index;
mod memory;
mod micro_kernel;
pub mod stmt;
mod tile;
pub mod value;
mod vector_form;

use cranelift_codegen::ir::immediates::{Ieee32, Ieee64, Offset32};
use cranelift_codegen::ir::{
    Block, Endianness, FuncRef, Function, InstBuilder, InstructionData, MemFlagsData, Opcode,
    Signature, StackSlotData, StackSlotKind, Type, UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module};
use reflex_tir::{Buffer, DType, PrimFunc, Var};
use rustc_hash::FxHashMap;

use crate::error::{BaselineError, Result};
use crate::unit::{POINTER, Unit};
use value::LaneValue;

/// The loop that statements are in, as far as lanes matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// One iteration at a time.
    One,
    /// Iterations of a vector loop, [`value::LANES`] at once.
    Four,
}

/// Emits the body of one function.
pub struct Emitter<'u, 'b, 'f> {
    /// The object that the function is part of.
    pub unit: &'u mut Unit<'f>,
    /// Instructions.
    pub b: FunctionBuilder<'b>,
    /// The kernel.
    pub func: &'f PrimFunc,
    /// Variables in scope.
    pub vars: FxHashMap<Var, LaneValue>,
    /// Addresses of element 0.
    pub buffers: FxHashMap<Buffer, Value>,
    /// The vector loop around, if any.
    pub lanes: Lanes,
    /// Workspaces to release on every way out.
    pub workspaces: Vec<Value>,
    /// Numbers of the matrix registers that are allocated.
    registers: FxHashMap<Buffer, u8>,
    /// Whether this function already is one part of a parallel loop.
    pub in_parallel: bool,
    /// Functions that this one refers to.
    callees: FxHashMap<FuncId, FuncRef>,
    /// Results of instructions without effects by the type that selects each, with their blocks.
    computed: FxHashMap<(Type, InstructionData), (Value, Block)>,
    /// The blocks that the loops around this place are entered from, outermost first.
    preheaders: Vec<Block>,
    /// The number of loops around blocks.
    depths: FxHashMap<Block, usize>,
}

/// Declares a function and emits its body, which `build` ends with a return.
pub fn define<'f>(
    unit: &mut Unit<'f>,
    name: &str,
    linkage: Linkage,
    signature: Signature,
    build: impl FnOnce(&mut Emitter<'_, '_, 'f>, &[Value]) -> Result<()>,
) -> Result<FuncId> {
    let (id, function) = emitted(unit, name, linkage, signature, build)?;
    unit.define(name, id, function)?;
    Ok(id)
}

/// Declares a function and emits its body, which is not compiled yet.
pub fn emitted<'f>(
    unit: &mut Unit<'f>,
    name: &str,
    linkage: Linkage,
    signature: Signature,
    build: impl FnOnce(&mut Emitter<'_, '_, 'f>, &[Value]) -> Result<()>,
) -> Result<(FuncId, Function)> {
    let id = unit.declare(name, linkage, &signature)?;
    let mut function = Function::with_name_signature(UserFuncName::user(0, id.as_u32()), signature);
    let mut scratch = FunctionBuilderContext::new();
    let mut e = Emitter::new(unit, FunctionBuilder::new(&mut function, &mut scratch));
    let params = e.enter();
    build(&mut e, &params)?;
    e.finish();
    Ok((id, function))
}

impl<'u, 'b, 'f> Emitter<'u, 'b, 'f> {
    /// An emitter of a function that is empty yet.
    pub fn new(unit: &'u mut Unit<'f>, b: FunctionBuilder<'b>) -> Emitter<'u, 'b, 'f> {
        Emitter {
            func: unit.func,
            unit,
            b,
            vars: FxHashMap::default(),
            buffers: FxHashMap::default(),
            lanes: Lanes::One,
            workspaces: vec![],
            registers: FxHashMap::default(),
            in_parallel: false,
            callees: FxHashMap::default(),
            computed: FxHashMap::default(),
            preheaders: vec![],
            depths: FxHashMap::default(),
        }
    }

    /// Starts the body, and returns the parameters.
    pub fn enter(&mut self) -> Vec<Value> {
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        self.depths.insert(entry, 0);
        self.b.block_params(entry).to_vec()
    }

    /// Ends the body, which has returned.
    pub fn finish(mut self) {
        self.b.seal_all_blocks();
        let config = self.unit.module.target_config();
        self.b.finalize(config);
    }
}

/// Instructions.
impl Emitter<'_, '_, '_> {
    /// int32.
    pub fn i32(&mut self, value: i32) -> Value {
        self.iconst(types::I32, i64::from(value as u32))
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.b.func.dfg.value_type(value)
    }

    /// An integer constant of type `ty`, in every lane if that is a vector.
    pub fn int(&mut self, ty: Type, value: i64) -> Value {
        let lane = ty.lane_type();
        let bits = lane.bits();
        let kept = if bits == 64 { value } else { value & ((1 << bits) - 1) };
        let scalar = self.iconst(lane, kept);
        if ty.is_vector() { self.splat(ty, scalar) } else { scalar }
    }

    /// A floating-point constant of type `ty`, in every lane if that is a vector.
    pub fn float(&mut self, ty: Type, value: f64) -> Value {
        let constant = match ty.lane_type() {
            types::F64 => {
                let imm = Ieee64::with_float(value);
                InstructionData::UnaryIeee64 { opcode: Opcode::F64const, imm }
            }
            _ => {
                let imm = Ieee32::with_float(value as f32);
                InstructionData::UnaryIeee32 { opcode: Opcode::F32const, imm }
            }
        };
        let scalar = self.once(types::INVALID, constant);
        if ty.is_vector() { self.splat(ty, scalar) } else { scalar }
    }

    /// A condition chooses between two values of one type: a mask lane by lane.
    pub fn select(&mut self, cond: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        if !self.ty(cond).is_vector() {
            return self.b.ins().select(cond, a, b);
        }
        let mask = self.bitcast(ty, cond);
        self.b.ins().bitselect(mask, a, b)
    }

    /// The same bits as another type of the same width.
    pub fn bitcast(&mut self, ty: Type, value: Value) -> Value {
        if self.ty(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.b.ins().bitcast(ty, flags, value)
    }

    /// A load of what is mapped, aligned or not.
    pub fn load_at(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        self.b.ins().load(ty, mapped(), address, Offset32::new(offset))
    }

    /// A store to what is mapped, aligned or not.
    pub fn store_at(&mut self, value: Value, address: Value, offset: i32) {
        self.b.ins().store(mapped(), value, address, Offset32::new(offset));
    }

    /// Stack memory that lives as long as the function.
    pub fn stack_memory(&mut self, bytes: u32) -> Value {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes.max(1), 4);
        let slot = self.b.create_sized_stack_slot(data);
        self.b.ins().stack_addr(POINTER, slot, 0)
    }

    /// A block that is rarely run.
    pub fn cold_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    /// Calls a function, and returns its results.
    pub fn call(&mut self, function: FuncId, args: &[Value]) -> Vec<Value> {
        let callee = match self.callees.get(&function) {
            Some(known) => *known,
            None => {
                let callee = self.unit.module.declare_func_in_func(function, self.b.func);
                self.callees.insert(function, callee);
                callee
            }
        };
        let call = self.b.ins().call(callee, args);
        self.b.inst_results(call).to_vec()
    }

    /// The pointer in the variable `name`, which the loader has filled.
    pub fn pointer_in_slot(&mut self, name: &str) -> Result<Value> {
        let slot = self.unit.slot(name)?;
        let slot = self.unit.module.declare_data_in_func(slot, self.b.func);
        let slot = self.b.ins().symbol_value(POINTER, slot);
        Ok(self.load_at(POINTER, slot, 0))
    }

    /// Calls the function in the pointer variable `name`, which the loader has filled.
    pub fn call_slot(
        &mut self,
        name: &str,
        params: &[Type],
        result: Type,
        args: &[Value],
    ) -> Result<Value> {
        let function = self.pointer_in_slot(name)?;
        let signature = self.b.import_signature(Unit::signature(params, &[result]));
        let call = self.b.ins().call_indirect(signature, function, args);
        Ok(self.b.inst_results(call)[0])
    }

    /// The address of a NUL-terminated text.
    pub fn text(&mut self, text: &str) -> Result<Value> {
        let id = self.unit.text(text)?;
        let data = self.unit.module.declare_data_in_func(id, self.b.func);
        Ok(self.b.ins().symbol_value(POINTER, data))
    }

    /// Runs `body` with `buffer` at an address.
    pub fn with_buffer(
        &mut self,
        buffer: Buffer,
        address: Value,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let outer = self.buffers.insert(buffer, address);
        body(self)?;
        match outer {
            Some(address) => self.buffers.insert(buffer, address),
            None => self.buffers.remove(&buffer),
        };
        Ok(())
    }
}

/// Flags of accesses to memory that is mapped. Vectors may lie anywhere.
pub fn mapped() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// The type that expressions of `dtype` have while computed, one at a time.
pub fn value_type(dtype: DType) -> Result<Type> {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Ok(types::F32),
        DType::F64 => Ok(types::F64),
        _ => storage_type(dtype),
    }
}

/// The type that elements of `dtype` have in memory.
pub fn storage_type(dtype: DType) -> Result<Type> {
    Ok(match dtype {
        DType::F32 => types::F32,
        DType::F64 => types::F64,
        DType::I8 | DType::U8 | DType::BOOL => types::I8,
        DType::F16 | DType::BF16 | DType::I16 | DType::U16 => types::I16,
        DType::I32 | DType::U32 => types::I32,
        DType::I64 | DType::U64 => types::I64,
        // Only moved and reinterpreted.
        other if other.is_float8() => types::I8,
        other => return Err(BaselineError::new(format!("no code for element type {other}"))),
    })
}
