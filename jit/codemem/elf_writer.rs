//! Turns a [`Library`] into bytes: links it, lays out the tables, describes them, writes.
//!
//! The order is forced by what depends on what: symbol and relocation counts fix the sizes of the
//! tables, sizes fix the layout, and the layout fixes the contents of the tables.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use object::elf;

use crate::elf::{Blob, Library};
use crate::elf_tables::{self as tables, Bytes, FileHeader, ProgramHeader, SectionHeader, Strings};
use crate::error::{CodeError, CodeErrorKind};
use crate::imports;
use crate::link::{
    Absolute, AbsoluteTarget, Chunk, ChunkId, Export, Extents, Image, Import, Location, Rank,
    Rules, Segment, Width,
};
use crate::object_file::ObjectFile;
use crate::pages::PAGE;
use crate::resolve;

/// Names that objects may leave undefined.
fn import(name: &str) -> Option<Import> {
    if imports::is_slot(name) {
        return Some(Import::Slot);
    }
    imports::origin(name).map(|_| Import::Function)
}

/// A library whose parts are linked and whose tables are being made.
pub(crate) struct Writer<'a> {
    image: Image<'a>,
    exports: BTreeMap<&'a str, Export>,
    detached: &'a [(&'a str, &'a [u8])],
    soname: Option<&'a str>,
    extents: Extents,
    sections: Vec<SectionHeader>,
    section_names: Strings,
    section_headers_at: u64,
}

/// Chunks of the tables whose contents depend on the layout.
struct Tables {
    header: ChunkId,
    symbols: ChunkId,
    relocations: ChunkId,
    dynamic: ChunkId,
    strings: StringOffsets,
}

struct StringOffsets {
    names: Vec<u32>,
    needed: Vec<u32>,
    soname: Option<u32>,
    size: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn gather(
        library: &'a Library<'a>,
        files: &'a [ObjectFile<'a>],
    ) -> Result<Self, CodeError> {
        let rules = Rules { import: &import, relro: Segment::Data };
        let mut image = resolve::gather(files, &rules)?;
        for &name in &library.slots {
            if !imports::is_slot(name) {
                return Err(CodeError::new(
                    CodeErrorKind::UnknownSymbol,
                    format!("`{name}` is not a pointer variable that loaders fill"),
                ));
            }
            if !image.slots.contains_key(name) {
                let at = Location { chunk: image.add(bss_word()), offset: 0 };
                image.slots.insert(name, at);
            }
        }
        let mut exports = std::mem::take(&mut image.exports);
        for (&name, &at) in &image.slots {
            exports.insert(name, Export { at, size: 8, function: false, weak: true });
        }
        for blob in &library.blobs {
            add_blob(&mut image, &mut exports, blob)?;
        }
        Ok(Self {
            image,
            exports,
            detached: &library.detached,
            soname: library.soname,
            extents: Extents { read_only: 0..0, text: 0..0, data: 0..0, end: 0 },
            sections: Vec::new(),
            section_names: Strings::new(),
            section_headers_at: 0,
        })
    }

    pub(crate) fn place_tables(&mut self) -> Result<(), CodeError> {
        let tables = self.add_tables();
        self.extents = self.image.layout()?;
        let absolutes = self.image.patch()?;
        let relocations = self.relocations(&absolutes)?;
        self.fill(tables.relocations, relocations.1);
        let dynamic = self.dynamic(&tables, relocations.0);
        self.fill(tables.dynamic, dynamic);
        let file_end = self.describe_sections()?;
        let symbols = self.symbols(&tables.strings);
        self.fill(tables.symbols, symbols);
        self.section_headers_at = file_end.next_multiple_of(8);
        let header = self.header(&tables);
        self.fill(tables.header, header);
        Ok(())
    }

    /// Adds the tables with their final sizes and, where already known, their contents.
    fn add_tables(&mut self) -> Tables {
        let mut names = vec![""];
        names.extend(&self.image.imports);
        names.extend(self.exports.keys());
        let mut strings = Strings::new();
        let offsets = names.iter().map(|name| strings.add(name)).collect();
        let libraries: BTreeSet<_> =
            self.image.imports.iter().filter_map(|name| imports::origin(name)?.library()).collect();
        let needed = libraries.iter().map(|name| strings.add(name)).collect::<Vec<_>>();
        let soname = self.soname.map(|name| strings.add(name));
        let size = strings.0.len() as u64;
        let strings_of = StringOffsets { names: offsets, needed, soname, size };
        let count = names.len() as u64;
        let hash = tables::hash_table(&names);
        self.table(".dynstr", 1, Cow::Owned(strings.0), size);
        self.table(".hash", 8, Cow::Borrowed(&[]), hash.len() as u64);
        let hash_chunk = ChunkId(self.image.chunks.len() - 1);
        self.fill(hash_chunk, hash);
        let header = tables::HEADER + tables::PROGRAM_HEADER * u64::from(self.program_headers());
        let relocations = tables::RELOCATION * self.image.absolute_count() as u64;
        let entries = strings_of.needed.len() as u64 + u64::from(soname.is_some()) + 10;
        Tables {
            header: self.table("", 8, Cow::Borrowed(&[]), header),
            symbols: self.table(".dynsym", 8, Cow::Borrowed(&[]), tables::SYMBOL * count),
            relocations: self.table(".rela.dyn", 8, Cow::Borrowed(&[]), relocations),
            dynamic: self.image.add(Chunk {
                segment: Segment::Data,
                rank: Rank::Section,
                output: ".dynamic",
                align: 8,
                size: tables::DYNAMIC * entries,
                bytes: Cow::Borrowed(&[]),
                address: 0,
            }),
            strings: strings_of,
        }
    }

    fn table(&mut self, output: &'a str, align: u64, bytes: Cow<'a, [u8]>, size: u64) -> ChunkId {
        let (segment, rank) = (Segment::ReadOnly, Rank::Tables);
        self.image.add(Chunk { segment, rank, output, align, size, bytes, address: 0 })
    }

    fn fill(&mut self, ChunkId(chunk): ChunkId, mut bytes: Vec<u8>) {
        let chunk = &mut self.image.chunks[chunk];
        debug_assert!(bytes.len() as u64 <= chunk.size, "{} outgrew its room", chunk.output);
        bytes.resize(chunk.size as usize, 0);
        chunk.bytes = Cow::Owned(bytes);
    }

    fn has_text(&self) -> bool {
        self.image.chunks.iter().any(|chunk| chunk.segment == Segment::Text && chunk.size > 0)
    }

    fn program_headers(&self) -> u16 {
        if self.has_text() { 5 } else { 4 }
    }

    fn table_address(&self, output: &str) -> u64 {
        let chunk = self.image.chunks.iter().find(|chunk| chunk.output == output);
        chunk.map_or(0, |chunk| chunk.address)
    }

    /// The number of relative relocations, and the table: relative ones first, then by address.
    fn relocations(&self, absolutes: &[Absolute]) -> Result<(u64, Vec<u8>), CodeError> {
        let (mut relative, mut named) = (Bytes::default(), Bytes::default());
        let mut count = 0;
        for absolute in absolutes {
            if absolute.width != Width::Word64 || absolute.at < self.extents.data.start {
                return Err(CodeError::unsupported(format!(
                    "{} is referred to by an absolute address in code or constants: compile \
                     position-independent code",
                    absolute.label
                )));
            }
            match absolute.target {
                AbsoluteTarget::Image(address) => {
                    count += 1;
                    let value = (address as i64).wrapping_add(absolute.addend);
                    let kind = elf::R_X86_64_RELATIVE.0;
                    tables::relocation(&mut relative, absolute.at, kind, 0, value);
                }
                AbsoluteTarget::Import(import) => {
                    let kind = elf::R_X86_64_64.0;
                    let symbol = 1 + import as u32;
                    tables::relocation(&mut named, absolute.at, kind, symbol, absolute.addend);
                }
            }
        }
        relative.0.extend(named.0);
        Ok((count, relative.0))
    }

    fn dynamic(&self, tables: &Tables, relative: u64) -> Vec<u8> {
        let mut bytes = Bytes::default();
        let mut entry =
            |tag: elf::DynamicTag, value| tables::dynamic(&mut bytes, tag.0 as u64, value);
        for &needed in &tables.strings.needed {
            entry(elf::DT_NEEDED, needed.into());
        }
        if let Some(soname) = tables.strings.soname {
            entry(elf::DT_SONAME, soname.into());
        }
        entry(elf::DT_HASH, self.table_address(".hash"));
        entry(elf::DT_STRTAB, self.table_address(".dynstr"));
        entry(elf::DT_SYMTAB, self.table_address(".dynsym"));
        entry(elf::DT_STRSZ, tables.strings.size);
        entry(elf::DT_SYMENT, tables::SYMBOL);
        let relocations = self.image.chunks[tables.relocations.0].size;
        if relocations > 0 {
            entry(elf::DT_RELA, self.table_address(".rela.dyn"));
            entry(elf::DT_RELASZ, relocations);
            entry(elf::DT_RELAENT, tables::RELOCATION);
            entry(elf::DT_RELACOUNT, relative);
        }
        entry(elf::DT_NULL, 0);
        bytes.0
    }

    /// One header per run of chunks with one output name; returns where the contents end.
    fn describe_sections(&mut self) -> Result<u64, CodeError> {
        self.sections = vec![SectionHeader::default()];
        let mut last = (Segment::ReadOnly, Rank::Tables, "");
        for ChunkId(id) in self.image.order() {
            let chunk = &self.image.chunks[id];
            if chunk.output.is_empty() || chunk.size == 0 {
                continue;
            }
            let this = (chunk.segment, chunk.rank, chunk.output);
            if this == last
                && let Some(open) = self.sections.last_mut()
            {
                open.size = chunk.address + chunk.size - open.address;
                open.align = open.align.max(chunk.align);
                continue;
            }
            last = this;
            let name = self.section_names.add(chunk.output);
            self.sections.push(section_header(chunk, name));
        }
        let index = |sections: &[SectionHeader], kind: elf::SectionType| {
            sections.iter().position(|section| section.kind == kind.0).unwrap_or(0) as u32
        };
        let strings = index(&self.sections, elf::SHT_STRTAB);
        let symbols = index(&self.sections, elf::SHT_DYNSYM);
        for section in &mut self.sections {
            section.link = match elf::SectionType(section.kind) {
                elf::SHT_DYNSYM | elf::SHT_DYNAMIC => strings,
                elf::SHT_HASH | elf::SHT_RELA => symbols,
                _ => 0,
            };
        }
        let mut at = self.extents.data.end;
        for &(name, bytes) in self.detached {
            let name = self.section_names.add(name);
            self.sections.push(detached_header(name, elf::SHT_PROGBITS, at, bytes.len() as u64));
            at += bytes.len() as u64;
        }
        let name = self.section_names.add(".shstrtab");
        let size = self.section_names.0.len() as u64;
        self.sections.push(detached_header(name, elf::SHT_STRTAB, at, size));
        if self.sections.len() >= usize::from(elf::SHN_LORESERVE) {
            return Err(CodeError::unsupported("a library has too many sections"));
        }
        Ok(at + size)
    }

    fn symbols(&self, strings: &StringOffsets) -> Vec<u8> {
        let mut bytes = Bytes::default();
        let mut names = strings.names.iter().copied();
        let mut next = || names.next().unwrap_or_default();
        tables::symbol(&mut bytes, next(), 0, 0, 0, 0);
        let info = |bind: elf::SymbolBind, kind: elf::SymbolType| bind.0 << 4 | kind.0;
        for _ in &self.image.imports {
            let info = info(elf::STB_GLOBAL, elf::STT_NOTYPE);
            tables::symbol(&mut bytes, next(), info, 0, 0, 0);
        }
        for export in self.exports.values() {
            let bind = if export.weak { elf::STB_WEAK } else { elf::STB_GLOBAL };
            let kind = if export.function { elf::STT_FUNC } else { elf::STT_OBJECT };
            let address = self.image.address(export.at);
            let section = self.section_of(address);
            tables::symbol(&mut bytes, next(), info(bind, kind), section, address, export.size);
        }
        bytes.0
    }

    /// Index of the section header that covers an address of the image.
    fn section_of(&self, address: u64) -> u16 {
        let covers = |section: &SectionHeader| {
            section.flags & elf::SHF_ALLOC.0 != 0
                && (section.address..=section.address + section.size).contains(&address)
        };
        // The last match: an empty range shares its address with the section behind it.
        self.sections.iter().rposition(covers).unwrap_or(0) as u16
    }

    fn header(&self, tables: &Tables) -> Vec<u8> {
        let mut bytes = Bytes::default();
        FileHeader {
            program_headers: self.program_headers(),
            section_headers_at: self.section_headers_at,
            section_headers: self.sections.len() as u16,
            names_section: self.sections.len() as u16 - 1,
        }
        .write(&mut bytes);
        let Extents { read_only, text, data, end } = &self.extents;
        let load = |flags: u32, at: u64, file_size: u64, memory_size: u64| ProgramHeader {
            kind: elf::PT_LOAD.0,
            flags,
            at,
            file_size,
            memory_size,
            align: PAGE as u64,
        };
        let (read, write, execute) = (elf::PF_R.0, elf::PF_W.0, elf::PF_X.0);
        load(read, 0, read_only.end, read_only.end).write(&mut bytes);
        if self.has_text() {
            let size = text.end - text.start;
            load(read | execute, text.start, size, size).write(&mut bytes);
        }
        let (file_size, memory_size) = (data.end - data.start, end - data.start);
        load(read | write, data.start, file_size, memory_size).write(&mut bytes);
        let dynamic = &self.image.chunks[tables.dynamic.0];
        ProgramHeader {
            kind: elf::PT_DYNAMIC.0,
            flags: read | write,
            at: dynamic.address,
            file_size: dynamic.size,
            memory_size: dynamic.size,
            align: 8,
        }
        .write(&mut bytes);
        // Without this header the dynamic linker would make the stack executable.
        let stack = elf::PT_GNU_STACK.0;
        ProgramHeader {
            kind: stack,
            flags: read | write,
            at: 0,
            file_size: 0,
            memory_size: 0,
            align: 16,
        }
        .write(&mut bytes);
        bytes.0
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut at = 0;
        for ChunkId(id) in self.image.order() {
            let chunk = &self.image.chunks[id];
            if chunk.rank == Rank::Zero || chunk.size == 0 {
                continue;
            }
            pad(out, &mut at, chunk.address)?;
            put(out, &mut at, &chunk.bytes)?;
        }
        pad(out, &mut at, self.extents.data.end)?;
        for (_, bytes) in self.detached {
            put(out, &mut at, bytes)?;
        }
        put(out, &mut at, &self.section_names.0)?;
        pad(out, &mut at, self.section_headers_at)?;
        let mut headers = Bytes::default();
        for section in &self.sections {
            section.write(&mut headers);
        }
        put(out, &mut at, &headers.0)?;
        out.flush()
    }
}

fn bss_word<'a>() -> Chunk<'a> {
    Chunk {
        segment: Segment::Data,
        rank: Rank::Zero,
        output: ".bss",
        align: 8,
        size: 8,
        bytes: Cow::Borrowed(&[]),
        address: 0,
    }
}

fn add_blob<'a>(
    image: &mut Image<'a>,
    exports: &mut BTreeMap<&'a str, Export>,
    blob: &Blob<'a>,
) -> Result<(), CodeError> {
    if !blob.align.is_power_of_two() || blob.align > PAGE as u64 {
        return Err(CodeError::unsupported(format!(
            "a blob in section `{}` asks for alignment {}",
            blob.section, blob.align
        )));
    }
    let size = blob.bytes.len() as u64;
    let chunk = image.add(Chunk {
        segment: Segment::ReadOnly,
        rank: Rank::Blob,
        output: blob.section,
        align: blob.align,
        size,
        bytes: Cow::Borrowed(blob.bytes),
        address: 0,
    });
    if let Some(symbol) = blob.symbol {
        let export =
            Export { at: Location { chunk, offset: 0 }, size, function: false, weak: false };
        if exports.insert(symbol, export).is_some() {
            return Err(CodeError::new(
                CodeErrorKind::DuplicateSymbol,
                format!(
                    "symbol `{symbol}` is defined by a blob and by another part of the library"
                ),
            ));
        }
    }
    Ok(())
}

fn section_header(chunk: &Chunk<'_>, name: u32) -> SectionHeader {
    let (kind, entry_size) = match chunk.output {
        ".dynstr" => (elf::SHT_STRTAB, 0),
        ".dynsym" => (elf::SHT_DYNSYM, tables::SYMBOL),
        ".hash" => (elf::SHT_HASH, 4),
        ".rela.dyn" => (elf::SHT_RELA, tables::RELOCATION),
        ".dynamic" => (elf::SHT_DYNAMIC, tables::DYNAMIC),
        _ if chunk.rank == Rank::Zero => (elf::SHT_NOBITS, 0),
        _ => (elf::SHT_PROGBITS, 0),
    };
    let rights = match chunk.segment {
        Segment::ReadOnly => 0,
        Segment::Text => elf::SHF_EXECINSTR.0,
        Segment::Data => elf::SHF_WRITE.0,
    };
    SectionHeader {
        name,
        kind: kind.0,
        flags: elf::SHF_ALLOC.0 | rights,
        address: chunk.address,
        offset: chunk.address,
        size: chunk.size,
        link: 0,
        info: u32::from(kind == elf::SHT_DYNSYM),
        align: chunk.align,
        entry_size,
    }
}

fn detached_header(name: u32, kind: elf::SectionType, offset: u64, size: u64) -> SectionHeader {
    SectionHeader { name, kind: kind.0, offset, size, align: 1, ..SectionHeader::default() }
}

fn pad(out: &mut dyn Write, at: &mut u64, to: u64) -> io::Result<()> {
    const ZEROS: [u8; PAGE] = [0; PAGE];
    while *at < to {
        let step = (to - *at).min(PAGE as u64) as usize;
        put(out, at, &ZEROS[..step])?;
    }
    Ok(())
}

fn put(out: &mut dyn Write, at: &mut u64, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    *at += bytes.len() as u64;
    Ok(())
}
