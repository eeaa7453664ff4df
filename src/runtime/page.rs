//! Sizes of pages: what the system has, and what serves every system of an architecture.

#[cfg(unix)]
use std::sync::OnceLock;

/// Bytes that are whole pages on every kernel of this architecture: those of AArch64 have pages of 4, 16
/// or 64 KiB.
pub const LARGEST: usize = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

/// Bytes of a page of this system.
#[cfg(unix)]
pub fn size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: it reads a number of the system's.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(LARGEST)
    })
}

/// Bytes of a page of this system, which has none that programs see.
#[cfg(not(unix))]
pub fn size() -> usize {
    LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_whole_pages() {
        assert!(LARGEST.is_multiple_of(size()));
    }
}
