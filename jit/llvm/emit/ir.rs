//! LLVM instructions on values that are either scalars or vectors.
//!
//! inkwell types scalars and vectors apart; a loop IR expression is the same either way. The
//! methods here take both and keep the shape. No method sets a fast-math flag.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::llvm_sys::core::{LLVMAppendModuleInlineAsm, LLVMBuildGEP2};
use inkwell::module::Module;
use inkwell::types::{AsTypeRef, BasicType, BasicTypeEnum, FloatType, IntType, VectorType};
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValueEnum, CallSiteValue, FunctionValue,
    InstructionOpcode, IntValue, PointerValue, VectorValue,
};
use inkwell::{AddressSpace, FloatPredicate, IntPredicate};

use crate::error::{CodegenError, Result};

/// Adds text of an assembler to a module.
pub fn append_assembly(module: &Module<'_>, text: &str) {
    // SAFETY: the module is alive; LLVM copies the text, which has this length.
    unsafe { LLVMAppendModuleInlineAsm(module.as_mut_ptr(), text.as_ptr().cast(), text.len()) };
}

/// Bytes as a directive of an assembler.
pub fn byte_string(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!(".ascii \"{escaped}\"\n")
}

/// A position in a function under construction.
pub struct Ir<'a, 'c> {
    /// Owner of types and constants.
    pub context: &'c Context,
    /// Module under construction.
    pub module: &'a Module<'c>,
    /// Insertion point.
    pub builder: Builder<'c>,
}

impl<'a, 'c> Ir<'a, 'c> {
    /// An emitter without a position.
    pub fn new(context: &'c Context, module: &'a Module<'c>) -> Ir<'a, 'c> {
        Ir { context, module, builder: context.create_builder() }
    }

    /// int64.
    pub fn i64(&self, value: i64) -> IntValue<'c> {
        self.context.i64_type().const_int(value as u64, true)
    }

    /// int32.
    pub fn i32(&self, value: i32) -> IntValue<'c> {
        self.context.i32_type().const_int(value as u64, true)
    }

    /// A pointer type.
    pub fn ptr(&self) -> inkwell::types::PointerType<'c> {
        self.context.ptr_type(AddressSpace::default())
    }

    /// `ty`, or a vector of it when `like` is a vector.
    pub fn shaped(
        &self,
        like: BasicValueEnum<'c>,
        ty: impl BasicType<'c>,
    ) -> Result<BasicTypeEnum<'c>> {
        match like {
            BasicValueEnum::VectorValue(v) => {
                Ok(vector_of(ty.as_basic_type_enum(), v.get_type().get_size())?.into())
            }
            _ => Ok(ty.as_basic_type_enum()),
        }
    }

    /// An integer constant of the shape of `like`.
    pub fn int_like(
        &self,
        like: BasicValueEnum<'c>,
        ty: IntType<'c>,
        value: i64,
    ) -> BasicValueEnum<'c> {
        repeat(like, ty.const_int(value as u64, true).into())
    }

    /// A floating-point constant of the shape of `like`.
    pub fn float_like(
        &self,
        like: BasicValueEnum<'c>,
        ty: FloatType<'c>,
        value: f64,
    ) -> BasicValueEnum<'c> {
        repeat(like, ty.const_float(value).into())
    }

    /// A two-operand instruction.
    pub fn binary(
        &self,
        op: InstructionOpcode,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Result<BasicValueEnum<'c>> {
        Ok(self.builder.build_binop(op, a, b, "")?)
    }

    /// A conversion to `ty`, element by element.
    pub fn convert(
        &self,
        op: InstructionOpcode,
        value: BasicValueEnum<'c>,
        ty: impl BasicType<'c>,
    ) -> Result<BasicValueEnum<'c>> {
        let ty = self.shaped(value, ty)?;
        Ok(self.builder.build_cast(op, value, ty, "")?)
    }

    /// Integer comparison.
    pub fn icmp(
        &self,
        op: IntPredicate,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Result<BasicValueEnum<'c>> {
        use BasicValueEnum::{IntValue, VectorValue};
        match (a, b) {
            (IntValue(a), IntValue(b)) => Ok(self.builder.build_int_compare(op, a, b, "")?.into()),
            (VectorValue(a), VectorValue(b)) => {
                Ok(self.builder.build_int_compare(op, a, b, "")?.into())
            }
            _ => Err(CodegenError::new("integer comparison of values that are not integers")),
        }
    }

    /// Floating-point comparison.
    pub fn fcmp(
        &self,
        op: FloatPredicate,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Result<BasicValueEnum<'c>> {
        use BasicValueEnum::{FloatValue, VectorValue};
        match (a, b) {
            (FloatValue(a), FloatValue(b)) => {
                Ok(self.builder.build_float_compare(op, a, b, "")?.into())
            }
            (VectorValue(a), VectorValue(b)) => {
                Ok(self.builder.build_float_compare(op, a, b, "")?.into())
            }
            _ => Err(CodegenError::new("float comparison of values that are not floats")),
        }
    }

    /// `cond ? a : b`; a scalar condition chooses between vectors.
    pub fn select(
        &self,
        cond: BasicValueEnum<'c>,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Result<BasicValueEnum<'c>> {
        match cond {
            BasicValueEnum::IntValue(c) => Ok(self.builder.build_select(c, a, b, "")?),
            BasicValueEnum::VectorValue(c) => Ok(self.builder.build_select(c, a, b, "")?),
            _ => Err(CodegenError::new("a condition that is not a bool")),
        }
    }

    /// `value` in every lane.
    pub fn splat(&self, value: BasicValueEnum<'c>, lanes: u32) -> Result<VectorValue<'c>> {
        let ty = vector_of(value.get_type(), lanes)?;
        if is_const(value) {
            return Ok(const_vector(&vec![value; lanes as usize]));
        }
        let zero = self.i32(0);
        let first = self.builder.build_insert_element(ty.get_poison(), value, zero, "")?;
        let mask = self.context.i32_type().vec_type(lanes).const_zero();
        Ok(self.builder.build_shuffle_vector(first, ty.get_poison(), mask, "")?)
    }

    /// Calls an LLVM intrinsic overloaded on `types`.
    pub fn intrinsic(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'c>],
        args: &[BasicMetadataValueEnum<'c>],
    ) -> Result<CallSiteValue<'c>> {
        let function = Intrinsic::find(name)
            .and_then(|i| i.get_declaration(self.module, types))
            .ok_or_else(|| CodegenError::new(format!("LLVM has no intrinsic {name}")))?;
        Ok(self.builder.build_call(function, args, "")?)
    }

    /// Calls an LLVM intrinsic whose result and operands have one type.
    pub fn pure_intrinsic(
        &self,
        name: &str,
        args: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>> {
        let operands: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|a| (*a).into()).collect();
        result_of(self.intrinsic(name, &[args[0].get_type()], &operands)?)
    }

    /// The address `ptr + bytes`.
    pub fn offset_bytes(
        &self,
        ptr: PointerValue<'c>,
        bytes: IntValue<'c>,
    ) -> Result<PointerValue<'c>> {
        // SAFETY: a plain (not inbounds) GEP has no precondition; addresses that masked lanes
        // never touch may lie anywhere.
        Ok(unsafe { self.builder.build_gep(self.context.i8_type(), ptr, &[bytes], "")? })
    }

    /// The addresses of the elements of type `element` at `offsets` from `base`.
    pub fn lane_addresses(
        &self,
        element: BasicTypeEnum<'c>,
        base: PointerValue<'c>,
        offsets: VectorValue<'c>,
    ) -> Result<VectorValue<'c>> {
        self.here()?;
        let mut index = offsets.as_value_ref();
        // SAFETY: the builder is positioned, all references belong to its context, and a GEP
        // with one vector index is a vector of pointers. inkwell only has the scalar form.
        let lanes = unsafe {
            VectorValue::new(LLVMBuildGEP2(
                self.builder.as_mut_ptr(),
                element.as_type_ref(),
                base.as_value_ref(),
                &raw mut index,
                1,
                c"".as_ptr(),
            ))
        };
        Ok(lanes)
    }

    /// Gives a parameter an attribute without a value.
    pub fn mark_parameter(&self, function: FunctionValue<'c>, parameter: u32, attribute: &str) {
        let kind = Attribute::get_named_enum_kind_id(attribute);
        let attribute = self.context.create_enum_attribute(kind, 0);
        function.add_attribute(AttributeLoc::Param(parameter), attribute);
    }

    /// Appends a block to `function`.
    pub fn block(
        &self,
        function: FunctionValue<'c>,
        name: &str,
    ) -> inkwell::basic_block::BasicBlock<'c> {
        self.context.append_basic_block(function, name)
    }

    /// The block instructions are appended to.
    pub fn here(&self) -> Result<inkwell::basic_block::BasicBlock<'c>> {
        self.builder
            .get_insert_block()
            .ok_or_else(|| CodegenError::new("the builder has no position"))
    }
}

/// The result of a call; an error when it returns void.
pub fn result_of<'c>(call: CallSiteValue<'c>) -> Result<BasicValueEnum<'c>> {
    call.try_as_basic_value().basic().ok_or_else(|| CodegenError::new("the call has no result"))
}

/// A vector type.
pub fn vector_of<'c>(ty: BasicTypeEnum<'c>, lanes: u32) -> Result<VectorType<'c>> {
    match ty {
        BasicTypeEnum::IntType(t) => Ok(t.vec_type(lanes)),
        BasicTypeEnum::FloatType(t) => Ok(t.vec_type(lanes)),
        BasicTypeEnum::PointerType(t) => Ok(t.vec_type(lanes)),
        _ => Err(CodegenError::new("a vector of something that is not a scalar")),
    }
}

/// The type of one lane.
pub fn element_of(ty: BasicTypeEnum<'_>) -> BasicTypeEnum<'_> {
    match ty {
        BasicTypeEnum::VectorType(v) => v.get_element_type(),
        other => other,
    }
}

/// A vector of constants.
pub fn const_vector<'c>(values: &[BasicValueEnum<'c>]) -> VectorValue<'c> {
    VectorType::const_vector(values)
}

fn is_const(value: BasicValueEnum<'_>) -> bool {
    match value {
        BasicValueEnum::IntValue(v) => v.is_const(),
        BasicValueEnum::FloatValue(v) => v.is_const(),
        _ => false,
    }
}

fn repeat<'c>(like: BasicValueEnum<'c>, value: BasicValueEnum<'c>) -> BasicValueEnum<'c> {
    match like {
        BasicValueEnum::VectorValue(v) => {
            const_vector(&vec![value; v.get_type().get_size() as usize]).into()
        }
        _ => value,
    }
}
