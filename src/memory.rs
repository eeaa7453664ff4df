//! Memory of tensors in this process: what it is, and bounds on it.
//!
//! ```
//! use reflex::memory;
//!
//! let before = memory::statistics();
//! let x = reflex::Tensor::from_slice(&[4], &[1.0_f32; 4]).unwrap();
//! let now = memory::statistics();
//! assert!(now.live >= before.live + x.nbytes() && now.peak_live >= now.live);
//! ```

pub use reflex_runtime::alloc::device::{
    AllocatorKind, Statistics, set_cache_limit, set_memory_limit,
};
use reflex_runtime::alloc::device::{CPU, DeviceAllocator};

/// Returns the bytes in use and held over all threads, and their peaks.
///
/// ```
/// let statistics = reflex::memory::statistics();
/// assert!(statistics.peak_live >= statistics.live);
/// ```
pub fn statistics() -> Statistics {
    CPU.statistics()
}
