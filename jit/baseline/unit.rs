//! The object of one kernel under construction: its functions, texts and imports.

use std::collections::HashMap;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, Function, Signature, Type, types};
use cranelift_codegen::isa::CallConv;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule};
use reflex_tir::PrimFunc;
use reflex_tir::codegen::CpuTarget;

use crate::effort::Effort;
use crate::error::{BaselineError, Result};
use crate::micro_kernel::{Form, TileForm, Units, assemble, assemble_tiles};
use crate::target;

/// The object of one kernel.
pub struct Unit<'f> {
    /// The kernel.
    pub func: &'f PrimFunc,
    /// The CPU that the kernel is for.
    pub cpu: &'f CpuTarget,
    /// The care that is taken of it.
    pub effort: Effort,
    /// Cranelift's side of the object.
    pub module: ObjectModule,
    /// Functions that other kernels have too, by name.
    pub copied: HashMap<String, FuncId>,
    /// Whether the CPU has what vectors of four lanes need.
    pub has_vectors: bool,
    /// The units of micro-kernels, if the CPU has them.
    pub units: Option<Units>,
    micro_kernels: HashMap<Form, FuncId>,
    tiles: HashMap<TileForm, FuncId>,
    texts: HashMap<String, DataId>,
    /// Variables that keep packed functions, by name.
    kept: HashMap<String, DataId>,
    /// Parallel loops so far.
    parts: u32,
    /// Assembly so far, if wanted.
    asm: Option<String>,
}

impl<'f> Unit<'f> {
    /// An empty object.
    pub fn new(
        func: &'f PrimFunc,
        cpu: &'f CpuTarget,
        effort: Effort,
        wants_asm: bool,
    ) -> Result<Unit<'f>> {
        let isa = target::of(cpu, effort)?;
        let builder = ObjectBuilder::new(isa, func.name.as_str(), default_libcall_names())?;
        Ok(Unit {
            func,
            cpu,
            effort,
            module: ObjectModule::new(builder),
            copied: HashMap::new(),
            has_vectors: target::has_vectors(cpu),
            units: Units::of(cpu),
            micro_kernels: HashMap::new(),
            tiles: HashMap::new(),
            texts: HashMap::new(),
            kept: HashMap::new(),
            parts: 0,
            asm: wants_asm.then(String::new),
        })
    }

    /// Relocatable ELF, and the assembly if it is wanted.
    pub fn finish(self) -> Result<(Vec<u8>, Option<String>)> {
        let elf = self.module.finish().emit();
        Ok((elf.map_err(|error| BaselineError::new(error.to_string()))?, self.asm))
    }

    /// A C function's signature.
    pub fn signature(params: &[Type], returns: &[Type]) -> Signature {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.extend(params.iter().map(|ty| AbiParam::new(*ty)));
        signature.returns.extend(returns.iter().map(|ty| AbiParam::new(*ty)));
        signature
    }

    /// Declares a function that is to be defined.
    pub fn declare(
        &mut self,
        name: &str,
        linkage: Linkage,
        signature: &Signature,
    ) -> Result<FuncId> {
        Ok(self.module.declare_function(name, linkage, signature)?)
    }

    /// Defines a function that is declared.
    pub fn define(&mut self, name: &str, id: FuncId, function: Function) -> Result<()> {
        let mut context = Context::for_function(function);
        context.set_disasm(self.asm.is_some());
        self.module.define_function(id, &mut context)?;
        let text = context.compiled_code().and_then(|code| code.vcode.as_deref());
        self.add_asm(name, text.unwrap_or_default());
        Ok(())
    }

    /// Adds the assembly of a function, if it is wanted.
    pub fn add_asm(&mut self, name: &str, text: &str) {
        if let Some(asm) = &mut self.asm {
            asm.push_str(&format!("{name}:\n{text}\n"));
        }
    }

    /// The function of a micro-kernel, which takes the address of its words.
    pub fn micro_kernel(&mut self, form: &Form) -> Result<FuncId> {
        if let Some(known) = self.micro_kernels.get(form) {
            return Ok(*known);
        }
        let name = format!("{}.micro_kernel{}", self.func.name, self.micro_kernels.len());
        let id = self.assembled(&name, &assemble(form)?)?;
        self.micro_kernels.insert(form.clone(), id);
        Ok(id)
    }

    /// The function of operations on matrix registers, which takes the address of its words.
    pub fn tiles(&mut self, form: &TileForm) -> Result<FuncId> {
        if let Some(known) = self.tiles.get(form) {
            return Ok(*known);
        }
        let name = format!("{}.tiles{}", self.func.name, self.tiles.len());
        let id = self.assembled(&name, &assemble_tiles(form)?)?;
        self.tiles.insert(form.clone(), id);
        Ok(id)
    }

    /// A function of one pointer, by its machine code.
    fn assembled(&mut self, name: &str, code: &[u8]) -> Result<FuncId> {
        let signature = Unit::signature(&[POINTER], &[]);
        let id = self.declare(name, Linkage::Local, &signature)?;
        self.module.define_function_bytes(id, CODE_ALIGNMENT, code, &[])?;
        if let Some(asm) = &mut self.asm {
            let bytes: Vec<String> = code.iter().map(|b| format!("{b:#04x}")).collect();
            asm.push_str(&format!("{name}:\n  .byte {}\n", bytes.join(", ")));
        }
        Ok(id)
    }

    /// A number for the next parallel loop: loops may share a name, functions may not.
    pub fn next_part(&mut self) -> u32 {
        self.parts += 1;
        self.parts
    }

    /// A NUL-terminated text. A NUL inside of it would end it early, nothing worse.
    pub fn text(&mut self, text: &str) -> Result<DataId> {
        if let Some(known) = self.texts.get(text) {
            return Ok(*known);
        }
        let id = self.module.declare_anonymous_data(false, false)?;
        let mut data = DataDescription::new();
        data.define([text.as_bytes(), &[0]].concat().into_boxed_slice());
        self.module.define_data(id, &data)?;
        self.texts.insert(text.to_owned(), id);
        Ok(id)
    }

    /// The text behind the name of one of these.
    pub fn text_of(&self, id: DataId) -> Option<&str> {
        self.texts.iter().find(|(_, known)| **known == id).map(|(text, _)| text.as_str())
    }

    /// Words that do not change.
    pub fn words(&mut self, words: &[i64]) -> Result<DataId> {
        let id = self.module.declare_anonymous_data(false, false)?;
        let mut data = DataDescription::new();
        data.define(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        data.set_align(8);
        self.module.define_data(id, &data)?;
        Ok(id)
    }

    /// The variable that keeps a packed function once it was looked up, null before.
    pub fn kept_function(&mut self, name: &str) -> Result<DataId> {
        if let Some(known) = self.kept.get(name) {
            return Ok(*known);
        }
        let id = self.module.declare_anonymous_data(true, false)?;
        let mut data = DataDescription::new();
        data.define_zeroinit(8);
        data.set_align(8);
        self.module.define_data(id, &data)?;
        self.kept.insert(name.to_owned(), id);
        Ok(id)
    }

    /// A pointer variable that the loader fills.
    pub fn slot(&mut self, name: &str) -> Result<DataId> {
        Ok(self.module.declare_data(name, Linkage::Import, true, false)?)
    }

    /// A function of the C or mathematics library, or of the host.
    pub fn import(&mut self, name: &str, params: &[Type], returns: &[Type]) -> Result<FuncId> {
        let signature = Unit::signature(params, returns);
        Ok(self.module.declare_function(name, Linkage::Import, &signature)?)
    }
}

/// Bytes that the first instruction of a micro-kernel is aligned to.
const CODE_ALIGNMENT: u64 = 64;

/// The type of pointers.
pub const POINTER: Type = types::I64;
