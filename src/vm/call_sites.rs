//! Callees as values, and the calls of a program as instruments see them. The latter are made once for
//! each program, when the first instrument meets it.

use std::sync::Arc;

use reflex_runtime::array::Array;
use reflex_runtime::value::Any;

use crate::builtins::{Builtin, Closure};
use crate::decode::{Callee, Code, FuncCode, Op};
use crate::executable::{Executable, FuncKind};
use crate::instrument::CallSite;
use crate::kernel::Packed;

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

/// The call sites of a program, by function and operation.
pub(crate) struct CallSites(Box<[Box<[Option<CallSite>]>]>);

impl CallSites {
    /// Those of the program with this number.
    pub(crate) fn of(
        program: u64,
        exec: &Executable,
        code: &Code,
        packed: &[Option<Packed>],
    ) -> CallSites {
        let names: Vec<Arc<str>> = exec.functions.iter().map(|f| f.name.as_str().into()).collect();
        let entries = 0..packed.len() as u32;
        let values: Vec<Any> =
            entries.map(|index| function_value(program, exec, index, packed)).collect();
        let site = |func: &FuncCode, pc: usize, op: &Op| {
            let (callee, dst) = op.call()?;
            let (callee, callable) = match callee {
                Callee::Function(index) => {
                    (names[index as usize].clone(), values[index as usize].clone())
                }
                Callee::Builtin(builtin) => (builtin.name().into(), builtin.function().into()),
            };
            Some(CallSite {
                function: names[func.index as usize].clone(),
                instr: pc as u32,
                callee,
                callable,
                dst,
                arg_area: func.arg_area() as u32,
                args: func.args_of(op).len() as u32,
            })
        };
        let sites = code.functions.iter().map(|func| {
            let ops = func
                .iter()
                .flat_map(|func| func.ops.iter().enumerate().map(move |(pc, op)| (func, pc, op)));
            ops.map(|(func, pc, op)| site(func, pc, op)).collect()
        });
        CallSites(sites.collect())
    }

    /// The call at operation `pc` of `func`, if it is one.
    #[inline(always)]
    pub(crate) fn get(&self, func: u32, pc: u32) -> Option<&CallSite> {
        self.0.get(func as usize)?.get(pc as usize)?.as_ref()
    }
}
