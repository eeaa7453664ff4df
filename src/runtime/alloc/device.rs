//! Memory for tensor data and storages: the device trait, and the CPU's caching allocator.
//!
//! CPU blocks are aligned to [`ALIGNMENT`] and come from thread-local caches: segregated free lists
//! with four size classes per doubling, so a steady state takes no lock and makes no system call.
//! Where the list of a class is empty, the best fit among somewhat larger classes serves. Once the
//! process holds more than a quarter beyond its high-water mark (the most that was ever in use at
//! once), a much larger block serves too; if there is none, the cache is trimmed before a new block
//! is allocated. That happens a bounded number of times per high-water mark, since a steady state
//! that needs all its blocks would trim for ever. A cache is emptied before its free blocks and the
//! memory in use together exceed twice the high-water mark, which lets it follow a program whose
//! sizes change.
//! Fresh memory is zeroed and stays initialised for ever after:
//! reading a tensor that was never written gives stale values, not undefined behaviour.
//!
//! Decision: docs/decisions/0021-tensor-allocator.md

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::live::{self, Reserve};
use super::mapping;
use crate::abi::DLDevice;
use crate::error::Error;

/// Alignment of every block.
pub const ALIGNMENT: usize = 64;

const CLASSES_PER_DOUBLING: usize = 4;
/// Largest block: one class under the address space of a process.
const MAX_BLOCK: usize = 1 << MAX_BLOCK_BITS;
const MAX_BLOCK_BITS: usize = if usize::BITS == 64 { 47 } else { 31 };
const CLASSES: usize = (MAX_BLOCK_BITS + 1) * CLASSES_PER_DOUBLING;
/// From this size on a request may get a block of a larger class (best fit).
const BEST_FIT_MIN: usize = 4096;
/// The best fit is at most so many classes up: 2.8 times the size.
const BEST_FIT_CLASSES: usize = 3 * CLASSES_PER_DOUBLING / 2;
/// The same once memory is held beyond the high-water mark: eight times the size.
const SCARCE_FIT_CLASSES: usize = 3 * CLASSES_PER_DOUBLING;
/// Most times that a thread trims its cache for a new block while the high-water mark stays.
const MAX_TRIMS: u32 = 32;

/// Memory on some device.
#[derive(Debug)]
pub struct Block {
    /// First byte (an address on the block's device).
    pub data: NonNull<u8>,
    /// Usable bytes; at least what was asked for.
    pub size: usize,
    /// Bytes of its size class; more than the usable ones when a larger free block served.
    pub capacity: usize,
}

// SAFETY: a block is exclusive ownership of plain memory, which is not tied to a thread.
unsafe impl Send for Block {}
// SAFETY: nothing can be done through a shared `Block` without `unsafe`.
unsafe impl Sync for Block {}

/// The memory that an allocator has handed out and holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Live: in blocks now in use.
    pub live: usize,
    /// The high-water mark of live bytes.
    pub peak_live: usize,
    /// Resident: in use or cached for reuse.
    pub resident: usize,
    /// The high-water mark of resident bytes.
    pub peak_resident: usize,
}

/// Allocates memory of one device.
pub trait DeviceAllocator: Send + Sync {
    /// Where the memory is.
    fn device(&self) -> DLDevice;

    /// A block of at least `bytes`, aligned to [`ALIGNMENT`].
    fn allocate(&self, bytes: usize) -> Result<Block, Error>;

    /// A free block of [`class_size`] bytes, if one is at hand for a small request. Its address alone
    /// passes through a register, where a [`Block`] passes through memory.
    fn recycle(&self, _bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    /// Releases a block.
    ///
    /// # Safety
    /// The block came from this allocator, and nothing uses its memory any more.
    unsafe fn release(&self, block: Block);

    /// Releases the free blocks that this thread caches to the system.
    fn trim(&self);

    /// Live and resident bytes.
    fn statistics(&self) -> Statistics;
}

/// The CPU's memory.
#[derive(Debug)]
pub struct Cpu {
    kind: AllocatorKind,
}

/// The treatment of released memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocatorKind {
    /// It is cached for reuse, within bounds.
    #[default]
    Pooled,
    /// It is released to the system at once.
    Naive,
}

impl AllocatorKind {
    /// The CPU's allocator of this kind. Both share one set of statistics.
    pub fn on_cpu(self) -> &'static Cpu {
        match self {
            AllocatorKind::Pooled => &CPU,
            AllocatorKind::Naive => &CPU_NAIVE,
        }
    }
}

impl std::fmt::Display for AllocatorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            AllocatorKind::Pooled => "pooled",
            AllocatorKind::Naive => "naive",
        })
    }
}

impl std::str::FromStr for AllocatorKind {
    type Err = String;

    fn from_str(text: &str) -> Result<AllocatorKind, String> {
        let kinds = [AllocatorKind::Pooled, AllocatorKind::Naive];
        let found = kinds.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("no allocator {text:?}; use pooled or naive"))
    }
}

/// The process's pooled [`Cpu`] allocator.
///
/// ```
/// use reflex_runtime::alloc::device::{ALIGNMENT, CPU, DeviceAllocator};
/// let block = CPU.allocate(1000).unwrap();
/// assert!(block.size >= 1000 && block.data.addr().get() % ALIGNMENT == 0);
/// // SAFETY: the block came from `CPU` and is used no more.
/// unsafe { CPU.release(block) };
/// ```
pub static CPU: Cpu = Cpu { kind: AllocatorKind::Pooled };
static CPU_NAIVE: Cpu = Cpu { kind: AllocatorKind::Naive };

static RESIDENT: AtomicUsize = AtomicUsize::new(0);
static PEAK_RESIDENT: AtomicUsize = AtomicUsize::new(0);
static CACHE_LIMIT: AtomicUsize = AtomicUsize::new(256 << 20);
/// Whether an allocator is the CPU's pooled one.
#[inline]
pub fn is_pooled(allocator: &'static dyn DeviceAllocator) -> bool {
    std::ptr::addr_eq(allocator, &raw const CPU)
}

/// Bytes that each thread may cache whatever the high-water mark.
const SMALL_CACHE: usize = 1 << 20;

/// Bounds the free blocks that each thread caches, of tensors' memory and of kernels' scratch
/// memory. Tensors' free blocks and the memory in use are together also at most twice the high-water
/// mark. Takes effect as blocks are released.
pub fn set_cache_limit(bytes: usize) {
    CACHE_LIMIT.store(bytes, Ordering::Relaxed);
}

/// The limit that [`set_cache_limit`] set.
pub(super) fn cache_limit() -> usize {
    CACHE_LIMIT.load(Ordering::Relaxed)
}

/// Bounds the memory in use at once over all threads: beyond it, allocations fail with a
/// `MemoryError`. There is no bound at first.
pub fn set_memory_limit(bytes: usize) {
    live::set_limit(bytes);
}

impl DeviceAllocator for Cpu {
    fn device(&self) -> DLDevice {
        DLDevice::CPU
    }

    #[inline]
    fn allocate(&self, bytes: usize) -> Result<Block, Error> {
        if let Some(data) = self.recycle(bytes) {
            let size = class_size(bytes);
            return Ok(Block { data, size, capacity: size });
        }
        let reservation = Reservation::of(bytes)?;
        let class = reservation.0;
        let cached = match self.kind {
            AllocatorKind::Naive => None,
            AllocatorKind::Pooled => {
                CACHE.try_with(|cache| cache.borrow_mut().allocate(class)).ok().flatten()
            }
        };
        let fresh = || Some((allocate_from_system(class.size)?, class.size));
        match cached.or_else(fresh) {
            Some((data, capacity)) => Ok(Block { data, size: class.size, capacity }),
            None => Err(reservation.exhausted()),
        }
    }

    /// A small block whose bytes this thread's reserve has: no count is touched that other threads touch.
    #[inline]
    fn recycle(&self, bytes: usize) -> Option<NonNull<u8>> {
        if bytes > live::SMALL || self.kind == AllocatorKind::Naive {
            return None;
        }
        let class = Class::of(bytes);
        CACHE.try_with(|cache| cache.borrow_mut().recycle(class)).ok()?
    }

    #[inline]
    unsafe fn release(&self, block: Block) {
        let class = Class::of(block.capacity);
        let pooled = self.kind == AllocatorKind::Pooled;
        let cached = CACHE.try_with(|cache| {
            let mut cache = cache.borrow_mut();
            cache.reserve.put(block.size);
            pooled && cache.release(class, block.data)
        });
        // A thread that is shutting down has no cache any more.
        let cached = cached.unwrap_or_else(|_| {
            live::subtract(block.size);
            false
        });
        if !cached {
            // SAFETY: the caller releases the block, which was allocated with its class's size.
            unsafe { release_to_system(block.data, block.capacity) };
        }
    }

    fn trim(&self) {
        super::workspace::trim();
        super::free_tensors::clear();
        // A thread that is shutting down has emptied its cache already.
        let _ = CACHE.try_with(|cache| cache.borrow_mut().clear());
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            live: live::total(),
            peak_live: live::peak(),
            resident: RESIDENT.load(Ordering::Relaxed),
            peak_resident: PEAK_RESIDENT.load(Ordering::Relaxed),
        }
    }
}

#[cold]
fn exhausted(bytes: usize) -> Error {
    Error::new("MemoryError", format!("cannot allocate {bytes} bytes of tensor data"))
}

#[cold]
fn over_limit(bytes: usize) -> Error {
    let limit = live::limit();
    let what = format!("{bytes} more bytes of tensor data exceed the limit of {limit} bytes");
    Error::new("MemoryError", what)
}

/// Bytes that count as live until it ends.
#[derive(Debug)]
pub(super) struct Reservation(Class);

impl Reservation {
    /// Reserves a request's size class, unless that exceeds the memory limit.
    #[inline]
    pub(super) fn of(bytes: usize) -> Result<Reservation, Error> {
        if bytes > MAX_BLOCK {
            return Err(exhausted(bytes));
        }
        let class = Class::of(bytes);
        if live::add(class.size) { Ok(Reservation(class)) } else { Err(over_limit(bytes)) }
    }

    /// The size class of the request, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.size
    }

    /// Ends the reservation.
    #[inline]
    pub(super) fn end(self) {
        live::subtract(self.0.size);
    }

    /// Ends the reservation, since the system has no memory for it.
    #[cold]
    pub(super) fn exhausted(self) -> Error {
        let error = exhausted(self.bytes());
        self.end();
        error
    }
}

/// Bytes of the block that [`DeviceAllocator::recycle`] finds for a request.
#[inline]
pub fn class_size(bytes: usize) -> usize {
    Class::of(bytes).size
}

/// A size class: the size that blocks are rounded up to, and the index of its free list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    index: usize,
    size: usize,
}

impl Class {
    /// The smallest class that fits `bytes`, which is at most [`MAX_BLOCK`].
    #[inline]
    fn of(bytes: usize) -> Class {
        if bytes <= ALIGNMENT {
            let index = ALIGNMENT.ilog2() as usize * CLASSES_PER_DOUBLING;
            return Class { index, size: ALIGNMENT };
        }
        let power = bytes.next_power_of_two();
        let step = (power / (2 * CLASSES_PER_DOUBLING)).max(ALIGNMENT);
        // The step is a power of two, which the compiler cannot know: no division.
        let size = (bytes + step - 1) & !(step - 1);
        // Sizes of this doubling are power/2 + 1, ..., power steps; the smallest
        // doubling has the single size ALIGNMENT.
        let within = (size - power / 2 - 1) >> step.trailing_zeros();
        Class { index: power.ilog2() as usize * CLASSES_PER_DOUBLING + within, size }
    }
}

type Link = Option<NonNull<u8>>;

/// Segregated free lists by class; the first word of each block links to the next.
struct Cache {
    heads: [Link; CLASSES],
    bytes: usize,
    /// The high-water mark since which `trims` counts.
    peak: usize,
    /// Times that the cache was trimmed for a new block.
    trims: u32,
    reserve: Reserve,
}

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache::EMPTY) };
}

impl Cache {
    const EMPTY: Cache =
        Cache { heads: [None; CLASSES], bytes: 0, peak: 0, trims: 0, reserve: Reserve::EMPTY };

    /// A free block of the class, if the reserve has its bytes.
    #[inline]
    fn recycle(&mut self, class: Class) -> Option<NonNull<u8>> {
        self.heads[class.index]?;
        if self.reserve.take(class.size) { self.pop(class) } else { None }
    }

    /// A free block of the class, or the best fit, with its size.
    #[inline]
    fn allocate(&mut self, class: Class) -> Option<(NonNull<u8>, usize)> {
        match self.pop(class) {
            Some(data) => Some((data, class.size)),
            None if class.size < BEST_FIT_MIN => None,
            None => {
                let resident = RESIDENT.load(Ordering::Relaxed);
                self.best_fit(class, resident, live::peak())
            }
        }
    }

    /// The best fit of a larger class, where the process holds `resident` bytes and its high-water
    /// mark is `peak`. If there is none, trims the cache by the excess that a new block would make.
    fn best_fit(
        &mut self,
        class: Class,
        resident: usize,
        peak: usize,
    ) -> Option<(NonNull<u8>, usize)> {
        let excess = excess(class.size, resident, peak);
        let reach = if excess > 0 { SCARCE_FIT_CLASSES } else { BEST_FIT_CLASSES };
        let found = self.find(class, reach);
        if found.is_none() && excess > 0 {
            self.trim_for(excess, peak);
        }
        found
    }

    /// Trims the cache by `excess` bytes before a new block is allocated, at most [`MAX_TRIMS`] times
    /// per high-water mark.
    #[cold]
    fn trim_for(&mut self, excess: usize, peak: usize) {
        if peak > self.peak {
            (self.peak, self.trims) = (peak, 0);
        }
        if self.trims < MAX_TRIMS {
            self.trims += 1;
            let rest = excess.saturating_sub(self.bytes);
            self.trim(excess);
            if rest > 0 {
                super::workspace::trim();
            }
        }
    }

    /// The smallest free block that is at most `reach` classes up.
    fn find(&mut self, class: Class, reach: usize) -> Option<(NonNull<u8>, usize)> {
        let larger = class.index + 1..CLASSES.min(class.index + 1 + reach);
        let index = larger.into_iter().find(|index| self.heads[*index].is_some())?;
        let size = size_of_class(index);
        Some((self.pop(Class { index, size })?, size))
    }

    #[inline]
    fn pop(&mut self, class: Class) -> Option<NonNull<u8>> {
        let block = self.heads[class.index]?;
        // SAFETY: `push` wrote a `Link` to the first word of every block on a list.
        self.heads[class.index] = unsafe { block.cast::<Link>().read() };
        self.bytes -= class.size;
        Some(block)
    }

    /// Caches a released block; returns false if that would exceed the limit.
    #[inline]
    fn release(&mut self, class: Class, block: NonNull<u8>) -> bool {
        let (peak, live) = (live::peak(), live::upper_bound());
        let headroom = (2 * peak).saturating_sub(live).max(SMALL_CACHE);
        let limit = CACHE_LIMIT.load(Ordering::Relaxed).min(headroom);
        if self.bytes + class.size > limit {
            self.clear();
            if class.size > limit {
                return false;
            }
        }
        // SAFETY: the caller has released the block, which is of this class.
        unsafe { self.push(class, block) };
        true
    }

    /// # Safety
    /// The block is unused, and has the size of the class.
    #[inline]
    unsafe fn push(&mut self, class: Class, block: NonNull<u8>) {
        // SAFETY: a block is at least ALIGNMENT bytes long, and the caller owns it.
        unsafe { block.cast::<Link>().write(self.heads[class.index]) };
        self.heads[class.index] = Some(block);
        self.bytes += class.size;
    }

    /// Releases free blocks of at least `bytes` in all to the system, largest first.
    #[cold]
    fn trim(&mut self, bytes: usize) {
        let rest = self.bytes.saturating_sub(bytes);
        for index in (0..CLASSES).rev() {
            let size = size_of_class(index);
            while self.bytes > rest
                && let Some(block) = self.pop(Class { index, size })
            {
                // SAFETY: blocks on a list are unused, and of the size of its class.
                unsafe { release_to_system(block, size) };
            }
        }
    }

    #[cold]
    fn clear(&mut self) {
        self.trim(usize::MAX);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The bytes by which a new block of `size` on top of `resident` ones would exceed the high-water
/// mark `peak` and a quarter.
fn excess(size: usize, resident: usize, peak: usize) -> usize {
    (resident + size).saturating_sub(peak / 4 * 5)
}

/// Trims this thread's cache where a new block of `size` bytes would exceed the high-water mark by
/// more than a quarter.
#[cold]
pub(super) fn trim_for(size: usize) {
    let peak = live::peak();
    let excess = excess(size, RESIDENT.load(Ordering::Relaxed), peak);
    if excess > 0 {
        // A thread that is shutting down has no cache any more.
        let _ = CACHE.try_with(|cache| cache.borrow_mut().trim_for(excess, peak));
    }
}

/// The inverse of [`Class::of`]; meaningless for numbers it never gives.
fn size_of_class(index: usize) -> usize {
    let power = 1_usize << (index / CLASSES_PER_DOUBLING);
    let step = (power / (2 * CLASSES_PER_DOUBLING)).max(ALIGNMENT);
    let within = index % CLASSES_PER_DOUBLING + 1;
    // The smallest doubling is (ALIGNMENT / 2, ALIGNMENT], rounded up to one step.
    (power / 2 + within * step).next_multiple_of(ALIGNMENT).min(power.max(ALIGNMENT))
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGNMENT).expect("classes fit an address space")
}

/// Zeroed memory from the system.
#[cold]
pub(super) fn allocate_from_system(size: usize) -> Option<NonNull<u8>> {
    let data = if size < mapping::LEAST {
        // SAFETY: the size is that of a class, so it is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout(size)) })?
    } else {
        mapping::map(size)?
    };
    let resident = RESIDENT.fetch_add(size, Ordering::Relaxed) + size;
    PEAK_RESIDENT.fetch_max(resident, Ordering::Relaxed);
    Some(data)
}

/// Releases memory to the system.
///
/// # Safety
/// `data` came from `allocate_from_system(size)` and is used no more.
#[cold]
pub(super) unsafe fn release_to_system(data: NonNull<u8>, size: usize) {
    RESIDENT.fetch_sub(size, Ordering::Relaxed);
    if size < mapping::LEAST {
        // SAFETY: the caller passes memory that `allocate_from_system` allocated with this layout.
        unsafe { dealloc(data.as_ptr(), layout(size)) };
    } else {
        // SAFETY: the caller passes a mapping of this size that `allocate_from_system` made.
        unsafe { mapping::unmap(data, size) };
    }
}

/// A block that is released to its allocator when dropped.
#[derive(Debug)]
pub struct OwnedBlock {
    block: Block,
    allocator: &'static dyn DeviceAllocator,
}

impl std::fmt::Debug for dyn DeviceAllocator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceAllocator({:?})", self.device())
    }
}

impl OwnedBlock {
    /// Allocates at least `bytes` from `allocator`.
    #[inline]
    pub fn new(allocator: &'static dyn DeviceAllocator, bytes: usize) -> Result<OwnedBlock, Error> {
        if let Some(data) = allocator.recycle(bytes) {
            let size = class_size(bytes);
            return Ok(OwnedBlock { block: Block { data, size, capacity: size }, allocator });
        }
        Ok(OwnedBlock { block: allocator.allocate(bytes)?, allocator })
    }

    /// First byte, on [`device`](OwnedBlock::device).
    #[inline]
    pub fn data(&self) -> NonNull<u8> {
        self.block.data
    }

    /// Usable bytes of a block of the CPU's pooled allocator that is no larger than its size class.
    #[inline]
    pub(crate) fn pooled_bytes(&self) -> Option<usize> {
        let block = &self.block;
        (is_pooled(self.allocator) && block.size == block.capacity).then_some(block.size)
    }

    /// Usable bytes.
    pub fn size(&self) -> usize {
        self.block.size
    }

    /// Where the memory is.
    pub fn device(&self) -> DLDevice {
        self.allocator.device()
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        let block = Block { ..self.block };
        // SAFETY: `new` took the block from this allocator, and its owner is being dropped.
        unsafe { self.allocator.release(block) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_fit_tightly_and_invert() {
        for bytes in (0..5000).chain([1 << 20, (1 << 20) + 1, 3 << 29, MAX_BLOCK - 1, MAX_BLOCK]) {
            let class = Class::of(bytes);
            assert!(
                class.size >= bytes
                    && class.size.is_multiple_of(ALIGNMENT)
                    && class.index < CLASSES
            );
            assert!(class.size <= (bytes + bytes / 4).max(bytes + ALIGNMENT), "{bytes}: {class:?}");
            assert_eq!(size_of_class(class.index), class.size, "{bytes}");
            assert_eq!(Class::of(class.size), class);
        }
    }

    #[test]
    fn blocks_are_reused_on_their_thread() {
        for bytes in [10, 5000, 2 << 20] {
            let block = OwnedBlock::new(&CPU, bytes).unwrap();
            let data = block.data();
            // SAFETY: the block is ours and has at least ten bytes.
            unsafe { data.write_bytes(7, 10) };
            drop(block);
            assert_eq!(OwnedBlock::new(&CPU, bytes - 1).unwrap().data(), data);
        }
        CPU.trim();
    }

    /// Puts a new free block into the cache.
    fn add_block(cache: &mut Cache, bytes: usize) -> NonNull<u8> {
        let class = Class::of(bytes);
        let block = allocate_from_system(class.size).unwrap();
        // SAFETY: the block is new, of its class, and owned by this test.
        unsafe { cache.push(class, block) };
        block
    }

    #[test]
    fn larger_blocks_return_to_their_own_class() {
        let large = OwnedBlock::new(&CPU, 320 << 10).unwrap();
        let data = large.data();
        drop(large);
        let block = OwnedBlock::new(&CPU, 128 << 10).unwrap();
        assert_eq!((block.data(), block.size()), (data, 128 << 10));
        drop(block);
        let again = OwnedBlock::new(&CPU, 320 << 10).unwrap();
        assert_eq!(again.data(), data);
        drop(again);
        CPU.trim();
    }

    #[test]
    fn the_best_fit_serves_where_a_class_is_empty() {
        let mut cache = Cache::EMPTY;
        let data = add_block(&mut cache, 320 << 10);
        let serves = |cache: &mut Cache, bytes: usize, resident: usize| {
            let found = cache.best_fit(Class::of(bytes), resident, 1 << 20);
            found.map(|(data, size)| {
                // SAFETY: the cache returned the block just now, with its size.
                unsafe { cache.push(Class::of(size), data) };
                data
            })
        };
        assert_eq!(serves(&mut cache, 128 << 10, 320 << 10), Some(data));
        assert_eq!(serves(&mut cache, 96 << 10, 320 << 10), None, "at most 2.8 times the size,");
        assert_eq!(serves(&mut cache, 40 << 10, 2 << 20), Some(data), "but for scarce memory");
        assert_eq!(serves(&mut cache, 32 << 10, 2 << 20), None);
        assert_eq!(cache.bytes, 0, "was trimmed for the new one");
    }

    #[test]
    fn caches_are_trimmed_a_bounded_number_of_times() {
        let mut cache = Cache::EMPTY;
        let class = Class::of(1 << 20);
        for round in 0..2 * MAX_TRIMS {
            add_block(&mut cache, 8192);
            assert!(cache.best_fit(class, 10 << 20, 1 << 20).is_none());
            assert_eq!(cache.bytes == 0, round < MAX_TRIMS, "round {round}");
        }
        // The high-water mark rose: blocks that were needed before may be so no longer.
        assert!(cache.best_fit(class, 10 << 20, 2 << 20).is_none());
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much memory for Miri")]
    fn the_impossible_is_refused() {
        let error = CPU.allocate(usize::MAX).unwrap_err();
        assert_eq!(error.kind(), "MemoryError");
        assert!(CPU.allocate(MAX_BLOCK).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much memory for Miri")]
    fn statistics_count_bytes() {
        let before = CPU.statistics();
        let block = OwnedBlock::new(&CPU, 64 << 20).unwrap();
        let after = CPU.statistics();
        // Other tests run meanwhile, with far smaller blocks.
        assert!(after.live + (16 << 20) >= before.live + block.size());
        assert!(after.peak_live >= after.live.min(block.size()));
        assert!(after.peak_resident >= block.size() && after.resident >= block.size());
    }
}
