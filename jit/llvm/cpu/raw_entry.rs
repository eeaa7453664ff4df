//! The raw entry: data pointers and 64-bit values in, status out. Of its arguments only the
//! elements of index tensors are checked.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{BasicValueEnum, FunctionValue, InstructionOpcode, IntValue};
use reflex_tir::{Buffer, DType, PrimFunc, abi};

use crate::emit::Emitter;
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

/// Attributes of a function whose outputs overlap no other parameter: TVM's older and newer name.
const NOALIAS: [&str; 2] = ["tir.noalias", "tirx.noalias"];

/// Emits the raw entry, which holds the kernel's body.
pub fn build<'c>(
    context: &'c Context,
    module: &Module<'c>,
    func: &PrimFunc,
) -> Result<FunctionValue<'c>> {
    let buffers: Vec<Buffer> = func.buffer_params().collect();
    let vars = abi::scalar_vars(func);
    let pointer = context.ptr_type(inkwell::AddressSpace::default());
    let mut params: Vec<BasicMetadataTypeEnum<'c>> = vec![pointer.into(); buffers.len()];
    params.extend(vec![BasicMetadataTypeEnum::from(context.i64_type()); vars.len()]);
    let name = format!("{}{}", abi::RAW_PREFIX, func.name);
    let function = module.add_function(&name, context.i32_type().fn_type(&params, false), None);

    let mut e = Emitter::new(context, module, func, function);
    for (i, buffer) in buffers.iter().enumerate() {
        let value = function.get_nth_param(i as u32).ok_or_else(lost_parameter)?;
        e.buffers.insert(*buffer, value.into_pointer_value());
        if is_unaliased(func, *buffer) {
            let kind = Attribute::get_named_enum_kind_id("noalias");
            let noalias = context.create_enum_attribute(kind, 0);
            function.add_attribute(AttributeLoc::Param(i as u32), noalias);
        }
    }
    for (i, var) in vars.iter().enumerate() {
        let index = (buffers.len() + i) as u32;
        let word = function.get_nth_param(index).ok_or_else(lost_parameter)?.into_int_value();
        let value = e.scalar_from_word(word, func.vars[*var].dtype)?;
        e.vars.insert(*var, LaneValue::Uniform(value));
    }
    for check in &func.checks {
        e.check_indices(check)?;
    }
    e.stmt(&func.body)?;
    e.ir.builder.build_return(Some(&e.ir.i32(0)))?;
    e.finish()?;
    Ok(function)
}

/// Whether stores through `buffer` cannot change what is read through another.
pub fn is_unaliased(func: &PrimFunc, buffer: Buffer) -> bool {
    let is_true =
        |name: &&str| func.attrs.get(*name).is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let declared = NOALIAS.iter().any(is_true);
    let inputs = func.buffer_params().count().saturating_sub(func.num_outputs);
    declared && func.buffer_params().skip(inputs).any(|b| b == buffer)
}

fn lost_parameter() -> CodegenError {
    CodegenError::new("the raw entry has fewer parameters than its signature")
}

impl<'c> Emitter<'_, 'c> {
    /// A scalar parameter from the 64-bit word it travels in (floats as float64 bits).
    fn scalar_from_word(&self, word: IntValue<'c>, dtype: DType) -> Result<BasicValueEnum<'c>> {
        if dtype.is_float() {
            let double = self.ir.context.f64_type();
            let value = self.ir.convert(InstructionOpcode::BitCast, word.into(), double)?;
            return self.cast(value, DType::F64, dtype);
        }
        self.cast(word.into(), DType::I64, dtype)
    }
}
