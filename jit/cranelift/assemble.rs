//! From Cranelift functions to running code: one published piece of code memory per unit.
//!
//! A [`CodeUnit`] is compiled as one; its functions refer to each other directly. Everything outside
//! is reached through pointers that the generated code loads, or through relocations against a
//! [`Symbol`], which are applied when the code is published. Compiled code can therefore be saved
//! in a file.
//!
//! Rejected: `cranelift-jit` (it keeps all code of a module until the module goes, and patches
//! published code; here each unit is freed on its own and never patched).
//!
//! Decision: docs/decisions/0006-cranelift-for-vm-code.md

pub(crate) mod abi;
pub(crate) mod budget;
pub(crate) mod debug_info;
pub(crate) mod relocation;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cranelift_codegen::Context;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, ExternalName, FuncRef, Signature, UserFuncName};
use cranelift_codegen::isa::{self, OwnedTargetIsa, TargetFrontendConfig};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{FinalizedMachReloc, FinalizedRelocTarget};
use reflex_codemem::gdb::Registered;
use reflex_codemem::pages::{Code, CodeSpace, SegmentSizes};
use reflex_vm::program::Program;

use crate::assemble::budget::{CodeBudget, Reservation};
use crate::assemble::debug_info::{DebugListeners, GeneratedFunction, announce};
use crate::assemble::relocation::{Relocation, Symbol, UNIT};
use crate::error::JitError;
use crate::options::TierOptions;

/// Alignment of functions within a unit.
const ALIGN: usize = 16;
/// Alignment of units: displacements of AArch64 may be in pages of 4 KiB.
pub(crate) const UNIT_ALIGN: usize = if cfg!(target_arch = "aarch64") { 4096 } else { ALIGN };
/// Fills the bytes between functions with instructions that trap: `int3`, or AArch64's `udf #0`.
pub(crate) const FILLER: u8 = if cfg!(target_arch = "aarch64") { 0 } else { 0xcc };

/// The target of this process and its name in saved code, if there is code for it.
const HOST: Option<(&str, &str)> = if cfg!(target_arch = "x86_64") {
    Some(("x86_64-unknown-linux-gnu", "x86-64"))
} else if cfg!(target_arch = "aarch64") {
    Some(("aarch64-unknown-linux-gnu", "aarch64"))
} else {
    None
};

/// Instructions of a function of calls above which it is not optimised.
const MOSTLY_CALLS_LIMIT: usize = 400;
/// Instructions per call, exits included, in a function that does little but call.
const INSTRUCTIONS_PER_CALL: usize = 32;

/// Returns true if a function does little but call, which leaves little to optimise.
fn is_mostly_calls(function: &ir::Function) -> bool {
    let layout = &function.layout;
    let usual = layout.blocks().filter(|&block| !layout.is_cold(block));
    let instructions = usual.flat_map(|block| layout.block_insts(block));
    let calls = instructions.filter(|&at| function.dfg.insts[at].opcode().is_call()).count();
    calls * INSTRUCTIONS_PER_CALL >= function.dfg.num_insts()
}

/// Functions that are compiled and published together.
pub(crate) struct CodeUnit {
    /// The properties of the target that function builders use.
    pub(crate) frontend: TargetFrontendConfig,
    /// Most VM operations per machine function of a method.
    pub(crate) body_limit: usize,
    /// The name of the unit in debuggers.
    label: String,
    functions: Vec<Option<ir::Function>>,
}

/// Number of a function within its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitFunc(u32);

impl CodeUnit {
    /// Reserves a number, so that functions can refer to it before it is defined.
    pub(crate) fn declare(&mut self) -> UnitFunc {
        self.functions.push(None);
        UnitFunc(self.functions.len() as u32 - 1)
    }

    /// An empty function to be built and handed to [`CodeUnit::define`].
    pub(crate) fn function(&self, UnitFunc(index): UnitFunc, signature: Signature) -> ir::Function {
        ir::Function::with_name_signature(UserFuncName::user(0, index), signature)
    }

    pub(crate) fn define(&mut self, UnitFunc(index): UnitFunc, function: ir::Function) {
        self.functions[index as usize] = Some(function);
    }

    /// Makes `callee` callable from `function`.
    pub(crate) fn import(
        function: &mut ir::Function,
        UnitFunc(index): UnitFunc,
        signature: Signature,
    ) -> FuncRef {
        let signature = function.import_signature(signature);
        let name = ir::UserExternalName::new(UNIT, index);
        let name = function.declare_imported_user_function(name);
        function.import_function(ir::ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: true,
            patchable: false,
        })
    }

    /// The functions as text, for tests and `inspect`.
    pub(crate) fn text(&self) -> String {
        let functions = self.functions.iter().flatten();
        functions.map(|function| function.display().to_string()).collect::<Vec<_>>().join("\n")
    }
}

/// Compiled functions without an address.
pub(crate) struct CompiledUnit {
    label: String,
    pub(crate) text: Vec<u8>,
    offsets: Vec<usize>,
    pub(crate) relocations: Vec<Relocation>,
    generated: Vec<GeneratedFunction>,
}

impl CompiledUnit {
    /// Code that was compiled earlier, and the offset of each function.
    pub(crate) fn from_text(
        label: impl Into<String>,
        text: Vec<u8>,
        relocations: Vec<Relocation>,
        offsets: Vec<usize>,
    ) -> Self {
        let ends = offsets.iter().skip(1).copied().chain([text.len()]);
        let generated = offsets.iter().zip(ends).map(|(&start, end)| GeneratedFunction {
            start,
            size: end.saturating_sub(start),
            unwind: None,
        });
        let generated = generated.collect();
        Self { label: label.into(), text, offsets, relocations, generated }
    }

    /// The offset of a function of the unit.
    pub(crate) fn offset(&self, UnitFunc(index): UnitFunc) -> usize {
        self.offsets[index as usize]
    }
}

/// Compiled functions, executable for as long as this lives.
#[derive(Debug)]
pub(crate) struct PublishedCode {
    // Declared before the code: it must be unregistered while the code still exists.
    _registration: Option<Registered>,
    code: Code,
    pub(crate) reservation: Arc<Reservation>,
    len: usize,
    offsets: Vec<usize>,
}

impl PublishedCode {
    /// The address of a function of the unit.
    pub(crate) fn address(&self, UnitFunc(index): UnitFunc) -> *const u8 {
        self.at(self.offsets[index as usize])
    }

    /// The address of a byte of the code; null if the offset is outside.
    pub(crate) fn at(&self, offset: usize) -> *const u8 {
        self.code.text_at(offset).map_or(std::ptr::null(), |at| at.as_ptr().cast_const())
    }

    /// All of the code.
    pub(crate) fn text(&self) -> &[u8] {
        self.code.instructions().get(..self.len).unwrap_or_default()
    }

    /// The address of the code, and a copy of it.
    pub(crate) fn copy(&self) -> (usize, Vec<u8>) {
        (self.text().as_ptr().addr(), self.text().to_vec())
    }

    /// Bytes of code.
    pub(crate) fn size(&self) -> usize {
        self.len
    }
}

/// Compiles units for the processor of this process.
pub(crate) struct Assembler {
    isa: OwnedTargetIsa,
    /// Compiles in a third of the time, for long functions that gain little from optimisation.
    quick: OwnedTargetIsa,
    /// Instructions of a function above which `quick` compiles it.
    optimise_limit: usize,
    /// Most VM operations per machine function of a method.
    body_limit: usize,
    space: Arc<CodeSpace>,
    /// The code-cache budget.
    pub(crate) budget: Arc<CodeBudget>,
    /// Functions that Cranelift has compiled.
    translated: AtomicUsize,
}

impl Assembler {
    /// An assembler with the limits of a tier.
    pub(crate) fn new(options: &TierOptions) -> Result<Self, JitError> {
        let (isa, quick) = targets()?;
        let (space, budget) = (CodeSpace::shared()?, CodeBudget::new(options.code_cache_limit));
        let TierOptions { optimise_limit, body_limit, .. } = *options;
        let translated = AtomicUsize::new(0);
        Ok(Self { isa, quick, optimise_limit, body_limit, space, budget, translated })
    }

    /// An empty unit for this target; debuggers know its functions by `label`.
    pub(crate) fn unit(&self, label: impl Into<String>) -> CodeUnit {
        let (frontend, label) = (self.isa.frontend_config(), label.into());
        CodeUnit { frontend, body_limit: self.body_limit, label, functions: Vec::new() }
    }

    /// The processor features that the code requires, as text.
    pub(crate) fn level(&self) -> String {
        let flags = self.isa.isa_flags();
        let flags = flags.iter().filter(|flag| flag.as_bool() == Some(true)).map(|flag| flag.name);
        let names: Vec<&str> = HOST.map(|(_, name)| name).into_iter().chain(flags).collect();
        names.join("+")
    }

    /// Functions that Cranelift has compiled so far.
    pub(crate) fn translated(&self) -> usize {
        self.translated.load(Ordering::Relaxed)
    }

    /// Compiles every function of the unit.
    pub(crate) fn assemble(&self, unit: CodeUnit) -> Result<CompiledUnit, JitError> {
        self.translated.fetch_add(unit.functions.len(), Ordering::Relaxed);
        let mut text = Vec::new();
        let mut offsets = Vec::with_capacity(unit.functions.len());
        let (mut fixups, mut generated) = (Vec::new(), Vec::new());
        let mut relocations = Vec::new();
        for function in unit.functions {
            let function =
                function.ok_or_else(|| JitError::backend("a declared function was not defined"))?;
            text.resize(usize::next_multiple_of(text.len(), ALIGN), FILLER);
            let start = text.len();
            offsets.push(start);
            let count = function.dfg.num_insts();
            let long = count > self.optimise_limit
                || count > MOSTLY_CALLS_LIMIT && is_mostly_calls(&function);
            let isa = if long { &*self.quick } else { &*self.isa };
            let mut context = Context::for_function(function);
            let compiled = context
                .compile(isa, &mut ControlPlane::default())
                .map_err(|error| JitError::backend(format!("{:?}", error.inner)))?;
            text.extend_from_slice(compiled.code_buffer());
            let (size, unwinds) = (text.len() - start, DebugListeners::of_process().unwinds());
            let unwind = match unwinds {
                true => compiled.create_unwind_info(isa),
                false => Ok(None),
            };
            let unwind = unwind.map_err(|error| JitError::backend(error.to_string()))?;
            generated.push(GeneratedFunction { start, size, unwind });
            let params = &context.func.params;
            for relocation in context.compiled_code().into_iter().flat_map(|c| c.buffer.relocs()) {
                match symbol_relocation(start, relocation, params)? {
                    Some(found) => relocations.push(found),
                    None => fixups.push(Fixup::of(start, relocation, params)?),
                }
            }
        }
        for fixup in &fixups {
            fixup.apply(&mut text, &offsets)?;
        }
        Ok(CompiledUnit { label: unit.label, text, offsets, relocations, generated })
    }

    /// Applies the relocations of compiled code and publishes it. `program` is the program that the
    /// code belongs to, if any.
    pub(crate) fn publish(
        &self,
        assembled: CompiledUnit,
        program: Option<&Program>,
    ) -> Result<PublishedCode, JitError> {
        let reservation = self.budget.reserve(assembled.text.len())?;
        self.publish_reserved(reservation, assembled, program)
    }

    /// [`Assembler::publish`] within a reservation of the budget.
    pub(crate) fn publish_reserved(
        &self,
        reservation: Arc<Reservation>,
        assembled: CompiledUnit,
        program: Option<&Program>,
    ) -> Result<PublishedCode, JitError> {
        let CompiledUnit { label, mut text, offsets, relocations, generated } = assembled;
        for relocation in relocations {
            let word = program.and_then(|program| relocation.symbol.value(program));
            let filled = word.and_then(|word| relocation.apply(&mut text, word));
            filled.ok_or_else(|| {
                JitError::backend(format!("no value for {:?}", relocation.symbol))
            })?;
        }
        let mut draft =
            self.space.draft(&SegmentSizes { text: text.len(), ..SegmentSizes::default() })?;
        let at = draft.text().start;
        draft.bytes_mut()[at..at + text.len()].copy_from_slice(&text);
        let code = draft.publish()?;
        debug_assert!(code.text().start.is_multiple_of(UNIT_ALIGN), "units begin at pages");
        let registration = announce(&*self.isa, &label, code.text(), &generated)?;
        Ok(PublishedCode {
            _registration: registration,
            code,
            reservation,
            len: text.len(),
            offsets,
        })
    }
}

/// The targets for optimised and for quick compilation, created once per process.
fn targets() -> Result<(OwnedTargetIsa, OwnedTargetIsa), JitError> {
    static TARGETS: OnceLock<(OwnedTargetIsa, OwnedTargetIsa)> = OnceLock::new();
    if let Some(targets) = TARGETS.get() {
        return Ok(targets.clone());
    }
    let fresh = (target("speed", "backtracking")?, target("none", "single_pass")?);
    Ok(TARGETS.get_or_init(|| fresh).clone())
}

/// The processor of this process, with an optimisation level and a register allocator.
fn target(opt_level: &str, regalloc: &str) -> Result<OwnedTargetIsa, JitError> {
    let Some((triple, _)) = HOST else {
        return Err(JitError::backend("machine code of VM functions is for x86-64 and AArch64"));
    };
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) { "true" } else { "false" };
    let set = [
        ("opt_level", opt_level),
        ("regalloc_algorithm", regalloc),
        ("enable_verifier", verify),
        ("unwind_info", if DebugListeners::of_process().unwinds() { "true" } else { "false" }),
        ("preserve_frame_pointers", "true"),
    ];
    for (name, value) in set {
        flags.set(name, value).map_err(|error| JitError::backend(error.to_string()))?;
    }
    let builder = isa::lookup_by_name(triple);
    let builder = builder.map_err(|error| JitError::backend(error.to_string()))?;
    let isa = builder.finish(settings::Flags::new(flags));
    isa.map_err(|error| JitError::backend(error.to_string()))
}

impl std::fmt::Debug for Assembler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembler").field("target", &self.isa.triple().to_string()).finish()
    }
}

/// The relocation against a symbol; `None` if it refers to the unit itself.
fn symbol_relocation(
    start: usize,
    relocation: &FinalizedMachReloc,
    params: &ir::function::FunctionParameters,
) -> Result<Option<Relocation>, JitError> {
    let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = &relocation.target else {
        return Ok(None);
    };
    let Some(symbol) = Symbol::from_name(&params.user_named_funcs()[*name]) else {
        return Ok(None);
    };
    match (relocation.kind, relocation.addend) {
        (Reloc::Abs8, 0) => {
            let at = u32::try_from(start + relocation.offset as usize);
            let at = at.map_err(|_| JitError::backend("a unit exceeds 4 GiB"))?;
            Ok(Some(Relocation { at, symbol }))
        }
        (kind, _) => Err(JitError::backend(format!("relocation {kind:?} of {symbol:?}"))),
    }
}

/// A fixup: the displacement to a function or offset of the same unit.
struct Fixup {
    at: usize,
    field: Field,
    target: FixupTarget,
    addend: i64,
}

/// The form of a displacement.
///
/// Source: Arm Architecture Reference Manual for A-profile, DDI 0487, section C6.2: `B`, `BL`, `ADRP`, `ADD`.
#[derive(Clone, Copy)]
enum Field {
    /// 32 bits.
    Bytes,
    /// 26 bits of a branch of AArch64, in words.
    Words,
    /// Pages of 4 KiB from that of an `adrp` of AArch64: units begin at [`UNIT_ALIGN`].
    Pages,
    /// The place in its page, which the `add` behind it adds.
    InPage,
}

enum FixupTarget {
    Function(usize),
    Offset(usize),
}

impl Fixup {
    fn of(
        start: usize,
        relocation: &FinalizedMachReloc,
        params: &ir::function::FunctionParameters,
    ) -> Result<Self, JitError> {
        let field = match relocation.kind {
            Reloc::X86PCRel4 | Reloc::X86CallPCRel4 => Field::Bytes,
            Reloc::Arm64Call => Field::Words,
            Reloc::Aarch64AdrPrelPgHi21 => Field::Pages,
            Reloc::Aarch64AddAbsLo12Nc => Field::InPage,
            other => return Err(JitError::backend(format!("relocation {other:?}"))),
        };
        let target = match &relocation.target {
            FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
                FixupTarget::Function(params.user_named_funcs()[*name].index as usize)
            }
            FinalizedRelocTarget::Func(offset) => FixupTarget::Offset(start + *offset as usize),
            other => return Err(JitError::backend(format!("reference to {other:?}"))),
        };
        Ok(Self {
            at: start + relocation.offset as usize,
            field,
            target,
            addend: relocation.addend,
        })
    }

    fn apply(&self, text: &mut [u8], offsets: &[usize]) -> Result<(), JitError> {
        let target = match self.target {
            FixupTarget::Function(index) => offsets[index],
            FixupTarget::Offset(offset) => offset,
        };
        let value = target as i64 + self.addend - self.at as i64;
        let [a, b, c, d] = text[self.at..self.at + 4] else { unreachable!("four bytes") };
        let word = u32::from_le_bytes([a, b, c, d]);
        let filled = match self.field {
            Field::Bytes => {
                i32::try_from(value).map_err(|_| JitError::backend("a unit exceeds 2 GiB"))? as u32
            }
            Field::Words => {
                within(value, 128 << 20)?;
                word & 0xfc00_0000 | (value >> 2) as u32 & 0x03ff_ffff
            }
            Field::Pages => {
                let page = |at: i64| at >> 12;
                let pages = page(target as i64 + self.addend) - page(self.at as i64);
                within(pages, 1 << 20)?;
                let (low, high) = (pages as u32 & 3, (pages >> 2) as u32 & 0x7_ffff);
                word & 0x9f00_001f | low << 29 | high << 5
            }
            Field::InPage => {
                let place = (target as i64 + self.addend) as u32 & 0xfff;
                word & 0xffc0_03ff | place << 10
            }
        };
        text[self.at..self.at + 4].copy_from_slice(&filled.to_le_bytes());
        Ok(())
    }
}

/// Refuses a displacement that an instruction of this reach does not have.
fn within(value: i64, reach: i64) -> Result<(), JitError> {
    match (-reach..reach).contains(&value) {
        true => Ok(()),
        false => {
            Err(JitError::backend(format!("a unit's displacement of {value} exceeds {reach}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(field: Field, at: usize, opcode: u32, target: usize) -> Result<u32, JitError> {
        let mut text = vec![0; at + 4];
        text[at..].copy_from_slice(&opcode.to_le_bytes());
        let fixup = Fixup { at, field, target: FixupTarget::Offset(target), addend: 0 };
        fixup.apply(&mut text, &[])?;
        let word = text.last_chunk::<4>().expect("four bytes");
        Ok(u32::from_le_bytes(*word))
    }

    /// The words that the GNU assembler and linker make of `adrp x3, target; add x3, x3, :lo12:target; bl`.
    #[test]
    fn displacements_of_aarch64_are_those_of_an_assembler() {
        for (field, at, opcode, target, expected) in [
            (Field::Pages, 0xff8, 0x9000_0003, 0x2010, 0xd000_0003),
            (Field::InPage, 0xffc, 0x9100_0063, 0x2010, 0x9100_4063),
            (Field::Words, 0x1000, 0x9400_0000, 0, 0x97ff_fc00),
            (Field::Words, 0x1004, 0x9400_0000, 0x2010, 0x9400_0403),
        ] {
            let word = filled(field, at, opcode, target).expect("in reach");
            assert_eq!(word, expected, "at {at:x}");
        }
        let error = filled(Field::Words, 0, 0x9400_0000, 128 << 20).expect_err("out of reach");
        assert!(error.to_string().contains("exceeds 134217728"), "{error}");
    }
}
