//! NumPy files in and out: `.npy` for one tensor, `.npz` for feeds and references.
//!
//! Element types are those NumPy has and a [`DType`] can hold; Fortran order and big-endian
//! files are refused by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use npyz::{DType as NpyType, NpyHeader, Order, TypeChar, TypeStr, WriterBuilder};
use reflex_runtime::dtype::DType;
use zip::ZipArchive;

use crate::array::{Array, Feed};
use crate::error::{Error, ErrorKind, Result};

/// Inputs and expected outputs of one run.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Inputs by name.
    pub inputs: Feed,
    /// Expected outputs by name.
    pub outputs: Feed,
}

fn bad(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Input, format!("{}: {what}", path.display()))
}

fn element_type(kind: &TypeStr) -> Option<DType> {
    Some(match (kind.type_char(), kind.size_field()) {
        (TypeChar::Float, 2) => DType::F16,
        (TypeChar::Float, 4) => DType::F32,
        (TypeChar::Float, 8) => DType::F64,
        (TypeChar::Int, 1) => DType::I8,
        (TypeChar::Int, 2) => DType::I16,
        (TypeChar::Int, 4) => DType::I32,
        (TypeChar::Int, 8) => DType::I64,
        (TypeChar::Uint, 1) => DType::U8,
        (TypeChar::Uint, 2) => DType::U16,
        (TypeChar::Uint, 4) => DType::U32,
        (TypeChar::Uint, 8) => DType::U64,
        (TypeChar::Bool, 1) => DType::BOOL,
        _ => return None,
    })
}

fn type_string(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::BOOL => "|b1",
        _ => return None,
    })
}

/// Reads one array in `.npy` form; `path` and `name` are for messages.
fn read_array(mut reader: impl Read, path: &Path, name: &str) -> Result<Array> {
    let at = |what: String| bad(path, format!("{name}: {what}"));
    let header = NpyHeader::from_reader(&mut reader).map_err(|e| at(e.to_string()))?;
    let NpyType::Plain(kind) = header.dtype() else {
        return Err(at("structured arrays are not tensors".into()));
    };
    let dtype =
        element_type(&kind).ok_or_else(|| at(format!("element type {kind} unsupported")))?;
    if kind.to_string().starts_with('>') {
        return Err(at("big-endian data; save it little-endian".into()));
    }
    if header.order() == Order::Fortran && header.shape().len() > 1 {
        return Err(at("Fortran order; save it with numpy.ascontiguousarray".into()));
    }
    let count = header.shape().iter().try_fold(1u64, |n, d| n.checked_mul(*d));
    let bytes = count.and_then(|n| dtype.bytes_for(usize::try_from(n).ok()?));
    let bytes = bytes.ok_or_else(|| at("shape overflows".into()))?;
    let mut data = Vec::new();
    reader.take(bytes as u64).read_to_end(&mut data).map_err(|e| at(e.to_string()))?;
    if data.len() != bytes {
        return Err(at(format!("truncated: {} of {bytes} bytes", data.len())));
    }
    Ok(Array { dtype, shape: header.shape().iter().map(|d| *d as i64).collect(), data })
}

/// Reads a `.npy` file.
///
/// ```
/// use reflex::{Array, numpy};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("x.npy");
/// let x = Array::of(&[2], &[1.0_f32, 2.0])?;
/// numpy::write_npy(&path, &x)?;
/// assert_eq!(numpy::read_npy(&path)?, x);
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn read_npy(path: &Path) -> Result<Array> {
    let file = File::open(path).map_err(|e| Error::io(path, &e))?;
    read_array(BufReader::new(file), path, "array")
}

/// Writes a `.npy` file.
///
/// ```
/// use reflex::{Array, numpy};
///
/// # let folder = tempfile::tempdir().unwrap();
/// numpy::write_npy(&folder.path().join("x.npy"), &Array::of(&[1], &[7_i64])?)?;
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn write_npy(path: &Path, array: &Array) -> Result<()> {
    let kind = type_string(array.dtype)
        .ok_or_else(|| bad(path, format!("NumPy has no element type {}", array.dtype)))?;
    let shape: Vec<u64> = array.shape.iter().map(|d| *d as u64).collect();
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        // Header by the crate, bytes by us: they are already in the file's layout.
        npyz::WriteOptions::new_header_only()
            .dtype(NpyType::Plain(kind.parse().expect("a valid type string")))
            .shape(&shape)
            .writer(&mut file)
            .write_header_only()?;
        file.write_all(&array.data)?;
        file.flush()
    };
    write().map_err(|e| Error::io(path, &e))
}

/// Reads the feeds of an `.npz` file: keys `in.<k>.<input>` and `out.<k>.<output>`.
///
/// ```
/// use reflex::{ErrorKind, numpy};
///
/// let error = numpy::read_cases("no/such/reference.npz".as_ref()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Io);
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn read_cases(path: &Path) -> Result<Vec<Case>> {
    let file = File::open(path).map_err(|e| Error::io(path, &e))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|e| bad(path, e))?;
    let members = archive.file_names();
    let members = members.map(|name| name.map(Cow::into_owned).map_err(|e| bad(path, e)));
    let members = members.collect::<Result<Vec<String>>>()?;
    let mut cases: BTreeMap<usize, Case> = BTreeMap::new();
    for member in members {
        let Some(name) = member.strip_suffix(".npy") else { continue };
        let mut parts = name.splitn(3, '.');
        let (Some(side @ ("in" | "out")), Some(k), Some(tensor)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue; // other keys are allowed and ignored
        };
        let k: usize = k.parse().map_err(|_| bad(path, format!("{name}: bad feed number")))?;
        let entry = archive.by_name(&member).map_err(|e| bad(path, format!("{name}: {e}")))?;
        let array = read_array(entry, path, name)?;
        let case = cases.entry(k).or_default();
        let feed = if side == "in" { &mut case.inputs } else { &mut case.outputs };
        feed.insert(tensor.to_string(), array);
    }
    if cases.is_empty() {
        return Err(bad(path, "no key of the form in.<k>.<input>"));
    }
    if cases.keys().copied().ne(0..cases.len()) {
        return Err(bad(path, "feeds are not numbered 0, 1, ..."));
    }
    Ok(cases.into_values().collect())
}
