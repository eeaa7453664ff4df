//! Builds executables.

use crate::executable::{Constant, Dialect, Executable, Function};
use crate::instr::{Instr, Reg};
use crate::verify::{self, Verified, VerifyError};
use reflex_vm::executable::TensorConst;

/// Builds an executable for the CPU, function by function.
///
/// ```
/// use reflex_relay::{builder::Builder, executable::Dialect, instr::Instr, text};
///
/// let mut b = Builder::new(Dialect::V14);
/// let add = b.primitive("vm_mod_add");
/// let main = b.declare("main");
/// let call = Instr::InvokePacked { primitive: add, outputs: 1, args: vec![0, 1] };
/// b.define(main, &["x", "y"], vec![call, Instr::Ret { result: 1 }]);
/// let exec = b.finish()?;
/// assert!(text::listing(&exec).contains("# invoke_packed PackedFunc[0] (in: $0, out: $1)"));
/// # Ok::<(), reflex_relay::verify::VerifyError>(())
/// ```
pub struct Builder {
    exec: Executable,
}

impl Builder {
    /// An executable without functions.
    pub fn new(dialect: Dialect) -> Builder {
        Builder { exec: Executable::new(dialect) }
    }

    /// The number of a constant, which is new.
    pub fn constant(&mut self, tensor: TensorConst) -> i64 {
        self.push(Constant::Tensor(tensor))
    }

    /// The number of a constant that is bound before a run.
    pub fn late_bound(&mut self, name: &str) -> i64 {
        self.push(Constant::Late(name.to_owned()))
    }

    fn push(&mut self, constant: Constant) -> i64 {
        self.exec.constants.push(constant);
        self.exec.constant_devices.push(self.cpu());
        self.exec.constants.len() as i64 - 1
    }

    /// The CPU, as this dialect names devices: by place, or in 0.8 by type.
    fn cpu(&self) -> i64 {
        i64::from(self.exec.dialect == Dialect::V8)
    }

    /// The number of a kernel, which is entered if it is not there yet.
    pub fn primitive(&mut self, name: &str) -> i64 {
        number_of(&mut self.exec.primitives, name)
    }

    /// The number of a function, which is entered if it is not there yet, and defined later.
    pub fn declare(&mut self, name: &str) -> i64 {
        let number = number_of(&mut self.exec.globals, name);
        let missing = self.exec.globals.len() - self.exec.functions.len();
        self.exec.functions.extend(std::iter::repeat_n(Function::default(), missing));
        self.exec.functions[number as usize].name = name.to_owned();
        number
    }

    /// Defines a declared function; it has as many registers as its code names.
    ///
    /// # Panics
    /// If `function` was not declared.
    pub fn define(&mut self, function: i64, params: &[&str], code: Vec<Instr>) {
        let mut last: Reg = params.len() as i64 - 1;
        for instr in &code {
            last = last.max(instr.dst().unwrap_or(-1));
            instr.for_each_read(|register| last = last.max(register));
        }
        let param_devices = vec![self.cpu(); params.len()];
        let function = &mut self.exec.functions[function as usize];
        function.params = params.iter().map(|&name| name.to_owned()).collect();
        function.registers = last.saturating_add(1);
        function.param_devices = param_devices;
        function.code = code;
    }

    /// The executable, verified.
    pub fn finish(self) -> Result<Verified, VerifyError> {
        verify::verify(self.exec)
    }
}

fn number_of(names: &mut Vec<String>, name: &str) -> i64 {
    let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    at as i64
}
