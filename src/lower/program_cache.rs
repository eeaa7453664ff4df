//! Programs lowered before, on disk: what a start would make of a model with the importer and the graph passes.
//!
//! One file per program in the folder of the [kernel cache](crate::kernel_cache), under its limit: bytecode, constants as
//! kernels read them (packed, aligned), and each kernel before it is scheduled with the digest of the request
//! for it. The code of kernels is found in the kernel cache, of any generator. A caller names an entry
//! by a hash of everything that decides it; the files that the model was read from stand in the entry, by
//! their contents.
//!
//! An entry is one page of header and a body under one checksum. It is read into memory, not mapped: in huge
//! pages, like constants that were just made.
//!
//! Decision: docs/decisions/0091-stored-programs.md

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use reflex_runtime::aligned_bytes::AlignedBytes;
use reflex_tir::flops::FlopCount;
use reflex_vm::executable::{Constant, Executable};
use reflex_vm::{align, serialize};

use crate::LowerError;
use crate::compile::{LoweredModule, request};
use crate::content_digest::{Checksum, ChecksumWriter, ContentDigest};
use crate::kernel_cache::{KernelCache, RequestDigest, note_use};
use crate::kernel_source::KernelSource;
use crate::passes::sequence::RuntimeModules;
use crate::pipeline::Options;

/// First bytes of an entry.
const MAGIC: &[u8; 8] = b"RFXPROG1";
/// The header, and the alignment of the executable in the body.
const PAGE: usize = 4096;
/// The part of the cache's limit that one entry may take.
const SHARE: u64 = 4;

/// Names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramKey(blake3::Hash);

/// A file that a model was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Its name below the model's folder.
    pub name: String,
    /// The digest of its contents.
    pub digest: ContentDigest,
}

/// The part of an entry beside the lowered module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The files of the model beside its own.
    pub inputs: Vec<InputFile>,
    /// The caller's own description of the program.
    pub interface: Vec<u8>,
}

/// A program to be stored.
pub struct Program<'a> {
    /// Beside the module.
    pub origin: &'a Origin,
    /// As in [`LoweredModule`].
    pub executable: &'a Executable,
    /// As in [`LoweredModule`].
    pub kernels: &'a [KernelSource],
    /// As in [`LoweredModule`].
    pub operations: &'a BTreeMap<String, FlopCount>,
}

/// The beginning of a body.
#[derive(Serialize, Deserialize)]
struct Head {
    inputs: Vec<(String, [u8; 32])>,
    interface: Vec<u8>,
    operations: BTreeMap<String, FlopCount>,
    kernels: Vec<KernelHead>,
}

/// A kernel whose function lies behind the head, after those before it.
#[derive(Serialize, Deserialize)]
struct KernelHead {
    name: String,
    digests: Vec<[u8; 32]>,
    bytes: u64,
}

impl ProgramKey {
    /// The key of a program that these parts decide.
    pub fn of(parts: &[&[u8]]) -> ProgramKey {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        ProgramKey(hasher.finalize())
    }
}

impl KernelCache {
    /// A program, if it is there and whole.
    pub fn program(&self, key: &ProgramKey) -> Option<(Origin, LoweredModule)> {
        let path = self.program_path(key);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.warn(&error);
                }
                return None;
            }
        };
        let found = self.read(&file);
        if found.is_none() {
            self.remove_corrupt(&path);
            return None;
        }
        if let Ok(used) = file.metadata().and_then(|meta| meta.modified()) {
            note_use(&path, used);
        }
        found
    }

    /// Stores a program, unless it takes more than its share of the cache.
    pub fn put_program(
        &self,
        key: &ProgramKey,
        program: &Program<'_>,
        options: &Options,
    ) -> Result<(), LowerError> {
        let tensor = |constant: &Constant| match constant {
            Constant::Tensor(tensor) => tensor.data.bytes().len() as u64,
            _ => 0,
        };
        if program.executable.constants.iter().map(tensor).sum::<u64>() > self.limit / SHARE {
            return Ok(());
        }
        let mut functions = vec![];
        let mut kernels = vec![];
        for kernel in program.kernels {
            let func = kernel.func()?;
            let bytes = postcard::to_stdvec(&*func).expect("plain data always encodes");
            let digest = |cpu| -> Result<[u8; 32], LowerError> {
                let known = kernel.digest(cpu).map(Ok);
                let make = || request(kernel, cpu, options).map(|r| RequestDigest::of(&r));
                known.unwrap_or_else(make).map(|digest| digest.0.into())
            };
            let digests = (0..options.cpus.len()).map(digest).collect::<Result<_, _>>()?;
            let name = kernel.name.clone();
            kernels.push(KernelHead { name, digests, bytes: bytes.len() as u64 });
            functions.extend(bytes);
        }
        let inputs = program.origin.inputs.iter();
        let head = Head {
            inputs: inputs.map(|file| (file.name.clone(), *file.digest.as_bytes())).collect(),
            interface: program.origin.interface.clone(),
            operations: program.operations.clone(),
            kernels,
        };
        let head = postcard::to_stdvec(&head).expect("plain data always encodes");
        match self.write_program(key, &head, &functions, program.executable) {
            Ok(()) => self.prune(),
            Err(error) => self.warn(&error),
        }
        Ok(())
    }

    fn write_program(
        &self,
        key: &ProgramKey,
        head: &[u8],
        functions: &[u8],
        executable: &Executable,
    ) -> io::Result<()> {
        let executable = align::align_tensors(executable, 0).map_err(io::Error::other)?;
        std::fs::create_dir_all(&self.dir)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(&[0; PAGE])?;
        let mut body = ChecksumWriter::new(file);
        body.write_all(&(head.len() as u64).to_le_bytes())?;
        body.write_all(head)?;
        body.write_all(functions)?;
        let padding = body.len().next_multiple_of(PAGE as u64) - body.len();
        body.write_all(&vec![0; padding as usize])?;
        serialize::write_to(&executable, &mut body)?;
        let (mut file, checksum) = body.finish()?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(MAGIC)?;
        file.write_all(checksum.as_bytes())?;
        file.persist(self.program_path(key))?;
        Ok(())
    }

    /// Reads an entry; `None` if it is damaged.
    fn read(&self, file: &File) -> Option<(Origin, LoweredModule)> {
        let start = Instant::now();
        let len = file.metadata().ok()?.len().checked_sub(PAGE as u64)?;
        if len > self.limit {
            return None;
        }
        let mut header = [0; PAGE];
        file.read_exact_at(&mut header, 0).ok()?;
        let sum = header.strip_prefix(MAGIC)?.get(..32)?;
        let mut body = AlignedBytes::zeroed(usize::try_from(len).ok()?);
        let checksum = Checksum::read(file, PAGE as u64, body.as_mut()).ok()?;
        if checksum.as_bytes() != sum {
            return None;
        }
        let (origin, mut lowered) = decode(Arc::new(body))?;
        lowered.took = start.elapsed();
        Some((origin, lowered))
    }

    fn program_path(&self, key: &ProgramKey) -> PathBuf {
        self.dir.join(format!("{}.program", key.0.to_hex()))
    }
}

/// The program in a body whose checksum was right; `None` if another version wrote it.
fn decode(body: Arc<AlignedBytes>) -> Option<(Origin, LoweredModule)> {
    let bytes = (*body).as_ref();
    let (size, rest) = bytes.split_first_chunk::<8>()?;
    let size = usize::try_from(u64::from_le_bytes(*size)).ok()?;
    let head: Head = postcard::from_bytes(rest.get(..size)?).ok()?;
    let mut at = size.checked_add(8)?;
    let mut kernels = vec![];
    for KernelHead { name, digests, bytes } in head.kernels {
        let end = at.checked_add(usize::try_from(bytes).ok()?)?;
        let digests = digests.into_iter().map(|digest| RequestDigest(digest.into())).collect();
        kernels.push(KernelSource::stored(name, digests, body.clone(), at..end)?);
        at = end;
    }
    let start = at.checked_next_multiple_of(PAGE)?;
    let range = start..bytes.len();
    let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = body.clone();
    let executable = serialize::from_shared(&owner, range).ok()?;
    let input = |(name, digest): (String, [u8; 32])| InputFile { name, digest: digest.into() };
    let inputs = head.inputs.into_iter().map(input).collect();
    let lowered = LoweredModule {
        executable,
        kernels,
        operations: head.operations,
        made: RuntimeModules::default(),
        of_host: BTreeSet::new(),
        stored: true,
        took: Duration::ZERO,
    };
    Some((Origin { inputs, interface: head.interface }, lowered))
}

#[cfg(test)]
mod tests {
    use reflex_runtime::dtype::DType;
    use reflex_tir::PrimFunc;
    use reflex_tir::codegen::CpuTarget;
    use reflex_vm::builder::ExecBuilder;
    use reflex_vm::bytecode::Reg;
    use reflex_vm::executable::{ConstData, TensorConst};

    use super::*;

    /// A function with a constant of so many bytes, which it passes to a kernel.
    fn executable(bytes: usize) -> Executable {
        let mut b = ExecBuilder::new();
        b.function("main", 1).unwrap();
        let data = ConstData::copy_of(&vec![7; bytes]);
        let shape = Box::new([bytes as i64]);
        let tensor = b.tensor(TensorConst { dtype: DType::U8, shape, data });
        b.emit_call("f", &[tensor], Reg::VOID).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
        b.finish().unwrap()
    }

    #[test]
    fn programs_come_back_as_they_were_unless_they_are_large() {
        let dir = tempfile::tempdir().unwrap();
        let limit = 1 << 20;
        let cache = KernelCache::new(dir.path(), Some("none"), limit);
        let key = ProgramKey::of(&[b"a", b"b"]);
        assert_ne!(key, ProgramKey::of(&[b"ab", b""]), "where a part ends counts");
        let digest = ContentDigest::of_bytes(b"model");
        let inputs = vec![InputFile { name: "m".to_owned(), digest }];
        let origin = Origin { inputs, interface: b"interface".to_vec() };
        let kernels = ["f", "g"].map(|name| KernelSource::from(PrimFunc::new(name)));
        let options = Options::new(CpuTarget::host());
        let operations = BTreeMap::new();
        let put = |bytes: usize| {
            let executable = &executable(bytes);
            let (origin, kernels, operations) = (&origin, &kernels[..], &operations);
            let program = Program { origin, executable, kernels, operations };
            cache.put_program(&key, &program, &options).unwrap();
        };
        put(limit as usize / 4 + 1);
        assert!(cache.program(&key).is_none(), "more than its share");
        put(100_000);
        let (found, lowered) = cache.program(&key).expect("stored");
        assert_eq!(found, origin);
        assert!(lowered.stored && lowered.kernels.len() == 2);
        for (stored, kernel) in lowered.kernels.iter().zip(&kernels) {
            assert_eq!(
                (&stored.name, stored.func().unwrap()),
                (&kernel.name, kernel.func().unwrap())
            );
            let made = RequestDigest::of(&request(kernel, 0, &options).unwrap());
            assert_eq!(stored.digest(0), Some(made), "the code is found without decoding");
        }
        let tensor = |exec: &Executable| {
            let mut constants = exec.constants.iter();
            constants.find_map(|constant| match constant {
                Constant::Tensor(tensor) => Some(tensor.clone()),
                _ => None,
            })
        };
        let data = tensor(&lowered.executable).expect("a tensor").data;
        assert_eq!(data.bytes(), &[7; 100_000][..]);
        assert!(data.bytes().as_ptr().addr().is_multiple_of(64), "kernels read it in place");
    }
}
