//! The packed entry: checks every argument, then calls the raw entry.
//!
//! Messages read `<func>: argument <i> (<name>): expected ..., got ...`. A symbolic dimension
//! takes the first dimension it meets; later ones, and expressions over symbols, must agree.

use inkwell::IntPredicate;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::{
    BasicMetadataValueEnum, BasicValueEnum, FunctionValue, InstructionOpcode, IntValue,
    PointerValue,
};
use reflex_runtime::abi::{self, DLDevice, DLTensorLayout, type_index};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{Buffer, DType, Expr, Param, PrimFunc, Var};

use crate::emit::Emitter;
use crate::emit::instructions::Instructions;
use crate::emit::ir::result_of;
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

const TYPE_ERROR: &str = "TypeError";
const VALUE_ERROR: &str = "ValueError";

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
    let layout = DLTensorLayout::of(e.instructions.pointer_bytes);
    let mut packed = Packed { e, layout, words: vec![], data: vec![], shapes: vec![] };
    packed.emit(raw)?;
    packed.e.finish()
}

struct Packed<'a, 'c> {
    e: Emitter<'a, 'c>,
    layout: DLTensorLayout,
    /// Scalar parameters as the raw entry takes them.
    words: Vec<IntValue<'c>>,
    /// Data pointers.
    data: Vec<PointerValue<'c>>,
    /// The shape of each tensor argument, with its position.
    shapes: Vec<(Buffer, usize, Vec<IntValue<'c>>)>,
}

impl<'c> Packed<'_, 'c> {
    fn emit(&mut self, raw: FunctionValue<'c>) -> Result<()> {
        let params: Vec<BasicValueEnum<'c>> = self.e.function.get_param_iter().collect();
        let (args, count) = (params[1].into_pointer_value(), params[2].into_int_value());
        let func = self.e.func;
        let expected = self.e.ir.i32(func.params.len() as i32);
        let message = format!("{}: expected {} arguments, got ", func.name, func.params.len());
        self.require_eq(count, expected, |p| p.fail_int(TYPE_ERROR, &message, count))?;
        for (i, param) in func.params.iter().enumerate() {
            let any = self.at(args, i * abi::ANY_SIZE)?;
            match param {
                Param::Scalar(var) => self.scalar(i, any, *var)?,
                Param::Buffer(buffer) => self.tensor(i, any, *buffer)?,
            }
        }
        self.check_shapes()?;
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

    fn scalar(&mut self, i: usize, any: PointerValue<'c>, var: Var) -> Result<()> {
        let dtype = self.e.func.vars[var].dtype;
        let index = self.load_i32(any)?;
        let is = |p: &Self, kind: i32| p.equal(index, p.e.ir.i32(kind));
        let payload = self.at(any, abi::ANY_PAYLOAD)?;
        let bits = self.load_i64(payload)?;
        let (int, boolean) = (is(self, type_index::INT)?, is(self, type_index::BOOL)?);
        let integral = self.e.ir.builder.build_or(int, boolean, "")?;
        let prefix = self.prefix(i, &self.e.func.vars[var].name);
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
        let message = format!("{prefix}expected a scalar {dtype}, got ");
        self.require(accepted, |p| p.fail_type(&message, index))?;
        let from = if dtype.is_float() { DType::F64 } else { DType::I64 };
        let value = self.e.cast(value, from, dtype)?;
        self.e.vars.insert(var, LaneValue::Uniform(value));
        self.words.push(word);
        Ok(())
    }

    fn tensor(&mut self, i: usize, any: PointerValue<'c>, buffer: Buffer) -> Result<()> {
        let data = &self.e.func.buffers[buffer];
        let prefix = self.prefix(i, &data.name);
        let tensor = self.dl_tensor(any, &prefix)?;

        let ndim = self.field_i32(tensor, self.layout.ndim)?;
        let rank = self.e.ir.i32(data.shape.len() as i32);
        let message = format!("{prefix}expected {} dimensions, got ", data.shape.len());
        self.require_eq(ndim, rank, |p| p.fail_int(VALUE_ERROR, &message, ndim))?;

        let dtype = self.field_i32(tensor, self.layout.dtype)?;
        let expected = u32::from(data.dtype.code)
            | u32::from(data.dtype.bits) << 8
            | u32::from(data.dtype.lanes) << 16;
        let expected = self.e.ir.i32(expected as i32);
        let message = format!("{prefix}expected dtype {}, got ", data.dtype);
        self.require_eq(dtype, expected, |p| p.fail_dtype(&message, dtype))?;

        let device = self.field_i32(tensor, self.layout.device)?;
        let cpu = self.e.ir.i32(DLDevice::KIND_CPU);
        let message = format!("{prefix}expected a tensor on the CPU, got device type ");
        self.require_eq(device, cpu, |p| p.fail_int(VALUE_ERROR, &message, device))?;

        let extents = self.extents(tensor, &prefix, &data.shape)?;
        let count = self.check_strides(tensor, &prefix, &extents)?;
        let address = self.at(tensor, abi::DLTENSOR_DATA)?;
        let base = self.load_ptr(address)?;
        let offset = self.at(tensor, self.layout.byte_offset)?;
        let offset = self.load_i64(offset)?;
        let present = self.e.ir.builder.build_is_not_null(base, "")?;
        let none = self.equal(count, self.e.ir.i64(0))?;
        let usable = self.e.ir.builder.build_or(present, none, "")?;
        let message = format!("{prefix}the data pointer is null");
        self.require(usable, |p| p.fail(VALUE_ERROR, &message))?;
        let pointer = self.e.ir.offset_bytes(base, offset)?;
        self.data.push(pointer);
        self.shapes.push((buffer, i, extents));
        Ok(())
    }

    /// The `DLTensor*` in an argument: a tensor object or a bare pointer.
    fn dl_tensor(&mut self, any: PointerValue<'c>, prefix: &str) -> Result<PointerValue<'c>> {
        let index = self.load_i32(any)?;
        let object = self.equal(index, self.e.ir.i32(type_index::TENSOR))?;
        let bare = self.equal(index, self.e.ir.i32(type_index::DL_TENSOR_PTR))?;
        let accepted = self.e.ir.builder.build_or(object, bare, "")?;
        let message = format!("{prefix}expected a tensor, got ");
        self.require(accepted, |p| p.fail_type(&message, index))?;
        let payload = self.at(any, abi::ANY_PAYLOAD)?;
        let pointer = self.load_ptr(payload)?;
        let present = self.e.ir.builder.build_is_not_null(pointer, "")?;
        let message = format!("{prefix}expected a tensor, got a null pointer");
        self.require(present, |p| p.fail(TYPE_ERROR, &message))?;
        let inner = self.at(pointer, abi::TENSOR_DLTENSOR)?;
        let chosen = self.e.ir.select(object.into(), inner.into(), pointer.into())?;
        Ok(chosen.into_pointer_value())
    }

    /// Reads the shapes and binds symbolic dimensions at their first appearance.
    fn extents(
        &mut self,
        tensor: PointerValue<'c>,
        prefix: &str,
        shape: &[Expr],
    ) -> Result<Vec<IntValue<'c>>> {
        let field = self.at(tensor, self.layout.shape)?;
        let pointer = self.load_ptr(field)?;
        let mut extents = vec![];
        for (d, extent) in shape.iter().enumerate() {
            let at = self.at(pointer, d * 8)?;
            let given = self.load_i64(at)?;
            if let Some(constant) = extent.as_int() {
                let expected = self.e.ir.i64(constant);
                let message = format!("{prefix}dimension {d}: expected ");
                let fail = |p: &mut Self| p.fail_expected(&message, expected, given);
                self.require_eq(given, expected, fail)?;
            } else {
                let zero = self.e.ir.i64(0);
                let valid =
                    self.e.ir.builder.build_int_compare(IntPredicate::SGE, given, zero, "")?;
                let message = format!("{prefix}dimension {d}: expected an extent, got ");
                self.require(valid, |p| p.fail_int(VALUE_ERROR, &message, given))?;
            }
            if let Some(var) = extent.as_var() {
                self.e.vars.entry(var).or_insert(LaneValue::Uniform(given.into()));
            }
            extents.push(given);
        }
        Ok(extents)
    }

    /// Strides are absent or row-major, not counting dimensions of one element or empty
    /// tensors. Returns the number of elements.
    fn check_strides(
        &mut self,
        tensor: PointerValue<'c>,
        prefix: &str,
        extents: &[IntValue<'c>],
    ) -> Result<IntValue<'c>> {
        let mut count = self.e.ir.i64(1);
        let mut compact = vec![count; extents.len()];
        for (d, extent) in extents.iter().enumerate().rev() {
            compact[d] = count;
            count = self.e.ir.builder.build_int_mul(count, *extent, "")?;
        }
        if extents.is_empty() {
            return Ok(count);
        }
        let field = self.at(tensor, self.layout.strides)?;
        let strides = self.load_ptr(field)?;
        let check = self.e.ir.block(self.e.function, "strides");
        let after = self.e.ir.block(self.e.function, "compact");
        let absent = self.e.ir.builder.build_is_null(strides, "")?;
        let empty = self.equal(count, self.e.ir.i64(0))?;
        let skip = self.e.ir.builder.build_or(absent, empty, "")?;
        self.e.ir.builder.build_conditional_branch(skip, after, check)?;
        self.e.ir.builder.position_at_end(check);
        for (d, (extent, expected)) in extents.iter().zip(&compact).enumerate() {
            let at = self.at(strides, d * 8)?;
            let given = self.load_i64(at)?;
            let single = self.equal(*extent, self.e.ir.i64(1))?;
            let same = self.equal(given, *expected)?;
            let fits = self.e.ir.builder.build_or(single, same, "")?;
            let message = format!("{prefix}stride of dimension {d}: expected ");
            self.require(fits, |p| p.fail_expected(&message, *expected, given))?;
        }
        self.e.ir.builder.build_unconditional_branch(after)?;
        self.e.ir.builder.position_at_end(after);
        Ok(count)
    }

    /// Dimensions that repeat a symbol or are expressions over symbols.
    fn check_shapes(&mut self) -> Result<()> {
        for (buffer, i, extents) in std::mem::take(&mut self.shapes) {
            let data = &self.e.func.buffers[buffer];
            let prefix = self.prefix(i, &data.name);
            for (d, (extent, given)) in data.shape.iter().zip(extents).enumerate() {
                if extent.as_int().is_some() {
                    continue;
                }
                let expected = self.e.uniform_int(extent, "an extent")?;
                let message = format!("{prefix}dimension {d}: expected ");
                let fail = |p: &mut Self| p.fail_expected(&message, expected, given);
                self.require_eq(given, expected, fail)?;
            }
        }
        Ok(())
    }
}

/// Checks and their failures.
impl<'c> Packed<'_, 'c> {
    fn prefix(&self, i: usize, name: &str) -> String {
        format!("{}: argument {i} ({name}): ", self.e.func.name)
    }

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

    fn fail(&self, kind: &str, message: &str) -> Result<IntValue<'c>> {
        let args = [self.text(kind)?.into(), self.text(message)?.into()];
        self.call("reflex.fail", &args)
    }

    fn fail_int(&self, kind: &str, message: &str, got: IntValue<'c>) -> Result<IntValue<'c>> {
        let got = match got.get_type().get_bit_width() {
            64 => got,
            _ => self.e.ir.builder.build_int_s_extend(got, self.e.ir.context.i64_type(), "")?,
        };
        let args = [self.text(kind)?.into(), self.text(message)?.into(), got.into()];
        self.call("reflex.fail_int", &args)
    }

    fn fail_expected(
        &self,
        message: &str,
        expected: IntValue<'c>,
        got: IntValue<'c>,
    ) -> Result<IntValue<'c>> {
        let (kind, message) = (self.text(VALUE_ERROR)?, self.text(message)?);
        let args = [kind.into(), message.into(), expected.into(), got.into()];
        self.call("reflex.fail_expected", &args)
    }

    fn fail_dtype(&self, message: &str, dtype: IntValue<'c>) -> Result<IntValue<'c>> {
        self.call("reflex.fail_dtype", &[self.text(message)?.into(), dtype.into()])
    }

    fn fail_type(&self, message: &str, index: IntValue<'c>) -> Result<IntValue<'c>> {
        self.call("reflex.fail_type", &[self.text(message)?.into(), index.into()])
    }

    fn call(&self, name: &str, args: &[BasicMetadataValueEnum<'c>]) -> Result<IntValue<'c>> {
        let function = self.e.ir.module.get_function(name);
        let function = function.ok_or_else(|| CodegenError::new(format!("no {name}")))?;
        Ok(result_of(self.e.ir.builder.build_call(function, args, "")?)?.into_int_value())
    }

    fn text(&self, text: &str) -> Result<PointerValue<'c>> {
        // A NUL inside a name would end the message early, nothing worse.
        Ok(self.e.ir.builder.build_global_string_ptr(text, "")?.as_pointer_value())
    }

    fn at(&self, pointer: PointerValue<'c>, bytes: usize) -> Result<PointerValue<'c>> {
        self.e.ir.offset_bytes(pointer, self.e.ir.i64(bytes as i64))
    }

    fn field_i32(&self, pointer: PointerValue<'c>, bytes: usize) -> Result<IntValue<'c>> {
        self.load_i32(self.at(pointer, bytes)?)
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
