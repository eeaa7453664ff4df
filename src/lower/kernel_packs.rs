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
use serde::{Deserialize, Serialize};

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
pub(crate) struct Entry {
    /// The file.
    pub(crate) pack: Arc<Path>,
    /// The position in the file.
    at: u64,
    len: usize,
    sum: HashBytes,
}

/// Entries by key.
pub(crate) type Entries = HashMap<HashBytes, Entry>;

/// A pack that is to be stored.
pub(crate) struct NewPack {
    /// The file.
    pub(crate) path: Arc<Path>,
    /// Its contents.
    pub(crate) bytes: Vec<u8>,
    places: Vec<Place>,
}

/// The packs in a folder, of the same passes and the same code generator.
#[derive(Debug)]
pub(crate) struct KernelPacks {
    dir: PathBuf,
    /// The beginning of a pack's name.
    prefix: String,
    /// Keys and contents of entries that are not stored yet.
    made: Mutex<Vec<(HashBytes, Vec<u8>)>>,
    /// Entries of the packs in the folder, once one was looked for.
    known: Mutex<Option<Entries>>,
}

impl KernelPacks {
    /// The packs in `dir` by the passes and the code generator that `salt` stands for.
    pub(crate) fn new(dir: &Path, salt: &str) -> KernelPacks {
        let prefix = blake3::hash(salt.as_bytes()).to_hex()[..PREFIX].to_owned();
        KernelPacks { dir: dir.to_owned(), prefix, made: Mutex::default(), known: Mutex::default() }
    }

    /// Adds an entry to the pack that is stored next.
    pub(crate) fn add(&self, key: blake3::Hash, payload: Vec<u8>) {
        self.made.lock().push((key.into(), payload));
    }

    /// The pack of the entries added since the last time.
    pub(crate) fn take(&self) -> Option<NewPack> {
        let mut made = std::mem::take(&mut *self.made.lock());
        if made.is_empty() {
            return None;
        }
        // Which thread was faster decides nothing.
        made.sort_by_key(|(key, _)| *key);
        let mut offset = 0;
        let places = made.iter().map(|(key, payload)| {
            let len = payload.len() as u64;
            let place = Place { key: *key, offset, len, sum: blake3::hash(payload).into() };
            offset += len;
            place
        });
        let places: Vec<Place> = places.collect();
        let index = postcard::to_stdvec(&places).expect("plain data always encodes");
        let (sum, len) = (blake3::hash(&index), (index.len() as u64).to_le_bytes());
        let name = format!("{}-{}.{EXTENSION}", self.prefix, &sum.to_hex()[..2 * PREFIX]);
        let mut parts: Vec<&[u8]> = vec![MAGIC, sum.as_bytes(), &len, &index];
        parts.extend(made.iter().map(|(_, payload)| &payload[..]));
        Some(NewPack { path: self.dir.join(name).into(), bytes: parts.concat(), places })
    }

    /// Notes that a pack was stored.
    pub(crate) fn stored(&self, pack: &NewPack) {
        if let Some(known) = &mut *self.known.lock() {
            let contents: usize = pack.places.iter().map(|place| place.len as usize).sum();
            known.extend(entries(&pack.path, &pack.places, pack.bytes.len() - contents));
        }
    }

    /// The place of an entry. At the first call the indices of all packs are read; `failed` gets those that cannot be,
    /// with the reason or with none if they are damaged.
    pub(crate) fn find(
        &self,
        key: blake3::Hash,
        failed: &dyn Fn(&Path, Option<io::Error>),
    ) -> Option<Entry> {
        let mut known = self.known.lock();
        known.get_or_insert_with(|| self.list(failed)).get(key.as_bytes()).cloned()
    }

    /// Forgets the entries of a pack.
    pub(crate) fn forget(&self, pack: &Path) {
        if let Some(known) = &mut *self.known.lock() {
            known.retain(|_, entry| *entry.pack != *pack);
        }
    }

    fn list(&self, failed: &dyn Fn(&Path, Option<io::Error>)) -> Entries {
        let mut found = Entries::new();
        let Ok(list) = fs::read_dir(&self.dir) else { return found };
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            path.extension().is_some_and(|e| e == EXTENSION)
                && name.is_some_and(|name| name.starts_with(&self.prefix))
        };
        for path in list.filter_map(|entry| Some(entry.ok()?.path())).filter(is_ours) {
            match read_index(&path) {
                Ok(Some((places, start))) => found.extend(entries(&path.into(), &places, start)),
                Ok(None) => failed(&path, None),
                // Another process removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => failed(&path, Some(error)),
            }
        }
        found
    }
}

impl Entry {
    /// The bytes, and when the pack was used last; no bytes if they are damaged.
    pub(crate) fn read(&self) -> io::Result<(Option<Vec<u8>>, SystemTime)> {
        let file = File::open(&self.pack)?;
        let meta = file.metadata()?;
        let used = meta.modified()?;
        if self.at.checked_add(self.len as u64).is_none_or(|end| end > meta.len()) {
            return Ok((None, used));
        }
        let mut bytes = vec![0; self.len];
        file.read_exact_at(&mut bytes, self.at)?;
        let whole = *blake3::hash(&bytes).as_bytes() == self.sum;
        Ok((whole.then_some(bytes), used))
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
