//! Shows generated code to `gdb`, through its JIT interface: names, and how to unwind.
//!
//! The debugger puts a breakpoint on `__jit_debug_register_code` and reads
//! `__jit_debug_descriptor`; both names are its contract. What is registered is an ELF file in
//! memory with a symbol for each function and their `.debug_frame`.

use std::ops::Range;
use std::ptr;

use object::Endianness;
use object::elf;
use object::write::StringId;
use object::write::elf::{FileHeader, SectionHeader, SectionIndex, Sym, Writer};
use parking_lot::Mutex;

use crate::machine::Machine;

/// A function of published code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name in backtraces.
    pub name: String,
    /// Address of its first instruction.
    pub address: usize,
    /// Bytes of its instructions.
    pub size: usize,
}

/// An entry of the debugger's list.
#[repr(C)]
struct Entry {
    next: *mut Entry,
    previous: *mut Entry,
    file: *const u8,
    file_size: u64,
}

/// The root of the list, as the debugger reads it.
#[repr(C)]
struct Descriptor {
    version: u32,
    action: u32,
    relevant: *mut Entry,
    first: *mut Entry,
}

const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;

/// The list of everything registered.
#[unsafe(no_mangle)]
static mut __jit_debug_descriptor: Descriptor =
    Descriptor { version: 1, action: 0, relevant: ptr::null_mut(), first: ptr::null_mut() };

/// The debugger stops here to read the list.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn __jit_debug_register_code() {
    // The call must not be left out.
    std::hint::black_box(());
}

/// Guards the list.
static LIST: Mutex<()> = Mutex::new(());

/// Code the debugger knows, until this is dropped.
#[derive(Debug)]
pub struct Registered {
    entry: *mut Entry,
    _file: Box<[u8]>,
}

// SAFETY: the entry is used under the lock of the list only.
unsafe impl Send for Registered {}
// SAFETY: a shared reference gives no access to the entry.
unsafe impl Sync for Registered {}

/// Shows functions to the debugger. `text` has all of them, `debug_frame` is the contents of a
/// section of that name, with absolute addresses.
pub fn register(text: Range<usize>, symbols: &[Symbol], debug_frame: &[u8]) -> Registered {
    let file = elf_file(text, symbols, debug_frame).into_boxed_slice();
    let entry = Box::into_raw(Box::new(Entry {
        next: ptr::null_mut(),
        previous: ptr::null_mut(),
        file: file.as_ptr(),
        file_size: file.len() as u64,
    }));
    let _lock = LIST.lock();
    // SAFETY: entries are on the list from here until they are dropped, and the lock is held.
    unsafe {
        let list = &raw mut __jit_debug_descriptor;
        let first = (*list).first;
        (*entry).next = first;
        if !first.is_null() {
            (*first).previous = entry;
        }
        (*list).first = entry;
        tell(entry, REGISTER);
    }
    Registered { entry, _file: file }
}

/// # Safety
/// The lock is held, and `entry` is live.
unsafe fn tell(entry: *mut Entry, action: u32) {
    // SAFETY: the caller holds the lock of the list, and `entry` is live.
    unsafe {
        let list = &raw mut __jit_debug_descriptor;
        (*list).relevant = entry;
        (*list).action = action;
    }
    __jit_debug_register_code();
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _lock = LIST.lock();
        // SAFETY: the entry is on the list since `register`, the lock is held, and the only handle to
        // the entry is being dropped.
        unsafe {
            let Entry { next, previous, .. } = *self.entry;
            if previous.is_null() {
                let list = &raw mut __jit_debug_descriptor;
                (*list).first = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            tell(self.entry, UNREGISTER);
            drop(Box::from_raw(self.entry));
        }
    }
}

/// A relocatable ELF file without relocations, whose text section is where the code is.
fn elf_file(text: Range<usize>, symbols: &[Symbol], debug_frame: &[u8]) -> Vec<u8> {
    // A NUL byte in a name is the only thing that the writer refuses.
    let names: Vec<_> = symbols.iter().map(|symbol| symbol.name.replace('\0', "")).collect();
    let mut file = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut file);
    let written = Ranges::reserve(&names, debug_frame.len(), &mut writer)
        .and_then(|ranges| ranges.write(text, symbols, debug_frame, &mut writer));
    debug_assert!(written.is_ok(), "{written:?}");
    file
}

/// File ranges and names that are reserved before anything is written.
struct Ranges {
    text_index: SectionIndex,
    text_name: StringId,
    frame_name: StringId,
    frame_offset: u64,
    symbol_names: Vec<StringId>,
}

impl Ranges {
    fn reserve<'w>(
        names: &'w [String],
        frame_bytes: usize,
        writer: &mut Writer<'w>,
    ) -> object::write::Result<Self> {
        writer.reserve_file_header();
        let text_name = writer.add_section_name(b".text");
        let text_index = writer.reserve_section_index();
        let frame_name = writer.add_section_name(b".debug_frame");
        writer.reserve_section_index();
        let frame_offset = writer.reserve(frame_bytes as u64, 8);
        writer.reserve_null_symbol_index();
        let mut symbol_names = Vec::with_capacity(names.len());
        for name in names {
            symbol_names.push(writer.add_string(name.as_bytes()));
            writer.reserve_symbol_index(Some(text_index));
        }
        writer.reserve_symtab_section_index();
        writer.reserve_symtab();
        writer.reserve_strtab_section_index();
        writer.require_strtab();
        writer.reserve_strtab()?;
        writer.reserve_shstrtab_section_index();
        writer.reserve_shstrtab()?;
        writer.reserve_section_headers();
        Ok(Self { text_index, text_name, frame_name, frame_offset, symbol_names })
    }

    fn write(
        &self,
        text: Range<usize>,
        symbols: &[Symbol],
        debug_frame: &[u8],
        writer: &mut Writer<'_>,
    ) -> object::write::Result<()> {
        writer.write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            e_type: elf::ET_REL,
            e_machine: Machine::HOST.number(),
            e_entry: 0,
            e_flags: elf::FileFlags(0),
        })?;
        writer.pad_until(self.frame_offset);
        writer.write(debug_frame);
        writer.write_null_symbol();
        for (symbol, &name) in symbols.iter().zip(&self.symbol_names) {
            writer.write_symbol(&Sym {
                section: Some(self.text_index.0),
                st_name: writer.string_offset(Some(name)),
                st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC),
                st_other: elf::SymbolOther(0),
                st_shndx: elf::SHN_UNDEF,
                st_value: symbol.address.wrapping_sub(text.start) as u64,
                st_size: symbol.size as u64,
            });
        }
        writer.write_strtab();
        writer.write_shstrtab();
        writer.write_null_section_header();
        let frames = SectionHeader {
            sh_name: writer.section_name_offset(Some(self.frame_name)),
            sh_type: elf::SHT_PROGBITS,
            sh_flags: elf::SectionFlags(0),
            sh_addr: 0,
            sh_offset: self.frame_offset,
            sh_size: debug_frame.len() as u64,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 8,
            sh_entsize: 0,
        };
        writer.write_section_header(&SectionHeader {
            sh_name: writer.section_name_offset(Some(self.text_name)),
            sh_type: elf::SHT_NOBITS,
            sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
            sh_addr: text.start as u64,
            sh_size: text.len() as u64,
            ..frames.clone()
        });
        writer.write_section_header(&frames);
        writer.write_symtab_section_header(1);
        writer.write_strtab_section_header();
        writer.write_shstrtab_section_header();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    #[test]
    fn the_file_names_the_functions() {
        let symbols = [("one", 0x1000, 16), ("two", 0x1010, 32)]
            .map(|(name, address, size)| Symbol { name: name.to_owned(), address, size });
        let file = elf_file(0x1000..0x1030, &symbols, &[1, 2, 3]);
        let file = object::File::parse(&*file).unwrap();
        let text = file.section_by_name(".text").unwrap();
        assert_eq!((text.address(), text.size()), (0x1000, 0x30));
        assert_eq!(file.section_by_name(".debug_frame").unwrap().data().unwrap(), [1, 2, 3]);
        let found: Vec<_> = file.symbols().map(|s| (s.name().unwrap(), s.address())).collect();
        assert_eq!(found, [("one", 0), ("two", 16)]);
    }

    #[test]
    fn the_list_is_kept() {
        let count = || {
            let _lock = LIST.lock();
            // SAFETY: the lock is held, so the list does not change.
            unsafe {
                let list = &raw const __jit_debug_descriptor;
                let mut at = (*list).first;
                let mut count = 0;
                while !at.is_null() {
                    (at, count) = ((*at).next, count + 1);
                }
                count
            }
        };
        let before = count();
        let first = register(0..0, &[], &[]);
        let second = register(0..0, &[], &[]);
        assert_eq!(count(), before + 2);
        drop(first);
        assert_eq!(count(), before + 1);
        drop(second);
        assert_eq!(count(), before);
    }
}
