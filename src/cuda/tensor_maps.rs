//! Tensor maps: 128 bytes that tell a GPU's copy engine where a tensor is and how large the boxes of it are.
//!
//! The driver alone knows how they are encoded. A kernel has few different ones, so those that were encoded last are
//! kept: they depend on the address and the shape of a tensor, and on nothing that it holds.

use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType_enum as Type, CUtensorMapFloatOOBfill_enum as Fill,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Promotion,
    CUtensorMapSwizzle_enum as Swizzle,
};
use parking_lot::Mutex;
use reflex_runtime::device::TensorMap;
use reflex_runtime::dtype::DType;

use crate::call::{Failure, cu};

/// Maps of a kernel that are kept.
const KEPT: usize = 32;

/// The maps of a kernel that were encoded last.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    /// For an address and a shape, the latest last.
    all: Mutex<Vec<(u64, TensorMap, CUtensorMap)>>,
}

impl Encoded {
    /// The maps of a launch with these parameters.
    pub(crate) fn of(
        &self,
        maps: &[TensorMap],
        params: &[u64],
    ) -> Result<Vec<CUtensorMap>, Failure> {
        if maps.is_empty() {
            return Ok(vec![]);
        }
        let mut all = self.all.lock();
        let find = |map: &TensorMap| {
            let address = params[map.param];
            let found = all.iter().rfind(|(at, shape, _)| *at == address && shape == map);
            if let Some((_, _, encoded)) = found {
                return Ok(*encoded);
            }
            let encoded = encode(map, address)?;
            if all.len() == KEPT {
                all.remove(0);
            }
            all.push((address, *map, encoded));
            Ok(encoded)
        };
        maps.iter().map(find).collect()
    }
}

/// Encodes the maps of a launch with these parameters.
pub(crate) fn encode_all(maps: &[TensorMap], params: &[u64]) -> Result<Vec<CUtensorMap>, Failure> {
    maps.iter().map(|map| encode(map, params[map.param])).collect()
}

fn encode(map: &TensorMap, address: u64) -> Result<CUtensorMap, Failure> {
    // A copy moves bits; the type is their number.
    let dtype = match map.dtype {
        DType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::BF16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        _ => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
    };
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    let tensor = std::ptr::with_exposed_provenance_mut(address as usize);
    let (extents, strides) = (map.extents.as_ptr(), map.strides[1..].as_ptr());
    let steps = [1; TensorMap::MOST_DIMS];
    // SAFETY: each array has as many numbers as there are dimensions, those of strides one less; the map is written.
    unsafe {
        cu!(cuTensorMapEncodeTiled(
            &mut encoded,
            dtype,
            map.rank as u32,
            tensor,
            extents,
            strides,
            map.counts.as_ptr(),
            steps.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ))?;
    }
    Ok(encoded)
}
