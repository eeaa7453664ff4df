//! TVM's serialized strings and tensors, read as hostile input.

use crate::abi::DLDevice;
use crate::dtype::DType;
use crate::error::Error;
use crate::tensor::{self, Tensor};

/// Before each tensor.
const MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;
/// The most dimensions of a tensor.
const MAX_RANK: i32 = 64;

/// Reads values off bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The name of what is read, for errors.
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Reader<'a> {
        Reader { bytes, at: 0, what }
    }

    /// The error that something else was expected here.
    #[cold]
    pub(super) fn fault(&self, expected: &str) -> Error {
        let (what, at) = (self.what, self.at);
        Error::value_error(format!("{what}: expected {expected} at byte {at}"))
    }

    fn take(&mut self, size: usize, expected: &str) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.fault(expected))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, expected: &str) -> Result<[u8; N], Error> {
        let taken = self.take(N, expected)?;
        taken.try_into().map_err(|_| self.fault(expected))
    }

    fn i32(&mut self, expected: &str) -> Result<i32, Error> {
        self.array(expected).map(i32::from_le_bytes)
    }

    fn i64(&mut self, expected: &str) -> Result<i64, Error> {
        self.array(expected).map(i64::from_le_bytes)
    }

    /// A number of items, each of which takes so many bytes or more.
    pub(super) fn count(&mut self, item: usize) -> Result<usize, Error> {
        let count = u64::from_le_bytes(self.array("a number of items")?);
        let left = (self.bytes.len() - self.at) / item;
        let count = usize::try_from(count).ok().filter(|count| *count <= left);
        count.ok_or_else(|| self.fault("as many items as there are bytes for"))
    }

    /// A list of strings.
    pub(super) fn strings(&mut self) -> Result<Vec<String>, Error> {
        let count = self.count(size_of::<u64>())?;
        (0..count)
            .map(|_| {
                let size = self.count(1)?;
                let text = std::str::from_utf8(self.take(size, "a string")?);
                text.map(str::to_owned).map_err(|_| self.fault("UTF-8"))
            })
            .collect()
    }

    /// A tensor in host memory.
    pub(super) fn tensor(&mut self) -> Result<Tensor, Error> {
        if u64::from_le_bytes(self.array("a tensor")?) != MAGIC {
            return Err(self.fault("a tensor"));
        }
        let _reserved = self.i64("a tensor")?;
        let device = (self.i32("a device")?, self.i32("a device")?);
        if device.0 != DLDevice::KIND_CPU {
            return Err(self.fault("a tensor of the CPU"));
        }
        let rank = self.i32("a rank")?;
        if !(0..=MAX_RANK).contains(&rank) {
            return Err(self.fault("a rank of at most 64"));
        }
        let [code, bits, lanes @ ..] = self.array::<4>("an element type")?;
        let dtype = DType { code, bits, lanes: u16::from_le_bytes(lanes) };
        let dims = (0..rank).map(|_| self.i64("a dimension"));
        let shape = dims.collect::<Result<Vec<_>, _>>()?;
        let size = self.i64("a size")?;
        let fits =
            tensor::byte_size(&shape, dtype).is_ok_and(|fits| usize::try_from(size) == Ok(fits));
        if !fits {
            return Err(self.fault("as many bytes as its shape has"));
        }
        let data = self.take(size as usize, "the data of a tensor")?;
        Tensor::from_bytes(&shape, dtype, data)
    }

    /// Refuses bytes after the last value.
    pub(super) fn finish(&self) -> Result<(), Error> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.fault("the end")) }
    }
}
