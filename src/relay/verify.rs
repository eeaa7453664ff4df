//! The verifier: the only way to an executable that [`crate::lower`] accepts.
//!
//! Every fault is listed with its section and place. A register is read only if it is a parameter or an
//! instruction of the function writes it; whether that one ran before is not checked: then the
//! register reads as None, which is an error where a tensor is expected.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;

use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::byte_size;

use crate::executable::{Constant, Dialect, Executable, Function};
use crate::instr::{Instr, Reg, StorageSize};
use crate::read::Section;

/// Most registers of a function: as many as the bytecode has.
pub const MAX_REGISTERS: i64 = 1 << 20;
/// Most parameters of a function, and most arguments of a call.
pub const MAX_PARAMS: usize = 1 << 13;
/// Faults listed before the verifier stops.
const MAX_FAULTS: usize = 20;

/// An executable that [`verify`] has checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified {
    exec: Executable,
    /// Place in the file of the function of each number.
    order: Vec<usize>,
}

impl Verified {
    /// The function of a number, by which code calls it.
    pub fn function(&self, number: usize) -> &Function {
        &self.exec.functions[self.order[number]]
    }

    /// The executable, no longer known to be valid.
    pub fn into_inner(self) -> Executable {
        self.exec
    }
}

impl Deref for Verified {
    type Target = Executable;

    fn deref(&self) -> &Executable {
        &self.exec
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The section of the file.
    pub section: Section,
    /// The place in the section: an entry, or a function and its instruction.
    pub place: String,
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
        f.write_str("malformed Relay executable")?;
        for Fault { section, place, reason } in &self.faults {
            write!(f, "; {section}, {place}: {reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyError {}

/// Checks an executable. Late-bound constants may still be unbound.
pub fn verify(exec: Executable) -> Result<Verified, VerifyError> {
    let mut checker = Checker { exec: &exec, faults: vec![], functions: HashMap::new() };
    checker.tables();
    let order = checker.globals();
    for function in &exec.functions {
        checker.function(function);
    }
    let faults = checker.faults;
    if faults.is_empty() { Ok(Verified { exec, order }) } else { Err(VerifyError { faults }) }
}

struct Checker<'e> {
    exec: &'e Executable,
    faults: Vec<Fault>,
    /// By name.
    functions: HashMap<&'e str, &'e Function>,
}

/// A function that is checked.
struct Body<'e> {
    function: &'e Function,
    /// Registers that something writes.
    defined: Vec<bool>,
}

impl<'e> Checker<'e> {
    fn fault(&mut self, section: Section, place: impl Into<String>, reason: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { section, place: place.into(), reason: reason.into() });
        }
    }

    fn tables(&mut self) {
        let exec = self.exec;
        let host = usize::try_from(exec.host_device);
        if exec.dialect != Dialect::V8 && !host.is_ok_and(|host| host < exec.devices.len()) {
            let reason = format!("{} of {} devices", exec.host_device, exec.devices.len());
            self.fault(Section::Devices, "host", reason);
        }
        if exec.constants.len() != exec.constant_devices.len() {
            let (constants, devices) = (exec.constants.len(), exec.constant_devices.len());
            let reason = format!("{devices} devices for {constants} constants");
            self.fault(Section::Constants, "devices", reason);
        }
        for (at, device) in exec.constant_devices.iter().enumerate() {
            self.device(Section::Constants, &format!("constant {at}"), *device);
        }
        for (at, constant) in exec.constants.iter().enumerate() {
            if let Err(reason) = self.constant(constant) {
                self.fault(Section::Constants, format!("constant {at}"), reason);
            }
        }
        let mut names = HashMap::new();
        for (at, name) in exec.primitives.iter().enumerate() {
            if let Some(first) = names.insert(name, at) {
                let reason = format!("`{name}` is primitive {first} too");
                self.fault(Section::Primitives, format!("primitive {at}"), reason);
            }
        }
        for (primitive, _) in &exec.attributes {
            if usize::try_from(*primitive).is_ok_and(|at| at < exec.primitives.len()) {
                continue;
            }
            let reason = format!("of primitive {primitive} of {}", exec.primitives.len());
            self.fault(Section::Primitives, "attributes", reason);
        }
    }

    fn constant(&self, constant: &Constant) -> Result<(), String> {
        match constant {
            Constant::Late(name) if self.exec.dialect == Dialect::V8 => {
                Err(format!("`{name}` is late-bound, which TVM 0.8 has not"))
            }
            Constant::Late(_) => Ok(()),
            Constant::Tensor(tensor) => {
                let size =
                    reflex_vm::executable::TensorConst::stored_bytes(tensor.dtype, &tensor.shape);
                match size {
                    Some(size) if size == tensor.data.bytes().len() => dtype(tensor.dtype),
                    _ => Err("its bytes do not fit its shape and type".to_owned()),
                }
            }
        }
    }

    /// Checks that each function is a global and each global a function; returns the place of
    /// each global's function.
    fn globals(&mut self) -> Vec<usize> {
        let exec = self.exec;
        let mut places = HashMap::new();
        for (at, function) in exec.functions.iter().enumerate() {
            self.functions.insert(&function.name, function);
            if places.insert(function.name.as_str(), at).is_some() {
                self.fault(Section::Code, place(function), "the name is used twice");
            }
        }
        let mut order = Vec::new();
        for (at, name) in exec.globals.iter().enumerate() {
            match places.remove(name.as_str()) {
                Some(function) => order.push(function),
                None => {
                    let reason = format!("`{name}` is a second global, or has no code");
                    self.fault(Section::Globals, format!("global {at}"), reason);
                }
            }
        }
        let mut rest: Vec<&str> = places.into_keys().collect();
        rest.sort_unstable();
        for name in rest {
            self.fault(Section::Code, format!("function `{name}`"), "it is no global");
        }
        if exec.globals.is_empty() {
            self.fault(Section::Globals, "functions", "there is none");
        }
        order
    }

    fn function(&mut self, function: &'e Function) {
        let (params, registers) = (function.params.len(), function.registers);
        if !(0..=MAX_REGISTERS).contains(&registers) || params as i64 > registers {
            let reason = format!("{params} parameters in a register file of {registers}");
            return self.fault(Section::Code, place(function), reason);
        }
        if params > MAX_PARAMS {
            let reason = format!("{params} parameters; there may be {MAX_PARAMS}");
            return self.fault(Section::Code, place(function), reason);
        }
        if function.param_devices.len() != params {
            let reason =
                format!("{} devices for {params} parameters", function.param_devices.len());
            self.fault(Section::Code, place(function), reason);
        }
        for device in &function.param_devices {
            self.device(Section::Code, &place(function), *device);
        }
        // Registers that no instruction names are not worth memory.
        let mut defined = vec![false; function.registers as usize];
        defined[..params].fill(true);
        for dst in function.code.iter().filter(|i| !matches!(i, Instr::KillRegister { .. })) {
            if let Some(slot) =
                dst.dst().and_then(|dst| defined.get_mut(usize::try_from(dst).ok()?))
            {
                *slot = true;
            }
        }
        let body = Body { function, defined };
        for (at, instr) in function.code.iter().enumerate() {
            if let Err(reason) = self.instr(&body, at, instr) {
                let place = format!("{}, instruction {at} ({})", place(function), instr.name());
                self.fault(Section::Code, place, reason);
            }
        }
        let ends = |instr: &Instr| {
            matches!(
                instr,
                Instr::Ret { .. } | Instr::Fatal | Instr::Goto { .. } | Instr::If { .. }
            )
        };
        if !function.code.last().is_some_and(ends) {
            self.fault(Section::Code, place(function), "its code runs past its end");
        }
    }

    fn device(&mut self, section: Section, place: &str, device: i64) {
        if let Err(reason) = self.device_number(device) {
            self.fault(section, place, reason);
        }
    }

    /// Refuses what is no place in the table of devices; in 0.8 devices are types.
    fn device_number(&self, device: i64) -> Result<(), String> {
        let devices = self.exec.devices.len();
        let known = match self.exec.dialect {
            Dialect::V8 => i32::try_from(device).is_ok(),
            Dialect::V9 | Dialect::V14 => usize::try_from(device).is_ok_and(|at| at < devices),
        };
        if known { Ok(()) } else { Err(format!("device {device} of {devices}")) }
    }

    fn instr(&self, body: &Body<'_>, at: usize, instr: &Instr) -> Result<(), String> {
        let mut registers = Ok(());
        let mut read = |register: Reg| registers = registers.clone().and(body.reads(register));
        instr.for_each_read(&mut read);
        registers?;
        if let Some(dst) = instr.dst().filter(|dst| !(0..body.function.registers).contains(dst)) {
            return Err(format!("register ${dst} of {}", body.function.registers));
        }
        match instr {
            Instr::Invoke { func, args, .. } => self.callee(*func, args.len(), Arity::Exactly),
            Instr::AllocClosure { func, free, .. } => self.callee(*func, free.len(), Arity::AtMost),
            Instr::InvokeClosure { args, .. } | Instr::AllocAdt { fields: args, .. }
                if args.len() > MAX_PARAMS =>
            {
                Err(format!("{} arguments; there may be {MAX_PARAMS}", args.len()))
            }
            Instr::InvokePacked { primitive, outputs, args } => {
                index("primitive", *primitive, self.exec.primitives.len())?;
                if args.len() > MAX_PARAMS || !(0..=args.len() as i64).contains(outputs) {
                    return Err(format!("{outputs} outputs among {} arguments", args.len()));
                }
                Ok(())
            }
            Instr::AllocAdt { tag, .. } => {
                i32::try_from(*tag).map(drop).map_err(|_| format!("tag {tag} exceeds 32 bits"))
            }
            Instr::GetField { index, .. } if *index < 0 || *index >= MAX_PARAMS as i64 => {
                Err(format!("field {index}"))
            }
            Instr::LoadConst { constant, device, .. } => {
                index("constant", *constant, self.exec.constants.len())?;
                match self.exec.dialect {
                    Dialect::V14 => self.device_number(*device),
                    Dialect::V8 | Dialect::V9 => Ok(()),
                }
            }
            Instr::If { equal, unequal, .. } => {
                body.jump(at, *equal).and_then(|()| body.jump(at, *unequal))
            }
            Instr::Goto { offset } => body.jump(at, *offset),
            Instr::AllocTensor { dtype, shape, .. } => extent(shape, *dtype),
            Instr::AllocTensorReg { dtype: it, .. } => dtype(*it),
            Instr::AllocStorage { size, alignment, dtype: it, device, .. } => {
                self.device_number(*device)?;
                if *alignment < 0 {
                    return Err(format!("alignment {alignment}"));
                }
                match size {
                    StorageSize::Shape(shape) => extent(shape, *it),
                    StorageSize::Bytes(_) => dtype(*it),
                }
            }
            Instr::DeviceCopy { src_device, dst_device, .. } => {
                self.device_number(*src_device).and_then(|()| self.device_number(*dst_device))
            }
            _ => Ok(()),
        }
    }

    fn callee(&self, func: i64, given: usize, arity: Arity) -> Result<(), String> {
        let name = usize::try_from(func).ok().and_then(|func| self.exec.globals.get(func));
        let callee = name.and_then(|name| self.functions.get(name.as_str()));
        let Some(callee) = callee else {
            return Err(format!("function {func} of {}", self.exec.globals.len()));
        };
        let takes = callee.params.len();
        let fits = match arity {
            Arity::Exactly => given == takes,
            Arity::AtMost => given <= takes,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("{given} values for the {takes} of `{}`", callee.name))
        }
    }
}

/// The number of values that a callee takes of an instruction.
#[derive(Clone, Copy)]
enum Arity {
    Exactly,
    AtMost,
}

impl Body<'_> {
    fn reads(&self, register: Reg) -> Result<(), String> {
        match usize::try_from(register).ok().and_then(|at| self.defined.get(at)) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("register ${register} is read, and nothing writes it")),
            None => Err(format!("register ${register} of {}", self.function.registers)),
        }
    }

    fn jump(&self, at: usize, offset: i64) -> Result<(), String> {
        let count = self.function.code.len();
        let target = (at as i64).checked_add(offset).and_then(|to| usize::try_from(to).ok());
        match target.filter(|to| *to < count) {
            Some(_) if offset == 0 => Err("it jumps to itself".to_owned()),
            Some(_) => Ok(()),
            None => Err(format!("it jumps by {offset}, out of {count} instructions")),
        }
    }
}

fn place(function: &Function) -> String {
    format!("function `{}`", function.name)
}

fn index(name: &str, index: i64, count: usize) -> Result<(), String> {
    match usize::try_from(index) {
        Ok(at) if at < count => Ok(()),
        _ => Err(format!("{name} {index} of {count}")),
    }
}

/// Refuses element types that tensors of this machine cannot have.
fn dtype(dtype: DType) -> Result<(), String> {
    match dtype.bits > 0 && (1..=256).contains(&dtype.lanes) {
        true => Ok(()),
        false => Err(format!("elements of type {dtype}")),
    }
}

/// Refuses shapes whose bytes cannot be counted.
fn extent(shape: &[i64], element: DType) -> Result<(), String> {
    dtype(element)?;
    byte_size(shape, element).map(drop).map_err(|error| error.message().into_owned())
}
