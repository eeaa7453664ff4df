//! `TensorProto` to [`Literal`]: every element type, inline, typed or external data.
//!
//! Sizes are computed with overflow checks and compared with the bytes at hand before anything
//! is allocated. External files are confined to the model's folder.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use reflex_graph::Literal;
use reflex_runtime::alloc::huge_pages;
use reflex_runtime::dtype::{DType, code};
use reflex_runtime::file_bytes::{self, FileAccess, FileBytes, FileStamp, SourceFile};
use reflex_runtime::late_file::{LateFile, LatePart};

use crate::error::{ImportError, ImportErrorKind, Result, invalid, malformed, unsupported};
use crate::external_data::{self, ExternalData};
use crate::model_file::LeftOut;
use crate::narrow;
use crate::proto::{LOCATION_EXTERNAL, TensorProto, data_type};
use crate::strings;

/// Files that a model's tensors live in.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The model's own, where it was not decoded from bytes, and its bytes where it is mapped.
    model: Option<(SourceFile, Option<FileBytes>)>,
    /// The tensors that were left out when the model was decoded.
    late: LateTensors,
    /// Where external data may be.
    data: ExternalData,
    access: FileAccess,
    /// Whether large tensors of external files are read when they are used: the importer's caller checks the files afterwards.
    reads_late: bool,
    /// By the path that is opened.
    external: RefCell<BTreeMap<PathBuf, ExternalFile>>,
}

/// Tensors of a model's own file that are read later, by the address of what stands for them. The bytes there are
/// kept, so that nothing else has the address.
#[derive(Debug, Default)]
pub(crate) struct LateTensors {
    file: Option<Arc<LateFile>>,
    parts: HashMap<usize, (Bytes, Arc<LatePart>)>,
}

impl LateTensors {
    /// Those that were left out of a file.
    pub(crate) fn new(file: File, stamp: FileStamp, left_out: Vec<LeftOut>) -> LateTensors {
        let file = LateFile::new(file, stamp);
        let parts = left_out.into_iter().map(|LeftOut { token, at, len }| {
            let part = file.part(at, len);
            (token.as_ptr().addr(), (token, part))
        });
        LateTensors { parts: parts.collect(), file: Some(file) }
    }

    fn part(&self, token: &Bytes) -> Option<Arc<LatePart>> {
        self.parts.get(&token.as_ptr().addr()).map(|(_, part)| Arc::clone(part))
    }
}

/// A file of external data.
#[derive(Debug)]
struct ExternalFile {
    file: Arc<LateFile>,
    /// All of it where it is mapped; otherwise each tensor is read on its own.
    bytes: Option<FileBytes>,
}

/// The elements of a tensor, and the file that they keep.
enum Elements {
    Bytes(Bytes, Option<FileBytes>),
    Late(Arc<LatePart>),
}

/// Reads a tensor file as ONNX's backend tests have them (`input_0.pb`). Elements narrower than a
/// byte get one each, as inputs and outputs have them, and strings have their bytes as the last axis.
pub fn read_tensor_pb(path: &Path) -> std::result::Result<Literal, ImportError> {
    let decode = || {
        let (bytes, stamp) = open_file(path, FileAccess::Read)?;
        let proto = TensorProto::decode(Bytes::from_owner(bytes));
        let proto = proto.map_err(|e| malformed(e.to_string()))?;
        if proto.data_type == data_type::STRING {
            return strings::literal(&proto);
        }
        let files = Files::of_model(path, None, stamp, FileAccess::Read);
        let literal = literal(&proto, &files)?;
        let packed = literal.dtype().bits < 8;
        Ok(if packed { narrow::carried(literal) } else { literal })
    };
    decode().map_err(|e: ImportError| e.at(path.display()))
}

/// The tensor of a file that holds nothing else, as [`read_tensor_pb`] gives it.
pub(crate) fn tensor_of_case(tensor: &TensorProto) -> Result<Literal> {
    if tensor.data_type == data_type::STRING {
        return strings::literal(tensor);
    }
    let literal = literal(tensor, &Files::default())?;
    Ok(if literal.dtype().bits < 8 { narrow::carried(literal) } else { literal })
}

/// The bytes of a file.
pub(crate) fn open_file(path: &Path, access: FileAccess) -> Result<(FileBytes, FileStamp)> {
    FileBytes::open(path, access).map_err(|e| ImportError::new(ImportErrorKind::Io, e.to_string()))
}

/// The element type of an ONNX type code.
pub(crate) fn dtype(code: i32) -> Result<DType> {
    let small = |offset: u8| DType::new(code::FLOAT8_E3M4 + offset, 8);
    Ok(match code {
        data_type::FLOAT => DType::F32,
        data_type::UINT8 => DType::U8,
        data_type::INT8 => DType::I8,
        data_type::UINT16 => DType::U16,
        data_type::INT16 => DType::I16,
        data_type::INT32 => DType::I32,
        data_type::INT64 => DType::I64,
        data_type::BOOL => DType::BOOL,
        data_type::FLOAT16 => DType::F16,
        data_type::DOUBLE => DType::F64,
        data_type::UINT32 => DType::U32,
        data_type::UINT64 => DType::U64,
        data_type::BFLOAT16 => DType::BF16,
        data_type::COMPLEX64 => DType::new(code::COMPLEX, 64),
        data_type::COMPLEX128 => DType::new(code::COMPLEX, 128),
        17 => small(3),
        18 => small(4),
        19 => small(5),
        20 => small(6),
        21 => DType::new(code::UINT, 4),
        22 => DType::new(code::INT, 4),
        23 => DType::new(code::FLOAT8_E3M4 + 10, 4),
        24 => small(7),
        25 => DType::new(code::UINT, 2),
        26 => DType::new(code::INT, 2),
        27 => DType::new(code::FLOAT8_E3M4 + 8, 6),
        28 => DType::new(code::FLOAT8_E3M4 + 9, 6),
        data_type::STRING => return Err(unsupported("string tensors are not supported")),
        other => return Err(malformed(format!("unknown element type {other}"))),
    })
}

/// Converts a tensor, sharing its bytes where they have the layout of a literal.
pub(crate) fn literal(tensor: &TensorProto, files: &Files) -> Result<Literal> {
    convert(tensor, files).map_err(|e| e.at(format_args!("tensor `{}`", tensor.name)))
}

fn convert(tensor: &TensorProto, files: &Files) -> Result<Literal> {
    let dtype = dtype(tensor.data_type)?;
    let mut count = 1usize;
    for dim in &tensor.dims {
        let dim = usize::try_from(*dim).map_err(|_| malformed(format!("extent {dim}")))?;
        count = count.checked_mul(dim).ok_or_else(|| malformed("extents overflow"))?;
    }
    let size = dtype.bytes_for(count).ok_or_else(|| malformed("extents overflow"))?;
    let elements = if tensor.data_location == LOCATION_EXTERNAL {
        files.external(tensor, size)?
    } else if let Some(part) = tensor.raw_data.as_ref().and_then(|raw| files.late.part(raw)) {
        Elements::Late(part)
    } else if let Some(raw) = &tensor.raw_data {
        let file = files.model.as_ref().and_then(|(_, bytes)| bytes.clone());
        Elements::Bytes(raw.clone(), file)
    } else {
        Elements::Bytes(typed(tensor, dtype, count)?, None)
    };
    let dims = tensor.dims.clone();
    let (found, literal) = match elements {
        Elements::Late(part) => (part.size(), Literal::late(dtype, dims, part)),
        Elements::Bytes(bytes, file) => {
            let found = bytes.len();
            let literal = Literal::new(dtype, dims, Arc::new(bytes));
            let in_file = |literal: Literal| match file {
                Some(file) => literal.in_file(file),
                None => literal,
            };
            (found, literal.map(in_file))
        }
    };
    literal.ok_or_else(|| wrong_size(tensor, dtype, [size, found]))
}

fn wrong_size(tensor: &TensorProto, dtype: DType, [size, found]: [usize; 2]) -> ImportError {
    malformed(format!("{dtype}{:?} takes {size} bytes, {found} are there", tensor.dims))
}

/// Bytes of the typed fields (`float_data` and its like).
fn typed(tensor: &TensorProto, dtype: DType, count: usize) -> Result<Bytes> {
    // Only as many bytes as the message itself brought are allocated.
    let pack = |len: usize, expected: usize, bytes: &mut dyn Iterator<Item = u8>| {
        if len != expected {
            return Err(malformed(format!("{expected} elements declared, {len} are there")));
        }
        Ok(Bytes::from(bytes.collect::<Vec<u8>>()))
    };
    let ints = &tensor.int32_data;
    let narrow = |width: usize, expected: usize| {
        let mut bytes = ints.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width));
        pack(ints.len(), expected, &mut bytes)
    };
    let scalars = if dtype.code == code::COMPLEX { count.saturating_mul(2) } else { count };
    match tensor.data_type {
        data_type::FLOAT | data_type::COMPLEX64 => {
            let data = &tensor.float_data;
            pack(data.len(), scalars, &mut data.iter().flat_map(|v| v.to_le_bytes()))
        }
        data_type::DOUBLE | data_type::COMPLEX128 => {
            let data = &tensor.double_data;
            pack(data.len(), scalars, &mut data.iter().flat_map(|v| v.to_le_bytes()))
        }
        data_type::INT64 => {
            let data = &tensor.int64_data;
            pack(data.len(), count, &mut data.iter().flat_map(|v| v.to_le_bytes()))
        }
        data_type::UINT32 => {
            let data = &tensor.uint64_data;
            pack(data.len(), count, &mut data.iter().flat_map(|v| (*v as u32).to_le_bytes()))
        }
        data_type::UINT64 => {
            let data = &tensor.uint64_data;
            pack(data.len(), count, &mut data.iter().flat_map(|v| v.to_le_bytes()))
        }
        // Elements narrower than a byte are packed into the low byte of each entry.
        _ if dtype.bits < 8 => narrow(1, dtype.bytes_for(count).unwrap_or(usize::MAX)),
        _ => narrow(dtype.itemsize(), count),
    }
}

/// Returns true if operators compute on a type. Others are only moved and converted (8-bit floats,
/// sub-byte integers), or refused (complex numbers).
pub(crate) fn computes(dtype: DType) -> bool {
    let floats = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::BOOL];
    let whole = (dtype.is_int() || dtype.is_uint()) && dtype.bits >= 8;
    dtype.is_scalar() && (whole || floats.contains(&dtype))
}

/// `dtype`, or an error if no tensor can have it.
pub(crate) fn supported(dtype: DType) -> Result<DType> {
    if computes(dtype) || narrow::carrier(dtype).is_some() {
        Ok(dtype)
    } else {
        Err(unsupported(format!("element type {dtype}")))
    }
}

impl Files {
    /// Files of a model that is not in a file.
    pub(crate) fn of_memory(data: ExternalData) -> Files {
        Files { data, ..Files::default() }
    }

    /// Sets the way that files of external data are held.
    pub(crate) fn set_access(&mut self, access: FileAccess) {
        self.access = access;
    }

    /// Files of a model in a file, with its bytes where it is mapped.
    pub(crate) fn of_model(
        path: &Path,
        bytes: Option<FileBytes>,
        stamp: FileStamp,
        access: FileAccess,
    ) -> Files {
        let folder = path.parent().map(Path::to_path_buf);
        let data = folder.map_or(ExternalData::Absent, ExternalData::Folder);
        let model = Some((SourceFile { path: path.to_path_buf(), stamp }, bytes));
        Files { model, data, access, ..Files::default() }
    }

    /// Sets the tensors that were left out when the model was decoded.
    pub(crate) fn set_late(&mut self, late: LateTensors) {
        self.late = late;
    }

    /// From here on large tensors of external files are read when they are used: the importer's caller checks
    /// [`Files::late_files`] afterwards.
    pub(crate) fn read_late(&mut self) {
        self.reads_late = true;
    }

    /// The files that tensors may still have to be read from.
    pub(crate) fn late_files(&self) -> Vec<Arc<LateFile>> {
        let external = self.external.borrow();
        let external = external.values().filter(|file| self.reads_late && file.bytes.is_none());
        let external = external.map(|external| Arc::clone(&external.file));
        self.late.file.iter().cloned().chain(external).collect()
    }

    /// The files that tensors came from so far.
    pub(crate) fn sources(&self) -> Vec<SourceFile> {
        let external = self.external.borrow();
        let source = |(path, file): (&PathBuf, &ExternalFile)| SourceFile {
            path: path.clone(),
            stamp: file.file.stamp().clone(),
        };
        let model = self.model.iter().map(|(source, _)| source.clone());
        model.chain(external.iter().map(source)).collect()
    }

    /// An error if external data was changed while tensors were read from it.
    pub(crate) fn check(&self) -> Result<()> {
        for (path, external) in self.external.borrow().iter() {
            external.file.check().map_err(|e| io_error(path, &e))?;
        }
        Ok(())
    }

    /// The lengths of the files of external data that tensors came from so far, or that are in memory.
    pub(crate) fn external_bytes(&self) -> u64 {
        let in_memory: u64 = match &self.data {
            ExternalData::Memory(files) => files.values().map(|f| f.as_ref().len() as u64).sum(),
            ExternalData::Absent | ExternalData::Folder(_) => 0,
        };
        let external = self.external.borrow();
        in_memory + external.values().map(|file| file.file.stamp().length()).sum::<u64>()
    }

    /// Releases the model's own pages.
    pub(crate) fn release(&self) {
        if let Some((_, Some(bytes))) = &self.model {
            bytes.release(bytes.as_ref());
        }
    }

    /// The elements of a tensor in external data.
    fn external(&self, tensor: &TensorProto, size: usize) -> Result<Elements> {
        let entry = |key: &str| tensor.external_data.iter().find(|e| e.key == key);
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(entry) => match entry.value.parse::<usize>() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(malformed(format!("external data: {key} `{}`", entry.value))),
            },
        };
        let location = external_data::location(tensor)?;
        let offset = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or(size);
        if length != size {
            return Err(malformed(format!("external data: {length} bytes, {size} are needed")));
        }
        let range = |have: u64| {
            let end = offset.checked_add(size).filter(|end| *end as u64 <= have);
            let needed = || format!("`{location}` has {have} bytes, {size} at {offset} are needed");
            end.map(|end| offset..end)
                .ok_or_else(|| malformed(format!("external data: {}", needed())))
        };
        let folder = match &self.data {
            ExternalData::Absent => {
                return Err(invalid("external data in a model that is not a file"));
            }
            ExternalData::Folder(folder) => folder,
            ExternalData::Memory(files) => {
                let bytes = files.get(&external_data::name(location)?);
                let missing = || invalid(format!("external data: `{location}` is not in memory"));
                let bytes = bytes.ok_or_else(missing)?;
                let range = range(bytes.as_ref().len() as u64)?;
                let bytes = Bytes::from_owner(bytes.clone()).slice(range);
                return Ok(Elements::Bytes(bytes, None));
            }
        };
        let path = self.open(folder, location)?;
        let external = &self.external.borrow()[&path];
        let range = range(external.file.stamp().length())?;
        if let Some(bytes) = &external.bytes {
            let part = Bytes::from_owner(bytes.clone()).slice(range);
            return Ok(Elements::Bytes(part, Some(bytes.clone())));
        }
        if self.reads_late && size >= huge_pages::LEAST {
            return Ok(Elements::Late(external.file.part(offset as u64, size)));
        }
        let mut bytes = vec![0; size];
        let read = external.file.read_at(offset as u64, &mut bytes);
        read.map_err(|e| io_error(&path, &e))?;
        Ok(Elements::Bytes(Bytes::from(bytes), None))
    }

    /// Opens a file by its path relative to the model's folder. Neither `..` nor a link may
    /// lead out of the folder.
    fn open(&self, folder: &Path, location: &str) -> Result<PathBuf> {
        let path = folder.join(external_data::name(location)?);
        if self.external.borrow().contains_key(&path) {
            return Ok(path);
        }
        let io = |error: std::io::Error| io_error(&path, &error);
        let real = path.canonicalize().map_err(io)?;
        let empty = folder.as_os_str().is_empty();
        let root = if empty { Path::new(".") } else { folder };
        if !real.starts_with(root.canonicalize().map_err(io)?) {
            return Err(external_data::outside(location));
        }
        let file = file_bytes::open_regular(&real).map_err(io)?;
        let stamp = FileStamp::of(&file).map_err(io)?;
        let bytes = match self.access {
            FileAccess::Read => None,
            FileAccess::Map => Some(FileBytes::open(&real, FileAccess::Map).map_err(io)?.0),
        };
        let file = LateFile::new(file, stamp);
        self.external.borrow_mut().insert(path.clone(), ExternalFile { file, bytes });
        Ok(path)
    }
}

fn io_error(path: &Path, error: &std::io::Error) -> ImportError {
    let message = format!("external data: `{}`: {error}", path.display());
    ImportError::new(ImportErrorKind::Io, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::StringStringEntryProto;

    fn external(location: &str) -> TensorProto {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: key.into(),
            value: value.into(),
        };
        TensorProto {
            dims: vec![4],
            data_type: data_type::UINT8,
            data_location: LOCATION_EXTERNAL,
            external_data: vec![entry("location", location), entry("offset", "3")],
            ..Default::default()
        }
    }

    #[test]
    fn external_data_stays_in_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf();
        let files = Files::of_memory(ExternalData::Folder(folder));
        let read = literal(&external("tensor.rs"), &files).unwrap();
        assert_eq!(read.bytes(), b" `Te");
        for escape in ["../graph/lib.rs", "/etc/passwd", "./../onnx/tensor.rs"] {
            let message = literal(&external(escape), &files).unwrap_err().to_string();
            assert!(message.contains("leaves the model's folder"), "{message}");
        }
        assert!(literal(&external("nowhere.bin"), &files).is_err());
    }

    #[test]
    fn external_data_in_memory_is_bounded() {
        let data = BTreeMap::from([("a/w.bin".to_owned(), b"0123456789".to_vec().into())]);
        let files = Files::of_memory(ExternalData::Memory(data));
        assert_eq!(literal(&external("./a/w.bin"), &files).unwrap().bytes(), b"3456");
        let mut tensor = external("a/w.bin");
        for (offset, what) in [("7", "10 bytes, 4 at 7"), ("18446744073709551615", "10 bytes")] {
            tensor.external_data[1].value = offset.into();
            let message = literal(&tensor, &files).unwrap_err().to_string();
            assert!(message.contains(what), "{message}");
        }
        for (location, what) in [("../a/w.bin", "leaves"), ("w.bin", "is not in memory"), ("", "`")]
        {
            let message = literal(&external(location), &files).unwrap_err().to_string();
            assert!(message.contains(what), "{message}");
        }
    }

    #[test]
    fn absurd_sizes_are_refused_before_allocation() {
        let files = Files::default();
        let mut tensor = TensorProto {
            dims: vec![i64::MAX, i64::MAX],
            data_type: data_type::FLOAT,
            ..Default::default()
        };
        assert!(literal(&tensor, &files).is_err());
        tensor.dims = vec![1 << 40];
        assert!(literal(&tensor, &files).is_err());
        tensor.dims = vec![-1];
        assert!(literal(&tensor, &files).is_err());
    }

    #[test]
    fn typed_fields_are_packed() {
        let tensor = TensorProto {
            dims: vec![2],
            data_type: data_type::FLOAT16,
            int32_data: vec![0x3c00, 0x4000],
            ..Default::default()
        };
        let read = literal(&tensor, &Files::default()).unwrap();
        assert_eq!(read.bytes(), [0x00, 0x3c, 0x00, 0x40]);
    }
}
