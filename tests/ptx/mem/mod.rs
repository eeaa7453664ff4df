//! Memory: bytes with initialised bits, allocations of a device, and the order of accesses.

pub mod bytes;
pub mod global;
pub mod race;
pub mod window;
