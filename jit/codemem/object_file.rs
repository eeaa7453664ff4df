//! Reads a relocatable ELF object into the few facts that linking needs.
//!
//! The bytes are untrusted: whatever this module returns has symbol and section indices, symbol
//! offsets, alignments and relocation offsets already checked, so the linker can index freely.
//! Sections that are not loaded (debug information, notes, unwind tables) are dropped together
//! with their relocations.

use std::fmt;

use object::LittleEndian;
use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::read::elf::{FileHeader as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable};
use object::read::{SectionIndex, SymbolIndex};

use crate::error::CodeError;
use crate::machine::{Machine, RelocationKind};

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// Largest section accepted; keeps every sum of sizes far from overflow.
const MAX_SECTION: u64 = i32::MAX as u64;

/// A parsed object: loaded sections, all symbols, and relocations of the loaded sections.
#[derive(Debug)]
pub(crate) struct ObjectFile<'a> {
    /// Name for messages.
    pub(crate) name: String,
    pub(crate) machine: Machine,
    pub(crate) sections: Vec<Section<'a>>,
    /// Indexed as in the file; entry 0 is the null symbol.
    pub(crate) symbols: Vec<Symbol<'a>>,
    pub(crate) relocations: Vec<Relocation>,
}

/// The memory rights that a section needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionKind {
    /// Constants without addresses in them.
    ReadOnly,
    /// Constants that need relocating (`.data.rel.ro`).
    RelRo,
    Text,
    Data,
    /// Zero-initialised data.
    Zero,
}

#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: SectionKind,
    /// A power of two, at most one page.
    pub(crate) align: u64,
    pub(crate) size: u64,
    /// `size` bytes, or none for `Zero`.
    pub(crate) bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Local,
    Global,
    Weak,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolValue {
    Undefined,
    /// Offset is at most the section's size.
    Section {
        index: usize,
        offset: u64,
    },
    /// To be allocated by the linker, zeroed.
    Common {
        align: u64,
    },
    /// In a section that is not loaded, or an absolute value: fine unless something refers to it.
    Unusable,
}

#[derive(Debug)]
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: SymbolValue,
    pub(crate) size: u64,
    pub(crate) binding: Binding,
    pub(crate) hidden: bool,
    pub(crate) function: bool,
}

#[derive(Debug)]
pub(crate) struct Relocation {
    pub(crate) section: usize,
    /// The whole field lies inside the section's bytes.
    pub(crate) offset: u64,
    pub(crate) kind: RelocationKind,
    pub(crate) symbol: usize,
    pub(crate) addend: i64,
}

impl<'a> ObjectFile<'a> {
    /// Parses and checks `bytes`; `name` is used in messages.
    pub(crate) fn parse(name: &str, bytes: &'a [u8]) -> Result<Self, CodeError> {
        let reader = Reader::new(name, bytes)?;
        let (sections, loaded) = reader.sections()?;
        let symbols = reader.symbols(&sections, &loaded)?;
        let relocations = reader.relocations(&sections, &loaded, symbols.len())?;
        let (name, machine) = (name.to_owned(), reader.machine);
        Ok(Self { name, machine, sections, symbols, relocations })
    }

    /// A symbol's label in messages: its own name, or its section's.
    pub(crate) fn symbol_label(&self, index: usize) -> String {
        let symbol = &self.symbols[index];
        match symbol.value {
            SymbolValue::Section { index, .. } if symbol.name.is_empty() => {
                format!("section `{}`", self.sections[index].name)
            }
            _ => format!("symbol `{}`", symbol.name),
        }
    }
}

struct Reader<'n, 'a> {
    name: &'n str,
    machine: Machine,
    bytes: &'a [u8],
    table: SectionTable<'a, Header>,
    symbols: SymbolTable<'a, Header>,
}

/// For each section header: its index among the loaded sections.
type LoadedIndex = Vec<Option<usize>>;

impl<'n, 'a> Reader<'n, 'a> {
    fn new(name: &'n str, bytes: &'a [u8]) -> Result<Self, CodeError> {
        let fault = |what: &str| CodeError::malformed(format!("object `{name}`: {what}"));
        let header = Header::parse(bytes).map_err(|error| fault(&error.to_string()))?;
        let machine = Machine::of(header.e_machine(LE));
        let (Some(machine), true, elf::ET_REL) =
            (machine, header.is_little_endian(), header.e_type(LE))
        else {
            return Err(fault("not a relocatable ELF file for x86-64 or AArch64"));
        };
        let table = header.sections(LE, bytes).map_err(|error| fault(&error.to_string()))?;
        let symbols =
            table.symbols(LE, bytes, elf::SHT_SYMTAB).map_err(|error| fault(&error.to_string()))?;
        Ok(Self { name, machine, bytes, table, symbols })
    }

    fn fault(&self, what: impl std::fmt::Display) -> CodeError {
        CodeError::malformed(format!("object `{}`: {what}", self.name))
    }

    fn unsupported(&self, what: impl std::fmt::Display) -> CodeError {
        CodeError::unsupported(format!("object `{}`: {what}", self.name))
    }

    fn sections(&self) -> Result<(Vec<Section<'a>>, LoadedIndex), CodeError> {
        let mut sections = Vec::new();
        let mut loaded = vec![None; self.table.len()];
        for (index, header) in self.table.enumerate() {
            if let Some(section) = self.section(header)? {
                loaded[index.0] = Some(sections.len());
                sections.push(section);
            }
        }
        Ok((sections, loaded))
    }

    fn section(
        &self,
        header: &'a SectionHeader64<LittleEndian>,
    ) -> Result<Option<Section<'a>>, CodeError> {
        let name = self.table.section_name(LE, header).map_err(|error| self.fault(error))?;
        let name =
            std::str::from_utf8(name).map_err(|_| self.fault("section name is not UTF-8"))?;
        let (flags, kind) = (header.sh_flags(LE).0, header.sh_type(LE));
        let has = |flag: elf::SectionFlags| flags & flag.0 != 0;
        let skipped = kind == elf::SHT_NULL || kind == elf::SHT_NOTE || name == ".eh_frame";
        if !has(elf::SHF_ALLOC) || skipped {
            return Ok(None);
        }
        if has(elf::SHF_TLS) || has(elf::SHF_COMPRESSED) {
            return Err(
                self.unsupported(format_args!("section `{name}` is thread-local or compressed"))
            );
        }
        let zero = kind == elf::SHT_NOBITS;
        if !zero && kind != elf::SHT_PROGBITS {
            return Err(self.unsupported(format_args!(
                "section `{name}` has type {:#x} (constructors and the like do not run here)",
                kind.0
            )));
        }
        let kind = match (has(elf::SHF_EXECINSTR), has(elf::SHF_WRITE), zero) {
            (true, true, _) => {
                return Err(
                    self.unsupported(format_args!("section `{name}` is writable and executable"))
                );
            }
            (true, false, false) => SectionKind::Text,
            (false, true, false) if name.starts_with(".data.rel.ro") => SectionKind::RelRo,
            (false, true, false) => SectionKind::Data,
            (false, false, false) => SectionKind::ReadOnly,
            (false, true, true) => SectionKind::Zero,
            (_, false, true) => {
                return Err(self.fault(format_args!("section `{name}` is zero but not writable")));
            }
        };
        let (size, align) = (header.sh_size(LE), header.sh_addralign(LE).max(1));
        if size > MAX_SECTION {
            return Err(self.fault(format_args!("section `{name}` has {size} bytes")));
        }
        self.check_align(align, format_args!("section `{name}`"))?;
        let bytes = header.data(LE, self.bytes).map_err(|error| self.fault(error))?;
        Ok(Some(Section { name, kind, align, size, bytes }))
    }

    fn check_align(&self, align: u64, what: std::fmt::Arguments<'_>) -> Result<(), CodeError> {
        if align.is_power_of_two() && align <= self.machine.page() as u64 {
            Ok(())
        } else {
            Err(self.unsupported(format_args!("{what} has alignment {align}")))
        }
    }

    fn symbols(
        &self,
        sections: &[Section<'a>],
        loaded: &LoadedIndex,
    ) -> Result<Vec<Symbol<'a>>, CodeError> {
        let mut symbols = Vec::with_capacity(self.symbols.len());
        for (index, raw) in self.symbols.symbols().iter().enumerate() {
            symbols.push(self.symbol(SymbolIndex(index), raw, sections, loaded)?);
        }
        Ok(symbols)
    }

    fn symbol(
        &self,
        index: SymbolIndex,
        raw: &Sym64<LittleEndian>,
        sections: &[Section<'a>],
        loaded: &LoadedIndex,
    ) -> Result<Symbol<'a>, CodeError> {
        let name = self.symbols.symbol_name(LE, raw).map_err(|error| self.fault(error))?;
        let name = std::str::from_utf8(name).map_err(|_| self.fault("symbol name is not UTF-8"))?;
        let (size, st_value) = (raw.st_size(LE), raw.st_value(LE));
        let kind = raw.st_type();
        if kind == elf::STT_TLS || kind == elf::STT_GNU_IFUNC {
            return Err(self.unsupported(format_args!(
                "symbol `{name}` is thread-local or resolved at run time"
            )));
        }
        let binding = match raw.st_bind() {
            elf::STB_LOCAL => Binding::Local,
            elf::STB_GLOBAL => Binding::Global,
            elf::STB_WEAK => Binding::Weak,
            other => {
                return Err(self.unsupported(format_args!("symbol `{name}` has binding {other:?}")));
            }
        };
        let shndx = raw.st_shndx(LE);
        let value = if shndx == elf::SHN_COMMON {
            self.check_align(st_value, format_args!("symbol `{name}`"))?;
            if size > MAX_SECTION {
                return Err(self.fault(format_args!("symbol `{name}` has {size} bytes")));
            }
            SymbolValue::Common { align: st_value }
        } else if shndx == elf::SHN_UNDEF {
            SymbolValue::Undefined
        } else {
            let section =
                self.symbols.symbol_section(LE, raw, index).map_err(|error| self.fault(error))?;
            self.section_offset(name, section, st_value, sections, loaded)?
        };
        let visibility = raw.st_visibility();
        let hidden = visibility == elf::STV_HIDDEN || visibility == elf::STV_INTERNAL;
        Ok(Symbol { name, value, size, binding, hidden, function: kind == elf::STT_FUNC })
    }

    fn section_offset(
        &self,
        name: &str,
        section: Option<SectionIndex>,
        offset: u64,
        sections: &[Section<'a>],
        loaded: &LoadedIndex,
    ) -> Result<SymbolValue, CodeError> {
        let Some(section) = section else {
            return Ok(SymbolValue::Unusable);
        };
        let loaded = loaded.get(section.0).ok_or_else(|| {
            self.fault(format_args!(
                "symbol `{name}` is in section {}, which is not there",
                section.0
            ))
        })?;
        let Some(index) = *loaded else {
            return Ok(SymbolValue::Unusable);
        };
        if offset > sections[index].size {
            return Err(self.fault(format_args!("symbol `{name}` lies outside of its section")));
        }
        Ok(SymbolValue::Section { index, offset })
    }

    fn relocations(
        &self,
        sections: &[Section<'a>],
        loaded: &LoadedIndex,
        symbols: usize,
    ) -> Result<Vec<Relocation>, CodeError> {
        let mut relocations = Vec::new();
        for header in self.table.iter() {
            let kind = header.sh_type(LE);
            let target = loaded.get(header.sh_info(LE) as usize).copied().flatten();
            if kind == elf::SHT_REL && target.is_some() {
                return Err(self.unsupported("relocations without addends"));
            }
            let Some((entries, _)) = header.rela(LE, self.bytes).map_err(|e| self.fault(e))? else {
                continue;
            };
            let Some(section) = target else { continue };
            for entry in entries {
                let relocation = self.relocation(entry, section, &sections[section], symbols)?;
                relocations.extend(relocation);
            }
        }
        Ok(relocations)
    }

    fn relocation(
        &self,
        entry: &Rela64<LittleEndian>,
        index: usize,
        section: &Section<'a>,
        symbols: usize,
    ) -> Result<Option<Relocation>, CodeError> {
        let offset = entry.r_offset.get(LE);
        let label = fmt::from_fn(|f| write!(f, "relocation at `{}`+{offset:#x}", section.name));
        let of = entry.r_type(LE, false);
        let kind = self.machine.relocation(of);
        let unknown = |_| self.unsupported(format_args!("{label} has type {}", of.0));
        let Some(kind) = kind.map_err(unknown)? else { return Ok(None) };
        let inside =
            offset.checked_add(kind.width()).is_some_and(|end| end <= section.bytes.len() as u64);
        if !inside {
            return Err(self.fault(format_args!("{label} lies outside of the section's bytes")));
        }
        let symbol = entry.r_sym(LE, false) as usize;
        if symbol == 0 || symbol >= symbols {
            return Err(self.fault(format_args!("{label} refers to symbol {symbol}")));
        }
        let addend = entry.r_addend.get(LE);
        Ok(Some(Relocation { section: index, offset, kind, symbol, addend }))
    }
}
