//! Bytes of which each knows whether it was written.

/// The content of unwritten bytes.
const POISON: u8 = 0xcd;

/// A run of bytes with one initialised bit each.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    data: Vec<u8>,
    written: Vec<u64>,
}

impl Bytes {
    /// Unwritten bytes.
    pub fn new(size: usize) -> Bytes {
        Bytes { data: vec![POISON; size], written: vec![0; size.div_ceil(64)] }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Forgets all contents.
    pub fn clear(&mut self) {
        self.data.fill(POISON);
        self.written.fill(0);
    }

    /// Bytes of a range.
    pub fn get(&self, at: usize, size: usize) -> Option<&[u8]> {
        self.data.get(at..at.checked_add(size)?)
    }

    /// Up to eight bytes as a number. The caller has checked the range.
    pub fn load(&self, at: usize, size: usize) -> u64 {
        let mut word = [0; 8];
        word[..size].copy_from_slice(&self.data[at..at + size]);
        u64::from_le_bytes(word)
    }

    /// Writes the low bytes of a number. The caller has checked the range.
    pub fn store(&mut self, at: usize, size: usize, value: u64) {
        self.data[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        self.mark(at, size, true);
    }

    /// Writes bytes. The caller has checked the range.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
        self.mark(at, bytes.len(), true);
    }

    /// Whether all bytes of a range were written.
    pub fn is_written(&self, at: usize, size: usize) -> bool {
        let (word, bit) = (at / 64, at % 64);
        if bit + size <= 64 {
            let mask = ones(size) << bit;
            return self.written[word] & mask == mask;
        }
        (at..at + size).all(|at| self.written[at / 64] >> (at % 64) & 1 == 1)
    }

    /// Sets or clears the initialised bits of a range; cleared bytes are poisoned.
    pub fn mark(&mut self, at: usize, size: usize, written: bool) {
        if !written {
            self.data[at..at + size].fill(POISON);
        }
        let mut from = at;
        while from < at + size {
            let (word, bit) = (from / 64, from % 64);
            let count = (64 - bit).min(at + size - from);
            let mask = ones(count) << bit;
            if written {
                self.written[word] |= mask;
            } else {
                self.written[word] &= !mask;
            }
            from += count;
        }
    }
}

/// `count` low bits.
fn ones(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
