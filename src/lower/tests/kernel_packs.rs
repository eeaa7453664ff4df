//! Packs of the kernel cache: kernels of one compilation in one file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use reflex_lower::kernel_cache::{DEFAULT_LIMIT, KernelCache, KernelKey};
use reflex_tir::PrimFunc;
use reflex_tir::abi::raw_signature;
use reflex_tir::codegen::{CpuTarget, KernelTier, ObjectFile, OptLevel, PROTOCOL, Request, Target};

const NAMES: [&str; 2] = ["f", "g"];
/// Bytes before the index.
const HEADER: usize = 48;

fn object(name: &str) -> ObjectFile {
    let signature = raw_signature(&PrimFunc::new(name));
    let tier = KernelTier::Baseline;
    ObjectFile { signature, tier, elf: name.as_bytes().repeat(50), asm: None, micros: 1 }
}

/// The key of a function whose attribute tells it apart.
fn key(cache: &KernelCache, name: &str) -> KernelKey {
    let mut func = PrimFunc::new("f");
    func.attrs.insert("marked".to_owned(), name.to_owned());
    let target = Target::Cpu(CpuTarget {
        triple: "x86_64-unknown-linux-gnu".into(),
        features: BTreeSet::new(),
        vector_bytes: 16,
        l1d_bytes: 1,
        l2_bytes: 1,
    });
    let (funcs, opt) = (vec![func], OptLevel::O3);
    cache.key(&Request { protocol: PROTOCOL, funcs, target, opt, want_asm: false })
}

fn cache(dir: &Path, identity: &str) -> KernelCache {
    KernelCache::new(dir, Some(identity), DEFAULT_LIMIT).unnoted()
}

/// A folder with one pack, and the path of that.
fn stored() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let first = cache(dir.path(), "own");
    for name in NAMES {
        assert!(first.get(&key(&first, name)).is_none());
        first.put(&key(&first, name), &object(name));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    first.flush();
    first.flush();
    for name in NAMES {
        assert_eq!(first.get(&key(&first, name)), Some(object(name)));
    }
    let files: Vec<PathBuf> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    let [path] = &files[..] else { panic!("one file: {files:?}") };
    (dir, path.clone())
}

#[test]
fn kernels_of_a_compilation_are_one_file() {
    let (dir, path) = stored();
    let other = cache(dir.path(), "other");
    assert!(other.get(&key(&other, "f")).is_none());
    let again = cache(dir.path(), "own");
    assert_eq!(again.get(&key(&again, "g")), Some(object("g")));
    assert!(again.get(&key(&again, "h")).is_none());
    fs::remove_file(&path).unwrap();
    assert!(again.get(&key(&again, "f")).is_none());
    assert_eq!((again.corrupt_entries(), other.corrupt_entries()), (0, 0));
}

#[test]
fn a_damaged_pack_is_removed() {
    let (dir, path) = stored();
    let whole = fs::read(&path).unwrap();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let cache = cache(dir.path(), "own");
        let found = NAMES.map(|name| cache.get(&key(&cache, name)));
        assert!(found.iter().any(Option::is_none));
        for (found, name) in found.iter().zip(NAMES) {
            assert!(found.as_ref().is_none_or(|found| *found == object(name)));
        }
        assert_eq!((cache.corrupt_entries(), path.exists()), (1, false));
    };
    // The magic number, the index's hash, its length, the index, and the last entry.
    for at in [0, 8, HEADER - 8, HEADER - 1, HEADER, HEADER + 40, whole.len() - 1] {
        damaged(&|bytes| bytes[at] ^= 0xff);
    }
    for len in [0, HEADER - 1, HEADER + 3, whole.len() - 1] {
        damaged(&|bytes| bytes.truncate(len));
    }
}
