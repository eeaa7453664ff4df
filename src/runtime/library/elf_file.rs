//! The tables of a shared library that loading needs: segments, symbols, relocations.
//!
//! Nothing is trusted: each table is bounded by its segment's part of the file, and what lies outside
//! is an error.

use std::collections::HashMap;
use std::ops::Range;

use ::object::elf::{self, Dyn64, DynamicTag, FileHeader64, ProgramHeader64, Rela64, Sym64};
use ::object::pod::{self, Pod};
use ::object::read::elf::{FileHeader, GnuHashTable, HashTable};
use ::object::{LittleEndian, ReadRef, U16, U64};

use super::loading::Reason;
use super::machine;
use crate::page;

type Endian = LittleEndian;
const LE: Endian = LittleEndian;

/// Bytes of a page.
pub(super) fn page() -> u64 {
    page::size() as u64
}

/// Whole pages around some addresses.
pub(super) fn pages(addresses: &Range<u64>) -> Range<u64> {
    addresses.start / page() * page()..addresses.end.next_multiple_of(page())
}

/// A loadable part of a library.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Bytes of the file; may be fewer than of the address range.
    pub file: Range<u64>,
    /// Addresses as the file numbers them, before the load address is added.
    pub addresses: Range<u64>,
    pub align: u64,
    pub writable: bool,
    pub executable: bool,
}

/// One word to fill in.
pub(super) struct Relocation {
    pub kind: elf::RelocationType,
    /// The address of the word.
    pub at: u64,
    pub symbol: u32,
    pub addend: i64,
}

/// An entry of the symbol table.
pub(super) struct Symbol<'d> {
    pub name: &'d str,
    pub version: Option<&'d str>,
    /// None for what another library defines.
    pub address: Option<Address>,
    pub size: u64,
    pub weak: bool,
    pub indirect: bool,
}

/// A symbol that the library defines, inside one of its segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub address: u64,
    pub size: u64,
}

/// The value of a symbol.
#[derive(Clone, Copy)]
pub(super) enum Address {
    /// Relative to the load address of the library.
    InLibrary(u64),
    /// Absolute: independent of the load address.
    Absolute(u64),
}

/// The headers of a shared library.
pub(super) struct Headers {
    program: Vec<ProgramHeader64<Endian>>,
    pub segments: Vec<Segment>,
}

impl Headers {
    /// Reads the headers of a file of `size` bytes.
    pub(super) fn parse<'r>(data: impl ReadRef<'r>, size: u64) -> Result<Headers, Reason> {
        let not_a_library = |why: &dyn std::fmt::Display| format!("not a shared library: {why}");
        let own = machine::name(machine::MACHINE);
        if data.read_bytes_at(0, 4) == Ok(b"\0asm") {
            return Err(format!("a module for WebAssembly, and this process is one for {own}"));
        }
        let header = FileHeader64::<Endian>::parse(data).map_err(|e| not_a_library(&e))?;
        if !header.is_little_endian() || header.e_type.get(LE) != elf::ET_DYN {
            return Err(not_a_library(&format!("it is no ELF library for {own}")));
        }
        let of = header.e_machine.get(LE);
        if of != machine::MACHINE {
            let of = machine::name(of);
            return Err(format!("a library for {of}, and this process is one for {own}"));
        }
        let program = header.program_headers(LE, data).map_err(|e| not_a_library(&e))?.to_vec();
        let segments = segments(&program, size)?;
        Ok(Headers { program, segments })
    }

    fn find(&self, kind: elf::ProgramType) -> Option<&ProgramHeader64<Endian>> {
        self.program.iter().find(|header| header.p_type.get(LE) == kind)
    }
}

/// A shared library's tables.
pub(super) struct ElfFile<'d> {
    headers: &'d Headers,
    /// The file's part of each segment.
    contents: Vec<&'d [u8]>,
    dynamic: Vec<(DynamicTag, u64)>,
    versions: HashMap<u16, &'d str>,
}

impl<'d> ElfFile<'d> {
    /// Reads the tables. `contents` is the file's part of each segment.
    pub(super) fn parse(
        headers: &'d Headers,
        contents: Vec<&'d [u8]>,
    ) -> Result<ElfFile<'d>, Reason> {
        let mut file = ElfFile { headers, contents, dynamic: vec![], versions: HashMap::new() };
        let table = headers.find(elf::PT_DYNAMIC);
        let table = table.ok_or("not a shared library: nothing in it is dynamic")?;
        let count = table.p_filesz.get(LE) as usize / size_of::<Dyn64<Endian>>();
        let entries: &[Dyn64<Endian>] = file.table(table.p_vaddr.get(LE), count)?;
        let entries = entries.iter().map(|entry| (entry.d_tag.get(LE), entry.d_val.get(LE)));
        file.dynamic = entries.take_while(|(tag, _)| *tag != elf::DT_NULL).collect();
        file.versions = file.needed_versions()?;
        Ok(file)
    }

    /// Whether the library has, or uses, variables of which each thread has its own.
    pub(super) fn has_thread_locals(&self, relocations: &[Relocation]) -> bool {
        let used = relocations.iter().any(|it| machine::THREAD_LOCAL.contains(&it.kind));
        used || self.headers.find(elf::PT_TLS).is_some()
    }

    /// Addresses that are read-only once relocations are done.
    pub(super) fn read_only_after_relocation(&self) -> Option<Range<u64>> {
        let header = self.headers.find(elf::PT_GNU_RELRO)?;
        let start = header.p_vaddr.get(LE);
        Some(start..start.checked_add(header.p_memsz.get(LE))?)
    }

    /// The address of the unwind table, if it is there and ends before its segment does.
    pub(super) fn unwind_table(&self) -> Option<u64> {
        const VERSION: u8 = 1;
        const RELATIVE_TO_HERE_SIGNED_32: u8 = 0x1b;
        const POINTER: u64 = 4;
        let header = self.headers.find(elf::PT_GNU_EH_FRAME)?.p_vaddr.get(LE);
        let &[version, encoding, _, _, a, b, c, d] =
            self.rest_of_segment(header).ok()?.first_chunk()?;
        if (version, encoding) != (VERSION, RELATIVE_TO_HERE_SIGNED_32) {
            return None;
        }
        let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
        let table = header.checked_add(POINTER)?.checked_add_signed(distance)?;
        let mut rest = self.rest_of_segment(table).ok()?;
        loop {
            let (length, records) = rest.split_first_chunk::<4>()?;
            match u32::from_le_bytes(*length) {
                0 => return Some(table),
                u32::MAX => return None,
                length => rest = records.get(length as usize..)?,
            }
        }
    }

    /// Bytes of the file from `address` to the end of its segment's part of the file.
    fn rest_of_segment(&self, address: u64) -> Result<&'d [u8], Reason> {
        let rest = |(segment, contents): (&Segment, &&'d [u8])| {
            let skip = address.checked_sub(segment.addresses.start)?;
            contents.get(usize::try_from(skip).ok()?..)
        };
        let found = self.headers.segments.iter().zip(&self.contents).find_map(rest);
        found.ok_or_else(|| format!("a table lies outside its segments, at {address:#x}"))
    }

    fn table<T: Pod>(&self, address: u64, count: usize) -> Result<&'d [T], Reason> {
        let bytes = self.rest_of_segment(address)?;
        let table = pod::slice_from_bytes(bytes, count).map(|(table, _)| table);
        table.map_err(|()| format!("a table is cut off or misaligned, at {address:#x}"))
    }

    fn value(&self, tag: DynamicTag) -> Option<u64> {
        self.dynamic.iter().find(|(known, _)| *known == tag).map(|(_, value)| *value)
    }

    fn string(&self, offset: u64) -> Result<&'d str, Reason> {
        let table = self.value(elf::DT_STRTAB).ok_or("no string table")?;
        let address = table.checked_add(offset).ok_or("a string lies outside its table")?;
        let bytes = self.rest_of_segment(address)?;
        let end = bytes.iter().position(|byte| *byte == 0).ok_or("a string has no end")?;
        std::str::from_utf8(&bytes[..end]).map_err(|_| "a name is not UTF-8".to_owned())
    }

    /// Names of the libraries that it needs.
    pub(super) fn needed(&self) -> Result<Vec<&'d str>, Reason> {
        self.strings_of(elf::DT_NEEDED)
    }

    /// Folders to look for them in first, separated by colons.
    pub(super) fn search_path(&self) -> Result<Option<&'d str>, Reason> {
        let mut path = self.strings_of(elf::DT_RUNPATH)?;
        path.extend(self.strings_of(elf::DT_RPATH)?);
        Ok(path.first().copied())
    }

    fn strings_of(&self, tag: DynamicTag) -> Result<Vec<&'d str>, Reason> {
        let entries = self.dynamic.iter().filter(|(known, _)| *known == tag);
        entries.map(|(_, offset)| self.string(*offset)).collect()
    }

    /// Symbol number `index`.
    pub(super) fn symbol(&self, index: u32) -> Result<Symbol<'d>, Reason> {
        let table = self.value(elf::DT_SYMTAB).ok_or("no symbol table")?;
        let address = u64::from(index)
            .checked_mul(size_of::<Sym64<Endian>>() as u64)
            .and_then(|offset| table.checked_add(offset))
            .ok_or("a symbol lies outside its table")?;
        let symbol = &self.table::<Sym64<Endian>>(address, 1)?[0];
        let value = symbol.st_value.get(LE);
        let section = symbol.st_shndx.get(LE);
        let address = match section {
            elf::SHN_UNDEF => None,
            elf::SHN_ABS => Some(Address::Absolute(value)),
            _ => Some(Address::InLibrary(value)),
        };
        Ok(Symbol {
            name: self.string(symbol.st_name.get(LE).into())?,
            version: self.version(index)?,
            address,
            size: symbol.st_size.get(LE),
            weak: symbol.st_bind() == elf::STB_WEAK,
            indirect: symbol.st_type() == elf::STT_GNU_IFUNC,
        })
    }

    /// The library's definitions by name.
    pub(super) fn definitions(&self) -> Result<HashMap<String, Definition>, Reason> {
        let mut definitions = HashMap::new();
        // The first symbol is none.
        for index in 1..self.symbol_count()? {
            let Symbol { name, address, size, .. } = self.symbol(index)?;
            let Some(Address::InLibrary(address)) = address else { continue };
            let inside = |segment: &Segment| {
                let Range { start, end } = segment.addresses;
                start <= address && address.checked_add(size).is_some_and(|last| last <= end)
            };
            if self.headers.segments.iter().any(inside) {
                definitions.insert(name.to_owned(), Definition { address, size });
            }
        }
        Ok(definitions)
    }

    fn symbol_count(&self) -> Result<u32, Reason> {
        if let Some(address) = self.value(elf::DT_HASH) {
            let table =
                HashTable::<FileHeader64<Endian>>::parse(LE, self.rest_of_segment(address)?);
            return Ok(table.map_err(|e| e.to_string())?.symbol_table_length());
        }
        let Some(address) = self.value(elf::DT_GNU_HASH) else { return Ok(0) };
        let table = GnuHashTable::<FileHeader64<Endian>>::parse(LE, self.rest_of_segment(address)?);
        // A table without symbols has no length.
        Ok(table.map_err(|e| e.to_string())?.symbol_table_length(LE).unwrap_or(0))
    }

    fn version(&self, symbol: u32) -> Result<Option<&'d str>, Reason> {
        const HIDDEN: u16 = 0x8000;
        let Some(table) = self.value(elf::DT_VERSYM) else { return Ok(None) };
        let address = table.checked_add(2 * u64::from(symbol)).ok_or("no version of a symbol")?;
        let index = self.table::<U16<Endian>>(address, 1)?[0].get(LE);
        Ok(self.versions.get(&(index & !HIDDEN)).copied())
    }

    /// Names of the versions that it needs of other libraries, by number.
    fn needed_versions(&self) -> Result<HashMap<u16, &'d str>, Reason> {
        let mut versions = HashMap::new();
        let Some(mut at) = self.value(elf::DT_VERNEED) else { return Ok(versions) };
        let bad = || "a table of versions has no end".to_owned();
        let mut entry = None;
        // There are no more numbers than this.
        for _ in 0..=u16::MAX {
            let need = &self.table::<elf::Verneed<Endian>>(at, 1)?[0];
            let first = || at.checked_add(need.vn_aux.get(LE).into());
            let here = entry.or_else(first).ok_or_else(bad)?;
            let version = &self.table::<elf::Vernaux<Endian>>(here, 1)?[0];
            let name = self.string(version.vna_name.get(LE).into())?;
            versions.insert(version.vna_other.get(LE).0, name);
            entry = match version.vna_next.get(LE) {
                0 => None,
                next => Some(here.checked_add(next.into()).ok_or_else(bad)?),
            };
            match need.vn_next.get(LE) {
                _ if entry.is_some() => {}
                0 => return Ok(versions),
                next => at = at.checked_add(next.into()).ok_or_else(bad)?,
            }
        }
        Err(bad())
    }

    /// Every relocation, in the order in which they are applied.
    pub(super) fn relocations(&self) -> Result<Vec<Relocation>, Reason> {
        if self.value(elf::DT_REL).is_some() {
            return Err(
                "relocations without addends, which this architecture does not have".to_owned()
            );
        }
        let mut all = self.packed_relocations()?;
        for (start, size) in [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)] {
            let Some(start) = self.value(start) else { continue };
            let count = self.value(size).unwrap_or(0) as usize / size_of::<Rela64<Endian>>();
            all.extend(self.table::<Rela64<Endian>>(start, count)?.iter().map(|entry| {
                Relocation {
                    kind: entry.r_type(LE, false),
                    at: entry.r_offset.get(LE),
                    symbol: entry.r_sym(LE, false),
                    addend: entry.r_addend.get(LE),
                }
            }));
        }
        Ok(all)
    }

    /// Those of `DT_RELR`: an address, then bitmaps of the words behind it. The word's own content is
    /// the addend.
    fn packed_relocations(&self) -> Result<Vec<Relocation>, Reason> {
        const WORD: u64 = 8;
        const BITS: u64 = 63;
        let Some(start) = self.value(elf::DT_RELR) else { return Ok(vec![]) };
        let count = self.value(elf::DT_RELRSZ).unwrap_or(0) as usize / size_of::<u64>();
        let (mut words, mut next) = (vec![], 0_u64);
        for entry in self.table::<U64<Endian>>(start, count)? {
            let entry = entry.get(LE);
            if entry & 1 == 0 {
                words.push(entry);
                next = entry.wrapping_add(WORD);
                continue;
            }
            let set = (0..BITS).filter(|bit| entry >> (bit + 1) & 1 != 0);
            words.extend(set.map(|bit| next.wrapping_add(bit * WORD)));
            next = next.wrapping_add(BITS * WORD);
        }
        let relocation = |at: u64| {
            let addend = self.table::<U64<Endian>>(at, 1)?[0].get(LE) as i64;
            Ok(Relocation { kind: machine::RELATIVE, at, symbol: 0, addend })
        };
        words.into_iter().map(relocation).collect()
    }

    /// The address of the function to run first, and those of the words that name the others.
    pub(super) fn initialisers(&self) -> Functions {
        self.functions(elf::DT_INIT, elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ)
    }

    /// As `initialisers`, for the functions to run before the library goes; the last one is first.
    pub(super) fn finalisers(&self) -> Functions {
        self.functions(elf::DT_FINI, elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ)
    }

    fn functions(&self, single: DynamicTag, array: DynamicTag, size: DynamicTag) -> Functions {
        let array = self.value(array).unwrap_or(0);
        let size = self.value(size).unwrap_or(0);
        Functions { single: self.value(single), array: array..array.saturating_add(size) }
    }
}

/// Functions that the loader calls.
pub(super) struct Functions {
    pub single: Option<u64>,
    /// Addresses of words that hold addresses.
    pub array: Range<u64>,
}

/// The loadable segments, in order of their addresses, which do not overlap.
fn segments(headers: &[ProgramHeader64<Endian>], size: u64) -> Result<Vec<Segment>, Reason> {
    let loaded = headers.iter().filter(|header| header.p_type.get(LE) == elf::PT_LOAD);
    let segments: Vec<Segment> = loaded.map(segment).collect::<Result<_, _>>()?;
    if segments.is_empty() {
        return Err("not a shared library: it has no segments".to_owned());
    }
    if segments.iter().any(|segment| segment.file.end > size) {
        return Err(format!("truncated: {size} bytes, and a segment lies beyond them"));
    }
    let pages = |segment: &Segment| pages(&segment.addresses);
    if segments.windows(2).any(|pair| pages(&pair[0]).end > pages(&pair[1]).start) {
        return Err("segments share pages".to_owned());
    }
    Ok(segments)
}

fn segment(header: &ProgramHeader64<Endian>) -> Result<Segment, Reason> {
    /// The end of the addresses of a process.
    const TOP: u64 = 1 << 47;
    let bad = |what: &str| Err(format!("a segment {what}"));
    let flags = header.p_flags.get(LE);
    let (offset, address) = (header.p_offset.get(LE), header.p_vaddr.get(LE));
    let (file_size, size) = (header.p_filesz.get(LE), header.p_memsz.get(LE));
    let Some(file_end) = offset.checked_add(file_size) else { return bad("lies beyond the file") };
    let end = address.checked_add(size).filter(|end| *end <= TOP);
    let Some(end) = end else { return bad("lies beyond all addresses") };
    let segment = Segment {
        file: offset..file_end,
        addresses: address..end,
        align: header.p_align.get(LE),
        writable: flags.contains(elf::PF_W),
        executable: flags.contains(elf::PF_X),
    };
    match () {
        () if file_size > size => bad("is smaller than its part of the file"),
        () if offset % page() != address % page() => {
            bad("is not aligned as its part of the file is")
        }
        () if segment.align > TOP || (segment.align > 1 && !segment.align.is_power_of_two()) => {
            bad("has no possible alignment")
        }
        () if segment.writable && segment.executable => bad("is writable and executable"),
        () if size > file_size && !segment.writable => bad("is read-only beyond the file's part"),
        () => Ok(segment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that every process of ours has, with every table.
    fn library() -> Vec<u8> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let found = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
        let path = found.into_iter().find(|path| path.contains("libgcc_s")).expect("it is linked");
        std::fs::read(path).unwrap()
    }

    fn headers(data: &[u8]) -> Result<Headers, Reason> {
        Headers::parse(data, data.len() as u64)
    }

    fn tables<'d>(headers: &'d Headers, data: &'d [u8]) -> Result<ElfFile<'d>, Reason> {
        let part = |it: &Segment| &data[it.file.start as usize..it.file.end as usize];
        ElfFile::parse(headers, headers.segments.iter().map(part).collect())
    }

    /// Everything that loading reads.
    fn read(data: &[u8]) -> Result<usize, Reason> {
        let headers = headers(data)?;
        let file = tables(&headers, data)?;
        let relocations = file.relocations()?;
        let symbols = relocations.iter().map(|relocation| file.symbol(relocation.symbol));
        let symbols = symbols.collect::<Result<Vec<_>, _>>()?.len();
        file.has_thread_locals(&relocations);
        file.unwind_table();
        file.read_only_after_relocation();
        let strings = file.needed()?.len() + usize::from(file.search_path()?.is_some());
        let functions = [file.initialisers(), file.finalisers()]
            .map(|it| it.array.end.wrapping_sub(it.array.start));
        Ok(symbols + strings + file.definitions()?.len() + functions[0] as usize % 8)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn a_library_of_the_system_is_read() {
        let data = library();
        let headers = headers(&data).unwrap();
        let file = tables(&headers, &data).unwrap();
        assert!(file.definitions().unwrap().contains_key("_Unwind_RaiseException"));
        assert!(file.needed().unwrap().contains(&"libc.so.6"));
        assert!(file.unwind_table().is_some());
        let relocations = file.relocations().unwrap();
        let symbols = relocations.iter().map(|it| file.symbol(it.symbol).unwrap());
        let versions: Vec<_> = symbols.filter_map(|symbol| symbol.version).collect();
        assert!(versions.iter().any(|version| version.starts_with("GLIBC_2.")), "{versions:?}");
    }

    /// Words of the tables take values at their limits, and single bits change.
    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn damaged_tables_are_errors() {
        let sound = library();
        let tables = headers(&sound).unwrap().segments[0].file.end as usize;
        let (mut state, mut refused) = (1_u64, 0);
        for case in 0..5_000 {
            let mut data = sound.clone();
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(case);
            let (at, choice) = ((state >> 33) as usize % tables, state >> 29 & 3);
            let at = if case % 2 == 0 { at % 1024 } else { at };
            match choice {
                0 => data[at / 8 * 8..][..8].copy_from_slice(&u64::MAX.to_le_bytes()),
                1 => data[at / 8 * 8..][..8].copy_from_slice(&(1_u64 << 46).to_le_bytes()),
                2 => data.truncate(at),
                _ => data[at] ^= 1 << (state >> 24 & 7),
            }
            refused += usize::from(read(&data).is_err());
        }
        assert!(refused > 500, "{refused}");
    }
}
