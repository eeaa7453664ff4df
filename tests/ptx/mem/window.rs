//! Windows of generic addresses: the highest byte says the state space.

use crate::fault::Space;

/// Generic addresses of shared memory.
pub const SHARED: u64 = 0x0e00_0000_0000_0000;
/// Generic addresses of local memory.
pub const LOCAL: u64 = 0x0f00_0000_0000_0000;
/// Generic addresses of parameters.
pub const PARAM: u64 = 0x0c00_0000_0000_0000;
/// The bits that say the window.
pub const MASK: u64 = 0xff00_0000_0000_0000;

/// Bytes at the beginning of shared memory that belong to the system.
pub const SHARED_START: u64 = 1024;

/// Where the number of a block stands in an address in its cluster's shared memory.
const BLOCK: u32 = 24;

/// The address of a place in the shared memory of a block of the cluster, from its address in this block's.
pub fn in_block(address: u64, block: u64) -> u64 {
    let block = (block & 0xff).wrapping_add(1) << BLOCK;
    address & !(0xff << BLOCK) & 0xffff_ffff | block & 0xffff_ffff
}

/// The number of a block and the address there; none of the block at hand.
pub fn block_of(address: u64) -> (Option<u64>, u64) {
    let block = address >> BLOCK & 0xff;
    (block.checked_sub(1), address & !(0xff << BLOCK))
}

/// The window of a state space; global and constant addresses are generic ones.
pub fn window(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED,
        Space::Local => LOCAL,
        Space::Param => PARAM,
        Space::Global | Space::Const | Space::Generic => 0,
    }
}

/// The state space of a generic address, and the address there.
pub fn resolve(address: u64) -> (Space, u64) {
    match address & MASK {
        SHARED => (Space::Shared, address & !MASK),
        LOCAL => (Space::Local, address & !MASK),
        PARAM => (Space::Param, address & !MASK),
        _ => (Space::Global, address),
    }
}
