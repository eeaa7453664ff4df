//! Tensor maps: what `cuTensorMapEncodeTiled` makes, in an encoding of our own.
//!
//! The device's encoding is not published. A kernel only passes the 128 bytes on.

/// The permutation of rows in shared memory, by chunks of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Within 32 bytes.
    Bytes32,
    /// Within 64 bytes.
    Bytes64,
    /// Within 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// The address at which a byte of an unpermuted address lies.
    pub fn apply(self, address: u64) -> u64 {
        let chunks = match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 3,
            Swizzle::Bytes128 => 7,
        };
        address ^ (address >> 7 & chunks) << 4
    }

    fn code(self) -> u8 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes128 => 3,
        }
    }
}

/// A tensor in global memory and the box that one copy moves; the innermost dimension comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The address of the tensor.
    pub address: u64,
    /// Bytes of an element.
    pub element: u8,
    /// Extents of the tensor.
    pub dims: Vec<u32>,
    /// Bytes between neighbours of all dimensions but the first.
    pub strides: Vec<u64>,
    /// Extents of the box.
    pub extents: Vec<u16>,
    /// The permutation of shared memory.
    pub swizzle: Swizzle,
}

/// The first bytes of an encoded map.
const MAGIC: [u8; 4] = *b"RXTM";

impl TensorMap {
    /// Bytes of a box.
    pub fn box_bytes(&self) -> u64 {
        let extents = self.extents.iter().map(|extent| u64::from(*extent));
        extents.fold(u64::from(self.element), u64::saturating_mul)
    }

    /// The 128 bytes that a kernel gets.
    pub fn to_bytes(&self) -> [u8; 128] {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([self.element, self.dims.len() as u8, self.swizzle.code(), 0]);
        bytes.extend(self.address.to_le_bytes());
        self.dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
        self.strides.iter().for_each(|stride| bytes.extend(stride.to_le_bytes()));
        self.extents.iter().for_each(|extent| bytes.extend(extent.to_le_bytes()));
        bytes.resize(128, 0);
        bytes.try_into().unwrap_or([0; 128])
    }

    /// Reads an encoded map; none where the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<TensorMap> {
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (head, tail) = rest.split_at_checked(count)?;
            rest = tail;
            let mut word = [0; 8];
            word[..count].copy_from_slice(head);
            Some(u64::from_le_bytes(word))
        };
        if take(4)? != u64::from(u32::from_le_bytes(MAGIC)) {
            return None;
        }
        let (element, rank) = (take(1)? as u8, take(1)? as usize);
        let swizzle = match take(2)? {
            0 => Swizzle::None,
            1 => Swizzle::Bytes32,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes128,
        };
        if !(1..=5).contains(&rank) || ![1, 2, 4, 8].contains(&element) {
            return None;
        }
        let address = take(8)?;
        let dims = (0..rank).map(|_| take(4).map(|dim| dim as u32)).collect::<Option<_>>()?;
        let strides = (1..rank).map(|_| take(8)).collect::<Option<_>>()?;
        let extents = (0..rank).map(|_| take(2).map(|e| e as u16)).collect::<Option<_>>()?;
        Some(TensorMap { address, element, dims, strides, extents, swizzle })
    }
}
