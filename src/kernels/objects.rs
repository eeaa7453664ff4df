//! A program's kernels as object files, for saving the program and for disassembly.
//!
//! Decision: docs/decisions/0020-mapped-weights.md

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use reflex_lower::pipeline::Cpu;
use reflex_tir::codegen::{KernelTier, ObjectFile};

use crate::error::{Error, ErrorKind, Result};

/// Object code from this size on, in bytes, is kept in a file.
const LARGE: usize = 1 << 20;

/// Objects by CPU, the lowest first.
pub(crate) type ByCpu = [(Cpu, Vec<ObjectFile>)];

/// Object files of kernels, in a nameless temporary file when they are large: the loaded kernels
/// are in memory already, and most programs are never saved.
pub(crate) struct KernelObjects {
    /// Without their code when it is in a file.
    list: Box<ByCpu>,
    /// The code of all in order, and how much each has.
    file: Option<(File, Vec<usize>)>,
}

impl KernelObjects {
    /// Stores `list`, in memory if no temporary file can be made.
    pub(crate) fn new(list: Vec<(Cpu, Vec<ObjectFile>)>) -> KernelObjects {
        KernelObjects::with_limit(list, LARGE)
    }

    fn with_limit(mut list: Vec<(Cpu, Vec<ObjectFile>)>, large: usize) -> KernelObjects {
        let objects = || list.iter().flat_map(|(_, objects)| objects);
        let sizes: Vec<usize> = objects().map(|object| object.elf.len()).collect();
        let written = || -> io::Result<File> {
            let mut file = BufWriter::new(tempfile::tempfile()?);
            objects().try_for_each(|object| file.write_all(&object.elf))?;
            Ok(file.into_inner()?)
        };
        let file = (sizes.iter().sum::<usize>() >= large).then(written).and_then(io::Result::ok);
        if file.is_some() {
            list.iter_mut().flat_map(|(_, objects)| objects).for_each(|o| o.elf = vec![]);
        }
        KernelObjects { list: list.into(), file: file.map(|file| (file, sizes)) }
    }

    /// Returns the name of each kernel and its code generator, in order.
    pub(crate) fn tiers(&self) -> impl Iterator<Item = (&str, KernelTier)> {
        let objects = self.list.iter().flat_map(|(_, objects)| objects);
        objects.map(|object| (object.signature.name.as_str(), object.tier))
    }

    /// Returns all objects with their code.
    pub(crate) fn read(&self) -> Result<Cow<'_, ByCpu>> {
        let Some((file, sizes)) = &self.file else { return Ok(Cow::Borrowed(&self.list)) };
        let mut list = self.list.to_vec();
        let mut at = 0;
        for (object, size) in list.iter_mut().flat_map(|(_, objects)| objects).zip(sizes) {
            object.elf = vec![0; *size];
            file.read_exact_at(&mut object.elf, at).map_err(|error| {
                let text = format!("the kernels' temporary file cannot be read: {error}");
                Error::new(ErrorKind::Io, text)
            })?;
            at += *size as u64;
        }
        Ok(Cow::Owned(list))
    }
}

#[cfg(test)]
mod tests {
    use reflex_tir::PrimFunc;
    use reflex_tir::abi::raw_signature;
    use reflex_tir::codegen::CpuTarget;

    use super::*;

    #[test]
    fn a_file_gives_back_what_memory_does() {
        let object = |bytes: Vec<u8>| ObjectFile {
            signature: raw_signature(&PrimFunc::new("f")),
            tier: KernelTier::Optimised,
            elf: bytes,
            asm: None,
            micros: 1,
        };
        let cpu = || Cpu { level: None, suffix: String::new(), target: CpuTarget::host() };
        let list = || {
            let second = vec![object(vec![7; 5])];
            vec![(cpu(), vec![object(vec![1, 2, 3]), object(vec![])]), (cpu(), second)]
        };
        for (limit, in_file) in [(8, true), (9, false)] {
            let kept = KernelObjects::with_limit(list(), limit);
            assert_eq!(kept.file.is_some(), in_file);
            assert_eq!(kept.list[0].1[0].elf.is_empty(), in_file);
            let read: Vec<Vec<ObjectFile>> =
                kept.read().unwrap().iter().map(|l| l.1.clone()).collect();
            assert_eq!(read, list().into_iter().map(|l| l.1).collect::<Vec<_>>());
        }
    }
}
