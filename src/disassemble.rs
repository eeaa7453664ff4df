//! Assembly of compiled kernels, for `reflex inspect --asm`.

use std::fmt::Write;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction};
use object::{Object as _, ObjectSection, ObjectSymbol, SymbolKind};
use reflex_tir::abi::{PACKED_PREFIX, RAW_PREFIX};
use reflex_tir::codegen::ObjectFile;

use crate::error::{Error, ErrorKind, Result};

/// Every function of a kernel's object, in address order, in AT&T syntax.
pub(crate) fn object(kernel: &ObjectFile) -> Result<String> {
    let failed = |e: object::Error| Error::new(ErrorKind::Compile, e.to_string());
    let file = object::File::parse(&*kernel.elf).map_err(failed)?;
    check(&file)?;
    let mut functions: Vec<_> = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.size() > 0)
        .filter_map(|s| Some((s.section_index()?, s)))
        .collect();
    functions.sort_by_key(|(section, symbol)| (section.0, symbol.address()));
    let mut text = String::new();
    for (section, symbol) in functions {
        let section = file.section_by_index(section).map_err(failed)?;
        let bytes = section.data_range(symbol.address(), symbol.size()).map_err(failed)?;
        let name = symbol.name().map_err(failed)?;
        writeln!(text, "{name}:").expect("writing to a string");
        function(&mut text, bytes.unwrap_or_default(), symbol.address());
    }
    Ok(text)
}

/// A kernel of a compiled library: from each of its entries to the next kernel's, so that the
/// bodies of its parallel loops, which have no names there, are shown too.
pub(crate) fn library(data: &[u8], kernel: &str) -> Result<String> {
    let failed = |e: object::Error| Error::new(ErrorKind::Model, e.to_string());
    let file = object::File::parse(data).map_err(failed)?;
    check(&file)?;
    let mut entries: Vec<_> = file
        .dynamic_symbols()
        .filter(|s| s.kind() == SymbolKind::Text)
        .filter_map(|s| Some((s.address(), s.section_index()?, s.name().ok()?)))
        .collect();
    entries.sort_by_key(|(address, ..)| *address);
    let own = [format!("{RAW_PREFIX}{kernel}"), format!("{PACKED_PREFIX}{kernel}")];
    let mut text = String::new();
    for (k, (address, section, name)) in entries.iter().enumerate() {
        if !own.iter().any(|o| o == name) {
            continue;
        }
        let section = file.section_by_index(*section).map_err(failed)?;
        let end = section.address().saturating_add(section.size());
        let end = entries.get(k + 1).map_or(end, |(next, ..)| end.min(*next));
        let bytes = section.data_range(*address, end.saturating_sub(*address)).map_err(failed)?;
        writeln!(text, "{name}:").expect("writing to a string");
        function(&mut text, bytes.unwrap_or_default(), *address);
    }
    if text.is_empty() {
        let known = entries.iter().filter_map(|(_, _, name)| name.strip_prefix(PACKED_PREFIX));
        let known: Vec<&str> = known.collect();
        let message = format!("no kernel {kernel:?}; there are {}", known.join(", "));
        return Err(Error::input(message));
    }
    Ok(text)
}

/// Refuses what is not for x86-64, whose instructions alone are known here.
fn check(file: &object::File<'_>) -> Result<()> {
    match file.architecture() {
        object::Architecture::X86_64 => Ok(()),
        other => {
            let text = format!("assembly of {other:?} is not shown; objdump reads a saved library");
            Err(Error::new(ErrorKind::Unsupported, text))
        }
    }
}

/// Appends the instructions of `bytes`.
pub(crate) fn function(text: &mut String, bytes: &[u8], address: u64) {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        write!(text, "{:8x}  ", instruction.ip()).expect("writing to a string");
        formatter.format(&instruction, text);
        text.push('\n');
    }
}
