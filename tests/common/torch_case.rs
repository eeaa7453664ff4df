//! The cases of `tests/pytorch/cases`: archives, and PyTorch's inputs and answers in files of NumPy.
// Tests use different parts of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use reflex_runtime::dtype::DType;

/// The folder of the cases.
pub fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|at| at.join("tests/pytorch/cases").is_dir());
    root.expect("tests/pytorch/cases").join("tests/pytorch/cases")
}

/// The archives of the folder that are imported, or else those that are refused.
pub fn archives(refused: bool) -> Vec<PathBuf> {
    let list = std::fs::read_dir(folder()).expect("the folder").map(|entry| entry.unwrap().path());
    let is = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".pt2") && name.starts_with("refused_") == refused
    };
    let mut list: Vec<PathBuf> = list.filter(is).collect();
    list.sort();
    list
}

/// A tensor.
#[derive(Clone, Debug)]
pub struct Array {
    pub dtype: DType,
    pub shape: Vec<i64>,
    pub bytes: Vec<u8>,
}

/// Inputs and answers of an archive, in order.
pub struct Case {
    pub inputs: Vec<Array>,
    pub outputs: Vec<Array>,
}

/// The case of an archive; one of core ATen has the answers of the program that it was made of.
pub fn read(archive: &Path) -> Case {
    let stem = archive.file_stem().unwrap().to_string_lossy();
    let path = archive.with_file_name(format!("{}.npz", stem.trim_end_matches("_core")));
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut zip = zip::ZipArchive::new(file).expect("a zip file");
    let mut arrays = BTreeMap::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).expect("an entry");
        let mut bytes = vec![];
        entry.read_to_end(&mut bytes).expect("bytes");
        let name = entry.name().expect("a name").trim_end_matches(".npy").to_owned();
        arrays.insert(name, array(&bytes));
    }
    let list = |kind: &str| {
        let numbered = (0..).map(|i| arrays.get(&format!("{kind}{i}")).cloned());
        numbered.map_while(|array| array).collect()
    };
    Case { inputs: list("in"), outputs: list("out") }
}

/// An array of a file of NumPy in version 1 of the format.
fn array(file: &[u8]) -> Array {
    assert!(file.starts_with(b"\x93NUMPY\x01"));
    let length = usize::from(u16::from_le_bytes([file[8], file[9]]));
    let header = std::str::from_utf8(&file[10..10 + length]).expect("text");
    assert!(header.contains("'fortran_order': False"), "{header}");
    let after = |key: &str| &header[header.find(key).expect("a key") + key.len()..];
    let kind = after("'descr': '").split('\'').next().unwrap();
    let dtype = match &kind[1..] {
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "b1" => DType::BOOL,
        other => panic!("{other}"),
    };
    let shape = after("'shape': (").split(')').next().unwrap();
    let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let shape = dims.map(|dim| dim.parse().expect("an extent")).collect();
    Array { dtype, shape, bytes: file[10 + length..].to_vec() }
}

/// The elements of a tensor as numbers.
pub fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    macro_rules! read {
        ($t:ty, $to:expr) => {
            bytes
                .chunks_exact(size_of::<$t>())
                .map(|c| $to(<$t>::from_le_bytes(c.try_into().unwrap())))
                .collect()
        };
    }
    match dtype {
        DType::F16 => read!(f16, f16::to_f64),
        DType::BF16 => read!(bf16, bf16::to_f64),
        DType::F32 => read!(f32, f64::from),
        DType::F64 => read!(f64, |v| v),
        DType::I8 => read!(i8, f64::from),
        DType::I16 => read!(i16, f64::from),
        DType::I32 => read!(i32, f64::from),
        DType::I64 => read!(i64, |v| v as f64),
        DType::U8 | DType::BOOL => read!(u8, f64::from),
        other => panic!("{other}"),
    }
}

impl Array {
    /// The tensor in the type that a program takes: files of NumPy have bfloat16 as float32.
    pub fn into_type(self, dtype: DType) -> Array {
        if (self.dtype, dtype) != (DType::F32, DType::BF16) {
            return self;
        }
        let numbers = numbers(self.dtype, &self.bytes);
        let bytes = numbers.into_iter().flat_map(|v| bf16::from_f64(v).to_le_bytes()).collect();
        Array { dtype, bytes, ..self }
    }
}

/// Compares an answer with PyTorch's; returns the greatest difference over the tolerance.
pub fn compare(dtype: DType, shape: &[i64], bytes: &[u8], wanted: &Array) -> Result<f64, String> {
    let same = dtype == wanted.dtype || (dtype == DType::BF16 && wanted.dtype == DType::F32);
    if !same || shape != wanted.shape {
        return Err(format!("{dtype}{shape:?} instead of {}{:?}", wanted.dtype, wanted.shape));
    }
    let (relative, absolute) = match dtype {
        DType::F64 => (1e-9, 1e-10),
        DType::F32 => (1e-4, 1e-5),
        DType::F16 => (4e-3, 1e-3),
        DType::BF16 => (1.0 / 64.0, 1.0 / 128.0),
        _ => (0.0, 0.0),
    };
    let (found, wanted) = (numbers(dtype, bytes), numbers(wanted.dtype, &wanted.bytes));
    let mut worst = 0.0_f64;
    for (at, (a, b)) in found.iter().zip(&wanted).enumerate() {
        let equal = a == b || (a.is_nan() && b.is_nan());
        let limit = absolute + relative * b.abs();
        let difference = (a - b).abs();
        if !equal && (difference.is_nan() || difference > limit) {
            return Err(format!("element {at} of {dtype}{shape:?} is {a}, not {b}"));
        }
        if !equal {
            worst = worst.max(difference / limit);
        }
    }
    Ok(worst)
}
