//! The packed entry: checks every argument, then calls the raw entry.
//!
//! Tensors are checked by one function that all kernels have ([`super::tensor_checks`]), from a description of
//! them. Messages read `<func>: argument <i> (<name>): expected ..., got ...`, as LLVM's kernels have them. A
//! symbolic dimension takes the first dimension it meets; later ones, and expressions over symbols, must
//! agree.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_module::{FuncId, Linkage, Module};
use reflex_runtime::abi::{self, type_index};
use reflex_tir::argument_checks::{Derived, TensorChecks, prefix};
use reflex_tir::{DType, Param, Var};

use crate::cpu::failure::Failure;
use crate::cpu::tensor_checks::WORD;
use crate::emit::value::LaneValue;
use crate::emit::{Emitter, define};
use crate::error::{BaselineError, Result};
use crate::unit::{POINTER, Unit};

/// Emits the packed entry, which calls `raw`.
pub fn build(unit: &mut Unit<'_>, raw: FuncId) -> Result<()> {
    let signature = Unit::signature(&[POINTER, POINTER, types::I32, POINTER], &[types::I32]);
    let name = format!("{}{}", reflex_tir::abi::PACKED_PREFIX, unit.func.name);
    define(unit, &name, Linkage::Export, signature, |e, params| {
        let mut packed = Packed { e, words: vec![], data: vec![] };
        packed.emit(raw, params[1], params[2])
    })?;
    Ok(())
}

struct Packed<'e, 'u, 'b, 'f> {
    e: &'e mut Emitter<'u, 'b, 'f>,
    /// Scalar parameters as the raw entry takes them.
    words: Vec<Value>,
    /// Data pointers.
    data: Vec<Value>,
}

impl Packed<'_, '_, '_, '_> {
    fn emit(&mut self, raw: FuncId, args: Value, count: Value) -> Result<()> {
        let func = self.e.func;
        let expected = self.e.i32(func.params.len() as i32);
        let message = format!("{}: expected {} arguments, got ", func.name, func.params.len());
        self.require_eq(count, expected, |p| p.fail_int(Failure::TypeInt, &message, count))?;
        for (i, param) in func.params.iter().enumerate() {
            if let Param::Scalar(var) = param {
                let any = self.at(args, i * abi::ANY_SIZE);
                self.scalar(i, any, *var)?;
            }
        }
        self.tensors(args)?;
        let mut operands = self.data.clone();
        operands.extend(&self.words);
        for var in reflex_tir::abi::scalar_vars(func).iter().skip(self.words.len()) {
            let value = self.e.vars.get(var).copied().ok_or_else(|| {
                BaselineError::new("a symbolic dimension has no extent to come from")
            })?;
            operands.push(value.uniform("a symbolic dimension")?);
        }
        let status = self.e.call(raw, &operands)[0];
        self.e.b.ins().return_(&[status]);
        Ok(())
    }

    /// Checks the tensors, and binds symbolic dimensions.
    fn tensors(&mut self, args: Value) -> Result<()> {
        let tensors = TensorChecks::of(self.e.func);
        if tensors.tensors == 0 {
            return Ok(());
        }
        let description = self.e.unit.words(&tensors.description)?;
        let description = self.e.unit.module.declare_data_in_func(description, self.e.b.func);
        let description = self.e.b.ins().symbol_value(POINTER, description);
        let written = self.e.stack_memory(tensors.written as u32 * WORD as u32);
        let check = self.e.tensor_checks()?;
        let status = self.e.call(check, &[args, description, written])[0];
        self.require_zero(status);
        let read = |p: &mut Self, at: usize| p.e.load_at(types::I64, written, at as i32 * WORD);
        for at in 0..tensors.tensors {
            let data = read(self, at);
            self.data.push(data);
        }
        for (var, at) in tensors.symbols {
            let extent = read(self, at);
            self.e.vars.insert(var, LaneValue::Uniform(extent));
        }
        for Derived { extent, place, message } in tensors.derived {
            let given = read(self, place);
            let expected = self.e.uniform_int(&extent, "an extent")?;
            self.require_eq(given, expected, |p| p.fail_expected(&message, expected, given))?;
        }
        Ok(())
    }

    fn scalar(&mut self, i: usize, any: Value, var: Var) -> Result<()> {
        let dtype = self.e.func.vars[var].dtype;
        let index = self.e.load_at(types::I32, any, 0);
        let bits = self.e.load_at(types::I64, any, abi::ANY_PAYLOAD as i32);
        let [int, boolean, float] =
            [type_index::INT, type_index::BOOL, type_index::FLOAT].map(|kind| self.is(index, kind));
        let integral = self.e.b.ins().bor(int, boolean);
        let (accepted, word, value) = if dtype.is_float() {
            let converted = self.e.b.ins().fcvt_from_sint(types::F64, bits);
            let given = self.e.bitcast(types::F64, bits);
            let chosen = self.e.b.ins().select(float, given, converted);
            let word = self.e.bitcast(types::I64, chosen);
            (self.e.b.ins().bor(float, integral), word, chosen)
        } else {
            (integral, bits, bits)
        };
        let prefix = prefix(self.e.func, i, &self.e.func.vars[var].name);
        let message = format!("{prefix}expected a scalar {dtype}, got ");
        self.require(accepted, |p| p.fail_word(Failure::TypeIndex, &message, index))?;
        let from = if dtype.is_float() { DType::F64 } else { DType::I64 };
        let value = self.e.cast(value, from, dtype)?;
        self.e.vars.insert(var, LaneValue::Uniform(value));
        self.words.push(word);
        Ok(())
    }
}

/// Checks and their failures.
impl Packed<'_, '_, '_, '_> {
    /// Continues where `holds`; elsewhere returns what `fail` gives.
    fn require(
        &mut self,
        holds: Value,
        fail: impl FnOnce(&mut Self) -> Result<Value>,
    ) -> Result<()> {
        let failed = self.e.cold_block();
        let ok = self.e.b.create_block();
        self.e.b.ins().brif(holds, ok, &[], failed, &[]);
        self.e.b.switch_to_block(failed);
        let status = fail(self)?;
        self.e.b.ins().return_(&[status]);
        self.e.b.switch_to_block(ok);
        Ok(())
    }

    /// Leaves with a status that is not zero.
    fn require_zero(&mut self, status: Value) {
        let failed = self.e.cold_block();
        let ok = self.e.b.create_block();
        self.e.b.ins().brif(status, failed, &[], ok, &[]);
        self.e.b.switch_to_block(failed);
        self.e.b.ins().return_(&[status]);
        self.e.b.switch_to_block(ok);
    }

    fn require_eq(
        &mut self,
        a: Value,
        b: Value,
        fail: impl FnOnce(&mut Self) -> Result<Value>,
    ) -> Result<()> {
        // The variable that a dimension bound compares equal to itself.
        if a == b {
            return Ok(());
        }
        let same = self.equal(a, b);
        self.require(same, fail)
    }

    fn equal(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().icmp(IntCC::Equal, a, b)
    }

    fn is(&mut self, index: Value, kind: i32) -> Value {
        let kind = self.e.i32(kind);
        self.equal(index, kind)
    }

    fn at(&mut self, pointer: Value, bytes: usize) -> Value {
        let bytes = self.e.i64(bytes as i64);
        self.e.b.ins().iadd(pointer, bytes)
    }

    fn fail_word(&mut self, failure: Failure, message: &str, word: Value) -> Result<Value> {
        let text = self.e.text(message)?;
        self.e.fail(failure, &[text, word])
    }

    fn fail_int(&mut self, failure: Failure, message: &str, got: Value) -> Result<Value> {
        let got = match self.e.ty(got) {
            types::I64 => got,
            _ => self.e.b.ins().sextend(types::I64, got),
        };
        self.fail_word(failure, message, got)
    }

    fn fail_expected(&mut self, message: &str, expected: Value, got: Value) -> Result<Value> {
        let text = self.e.text(message)?;
        self.e.fail(Failure::Expected, &[text, expected, got])
    }
}
