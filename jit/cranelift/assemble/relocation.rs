//! Symbols outside of generated code, and relocations against them.
//!
//! Code refers to a symbol by name. Each reference is a relocation of eight bytes, which is applied
//! when the code is published. So code can be saved in a file: it contains no address.
//!
//! Decision: docs/decisions/0015-saved-code.md

use cranelift_codegen::ir::UserExternalName;
use reflex_runtime::abi::type_index;
use reflex_runtime::array;
use reflex_runtime::object::{self, ObjectType};
use reflex_runtime::storage::Storage;
use reflex_vm::builtins::Closure;
use reflex_vm::program::Program;
use serde::{Deserialize, Serialize};

/// A symbol outside of generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Symbol {
    /// The code of a packed function of the program.
    Code(u32),
    /// The first argument of its code.
    This(u32),
    /// The raw entry, without checks, of a packed function of the program.
    Raw(u32),
    /// The type index of storages, which differs between processes.
    StorageType,
    /// The type index of closures.
    ClosureType,
    /// The deleter of arrays.
    ArrayDeleter,
}

/// Namespace of functions of the unit itself.
pub(crate) const UNIT: u32 = 0;
const CODE: u32 = 1;
const THIS: u32 = 2;
const STORAGE_TYPE: u32 = 3;
const RAW: u32 = 4;
const CLOSURE_TYPE: u32 = 5;
const ARRAY_DELETER: u32 = 6;

impl Symbol {
    /// The name of the symbol in Cranelift.
    pub(crate) fn name(self) -> UserExternalName {
        let (namespace, index) = match self {
            Symbol::Code(callee) => (CODE, callee),
            Symbol::This(callee) => (THIS, callee),
            Symbol::Raw(callee) => (RAW, callee),
            Symbol::StorageType => (STORAGE_TYPE, 0),
            Symbol::ClosureType => (CLOSURE_TYPE, 0),
            Symbol::ArrayDeleter => (ARRAY_DELETER, 0),
        };
        UserExternalName::new(namespace, index)
    }

    /// The symbol of a name in Cranelift.
    pub(crate) fn from_name(name: &UserExternalName) -> Option<Symbol> {
        match name.namespace {
            CODE => Some(Symbol::Code(name.index)),
            THIS => Some(Symbol::This(name.index)),
            RAW => Some(Symbol::Raw(name.index)),
            STORAGE_TYPE => Some(Symbol::StorageType),
            CLOSURE_TYPE => Some(Symbol::ClosureType),
            ARRAY_DELETER => Some(Symbol::ArrayDeleter),
            _ => None,
        }
    }

    /// The value of the symbol in code for `program`; `None` if the program has no such function.
    pub(crate) fn value(self, program: &Program) -> Option<u64> {
        Some(match self {
            Symbol::Code(callee) => program.packed(callee)?.call as usize as u64,
            Symbol::This(callee) => program.packed(callee)?.this as usize as u64,
            Symbol::Raw(callee) => program.packed(callee)?.raw.as_ref()?.code() as usize as u64,
            Symbol::StorageType => Storage::type_index() as u64,
            Symbol::ClosureType => object::type_of::<Closure>() as u64,
            Symbol::ArrayDeleter => array::deleter() as usize as u64,
        })
    }

    /// The symbol of a type index that differs between processes; `None` if it is the same in all.
    pub(crate) fn of_type(tag: i32) -> Option<Symbol> {
        if tag < type_index::DYNAMIC_BEGIN {
            return None;
        }
        if tag == object::type_of::<Closure>() {
            return Some(Symbol::ClosureType);
        }
        // Generated code allocates no other objects.
        assert_eq!(tag, Storage::type_index(), "a type index without a name");
        Some(Symbol::StorageType)
    }
}

/// A position in code that holds the value of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relocation {
    /// Byte offset in the text.
    pub(crate) at: u32,
    pub(crate) symbol: Symbol,
}

impl Relocation {
    /// Writes the value; `None` if the position is outside of the text.
    pub(crate) fn apply(self, text: &mut [u8], word: u64) -> Option<()> {
        let at = self.at as usize;
        text.get_mut(at..at.checked_add(8)?)?.copy_from_slice(&word.to_le_bytes());
        Some(())
    }
}
