//! Turns a [`SharedLibrary`] into bytes: links it, reserves every file range, then writes them.
//!
//! [`object::write::elf::Writer`] encodes headers, symbols, relocations and string tables. What
//! is decided here is which entries exist and where they lie. The order is forced: symbol and
//! relocation counts fix the sizes of the dynamic tables, these fix where the linked image begins,
//! and the image's addresses fix the contents of the tables.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use object::Endianness;
use object::elf;
use object::write::elf::{
    FileHeader, ProgramHeader, Rel, SectionHeader, SectionIndex, Sym, Writer,
};
use object::write::{StreamingBuffer, StringId};

use crate::elf::{Blob, SharedLibrary};
use crate::error::{CodeError, CodeErrorKind};
use crate::imports;
use crate::link::{
    Absolute, AbsoluteTarget, Chunk, ChunkId, ChunkOrder, Export, Import, LinkRules, LinkedImage,
    Location, Segment, SegmentRanges, Width,
};
use crate::machine::Machine;
use crate::object_file::ObjectFile;
use crate::resolve;

/// The largest alignment of a blob.
const LARGEST_ALIGN: u64 = 4096;

/// Entries of `.dynamic`, not counting those for libraries and the library's own name.
const DYNAMIC_ENTRIES: usize = 11;

/// Returns how an undefined name may be satisfied.
fn import(name: &str) -> Option<Import> {
    if imports::is_slot(name) {
        return Some(Import::Slot);
    }
    imports::origin(name).map(|_| Import::Function)
}

/// The linked parts of a library, before they have addresses.
pub(crate) struct LinkedLibrary<'a> {
    image: LinkedImage<'a>,
    exports: BTreeMap<&'a str, Export>,
    unmapped: &'a [(&'a str, &'a [u8])],
    soname: Option<&'a str>,
    initialiser: Option<ChunkId>,
}

/// An output section: a run of chunks with one name.
struct Section {
    name: StringId,
    index: SectionIndex,
    segment: Segment,
    contents: Contents,
    address: u64,
    size: u64,
    align: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Bytes,
    /// Zeroed memory that the file does not hold.
    Zero,
    /// The dynamic table, which the writer fills in.
    Dynamic,
}

/// A section that is in the file and in no segment.
struct UnmappedSection<'a> {
    name: StringId,
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> UnmappedSection<'a> {
    fn reserve<'w>(name: &'a str, bytes: &'a [u8], writer: &mut Writer<'w>) -> Self
    where
        'a: 'w,
    {
        writer.reserve_section_index();
        let name = writer.add_section_name(name.as_bytes());
        Self { name, offset: writer.reserve(bytes.len() as u64, 1), bytes }
    }
}

/// Names in the dynamic string table.
struct DynamicNames {
    /// Of imports, then of exports, in symbol order.
    symbols: Vec<StringId>,
    needed: Vec<StringId>,
    soname: Option<StringId>,
}

/// File offsets, which are also addresses, of the dynamic tables.
struct TableOffsets {
    strings: u64,
    symbols: u64,
    hash: u64,
    relocations: u64,
}

/// Everything that has its final place in the file.
struct Layout<'a> {
    names: DynamicNames,
    tables: TableOffsets,
    dynamic: ChunkId,
    /// The address of the function that runs when the library opens.
    initialiser: Option<u64>,
    segments: SegmentRanges,
    relocations: Vec<Rel>,
    /// Number of leading `relocations` that only add the load address.
    relative: usize,
    relocation_section: Option<StringId>,
    sections: Vec<Section>,
    unmapped: Vec<UnmappedSection<'a>>,
}

impl<'a> LinkedLibrary<'a> {
    /// Resolves symbols and collects the parts of `library`, whose parsed objects are `files`.
    pub(crate) fn gather(
        library: &'a SharedLibrary<'a>,
        files: &'a [ObjectFile<'a>],
    ) -> Result<Self, CodeError> {
        let machine = library.machine;
        let rules = LinkRules { machine, import: &import, relro: Segment::Data };
        let mut image = resolve::gather(files, &rules)?;
        for &name in &library.slots {
            if !imports::is_slot(name) {
                return Err(CodeError::new(
                    CodeErrorKind::UnknownSymbol,
                    format!("`{name}` is not a pointer variable that loaders fill"),
                ));
            }
            if !image.slots.contains_key(name) {
                let at = Location { chunk: image.add(Chunk::zeroed(8, 8)), offset: 0 };
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
        let initialiser = library.initialiser.map(|code| image.add(initialiser_chunk(code)));
        let (unmapped, soname) = (&library.unmapped[..], library.soname);
        Ok(Self { image, exports, unmapped, soname, initialiser })
    }

    /// Writes the file. An error of linking comes before anything is written.
    pub(crate) fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut buffer = StreamingBuffer::new(out);
        let image = &mut self.image;
        let mut writer = Writer::new(Endianness::Little, true, &mut buffer);
        let mut layout =
            Layout::reserve(image, &self.exports, self.unmapped, self.soname, &mut writer)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        layout.initialiser = self.initialiser.map(|id| image.chunks[id.0].address);
        layout
            .write(image, &self.exports, &mut writer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, failed(error)))?;
        buffer.flush()
    }
}

impl<'a> Layout<'a> {
    fn reserve<'w>(
        image: &mut LinkedImage<'a>,
        exports: &BTreeMap<&'a str, Export>,
        unmapped: &[(&'a str, &'a [u8])],
        soname: Option<&'a str>,
        writer: &mut Writer<'w>,
    ) -> Result<Self, CodeError>
    where
        'a: 'w,
    {
        writer.reserve_file_header();
        writer.reserve_program_headers(program_headers(image));
        let names = add_names(image, exports, soname, writer);
        let tables = TableOffsets {
            strings: writer.reserve_dynstr().map_err(failed)?,
            symbols: writer.reserve_dynsym(),
            hash: writer.reserve_hash(buckets(&names), symbol_count(&names)),
            relocations: writer.reserve_relocations(image.absolute_count(), true),
        };
        let entries = names.needed.len() + usize::from(names.soname.is_some()) + DYNAMIC_ENTRIES;
        let dynamic = image.add(dynamic_chunk(entries));
        let segments = image.layout(writer.reserved_len())?;
        let absolutes = image.patch()?;
        let (relocations, relative) = relocations(image.machine, &absolutes, &segments)?;
        let has_relocations = !relocations.is_empty();
        let relocation_section = has_relocations.then(|| {
            writer.reserve_section_index();
            writer.add_section_name(b".rela.dyn")
        });
        let sections = reserve_sections(image, dynamic, writer);
        writer.reserve_until(image.chunks[dynamic.0].address);
        writer.reserve_dynamic(entries);
        writer.reserve_until(segments.data.end);
        let unmapped = unmapped
            .iter()
            .map(|&(name, bytes)| UnmappedSection::reserve(name, bytes, writer))
            .collect();
        let shstrtab = writer.reserve_shstrtab_section_index();
        if shstrtab.0 >= u32::from(elf::SHN_LORESERVE) {
            return Err(CodeError::unsupported("a library has too many sections"));
        }
        writer.reserve_shstrtab().map_err(failed)?;
        writer.reserve_section_headers();
        Ok(Self {
            names,
            tables,
            dynamic,
            initialiser: None,
            segments,
            relocations,
            relative,
            relocation_section,
            sections,
            unmapped,
        })
    }

    fn write(
        &self,
        image: &LinkedImage<'a>,
        exports: &BTreeMap<&'a str, Export>,
        writer: &mut Writer<'_>,
    ) -> object::write::Result<()> {
        writer.write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            e_type: elf::ET_DYN,
            e_machine: image.machine.number(),
            e_entry: 0,
            e_flags: elf::FileFlags(0),
        })?;
        self.write_program_headers(image, writer);
        writer.write_dynstr();
        self.write_symbols(image, exports, writer);
        let mut names = vec![""];
        names.extend(&image.imports);
        names.extend(exports.keys());
        let hash = |at: u32| (at > 0).then(|| elf::hash(names[at as usize].as_bytes()));
        writer.write_hash(buckets(&self.names), symbol_count(&self.names), hash);
        writer.write_align_relocation();
        for relocation in &self.relocations {
            writer.write_relocation(true, relocation);
        }
        for id in image.order() {
            let chunk = &image.chunks[id.0];
            if chunk.order == ChunkOrder::Zero || chunk.size == 0 {
                continue;
            }
            writer.pad_until(chunk.address);
            if id == self.dynamic {
                self.write_dynamic(writer)?;
            } else {
                writer.write(&chunk.bytes);
            }
        }
        writer.pad_until(self.segments.data.end);
        for section in &self.unmapped {
            writer.write(section.bytes);
        }
        writer.write_shstrtab();
        self.write_section_headers(writer);
        Ok(())
    }

    fn write_program_headers(&self, image: &LinkedImage<'_>, writer: &mut Writer<'_>) {
        writer.write_align_program_headers();
        let mut write = |p_type, p_flags, at: u64, file_size: u64, memory_size: u64, p_align| {
            writer.write_program_header(&ProgramHeader {
                p_type,
                p_flags,
                p_offset: at,
                p_vaddr: at,
                p_paddr: at,
                p_filesz: file_size,
                p_memsz: memory_size,
                p_align,
            });
        };
        let SegmentRanges { read_only, text, data, end } = &self.segments;
        let page = image.machine.page() as u64;
        write(elf::PT_LOAD, elf::PF_R, 0, read_only.end, read_only.end, page);
        if has_text(image) {
            let size = text.end - text.start;
            write(elf::PT_LOAD, elf::PF_R | elf::PF_X, text.start, size, size, page);
        }
        let read_write = elf::PF_R | elf::PF_W;
        let (file_size, memory_size) = (data.end - data.start, end - data.start);
        write(elf::PT_LOAD, read_write, data.start, file_size, memory_size, page);
        let dynamic = &image.chunks[self.dynamic.0];
        write(elf::PT_DYNAMIC, read_write, dynamic.address, dynamic.size, dynamic.size, 8);
        // Without this header the dynamic linker would make the stack executable.
        write(elf::PT_GNU_STACK, read_write, 0, 0, 0, 16);
    }

    fn write_symbols(
        &self,
        image: &LinkedImage<'_>,
        exports: &BTreeMap<&str, Export>,
        writer: &mut Writer<'_>,
    ) {
        writer.write_null_dynamic_symbol();
        let (imported, exported) = self.names.symbols.split_at(image.imports.len());
        for &name in imported {
            writer.write_dynamic_symbol(&Sym {
                section: None,
                st_name: writer.dynamic_string_offset(Some(name)),
                st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_NOTYPE),
                st_other: elf::SymbolOther(0),
                st_shndx: elf::SHN_UNDEF,
                st_value: 0,
                st_size: 0,
            });
        }
        for (&name, export) in exported.iter().zip(exports.values()) {
            let bind = if export.weak { elf::STB_WEAK } else { elf::STB_GLOBAL };
            let kind = if export.function { elf::STT_FUNC } else { elf::STT_OBJECT };
            let address = image.address(export.at);
            writer.write_dynamic_symbol(&Sym {
                section: Some(self.section_at(address).0),
                st_name: writer.dynamic_string_offset(Some(name)),
                st_info: elf::SymbolInfo::new(bind, kind),
                st_other: elf::SymbolOther(0),
                st_shndx: elf::SHN_UNDEF,
                st_value: address,
                st_size: export.size,
            });
        }
    }

    /// The output section that covers an address of the image.
    fn section_at(&self, address: u64) -> SectionIndex {
        let covers = |section: &&Section| {
            (section.address..=section.address + section.size).contains(&address)
        };
        // The last match: an empty range shares its address with the section behind it.
        self.sections.iter().rfind(covers).map_or(SectionIndex(0), |section| section.index)
    }

    fn write_dynamic(&self, writer: &mut Writer<'_>) -> object::write::Result<()> {
        writer.write_align_dynamic();
        for &needed in &self.names.needed {
            writer.write_dynamic_string(elf::DT_NEEDED, needed)?;
        }
        if let Some(soname) = self.names.soname {
            writer.write_dynamic_string(elf::DT_SONAME, soname)?;
        }
        writer.write_dynamic(elf::DT_HASH, self.tables.hash)?;
        writer.write_dynamic(elf::DT_STRTAB, self.tables.strings)?;
        writer.write_dynamic(elf::DT_SYMTAB, self.tables.symbols)?;
        writer.write_dynamic(elf::DT_STRSZ, writer.dynstr_len().into())?;
        writer.write_dynamic(elf::DT_SYMENT, SYMBOL_SIZE)?;
        let mut left = DYNAMIC_ENTRIES - 5;
        if !self.relocations.is_empty() {
            let size = RELOCATION_SIZE * self.relocations.len() as u64;
            writer.write_dynamic(elf::DT_RELA, self.tables.relocations)?;
            writer.write_dynamic(elf::DT_RELASZ, size)?;
            writer.write_dynamic(elf::DT_RELAENT, RELOCATION_SIZE)?;
            writer.write_dynamic(elf::DT_RELACOUNT, self.relative as u64)?;
            left -= 4;
        }
        if let Some(address) = self.initialiser {
            writer.write_dynamic(elf::DT_INIT, address)?;
            left -= 1;
        }
        for _ in 0..left {
            writer.write_dynamic(elf::DT_NULL, 0)?;
        }
        Ok(())
    }

    fn write_section_headers(&self, writer: &mut Writer<'_>) {
        writer.write_null_section_header();
        writer.write_dynstr_section_header(self.tables.strings);
        writer.write_dynsym_section_header(self.tables.symbols, 1);
        writer.write_hash_section_header(self.tables.hash);
        let symbols = writer.dynsym_index();
        if let Some(name) = self.relocation_section {
            writer.write_section_header(&SectionHeader {
                sh_name: writer.section_name_offset(Some(name)),
                sh_type: elf::SHT_RELA,
                sh_flags: elf::SHF_ALLOC,
                sh_addr: self.tables.relocations,
                sh_offset: self.tables.relocations,
                sh_size: RELOCATION_SIZE * self.relocations.len() as u64,
                sh_link: symbols.0,
                sh_info: 0,
                sh_addralign: 8,
                sh_entsize: RELOCATION_SIZE,
            });
        }
        for section in &self.sections {
            if section.contents == Contents::Dynamic {
                writer.write_dynamic_section_header(section.address);
                continue;
            }
            let rights = match section.segment {
                Segment::ReadOnly => elf::SectionFlags(0),
                Segment::Text => elf::SHF_EXECINSTR,
                Segment::Data => elf::SHF_WRITE,
            };
            let zero = section.contents == Contents::Zero;
            writer.write_section_header(&SectionHeader {
                sh_name: writer.section_name_offset(Some(section.name)),
                sh_type: if zero { elf::SHT_NOBITS } else { elf::SHT_PROGBITS },
                sh_flags: elf::SHF_ALLOC | rights,
                sh_addr: section.address,
                sh_offset: section.address,
                sh_size: section.size,
                sh_link: 0,
                sh_info: 0,
                sh_addralign: section.align,
                sh_entsize: 0,
            });
        }
        for section in &self.unmapped {
            writer.write_section_header(&SectionHeader {
                sh_name: writer.section_name_offset(Some(section.name)),
                sh_type: elf::SHT_PROGBITS,
                sh_flags: elf::SectionFlags(0),
                sh_addr: 0,
                sh_offset: section.offset,
                sh_size: section.bytes.len() as u64,
                sh_link: 0,
                sh_info: 0,
                sh_addralign: 1,
                sh_entsize: 0,
            });
        }
        writer.write_shstrtab_section_header();
    }
}

/// Size in bytes of a symbol.
const SYMBOL_SIZE: u64 = size_of::<elf::Sym64<object::LittleEndian>>() as u64;
/// Size in bytes of a relocation with addend.
const RELOCATION_SIZE: u64 = size_of::<elf::Rela64<object::LittleEndian>>() as u64;

fn failed(error: object::write::Error) -> CodeError {
    CodeError::unsupported(format!("the library cannot be written: {error}"))
}

fn has_text(image: &LinkedImage<'_>) -> bool {
    image.chunks.iter().any(|chunk| chunk.segment == Segment::Text && chunk.size > 0)
}

fn program_headers(image: &LinkedImage<'_>) -> u32 {
    if has_text(image) { 5 } else { 4 }
}

/// Dynamic symbols with the null symbol.
fn symbol_count(names: &DynamicNames) -> u32 {
    1 + names.symbols.len() as u32
}

/// Buckets of the System V hash table. It is chosen over the GNU table because it needs no
/// particular symbol order and every dynamic linker reads it; libraries here have too few symbols
/// for the look-up speed to matter.
fn buckets(names: &DynamicNames) -> u32 {
    (symbol_count(names) / 2).max(1).next_power_of_two()
}

/// The dynamic table, whose contents the writer encodes.
fn initialiser_chunk(code: &[u8]) -> Chunk<'_> {
    Chunk {
        segment: Segment::Text,
        order: ChunkOrder::Section,
        output: ".init",
        align: 16,
        size: code.len() as u64,
        bytes: Cow::Borrowed(code),
        address: 0,
    }
}

fn dynamic_chunk<'a>(entries: usize) -> Chunk<'a> {
    Chunk {
        segment: Segment::Data,
        order: ChunkOrder::Section,
        output: ".dynamic",
        align: 8,
        size: (entries * size_of::<elf::Dyn64<object::LittleEndian>>()) as u64,
        bytes: Cow::Borrowed(&[]),
        address: 0,
    }
}

fn add_names<'w>(
    image: &LinkedImage<'w>,
    exports: &BTreeMap<&'w str, Export>,
    soname: Option<&'w str>,
    writer: &mut Writer<'w>,
) -> DynamicNames {
    writer.reserve_dynstr_section_index();
    writer.reserve_dynsym_section_index();
    writer.reserve_hash_section_index();
    writer.reserve_null_dynamic_symbol_index();
    let mut symbols = Vec::with_capacity(image.imports.len() + exports.len());
    for name in image.imports.iter().chain(exports.keys()) {
        symbols.push(writer.add_dynamic_string(name.as_bytes()));
        writer.reserve_dynamic_symbol_index();
    }
    let libraries: BTreeSet<_> =
        image.imports.iter().filter_map(|name| imports::origin(name)?.library()).collect();
    let needed = libraries.iter().map(|name| writer.add_dynamic_string(name.as_bytes())).collect();
    let soname = soname.map(|name| writer.add_dynamic_string(name.as_bytes()));
    DynamicNames { symbols, needed, soname }
}

/// One section for each run of chunks with one output name.
fn reserve_sections<'w>(
    image: &LinkedImage<'w>,
    dynamic: ChunkId,
    writer: &mut Writer<'w>,
) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut last = None;
    for id in image.order() {
        let chunk = &image.chunks[id.0];
        if chunk.size == 0 {
            continue;
        }
        let this = (chunk.segment, chunk.order, chunk.output);
        if last == Some(this)
            && let Some(open) = sections.last_mut()
        {
            open.size = chunk.address + chunk.size - open.address;
            open.align = open.align.max(chunk.align);
            continue;
        }
        last = Some(this);
        let (index, name, contents) = if id == dynamic {
            let index = writer.reserve_dynamic_section_index();
            (index, writer.add_section_name(b".dynamic"), Contents::Dynamic)
        } else {
            let zero = chunk.order == ChunkOrder::Zero;
            let contents = if zero { Contents::Zero } else { Contents::Bytes };
            let name = writer.add_section_name(chunk.output.as_bytes());
            (writer.reserve_section_index(), name, contents)
        };
        let Chunk { segment, address, size, align, .. } = *chunk;
        sections.push(Section { name, index, segment, contents, address, size, align });
    }
    sections
}

/// The relocations, relative ones first, then by address, and the number of relative ones.
fn relocations(
    machine: Machine,
    absolutes: &[Absolute],
    segments: &SegmentRanges,
) -> Result<(Vec<Rel>, usize), CodeError> {
    let (mut relative, mut named) = (Vec::new(), Vec::new());
    for absolute in absolutes {
        if absolute.width != Width::Word64 || absolute.at < segments.data.start {
            return Err(CodeError::unsupported(format!(
                "{} is referred to by an absolute address in code or constants: compile \
                 position-independent code",
                absolute.label
            )));
        }
        match absolute.target {
            AbsoluteTarget::Image(address) => relative.push(Rel {
                r_offset: absolute.at,
                r_sym: 0,
                r_type: machine.relative(),
                r_addend: (address as i64).wrapping_add(absolute.addend),
            }),
            AbsoluteTarget::Import(import) => named.push(Rel {
                r_offset: absolute.at,
                r_sym: 1 + import as u32,
                r_type: machine.absolute(),
                r_addend: absolute.addend,
            }),
        }
    }
    let count = relative.len();
    relative.append(&mut named);
    Ok((relative, count))
}

fn add_blob<'a>(
    image: &mut LinkedImage<'a>,
    exports: &mut BTreeMap<&'a str, Export>,
    blob: &Blob<'a>,
) -> Result<(), CodeError> {
    if !blob.align.is_power_of_two() || blob.align > LARGEST_ALIGN {
        return Err(CodeError::unsupported(format!(
            "a blob in section `{}` asks for alignment {}",
            blob.section, blob.align
        )));
    }
    let size = blob.bytes.len() as u64;
    let chunk = image.add(Chunk {
        segment: Segment::ReadOnly,
        order: ChunkOrder::Blob,
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
