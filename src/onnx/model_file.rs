//! A model's file, decoded while it is read.
//!
//! Tensors of some size are left out, and read when they are needed, into memory of their own at an address that
//! programs use in place: it is freed with the tensor, as soon as the weight is packed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use prost::bytes::{Buf, BufMut, Bytes, BytesMut};
use reflex_runtime::alloc::huge_pages;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// Bytes that the decoder left out.
#[derive(Debug)]
pub(crate) struct LeftOut {
    /// The byte that the decoder got for them, at an address that nothing else has.
    pub token: Bytes,
    /// Where they begin in the file.
    pub at: u64,
    /// Their number.
    pub len: usize,
}

/// The rest of a file, for a decoder. After an error of the system it is zeros, which no message has
/// where a field begins, and the error is kept.
pub(crate) struct ModelFile {
    file: File,
    buffer: Vec<u8>,
    /// The first byte of the buffer that is not decoded yet.
    at: usize,
    /// Bytes of the file before and behind the end of the buffer.
    before: u64,
    behind: u64,
    left_out: Vec<LeftOut>,
    error: Option<io::Error>,
}

impl ModelFile {
    /// A file of so many bytes, from its start.
    pub(crate) fn new(file: File, length: u64) -> ModelFile {
        let (buffer, left_out) = (vec![], vec![]);
        let (at, before, behind, error) = (0, 0, length, None);
        let mut file = ModelFile { file, buffer, at, before, behind, left_out, error };
        file.fill();
        file
    }

    /// The file and what was left out, or the first error of the system.
    pub(crate) fn finish(self) -> io::Result<(File, Vec<LeftOut>)> {
        self.error.map_or(Ok((self.file, self.left_out)), Err)
    }

    fn read_exact(&mut self, into: &mut [u8]) {
        if self.error.is_none() {
            self.error = self.file.read_exact(into).err();
        }
        if self.error.is_some() {
            into.fill(0);
        }
        self.passed(into.len() as u64);
    }

    /// The file stands so many bytes further on.
    fn passed(&mut self, count: u64) {
        self.before += count;
        self.behind -= count;
    }

    /// Replaces a buffer of which nothing is left.
    fn fill(&mut self) {
        let count = usize::try_from(self.behind).map_or(CHUNK, |behind| behind.min(CHUNK));
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(count, 0);
        self.read_exact(&mut buffer);
        (self.buffer, self.at) = (buffer, 0);
    }

    /// Leaves bytes out.
    fn skip(&mut self, count: usize) {
        let here = count.min(self.buffer.len() - self.at);
        self.at += here;
        let there = (count - here) as u64;
        if there > 0 {
            let moved = i64::try_from(there).map_err(io::Error::other);
            let moved = moved.and_then(|by| self.file.seek(SeekFrom::Current(by)));
            self.error = self.error.take().or(moved.err());
            self.passed(there);
        }
        self.advance(0);
    }
}

impl Buf for ModelFile {
    fn remaining(&self) -> usize {
        let behind = usize::try_from(self.behind).unwrap_or(usize::MAX);
        (self.buffer.len() - self.at).saturating_add(behind)
    }

    fn chunk(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining(), "a decoder stays within the file");
        loop {
            let here = count.min(self.buffer.len() - self.at);
            self.at += here;
            count -= here;
            if self.at == self.buffer.len() && self.behind > 0 {
                self.fill();
            }
            if count == 0 {
                return;
            }
        }
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        assert!(count <= self.remaining(), "a decoder stays within the file");
        if count < huge_pages::LEAST {
            let mut bytes = BytesMut::with_capacity(count);
            bytes.put(self.take(count));
            return bytes.freeze();
        }
        let token = Bytes::from(vec![0]);
        let at = self.before - (self.buffer.len() - self.at) as u64;
        self.left_out.push(LeftOut { token: token.clone(), at, len: count });
        self.skip(count);
        token
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn small_parts_are_the_bytes_of_the_file_and_large_ones_are_left_out() {
        let all: Vec<u8> = (0..5 * CHUNK + 77).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut buf = ModelFile::new(file(&all), all.len() as u64);
        let (mut at, mut left_out) = (0, vec![]);
        let large = huge_pages::LEAST;
        for (n, count) in
            [3, CHUNK - 4, 1, large, 1, large + 9, 0, 20, CHUNK].into_iter().enumerate()
        {
            assert_eq!(buf.remaining(), all.len() - at);
            let part = &all[at..at + count];
            match n % 3 {
                0 | 2 if count >= large => {
                    left_out.push((at as u64, count));
                    assert_eq!(buf.copy_to_bytes(count).len(), 1);
                }
                0 => assert_eq!(buf.copy_to_bytes(count), part),
                1 => buf.advance(count),
                _ => {
                    let mut copy = vec![0; count];
                    (&mut buf).take(count).copy_to_slice(&mut copy);
                    assert_eq!(copy, part);
                }
            }
            at += count;
            assert!(buf.chunk().is_empty() == (at == all.len()), "what is left can be seen");
        }
        assert_eq!(buf.copy_to_bytes(50), all[at..at + 50]);
        let (_, parts) = buf.finish().unwrap();
        assert_eq!(parts.iter().map(|p| (p.at, p.len)).collect::<Vec<_>>(), left_out);
        assert_eq!(left_out.len(), 3);
    }

    #[test]
    fn a_file_that_ends_too_soon_is_an_error() {
        let mut buf = ModelFile::new(file(&[1; 10]), 20);
        assert_eq!(buf.copy_to_bytes(20).len(), 20);
        assert!(buf.finish().is_err());
    }
}
