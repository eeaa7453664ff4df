//! Byte encodings of the ELF structures that the writer emits: little-endian, 64-bit.
//!
//! Only layouts live here; which entries exist and what they mean is decided in `elf`.

use object::elf;

/// Size of the file header.
pub(crate) const HEADER: u64 = 64;
/// Size of a program header.
pub(crate) const PROGRAM_HEADER: u64 = 56;
/// Size of a symbol.
pub(crate) const SYMBOL: u64 = 24;
/// Size of a relocation with addend.
pub(crate) const RELOCATION: u64 = 24;
/// Size of a dynamic entry.
pub(crate) const DYNAMIC: u64 = 16;

/// Bytes being assembled.
#[derive(Debug, Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }
}

/// A string table; offset 0 is the empty string.
#[derive(Debug)]
pub(crate) struct Strings(pub(crate) Vec<u8>);

impl Strings {
    pub(crate) fn new() -> Self {
        Self(vec![0])
    }

    pub(crate) fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend(text.as_bytes());
        self.0.push(0);
        at
    }
}

pub(crate) struct FileHeader {
    pub(crate) program_headers: u16,
    pub(crate) section_headers_at: u64,
    pub(crate) section_headers: u16,
    pub(crate) names_section: u16,
}

impl FileHeader {
    pub(crate) fn write(&self, to: &mut Bytes) {
        to.0.extend(elf::ELFMAG);
        to.u8(elf::ELFCLASS64.0).u8(elf::ELFDATA2LSB.0).u8(1).u8(0).u64(0);
        to.u16(elf::ET_DYN.0).u16(elf::EM_X86_64.0).u32(1).u64(0);
        to.u64(HEADER).u64(self.section_headers_at).u32(0);
        to.u16(HEADER as u16).u16(PROGRAM_HEADER as u16).u16(self.program_headers);
        to.u16(64).u16(self.section_headers).u16(self.names_section);
    }
}

pub(crate) struct ProgramHeader {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    /// File offset and virtual address, which are equal everywhere in our files.
    pub(crate) at: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) align: u64,
}

impl ProgramHeader {
    pub(crate) fn write(&self, to: &mut Bytes) {
        to.u32(self.kind).u32(self.flags).u64(self.at).u64(self.at).u64(self.at);
        to.u64(self.file_size).u64(self.memory_size).u64(self.align);
    }
}

#[derive(Debug, Default)]
pub(crate) struct SectionHeader {
    pub(crate) name: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
    pub(crate) entry_size: u64,
}

impl SectionHeader {
    pub(crate) fn write(&self, to: &mut Bytes) {
        to.u32(self.name).u32(self.kind).u64(self.flags).u64(self.address).u64(self.offset);
        to.u64(self.size).u32(self.link).u32(self.info).u64(self.align).u64(self.entry_size);
    }
}

pub(crate) fn symbol(to: &mut Bytes, name: u32, info: u8, section: u16, value: u64, size: u64) {
    to.u32(name).u8(info).u8(elf::STV_DEFAULT.0).u16(section).u64(value).u64(size);
}

pub(crate) fn relocation(to: &mut Bytes, at: u64, kind: u32, symbol: u32, addend: i64) {
    to.u64(at).u64((u64::from(symbol) << 32) | u64::from(kind)).u64(addend as u64);
}

pub(crate) fn dynamic(to: &mut Bytes, tag: u64, value: u64) {
    to.u64(tag).u64(value);
}

/// A System V hash table over the dynamic symbols; `names[0]` belongs to the null symbol.
///
/// Chosen over the GNU table because it needs no particular symbol order and every dynamic
/// linker reads it; libraries here have too few symbols for the look-up speed to matter.
pub(crate) fn hash_table(names: &[&str]) -> Vec<u8> {
    let buckets = (names.len() / 2).max(1).next_power_of_two();
    let mut heads = vec![0u32; buckets];
    let mut chains = vec![0u32; names.len()];
    for (index, name) in names.iter().enumerate().skip(1) {
        let bucket = hash(name) as usize % buckets;
        chains[index] = heads[bucket];
        heads[bucket] = index as u32;
    }
    let mut bytes = Bytes::default();
    bytes.u32(buckets as u32).u32(names.len() as u32);
    for word in heads.into_iter().chain(chains) {
        bytes.u32(word);
    }
    bytes.0
}

fn hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_follows_the_abi() {
        assert_eq!(hash(""), 0);
        assert_eq!(hash("printf"), 0x077905a6);
        assert_eq!(hash("exit"), 0x0006cf04);
    }

    #[test]
    fn every_name_is_in_its_bucket_chain() {
        let names = ["", "a", "b", "memcpy", "__tvm_ffi_add"];
        let table = hash_table(&names);
        let word = |at: usize| u32::from_le_bytes(table[4 * at..4 * at + 4].try_into().unwrap());
        let buckets = word(0);
        for name in &names[1..] {
            let mut at = word(2 + (hash(name) % buckets) as usize);
            while names[at as usize] != *name {
                at = word((2 + buckets + at) as usize);
                assert_ne!(at, 0, "{name} not found");
            }
        }
    }
}
