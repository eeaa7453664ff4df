//! The body of a packet: bytes that are read as they arrive, and never past its end.

use std::io::{self, Read};

use reflex_runtime::abi::DLDevice;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;

use super::item::{self, Item, TensorRef};
use crate::fault::Fault;
use crate::limits::{Limits, check};

/// Most bytes that are allocated before they have arrived.
const STEP: u64 = 64 << 10;

/// The bytes of a packet that are not read yet.
pub struct Body<'a, R> {
    input: &'a mut R,
    left: u64,
    limits: &'a Limits,
}

impl<'a, R: Read> Body<'a, R> {
    pub(super) fn new(input: &'a mut R, left: u64, limits: &'a Limits) -> Body<'a, R> {
        Body { input, left, limits }
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Fills `target`.
    pub fn read_into(&mut self, target: &mut [u8]) -> Result<(), Fault> {
        self.take(target.len() as u64)?;
        Ok(self.input.read_exact(target)?)
    }

    /// Counts bytes that are about to be read.
    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                let left = self.left;
                let text = format!("a packet ends {} bytes too early", bytes - left);
                return Err(Error::value_error(text).into());
            }
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.read_into(&mut bytes)?;
        Ok(bytes)
    }

    /// A byte.
    pub fn u8(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of 16 bits.
    pub fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of 32 bits.
    pub fn i32(&mut self) -> Result<i32, Fault> {
        self.array().map(i32::from_le_bytes)
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of 64 bits.
    pub fn i64(&mut self) -> Result<i64, Fault> {
        self.array().map(i64::from_le_bytes)
    }

    /// As many bytes as are said to follow. Memory grows with what arrives.
    pub fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Fault> {
        self.take(count)?;
        let mut bytes = Vec::with_capacity(count.min(STEP) as usize);
        let read = self.input.by_ref().take(count).read_to_end(&mut bytes)?;
        if read as u64 == count {
            Ok(bytes)
        } else {
            Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())
        }
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> Result<Vec<u8>, Fault> {
        self.bytes(self.left)
    }

    /// A count of bytes, and these.
    pub fn counted(&mut self, limit: &str, most: u64) -> Result<Vec<u8>, Fault> {
        let count = self.u64()?;
        check(limit, count, most)?;
        self.bytes(count)
    }

    /// An element type.
    pub fn dtype(&mut self) -> Result<DType, Fault> {
        let (code, bits) = (self.u8()?, self.u8()?);
        Ok(DType { code, bits, lanes: self.u16()? })
    }

    /// A device.
    pub fn device(&mut self) -> Result<DLDevice, Fault> {
        Ok(DLDevice { device_type: self.i32()?, device_id: self.i32()? })
    }

    /// The description of a tensor.
    pub fn tensor(&mut self) -> Result<TensorRef, Fault> {
        let (data, device) = (self.u64()?, self.device()?);
        let rank = self.i32()?;
        let dtype = self.dtype()?;
        let rank = u64::try_from(rank)
            .map_err(|_| Error::value_error(format!("a tensor of {rank} dimensions")))?;
        check("rank", rank, self.limits.rank as u64)?;
        let shape = (0..rank).map(|_| self.i64()).collect::<Result<_, Fault>>()?;
        Ok(TensorRef { data, device, dtype, shape, byte_offset: self.u64()? })
    }

    /// A sequence of values.
    pub fn seq(&mut self) -> Result<Vec<Item>, Fault> {
        let count = self.i32()?;
        let count = u64::try_from(count)
            .map_err(|_| Error::value_error(format!("a sequence of {count} values")))?;
        check("values", count, self.limits.values as u64)?;
        (0..count).map(|_| item::read(self, self.limits)).collect()
    }

    /// Refuses bytes after the last value.
    pub fn finish(&mut self) -> Result<(), Fault> {
        match self.left {
            0 => Ok(()),
            left => Err(Error::value_error(format!("{left} bytes after the last value")).into()),
        }
    }

    /// Reads to the end of the packet.
    pub fn skip(&mut self) -> io::Result<()> {
        let read = io::copy(&mut self.input.by_ref().take(self.left), &mut io::sink())?;
        let complete = read == self.left;
        self.left = 0;
        if complete { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
