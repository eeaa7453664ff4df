//! Memory for tensor data and storages: the device trait, and the CPU's allocator.
//!
//! CPU blocks are aligned to [`ALIGNMENT`] and come from thread-local caches with
//! four size classes per doubling, so a steady state takes no lock and makes no
//! system call. Where a class has no free block, a somewhat larger one does. Where memory is held
//! that is more than a quarter beyond what was ever in use at once, a much larger one does, and
//! without one, free blocks go back to the system for a new one: a few times, since a steady state
//! that needs them all would do so for ever. Caches are emptied before they and what is in use
//! together exceed twice what was ever in use at once, which lets them follow a program whose sizes
//! change.
//! Fresh memory is zeroed and stays initialised for ever after:
//! reading a tensor nobody wrote gives stale values, not undefined behaviour.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::DLDevice;
use crate::error::Error;

/// Alignment of every block.
pub const ALIGNMENT: usize = 64;

/// Blocks of at least this size come from the kernel, zeroed lazily.
const MAPPED: usize = 64 << 10;
const CLASSES_PER_DOUBLING: usize = 4;
/// Largest block: one class under the address space of a process.
const MAX_BLOCK: usize = 1 << 47;
const CLASSES: usize = 48 * CLASSES_PER_DOUBLING;
/// From this size on a request may get a block of a larger class,
const SHARED: usize = 4096;
/// which is at most so many classes up: 2.8 times the size,
const NEAR: usize = 3 * CLASSES_PER_DOUBLING / 2;
/// or eight times where memory is scarce.
const FAR: usize = 3 * CLASSES_PER_DOUBLING;
/// How often a thread gives up free blocks for a new one, until more is in use than ever before.
const TRADES: u32 = 32;

/// Memory on some device.
#[derive(Debug)]
pub struct Block {
    /// First byte (an address on the block's device).
    pub data: NonNull<u8>,
    /// Usable bytes; at least what was asked for.
    pub size: usize,
    /// Bytes that it takes; more than usable ones when it was made for a larger request.
    pub held: usize,
}

// SAFETY: a block is exclusive ownership of plain memory.
unsafe impl Send for Block {}
// SAFETY: nothing can be done through a shared `Block` without `unsafe`.
unsafe impl Sync for Block {}

/// What an allocator has given out and holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// In blocks now in use.
    pub live: usize,
    /// Most that was ever in use at once.
    pub peak_live: usize,
    /// In use or cached for reuse.
    pub resident: usize,
    /// Most that was ever resident.
    pub peak_resident: usize,
}

/// Gives out memory of one device.
pub trait DeviceAllocator: Send + Sync {
    /// Where the memory is.
    fn device(&self) -> DLDevice;

    /// A block of at least `bytes`, aligned to [`ALIGNMENT`].
    fn allocate(&self, bytes: usize) -> Result<Block, Error>;

    /// Takes a block back.
    ///
    /// # Safety
    /// The block came from this allocator, and nothing uses its memory any more.
    unsafe fn release(&self, block: Block);

    /// Gives cached memory back to the system, as far as this thread can.
    fn trim(&self);

    /// Bytes in use and held.
    fn statistics(&self) -> Statistics;
}

/// The CPU's memory.
#[derive(Debug)]
pub struct Cpu {
    kind: AllocatorKind,
}

/// How memory that is given up is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocatorKind {
    /// It is kept for reuse, within bounds.
    #[default]
    Pooled,
    /// It goes back to the system at once.
    Naive,
}

impl AllocatorKind {
    /// The CPU's allocator of this kind. What both give out is counted together.
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

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK_LIVE: AtomicUsize = AtomicUsize::new(0);
static RESIDENT: AtomicUsize = AtomicUsize::new(0);
static PEAK_RESIDENT: AtomicUsize = AtomicUsize::new(0);
static CACHE_LIMIT: AtomicUsize = AtomicUsize::new(256 << 20);
static MEMORY_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// What each thread may keep however little was in use at once.
const SMALL_CACHE: usize = 1 << 20;

/// Bounds what each thread keeps for reuse of tensors' memory, and of kernels' scratch memory. The
/// former with what is in use is also at most twice the peak of what was in use. Takes effect as
/// blocks are released.
pub fn set_cache_limit(bytes: usize) {
    CACHE_LIMIT.store(bytes, Ordering::Relaxed);
}

/// What [`set_cache_limit`] set.
pub(super) fn cache_limit() -> usize {
    CACHE_LIMIT.load(Ordering::Relaxed)
}

/// Bounds what is in use at once over all threads: beyond it, allocations fail with a
/// `MemoryError`. There is no bound at first.
pub fn set_memory_limit(bytes: usize) {
    MEMORY_LIMIT.store(bytes, Ordering::Relaxed);
}

impl DeviceAllocator for Cpu {
    fn device(&self) -> DLDevice {
        DLDevice::CPU
    }

    #[inline]
    fn allocate(&self, bytes: usize) -> Result<Block, Error> {
        let used = Use::of(bytes)?;
        let class = used.0;
        let cached = match self.kind {
            AllocatorKind::Naive => None,
            AllocatorKind::Pooled => {
                CACHE.try_with(|cache| cache.borrow_mut().serve(class)).ok().flatten()
            }
        };
        let fresh = || Some((obtain(class.size)?, class.size));
        match cached.or_else(fresh) {
            Some((data, held)) => Ok(Block { data, size: class.size, held }),
            None => Err(used.exhausted()),
        }
    }

    #[inline]
    unsafe fn release(&self, block: Block) {
        LIVE.fetch_sub(block.size, Ordering::Relaxed);
        let class = Class::of(block.held);
        let kept = self.kind == AllocatorKind::Pooled
            && CACHE.try_with(|cache| cache.borrow_mut().keep(class, block.data)).unwrap_or(false);
        if !kept {
            // SAFETY: the block is unused, and was obtained with its class's size.
            unsafe { give_back(block.data, block.held) };
        }
    }

    fn trim(&self) {
        super::workspace::trim();
        // A thread that is shutting down has emptied its cache already.
        let _ = CACHE.try_with(|cache| cache.borrow_mut().clear());
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            live: LIVE.load(Ordering::Relaxed),
            peak_live: PEAK_LIVE.load(Ordering::Relaxed),
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
    let limit = MEMORY_LIMIT.load(Ordering::Relaxed);
    let what = format!("{bytes} more bytes of tensor data exceed the limit of {limit} bytes");
    Error::new("MemoryError", what)
}

/// Bytes that count as in use, until it ends.
#[derive(Debug)]
pub(super) struct Use(Class);

impl Use {
    /// Counts a request, unless it exceeds the limit.
    #[inline]
    pub(super) fn of(bytes: usize) -> Result<Use, Error> {
        if bytes > MAX_BLOCK {
            return Err(exhausted(bytes));
        }
        let class = Class::of(bytes);
        let live = LIVE.fetch_add(class.size, Ordering::Relaxed) + class.size;
        if live > MEMORY_LIMIT.load(Ordering::Relaxed) {
            LIVE.fetch_sub(class.size, Ordering::Relaxed);
            return Err(over_limit(bytes));
        }
        if live > PEAK_LIVE.load(Ordering::Relaxed) {
            PEAK_LIVE.fetch_max(live, Ordering::Relaxed);
        }
        Ok(Use(class))
    }

    /// What the request was rounded up to.
    pub(super) fn bytes(&self) -> usize {
        self.0.size
    }

    /// The request is over.
    #[inline]
    pub(super) fn end(self) {
        LIVE.fetch_sub(self.0.size, Ordering::Relaxed);
    }

    /// The request is over, because there is no memory.
    #[cold]
    pub(super) fn exhausted(self) -> Error {
        let error = exhausted(self.bytes());
        self.end();
        error
    }
}

/// A size that blocks are rounded up to, with its list's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    index: usize,
    size: usize,
}

impl Class {
    /// The smallest class that fits `bytes`, which is at most [`MAX_BLOCK`].
    #[inline]
    fn of(bytes: usize) -> Class {
        let bytes = bytes.max(ALIGNMENT);
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

/// Free blocks by class; the first word of each links to the next.
struct Cache {
    heads: [Link; CLASSES],
    bytes: usize,
    /// What was ever in use at once, when `trades` was 0.
    peak: usize,
    /// How often blocks were given up for another since.
    trades: u32,
}

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache::EMPTY) };
}

impl Cache {
    const EMPTY: Cache = Cache { heads: [None; CLASSES], bytes: 0, peak: 0, trades: 0 };

    /// A free block of the class, or of a larger one, with its size.
    #[inline]
    fn serve(&mut self, class: Class) -> Option<(NonNull<u8>, usize)> {
        match self.take(class) {
            Some(data) => Some((data, class.size)),
            None if class.size < SHARED => None,
            None => {
                let held = RESIDENT.load(Ordering::Relaxed);
                self.serve_larger(class, held, PEAK_LIVE.load(Ordering::Relaxed))
            }
        }
    }

    /// The same without one of the class itself, where the process holds `held` bytes and used at
    /// most `peak` at once. Without one, gives up blocks that a new one would be too much beside.
    fn serve_larger(
        &mut self,
        class: Class,
        held: usize,
        peak: usize,
    ) -> Option<(NonNull<u8>, usize)> {
        let excess = excess(class.size, held, peak);
        let found = self.find(class, if excess > 0 { FAR } else { NEAR });
        if found.is_none() && excess > 0 {
            self.trade(excess, peak);
        }
        found
    }

    /// Gives up free blocks of `excess` bytes for one that is new, unless that was done often.
    #[cold]
    fn trade(&mut self, excess: usize, peak: usize) {
        if peak > self.peak {
            (self.peak, self.trades) = (peak, 0);
        }
        if self.trades < TRADES {
            self.trades += 1;
            let rest = excess.saturating_sub(self.bytes);
            self.give_up(excess);
            if rest > 0 {
                super::workspace::trim();
            }
        }
    }

    /// The smallest free block that is at most so many classes up.
    fn find(&mut self, class: Class, reach: usize) -> Option<(NonNull<u8>, usize)> {
        let larger = class.index + 1..CLASSES.min(class.index + 1 + reach);
        let index = larger.into_iter().find(|index| self.heads[*index].is_some())?;
        let size = size_of_class(index);
        Some((self.take(Class { index, size })?, size))
    }

    #[inline]
    fn take(&mut self, class: Class) -> Option<NonNull<u8>> {
        let block = self.heads[class.index]?;
        // SAFETY: cached blocks hold a `Link` in their first word.
        self.heads[class.index] = unsafe { block.cast::<Link>().read() };
        self.bytes -= class.size;
        Some(block)
    }

    #[inline]
    fn keep(&mut self, class: Class, block: NonNull<u8>) -> bool {
        let (peak, live) = (PEAK_LIVE.load(Ordering::Relaxed), LIVE.load(Ordering::Relaxed));
        let room = (2 * peak).saturating_sub(live).max(SMALL_CACHE);
        let limit = CACHE_LIMIT.load(Ordering::Relaxed).min(room);
        if self.bytes + class.size > limit {
            self.clear();
            if class.size > limit {
                return false;
            }
        }
        // SAFETY: the block is unused and of this class.
        unsafe { self.put(class, block) };
        true
    }

    /// # Safety
    /// The block is unused, and has the size of the class.
    #[inline]
    unsafe fn put(&mut self, class: Class, block: NonNull<u8>) {
        // SAFETY: it is at least ALIGNMENT bytes long, and nobody else's.
        unsafe { block.cast::<Link>().write(self.heads[class.index]) };
        self.heads[class.index] = Some(block);
        self.bytes += class.size;
    }

    /// Gives free blocks of so many bytes in all back to the system, large ones first.
    #[cold]
    fn give_up(&mut self, bytes: usize) {
        let rest = self.bytes.saturating_sub(bytes);
        for index in (0..CLASSES).rev() {
            let size = size_of_class(index);
            while self.bytes > rest
                && let Some(block) = self.take(Class { index, size })
            {
                // SAFETY: cached blocks are unused; their list tells their size.
                unsafe { give_back(block, size) };
            }
        }
    }

    #[cold]
    fn clear(&mut self) {
        self.give_up(usize::MAX);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.clear();
    }
}

/// By how much a new block of `size` makes more than is good of `held` bytes, where at most `peak`
/// were in use at once.
fn excess(size: usize, held: usize, peak: usize) -> usize {
    (held + size).saturating_sub(peak / 4 * 5)
}

/// Gives up free blocks where a new one of `size` bytes would be too much beside them.
#[cold]
pub(super) fn make_room(size: usize) {
    let peak = PEAK_LIVE.load(Ordering::Relaxed);
    let excess = excess(size, RESIDENT.load(Ordering::Relaxed), peak);
    if excess > 0 {
        // A thread that is shutting down has no cache any more.
        let _ = CACHE.try_with(|cache| cache.borrow_mut().trade(excess, peak));
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
pub(super) fn obtain(size: usize) -> Option<NonNull<u8>> {
    let data = if size < MAPPED {
        // SAFETY: the size is a class's, so not zero.
        NonNull::new(unsafe { alloc_zeroed(layout(size)) })?
    } else {
        map(size)?
    };
    let resident = RESIDENT.fetch_add(size, Ordering::Relaxed) + size;
    PEAK_RESIDENT.fetch_max(resident, Ordering::Relaxed);
    Some(data)
}

fn map(size: usize) -> Option<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping has no requirements.
    let data = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    if data == libc::MAP_FAILED { None } else { NonNull::new(data.cast()) }
}

/// # Safety
/// `data` came from `obtain(size)` and is used no more.
#[cold]
pub(super) unsafe fn give_back(data: NonNull<u8>, size: usize) {
    RESIDENT.fetch_sub(size, Ordering::Relaxed);
    if size < MAPPED {
        // SAFETY: allocated with this layout, by the caller's contract.
        unsafe { dealloc(data.as_ptr(), layout(size)) };
    } else {
        // SAFETY: a mapping of this size that `obtain` made. Failure leaves the
        // memory mapped, which harms nobody.
        unsafe { libc::munmap(data.as_ptr().cast(), size) };
    }
}

/// A block that goes back to its allocator when dropped.
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
    /// Takes at least `bytes` from `allocator`.
    pub fn new(allocator: &'static dyn DeviceAllocator, bytes: usize) -> Result<OwnedBlock, Error> {
        Ok(OwnedBlock { block: allocator.allocate(bytes)?, allocator })
    }

    /// First byte, on [`device`](OwnedBlock::device).
    pub fn data(&self) -> NonNull<u8> {
        self.block.data
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
        // SAFETY: the block came from this allocator, and its owner is gone.
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

    /// Has the cache hold a block of so many bytes.
    fn put(cache: &mut Cache, bytes: usize) -> NonNull<u8> {
        let class = Class::of(bytes);
        let block = obtain(class.size).unwrap();
        // SAFETY: the block is new.
        unsafe { cache.put(class, block) };
        block
    }

    #[test]
    fn larger_blocks_come_back_as_what_they_are() {
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
    fn larger_blocks_serve_where_none_fits() {
        let mut cache = Cache::EMPTY;
        let data = put(&mut cache, 320 << 10);
        let serves = |cache: &mut Cache, bytes: usize, held: usize| {
            let found = cache.serve_larger(Class::of(bytes), held, 1 << 20);
            found.map(|(data, size)| {
                // SAFETY: the cache gave it just now.
                unsafe { cache.put(Class::of(size), data) };
                data
            })
        };
        assert_eq!(serves(&mut cache, 128 << 10, 320 << 10), Some(data));
        assert_eq!(serves(&mut cache, 96 << 10, 320 << 10), None, "at most 2.8 times the size,");
        assert_eq!(serves(&mut cache, 40 << 10, 2 << 20), Some(data), "but for scarce memory");
        assert_eq!(serves(&mut cache, 32 << 10, 2 << 20), None);
        assert_eq!(cache.bytes, 0, "was given up for the new one");
    }

    #[test]
    fn blocks_are_given_up_for_others_only_so_often() {
        let mut cache = Cache::EMPTY;
        let class = Class::of(1 << 20);
        for round in 0..2 * TRADES {
            put(&mut cache, 8192);
            assert!(cache.serve_larger(class, 10 << 20, 1 << 20).is_none());
            assert_eq!(cache.bytes == 0, round < TRADES, "round {round}");
        }
        // More is in use than before: what was given up may not be needed any more.
        assert!(cache.serve_larger(class, 10 << 20, 2 << 20).is_none());
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
