//! Shows generated code to `gdb`, through its JIT interface: names, and how to unwind.
//!
//! The debugger puts a breakpoint on [`__jit_debug_register_code`] and reads
//! [`__jit_debug_descriptor`]; both names are its contract. What is registered is an ELF file in
//! memory with a symbol for each function and their `.debug_frame`.

use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// A function of published code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// What people call it.
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

/// What the debugger reads.
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
// SAFETY: as for Send.
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
    let _lock = LIST.lock().unwrap_or_else(PoisonError::into_inner);
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
    // SAFETY: by the contract.
    unsafe {
        let list = &raw mut __jit_debug_descriptor;
        (*list).relevant = entry;
        (*list).action = action;
    }
    __jit_debug_register_code();
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _lock = LIST.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the entry is on the list, the lock is held, and nobody uses it afterwards.
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

/// A string table being written.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend(text.bytes().filter(|&byte| byte != 0));
        self.0.push(0);
        at
    }
}

const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// A section as its header tells it.
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    address: usize,
    /// Bytes in memory, for a section that is not in the file.
    size: usize,
    bytes: Vec<u8>,
    link: u32,
    info: u32,
    entry_size: usize,
}

impl Section {
    fn new(name: &'static str, kind: u32, bytes: Vec<u8>) -> Section {
        let size = bytes.len();
        Section { name, kind, flags: 0, address: 0, size, bytes, link: 0, info: 0, entry_size: 0 }
    }
}

/// A relocatable file without relocations, whose text is where the code is.
fn elf_file(text: Range<usize>, symbols: &[Symbol], debug_frame: &[u8]) -> Vec<u8> {
    use object::elf;
    let mut names = Strings(vec![0]);
    let mut table = vec![0; SYMBOL];
    for symbol in symbols {
        table.extend(names.add(&symbol.name).to_le_bytes());
        table.extend([elf::STB_GLOBAL.0 << 4 | elf::STT_FUNC.0, 0, 1, 0]);
        table.extend((symbol.address.wrapping_sub(text.start) as u64).to_le_bytes());
        table.extend((symbol.size as u64).to_le_bytes());
    }
    let code = Section {
        flags: (elf::SHF_ALLOC | elf::SHF_EXECINSTR).0,
        address: text.start,
        size: text.len(),
        ..Section::new(".text", elf::SHT_NOBITS.0, Vec::new())
    };
    let frames = Section::new(".debug_frame", elf::SHT_PROGBITS.0, debug_frame.to_vec());
    let table = Section {
        link: 4,
        info: 1,
        entry_size: SYMBOL,
        ..Section::new(".symtab", elf::SHT_SYMTAB.0, table)
    };
    let strings = Section::new(".strtab", elf::SHT_STRTAB.0, names.0);
    layout(vec![Section::new("", elf::SHT_NULL.0, Vec::new()), code, frames, table, strings])
}

/// Puts sections after the header, and their headers, with names, at the end.
fn layout(mut sections: Vec<Section>) -> Vec<u8> {
    use object::elf;
    let mut names = Strings(Vec::new());
    let mut offsets: Vec<u32> = sections.iter().map(|section| names.add(section.name)).collect();
    offsets.push(names.add(".shstrtab"));
    sections.push(Section::new(".shstrtab", elf::SHT_STRTAB.0, names.0));
    let mut file = vec![0; HEADER];
    let mut headers = Vec::with_capacity(sections.len() * SECTION);
    for (section, name) in sections.iter().zip(offsets) {
        file.resize(file.len().next_multiple_of(8), 0);
        headers.extend(name.to_le_bytes());
        headers.extend(section.kind.to_le_bytes());
        headers.extend(section.flags.to_le_bytes());
        headers.extend((section.address as u64).to_le_bytes());
        headers.extend((file.len() as u64).to_le_bytes());
        headers.extend((section.size as u64).to_le_bytes());
        headers.extend(section.link.to_le_bytes());
        headers.extend(section.info.to_le_bytes());
        headers.extend(8_u64.to_le_bytes());
        headers.extend((section.entry_size as u64).to_le_bytes());
        file.extend(&section.bytes);
    }
    file.resize(file.len().next_multiple_of(8), 0);
    let at = file.len() as u64;
    file.extend(headers);
    file[..HEADER].copy_from_slice(&header(at, sections.len() as u16));
    file
}

fn header(sections_at: u64, sections: u16) -> [u8; HEADER] {
    use object::elf;
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&elf::ELFMAG);
    header[4..7].copy_from_slice(&[elf::ELFCLASS64.0, elf::ELFDATA2LSB.0, elf::EV_CURRENT.0]);
    header[16..18].copy_from_slice(&elf::ET_REL.0.to_le_bytes());
    header[18..20].copy_from_slice(&elf::EM_X86_64.0.to_le_bytes());
    header[20..24].copy_from_slice(&u32::from(elf::EV_CURRENT.0).to_le_bytes());
    header[40..48].copy_from_slice(&sections_at.to_le_bytes());
    header[52..54].copy_from_slice(&(HEADER as u16).to_le_bytes());
    header[58..60].copy_from_slice(&(SECTION as u16).to_le_bytes());
    header[60..62].copy_from_slice(&sections.to_le_bytes());
    header[62..64].copy_from_slice(&(sections - 1).to_le_bytes());
    header
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
            let _lock = LIST.lock().unwrap();
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
