//! The packed entry: checks every argument, then calls the raw entry.
//!
//! Tensors are checked by one function that all kernels have ([`super::shared_code`]), from a description of
//! them. Messages read `<func>: argument <i> (<name>): expected ..., got ...`. A symbolic dimension
//! takes the first dimension it meets; later ones, and expressions over symbols, must agree.

use inkwell::IntPredicate;
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::values::{
    BasicMetadataValueEnum, BasicValueEnum, FunctionValue, InstructionOpcode, IntValue,
    PointerValue,
};
use reflex_runtime::abi::{self, type_index};
use reflex_tir::argument_checks::{ARGUMENTS_SECTION, Derived, TensorChecks, WORD, prefix};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Param, PrimFunc, Var};

use crate::emit::Emitter;
use crate::emit::instructions::Instructions;
use crate::emit::ir::result_of;
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

/// Emits the packed entry of `func`, which calls `raw`.
pub fn build<'c>(
    context: &'c Context,
    module: &Module<'c>,
    func: &PrimFunc,
    target: &CpuTarget,
    raw: FunctionValue<'c>,
) -> Result<()> {
    let (i32t, pointer) = (context.i32_type(), context.ptr_type(inkwell::AddressSpace::default()));
    let params = [pointer.into(), pointer.into(), i32t.into(), pointer.into()];
    let name = format!("{}{}", reflex_tir::abi::PACKED_PREFIX, func.name);
    let function = module.add_function(&name, i32t.fn_type(&params, false), None);
    let mut e = Emitter::new(context, module, func, function);
    e.instructions = Instructions::of(target);
    let mut packed = Packed { e, words: vec![], data: vec![] };
    packed.emit(raw)?;
    packed.e.finish()
}

struct Packed<'a, 'c> {
    e: Emitter<'a, 'c>,
    /// Scalar parameters as the raw entry takes them.
    words: Vec<IntValue<'c>>,
    /// Data pointers.
    data: Vec<PointerValue<'c>>,
}

impl<'c> Packed<'_, 'c> {
    fn emit(&mut self, raw: FunctionValue<'c>) -> Result<()> {
        let params: Vec<BasicValueEnum<'c>> = self.e.function.get_param_iter().collect();
        let (args, count) = (params[1].into_pointer_value(), params[2].into_int_value());
        let func = self.e.func;
        let expected = self.e.ir.i32(func.params.len() as i32);
        let message = format!("{}: expected {} arguments, got ", func.name, func.params.len());
        self.require_eq(count, expected, |p| p.fail_int(&message, count))?;
        for (i, param) in func.params.iter().enumerate() {
            if let Param::Scalar(var) = param {
                let any = self.at(args, i * abi::ANY_SIZE)?;
                self.scalar(i, any, *var)?;
            }
        }
        self.tensors(args)?;
        let mut operands: Vec<BasicMetadataValueEnum<'c>> =
            self.data.iter().map(|p| (*p).into()).collect();
        operands.extend(self.words.iter().map(|w| BasicMetadataValueEnum::from(*w)));
        for var in reflex_tir::abi::scalar_vars(func).iter().skip(self.words.len()) {
            let what = "a symbolic dimension";
            let value = self.e.vars.get(var).copied().ok_or_else(|| {
                CodegenError::new("a symbolic dimension has no extent to come from")
            })?;
            operands.push(value.uniform_int(what)?.into());
        }
        let status = result_of(self.e.ir.builder.build_call(raw, &operands, "")?)?;
        self.e.ir.builder.build_return(Some(&status))?;
        Ok(())
    }

    /// Checks the tensors, and binds symbolic dimensions.
    fn tensors(&mut self, args: PointerValue<'c>) -> Result<()> {
        let tensors = TensorChecks::of(self.e.func);
        if tensors.tensors == 0 {
            return Ok(());
        }
        let description = self.description(&tensors.description);
        let words = self.e.ir.context.i64_type().array_type(tensors.written as u32);
        let written = self.e.alloca(words, WORD as u32)?;
        let args = [args.into(), description.into(), written.into()];
        let status = self.e.call_shared("reflex.check_tensors", &args)?;
        let fine = self.equal(status, self.e.ir.i32(0))?;
        self.require(fine, |_| Ok(status))?;
        for at in 0..tensors.tensors {
            let data = self.load_ptr(self.at(written, at * WORD)?)?;
            self.data.push(data);
        }
        for (var, at) in tensors.symbols {
            let extent = self.load_i64(self.at(written, at * WORD)?)?;
            self.e.vars.insert(var, LaneValue::Uniform(extent.into()));
        }
        for Derived { extent, place, message } in tensors.derived {
            let given = self.load_i64(self.at(written, place * WORD)?)?;
            let expected = self.e.uniform_int(&extent, "an extent")?;
            self.require_eq(given, expected, |p| p.fail_expected(&message, expected, given))?;
        }
        Ok(())
    }

    /// A constant of these words.
    fn description(&self, words: &[i64]) -> PointerValue<'c> {
        let ty = self.e.ir.context.i64_type();
        let values: Vec<IntValue<'c>> = words.iter().map(|word| self.e.ir.i64(*word)).collect();
        let global = self.e.ir.module.add_global(ty.array_type(words.len() as u32), None, "");
        global.set_initializer(&ty.const_array(&values));
        global.set_constant(true);
        global.set_linkage(Linkage::Private);
        global.set_alignment(WORD as u32);
        global.set_section(Some(ARGUMENTS_SECTION));
        global.as_pointer_value()
    }

    fn scalar(&mut self, i: usize, any: PointerValue<'c>, var: Var) -> Result<()> {
        let dtype = self.e.func.vars[var].dtype;
        let index = self.load_i32(any)?;
        let is = |p: &Self, kind: i32| p.equal(index, p.e.ir.i32(kind));
        let payload = self.at(any, abi::ANY_PAYLOAD)?;
        let bits = self.load_i64(payload)?;
        let (int, boolean) = (is(self, type_index::INT)?, is(self, type_index::BOOL)?);
        let integral = self.e.ir.builder.build_or(int, boolean, "")?;
        let prefix = prefix(self.e.func, i, &self.e.func.vars[var].name);
        let (accepted, word, value) = if dtype.is_float() {
            let float = is(self, type_index::FLOAT)?;
            let (ir, double) = (&self.e.ir, self.e.ir.context.f64_type());
            let converted = ir.convert(InstructionOpcode::SIToFP, bits.into(), double)?;
            let given = ir.convert(InstructionOpcode::BitCast, bits.into(), double)?;
            let chosen = ir.select(float.into(), given, converted)?;
            let word = ir.convert(InstructionOpcode::BitCast, chosen, ir.context.i64_type())?;
            (ir.builder.build_or(float, integral, "")?, word.into_int_value(), chosen)
        } else {
            (integral, bits, bits.into())
        };
        let message = format!("expected a scalar {dtype}, got ");
        self.require(accepted, |p| p.fail_type(&prefix, &message, index))?;
        let from = if dtype.is_float() { DType::F64 } else { DType::I64 };
        let value = self.e.cast(value, from, dtype)?;
        self.e.vars.insert(var, LaneValue::Uniform(value));
        self.words.push(word);
        Ok(())
    }
}

/// Checks and their failures.
impl<'c> Packed<'_, 'c> {
    /// Continues where `holds`; elsewhere returns what `fail` gives.
    fn require(
        &mut self,
        holds: IntValue<'c>,
        fail: impl FnOnce(&mut Self) -> Result<IntValue<'c>>,
    ) -> Result<()> {
        if holds.get_zero_extended_constant() == Some(1) {
            return Ok(());
        }
        let failed = self.e.ir.block(self.e.function, "fail");
        let ok = self.e.ir.block(self.e.function, "ok");
        self.e.ir.builder.build_conditional_branch(holds, ok, failed)?;
        self.e.ir.builder.position_at_end(failed);
        let status = fail(self)?;
        self.e.ir.builder.build_return(Some(&status))?;
        self.e.ir.builder.position_at_end(ok);
        Ok(())
    }

    fn require_eq(
        &mut self,
        a: IntValue<'c>,
        b: IntValue<'c>,
        fail: impl FnOnce(&mut Self) -> Result<IntValue<'c>>,
    ) -> Result<()> {
        // The variable that a dimension bound compares equal to itself.
        if a == b {
            return Ok(());
        }
        let same = self.equal(a, b)?;
        self.require(same, fail)
    }

    fn equal(&self, a: IntValue<'c>, b: IntValue<'c>) -> Result<IntValue<'c>> {
        Ok(self.e.ir.builder.build_int_compare(IntPredicate::EQ, a, b, "")?)
    }

    fn fail_int(&self, message: &str, got: IntValue<'c>) -> Result<IntValue<'c>> {
        let got = self.e.ir.builder.build_int_s_extend(got, self.e.ir.context.i64_type(), "")?;
        let args = [self.text("TypeError")?.into(), self.text(message)?.into(), got.into()];
        self.e.call_shared("reflex.fail_int", &args)
    }

    fn fail_expected(
        &self,
        message: &str,
        expected: IntValue<'c>,
        got: IntValue<'c>,
    ) -> Result<IntValue<'c>> {
        let (kind, message) = (self.text("ValueError")?, self.text(message)?);
        let args = [kind.into(), message.into(), expected.into(), got.into()];
        self.e.call_shared("reflex.fail_expected", &args)
    }

    fn fail_type(&self, prefix: &str, message: &str, index: IntValue<'c>) -> Result<IntValue<'c>> {
        let args = [self.text(prefix)?.into(), self.text(message)?.into(), index.into()];
        self.e.call_shared("reflex.fail_type", &args)
    }

    fn text(&self, text: &str) -> Result<PointerValue<'c>> {
        // A NUL inside a name would end the message early, nothing worse.
        Ok(self.e.ir.builder.build_global_string_ptr(text, "")?.as_pointer_value())
    }

    fn at(&self, pointer: PointerValue<'c>, bytes: usize) -> Result<PointerValue<'c>> {
        self.e.ir.offset_bytes(pointer, self.e.ir.i64(bytes as i64))
    }

    fn load_i32(&self, at: PointerValue<'c>) -> Result<IntValue<'c>> {
        let ty = self.e.ir.context.i32_type();
        Ok(self.e.ir.builder.build_load(ty, at, "")?.into_int_value())
    }

    fn load_i64(&self, at: PointerValue<'c>) -> Result<IntValue<'c>> {
        let ty = self.e.ir.context.i64_type();
        Ok(self.e.ir.builder.build_load(ty, at, "")?.into_int_value())
    }

    fn load_ptr(&self, at: PointerValue<'c>) -> Result<PointerValue<'c>> {
        Ok(self.e.ir.builder.build_load(self.e.ir.ptr(), at, "")?.into_pointer_value())
    }
}
