//! Callees of operations as values, which instruments see. They are made once for each program.

use reflex_runtime::array::Array;
use reflex_runtime::value::{Any, AnyView};

use crate::builtins::{Builtin, Closure};
use crate::decode::Op;
use crate::executable::{Executable, FuncKind};
use crate::kernel::Packed;

/// Callees as values.
pub(crate) struct Callables {
    /// By entry of the function table.
    functions: Box<[Any]>,
    /// By builtin.
    builtins: Box<[Any]>,
}

/// A function of the table as a value; None if it is a packed one that is not there.
pub(crate) fn function_value(
    id: u64,
    exec: &Executable,
    index: u32,
    packed: &[Option<Packed>],
) -> Any {
    let function = &exec.functions[index as usize];
    match (function.kind, &packed[index as usize]) {
        (FuncKind::Packed, Some(packed)) => packed.function().clone().into(),
        (FuncKind::Packed, None) => match Builtin::from_name(&function.name) {
            Some(builtin) => builtin.function().into(),
            None => Any::NONE,
        },
        (FuncKind::Vm | FuncKind::VmTir, _) => {
            Closure { program: id, func: index, captured: Array::new([]) }.into_value()
        }
    }
}

impl Callables {
    /// The callees of the program with this number.
    pub(crate) fn of(program: u64, exec: &Executable, packed: &[Option<Packed>]) -> Callables {
        let entries = 0..packed.len() as u32;
        let functions = entries.map(|index| function_value(program, exec, index, packed)).collect();
        let builtins = Builtin::ALL.iter().map(|builtin| builtin.function().into());
        Callables { functions, builtins: builtins.collect() }
    }

    /// The callee of an operation in bytecode; None if it is not a call.
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
