//! Callees of operations as values, which instruments see. They are made once for each program.

use reflex_runtime::array::Array;
use reflex_runtime::value::{Any, AnyView};

use crate::builtins::{Builtin, Closure};
use crate::decode::{Code, Op};
use crate::kernel::Packed;

/// Callees as values.
pub(crate) struct Callables {
    /// By entry of the function table; None for builtins and functions that are not there.
    functions: Box<[Any]>,
    /// By builtin.
    builtins: Box<[Any]>,
}

impl Callables {
    /// The callees of the program with this number.
    pub(crate) fn of(program: u64, code: &Code, packed: &[Option<Packed>]) -> Callables {
        let function = |(at, packed): (usize, &Option<Packed>)| match packed {
            Some(packed) => Any::from(packed.function().clone()),
            None if matches!(code.functions.get(at), Some(Some(_))) => {
                Closure { program, func: at as u32, captured: Array::new([]) }.into_value()
            }
            None => Any::NONE,
        };
        let functions = packed.iter().enumerate().map(function).collect();
        let builtins = Builtin::ALL.iter().map(|builtin| builtin.function().into());
        Callables { functions, builtins: builtins.collect() }
    }

    /// What an operation calls in bytecode; None if it is no call.
    pub(crate) fn of_op(&self, op: &Op) -> AnyView<'_> {
        let builtin = match *op {
            Op::CallPacked { callee, .. } | Op::CallVm { func: callee, .. } => {
                return self.functions.get(callee as usize).map_or(AnyView::NONE, Any::view);
            }
            Op::Builtin { builtin, .. } => builtin,
            Op::InvokeClosure { .. } => Builtin::InvokeClosure,
            Op::Copy { .. } => Builtin::Copy,
            Op::Kill { .. } => Builtin::NullValue,
            Op::Goto { .. } | Op::LoopBack { .. } | Op::Branch { .. } | Op::Ret { .. } => {
                return AnyView::NONE;
            }
        };
        self.builtins.get(builtin as usize).map_or(AnyView::NONE, Any::view)
    }
}
