//! Hashes of large contents, on all cores: of chunks, and then of their hashes.
//!
//! A [`ContentDigest`] tells contents apart that someone may have chosen. A [`Checksum`] is for damage alone, and
//! takes a tenth of the time.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use crate::parallel::in_parallel;

/// Bytes of a chunk.
const CHUNK: usize = 1 << 20;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// A hash of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest([u8; blake3::OUT_LEN]);

impl ContentDigest {
    /// The digest of bytes in memory.
    pub fn of_bytes(bytes: &[u8]) -> ContentDigest {
        let chunks: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
        of_chunks(in_parallel(chunks.len(), 0, |at| blake3::hash(chunks[at])))
    }

    /// The digest of the first `len` bytes of a file.
    pub fn of_file(file: &File, len: u64) -> io::Result<ContentDigest> {
        let count = usize::try_from(len.div_ceil(CHUNK as u64)).map_err(io::Error::other)?;
        let hashes = in_parallel(count, 0, |at| -> io::Result<blake3::Hash> {
            let (mut start, end) = (at as u64 * CHUNK as u64, (at as u64 + 1) * CHUNK as u64);
            let end = end.min(len);
            let mut hasher = blake3::Hasher::new();
            // Small enough for the cache, and no page is touched for the first time but these.
            let mut buffer = [0; PIECE];
            while start < end {
                let piece = &mut buffer[..(end - start).min(PIECE as u64) as usize];
                file.read_exact_at(piece, start)?;
                hasher.update(piece);
                start += piece.len() as u64;
            }
            Ok(hasher.finalize())
        });
        hashes.into_iter().collect::<io::Result<Vec<_>>>().map(of_chunks)
    }

    /// The digest as bytes.
    pub fn as_bytes(&self) -> &[u8; blake3::OUT_LEN] {
        &self.0
    }
}

/// A hash of contents that changes with damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum([u8; blake3::OUT_LEN]);

impl Checksum {
    /// Fills `bytes` from a file, and returns their checksum.
    pub fn read(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<Checksum> {
        let chunks: Vec<Mutex<&mut [u8]>> = bytes.chunks_mut(CHUNK).map(Mutex::new).collect();
        let sums = in_parallel(chunks.len(), 0, |at| -> io::Result<u64> {
            let mut chunk = chunks[at].lock().expect("each chunk is taken once");
            file.read_exact_at(&mut chunk, offset + (at * CHUNK) as u64)?;
            Ok(sum(&chunk))
        });
        sums.into_iter().collect::<io::Result<Vec<_>>>().map(|sums| Checksum::of(&sums))
    }

    fn of(sums: &[u64]) -> Checksum {
        let mut hasher = blake3::Hasher::new();
        for sum in sums {
            hasher.update(&sum.to_le_bytes());
        }
        Checksum(hasher.finalize().into())
    }

    /// The checksum as bytes.
    pub fn as_bytes(&self) -> &[u8; blake3::OUT_LEN] {
        &self.0
    }
}

fn sum(chunk: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(chunk);
    hasher.finish()
}

impl From<[u8; blake3::OUT_LEN]> for ContentDigest {
    fn from(bytes: [u8; blake3::OUT_LEN]) -> ContentDigest {
        ContentDigest(bytes)
    }
}

fn of_chunks(hashes: Vec<blake3::Hash>) -> ContentDigest {
    let mut hasher = blake3::Hasher::new();
    for hash in hashes {
        hasher.update(hash.as_bytes());
    }
    ContentDigest(hasher.finalize().into())
}

/// Passes bytes on, with their checksum.
pub struct ChecksumWriter<W> {
    out: W,
    chunk: Vec<u8>,
    sums: Vec<u64>,
    len: u64,
}

impl<W: Write> ChecksumWriter<W> {
    /// A writer of nothing yet.
    pub fn new(out: W) -> ChecksumWriter<W> {
        ChecksumWriter { out, chunk: Vec::with_capacity(CHUNK), sums: vec![], len: 0 }
    }

    /// The number of bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True as long as nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The writer and the checksum, once all bytes are passed on.
    pub fn finish(mut self) -> io::Result<(W, Checksum)> {
        if !self.chunk.is_empty() {
            self.pass_on()?;
        }
        Ok((self.out, Checksum::of(&self.sums)))
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.sums.push(sum(&self.chunk));
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(CHUNK - self.chunk.len())];
        self.chunk.extend_from_slice(part);
        self.len += part.len() as u64;
        if self.chunk.len() == CHUNK {
            self.pass_on()?;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [usize; 6] = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7];

    fn contents(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn files_have_the_digest_of_their_bytes() {
        for bytes in ENDS.map(contents) {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let expected = ContentDigest::of_bytes(&bytes);
            assert_eq!(ContentDigest::of_file(&file, bytes.len() as u64).unwrap(), expected);
            assert!(ContentDigest::of_file(&file, bytes.len() as u64 + 1).is_err());
            let mut other = bytes.clone();
            other.push(0);
            assert_ne!(ContentDigest::of_bytes(&other), expected);
        }
    }

    #[test]
    fn what_is_written_is_read_with_the_same_checksum() {
        for bytes in ENDS.map(contents) {
            let mut writer = ChecksumWriter::new(tempfile::tempfile().unwrap());
            bytes.chunks(70_000).for_each(|part| writer.write_all(part).unwrap());
            assert_eq!(writer.len(), bytes.len() as u64);
            let (file, expected) = writer.finish().unwrap();
            let mut back = vec![0; bytes.len()];
            assert_eq!(Checksum::read(&file, 0, &mut back).unwrap(), expected);
            assert_eq!(back, bytes);
            for at in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
                if let Some(byte) = back.get(at) {
                    file.write_all_at(&[byte ^ 0x10], at as u64).unwrap();
                    let mut damaged = vec![0; bytes.len()];
                    assert_ne!(Checksum::read(&file, 0, &mut damaged).unwrap(), expected, "{at}");
                    file.write_all_at(&bytes[at..=at], at as u64).unwrap();
                }
            }
            assert!(Checksum::read(&file, 1, &mut vec![0; bytes.len().max(1)]).is_err());
        }
    }
}
