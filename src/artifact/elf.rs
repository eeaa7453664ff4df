//! Checks of a shared library before the system's loader maps it.

use std::fs::File;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

use crate::error::{Error, ErrorKind, Result};

/// Refuses a file that is no ELF library or whose segments reach beyond its end: the system's
/// loader does not check, and a truncated file would end the process.
pub(crate) fn check_segments(file: File) -> Result<()> {
    let model = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Model, e.to_string());
    let size = file.metadata().map_err(|e| model(&e))?.len();
    let cache = ReadCache::new(file);
    let data = &cache;
    let header = FileHeader64::<Endianness>::parse(data)
        .map_err(|e| model(&format!("not a shared library: {e}")))?;
    let endian = header.endian().map_err(|e| model(&e))?;
    let segments = header.program_headers(endian, data).map_err(|e| model(&e))?;
    for segment in segments {
        let end = segment.p_offset(endian).checked_add(segment.p_filesz(endian));
        if end.is_none_or(|end| end > size) {
            return Err(model(&format!("truncated: {size} bytes, and a segment lies beyond them")));
        }
    }
    Ok(())
}
