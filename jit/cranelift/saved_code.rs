//! Saved code: serialised machine code of a program's methods, for a file next to its bytecode.
//!
//! The code contains no address, only relocations. It names the program and the processor that it
//! was compiled for. A tier that loads code which does not fit returns the reason, and compiles.
//! Saved code is trusted like the machine code of a shared library. Loading checks only that it was
//! made for this program and processor, and that its offsets are within bounds.
//!
//! Decision: docs/decisions/0015-saved-code.md

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::Compiled;
use serde::{Deserialize, Serialize};

use crate::assemble::debug_info::DebugListeners;
use crate::assemble::relocation::Relocation;
use crate::assemble::{Assembler, CompiledUnit, FILLER, UNIT_ALIGN};
use crate::error::JitError;
use crate::method::{self, Shown};
use crate::trampolines;

/// First word of saved code; the last digit is the version of the format.
const FORMAT: u32 = 0x5246_4301;

/// The reason why saved code is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedCodeError {
    /// The format is another one.
    Format,
    /// The code was compiled for other bytecode, or by another version.
    Program,
    /// The code was compiled for another kind of processor.
    Processor {
        /// The processor features that the code requires.
        made_for: String,
    },
    /// The bytes are damaged.
    Malformed {
        /// The part that is damaged.
        what: &'static str,
    },
    /// There is no memory for the code.
    CodeMemory,
    /// A debugger needs unwind data, which saved code lacks.
    Debugger,
}

impl fmt::Display for SavedCodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedCodeError::Format => f.write_str("it has another format"),
            SavedCodeError::Program => {
                f.write_str("it was made for other bytecode, or by another version")
            }
            SavedCodeError::Processor { made_for } => write!(f, "it was made for {made_for}"),
            SavedCodeError::Malformed { what } => write!(f, "it is damaged: {what}"),
            SavedCodeError::CodeMemory => f.write_str("there is no memory for code"),
            SavedCodeError::Debugger => f.write_str("a debugger wants unwind data"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct SerialisedCode<'a> {
    level: &'a str,
    program: [u8; 32],
    #[serde(borrow)]
    trampolines: SavedTrampolines<'a>,
    #[serde(borrow)]
    text: &'a [u8],
    relocations: Vec<Relocation>,
    functions: Vec<Function>,
}

#[derive(Serialize, Deserialize)]
struct SavedTrampolines<'a> {
    text: &'a [u8],
    offsets: [u32; trampolines::FUNCTIONS],
}

/// A function of saved code: the offsets of its entry and its loops.
#[derive(Serialize, Deserialize)]
struct Function {
    func: u32,
    entry: u32,
    loops: Vec<(u32, u32)>,
}

/// Saved code that was loaded and published.
#[derive(Debug, Default)]
pub(crate) struct SavedCode {
    /// Code by function: its entry, then its loops.
    pub(crate) functions: HashMap<u32, Vec<(SiteId, Compiled)>>,
    pub(crate) code_bytes: usize,
}

/// Serialises every function of `program` that can be compiled. Returns the bytes and the number of
/// functions.
pub(crate) fn serialise(
    assembler: &Assembler,
    program: &Program,
) -> Result<(Vec<u8>, usize), JitError> {
    let (mut text, mut relocations, mut functions) = (Vec::new(), Vec::new(), Vec::new());
    for code in program.code().functions.iter().flatten().filter(|code| !code.is_foreign) {
        // A function that cannot be compiled stays with the interpreter.
        let Ok(function) = method::compile(assembler.unit(""), program, code, None, Shown::Nothing)
        else {
            continue;
        };
        text.resize(usize::next_multiple_of(text.len(), UNIT_ALIGN), FILLER);
        let start = text.len();
        let assembled = assembler.assemble(function.unit)?;
        let at = |func| offset(start + assembled.offset(func));
        let loops = function.loops.iter().map(|&(SiteId(site), func)| Ok((site, at(func)?)));
        let loops = loops.collect::<Result<_, JitError>>()?;
        functions.push(Function { func: code.index, entry: at(function.entry)?, loops });
        for relocation in &assembled.relocations {
            relocations.push(Relocation {
                at: offset(start + relocation.at as usize)?,
                symbol: relocation.symbol,
            });
        }
        text.extend_from_slice(&assembled.text);
    }
    let (trampoline_text, offsets) = trampolines::text_and_offsets()?;
    let image = SerialisedCode {
        level: &assembler.level(),
        program: program.fingerprint(),
        trampolines: SavedTrampolines { text: trampoline_text, offsets },
        text: &text,
        relocations,
        functions,
    };
    let bytes = postcard::to_extend(&image, FORMAT.to_le_bytes().to_vec());
    let bytes = bytes.map_err(|error| JitError::backend(error.to_string()))?;
    Ok((bytes, image.functions.len()))
}

fn offset(at: usize) -> Result<u32, JitError> {
    u32::try_from(at).map_err(|_| JitError::backend("saved code exceeds 4 GiB"))
}

/// Loads and publishes code that was saved for `program`.
pub(crate) fn load(
    assembler: &Assembler,
    program: &Program,
    bytes: &[u8],
) -> Result<SavedCode, SavedCodeError> {
    let Some((format, bytes)) = bytes.split_first_chunk() else {
        return Err(SavedCodeError::Format);
    };
    if u32::from_le_bytes(*format) != FORMAT {
        return Err(SavedCodeError::Format);
    }
    if DebugListeners::of_process().unwinds() {
        return Err(SavedCodeError::Debugger);
    }
    let image: SerialisedCode<'_> = postcard::from_bytes(bytes)
        .map_err(|_| SavedCodeError::Malformed { what: "its description" })?;
    if image.program != program.fingerprint() {
        return Err(SavedCodeError::Program);
    }
    if image.level != assembler.level() {
        return Err(SavedCodeError::Processor { made_for: image.level.to_owned() });
    }
    trampolines::adopt(image.trampolines.text, image.trampolines.offsets)
        .map_err(|error| incompatible(&error, "its trampolines"))?;
    let offsets = image.functions.iter().map(|function| function.entry as usize).collect();
    let text = image.text.to_vec();
    let code = CompiledUnit::from_text("reflex saved", text, image.relocations, offsets);
    let code = assembler.publish(code, Some(program));
    let code = Arc::new(code.map_err(|error| incompatible(&error, "a relocation"))?);
    let mut saved = SavedCode { functions: HashMap::new(), code_bytes: code.size() };
    for function in &image.functions {
        let known = program.function(function.func).filter(|known| !known.is_foreign);
        let known = known.ok_or(SavedCodeError::Malformed { what: "a function number" })?;
        let mut sites = vec![];
        for (site, at) in function.sites() {
            if !belongs(program, known, site) {
                return Err(SavedCodeError::Malformed { what: "a site" });
            }
            let address = code.at(at as usize);
            if address.is_null() {
                return Err(SavedCodeError::Malformed { what: "an offset" });
            }
            // SAFETY: saved code is trusted like the library it comes with. The fingerprint says
            // that this version compiled it for this program, so it follows the protocol of
            // `reflex_vm::abi`. The owner keeps it mapped.
            sites.push((site, unsafe { Compiled::new(address, Arc::clone(&code) as _) }));
        }
        saved.functions.insert(function.func, sites);
    }
    Ok(saved)
}

impl Function {
    fn sites(&self) -> impl Iterator<Item = (SiteId, u32)> {
        let loops = self.loops.iter().map(|&(site, at)| (SiteId(site), at));
        std::iter::once((SiteId(self.func), self.entry)).chain(loops)
    }
}

fn belongs(program: &Program, func: &FuncCode, SiteId(site): SiteId) -> bool {
    program.code().sites.get(site as usize).is_some_and(|site| site.func == func.index)
}

fn incompatible(error: &JitError, what: &'static str) -> SavedCodeError {
    if error.is_memory() { SavedCodeError::CodeMemory } else { SavedCodeError::Malformed { what } }
}
