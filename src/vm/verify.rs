//! The verifier: the only way to an executable that the decoder accepts.
//!
//! Everything the interpreter and the machine-code tiers rely on without checking is
//! checked here, and every fault is listed with its location. A register may be read
//! before it is written (it reads as None); a value of the wrong type is a run-time
//! error, not a fault of the executable.

use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, Range};

use crate::builtins::{Builtin, Call};
use crate::bytecode::{Arg, Args, Instr, Reg};
use crate::executable::{Constant, Executable, FuncKind, Function, TensorConst};

/// Most registers a function may have; keeps one frame far below the stack.
pub const MAX_REGISTERS: i64 = 1 << 20;
/// Most arguments a call may have.
pub const MAX_ARGS: usize = 1 << 16;
/// Faults listed before the verifier stops.
const MAX_FAULTS: usize = 20;

/// Something whose invariants hold: for an [`Executable`], all that this module checks.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// The value, no longer known to be valid.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Where in an executable a fault lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// The code section as a whole, at an instruction number.
    Code(usize),
    /// An entry of the function table.
    Function(String),
    /// An instruction of a function (numbered within the function).
    Instr(String, usize),
    /// An argument of an instruction.
    Arg(String, usize, usize),
    /// An entry of the constant pool.
    Constant(usize),
    /// An entry of the memory scope list.
    MemoryScope(usize),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Code(index) => write!(f, "code, instruction {index}"),
            Location::Function(name) => write!(f, "function `{name}`"),
            Location::Instr(name, instr) => write!(f, "function `{name}`, instruction {instr}"),
            Location::Arg(name, instr, arg) => {
                write!(f, "function `{name}`, instruction {instr}, argument {arg}")
            }
            Location::Constant(index) => write!(f, "constant c[{index}]"),
            Location::MemoryScope(index) => write!(f, "memory scope {index}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Where it is.
    pub location: Location,
    /// The rule that is broken.
    pub reason: String,
}

/// An executable that is not fit to run; lists the faults found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// At least one fault.
    pub faults: Vec<Fault>,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed executable")?;
        for fault in &self.faults {
            write!(f, "; {}: {}", fault.location, fault.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyError {}

/// Checks `exec`.
pub fn verify(exec: Executable) -> Result<Verified<Executable>, VerifyError> {
    let mut checker = Checker { exec: &exec, faults: Vec::new() };
    checker.code();
    // Jump and range checks index instructions, so they need a sound code section.
    if checker.faults.is_empty() {
        checker.functions();
    }
    checker.constants();
    let faults = checker.faults;
    if faults.is_empty() { Ok(Verified(exec)) } else { Err(VerifyError { faults }) }
}

/// A jump by a number of instructions.
enum Jump {
    Always(i64),
    IfFalse(i64),
}

struct Checker<'e> {
    exec: &'e Executable,
    faults: Vec<Fault>,
}

impl Checker<'_> {
    fn fault(&mut self, location: Location, reason: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { location, reason: reason.into() });
        }
    }

    /// Instructions tile the code words: each starts where the one before ends.
    fn code(&mut self) {
        let exec = self.exec;
        let mut next = 0_usize;
        for (index, &offset) in exec.instr_offset.iter().enumerate() {
            if usize::try_from(offset) != Ok(next) {
                let reason = format!("offset is {offset}, the instruction before ends at {next}");
                return self.fault(Location::Code(index), reason);
            }
            match exec.instr(index) {
                Ok(instr) => next += instr.words(),
                Err(error) => return self.fault(Location::Code(index), error.to_string()),
            }
        }
        if next != exec.instr_data.len() {
            let reason = format!("{} words follow the last one", exec.instr_data.len() - next);
            self.fault(Location::Code(exec.instr_offset.len()), reason);
        }
    }

    fn functions(&mut self) {
        let mut names = HashSet::new();
        for function in &self.exec.functions {
            if !names.insert(function.name.as_str()) {
                self.fault(Location::Function(function.name.clone()), "the name is used twice");
            }
            match function.kind {
                FuncKind::Packed => {}
                FuncKind::Vm => self.vm_function(function),
                FuncKind::VmTir => self.vmtir_function(function),
            }
        }
    }

    fn signature(&mut self, f: &Function) -> bool {
        let location = || Location::Function(f.name.clone());
        if !(0..=MAX_REGISTERS).contains(&f.register_file_size) {
            self.fault(location(), format!("register file of {}", f.register_file_size));
            return false;
        }
        if !(0..=f.register_file_size).contains(&f.num_args) {
            let (args, size) = (f.num_args, f.register_file_size);
            self.fault(location(), format!("{args} parameters in a register file of {size}"));
            return false;
        }
        let names = f.param_names.len();
        if names != 0 && names as i64 != f.num_args {
            self.fault(location(), format!("{names} names for {} parameters", f.num_args));
        }
        true
    }

    fn vmtir_function(&mut self, f: &Function) {
        if self.signature(f) && f.register_file_size <= f.num_args {
            self.fault(Location::Function(f.name.clone()), "no register is left for the result");
        }
    }

    fn vm_function(&mut self, f: &Function) {
        if !self.signature(f) {
            return;
        }
        let count = self.exec.instr_offset.len();
        let range = match (usize::try_from(f.start_instr), usize::try_from(f.end_instr)) {
            (Ok(start), Ok(end)) if start < end && end <= count => start..end,
            _ => {
                let reason = format!(
                    "instructions {}..{} of {count}: empty or out of range",
                    f.start_instr, f.end_instr
                );
                return self.fault(Location::Function(f.name.clone()), reason);
            }
        };
        for index in range.clone() {
            let at = index - range.start;
            match self.exec.instr(index) {
                Ok(instr) => self.instr(f, &range, at, instr),
                Err(error) => self.fault(Location::Instr(f.name.clone(), at), error.to_string()),
            }
        }
    }

    fn instr(&mut self, f: &Function, range: &Range<usize>, at: usize, instr: Instr<'_>) {
        let location = || Location::Instr(f.name.clone(), at);
        let last = range.start + at + 1 == range.end;
        match instr {
            Instr::Call { dst, callee, args } => {
                if !dst.discards() && !is_file_register(f, dst) {
                    self.fault(location(), format!("destination {dst} is not a register"));
                }
                self.call(f, at, callee, args);
                if last {
                    self.fault(location(), "the function ends without a return");
                }
            }
            Instr::Ret { result } => {
                if result != Reg::VOID && !is_file_register(f, result) {
                    self.fault(location(), format!("result {result} is not a register"));
                }
            }
            Instr::Goto { offset } => self.jump(f, range, at, Jump::Always(offset)),
            Instr::If { cond, false_offset } => {
                if !is_file_register(f, cond) {
                    self.fault(location(), format!("condition {cond} is not a register"));
                }
                self.jump(f, range, at, Jump::IfFalse(false_offset));
            }
        }
    }

    fn jump(&mut self, f: &Function, range: &Range<usize>, at: usize, jump: Jump) {
        // A goto to itself never ends; the false side of a branch lies ahead of the true one.
        let (by, allowed) = match jump {
            Jump::Always(by) => (by, by != 0),
            Jump::IfFalse(by) => (by, by > 1),
        };
        let target = (at as i64).checked_add(by);
        let inside = target.is_some_and(|t| (0..range.len() as i64).contains(&t));
        if !allowed || !inside {
            let reason = if inside {
                format!("jump by {by} is not allowed here")
            } else {
                format!("jump by {by} leaves the function")
            };
            self.fault(Location::Instr(f.name.clone(), at), reason);
        }
    }

    fn call(&mut self, f: &Function, at: usize, callee: i64, args: Args<'_>) {
        let exec = self.exec;
        let location = Location::Instr(f.name.clone(), at);
        if args.len() > MAX_ARGS {
            return self.fault(location, format!("{} arguments, at most {MAX_ARGS}", args.len()));
        }
        let mut decoded = Vec::with_capacity(args.len());
        for (k, arg) in args.iter().enumerate() {
            let reason = match arg {
                Ok(arg) => match self.argument(f, arg) {
                    Some(reason) => Some(reason),
                    None => {
                        decoded.push(arg);
                        None
                    }
                },
                Err(error) => Some(error.to_string()),
            };
            if let Some(reason) = reason {
                self.fault(Location::Arg(f.name.clone(), at, k), reason);
            }
        }
        let Some(target) = usize::try_from(callee).ok().and_then(|i| exec.functions.get(i)) else {
            return self.fault(location, format!("callee {callee} is not in the function table"));
        };
        if target.kind != FuncKind::Packed && target.num_args != args.len() as i64 {
            let (name, expected, given) = (&target.name, target.num_args, args.len());
            return self
                .fault(location, format!("`{name}` takes {expected} arguments, {given} given"));
        }
        // A builtin's rule looks up constants and functions, so it needs sound arguments.
        if let (FuncKind::Packed, true) = (target.kind, decoded.len() == args.len())
            && let Some(builtin) = Builtin::from_name(&target.name)
            && let Err(reason) = builtin.check(&Call { exec, args: &decoded })
        {
            self.fault(location, reason);
        }
    }

    /// The mistake in an argument, if there is one.
    fn argument(&self, f: &Function, arg: Arg) -> Option<String> {
        let exec = self.exec;
        match arg {
            Arg::Reg(Reg::VOID | Reg::VM) | Arg::Imm(_) => None,
            Arg::Reg(reg) if is_file_register(f, reg) => None,
            Arg::Reg(reg) => Some(format!("{reg} is not a register")),
            Arg::Const(index) if (index as usize) < exec.constants.len() => None,
            Arg::Const(index) => Some(format!("c[{index}] is not in the constant pool")),
            Arg::Func(index) if (index as usize) < exec.functions.len() => None,
            Arg::Func(index) => Some(format!("f[{index}] is not in the function table")),
        }
    }

    fn constants(&mut self) {
        for (index, constant) in self.exec.constants.iter().enumerate() {
            if let Constant::Tensor(tensor) = constant
                && let Err(reason) = check_tensor(tensor)
            {
                self.fault(Location::Constant(index), reason);
            }
        }
        for (at, (index, _)) in self.exec.memory_scopes.iter().enumerate() {
            let known = usize::try_from(*index).is_ok_and(|i| i < self.exec.constants.len());
            if !known {
                self.fault(Location::MemoryScope(at), format!("c[{index}] is not in the pool"));
            }
        }
    }
}

fn is_file_register(f: &Function, reg: Reg) -> bool {
    (0..f.register_file_size).contains(&reg.0)
}

fn check_tensor(t: &TensorConst) -> Result<(), String> {
    let (shape, dtype, bytes) = (&t.shape, t.dtype, t.data.bytes().len());
    if TensorConst::stored_bytes(dtype, shape) != Some(bytes) {
        return Err(format!("shape {shape:?} of {dtype} does not hold {bytes} bytes"));
    }
    match t.elements() {
        Some(_) => Ok(()),
        None => Err(format!("the serialized form cannot hold elements of type {dtype}")),
    }
}
