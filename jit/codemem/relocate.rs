//! Loads relocatable objects into executable memory.
//!
//! An object comes from the code generator, from the kernel cache or from an artifact; in every
//! case its bytes are treated as hostile. What it may import is a closed list given by the
//! caller. Calls to imports go through stubs, so the distance to the C library never matters.
//!
//! Rejected: `dlopen` of a temporary file (needs a file system, never unloads, and puts kernels in
//! the global namespace); registering unwind tables (no unwinding crosses a kernel: errors are
//! values, and callbacks catch panics before they return into generated code).

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{CodeError, CodeErrorKind};
use crate::imports::Imports;
use crate::link::{
    Absolute, AbsoluteTarget, Export, Import, LinkRules, LinkedImage, Segment, Width,
};
use crate::machine::Machine;
use crate::object_file::ObjectFile;
use crate::pages::{Code, CodeSpace, SegmentSizes};
use crate::resolve;

/// Objects linked into executable memory. The code is freed when this is dropped.
#[derive(Debug)]
pub struct LoadedObject {
    symbols: BTreeMap<String, Entry>,
    /// Functions that only their object names.
    locals: Vec<(String, Entry)>,
    // Owns the memory that the addresses above point into.
    _code: Code,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: NonNull<u8>,
    size: usize,
    function: bool,
}

// SAFETY: the addresses point into `_code`, which is itself `Send` and moves along.
unsafe impl Send for LoadedObject {}
// SAFETY: all access through a shared reference reads the symbol table only.
unsafe impl Sync for LoadedObject {}

impl LoadedObject {
    /// Loads one object. `name` is used in messages.
    pub fn load(
        space: &Arc<CodeSpace>,
        name: &str,
        bytes: &[u8],
        imports: &Imports,
    ) -> Result<Self, CodeError> {
        Self::link(space, &[(name, bytes)], imports)
    }

    /// Loads several objects that may refer to each other's symbols.
    pub fn link(
        space: &Arc<CodeSpace>,
        objects: &[(&str, &[u8])],
        imports: &Imports,
    ) -> Result<Self, CodeError> {
        let files = objects
            .iter()
            .map(|(name, bytes)| ObjectFile::parse(name, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let import = |name: &str| {
            let slot = imports.slot_value(name).map(|_| Import::Slot);
            slot.or_else(|| imports.function_address(name).map(|_| Import::Function))
        };
        let (machine, relro) = (Machine::HOST, Segment::ReadOnly);
        let rules = LinkRules { machine, import: &import, relro };
        let mut image = resolve::gather(&files, &rules)?;
        refuse_unfilled_slots(&image)?;
        let segments = image.layout(0)?;
        let absolutes = image.patch()?;
        let sizes = SegmentSizes {
            read_only: length(segments.read_only)?,
            text: length(segments.text)?,
            data: length(segments.data.start..segments.end)?,
        };
        if sizes == SegmentSizes::default() {
            return Err(CodeError::malformed("the objects hold neither code nor data"));
        }
        let mut draft = space.draft(&sizes)?;
        let base = draft.address();
        let target = draft.bytes_mut();
        for chunk in &image.chunks {
            let at = chunk.address as usize;
            target[at..at + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
        }
        for absolute in &absolutes {
            write_absolute(target, base, absolute, &image, imports)?;
        }
        for (name, &at) in &image.slots {
            fill_slot(target, name, image.address(at), imports)?;
        }
        let code = draft.publish()?;
        let symbols =
            addresses(&image, &code, image.exports.iter().map(|(n, e)| (*n, e))).collect();
        let locals = addresses(&image, &code, image.locals.iter().map(|(n, e)| (*n, e))).collect();
        Ok(Self { symbols, locals, _code: code })
    }

    /// The address of a global symbol. Code behind it may be called for as long as `self` lives.
    pub fn symbol(&self, name: &str) -> Option<NonNull<u8>> {
        self.symbols.get(name).map(|entry| entry.address)
    }

    /// Name, address and size of every function, for profilers and debuggers; those that only
    /// their object names (bodies of parallel loops) come last.
    pub fn functions(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        let local = self.locals.iter().map(|(name, entry)| (name, entry));
        self.symbols
            .iter()
            .chain(local)
            .filter(|(_, entry)| entry.function)
            .map(|(name, entry)| (name.as_str(), entry.address.as_ptr() as usize, entry.size))
    }
}

/// Symbols with their addresses in loaded code.
fn addresses<'i>(
    image: &'i LinkedImage<'_>,
    code: &'i Code,
    symbols: impl Iterator<Item = (&'i str, &'i Export)>,
) -> impl Iterator<Item = (String, Entry)> {
    symbols.filter_map(|(name, export)| {
        let address = code.at(image.address(export.at) as usize)?;
        let entry = Entry { address, size: export.size as usize, function: export.function };
        Some((name.to_owned(), entry))
    })
}

fn length(range: std::ops::Range<u64>) -> Result<usize, CodeError> {
    usize::try_from(range.end - range.start)
        .map_err(|_| CodeError::unsupported("the linked image exceeds the address space"))
}

/// Refuses pointer variables that have no value: kernels would call through null.
fn refuse_unfilled_slots(image: &LinkedImage<'_>) -> Result<(), CodeError> {
    let unfilled = image
        .exports
        .keys()
        .find(|name| crate::imports::is_slot(name) && !image.slots.contains_key(**name));
    match unfilled {
        None => Ok(()),
        Some(name) => Err(CodeError::new(
            CodeErrorKind::UnknownSymbol,
            format!(
                "the objects define pointer variable `{name}`, and nothing is known to fill it"
            ),
        )),
    }
}

fn write_absolute(
    target: &mut [u8],
    base: usize,
    absolute: &Absolute,
    image: &LinkedImage<'_>,
    imports: &Imports,
) -> Result<(), CodeError> {
    let address = match absolute.target {
        AbsoluteTarget::Image(address) => i128::from(address) + base as i128,
        AbsoluteTarget::Import(import) => {
            let name = image.imports[import];
            imports.function_address(name).ok_or_else(|| unknown(name))? as i128
        }
    };
    let value = address + i128::from(absolute.addend);
    let too_large = || {
        CodeError::new(
            CodeErrorKind::OutOfReach,
            format!("{} is at {value:#x}, which its 32-bit field cannot hold", absolute.label),
        )
    };
    let at = absolute.at as usize;
    match absolute.width {
        // Addresses wrap as they do for the hardware.
        Width::Word64 => target[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes()),
        Width::Unsigned32 => {
            let value = u32::try_from(value).map_err(|_| too_large())?;
            target[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        Width::Signed32 => {
            let value = i32::try_from(value).map_err(|_| too_large())?;
            target[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
    Ok(())
}

fn fill_slot(target: &mut [u8], name: &str, at: u64, imports: &Imports) -> Result<(), CodeError> {
    let value = imports.slot_value(name).ok_or_else(|| unknown(name))?;
    let at = at as usize;
    let slot = target.get_mut(at..at + 8).ok_or_else(|| {
        CodeError::malformed(format!("pointer variable `{name}` has less than eight bytes"))
    })?;
    slot.copy_from_slice(&value.to_le_bytes());
    Ok(())
}

fn unknown(name: &str) -> CodeError {
    CodeError::new(CodeErrorKind::UnknownSymbol, format!("symbol `{name}` has no address"))
}
