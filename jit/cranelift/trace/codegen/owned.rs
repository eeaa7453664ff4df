//! Owned values in machine registers: items of virtual objects.

use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, type_index};
use reflex_vm::abi::libcall;
use reflex_vm::tier::Bailout;

use super::{TraceCodegen, internal};
use crate::emit::Bits;
use crate::trace::ir::{Arg, Item, LoadMode, OwnedValue, Scalar};

/// A value in machine registers.
#[derive(Clone, Copy)]
pub(super) struct OwnedBits {
    pub(super) value: Bits,
    /// Its type where that is known.
    tag: Option<i32>,
    /// Whether a register owns it.
    borrowed: bool,
}

impl TraceCodegen<'_, '_> {
    pub(super) fn owned(&self, OwnedValue(number): OwnedValue) -> Result<OwnedBits, Bailout> {
        self.owned[number as usize].ok_or_else(|| internal("a value is used before it is loaded"))
    }

    /// Loads the value of a register.
    pub(super) fn load_owned(
        &mut self,
        OwnedValue(number): OwnedValue,
        src: Arg,
        mode: LoadMode,
    ) -> Result<(), Bailout> {
        let Arg::Reg(src, tag) = src else {
            return Err(internal("an owned value comes from a register"));
        };
        let slot = self.slot(src);
        let value = match tag {
            Some(tag) => self.e.load_typed(slot, tag),
            None => self.e.load_any(slot),
        };
        let owned = OwnedBits { value, tag, borrowed: mode == LoadMode::Borrow };
        if mode == LoadMode::Copy {
            self.retain(owned);
        }
        self.owned[number as usize] = Some(owned);
        Ok(())
    }

    pub(super) fn copy_owned(
        &mut self,
        OwnedValue(number): OwnedValue,
        of: OwnedValue,
    ) -> Result<(), Bailout> {
        let owned = OwnedBits { borrowed: false, ..self.owned(of)? };
        self.retain(owned);
        self.owned[number as usize] = Some(owned);
        Ok(())
    }

    pub(super) fn release_owned(&mut self, value: OwnedValue) -> Result<(), Bailout> {
        let owned = self.owned(value)?;
        self.if_object(owned, |codegen| {
            let (last, next) = (codegen.e.cold_block(), codegen.e.b.create_block());
            codegen.e.drop_shared(owned.value.payload, [last, next]);
            codegen.e.b.switch_to_block(last);
            let address = codegen.store_in_buffer(0, owned.value);
            codegen.e.call_libcall(libcall::RELEASE, &[types::I64], None, &[address]);
            codegen.e.b.ins().jump(next, &[]);
            codegen.e.b.switch_to_block(next);
        });
        Ok(())
    }

    fn retain(&mut self, owned: OwnedBits) {
        self.if_object(owned, |codegen| codegen.e.retain_object(owned.value.payload));
    }

    /// Emits `write` for a value that is an object.
    fn if_object(&mut self, owned: OwnedBits, write: impl FnOnce(&mut Self)) {
        match owned.tag {
            Some(tag) if tag >= type_index::STATIC_OBJECT_BEGIN => write(self),
            Some(_) => {}
            None => {
                let (object, next) = (self.e.b.create_block(), self.e.b.create_block());
                let tag = self.e.b.ins().ireduce(types::I32, owned.value.head);
                let is = self.e.is_object(tag);
                self.e.b.ins().brif(is, object, &[], next, &[]);
                self.e.b.switch_to_block(object);
                write(self);
                self.e.b.ins().jump(next, &[]);
                self.e.b.switch_to_block(next);
            }
        }
    }

    /// Stores the values that a snapshot needs for its virtual objects in the buffer; returns its
    /// address.
    pub(super) fn store_sources(&mut self, sources: &[Item]) -> Result<Value, Bailout> {
        let mut address = self.e.i64(0);
        for (at, source) in sources.iter().enumerate() {
            let value = match *source {
                Item::Owned(value) => {
                    let owned = self.owned(value)?;
                    if owned.borrowed {
                        self.retain(owned);
                    }
                    owned.value
                }
                Item::Scalar(Scalar::Var { tag, var }) => {
                    Bits { head: self.e.i64(i64::from(tag)), payload: self.var(var)? }
                }
                Item::Scalar(_) | Item::Const(_) | Item::Object(_) => {
                    return Err(internal("a source that is known"));
                }
            };
            let there = self.store_in_buffer(at, value);
            if at == 0 {
                address = there;
            }
        }
        Ok(address)
    }

    /// Stores a value in the buffer; returns its address.
    fn store_in_buffer(&mut self, at: usize, value: Bits) -> Value {
        let buffer = self.buffer();
        let offset = (at * ANY_SIZE) as i32;
        let flags = MemFlagsData::trusted();
        let address = self.e.b.ins().stack_addr(types::I64, buffer, offset);
        self.e.b.ins().store(flags, value.head, address, 0);
        self.e.b.ins().store(flags, value.payload, address, ANY_PAYLOAD as i32);
        address
    }

    fn buffer(&mut self) -> StackSlot {
        if let Some(buffer) = self.buffer {
            return buffer;
        }
        let trace = self.trace;
        let most = trace.snapshots.iter().map(|exit| trace.sources(exit).len()).max();
        let bytes = most.unwrap_or(0).max(1) * ANY_SIZE;
        let align = ANY_SIZE.trailing_zeros() as u8;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, align);
        *self.buffer.insert(self.e.b.create_sized_stack_slot(data))
    }
}
