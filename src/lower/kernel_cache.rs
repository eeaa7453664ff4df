//! Kernels compiled before, on disk.
//!
//! One file per kernel of LLVM's, named by a hash of everything that decides its code: the function before
//! it is scheduled, but for its name and those of symbolic dimensions ([`crate::kernel_name`]), the source of the passes that schedule and lower it, the target, the
//! optimisation level, the protocol and the code generator's identity. So a start that finds all
//! its kernels schedules none. What Cranelift made in one compilation is one file ([`crate::kernel_packs`]). Programs that are stored ([`crate::program_cache`]) have files in the same folder. Files appear whole (written aside, then renamed); each carries a
//! checksum, and one that does not match is removed and made again. The cache never makes a
//! compilation fail: what cannot be read or written is compiled, with one warning for a folder.
//!
//! The file `generator` holds the identity of the code generator that wrote last. Where no code
//! generator is installed, its kernels are used.
//!
//! Decision: docs/decisions/0095-names-of-cached-kernels.md

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{Access, access};

use reflex_tir::codegen::{KernelTier, ObjectFile, Request};

use crate::kernel_name::nameless;
use crate::kernel_packs::KernelPacks;

/// First bytes of an entry.
const MAGIC: &[u8; 8] = b"RFXKERN2";
/// Name of the file with the identity of the code generator that wrote last.
const GENERATOR: &str = "generator";
/// Most bytes that all entries may take.
pub const DEFAULT_LIMIT: u64 = 1 << 30;
/// A use is noted again after this time.
const NOTED: Duration = Duration::from_secs(600);
/// The consequence and the remedy, behind the reason why a folder is no use.
pub const REMEDY: &str =
    "every start compiles all kernels; REFLEX_CACHE names another folder, or is `off`";

/// Folders that were warned of.
static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The kernel cache.
#[derive(Debug)]
pub struct KernelCache {
    pub(crate) dir: PathBuf,
    /// Of the code generator.
    identity: String,
    pub(crate) limit: u64,
    corrupt: AtomicU64,
    /// Written by this process.
    generator_noted: AtomicBool,
    packs: KernelPacks,
}

/// Names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelKey(blake3::Hash);

/// A hash of a request: what decides a kernel's code, but for passes and code generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDigest(pub(crate) blake3::Hash);

impl RequestDigest {
    /// The digest of a request whose functions are not scheduled yet.
    pub fn of(request: &Request) -> RequestDigest {
        let funcs = request.funcs.iter().map(nameless).collect();
        let nameless = Request { funcs, target: request.target.clone(), ..*request };
        let bytes = postcard::to_stdvec(&nameless).expect("plain data always encodes");
        RequestDigest(blake3::hash(&bytes))
    }
}

impl KernelCache {
    /// A cache in `dir`, made when first written to. `codegen` identifies the code generator; where
    /// there is `None`, the cache holds what the last one made.
    pub fn new(dir: impl Into<PathBuf>, codegen: Option<&str>, limit: u64) -> KernelCache {
        let dir = dir.into();
        let last = || fs::read_to_string(dir.join(GENERATOR)).unwrap_or_default();
        let identity = codegen.map_or_else(last, str::to_owned);
        let (corrupt, generator_noted) = (AtomicU64::new(0), AtomicBool::new(codegen.is_none()));
        let packs = KernelPacks::new(&dir, &salt(&identity));
        KernelCache { dir, identity, limit, corrupt, generator_noted, packs }
    }

    /// The same cache, whose generator is always at hand: a cache that is opened without one finds
    /// what another generator made, also after this one has written.
    pub fn unnoted(self) -> KernelCache {
        KernelCache { generator_noted: AtomicBool::new(true), ..self }
    }

    /// Where the user's cache is: `$REFLEX_CACHE`, or `reflex` in the XDG cache directory.
    /// `None` when `$REFLEX_CACHE` is `off` or there is no home.
    pub fn default_dir() -> Option<PathBuf> {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        match set("REFLEX_CACHE") {
            Some(value) if value == "off" => None,
            Some(value) => Some(PathBuf::from(value)),
            None => {
                let base = set("XDG_CACHE_HOME").map(PathBuf::from);
                let home = || set("HOME").map(|home| Path::new(&home).join(".cache"));
                base.or_else(home).map(|base| base.join("reflex").join("kernels"))
            }
        }
    }

    /// Checks that this process may store kernels in `dir`, or in the folder in which it would be made.
    /// Whether there is space shows when one is written.
    pub fn check(dir: &Path) -> io::Result<()> {
        let there =
            dir.ancestors().find(|d| d.as_os_str().is_empty() || d.symlink_metadata().is_ok());
        let there = there.filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::read_dir(there)?;
        Ok(access(there, Access::WRITE_OK | Access::EXEC_OK)?)
    }

    /// The key of a request whose functions are not scheduled yet.
    pub fn key(&self, request: &Request) -> KernelKey {
        self.key_of(&RequestDigest::of(request))
    }

    /// The key of a request by its digest.
    pub fn key_of(&self, request: &RequestDigest) -> KernelKey {
        let mut hasher = blake3::Hasher::new();
        hasher.update(salt(&self.identity).as_bytes()).update(&[0]).update(request.0.as_bytes());
        KernelKey(hasher.finalize())
    }

    /// The entry, if it is there and whole.
    pub fn get(&self, key: &KernelKey) -> Option<ObjectFile> {
        let path = self.path(key);
        let (bytes, used) = match read(&path) {
            Ok(found) => found,
            Err(error) => {
                if error.kind() == io::ErrorKind::NotFound {
                    return self.find_packed(key);
                }
                self.warn(&error);
                return None;
            }
        };
        let object = decode(&bytes);
        if object.is_none() {
            self.remove_corrupt(&path);
            return None;
        }
        note_use(&path, used);
        object
    }

    /// Removes an entry that is damaged, and counts it.
    pub(crate) fn remove_corrupt(&self, path: &Path) {
        self.corrupt.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(path = %path.display(), "corrupt kernel cache entry removed");
        let _ = fs::remove_file(path);
    }

    /// Stores an entry; one of Cranelift's with the next [`KernelCache::flush`].
    pub fn put(&self, key: &KernelKey, object: &ObjectFile) {
        let payload = postcard::to_stdvec(object).expect("plain data always encodes");
        if object.tier == KernelTier::Baseline {
            return self.packs.add(key.0, payload);
        }
        if let Err(error) = self.try_put(key, &payload) {
            self.warn(&error);
        }
    }

    /// Stores what was put since the last time and has no file of its own.
    pub fn flush(&self) {
        let Some(pack) = self.packs.take() else { return };
        let stored =
            fs::create_dir_all(&self.dir).and_then(|()| self.write(&pack.path, &[&pack.bytes]));
        match stored {
            Ok(()) => self.packs.stored(&pack),
            Err(error) => self.warn(&error),
        }
    }

    /// The entry of a pack, if it is there and whole.
    fn find_packed(&self, key: &KernelKey) -> Option<ObjectFile> {
        let entry = self.packs.find(key.0, &|pack, error| match error {
            Some(error) => self.warn(&error),
            None => self.remove_corrupt(pack),
        })?;
        let (bytes, used) = match entry.read() {
            Ok(found) => found,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.warn(&error);
                }
                return None;
            }
        };
        let object = bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        if object.is_some() {
            note_use(&entry.pack, used);
        } else {
            self.remove_corrupt(&entry.pack);
            self.packs.forget(&entry.pack);
        }
        object
    }

    /// Keeps the warning about a folder out of the log: the caller reports it.
    pub fn suppress_warning(dir: &Path) {
        WARNED.lock().insert(dir.to_path_buf());
    }

    /// Warns that the folder is no use, once in this process.
    pub(crate) fn warn(&self, error: &io::Error) {
        if WARNED.lock().insert(self.dir.clone()) {
            tracing::warn!(folder = %self.dir.display(), %error, "kernel cache: {REMEDY}");
        }
    }

    fn try_put(&self, key: &KernelKey, payload: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let sum = blake3::hash(payload);
        self.write(&self.path(key), &[MAGIC, sum.as_bytes(), payload])?;
        if !self.generator_noted.swap(true, Ordering::Relaxed) {
            self.write(&self.dir.join(GENERATOR), &[self.identity.as_bytes()])?;
        }
        Ok(())
    }

    /// Makes a file appear whole.
    fn write(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.persist(path)?;
        Ok(())
    }

    /// Removes the entries used longest ago until the rest fits the limit.
    pub fn prune(&self) {
        let Ok(list) = fs::read_dir(&self.dir) else { return };
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = list
            .filter_map(|entry| {
                let entry = entry.ok()?;
                if entry.file_name() == GENERATOR {
                    return None;
                }
                let data = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect();
        entries.sort_unstable();
        let mut total: u64 = entries.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in entries {
            if total <= self.limit {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= len;
            }
        }
    }

    /// Entries found damaged since the cache was made.
    pub fn corrupt_entries(&self) -> u64 {
        self.corrupt.load(Ordering::Relaxed)
    }

    fn path(&self, key: &KernelKey) -> PathBuf {
        self.dir.join(format!("{}.kernel", key.0.to_hex()))
    }
}

/// The passes and the code generator, which all kernels of a cache have in common.
fn salt(identity: &str) -> String {
    format!("{} {identity}", env!("REFLEX_KERNEL_PASSES"))
}

/// The bytes of an entry, and when it was used last.
fn read(path: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let mut bytes = vec![0; usize::try_from(meta.len()).map_err(io::Error::other)?];
    // Files appear whole, so that none grows.
    file.read_exact_at(&mut bytes, 0)?;
    Ok((bytes, meta.modified()?))
}

/// Notes that an entry was used, unless that was done lately: the newest use decides what is pruned. Failing to
/// note it is harmless.
pub(crate) fn note_use(path: &Path, used: SystemTime) {
    let now = SystemTime::now();
    if now.duration_since(used).is_ok_and(|age| age < NOTED) {
        return;
    }
    if let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(now);
    }
}

fn decode(bytes: &[u8]) -> Option<ObjectFile> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (sum, payload) = rest.split_at_checked(blake3::OUT_LEN)?;
    if blake3::hash(payload).as_bytes() != sum {
        return None;
    }
    postcard::from_bytes(payload).ok()
}

#[cfg(test)]
mod tests {
    use reflex_tir::PrimFunc;
    use reflex_tir::abi::raw_signature;
    use reflex_tir::codegen::{CpuTarget, OptLevel, PROTOCOL, Target};

    use super::*;

    fn request(name: &str) -> Request {
        Request {
            protocol: PROTOCOL,
            funcs: vec![named(name)],
            target: Target::Cpu(CpuTarget {
                triple: "x86_64-unknown-linux-gnu".into(),
                features: BTreeSet::new(),
                vector_bytes: 16,
                l1d_bytes: 1,
                l2_bytes: 1,
            }),
            opt: OptLevel::O3,
            want_asm: false,
        }
    }

    /// A function whose attribute tells it apart.
    fn named(name: &str) -> PrimFunc {
        let mut func = PrimFunc::new(name);
        func.attrs.insert("marked".to_owned(), name.to_owned());
        func
    }

    fn object(name: &str, bytes: usize) -> ObjectFile {
        let signature = raw_signature(&PrimFunc::new(name));
        let tier = KernelTier::Optimised;
        ObjectFile { signature, tier, elf: vec![7; bytes], asm: None, micros: 1 }
    }

    #[test]
    fn entries_come_back_and_damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = KernelCache::new(dir.path(), Some("llvm"), DEFAULT_LIMIT);
        let key = cache.key(&request("f"));
        assert!(cache.get(&key).is_none());
        cache.put(&key, &object("f", 10));
        assert_eq!(cache.get(&key), Some(object("f", 10)));
        let path = cache.path(&key);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(cache.get(&key).is_none());
        assert_eq!(cache.corrupt_entries(), 1);
        assert!(!path.exists());
    }

    #[test]
    fn keys_tell_functions_and_generators_apart() {
        let cache = KernelCache::new("unused", Some("llvm"), DEFAULT_LIMIT);
        let other = KernelCache::new("unused", Some("llvm 2"), DEFAULT_LIMIT);
        let mut renamed = request("f");
        renamed.funcs[0].name = "g".to_owned();
        assert_eq!(cache.key(&request("f")), cache.key(&renamed), "names do not count");
        assert_ne!(cache.key(&request("f")), cache.key(&request("g")));
        assert_ne!(cache.key(&request("f")), other.key(&request("f")));
    }

    #[test]
    fn a_folder_that_is_no_use_is_found_and_warned_of_once() {
        let dir = tempfile::tempdir().unwrap();
        KernelCache::check(dir.path()).unwrap();
        KernelCache::check(&dir.path().join("not/yet/made")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for folder in [file.clone(), file.join("below")] {
            assert!(KernelCache::check(&folder).is_err(), "{folder:?}");
            let cache = KernelCache::new(&folder, Some("llvm"), DEFAULT_LIMIT);
            let key = cache.key(&request("f"));
            assert!(cache.get(&key).is_none());
            cache.put(&key, &object("f", 1));
            assert!(WARNED.lock().contains(&folder));
        }
        let unused = KernelCache::new(dir.path(), Some("llvm"), DEFAULT_LIMIT);
        assert!(unused.get(&unused.key(&request("f"))).is_none());
        assert!(!WARNED.lock().contains(dir.path()));
    }

    #[test]
    fn an_unnoted_generator_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let of = |identity| KernelCache::new(dir.path(), identity, DEFAULT_LIMIT);
        let llvm = of(Some("llvm"));
        llvm.put(&llvm.key(&request("f")), &object("f", 10));
        let own = of(Some("own")).unnoted();
        own.put(&own.key(&request("g")), &object("g", 10));
        let either = of(None);
        assert_eq!(either.get(&either.key(&request("f"))), Some(object("f", 10)));
        assert!(either.get(&either.key(&request("g"))).is_none());
    }

    #[test]
    fn without_a_generator_the_last_ones_kernels_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let of = |identity| KernelCache::new(dir.path(), identity, 0);
        for identity in ["llvm 1", "llvm 2"] {
            let cache = of(Some(identity));
            cache.put(&cache.key(&request(identity)), &object(identity, 10));
        }
        let cache = of(None);
        assert!(cache.get(&cache.key(&request("llvm 1"))).is_none(), "of an older generator");
        assert_eq!(cache.get(&cache.key(&request("llvm 2"))), Some(object("llvm 2", 10)));
        cache.prune();
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [GENERATOR], "pruning keeps it");
    }

    #[test]
    fn the_oldest_entries_are_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let cache = KernelCache::new(dir.path(), Some("llvm"), 3000);
        let keys: Vec<KernelKey> = ["a", "b", "c"].map(|n| cache.key(&request(n))).into();
        for (n, key) in keys.iter().enumerate() {
            cache.put(key, &object("f", 1200));
            let file = File::options().append(true).open(cache.path(key)).unwrap();
            let age = std::time::Duration::from_secs(100 - n as u64);
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        cache.prune();
        let there: Vec<bool> = keys.iter().map(|k| cache.path(k).exists()).collect();
        assert_eq!(there, [false, true, true]);
        // A use of what was not used for long makes it the newest.
        let old = SystemTime::now() - 2 * NOTED;
        for key in &keys[1..] {
            let file = File::options().append(true).open(cache.path(key)).unwrap();
            file.set_modified(old).unwrap();
        }
        assert!(cache.get(&keys[1]).is_some());
        let modified = |key| cache.path(key).metadata().unwrap().modified().unwrap();
        assert!(modified(&keys[1]) > old && modified(&keys[2]) == old);
    }
}
