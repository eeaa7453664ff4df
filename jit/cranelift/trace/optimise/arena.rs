//! Arena allocation: assigns virtual storages to offsets of the trace's arena. Storages that are live
//! at the same time do not overlap; freed memory is used again first.

use reflex_runtime::alloc::device::ALIGNMENT;

/// Most bytes of an arena.
const MAX_BYTES: usize = 256 << 10;

/// The allocation so far.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// Offsets and sizes of live storages, ascending.
    taken: Vec<(usize, usize)>,
    /// Most bytes that were needed at the same time.
    pub(super) bytes: usize,
}

impl Arena {
    /// The offset of a new storage of `bytes`, unless the arena would become too large.
    pub(super) fn take(&mut self, bytes: usize) -> Option<usize> {
        let size = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let mut free = 0;
        let mut before = self.taken.len();
        for (at, &(offset, size_there)) in self.taken.iter().enumerate() {
            if offset - free >= size {
                before = at;
                break;
            }
            free = offset + size_there;
        }
        let end = free.checked_add(size).filter(|&end| end <= MAX_BYTES)?;
        self.taken.insert(before, (free, size));
        self.bytes = self.bytes.max(end);
        Some(free)
    }

    /// Frees the storage at an offset.
    pub(super) fn free(&mut self, offset: usize) {
        self.taken.retain(|&(at, _)| at != offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_storages_do_not_overlap() {
        let mut arena = Arena::default();
        assert_eq!([arena.take(100), arena.take(0), arena.take(64)], [0, 128, 192].map(Some));
        arena.free(0);
        // Too large for the gap, then into it.
        assert_eq!([arena.take(129), arena.take(65)], [256, 0].map(Some));
        arena.free(128);
        assert_eq!([arena.take(1), arena.take(1)], [128, 448].map(Some));
        assert_eq!(arena.bytes, 512);
    }

    #[test]
    fn an_arena_is_bounded() {
        let mut arena = Arena::default();
        assert_eq!(arena.take(MAX_BYTES), Some(0));
        assert_eq!(arena.take(1), None);
        assert_eq!(arena.take(usize::MAX), None);
        arena.free(0);
        assert_eq!((arena.take(1), arena.bytes), (Some(0), MAX_BYTES));
    }
}
