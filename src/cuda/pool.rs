//! Memory of a device, in the order of streams.
//!
//! A block belongs to the stream that was current when it was allocated. Released, it serves the next
//! request of its size class on that stream at once: what follows on the stream comes after
//! what used the block. Blocks of a stream that has ended serve any stream. Where the driver has no
//! more memory, a block of another stream serves after that stream's work so far; then all free
//! blocks go back to the driver.

use std::ptr::NonNull;

use parking_lot::Mutex;
use reflex_runtime::alloc::device::{Block, Statistics};
use reflex_runtime::device::Stream;
use reflex_runtime::device::batch::Arena;
use reflex_runtime::error::Error;

use crate::blocks::{BlockNumber, Blocks, NONE};
use crate::call::{Failure, cu};
use crate::gpu::Gpu;

/// Smallest block, and alignment of all, bytes.
const SMALLEST: usize = 256;
/// Size classes between two powers of two.
const CLASSES: usize = 4;
/// Largest block, bytes.
const LARGEST: usize = 1 << 46;

/// The blocks of a device.
#[derive(Debug)]
pub(crate) struct Pool(Mutex<State>);

#[derive(Debug)]
struct State {
    blocks: Blocks,
    /// Free blocks, by stream and size. Streams are few.
    free: Vec<(Stream, BySize)>,
    counts: Statistics,
    limit: usize,
}

/// Free blocks by the number of their size class.
type BySize = Vec<Vec<BlockNumber>>;

impl Default for Pool {
    fn default() -> Pool {
        let counts = Statistics { live: 0, peak_live: 0, resident: 0, peak_resident: 0 };
        let (blocks, free) = (Blocks::default(), vec![]);
        Pool(Mutex::new(State { blocks, free, counts, limit: usize::MAX }))
    }
}

/// The size class of a request.
fn class_of(bytes: usize) -> usize {
    let bytes = bytes.max(SMALLEST);
    let step = (bytes.next_power_of_two() / (2 * CLASSES)).max(SMALLEST);
    bytes.next_multiple_of(step)
}

/// The number of a size class.
fn class_number(size: usize) -> usize {
    // From here on steps are wider than the smallest block.
    const WIDER: usize = 2 * CLASSES;
    let log = (size - 1).ilog2();
    match log.checked_sub((WIDER * SMALLEST).ilog2()) {
        None => size / SMALLEST,
        Some(doublings) => {
            let step = (1 << log) / CLASSES;
            WIDER + CLASSES * doublings as usize + (size - (1 << log)) / step
        }
    }
}

impl Pool {
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.0.lock().limit = bytes;
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.0.lock().counts
    }

    /// The stream of the block in use that holds an address.
    pub(crate) fn stream_of(&self, address: u64) -> Option<Stream> {
        self.0.lock().blocks.stream_of(address)
    }

    /// A block in the order of a stream, for that stream or an arena.
    pub(crate) fn allocate(
        &self,
        gpu: &Gpu,
        bytes: usize,
        stream: Stream,
        owner: Stream,
    ) -> Result<Block, Error> {
        gpu.is_alive()?;
        let mut state = self.0.lock();
        let size = if bytes > LARGEST { usize::MAX } else { class_of(bytes) };
        let live = state.counts.live;
        if live.checked_add(size).is_none_or(|all| all > state.limit) {
            let limit = state.limit;
            let text = match size {
                usize::MAX => format!("cannot allocate {bytes} bytes"),
                _ => format!("{bytes} more bytes exceed the limit of {limit} bytes"),
            };
            let id = reflex_runtime::alloc::device::DeviceAllocator::device(gpu);
            return Err(Error::new("MemoryError", format!("{id}: {text}")));
        }
        // A block of the stream needs neither the driver nor a look whether the stream is there.
        let block = match state.take(owner, size) {
            Some(block) => block,
            None => state.take_or_make(gpu, size, stream)?,
        };
        let counts = &mut state.counts;
        counts.live += size;
        counts.peak_live = counts.peak_live.max(counts.live);
        let address = state.blocks.give(block, owner);
        let data = NonNull::new(std::ptr::without_provenance_mut(address as usize));
        let data = data.ok_or_else(|| Error::new("MemoryError", "the driver's block is null"))?;
        Ok(Block { data, size, capacity: size })
    }

    /// Makes a block free for its stream.
    pub(crate) fn release(&self, address: u64) {
        let mut state = self.0.lock();
        let Some((block, bytes, stream)) = state.blocks.take_back(address) else { return };
        state.counts.live -= bytes;
        state.add_free(stream, bytes, block);
    }

    /// Takes over the blocks of a stream, or an arena, that has ended and has no work left.
    pub(crate) fn adopt(&self, ended: Stream) {
        let mut state = self.0.lock();
        if let Some(at) = state.free.iter().position(|(of, _)| *of == ended) {
            for (class, blocks) in state.free.swap_remove(at).1.into_iter().enumerate() {
                state.free_of(NONE, class).extend(blocks);
            }
        }
        // A user of these on another stream makes the default one wait.
        state.blocks.move_from(ended, Stream::DEFAULT);
    }

    /// Returns free blocks to the driver, after the work that may use them.
    pub(crate) fn trim(&self, gpu: &Gpu) -> Result<(), Error> {
        self.0.lock().trim(gpu)
    }
}

impl State {
    fn take(&mut self, stream: Stream, size: usize) -> Option<BlockNumber> {
        let (_, classes) = self.free.iter_mut().find(|(of, _)| *of == stream)?;
        classes.get_mut(class_number(size))?.pop()
    }

    fn add_free(&mut self, stream: Stream, size: usize, block: BlockNumber) {
        self.free_of(stream, class_number(size)).push(block);
    }

    /// The free blocks of a stream, of a size class.
    fn free_of(&mut self, stream: Stream, class: usize) -> &mut Vec<BlockNumber> {
        let at = self.free.iter().position(|(of, _)| *of == stream).unwrap_or_else(|| {
            self.free.push((stream, vec![]));
            self.free.len() - 1
        });
        let classes = &mut self.free[at].1;
        if classes.len() <= class {
            classes.resize_with(class + 1, Vec::new);
        }
        &mut classes[class]
    }

    /// A block that no stream uses, or a new one.
    fn take_or_make(
        &mut self,
        gpu: &Gpu,
        size: usize,
        stream: Stream,
    ) -> Result<BlockNumber, Error> {
        gpu.enter()?;
        gpu.stream(stream)?;
        match self.take(NONE, size) {
            Some(block) => Ok(block),
            None => self.allocate_new(gpu, size, stream),
        }
    }

    /// A block from the driver, or, where it has none, one that is free elsewhere.
    fn allocate_new(
        &mut self,
        gpu: &Gpu,
        size: usize,
        stream: Stream,
    ) -> Result<BlockNumber, Error> {
        match self.ask(size) {
            Ok(block) => return Ok(block),
            Err(why) if !why.is_out_of_memory() => return Err(gpu.error(why)),
            Err(_) => {}
        }
        if let Some(block) = self.take_from_other(gpu, size, stream)? {
            return Ok(block);
        }
        self.trim(gpu)?;
        self.ask(size).map_err(|why| {
            let (live, error) = (self.counts.live, gpu.error(why));
            let text = format!("{}: {size} bytes, beside {live} in use", error.message());
            Error::new(&error.kind(), text)
        })
    }

    fn ask(&mut self, size: usize) -> Result<BlockNumber, Failure> {
        let mut address = 0;
        // SAFETY: it writes one address.
        unsafe { cu!(cuMemAlloc_v2(&mut address, size)) }?;
        self.counts.resident += size;
        self.counts.peak_resident = self.counts.peak_resident.max(self.counts.resident);
        Ok(self.blocks.add(address, size))
    }

    /// A free block of another stream, for which `stream` waits.
    fn take_from_other(
        &mut self,
        gpu: &Gpu,
        size: usize,
        stream: Stream,
    ) -> Result<Option<BlockNumber>, Error> {
        let class = class_number(size);
        let has = |classes: &BySize| classes.get(class).is_some_and(|blocks| !blocks.is_empty());
        let lends = |of: &Stream| !Arena::is_owner(*of);
        let mut others = self.free.iter().filter(|(of, classes)| lends(of) && has(classes));
        let Some(other) = others.next().map(|(of, _)| *of) else {
            return Ok(None);
        };
        gpu.order(stream, other)?;
        Ok(self.take(other, size))
    }

    fn trim(&mut self, gpu: &Gpu) -> Result<(), Error> {
        gpu.wait_for_all()?;
        // What an arena has is in use by its batch.
        for (_, classes) in self.free.iter_mut().filter(|(of, _)| !Arena::is_owner(*of)) {
            for block in std::mem::take(classes).into_iter().flatten() {
                let (address, bytes) = self.blocks.remove(block);
                // SAFETY: the block is free, and no stream has work that uses it.
                unsafe { cu!(cuMemFree_v2(address)) }.map_err(|why| gpu.error(why))?;
                self.counts.resident -= bytes;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_a_quarter() {
        for bytes in (0..70_000).step_by(37).chain([1 << 20, (1 << 20) + 1, (3 << 30) + 5]) {
            let class = class_of(bytes);
            assert!(class >= bytes && class.is_multiple_of(SMALLEST));
            assert!(class <= bytes + (bytes / 4).max(SMALLEST), "{bytes}: {class}");
            assert_eq!(class_of(class), class);
        }
    }

    #[test]
    fn classes_are_numbered_by_size() {
        let (mut class, mut number) = (SMALLEST, 1);
        while class < LARGEST {
            assert_eq!(class_number(class), number);
            (class, number) = (class_of(class + 1), number + 1);
        }
        assert!(number < 150);
    }
}
