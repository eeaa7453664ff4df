//! Packs of the kernel cache: the kernels that Cranelift made in one compilation, in one file.
//!
//! Cranelift's kernels take a millisecond or two each, and a file of its own (an inode, its place in the folder, a
//! rename) takes a good part of that. A compilation that is done stores what it made as one file:
//!
//! ```text
//! "RFXPACK1"  BLAKE3 of the index (32 bytes)  length of the index (8)  index  entries
//! ```
//! The index has the key, the place and the BLAKE3 of each entry. Names begin with a hash of the passes and the code
//! generator, so that only files of these are opened when a kernel is looked for. A pack that is damaged is removed as a whole.
//!
//! Decision: docs/decisions/0120-packs-of-cached-kernels.md

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use reflex_tir::codegen::ObjectFile;
use serde::{Deserialize, Serialize};

use crate::kernel_cache::{KernelCache, KernelKey, note_use};

/// First bytes of a pack.
const MAGIC: &[u8; 8] = b"RFXPACK1";
/// The end of a pack's name.
const EXTENSION: &str = "kernels";
/// Hexadecimal digits of the hash that a pack's name begins with.
const PREFIX: usize = 16;
/// Bytes before the index.
const HEADER: usize = MAGIC.len() + blake3::OUT_LEN + size_of::<u64>();

type HashBytes = [u8; blake3::OUT_LEN];

/// An entry in the index of a pack.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    key: HashBytes,
    /// Bytes from the beginning of the entries.
    offset: u64,
    len: u64,
    sum: HashBytes,
}

/// An entry of a pack in the folder.
#[derive(Clone, Debug)]
struct Entry {
    pack: Arc<Path>,
    /// The position in the file.
    at: u64,
    len: usize,
    sum: HashBytes,
}

/// What a cache knows of packs.
#[derive(Debug, Default)]
pub(crate) struct KernelPacks {
    /// Entries that are not stored yet.
    made: Mutex<Vec<(KernelKey, Vec<u8>)>>,
    /// Entries of the packs in the folder, once one was looked for.
    known: Mutex<Option<HashMap<HashBytes, Entry>>>,
}

impl KernelPacks {
    /// Adds an entry to the pack that is stored next.
    pub(crate) fn add(&self, key: KernelKey, payload: Vec<u8>) {
        self.made.lock().push((key, payload));
    }
}

impl KernelCache {
    /// Stores what was put since the last time and has no file of its own.
    pub fn flush(&self) {
        let made = std::mem::take(&mut *self.packs.made.lock());
        if !made.is_empty()
            && let Err(error) = self.store_pack(made)
        {
            self.warn(&error);
        }
    }

    fn store_pack(&self, mut made: Vec<(KernelKey, Vec<u8>)>) -> io::Result<()> {
        // Which thread was faster decides nothing.
        made.sort_by_key(|(key, _)| *key.0.as_bytes());
        let mut offset = 0;
        let places = made.iter().map(|(key, payload)| {
            let (key, len) = (*key.0.as_bytes(), payload.len() as u64);
            let place = Place { key, offset, len, sum: *blake3::hash(payload).as_bytes() };
            offset += len;
            place
        });
        let places: Vec<Place> = places.collect();
        let index = postcard::to_stdvec(&places).expect("plain data always encodes");
        let (sum, len) = (blake3::hash(&index), (index.len() as u64).to_le_bytes());
        let name = format!("{}-{}.{EXTENSION}", self.prefix(), &sum.to_hex()[..2 * PREFIX]);
        let path: Arc<Path> = self.dir.join(name).into();
        let mut parts: Vec<&[u8]> = vec![MAGIC, sum.as_bytes(), &len, &index];
        parts.extend(made.iter().map(|(_, payload)| &payload[..]));
        fs::create_dir_all(&self.dir)?;
        self.write(&path, &[&parts.concat()])?;
        if let Some(known) = &mut *self.packs.known.lock() {
            known.extend(entries(&path, &places, HEADER + index.len()));
        }
        Ok(())
    }

    /// The entry of a pack, if it is there and whole.
    pub(crate) fn find_packed(&self, key: &KernelKey) -> Option<ObjectFile> {
        let entry = {
            let mut known = self.packs.known.lock();
            known.get_or_insert_with(|| self.packed()).get(key.0.as_bytes()).cloned()?
        };
        let (bytes, used) = match entry.read() {
            Ok(found) => found,
            // Another process removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                self.warn(&error);
                return None;
            }
            Err(_) => (vec![], SystemTime::now()),
        };
        let whole = *blake3::hash(&bytes).as_bytes() == entry.sum;
        let object = postcard::from_bytes(&bytes).ok().filter(|_| whole);
        match object {
            Some(_) => note_use(&entry.pack, used),
            None => {
                self.remove_corrupt(&entry.pack);
                if let Some(known) = &mut *self.packs.known.lock() {
                    known.retain(|_, other| other.pack != entry.pack);
                }
            }
        }
        object
    }

    /// The entries of all packs in the folder.
    fn packed(&self) -> HashMap<HashBytes, Entry> {
        let (mut found, prefix) = (HashMap::new(), self.prefix());
        let Ok(list) = fs::read_dir(&self.dir) else { return found };
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            path.extension().is_some_and(|e| e == EXTENSION)
                && name.is_some_and(|name| name.starts_with(&prefix))
        };
        for path in list.filter_map(|entry| Some(entry.ok()?.path())).filter(is_ours) {
            match read_index(&path) {
                Ok(Some((places, start))) => found.extend(entries(&path.into(), &places, start)),
                Ok(None) => self.remove_corrupt(&path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.warn(&error),
            }
        }
        found
    }

    /// What names of packs by these passes and this code generator begin with.
    fn prefix(&self) -> String {
        blake3::hash(self.salt().as_bytes()).to_hex()[..PREFIX].to_owned()
    }
}

impl Entry {
    /// The bytes, and when the pack was used last.
    fn read(&self) -> io::Result<(Vec<u8>, SystemTime)> {
        let file = File::open(&self.pack)?;
        let meta = file.metadata()?;
        if self.at.checked_add(self.len as u64).is_none_or(|end| end > meta.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; self.len];
        file.read_exact_at(&mut bytes, self.at)?;
        Ok((bytes, meta.modified()?))
    }
}

fn entries<'a>(
    pack: &Arc<Path>,
    places: &'a [Place],
    start: usize,
) -> impl Iterator<Item = (HashBytes, Entry)> + use<'a> {
    let pack = Arc::clone(pack);
    places.iter().filter_map(move |place| {
        let (at, len) = (place.offset.checked_add(start as u64)?, usize::try_from(place.len).ok()?);
        Some((place.key, Entry { pack: Arc::clone(&pack), at, len, sum: place.sum }))
    })
}

/// The index of a pack, and where its entries begin; `None` if it is damaged.
fn read_index(path: &Path) -> io::Result<Option<(Vec<Place>, usize)>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut header = [0; HEADER];
    if size < HEADER as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, 0)?;
    let Some(rest) = header.strip_prefix(MAGIC) else { return Ok(None) };
    let (sum, len) = rest.split_at(blake3::OUT_LEN);
    let len = u64::from_le_bytes(len.try_into().expect("the header ends with a length"));
    if len > size - HEADER as u64 {
        return Ok(None);
    }
    let mut index = vec![0; len as usize];
    file.read_exact_at(&mut index, HEADER as u64)?;
    let whole = blake3::hash(&index).as_bytes() == sum;
    let places = postcard::from_bytes(&index).ok().filter(|_| whole);
    Ok(places.map(|places| (places, HEADER + index.len())))
}

#[cfg(test)]
mod tests {
    use reflex_tir::PrimFunc;
    use reflex_tir::abi::raw_signature;
    use reflex_tir::codegen::KernelTier;

    use super::*;
    use crate::kernel_cache::{DEFAULT_LIMIT, RequestDigest};

    const NAMES: [&str; 2] = ["f", "g"];

    fn object(name: &str) -> ObjectFile {
        let signature = raw_signature(&PrimFunc::new(name));
        let tier = KernelTier::Baseline;
        ObjectFile { signature, tier, elf: name.as_bytes().repeat(50), asm: None, micros: 1 }
    }

    fn key(cache: &KernelCache, name: &str) -> KernelKey {
        cache.key_of(&RequestDigest(blake3::hash(name.as_bytes())))
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
        // The last entry, the index, the length of the index, the magic number, and bytes that are not there.
        for at in [whole.len() - 1, HEADER, HEADER - 1, 0, whole.len() - 2, HEADER + 1, 3] {
            let mut bytes = whole.clone();
            match at % 2 == whole.len() % 2 {
                true => bytes.truncate(at),
                false => bytes[at] ^= 0xff,
            }
            fs::write(&path, bytes).unwrap();
            let cache = cache(dir.path(), "own");
            let found = NAMES.map(|name| cache.get(&key(&cache, name)));
            let right = NAMES.map(|name| Some(object(name)));
            assert!(found.iter().zip(&right).any(|(f, _)| f.is_none()), "{at}");
            assert!(found.iter().zip(&right).all(|(f, r)| f.is_none() || f == r), "{at}");
            assert_eq!((cache.corrupt_entries(), path.exists()), (1, false), "{at}");
        }
    }
}
