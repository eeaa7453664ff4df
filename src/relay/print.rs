//! Prints instructions as TVM does.

use std::fmt::{self, Display, Formatter};

use reflex_runtime::dtype::DType;

use crate::executable::Dialect;
use crate::instr::{Instr, Reg, StorageSize};

/// An instruction as the versions of TVM of a dialect print it.
pub struct Printed<'i>(pub &'i Instr, pub Dialect);

/// Items with a separator between them.
struct Joined<'l>(&'l [i64], &'static str);

impl Display for Joined<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { self.1 };
            write!(f, "{separator}{item}")?;
        }
        Ok(())
    }
}

/// Registers as a call's arguments.
fn registers(list: &[Reg]) -> Joined<'_> {
    Joined(list, ",$")
}

impl Display for Printed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        match self.0 {
            Instr::Move { from, dst } => write!(f, "{name} ${dst} ${from}"),
            Instr::Ret { result } => write!(f, "{name} ${result}"),
            Instr::Fatal => f.write_str(name),
            Instr::InvokePacked { primitive, outputs, args } => {
                let inputs = usize::try_from(*outputs).ok().and_then(|n| args.len().checked_sub(n));
                let (inputs, outputs) = args.split_at(inputs.unwrap_or_default());
                let (inputs, outputs) = (Joined(inputs, ", $"), Joined(outputs, ", $"));
                write!(f, "{name} PackedFunc[{primitive}] (in: ${inputs}, out: ${outputs})")
            }
            Instr::AllocTensor { storage, offset, dtype, shape, dst } => {
                let shape = Joined(shape, ", ");
                write!(f, "{name} ${dst} ${storage} ${offset} [{shape}] {dtype}")
            }
            Instr::AllocTensorReg { storage, offset, shape, dtype, dst } => {
                write!(f, "{name} ${dst} ${storage} ${offset} ${shape} {dtype}")
            }
            Instr::AllocAdt { tag, fields, dst } => {
                write!(f, "{name} ${dst} tag({tag}) [${}]", registers(fields))
            }
            Instr::AllocClosure { func, free, dst } => {
                write!(f, "{name} ${dst} VMFunc[{func}](${})", registers(free))
            }
            Instr::If { test, target, equal, unequal } => {
                write!(f, "{name} ${test} ${target} {equal} {unequal}")
            }
            Instr::Invoke { func, args, dst } => {
                write!(f, "{name} ${dst} VMFunc[{func}](${})", registers(args))
            }
            Instr::InvokeClosure { closure, args, dst } => {
                write!(f, "{name} ${dst} ${closure}(${})", registers(args))
            }
            Instr::LoadConst { constant, device, dst } => {
                write!(f, "{name} ${dst} Const[{constant}]")?;
                if self.1 == Dialect::V14 { write!(f, " {device}") } else { Ok(()) }
            }
            Instr::LoadConsti { value, dst } => write!(f, "{name} ${dst} {value}"),
            Instr::GetField { object, index, dst } => write!(f, "{name} ${dst} ${object}[{index}]"),
            Instr::GetTag { object, dst } => write!(f, "{name} ${dst} ${object}"),
            Instr::Goto { offset } => write!(f, "{name} {offset}"),
            Instr::AllocStorage { size, alignment, dtype, device, dst } => {
                write!(f, "{name} ${dst} ")?;
                match size {
                    StorageSize::Shape(shape) => write!(f, "[{}] ", Joined(shape, ", "))?,
                    StorageSize::Bytes(bytes) => write!(f, "${bytes} {alignment} ")?,
                }
                // Here booleans have their name, elsewhere they are integers of one bit.
                match *dtype {
                    DType { code: 1, bits: 1, lanes: 1 } => write!(f, "bool {device}"),
                    dtype => write!(f, "{dtype} {device}"),
                }
            }
            Instr::ShapeOf { tensor, dst } => write!(f, "{name} ${dst} ${tensor}"),
            Instr::ReshapeTensor { tensor, shape, dst } => {
                write!(f, "{name} ${dst} ${tensor} ${shape}")
            }
            Instr::DeviceCopy { src, src_device, dst_device, dst } => {
                write!(f, "{name} ${dst} ${src} {dst_device} {src_device}")
            }
            Instr::KillRegister { dst } => write!(f, "{name} ${dst}"),
        }
    }
}
