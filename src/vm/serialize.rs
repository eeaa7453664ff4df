//! Reading and writing executables in TVM's serialized form.
//!
//! Layout (little endian): magic, version string, function table, memory scopes (V2
//! only), constants, code. A file that TVM wrote is written back byte for byte. Input is
//! hostile: every count is bounded by the bytes that remain before anything is
//! allocated, and every error carries the offset of the first malformed byte.
//!
//! The V1 form exists in three dialects with different constant codes and no version field to
//! tell them apart. A V1 file is read under every dialect; it is accepted when all
//! readings that consume the whole file agree, and refused by name otherwise.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use reflex_runtime::dtype::DType;

use crate::executable::{ConstData, Constant, Executable, FuncKind, Function, TensorConst};

/// First word of the current form (TVM 0.23 and later).
pub const MAGIC_V2: u64 = 0xD225_DE2F_4214_151E;
/// First word of the older form, without memory scopes.
pub const MAGIC_V1: u64 = 0xD225_DE2F_4214_151D;
/// The version string of every form.
pub const VERSION: &str = "0.14";
const TENSOR_MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;
const MAX_NDIM: usize = 64;

/// Why bytes are not an executable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a readable executable: {reason} (at byte {offset})")]
pub struct ReadError {
    /// Offset from the start of the blob.
    pub offset: usize,
    /// The mistake there.
    pub reason: String,
}

/// The dialects of constant codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    /// TVM up to 0.20: a private numbering.
    UpTo20,
    /// TVM 0.21: tvm-ffi's indices, with Shape 71 and NDArray 72.
    V21,
    /// TVM 0.22 and later: tvm-ffi's indices as they are now.
    Current,
}

#[derive(Clone, Copy)]
enum ConstKind {
    Int,
    Float,
    DType,
    Str,
    Shape,
    Tensor,
}

impl Dialect {
    fn const_kind(self, code: i32) -> Option<ConstKind> {
        use ConstKind::{DType, Float, Int, Shape, Str, Tensor};
        Some(match (self, code) {
            (Dialect::UpTo20, 0) => Tensor,
            (Dialect::UpTo20, 1) => DType,
            (Dialect::UpTo20, 2) => Shape,
            (Dialect::UpTo20, 3) => Str,
            (Dialect::UpTo20, 4) => Int,
            (Dialect::UpTo20, 5) => Float,
            (Dialect::V21, 71) | (Dialect::Current, 69) => Shape,
            (Dialect::V21, 72) | (Dialect::Current, 70) => Tensor,
            (Dialect::V21 | Dialect::Current, 1) => Int,
            (Dialect::V21 | Dialect::Current, 3) => Float,
            (Dialect::V21 | Dialect::Current, 5) => DType,
            (Dialect::V21 | Dialect::Current, 65) => Str,
            _ => return None,
        })
    }
}

/// Reads an executable from `bytes`, copying tensor data.
pub fn from_bytes(bytes: &[u8]) -> Result<Executable, ReadError> {
    read(bytes, &mut |range| ConstData::copy_of(&bytes[range]))
}

/// Reads an executable from `range` of `owner` (a mapped file, say). Tensor data that
/// starts on a 64-byte boundary is used in place; the rest is copied.
pub fn from_shared(
    owner: &Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
) -> Result<Executable, ReadError> {
    let bytes = (**owner).as_ref().get(range.clone()).ok_or_else(|| ReadError {
        offset: 0,
        reason: format!("range {range:?} lies outside the file"),
    })?;
    read(bytes, &mut |inner| {
        let part = &bytes[inner.clone()];
        let in_owner = range.start + inner.start..range.start + inner.end;
        match ConstData::slice(Arc::clone(owner), in_owner) {
            Some(data) if part.as_ptr().addr().is_multiple_of(64) => data,
            _ => ConstData::copy_of(part),
        }
    })
}

type MakeData<'m> = dyn FnMut(Range<usize>) -> ConstData + 'm;

fn read(bytes: &[u8], data: &mut MakeData<'_>) -> Result<Executable, ReadError> {
    let mut cursor = Cursor { bytes, at: 0 };
    match cursor.u64()? {
        MAGIC_V2 => read_body(cursor, Dialect::Current, Scopes::Listed, data),
        MAGIC_V1 => read_v1(cursor, data),
        magic => Err(ReadError {
            offset: 0,
            reason: format!("magic is {magic:#018X}, expected {MAGIC_V2:#018X}"),
        }),
    }
}

fn read_v1(cursor: Cursor<'_>, data: &mut MakeData<'_>) -> Result<Executable, ReadError> {
    let mut found: Option<(Dialect, Executable)> = None;
    let mut furthest: Option<ReadError> = None;
    for dialect in [Dialect::Current, Dialect::V21, Dialect::UpTo20] {
        match read_body(cursor.clone(), dialect, Scopes::Absent, data) {
            Ok(exec) => match &found {
                Some((_, first)) if *first == exec => {}
                Some((first, _)) => {
                    return Err(ReadError {
                        offset: 0,
                        reason: format!(
                            "V1 file whose constants read as dialect {first:?} and as {dialect:?} \
                             with different meanings; re-export it with TVM 0.23 or later"
                        ),
                    });
                }
                None => found = Some((dialect, exec)),
            },
            Err(error) => {
                if furthest.as_ref().is_none_or(|f| f.offset < error.offset) {
                    furthest = Some(error);
                }
            }
        }
    }
    match (found, furthest) {
        (Some((_, exec)), _) => Ok(exec),
        (None, Some(error)) => Err(error),
        (None, None) => unreachable!("every dialect either reads or fails"),
    }
}

/// Whether a file lists memory scopes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scopes {
    Listed,
    Absent,
}

fn read_body(
    mut c: Cursor<'_>,
    dialect: Dialect,
    scopes: Scopes,
    data: &mut MakeData<'_>,
) -> Result<Executable, ReadError> {
    let at = c.at;
    let version = c.string()?;
    if version != VERSION {
        return Err(ReadError {
            offset: at,
            reason: format!("version is {version:?}, expected {VERSION:?}"),
        });
    }
    let functions = c.list(8, |c| c.function())?;
    let memory_scopes = if scopes == Scopes::Listed {
        c.list(16, |c| Ok((c.i64()?, c.string()?)))?
    } else {
        Vec::new()
    };
    let constants = c.list(5, |c| c.constant(dialect, data))?;
    let instr_offset = c.words()?;
    let instr_data = c.words()?;
    if c.at != c.bytes.len() {
        return Err(c.error(format!("{} bytes left over", c.bytes.len() - c.at)));
    }
    Ok(Executable { functions, memory_scopes, constants, instr_offset, instr_data })
}

#[derive(Clone)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn error(&self, reason: impl Into<String>) -> ReadError {
        ReadError { offset: self.at, reason: reason.into() }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let rest = &self.bytes[self.at..];
        if rest.len() < count {
            return Err(
                self.error(format!("truncated: {count} bytes expected, {} remain", rest.len()))
            );
        }
        self.at += count;
        Ok(&rest[..count])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        Ok(self.take(N)?.try_into().expect("take returns N bytes"))
    }

    fn u64(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64, ReadError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, ReadError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// A count of items that take at least `item` bytes each.
    fn count(&mut self, item: usize) -> Result<usize, ReadError> {
        let at = self.at;
        let count = self.u64()?;
        let room = (self.bytes.len() - self.at) / item;
        match usize::try_from(count) {
            Ok(n) if n <= room => Ok(n),
            _ => Err(ReadError {
                offset: at,
                reason: format!("count {count} exceeds what the remaining bytes can hold"),
            }),
        }
    }

    fn list<T>(
        &mut self,
        item: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let count = self.count(item)?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn string(&mut self) -> Result<String, ReadError> {
        let count = self.count(1)?;
        let at = self.at;
        let bytes = self.take(count)?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_| ReadError { offset: at, reason: "string is not UTF-8".to_owned() })
    }

    fn words(&mut self) -> Result<Vec<i64>, ReadError> {
        let count = self.count(8)?;
        let bytes = self.take(count * 8)?;
        let word = |chunk: &[u8]| i64::from_le_bytes(chunk.try_into().expect("8-byte chunk"));
        Ok(bytes.chunks_exact(8).map(word).collect())
    }

    fn dtype(&mut self) -> Result<DType, ReadError> {
        let [code, bits, low, high] = self.array()?;
        Ok(DType { code, bits, lanes: u16::from_le_bytes([low, high]) })
    }

    fn function(&mut self) -> Result<Function, ReadError> {
        let kind = match self.i32()? {
            0 => FuncKind::Packed,
            1 => FuncKind::Vm,
            2 => FuncKind::VmTir,
            kind => {
                self.at -= 4;
                return Err(self.error(format!("unknown function kind {kind}")));
            }
        };
        Ok(Function {
            kind,
            name: self.string()?,
            start_instr: self.i64()?,
            end_instr: self.i64()?,
            num_args: self.i64()?,
            register_file_size: self.i64()?,
            param_names: self.list(8, |c| c.string())?,
        })
    }

    fn constant(
        &mut self,
        dialect: Dialect,
        data: &mut MakeData<'_>,
    ) -> Result<Constant, ReadError> {
        let at = self.at;
        let code = self.i32()?;
        let Some(kind) = dialect.const_kind(code) else {
            return Err(ReadError { offset: at, reason: format!("unknown constant type {code}") });
        };
        Ok(match kind {
            ConstKind::Int => Constant::Int(self.i64()?),
            ConstKind::Float => Constant::Float(f64::from_bits(self.u64()?)),
            ConstKind::DType => Constant::DType(self.dtype()?),
            ConstKind::Str => Constant::Str(self.string()?.into()),
            ConstKind::Shape => Constant::Shape(self.words()?.into()),
            ConstKind::Tensor => Constant::Tensor(self.tensor(data)?),
        })
    }

    fn tensor(&mut self, data: &mut MakeData<'_>) -> Result<TensorConst, ReadError> {
        let start = self.at;
        let fail = |reason: String| ReadError { offset: start, reason };
        if self.u64()? != TENSOR_MAGIC {
            return Err(fail("tensor constant without its magic".to_owned()));
        }
        if self.u64()? != 0 {
            return Err(fail("reserved word of a tensor is not zero".to_owned()));
        }
        let device = (self.i32()?, self.i32()?);
        if device != (1, 0) {
            return Err(fail(format!("tensor constant on device {device:?}, expected the CPU")));
        }
        let ndim = self.i32()?;
        let ndim = usize::try_from(ndim)
            .ok()
            .filter(|&n| n <= MAX_NDIM)
            .ok_or_else(|| fail(format!("tensor constant with {ndim} dimensions")))?;
        let dtype = self.dtype()?;
        let mut shape = Vec::with_capacity(ndim);
        for _ in 0..ndim {
            shape.push(self.i64()?);
        }
        let stored = self.i64()?;
        let expected = TensorConst::stored_bytes(dtype, &shape);
        let Some(size) = expected.filter(|&n| i64::try_from(n) == Ok(stored)) else {
            return Err(fail(format!(
                "tensor of shape {shape:?} and type {dtype} says it has {stored} bytes"
            )));
        };
        let from = self.at;
        self.take(size)?;
        Ok(TensorConst { dtype, shape: shape.into(), data: data(from..from + size) })
    }
}

/// Returns `exec` in the V2 form.
pub fn to_bytes(exec: &Executable) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_to(exec, &mut bytes).expect("memory takes all bytes");
    bytes
}

/// Writes `exec` in the V2 form.
pub fn write_to(exec: &Executable, out: &mut dyn Write) -> io::Result<()> {
    let mut w = Writer { out, outcome: Ok(()) };
    w.u64(MAGIC_V2);
    w.string(VERSION);
    w.u64(exec.functions.len() as u64);
    for function in &exec.functions {
        w.function(function);
    }
    w.u64(exec.memory_scopes.len() as u64);
    for (index, scope) in &exec.memory_scopes {
        w.i64(*index);
        w.string(scope);
    }
    w.u64(exec.constants.len() as u64);
    for constant in &exec.constants {
        w.constant(constant);
    }
    w.words(&exec.instr_offset);
    w.words(&exec.instr_data);
    w.outcome
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    /// The first error, after which nothing is written.
    outcome: io::Result<()>,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        if self.outcome.is_ok() {
            self.outcome = self.out.write_all(bytes);
        }
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.bytes(&value.to_le_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.bytes(&value.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn words(&mut self, words: &[i64]) {
        self.u64(words.len() as u64);
        words.iter().for_each(|&word| self.i64(word));
    }

    fn dtype(&mut self, dtype: DType) {
        let [low, high] = dtype.lanes.to_le_bytes();
        self.bytes(&[dtype.code, dtype.bits, low, high]);
    }

    fn function(&mut self, function: &Function) {
        self.i32(function.kind as i32);
        self.string(&function.name);
        self.i64(function.start_instr);
        self.i64(function.end_instr);
        self.i64(function.num_args);
        self.i64(function.register_file_size);
        self.u64(function.param_names.len() as u64);
        for name in &function.param_names {
            self.string(name);
        }
    }

    fn constant(&mut self, constant: &Constant) {
        match constant {
            Constant::Int(value) => {
                self.i32(1);
                self.i64(*value);
            }
            Constant::Float(value) => {
                self.i32(3);
                self.u64(value.to_bits());
            }
            Constant::DType(dtype) => {
                self.i32(5);
                self.dtype(*dtype);
            }
            Constant::Str(text) => {
                self.i32(65);
                self.string(text);
            }
            Constant::Shape(shape) => {
                self.i32(69);
                self.words(shape);
            }
            Constant::Tensor(tensor) => {
                self.i32(70);
                self.tensor(tensor);
            }
        }
    }

    fn tensor(&mut self, tensor: &TensorConst) {
        self.u64(TENSOR_MAGIC);
        self.u64(0);
        self.i32(1);
        self.i32(0);
        self.i32(tensor.shape.len() as i32);
        self.dtype(tensor.dtype);
        for &dim in &tensor.shape {
            self.i64(dim);
        }
        let bytes = tensor.data.bytes();
        self.i64(bytes.len() as i64);
        self.bytes(bytes);
    }
}
