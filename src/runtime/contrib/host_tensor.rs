//! Tensors in main memory, element by element.

use std::cmp::Ordering;

use crate::abi::DLTensor;
use crate::dtype::DType;
use crate::error::Error;
use crate::tensor::is_compact;
use crate::value::AnyView;

/// A compact tensor in main memory.
pub(super) struct HostTensor {
    pub(super) data: *mut u8,
    pub(super) dtype: DType,
    pub(super) shape: Vec<i64>,
}

impl HostTensor {
    pub(super) fn of(args: &[AnyView<'_>], index: usize) -> Result<HostTensor, Error> {
        let view = args.get(index);
        let view = view.ok_or_else(|| Error::type_error(format!("argument {index} is missing")))?;
        let dl = view.as_dltensor().ok_or_else(|| {
            Error::type_error(format!("argument {index}: {}", view.mismatch("DLTensor*").message()))
        })?;
        HostTensor::new(dl).map_err(|what| Error::value_error(format!("argument {index} {what}")))
    }

    pub(super) fn new(dl: &DLTensor) -> Result<HostTensor, String> {
        if !dl.device.is_host() {
            return Err(format!("is on {}, not in main memory", dl.device));
        }
        let rank = usize::try_from(dl.ndim).map_err(|_| "has no rank".to_owned())?;
        let shape = match rank {
            0 => vec![],
            // SAFETY: a DLTensor's shape and strides are `ndim` long.
            _ => unsafe { std::slice::from_raw_parts(dl.shape, rank) }.to_vec(),
        };
        // SAFETY: a DLTensor's shape and strides are `ndim` long.
        if !unsafe { is_compact(dl) } {
            return Err("is not compact".to_owned());
        }
        let count = shape.iter().try_fold(1_i64, |n, d| n.checked_mul(*d).filter(|_| *d >= 0));
        let bytes = count.and_then(|n| dl.dtype.bytes_for(usize::try_from(n).ok()?));
        let supported = matches!(dl.dtype.itemsize(), 1 | 2 | 4 | 8) && dl.dtype.is_scalar();
        match bytes {
            Some(bytes) if supported && (bytes == 0 || !dl.data.is_null()) => {
                let data = dl.data.cast::<u8>().wrapping_add(dl.byte_offset as usize);
                Ok(HostTensor { data, dtype: dl.dtype, shape })
            }
            _ => Err(format!("is {:?} of {}, which is not supported here", shape, dl.dtype)),
        }
    }

    pub(super) fn axis(&self, axis: i64) -> Result<usize, Error> {
        let rank = self.shape.len();
        let counted = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
        match counted.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < rank) {
            Some(axis) => Ok(axis),
            None => Err(Error::value_error(format!("axis {axis} of a tensor of rank {rank}"))),
        }
    }

    /// Element `at` in row-major order.
    pub(super) fn at(&self, at: usize) -> &[u8] {
        let size = self.dtype.itemsize();
        let count = self.shape.iter().product::<i64>() as usize;
        assert!(at < count, "element {at} of {count}");
        // SAFETY: the element is within the shape, whose bytes the maker of the tensor vouches for.
        unsafe { std::slice::from_raw_parts(self.data.add(at * size), size) }
    }

    pub(super) fn key(&self, bytes: &[u8]) -> Option<Key> {
        let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let unused = 64 - 8 * bytes.len() as u32;
        Some(match self.dtype {
            DType::F64 => Key::Float(f64::from_bits(bits)),
            DType::F32 => Key::Float(f64::from(f32::from_bits(bits as u32))),
            DType::F16 => Key::Float(half::f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Key::Float(half::bf16::from_bits(bits as u16).to_f64()),
            dtype if dtype.is_int() => Key::Int(((bits << unused) as i64) >> unused),
            dtype if dtype.is_uint() || dtype.is_bool() => Key::Uint(bits),
            _ => return None,
        })
    }
}

/// The sort key of an element. All of a tensor are of one kind.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Float(f64),
    Int(i64),
    Uint(u64),
}

impl Key {
    pub(super) fn compare(self, other: Key) -> Ordering {
        match (self, other) {
            (Key::Float(a), Key::Float(b)) => {
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            (Key::Int(a), Key::Int(b)) => a.cmp(&b),
            (Key::Uint(a), Key::Uint(b)) => a.cmp(&b),
            _ => Ordering::Equal,
        }
    }
}
