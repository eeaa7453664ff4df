//! Allocations of a device.

use super::bytes::Bytes;

/// Where allocations begin: no address of a host, whose addresses have at most 56 bits.
const FIRST: u64 = 0x0d00_0000_0000_0000;
/// Allocations lie at multiples of this.
const ALIGNMENT: u64 = 256;
/// Bytes between allocations that belong to none.
const GUARD: u64 = 4096;
/// Freed ranges that are remembered for messages.
const REMEMBERED: usize = 1024;

/// One allocation.
#[derive(Debug)]
pub struct Allocation {
    /// Its address.
    pub base: u64,
    /// Its contents.
    pub bytes: Bytes,
    /// Whether kernels must not write it.
    pub read_only: bool,
}

/// All allocations, by address. Addresses are never used twice.
#[derive(Debug)]
pub struct Global {
    allocations: Vec<Allocation>,
    freed: Vec<(u64, u64)>,
    next: u64,
    used: u64,
    limit: u64,
    hint: usize,
}

impl Global {
    /// Memory of at most `limit` bytes.
    pub fn new(limit: u64) -> Global {
        Global { allocations: vec![], freed: vec![], next: FIRST, used: 0, limit, hint: 0 }
    }

    /// Allocates unwritten bytes; none where the limit forbids it.
    pub fn alloc(&mut self, size: u64, read_only: bool) -> Option<u64> {
        let used = self.used.checked_add(size)?;
        if used > self.limit {
            return None;
        }
        let base = self.next;
        self.used = used;
        self.next = (base + size + GUARD).next_multiple_of(ALIGNMENT);
        let bytes = Bytes::new(usize::try_from(size).ok()?);
        self.allocations.push(Allocation { base, bytes, read_only });
        Some(base)
    }

    /// Frees an allocation by its address; false where there is none.
    pub fn free(&mut self, base: u64) -> bool {
        let Ok(at) = self.allocations.binary_search_by_key(&base, |a| a.base) else {
            return false;
        };
        let freed = self.allocations.remove(at);
        let size = freed.bytes.len() as u64;
        self.used -= size;
        self.freed.push((base, size));
        if self.freed.len() > REMEMBERED {
            self.freed.remove(0);
        }
        true
    }

    /// Bytes that are allocated.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The allocation that holds a range, and the offset of the range in it.
    pub fn find(&mut self, address: u64, size: u64) -> Option<(&mut Allocation, usize)> {
        let holds = |a: &Allocation| address.wrapping_sub(a.base) < a.bytes.len() as u64;
        if !self.allocations.get(self.hint).is_some_and(holds) {
            let after = self.allocations.partition_point(|a| a.base <= address);
            self.hint = after.checked_sub(1)?;
        }
        let allocation = &mut self.allocations[self.hint];
        let at = address - allocation.base;
        if at.checked_add(size)? > allocation.bytes.len() as u64 {
            return None;
        }
        Some((allocation, at as usize))
    }

    /// Whether an address lies in memory that was freed.
    pub fn was_freed(&self, address: u64) -> bool {
        self.freed.iter().any(|(base, size)| address.wrapping_sub(*base) < *size)
    }
}
