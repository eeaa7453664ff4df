//! `cuTensorMapEncodeTiled`: what the manual asks of a tensor and a box.

use std::ffi::c_uint;

use reflex_ptx::{Swizzle, TensorMap};

/// `CUtensorMap`.
#[repr(C, align(64))]
pub struct EncodedMap([u8; 128]);

/// A tensor, and a box of it.
pub struct Tiled<'a> {
    pub dtype: c_uint,
    pub address: u64,
    pub extents: &'a [u64],
    pub strides: &'a [u64],
    pub counts: &'a [u32],
    pub steps: &'a [u32],
    pub swizzle: c_uint,
}

impl Tiled<'_> {
    /// The map; none for what the driver refuses.
    pub fn encode(&self) -> Option<EncodedMap> {
        let Tiled { dtype, address, extents, strides, counts, steps, swizzle } = *self;
        let element = match dtype {
            0 => 1,
            1 | 6 | 9 => 2,
            2 | 3 | 7 => 4,
            4 | 5 | 8 => 8,
            _ => return None,
        };
        let (swizzle, widest) = match swizzle {
            0 => (Swizzle::None, u64::MAX),
            1 => (Swizzle::Bytes32, 32),
            2 => (Swizzle::Bytes64, 64),
            3 => (Swizzle::Bytes128, 128),
            _ => return None,
        };
        let row = u64::from(counts[0]) * u64::from(element);
        let fits = address.is_multiple_of(16)
            && extents.iter().all(|n| (1..1 << 32).contains(n))
            && strides.iter().all(|n| n.is_multiple_of(16) && *n < 1 << 40)
            && counts.iter().all(|n| (1..=256).contains(n))
            && steps.iter().all(|n| *n == 1)
            && row.is_multiple_of(16)
            && row <= widest;
        let map = TensorMap {
            address,
            element,
            dims: extents.iter().map(|n| *n as u32).collect(),
            strides: strides.to_vec(),
            extents: counts.iter().map(|n| *n as u16).collect(),
            swizzle,
        };
        fits.then(|| EncodedMap(map.to_bytes()))
    }
}
