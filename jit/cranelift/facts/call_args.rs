//! The arguments of an operation that are constants.

use reflex_runtime::abi::type_index;
use reflex_runtime::value::AnyView;
use reflex_vm::builtins::Closure;
use reflex_vm::decode::{ArgRange, ArgSource, ConstEntry, FuncCode};
use reflex_vm::program::Program;

/// The arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallArgs<'p> {
    pub(crate) program: &'p Program,
    pub(crate) func: &'p FuncCode,
    pub(crate) args: ArgRange,
}

impl<'p> CallArgs<'p> {
    /// An argument that is a constant.
    pub(crate) fn get(&self, at: usize) -> Option<AnyView<'p>> {
        match self.func.args(self.args).get(at)?.get() {
            ArgSource::Const(index) => Some(self.program.consts()[index as usize].view()),
            ArgSource::Reg(_) | ArgSource::LastUse(_) | ArgSource::Vm => None,
        }
    }

    /// An argument that is a constant integer.
    pub(crate) fn int(&self, at: usize) -> Option<i64> {
        self.get(at).filter(|value| value.type_index() == type_index::INT)?.as_int()
    }

    /// An argument that is a function of the program, without captured values.
    pub(crate) fn function(&self, at: usize) -> Option<u32> {
        let constant = self.get(at)?;
        let closure = Closure::of(&constant)?;
        let own = closure.program == self.program.id() && closure.captured.is_empty();
        own.then_some(closure.func)
    }

    /// An argument that is a packed function.
    pub(crate) fn packed(&self, at: usize) -> Option<u32> {
        let ArgSource::Const(index) = self.func.args(self.args).get(at)?.get() else { return None };
        match *self.program.code().consts.get(index as usize)? {
            ConstEntry::Func(func) => self.program.packed(func).map(|_| func),
            ConstEntry::None | ConstEntry::Int(_) | ConstEntry::Pool(_) => None,
        }
    }

    /// The register of an argument.
    pub(crate) fn reg(&self, at: usize) -> Option<u32> {
        self.func.args(self.args).get(at)?.reg()
    }
}
