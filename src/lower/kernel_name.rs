//! Kernels by another name: equal kernels of two models are one entry of the cache.
//!
//! A program names its kernels, and code has that name in its symbols and in the messages of its packed entry. The cache
//! keeps code that was generated under a name that stands for all of about a length. What is found there gets the
//! kernel's own name: texts end in a NUL, so a shorter name moves the rest of its text to the left, and no offset changes.
//!
//! Decision: docs/decisions/0095-names-of-cached-kernels.md

use std::ops::Range;
use std::sync::Arc;

use reflex_tir::PrimFunc;
use reflex_tir::abi::scalar_vars;
use reflex_tir::argument_checks::ARGUMENTS_SECTION;
use reflex_tir::codegen::{KernelTier, ObjectFile};

/// Names of up to this many bytes have one stand-in, those of up to twice as many the next.
const STEP: usize = 16;

/// The name that stands for `name`, which is no name of a function.
pub(crate) fn stand_in(name: &str) -> String {
    let len = name.len().max(1).next_multiple_of(STEP);
    format!("{:$<len$}", "$kernel")
}

/// The function by the name that stands for its own, whose symbolic dimensions have no names.
pub(crate) fn nameless(func: &PrimFunc) -> PrimFunc {
    let mut func = func.clone();
    func.name = stand_in(&func.name);
    for dim in scalar_vars(&func).split_off(func.params.len() - func.buffer_params().count()) {
        func.vars[dim].name = Arc::default();
    }
    func
}

/// Gives code that was generated under the name that stands for `name` that name. `None` where something other than a
/// text has the bytes of the stand-in.
pub(crate) fn renamed(mut object: ObjectFile, name: &str) -> Option<ObjectFile> {
    let stand_in = stand_in(name);
    if finds(&object.elf, stand_in.as_bytes()).next().is_some() {
        for section in texts(&object.elf, object.tier)? {
            rename(&mut object.elf[section], stand_in.as_bytes(), name.as_bytes());
        }
        if finds(&object.elf, stand_in.as_bytes()).next().is_some() {
            return None;
        }
    }
    object.signature.name.clear();
    object.signature.name.push_str(name);
    Some(object)
}

/// Where `wanted` begins in `bytes`.
fn finds(bytes: &[u8], wanted: &[u8]) -> impl Iterator<Item = usize> {
    let (first, windows) = (wanted[0], bytes.len().saturating_sub(wanted.len() - 1));
    let starts = bytes[..windows].iter().enumerate().filter(move |(_, byte)| **byte == first);
    starts.map(|(at, _)| at).filter(move |at| bytes[*at..].starts_with(wanted))
}

/// Replaces a name by one that is not longer in texts that end in a NUL.
fn rename(texts: &mut [u8], from: &[u8], to: &[u8]) {
    let mut places: Vec<usize> = finds(texts, from).collect();
    // From the last one on: a text may have two, of which the first one moves the second.
    places.reverse();
    for at in places {
        let end = texts[at..].iter().position(|byte| *byte == 0).map_or(texts.len(), |n| at + n);
        texts[at..at + to.len()].copy_from_slice(to);
        texts.copy_within(at + from.len()..end, at + to.len());
        texts[end - (from.len() - to.len())..end].fill(0);
    }
}

const SHT_PROGBITS: u64 = 1;
const SHT_STRTAB: u64 = 3;
const SHF_ALLOC: u64 = 2;
const SHF_STRINGS: u64 = 0x20;

/// The sections of a relocatable object that the name is in: names, and messages. Cranelift's objects have messages in
/// the only section of constant data, beside what describes arguments; LLVM's have descriptions in a section of their own.
fn texts(elf: &[u8], tier: KernelTier) -> Option<Vec<Range<usize>>> {
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let place = |at: usize| usize::try_from(number(at, 8)?).ok();
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (place(0x28)?, number(0x3a, 2)? as usize, number(0x3c, 2)? as usize);
    elf.get(table..table.checked_add(count * size)?)?;
    let names = place(table + number(0x3e, 2)? as usize * size + 0x18)?;
    let describes_arguments = |name: u64| {
        let start = usize::try_from(name).ok().and_then(|name| names.checked_add(name));
        let name = start.and_then(|start| elf.get(start..)).unwrap_or_default();
        name.strip_prefix(ARGUMENTS_SECTION.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut found = vec![];
    for header in (0..count).map(|n| table + n * size) {
        let (kind, flags) = (number(header + 4, 4)?, number(header + 8, 8)?);
        let constants = tier == KernelTier::Baseline && flags == SHF_ALLOC;
        let has_texts =
            flags & SHF_STRINGS != 0 || constants || describes_arguments(number(header, 4)?);
        if kind == SHT_STRTAB || kind == SHT_PROGBITS && has_texts {
            let (start, length) = (place(header + 0x18)?, place(header + 0x20)?);
            let range = start..start.checked_add(length)?;
            elf.get(range.clone())?;
            found.push(range);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reflex_tir::abi::raw_signature;

    #[test]
    fn names_of_about_a_length_have_one_stand_in() {
        assert_eq!(stand_in("add"), stand_in("multiply3"));
        assert_ne!(stand_in("add"), stand_in("fused_multiply_add"));
        for length in [1, 15, 16, 17, 32, 40] {
            let stand_in = stand_in(&"n".repeat(length));
            assert!(stand_in.len() >= length && stand_in.len() < length + STEP);
        }
    }

    #[test]
    fn texts_keep_where_they_begin_and_end() {
        let from = stand_in("add");
        let text = format!("a\0__tvm_ffi_{from}\0{from}: argument 0 of {from}, got \0z{from}\0");
        let mut bytes = text.clone().into_bytes();
        rename(&mut bytes, from.as_bytes(), b"add");
        assert_eq!(bytes.len(), text.len());
        let read = |at: usize| {
            let rest = &bytes[at..];
            let end = rest.iter().position(|byte| *byte == 0).unwrap();
            std::str::from_utf8(&rest[..end]).unwrap()
        };
        let starts: Vec<usize> = std::iter::once(0)
            .chain(text.match_indices('\0').map(|(at, _)| at + 1))
            .filter(|at| *at < text.len())
            .collect();
        let texts: Vec<&str> = starts.into_iter().map(read).collect();
        assert_eq!(texts, ["a", "__tvm_ffi_add", "add: argument 0 of add, got ", "zadd"]);
    }

    #[test]
    fn objects_with_the_bytes_elsewhere_are_refused() {
        let (stand_in, tier) = (stand_in("add"), KernelTier::Optimised);
        let object = |elf: Vec<u8>| {
            let signature = raw_signature(&PrimFunc::new(&*stand_in));
            renamed(ObjectFile { signature, tier, elf, asm: None, micros: 0 }, "add")
        };
        assert_eq!(object(vec![1, 2]).unwrap().signature.name, "add");
        assert!(object(stand_in.clone().into_bytes()).is_none());
        // A header whose section table is outside, and one without sections.
        for table in [u64::MAX, 64] {
            let mut elf = b"\x7fELF\x02\x01".to_vec();
            elf.resize(0x28, 0);
            elf.extend(table.to_le_bytes());
            elf.resize(0x3a, 0);
            elf.extend([64, 0, 1, 0]);
            elf.extend(stand_in.as_bytes());
            assert!(object(elf).is_none());
        }
    }
}
