//! Instruction sequences that methods and traces share: registers, reference counts, libcalls.
//!
//! All code that depends on a memory layout is emitted here, and every layout comes from
//! `reflex_runtime::abi` and `reflex_vm::abi` by name. Methods and traces are both emitted with these
//! sequences, so they treat values alike.

pub(crate) mod fast_path;
pub(crate) mod kernel_call;

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, AtomicRmwOp, Block, ExternalName, GlobalValue, GlobalValueData, Inst, InstBuilder,
    MemFlagsData, SigRef, Signature, Type, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, TVMFFIAny, type_index};
use reflex_vm::abi::{
    ERROR, SESSION_CONSTS, SESSION_EXIT, SESSION_FUEL, SESSION_INTERRUPT, SESSION_LIBCALLS,
    SESSION_PC, SESSION_REGS, SESSION_VM_VALUE, libcall,
};
use reflex_vm::decode::ArgSource;

use crate::assemble::abi::{self, native_signature};
use crate::assemble::relocation::Symbol;

/// All bits of a value, as two words. A 16-byte load after two 8-byte stores would stall until both
/// reach the cache (no store forwarding).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    /// Type index and padding.
    pub(crate) head: Value,
    pub(crate) payload: Value,
}

/// A 16-byte slot of the register stack, as a byte offset from the frame the code works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) i32);

impl Slot {
    /// Slot number `index`, counted from register 0.
    pub(crate) fn index(index: usize) -> Slot {
        Slot((index * ANY_SIZE) as i32)
    }

    /// Slot number `index`, which may be below register 0.
    pub(crate) fn offset(index: i32) -> Slot {
        Slot(index * ANY_SIZE as i32)
    }

    fn tag(self) -> i32 {
        self.0
    }

    fn payload(self) -> i32 {
        self.0 + ANY_PAYLOAD as i32
    }
}

/// A function that is being emitted.
pub(crate) struct Emit<'f> {
    pub(crate) b: FunctionBuilder<'f>,
    pub(crate) session: Value,
    /// Register 0 of the frame that the code was entered with.
    pub(crate) regs: Value,
    /// The symbols that were referred to.
    symbols: HashMap<Symbol, GlobalValue>,
}

/// Flags of accesses to memory that is known to be mapped and aligned.
pub(crate) fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

impl<'f> Emit<'f> {
    pub(crate) fn i64(&mut self, value: i64) -> Value {
        self.b.ins().iconst(types::I64, value)
    }

    pub(crate) fn i32(&mut self, value: i64) -> Value {
        self.b.ins().iconst(types::I32, value)
    }

    /// An emitter for a function with these arguments.
    pub(crate) fn new(b: FunctionBuilder<'f>, session: Value, regs: Value) -> Self {
        Emit { b, session, regs, symbols: HashMap::new() }
    }

    /// The value of a symbol.
    pub(crate) fn symbol(&mut self, symbol: Symbol) -> Value {
        let b = &mut self.b;
        let global = *self.symbols.entry(symbol).or_insert_with(|| {
            let name = b.func.declare_imported_user_function(symbol.name());
            b.create_global_value(GlobalValueData::Symbol {
                name: ExternalName::user(name),
                offset: 0.into(),
                colocated: false,
                tls: false,
            })
        });
        self.b.ins().symbol_value(types::I64, global)
    }

    pub(crate) fn load(&mut self, ty: Type, from: Value, offset: usize) -> Value {
        self.b.ins().load(ty, trusted(), from, offset as i32)
    }

    /// Starts a block that is rarely run.
    pub(crate) fn cold_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    /// Continues in a fresh block if `condition` holds, and jumps to `otherwise` if not.
    pub(crate) fn require(&mut self, condition: Value, otherwise: Block) {
        let next = self.b.create_block();
        self.b.ins().brif(condition, next, &[], otherwise, &[]);
        self.b.switch_to_block(next);
    }

    // --- slots ---

    pub(crate) fn slot_address(&mut self, slot: Slot) -> Value {
        self.b.ins().iadd_imm_s(self.regs, i64::from(slot.0))
    }

    /// The type index in a slot.
    pub(crate) fn tag(&mut self, slot: Slot) -> Value {
        self.b.ins().load(types::I32, trusted(), self.regs, slot.tag())
    }

    /// The payload of a slot, as an integer or pointer.
    pub(crate) fn payload(&mut self, slot: Slot) -> Value {
        self.b.ins().load(types::I64, trusted(), self.regs, slot.payload())
    }

    /// Tests if the slot holds a value of this type.
    pub(crate) fn has_tag(&mut self, slot: Slot, tag: i32) -> Value {
        let have = self.tag(slot);
        self.b.ins().icmp_imm_s(IntCC::Equal, have, i64::from(tag))
    }

    /// Stores a value that is not an object; the old value is lost.
    pub(crate) fn store_scalar(&mut self, slot: Slot, tag: i32, payload: Value) {
        // One store covers the type index and the padding, which is zero.
        let tag = match Symbol::of_type(tag) {
            Some(symbol) => self.symbol(symbol),
            None => self.i64(i64::from(tag)),
        };
        self.b.ins().store(trusted(), tag, self.regs, slot.tag());
        self.b.ins().store(trusted(), payload, self.regs, slot.payload());
    }

    /// None, word by word, for methods: their accesses that follow are of single words.
    pub(crate) fn store_none(&mut self, slot: Slot) {
        let zero = self.i64(0);
        self.store_scalar(slot, type_index::NONE, zero);
    }

    /// None in one store, for registers that are copied by 16-byte loads next, which would stall
    /// after two stores (measured in `benches/record/dispatch.md`).
    pub(crate) fn store_none_wide(&mut self, slot: Slot) {
        let zero = self.i64(0);
        let none = self.b.ins().splat(types::I64X2, zero);
        self.b.ins().store(trusted(), none, self.regs, slot.tag());
    }

    /// All 16 bytes of a slot.
    pub(crate) fn load_any(&mut self, slot: Slot) -> Bits {
        let head = self.b.ins().load(types::I64, trusted(), self.regs, slot.tag());
        Bits { head, payload: self.payload(slot) }
    }

    /// All of a slot that holds a value of type `tag`.
    pub(crate) fn load_typed(&mut self, slot: Slot, tag: i32) -> Bits {
        let small = [type_index::SMALL_STR, type_index::SMALL_BYTES].contains(&tag);
        if small || tag >= type_index::DYNAMIC_BEGIN {
            // The padding holds the length; indices of dynamic types differ between processes.
            return self.load_any(slot);
        }
        Bits { head: self.i64(i64::from(tag)), payload: self.payload(slot) }
    }

    pub(crate) fn store_any(&mut self, slot: Slot, any: Bits) {
        self.b.ins().store(trusted(), any.head, self.regs, slot.tag());
        self.b.ins().store(trusted(), any.payload, self.regs, slot.payload());
    }

    pub(crate) fn any_at(&mut self, from: Value, offset: usize) -> Bits {
        let head = self.load(types::I64, from, offset);
        Bits { head, payload: self.load(types::I64, from, offset + ANY_PAYLOAD) }
    }

    /// The bits of an argument, borrowed.
    pub(crate) fn source(&mut self, source: ArgSource) -> Bits {
        match source {
            ArgSource::Reg(index) | ArgSource::LastUse(index) => {
                self.load_any(Slot::index(index as usize))
            }
            ArgSource::Const(index) => {
                let consts = self.load(types::I64, self.session, SESSION_CONSTS);
                self.any_at(consts, index as usize * ANY_SIZE)
            }
            ArgSource::Vm => self.any_at(self.session, SESSION_VM_VALUE),
        }
    }

    // --- reference counts ---

    /// Releases what the slot holds. The slot keeps its bits; overwrite it.
    pub(crate) fn release(&mut self, slot: Slot) {
        let tag = self.tag(slot);
        let (free, next) = (self.b.create_block(), self.b.create_block());
        let object = self.is_object(tag);
        self.b.ins().brif(object, free, &[], next, &[]);
        self.b.switch_to_block(free);
        self.release_object(slot);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }

    /// Releases a slot known to hold an object.
    pub(crate) fn release_object(&mut self, slot: Slot) {
        let address = self.slot_address(slot);
        self.call_libcall(libcall::RELEASE, &[types::I64], None, &[address]);
    }

    /// Releases a slot of any type whose object most likely has other references. Inline code drops
    /// one of several references; the runtime drops the last one, or one that changed meanwhile.
    pub(crate) fn release_shared(&mut self, slot: Slot) {
        let tag = self.tag(slot);
        let object = self.b.create_block();
        let (last, next) = (self.cold_block(), self.b.create_block());
        let is_object = self.is_object(tag);
        self.b.ins().brif(is_object, object, &[], next, &[]);
        self.b.switch_to_block(object);
        let object = self.payload(slot);
        self.drop_shared(object, [last, next]);
        self.b.switch_to_block(last);
        self.release_object(slot);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }

    /// Drops one of several references to an object and goes to `next`; goes to `last` if it is the last one, or
    /// if the count changes meanwhile.
    pub(crate) fn drop_shared(&mut self, counts: Value, [last, next]: [Block; 2]) {
        let shared = self.b.create_block();
        // The combined count is the first field of the header, the strong one its lower half.
        let have = self.b.ins().atomic_load(types::I64, trusted(), counts);
        let strong = self.b.ins().ireduce(types::I32, have);
        let several = self.b.ins().icmp_imm_s(IntCC::NotEqual, strong, 1);
        self.b.ins().brif(several, shared, &[], last, &[]);
        self.b.switch_to_block(shared);
        let less = self.b.ins().iadd_imm_s(have, -(reflex_runtime::abi::STRONG_ONE as i64));
        let found = self.b.ins().atomic_cas(trusted(), counts, have, less);
        let done = self.b.ins().icmp(IntCC::Equal, found, have);
        self.b.ins().brif(done, next, &[], last, &[]);
    }

    pub(crate) fn is_object(&mut self, tag: Value) -> Value {
        let first = i64::from(type_index::STATIC_OBJECT_BEGIN);
        self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, tag, first)
    }

    /// Adds a reference to the value in a slot.
    pub(crate) fn retain(&mut self, slot: Slot) {
        self.retain_times(slot, 1);
    }

    /// Adds references to the value in a slot, if it is an object.
    pub(crate) fn retain_times(&mut self, slot: Slot, refs: u32) {
        if refs == 0 {
            return;
        }
        let tag = self.tag(slot);
        let (add, next) = (self.b.create_block(), self.b.create_block());
        let object = self.is_object(tag);
        self.b.ins().brif(object, add, &[], next, &[]);
        self.b.switch_to_block(add);
        let object = self.payload(slot);
        self.add_references(object, refs);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }

    /// Adds a reference to an object.
    pub(crate) fn retain_object(&mut self, object: Value) {
        self.add_references(object, 1);
    }

    /// Adds references to an object.
    pub(crate) fn add_references(&mut self, object: Value, refs: u32) {
        if refs == 0 {
            return;
        }
        let one = self.i64(i64::from(refs) * reflex_runtime::abi::STRONG_ONE as i64);
        // The combined count is the first field of the header.
        self.b.ins().atomic_rmw(types::I64, trusted(), AtomicRmwOp::Add, object, one);
    }

    /// Adds a reference to a value given as bits at `address`, of a type known only at run time.
    pub(crate) fn retain_at(&mut self, address: Value, offset: usize) {
        let tag = self.load(types::I32, address, offset);
        let (add, next) = (self.b.create_block(), self.b.create_block());
        let object = self.is_object(tag);
        self.b.ins().brif(object, add, &[], next, &[]);
        self.b.switch_to_block(add);
        let object = self.load(types::I64, address, offset + ANY_PAYLOAD);
        self.retain_object(object);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }

    // --- the session ---

    pub(crate) fn set_pc(&mut self, pc: u32) {
        let pc = self.i32(i64::from(pc));
        self.b.ins().store(trusted(), pc, self.session, SESSION_PC as i32);
    }

    /// Charges one unit of fuel; the result is what is left.
    pub(crate) fn charge(&mut self) -> Value {
        let fuel = self.load(types::I64, self.session, SESSION_FUEL);
        let fuel = self.b.ins().iadd_imm_s(fuel, -1);
        self.b.ins().store(trusted(), fuel, self.session, SESSION_FUEL as i32);
        fuel
    }

    /// The session's interrupt word, which is not zero if an interrupt is requested.
    pub(crate) fn interrupted(&mut self) -> Value {
        let word = self.load(types::I64, self.session, SESSION_INTERRUPT);
        self.b.ins().atomic_load(types::I32, trusted(), word)
    }

    pub(crate) fn current_regs(&mut self) -> Value {
        self.load(types::I64, self.session, SESSION_REGS)
    }

    pub(crate) fn exit_address(&mut self) -> Value {
        self.load(types::I64, self.session, SESSION_EXIT)
    }

    /// Ends the function with a status.
    pub(crate) fn return_status(&mut self, status: i32) {
        let status = self.i32(i64::from(status));
        self.b.ins().return_(&[status]);
    }

    /// Ends the function with a tail call of `code` in the session's current frame.
    pub(crate) fn tail_call(&mut self, code: Value) {
        let regs = self.current_regs();
        let signature = self.b.import_signature(native_signature());
        self.b.ins().return_call_indirect(signature, code, &[self.session, regs]);
    }

    // --- calls ---

    fn c_signature(&mut self, params: &[Type], ret: Option<Type>) -> SigRef {
        let mut signature = Signature::new(abi::C);
        signature.params.extend(params.iter().map(|&ty| AbiParam::new(ty)));
        signature.returns.extend(ret.map(AbiParam::new));
        self.b.import_signature(signature)
    }

    /// Calls one of the VM's libcalls, given by its offset in the table.
    pub(crate) fn call_libcall(
        &mut self,
        offset: usize,
        params: &[Type],
        ret: Option<Type>,
        args: &[Value],
    ) -> Inst {
        let table = self.load(types::I64, self.session, SESSION_LIBCALLS);
        let function = self.load(types::I64, table, offset);
        let signature = self.c_signature(params, ret);
        self.b.ins().call_indirect(signature, function, args)
    }

    /// Calls a libcall of the form `(session, pc) -> i32`.
    pub(crate) fn call_at(&mut self, offset: usize, pc: u32) -> Value {
        let pc = self.i32(i64::from(pc));
        let args = [self.session, pc];
        let call = self.call_libcall(offset, &[types::I64, types::I32], Some(types::I32), &args);
        self.b.inst_results(call)[0]
    }

    /// Calls a libcall of the form `(session, pc) -> status` and returns on an error.
    pub(crate) fn call_or_fail(&mut self, offset: usize, pc: u32) {
        let status = self.call_at(offset, pc);
        self.return_if_failed(status);
    }

    /// Returns on a status that is not zero.
    pub(crate) fn return_if_failed(&mut self, status: Value) {
        let failed = self.cold_block();
        let fine = self.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        let next = self.b.create_block();
        self.b.ins().brif(fine, next, &[], failed, &[]);
        self.b.switch_to_block(failed);
        self.return_status(ERROR);
        self.b.switch_to_block(next);
    }

    /// Calls native code in the packed convention; the result is the status.
    pub(crate) fn call_packed(
        &mut self,
        code: Value,
        this: Value,
        args: Value,
        count: usize,
        result: Value,
    ) -> Value {
        let count = self.i32(count as i64);
        let params = [types::I64, types::I64, types::I32, types::I64];
        let signature = self.c_signature(&params, Some(types::I32));
        let call = self.b.ins().call_indirect(signature, code, &[this, args, count, result]);
        self.b.inst_results(call)[0]
    }

    /// Calls a C function of this crate, given by its address.
    pub(crate) fn call_c(
        &mut self,
        address: usize,
        params: &[Type],
        ret: Option<Type>,
        args: &[Value],
    ) -> Inst {
        let function = self.i64(address as i64);
        let signature = self.c_signature(params, ret);
        self.b.ins().call_indirect(signature, function, args)
    }
}

const _: () = assert!(type_index::NONE == 0 && ANY_SIZE == 16);

/// The bits of a value that is not an object, as two words.
pub(crate) fn scalar_bits(value: &TVMFFIAny) -> Option<(i32, i64)> {
    // SAFETY: `TVMFFIAny` initialises all eight bytes of its payload, whatever the type.
    let payload = unsafe { value.payload.int };
    let scalar = value.type_index < type_index::STATIC_OBJECT_BEGIN && value.small_len == 0;
    scalar.then_some((value.type_index, payload))
}
