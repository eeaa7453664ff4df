//! Building executables instruction by instruction, as TVM's `ExecBuilder` does.
//!
//! Functions are emitted one after the other. Registers from the number of inputs on
//! may have any number while emitting; when a function ends they are renumbered in
//! order of first definition and the size of the register file follows. Jumps go to
//! labels. The result of [`ExecBuilder::finish`] passes the verifier.
//!
//! ```
//! use reflex_vm::builder::ExecBuilder;
//! use reflex_vm::bytecode::Reg;
//!
//! let mut b = ExecBuilder::new();
//! b.function("main", 2)?;                      // registers 0 and 1 are the inputs
//! b.emit_call("add1", &[b.r(0), b.r(1)], Reg::VOID)?;
//! b.emit_ret(Reg(1))?;
//! b.end_function()?;
//! let exec = b.finish()?;
//! assert!(reflex_vm::text::as_text(&exec).contains("call  add1"));
//! # Ok::<(), reflex_vm::builder::BuildError>(())
//! ```

use std::collections::HashMap;

use reflex_runtime::dtype::DType;

use crate::bytecode::{Arg, Args, Instr, MAX_IMM, MIN_IMM, Reg};
use crate::executable::{Constant, Executable, FuncKind, Function, TensorConst};
use crate::verify::{VerifyError, verify};

mod renumber;

use renumber::Renumber;

/// Why an executable cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An instruction outside `function` .. `end_function`, or a function inside one.
    #[error("{0}")]
    Misplaced(String),
    /// A function is defined twice.
    #[error("function `{0}` is defined twice")]
    Redefined(String),
    /// An immediate beyond 56 bits.
    #[error("immediate {0} does not fit 56 bits; use `int` to place it in the constant pool")]
    ImmediateTooLarge(i64),
    /// A register that is read and never written.
    #[error("register %{register} of function `{function}` is read but never defined")]
    Undefined {
        /// The function.
        function: String,
        /// The register, as it was emitted.
        register: i64,
    },
    /// A label that was used and never bound.
    #[error("a label used in function `{0}` was never bound")]
    UnboundLabel(String),
    /// A jump that the instruction set cannot express.
    #[error("jump at instruction {instr} of function `{function}`: {reason}")]
    BadJump {
        /// The function.
        function: String,
        /// Instruction number within the function.
        instr: usize,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// The finished executable does not verify.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

/// A jump target in the function being emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

#[derive(Clone)]
enum Jump {
    To(Label),
    By(i64),
}

enum Pending {
    Call { dst: Reg, callee: u32, args: Vec<Arg> },
    Ret { result: Reg },
    Goto { jump: Jump },
    If { cond: Reg, otherwise: Jump },
}

struct Open {
    index: usize,
    num_inputs: u32,
    code: Vec<Pending>,
    /// Instruction number of each label, once bound.
    labels: Vec<Option<usize>>,
}

/// Builds an [`Executable`].
///
/// ```
/// use reflex_vm::{builder::ExecBuilder, bytecode::Reg, text::as_text};
///
/// let mut b = ExecBuilder::new();
/// b.function("func0", 2)?;
/// b.emit_call("vm.op.add", &[b.r(0), b.r(1)], b.r(10))?;
/// b.emit_call("vm.builtin.copy", &[b.r(10)], b.r(11))?;
/// b.emit_call("vm.op.print", &[b.r(11)], Reg::VOID)?;
/// b.emit_ret(Reg(11))?;
/// b.end_function()?;
/// assert!(b.warnings().is_empty());
/// let text = as_text(&b.finish()?);
/// assert_eq!(
///     text.split("\n\n").next(),
///     Some(
///         "@func0:\n\
///         \x20 call  vm.op.add        in: %0, %1       dst: %2\n\
///         \x20 call  vm.builtin.copy  in: %2           dst: %3\n\
///         \x20 call  vm.op.print      in: %3           dst: %void\n\
///         \x20 ret   %3"
///     )
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct ExecBuilder {
    exec: Executable,
    by_name: HashMap<String, usize>,
    /// Constants by a cheap key, to share equal ones.
    shared: HashMap<String, Vec<u32>>,
    defined: Vec<bool>,
    open: Option<Open>,
    warnings: Vec<String>,
}

impl ExecBuilder {
    /// An empty builder.
    pub fn new() -> ExecBuilder {
        ExecBuilder::default()
    }

    /// Starts the VM function `name`; registers `0..num_inputs` are its parameters.
    pub fn function(&mut self, name: &str, num_inputs: u32) -> Result<(), BuildError> {
        if let Some(open) = &self.open {
            let inside = &self.exec.functions[open.index].name;
            return Err(BuildError::Misplaced(format!(
                "function `{name}` starts inside function `{inside}`"
            )));
        }
        let index = self.declare_function(name, FuncKind::Vm);
        if std::mem::replace(&mut self.defined[index], true) {
            return Err(BuildError::Redefined(name.to_owned()));
        }
        let function = &mut self.exec.functions[index];
        function.kind = FuncKind::Vm;
        function.num_args = num_inputs.into();
        self.open = Some(Open { index, num_inputs, code: Vec::new(), labels: Vec::new() });
        Ok(())
    }

    /// Like [`ExecBuilder::function`], with a name for each parameter.
    pub fn function_with_params(&mut self, name: &str, params: &[&str]) -> Result<(), BuildError> {
        self.function(name, params.len() as u32)?;
        let index = self.opened()?.index;
        self.exec.functions[index].param_names = params.iter().map(|&p| p.to_owned()).collect();
        Ok(())
    }

    /// Enters `name` in the function table if it is not there yet; returns its index.
    /// A packed entry becomes a VM function when one of that name is defined.
    pub fn declare_function(&mut self, name: &str, kind: FuncKind) -> usize {
        if let Some(&index) = self.by_name.get(name) {
            return index;
        }
        let index = self.exec.functions.len();
        self.exec.functions.push(Function { kind, ..Function::packed(name) });
        self.defined.push(false);
        self.by_name.insert(name.to_owned(), index);
        index
    }

    /// Register `index` as an argument or destination.
    pub fn r(&self, index: u32) -> Arg {
        Arg::Reg(Reg(index.into()))
    }

    /// The argument that reads as None.
    pub fn void_arg(&self) -> Arg {
        Arg::Reg(Reg::VOID)
    }

    /// The argument that reads as a pointer to the virtual machine.
    pub fn vm_state(&self) -> Arg {
        Arg::Reg(Reg::VM)
    }

    /// An immediate of at most 56 bits.
    pub fn imm(&self, value: i64) -> Result<Arg, BuildError> {
        if (MIN_IMM..=MAX_IMM).contains(&value) {
            Ok(Arg::Imm(value))
        } else {
            Err(BuildError::ImmediateTooLarge(value))
        }
    }

    /// Any integer: an immediate when it fits, a constant otherwise.
    pub fn int(&mut self, value: i64) -> Arg {
        self.imm(value).unwrap_or_else(|_| self.c(Constant::Int(value)))
    }

    /// A constant; equal constants share one entry of the pool.
    pub fn c(&mut self, constant: Constant) -> Arg {
        let key = match &constant {
            Constant::Tensor(t) => format!("tensor {:p}", t.data.bytes()),
            other => format!("{other:?}"),
        };
        let same_key = self.shared.entry(key).or_default();
        let pool = &mut self.exec.constants;
        if let Some(&at) = same_key.iter().find(|&&at| pool[at as usize].shares_with(&constant)) {
            return Arg::Const(at);
        }
        let at = pool.len() as u32;
        pool.push(constant);
        same_key.push(at);
        Arg::Const(at)
    }

    /// A string constant.
    pub fn string(&mut self, text: &str) -> Arg {
        self.c(Constant::Str(text.into()))
    }

    /// A shape constant.
    pub fn shape(&mut self, dims: &[i64]) -> Arg {
        self.c(Constant::Shape(dims.into()))
    }

    /// An element type constant.
    pub fn dtype(&mut self, dtype: DType) -> Arg {
        self.c(Constant::DType(dtype))
    }

    /// A float constant.
    pub fn float(&mut self, value: f64) -> Arg {
        self.c(Constant::Float(value))
    }

    /// A tensor constant.
    pub fn tensor(&mut self, tensor: TensorConst) -> Arg {
        self.c(Constant::Tensor(tensor))
    }

    /// Function `name` as a value; declared packed when it is not known yet.
    pub fn f(&mut self, name: &str) -> Arg {
        Arg::Func(self.declare_function(name, FuncKind::Packed) as u32)
    }

    /// A label to be bound in the current function.
    pub fn label(&mut self) -> Result<Label, BuildError> {
        let open = self.opened()?;
        open.labels.push(None);
        Ok(Label(open.labels.len() - 1))
    }

    /// Binds `label` to the next instruction.
    pub fn bind(&mut self, label: Label) -> Result<(), BuildError> {
        let open = self.opened()?;
        let here = open.code.len();
        match open.labels.get_mut(label.0) {
            Some(slot @ None) => {
                *slot = Some(here);
                Ok(())
            }
            Some(Some(_)) => Err(BuildError::Misplaced("a label is bound twice".to_owned())),
            None => Err(BuildError::Misplaced("a label of another function is bound".to_owned())),
        }
    }

    /// Emits `dst = callee(args...)`. `dst` is a register argument or [`Reg::VOID`].
    pub fn emit_call(
        &mut self,
        callee: &str,
        args: &[Arg],
        dst: impl Into<Dst>,
    ) -> Result<(), BuildError> {
        let dst = dst.into().0;
        self.opened()?;
        let callee = self.declare_function(callee, FuncKind::Packed) as u32;
        if let Some(&Arg::Imm(value)) =
            args.iter().find(|a| matches!(a, Arg::Imm(v) if !(MIN_IMM..=MAX_IMM).contains(v)))
        {
            return Err(BuildError::ImmediateTooLarge(value));
        }
        self.opened()?.code.push(Pending::Call { dst, callee, args: args.to_vec() });
        Ok(())
    }

    /// Emits a return of `result`.
    pub fn emit_ret(&mut self, result: Reg) -> Result<(), BuildError> {
        self.opened()?.code.push(Pending::Ret { result });
        Ok(())
    }

    /// Emits a jump to `label`.
    pub fn emit_goto(&mut self, label: Label) -> Result<(), BuildError> {
        self.opened()?.code.push(Pending::Goto { jump: Jump::To(label) });
        Ok(())
    }

    /// Emits a jump by `offset` instructions.
    pub fn emit_goto_by(&mut self, offset: i64) -> Result<(), BuildError> {
        self.opened()?.code.push(Pending::Goto { jump: Jump::By(offset) });
        Ok(())
    }

    /// Emits a branch: continue when `cond` is not zero, else go to `otherwise`, which
    /// lies at least two instructions ahead.
    pub fn emit_if(&mut self, cond: Reg, otherwise: Label) -> Result<(), BuildError> {
        self.opened()?.code.push(Pending::If { cond, otherwise: Jump::To(otherwise) });
        Ok(())
    }

    /// Emits a branch whose false side lies `false_offset` instructions ahead.
    pub fn emit_if_by(&mut self, cond: Reg, false_offset: i64) -> Result<(), BuildError> {
        self.opened()?.code.push(Pending::If { cond, otherwise: Jump::By(false_offset) });
        Ok(())
    }

    /// Ends the current function: resolves labels and renumbers registers.
    pub fn end_function(&mut self) -> Result<(), BuildError> {
        let Some(open) = self.open.take() else {
            return Err(BuildError::Misplaced("no function is open".to_owned()));
        };
        let name = self.exec.functions[open.index].name.clone();
        let renumber = Renumber::of(&open, &name)?;
        let unused = (0..i64::from(open.num_inputs)).filter(|input| !open.reads(Reg(*input)));
        let warning = |input| format!("input %{input} of function `{name}` is never read");
        self.warnings.extend(unused.map(warning));
        let start = self.exec.instr_offset.len();
        for (at, pending) in open.code.iter().enumerate() {
            self.exec.instr_offset.push(self.exec.instr_data.len() as i64);
            open.encode(at, pending, &renumber, &name, &mut self.exec.instr_data)?;
        }
        let function = &mut self.exec.functions[open.index];
        function.start_instr = start as i64;
        function.end_instr = self.exec.instr_offset.len() as i64;
        function.register_file_size = i64::from(open.num_inputs) + renumber.len() as i64;
        Ok(())
    }

    /// The executable, verified.
    pub fn finish(self) -> Result<Executable, BuildError> {
        if let Some(open) = &self.open {
            let name = &self.exec.functions[open.index].name;
            return Err(BuildError::Misplaced(format!("function `{name}` was not ended")));
        }
        Ok(verify(self.exec)?.into_inner())
    }

    /// Warnings about the functions so far: inputs that no instruction reads.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn opened(&mut self) -> Result<&mut Open, BuildError> {
        self.open
            .as_mut()
            .ok_or_else(|| BuildError::Misplaced("an instruction outside a function".to_owned()))
    }
}

/// Where a result goes: a register, as a [`Reg`] or as the argument `r` made.
#[derive(Clone, Copy, Debug)]
pub struct Dst(Reg);

impl From<Reg> for Dst {
    fn from(reg: Reg) -> Dst {
        Dst(reg)
    }
}

impl From<Arg> for Dst {
    /// Anything but a register discards the result.
    fn from(arg: Arg) -> Dst {
        match arg {
            Arg::Reg(reg) => Dst(reg),
            Arg::Imm(_) | Arg::Const(_) | Arg::Func(_) => Dst(Reg::VOID),
        }
    }
}

impl Open {
    fn reads(&self, reg: Reg) -> bool {
        self.code.iter().any(|pending| match pending {
            Pending::Call { args, .. } => args.contains(&Arg::Reg(reg)),
            Pending::Ret { result } => *result == reg,
            Pending::If { cond, .. } => *cond == reg,
            Pending::Goto { .. } => false,
        })
    }

    fn encode(
        &self,
        at: usize,
        pending: &Pending,
        renumber: &Renumber,
        function: &str,
        data: &mut Vec<i64>,
    ) -> Result<(), BuildError> {
        let bad = |reason| BuildError::BadJump { function: function.to_owned(), instr: at, reason };
        let offset = |jump: &Jump| match jump {
            Jump::By(offset) => Ok(*offset),
            Jump::To(Label(label)) => match self.labels.get(*label) {
                Some(Some(target)) => Ok(*target as i64 - at as i64),
                _ => Err(BuildError::UnboundLabel(function.to_owned())),
            },
        };
        match pending {
            Pending::Call { dst, callee, args } => {
                let words: Vec<i64> = args
                    .iter()
                    .map(|arg| match arg {
                        Arg::Reg(reg) => Arg::Reg(renumber.reg(*reg)).encode(),
                        other => other.encode(),
                    })
                    .collect();
                let dst = if dst.discards() { *dst } else { renumber.reg(*dst) };
                Instr::Call { dst, callee: (*callee).into(), args: Args(&words) }.encode(data);
            }
            Pending::Ret { result } => Instr::Ret { result: renumber.reg(*result) }.encode(data),
            Pending::Goto { jump } => match offset(jump)? {
                0 => return Err(bad("a goto to itself never ends")),
                offset => Instr::Goto { offset }.encode(data),
            },
            Pending::If { cond, otherwise } => match offset(otherwise)? {
                ..=1 => return Err(bad("the false side lies at least two instructions ahead")),
                false_offset => {
                    Instr::If { cond: renumber.reg(*cond), false_offset }.encode(data);
                }
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_renumbering() {
        let mut b = ExecBuilder::new();
        b.function("main", 1).unwrap();
        let (top, done) = (b.label().unwrap(), b.label().unwrap());
        b.bind(top).unwrap();
        b.emit_call("vm.builtin.read_if_cond", &[b.r(0)], b.r(70)).unwrap();
        b.emit_if(Reg(70), done).unwrap();
        b.emit_goto(top).unwrap();
        b.bind(done).unwrap();
        b.emit_call("vm.builtin.copy", &[b.r(70)], b.r(50)).unwrap();
        b.emit_ret(Reg(50)).unwrap();
        b.end_function().unwrap();
        let exec = b.finish().unwrap();
        assert_eq!(exec.functions[0].register_file_size, 3);
        assert_eq!(exec.instr(1), Ok(Instr::If { cond: Reg(1), false_offset: 2 }));
        assert_eq!(exec.instr(2), Ok(Instr::Goto { offset: -2 }));
        assert_eq!(exec.instr(4), Ok(Instr::Ret { result: Reg(2) }));
    }

    #[test]
    fn inputs_that_nothing_reads_are_warned_of() {
        let mut b = ExecBuilder::new();
        b.function("main", 3).unwrap();
        b.emit_call("f", &[b.r(2)], b.r(0)).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
        assert_eq!(b.warnings(), ["input %1 of function `main` is never read"]);
        assert!(b.finish().is_ok());
    }

    #[test]
    fn equal_constants_share_an_entry() {
        let mut b = ExecBuilder::new();
        assert_eq!(b.shape(&[1, 2]), b.shape(&[1, 2]));
        assert_ne!(b.float(0.0), b.float(-0.0));
        assert_eq!(b.float(f64::NAN), b.float(f64::NAN));
        assert_eq!(b.int(5), Arg::Imm(5));
        assert!(matches!(b.int(i64::MAX), Arg::Const(_)));
    }

    #[test]
    fn mistakes_are_named() {
        let mut b = ExecBuilder::new();
        assert!(matches!(b.emit_ret(Reg(0)), Err(BuildError::Misplaced(_))));
        b.function("main", 0).unwrap();
        b.emit_ret(Reg(5)).unwrap();
        let error = b.end_function().unwrap_err().to_string();
        assert_eq!(error, "register %5 of function `main` is read but never defined");
        assert!(matches!(b.function("main", 0), Err(BuildError::Redefined(_))));
        assert!(matches!(b.imm(1 << 60), Err(BuildError::ImmediateTooLarge(_))));
    }
}
