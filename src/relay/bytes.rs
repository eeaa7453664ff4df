//! Reading and writing the primitives of a file: little-endian numbers, strings, lists, tensors.

use reflex_runtime::dtype::DType;
use reflex_vm::executable::{ConstData, TensorConst};

use crate::read::{ReadError, Section};

const TENSOR_MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;
const MAX_NDIM: usize = 64;

/// A place in bytes that are read. Counts are checked against the bytes that remain before
/// anything of that size is allocated.
#[derive(Clone)]
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    pub section: Section,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], section: Section) -> Cursor<'a> {
        Cursor { bytes, at: 0, section }
    }

    pub fn error_at(&self, offset: usize, reason: impl Into<String>) -> ReadError {
        ReadError { section: self.section, offset, reason: reason.into() }
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else {
            let reason = format!("truncated: {count} bytes expected, {} remain", rest.len());
            return Err(self.error_at(self.at, reason));
        };
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        Ok(self.take(N)?.try_into().expect("take returns N bytes"))
    }

    pub fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32, ReadError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, ReadError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A count of items that take at least `item` bytes each.
    pub fn count(&mut self, item: usize) -> Result<usize, ReadError> {
        let at = self.at;
        let count = self.u64()?;
        let room = self.remaining() / item;
        let fits = usize::try_from(count).ok().filter(|&count| count <= room);
        fits.ok_or_else(|| {
            self.error_at(at, format!("count {count} exceeds what the remaining bytes can hold"))
        })
    }

    pub fn list<T>(
        &mut self,
        item: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let count = self.count(item)?;
        (0..count).map(|_| read(self)).collect()
    }

    pub fn string(&mut self) -> Result<String, ReadError> {
        let count = self.count(1)?;
        let at = self.at;
        let text = std::str::from_utf8(self.take(count)?);
        text.map(str::to_owned).map_err(|_| self.error_at(at, "a string that is not UTF-8"))
    }

    pub fn words(&mut self) -> Result<Vec<i64>, ReadError> {
        self.list(8, Self::i64)
    }

    /// A tensor, whose data is copied to a boundary of 64 bytes.
    pub fn tensor(&mut self) -> Result<TensorConst, ReadError> {
        let start = self.at;
        let fail = |c: &Self, reason: String| Err(c.error_at(start, reason));
        if self.u64()? != TENSOR_MAGIC {
            return fail(self, "a tensor without its magic".to_owned());
        }
        if self.u64()? != 0 {
            return fail(self, "a tensor whose reserved word is not zero".to_owned());
        }
        let device = (self.i32()?, self.i32()?);
        if device != (1, 0) {
            return fail(self, format!("a tensor on device {device:?}, expected the CPU"));
        }
        let ndim = self.i32()?;
        let Some(ndim) = usize::try_from(ndim).ok().filter(|&n| n <= MAX_NDIM) else {
            return fail(self, format!("a tensor of {ndim} dimensions"));
        };
        let [code, bits, low, high] = self.array()?;
        let dtype = DType { code, bits, lanes: u16::from_le_bytes([low, high]) };
        let shape: Box<[i64]> = (0..ndim).map(|_| self.i64()).collect::<Result<_, _>>()?;
        let stored = self.i64()?;
        let expected = TensorConst::stored_bytes(dtype, &shape);
        let Some(size) = expected.filter(|&n| i64::try_from(n) == Ok(stored)) else {
            let reason =
                format!("a tensor of shape {shape:?} and type {dtype} that says {stored} bytes");
            return fail(self, reason);
        };
        let data = ConstData::copy_of(self.take(size)?);
        Ok(TensorConst { dtype, shape, data })
    }
}

/// Bytes that are written.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn string(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    pub fn strings<S: AsRef<str>>(&mut self, list: &[S]) {
        self.u64(list.len() as u64);
        list.iter().for_each(|text| self.string(text.as_ref()));
    }

    pub fn words(&mut self, words: &[i64]) {
        self.u64(words.len() as u64);
        words.iter().for_each(|&word| self.i64(word));
    }

    pub fn tensor(&mut self, tensor: &TensorConst) {
        self.u64(TENSOR_MAGIC);
        self.u64(0);
        self.i32(1);
        self.i32(0);
        self.i32(tensor.shape.len() as i32);
        let DType { code, bits, lanes } = tensor.dtype;
        self.0.extend([code, bits]);
        self.0.extend(lanes.to_le_bytes());
        tensor.shape.iter().for_each(|&dim| self.i64(dim));
        let data = tensor.data.bytes();
        self.i64(data.len() as i64);
        self.0.extend(data);
    }
}
