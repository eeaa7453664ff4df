//! The body of a function.

use std::collections::{HashMap, HashSet};

use reflex_vm::builder::{BuildError, Label};
use reflex_vm::bytecode::{Arg, Reg as Register};

use super::facts::{self, Fact, Facts};
use super::{LoweringContext, body_name, constants, element, entry};
use crate::executable::{Constant, Function};
use crate::instr::{Instr, Reg, StorageSize};
use crate::kernels;

/// A function while its body is emitted.
pub struct Body<'l, 'e> {
    lowering: &'l mut LoweringContext<'e>,
    function: &'e Function,
    facts: Facts,
    labels: HashMap<usize, Label>,
    /// Registers that need not be written.
    unneeded: HashSet<Reg>,
}

type Result<T = ()> = std::result::Result<T, BuildError>;

impl<'l, 'e> Body<'l, 'e> {
    pub fn new(lowering: &'l mut LoweringContext<'e>, function: &'e Function) -> Body<'l, 'e> {
        let facts = Facts::default();
        Body { lowering, function, facts, labels: HashMap::new(), unneeded: HashSet::new() }
    }

    pub fn emit(mut self) -> Result {
        let function = self.function;
        let name = body_name(function);
        let params: Vec<&str> = function.params.iter().map(String::as_str).collect();
        self.lowering.builder.function_with_params(&name, &params)?;
        let targets = facts::targets(function);
        self.unneeded =
            facts::unneeded(function, &targets, |fact| scalar(self.lowering, fact).is_some());
        for &target in &targets {
            let label = self.lowering.builder.label()?;
            self.labels.insert(target, label);
        }
        for (at, instr) in function.code.iter().enumerate() {
            if let Some(label) = self.labels.get(&at) {
                self.facts.enter_block();
                self.lowering.builder.bind(*label)?;
            }
            if self.is_needed(instr) {
                self.instr(at, instr)?;
            }
            self.facts.after(instr);
        }
        self.lowering.builder.end_function()
    }

    /// Returns true unless the instruction only writes a register that need not be written.
    fn is_needed(&self, instr: &Instr) -> bool {
        let plain = matches!(
            instr,
            Instr::LoadConst { .. }
                | Instr::LoadConsti { .. }
                | Instr::GetTag { .. }
                | Instr::Move { .. }
                | Instr::KillRegister { .. }
        );
        !plain || instr.dst().is_none_or(|dst| !self.unneeded.contains(&dst))
    }

    /// A register as an argument: its constant, if that is known.
    fn arg(&mut self, register: Reg) -> Arg {
        match self.facts.of(register) {
            Some(Fact::Const(number)) => self.lowering.constant(number),
            _ => Arg::Reg(Register(register)),
        }
    }

    fn args(&mut self, registers: &[Reg]) -> Vec<Arg> {
        registers.iter().map(|&register| self.arg(register)).collect()
    }

    /// The integer in a register, if it is known.
    fn known(&self, register: Reg) -> Option<i64> {
        scalar(self.lowering, self.facts.of(register)?)
    }

    /// A register that nothing else uses.
    fn spare(&self, number: i64) -> Arg {
        Arg::Reg(Register(self.function.registers + number))
    }

    fn call(&mut self, callee: &str, args: &[Arg], dst: Reg) -> Result {
        self.lowering.builder.emit_call(callee, args, Register(dst))
    }

    fn call_into(&mut self, callee: &str, args: &[Arg], dst: Arg) -> Result {
        self.lowering.builder.emit_call(callee, args, dst)
    }

    fn instr(&mut self, at: usize, instr: &Instr) -> Result {
        match instr {
            Instr::Move { from, dst } => {
                let from = self.arg(*from);
                self.call("vm.builtin.copy", &[from], *dst)
            }
            Instr::Ret { result } => self.lowering.builder.emit_ret(Register(*result)),
            Instr::Invoke { func, args, dst } => {
                let callee = body_name(self.lowering.exec.function(*func as usize));
                let args = self.args(args);
                self.call(&callee, &args, *dst)
            }
            Instr::InvokeClosure { closure, args, dst } => {
                let mut all = vec![self.lowering.builder.vm_state(), self.arg(*closure)];
                all.extend(self.args(args));
                self.call("vm.builtin.invoke_closure", &all, *dst)
            }
            Instr::InvokePacked { primitive, outputs, args } => {
                let name = &self.lowering.exec.primitives[*primitive as usize];
                let callee = kernels::callee(name, *outputs);
                let args = self.args(args);
                self.lowering.builder.emit_call(&callee, &args, Register::VOID)
            }
            Instr::AllocAdt { tag, fields, dst } => {
                let mut all = vec![Arg::Imm(*tag)];
                all.extend(self.args(fields));
                self.call("vm.builtin.make_tuple", &all, *dst)
            }
            Instr::AllocClosure { func, free, dst } => self.closure(*func as usize, free, *dst),
            Instr::GetField { object, index, dst } => {
                let object = self.arg(*object);
                // Item 0 is the tag.
                self.call("vm.builtin.tuple_getitem", &[object, Arg::Imm(index + 1)], *dst)
            }
            Instr::GetTag { object, dst } => {
                let (object, tag) = (self.arg(*object), self.spare(0));
                self.call_into("vm.builtin.tuple_getitem", &[object, Arg::Imm(0)], tag)?;
                self.call("relay.int", &[tag, Arg::Imm(32)], *dst)
            }
            Instr::If { test, target, equal, unequal } => {
                self.test(*test, *target)?;
                self.branch(at, *equal, *unequal)
            }
            Instr::Goto { offset } => self.goto(at, *offset),
            Instr::LoadConst { constant, dst, .. } => {
                let constant = self.lowering.constant(*constant as usize);
                self.call("vm.builtin.copy", &[constant], *dst)
            }
            Instr::LoadConsti { value, dst } => {
                let value = self.lowering.builder.int(*value);
                self.call("relay.int", &[value, Arg::Imm(64)], *dst)
            }
            Instr::Fatal => {
                let place = format!("function `{}`, instruction {at}", self.function.name);
                let place = self.lowering.builder.string(&place);
                self.lowering.builder.emit_call("relay.fatal", &[place], Register::VOID)?;
                // No code follows an error, which the verifier does not know.
                self.lowering.builder.emit_ret(Register::VOID)
            }
            Instr::AllocTensor { .. }
            | Instr::AllocTensorReg { .. }
            | Instr::AllocStorage { .. } => self.memory(instr),
            Instr::ShapeOf { tensor, dst } => {
                let tensor = self.arg(*tensor);
                self.call("relay.shape", &[tensor], *dst)
            }
            Instr::ReshapeTensor { tensor, shape, dst } => {
                let (tensor, shape) = (self.arg(*tensor), self.arg(*shape));
                let dims = self.spare(0);
                self.call_into("vm.builtin.tensor_to_shape", &[shape], dims)?;
                self.call("vm.builtin.reshape", &[tensor, dims], *dst)
            }
            Instr::DeviceCopy { src, dst, .. } => {
                // Every device of a program is the first CPU, as where TVM is given one.
                let src = self.arg(*src);
                let cpu = Arg::Imm(super::CPU.into());
                self.call("vm.builtin.to_device", &[src, cpu, Arg::Imm(0)], *dst)
            }
            Instr::KillRegister { dst } => self.call("vm.builtin.null_value", &[], *dst),
        }
    }

    fn closure(&mut self, func: usize, free: &[Reg], dst: Reg) -> Result {
        let function = self.lowering.exec.function(func);
        // Calls append the bound values, which Relay's functions take first.
        let callee = match free.len() {
            0 => body_name(function),
            bound => {
                self.lowering.closures.insert((func, bound));
                entry::closure_name(function, bound)
            }
        };
        let mut all = vec![self.lowering.builder.f(&callee)];
        all.extend(self.args(free));
        self.call("vm.builtin.make_closure", &all, dst)
    }

    /// Storages and tensors in them.
    fn memory(&mut self, instr: &Instr) -> Result {
        match instr {
            Instr::AllocStorage { size: StorageSize::Shape(shape), dtype, dst, .. } => {
                let shape = self.lowering.builder.shape(shape);
                self.storage(shape, element(*dtype), *dst)
            }
            Instr::AllocStorage { size: StorageSize::Bytes(size), dst, .. } => {
                let shape = match self.known(*size).filter(|size| *size >= 0) {
                    Some(size) => self.lowering.builder.shape(&[size]),
                    None => self.vector(*size)?,
                };
                self.storage(shape, reflex_runtime::dtype::DType::U8, *dst)
            }
            Instr::AllocTensor { storage, offset, dtype, shape, dst } => {
                let shape = self.lowering.builder.shape(shape);
                self.tensor([*storage, *offset, *dst], shape, *dtype)
            }
            Instr::AllocTensorReg { storage, offset, shape, dtype, dst } => {
                let (shape, dims) = (self.arg(*shape), self.spare(0));
                self.call_into("vm.builtin.tensor_to_shape", &[shape], dims)?;
                self.tensor([*storage, *offset, *dst], dims, *dtype)
            }
            _ => Ok(()),
        }
    }

    /// A shape of one dimension, the scalar in a register.
    fn vector(&mut self, scalar: Reg) -> Result<Arg> {
        let (scalar, one) = (self.arg(scalar), self.lowering.builder.shape(&[1]));
        let (vector, shape) = (self.spare(0), self.spare(1));
        self.call_into("vm.builtin.reshape", &[scalar, one], vector)?;
        self.call_into("vm.builtin.tensor_to_shape", &[vector], shape)?;
        Ok(shape)
    }

    fn storage(&mut self, shape: Arg, dtype: reflex_runtime::dtype::DType, dst: Reg) -> Result {
        let builder = &mut self.lowering.builder;
        let args = [builder.vm_state(), shape, Arg::Imm(0), builder.dtype(dtype)];
        self.call("vm.builtin.alloc_storage", &args, dst)
    }

    fn tensor(
        &mut self,
        [storage, offset, dst]: [Reg; 3],
        shape: Arg,
        dtype: reflex_runtime::dtype::DType,
    ) -> Result {
        let offset = match self.known(offset) {
            Some(offset) => self.lowering.builder.int(offset),
            None => {
                let (scalar, offset) = (self.arg(offset), self.spare(1));
                self.call_into("relay.scalar", &[scalar], offset)?;
                offset
            }
        };
        let (storage, dtype) = (self.arg(storage), self.lowering.builder.dtype(element(dtype)));
        self.call("vm.builtin.alloc_tensor", &[storage, offset, shape, dtype], dst)
    }

    /// Writes to a spare register whether two registers hold the same 32-bit integer.
    fn test(&mut self, test: Reg, target: Reg) -> Result {
        let condition = self.spare(0);
        for (tag, value) in [(test, target), (target, test)] {
            if let (Some(Fact::Tag(object)), Some(value)) = (self.facts.of(tag), self.known(value))
            {
                let object = self.arg(object);
                let value = Arg::Imm(i64::from(value as i32));
                return self.call_into("relay.is", &[object, value], condition);
            }
        }
        let sides = [test, target].map(|register| match self.facts.of(register) {
            Some(Fact::Int(value)) => Arg::Imm(i64::from(value as i32)),
            _ => self.arg(register),
        });
        self.call_into("relay.equal", &sides, condition)
    }

    /// Goes on at one of two places.
    fn branch(&mut self, at: usize, equal: i64, unequal: i64) -> Result {
        let Arg::Reg(condition) = self.spare(0) else { return Ok(()) };
        let is_next = equal == 1 && unequal > 1;
        let passes = |to: i64| {
            let between = self.function.code.get(at + 1..at + to as usize).unwrap_or_default();
            between.iter().any(|instr| self.is_needed(instr))
        };
        if is_next && passes(unequal) {
            let unequal = self.label(at, unequal);
            return self.lowering.builder.emit_if(condition, unequal);
        }
        self.lowering.builder.emit_if_by(condition, 2)?;
        self.goto(at, equal)?;
        self.goto(at, unequal)
    }

    fn label(&self, at: usize, offset: i64) -> Label {
        self.labels[&((at as i64 + offset) as usize)]
    }

    fn goto(&mut self, at: usize, offset: i64) -> Result {
        let label = self.label(at, offset);
        self.lowering.builder.emit_goto(label)
    }
}

/// The integer that a fact says, if it says one.
fn scalar(lowering: &LoweringContext<'_>, fact: Fact) -> Option<i64> {
    match fact {
        Fact::Int(value) => Some(value),
        Fact::Const(number) => match &lowering.exec.constants[number] {
            Constant::Tensor(tensor) => constants::scalar(tensor),
            Constant::Late(_) => None,
        },
        Fact::Tag(_) => None,
    }
}
