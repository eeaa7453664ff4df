//! Assembly of compiled kernels, for `reflex inspect --asm`.

use std::fmt::Write;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction};
use object::{Object as _, ObjectSection, ObjectSymbol, SymbolKind};
use reflex_tir::codegen::Object;

use crate::error::{Error, ErrorKind, Result};

/// Every function of a kernel's object, in address order, in AT&T syntax.
pub(crate) fn object(kernel: &Object) -> Result<String> {
    let failed = |e: object::Error| Error::new(ErrorKind::Compile, e.to_string());
    let file = object::File::parse(&*kernel.elf).map_err(failed)?;
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
