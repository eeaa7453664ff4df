//! Functions that all kernels have, compiled once in a process for each target and copied into each module as text of an
//! assembler: an object needs nothing of the process that compiled it.
//!
//! Decision: docs/decisions/0113-shared-code-in-llvm-objects.md

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::{Linkage, Module};
use inkwell::targets::TargetMachine;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, IntValue};
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex,
    SectionKind, SymbolKind,
};
use reflex_tir::codegen::{Arch, CpuTarget, OptLevel};

use crate::cpu::target_machine;
use crate::emit::Emitter;
use crate::emit::ir::{append_assembly, byte_string, result_of};
use crate::error::{CodegenError, Result};
use crate::passes;

/// The functions; see the file.
const PRELUDE: &str = include_str!("prelude.ll");

/// An empty module for a kernel; for WebAssembly, one that has the functions.
pub fn module<'c>(context: &'c Context, name: &str, target: &CpuTarget) -> Result<Module<'c>> {
    if target.arch() != Some(Arch::Wasm32) {
        return Ok(context.create_module(name));
    }
    let module = prelude(context)?;
    module.set_name(name);
    Ok(module)
}

/// Adds the functions to a module that does not have them.
pub fn add<'c>(
    module: &Module<'c>,
    machine: &TargetMachine,
    target: &CpuTarget,
    opt: OptLevel,
) -> Result<()> {
    type Texts = HashMap<(CpuTarget, OptLevel), Arc<str>>;
    static TEXTS: Mutex<Option<Texts>> = Mutex::new(None);
    if target.arch() == Some(Arch::Wasm32) {
        return Ok(());
    }
    let key = (target.clone(), opt);
    // A panic while one was added leaves the others as they are.
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.get_or_insert_default();
    let text = match texts.get(&key) {
        Some(text) => text.clone(),
        None => {
            let text = assembly(machine, target, opt)?;
            texts.insert(key, text.clone());
            text
        }
    };
    append_assembly(module, &text);
    Ok(())
}

fn prelude(context: &Context) -> Result<Module<'_>> {
    let text = MemoryBuffer::create_from_memory_range_copy(PRELUDE.as_bytes(), "prelude");
    Ok(context.create_module_from_ir(text)?)
}

/// The functions for a target, as machine code.
fn assembly(machine: &TargetMachine, target: &CpuTarget, opt: OptLevel) -> Result<Arc<str>> {
    let context = Context::create();
    let module = prelude(&context)?;
    for function in module.get_functions().filter(|f| f.count_basic_blocks() > 0) {
        target_machine::set_attributes(&context, function, target);
        // Nothing calls it here.
        function.set_linkage(Linkage::External);
        // A table of jumps would refer back from data to code.
        let no_tables = context.create_string_attribute("no-jump-tables", "true");
        function.add_attribute(AttributeLoc::Function, no_tables);
    }
    passes::optimise(&module, machine, opt, passes::FOR_CPU)?;
    let elf = target_machine::object(&module, machine)?;
    Ok(text_of(&elf)?.into())
}

/// The sections of an object as text of an assembler, with its functions as local labels. It is read
/// many times, and bytes are read faster than instructions.
fn text_of(elf: &[u8]) -> Result<String> {
    let file = object::File::parse(elf)?;
    let used = |section: &object::Section<'_, '_>| {
        matches!(
            section.kind(),
            SectionKind::Text | SectionKind::ReadOnlyData | SectionKind::ReadOnlyString
        )
    };
    let mut text = String::new();
    for section in file.sections().filter(used) {
        let (index, bytes) = (section.index(), section.data()?);
        let kind = if section.kind() == SectionKind::Text { ".text" } else { ".section .rodata" };
        let label = label(index);
        text += &format!("{kind}\n.p2align {}\n{label}:\n", section.align().max(1).ilog2());
        let is_function = |s: &object::Symbol<'_, '_>| {
            s.kind() == SymbolKind::Text && s.section_index() == Some(index)
        };
        let mut functions: Vec<_> = file.symbols().filter(is_function).collect();
        functions.sort_by_key(ObjectSymbol::address);
        let mut at = 0;
        for function in functions {
            let (begin, name) = (function.address() as usize, function.name()?);
            text += &byte_string(bytes.get(at..begin).unwrap_or_default());
            text +=
                &format!(".type {name},@function\n.size {name}, {}\n{name}:\n", function.size());
            at = begin;
        }
        text += &byte_string(bytes.get(at..).unwrap_or_default());
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                return Err(CodegenError::new("a relocation to no symbol in shared code"));
            };
            let symbol = file.symbol_by_index(symbol)?;
            let to = match symbol.section_index() {
                Some(section) => format!("{}+{}", self::label(section), symbol.address()),
                None => symbol.name()?.to_owned(),
            };
            let name = relocation_name(relocation.flags())?;
            let addend = relocation.addend();
            text += &format!(".reloc {label}+{offset}, {name}, {to}+{addend}\n");
        }
    }
    Ok(text)
}

/// The label of a section.
fn label(section: SectionIndex) -> String {
    format!(".Lreflex.section{}", section.0)
}

/// The name that assemblers have for a relocation.
fn relocation_name(flags: RelocationFlags) -> Result<&'static str> {
    use object::elf;
    let RelocationFlags::Elf { r_type } = flags else {
        return Err(CodegenError::new("a relocation that is not ELF's"));
    };
    // The numbers of the two architectures do not overlap.
    Ok(match r_type {
        elf::R_X86_64_PC32 => "R_X86_64_PC32",
        elf::R_X86_64_PLT32 => "R_X86_64_PLT32",
        elf::R_AARCH64_CALL26 => "R_AARCH64_CALL26",
        elf::R_AARCH64_ADR_PREL_PG_HI21 => "R_AARCH64_ADR_PREL_PG_HI21",
        elf::R_AARCH64_ADD_ABS_LO12_NC => "R_AARCH64_ADD_ABS_LO12_NC",
        other => return Err(CodegenError::new(format!("relocation {other} in shared code"))),
    })
}

/// The type of an integer or a pointer.
fn type_of<'c>(arg: &BasicMetadataValueEnum<'c>) -> BasicMetadataTypeEnum<'c> {
    match arg {
        BasicMetadataValueEnum::IntValue(value) => value.get_type().into(),
        other => other.into_pointer_value().get_type().into(),
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Calls a function that all kernels have, and returns its status.
    pub(super) fn call_shared(
        &self,
        name: &str,
        args: &[BasicMetadataValueEnum<'c>],
    ) -> Result<IntValue<'c>> {
        let function = self.ir.module.get_function(name).unwrap_or_else(|| {
            let params: Vec<_> = args.iter().map(type_of).collect();
            let signature = self.ir.context.i32_type().fn_type(&params, false);
            self.ir.module.add_function(name, signature, None)
        });
        Ok(result_of(self.ir.builder.build_call(function, args, "")?)?.into_int_value())
    }
}
