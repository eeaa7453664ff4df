//! Owned values in machine registers: items of objects that the trace does not make.

use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, type_index};
use reflex_vm::abi::libcall;
use reflex_vm::tier::Bailout;

use super::{Writer, internal};
use crate::emit::Bits;
use crate::trace::ir::{Held, Hold, Item, Place, Plain};

/// A value in machine registers.
#[derive(Clone, Copy)]
pub(super) struct HeldBits {
    pub(super) value: Bits,
    /// Its type where that is known.
    tag: Option<i32>,
    /// Whether a register owns it.
    borrowed: bool,
}

impl Writer<'_, '_> {
    pub(super) fn held(&self, Held(held): Held) -> Result<HeldBits, Bailout> {
        self.held[held as usize].ok_or_else(|| internal("a value is used before it is held"))
    }

    pub(super) fn hold(&mut self, Held(number): Held, (src, tag): (Place, Option<i32>), how: Hold) {
        let slot = self.slot(src);
        let value = match tag {
            Some(tag) => self.e.load_typed(slot, tag),
            None => self.e.load_any(slot),
        };
        let held = HeldBits { value, tag, borrowed: how == Hold::Borrow };
        if how == Hold::Copy {
            self.retain(held);
        }
        self.held[number as usize] = Some(held);
    }

    pub(super) fn hold_again(&mut self, Held(number): Held, of: Held) -> Result<(), Bailout> {
        let held = HeldBits { borrowed: false, ..self.held(of)? };
        self.retain(held);
        self.held[number as usize] = Some(held);
        Ok(())
    }

    pub(super) fn drop_held(&mut self, held: Held) -> Result<(), Bailout> {
        let held = self.held(held)?;
        self.if_object(held, |w| {
            let address = w.put(0, held.value);
            w.e.call_back(libcall::RELEASE, &[types::I64], None, &[address]);
        });
        Ok(())
    }

    fn retain(&mut self, held: HeldBits) {
        self.if_object(held, |w| w.e.retain_object(held.value.payload));
    }

    /// Writes what is done with a value that is an object.
    fn if_object(&mut self, held: HeldBits, write: impl FnOnce(&mut Self)) {
        match held.tag {
            Some(tag) if tag >= type_index::STATIC_OBJECT_BEGIN => write(self),
            Some(_) => {}
            None => {
                let (object, next) = (self.e.b.create_block(), self.e.b.create_block());
                let tag = self.e.b.ins().ireduce(types::I32, held.value.head);
                let is = self.e.is_object(tag);
                self.e.b.ins().brif(is, object, &[], next, &[]);
                self.e.b.switch_to_block(object);
                write(self);
                self.e.b.ins().jump(next, &[]);
                self.e.b.switch_to_block(next);
            }
        }
    }

    /// Puts what machine code knows of the objects of an exit into the buffer; its address.
    pub(super) fn put_sources(&mut self, sources: &[Item]) -> Result<Value, Bailout> {
        let mut address = self.e.i64(0);
        for (at, source) in sources.iter().enumerate() {
            let value = match *source {
                Item::Held(held) => {
                    let held = self.held(held)?;
                    if held.borrowed {
                        self.retain(held);
                    }
                    held.value
                }
                Item::Plain(Plain::Var { tag, var }) => {
                    Bits { head: self.e.i64(i64::from(tag)), payload: self.var(var)? }
                }
                Item::Plain(_) | Item::Const(_) | Item::Object(_) => {
                    return Err(internal("a source that is known"));
                }
            };
            let there = self.put(at, value);
            if at == 0 {
                address = there;
            }
        }
        Ok(address)
    }

    /// Puts a value into the buffer; its address.
    fn put(&mut self, at: usize, value: Bits) -> Value {
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
        let most = trace.exits.iter().map(|exit| trace.sources(exit).len()).max();
        let bytes = most.unwrap_or(0).max(1) * ANY_SIZE;
        let align = ANY_SIZE.trailing_zeros() as u8;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, align);
        *self.buffer.insert(self.e.b.create_sized_stack_slot(data))
    }
}
