//! Parameters, buffers and constants of a program as literals.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use reflex_graph::Literal;
use reflex_runtime::dtype::Elements;
use reflex_runtime::file_bytes::FileBytes;
use reflex_tir::DType;

use crate::archive::{Archive, Storage};
use crate::dtype::dtype;
use crate::error::{Result, malformed, unsupported};
use crate::schema::{PayloadConfig, PayloadMeta, SymInt, TensorMeta};

/// PyTorch's number of the layout that has strides.
const STRIDED: i64 = 7;
/// Tensors of the program whose bytes are not as their storage has them may take this many bytes in all for each byte
/// of the archive's storages: views that repeat elements are read as if they were copies.
const REPEATS: usize = 64;

/// The tensors of a program, by their names in it.
#[derive(Default)]
pub(crate) struct Weights {
    parameters: HashMap<String, Literal>,
    constants: HashMap<String, Literal>,
}

/// Bytes of a file.
struct Part(FileBytes, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0.as_ref()[self.1.clone()]
    }
}

impl Weights {
    /// Reads what is known of the tensors of a program; their elements stay in the file where they can.
    pub(crate) fn open(archive: &mut Archive, model: &str) -> Result<Weights> {
        Ok(Weights {
            parameters: folder(archive, "data/weights/", &format!("{model}_weights_config.json"))?,
            constants: folder(
                archive,
                "data/constants/",
                &format!("{model}_constants_config.json"),
            )?,
        })
    }

    /// The elements of all of them.
    pub(crate) fn elements(&self) -> Elements {
        let all = self.parameters.values().chain(self.constants.values());
        all.fold(Elements::default(), |sum, c| sum.with(c.dtype(), c.shape()))
    }

    /// A parameter or a persistent buffer.
    pub(crate) fn parameter(&self, name: &str) -> Result<&Literal> {
        let found = self.parameters.get(name).or_else(|| self.constants.get(name));
        found.ok_or_else(|| malformed(format!("the archive has no tensor `{name}`")))
    }

    /// A constant or a buffer that is not persistent.
    pub(crate) fn constant(&self, name: &str) -> Result<&Literal> {
        let found = self.constants.get(name).or_else(|| self.parameters.get(name));
        found.ok_or_else(|| malformed(format!("the archive has no tensor `{name}`")))
    }
}

fn folder(archive: &mut Archive, folder: &str, config: &str) -> Result<HashMap<String, Literal>> {
    let path = format!("{folder}{config}");
    if !archive.has(&path) {
        let text = "tensors are pickled as PyTorch 2.7 did; save it again by PyTorch 2.9 or newer";
        return match archive.stems(folder, ".pt").is_empty() {
            true => Ok(HashMap::new()),
            false => Err(unsupported(format!("`{folder}`: {text}"))),
        };
    }
    let config: PayloadConfig = serde_json::from_slice(&archive.read(&path)?)
        .map_err(|e| malformed(format!("`{path}`: {e}")))?;
    let mut literals = HashMap::new();
    let mut copies = Copies::default();
    for (name, meta) in config.config {
        let literal = literal(archive, folder, &meta, &mut copies);
        literals.insert(name.clone(), literal.map_err(|e| e.at(format_args!("tensor `{name}`")))?);
    }
    Ok(literals)
}

/// Bytes of storages, and of copies of their elements.
#[derive(Default)]
struct Copies {
    stored: usize,
    copied: usize,
}

fn literal(
    archive: &mut Archive,
    folder: &str,
    meta: &PayloadMeta,
    copies: &mut Copies,
) -> Result<Literal> {
    let Some(tensor) = meta.tensor_meta.as_ref().filter(|_| !meta.use_pickle) else {
        return Err(unsupported("pickled objects: tensor subclasses and custom objects"));
    };
    if meta.path_name.contains('/') {
        return Err(malformed(format!("a file `{}`", meta.path_name)));
    }
    if tensor.layout.is_some_and(|layout| layout != STRIDED) {
        return Err(unsupported("a sparse tensor"));
    }
    let dtype = dtype(tensor.dtype)?;
    let shape = numbers(&tensor.sizes)?;
    let count = shape.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
    let size = count.and_then(|count| dtype.bytes_for(count));
    let size = size.ok_or_else(|| malformed(format!("extents {shape:?}")))?;
    let storage = archive.storage(&format!("{folder}{}", meta.path_name))?;
    let offset = match &tensor.storage_offset {
        Some(offset) => numbers(std::slice::from_ref(offset))?[0],
        None => 0,
    };
    let wrong = || malformed(format!("{dtype}{shape:?} takes {size} bytes, others are there"));
    if is_dense(&shape, &numbers(&tensor.strides)?) {
        let begin = usize::try_from(offset).ok().and_then(|at| at.checked_mul(dtype.itemsize()));
        let begin = begin.ok_or_else(wrong)?;
        return dense(storage, begin, size, dtype, shape.clone()).ok_or_else(wrong);
    }
    let bytes = all_bytes(&storage)?;
    copies.stored = copies.stored.saturating_add(bytes.len());
    copies.copied = copies.copied.saturating_add(size);
    if copies.copied > copies.stored.saturating_mul(REPEATS) {
        return Err(unsupported("views that repeat the elements of their storage"));
    }
    let gathered = strided(&bytes, tensor, &shape, offset, dtype.itemsize()).ok_or_else(wrong)?;
    Literal::new(dtype, shape.clone(), Arc::new(gathered)).ok_or_else(wrong)
}

/// Elements that are in row-major order, from a byte on.
fn dense(
    storage: Storage,
    begin: usize,
    size: usize,
    dtype: DType,
    shape: Vec<i64>,
) -> Option<Literal> {
    let end = begin.checked_add(size)?;
    match storage {
        Storage::Late(file, at, len) if end <= len => {
            let part = file.part(at.checked_add(begin as u64)?, size);
            Literal::late(dtype, shape, part)
        }
        Storage::Part(file, range) if end <= range.len() => {
            let range = range.start + begin..range.start + end;
            let literal = Literal::new(dtype, shape, Arc::new(Part(file.clone(), range)))?;
            Some(if file.is_mapped() { literal.in_file(file) } else { literal })
        }
        Storage::Inflated(bytes) => {
            let bytes = bytes.get(begin..end)?.to_vec();
            Literal::new(dtype, shape, Arc::new(bytes))
        }
        Storage::Late(..) | Storage::Part(..) => None,
    }
}

fn all_bytes(storage: &Storage) -> Result<Vec<u8>> {
    Ok(match storage {
        Storage::Late(file, at, len) => {
            let part = file.part(*at, *len);
            let bytes = (*part).as_ref().to_vec();
            file.check().map_err(|e| malformed(e.to_string()))?;
            bytes
        }
        Storage::Part(file, range) => file.as_ref()[range.clone()].to_vec(),
        Storage::Inflated(bytes) => bytes.clone(),
    })
}

/// Returns true if strides are those of row-major order. Those of an extent of 1 do not count.
fn is_dense(shape: &[i64], strides: &[i64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut step = 1i64;
    strides.len() == shape.len()
        && shape.iter().zip(strides).rev().all(|(extent, stride)| {
            let fits = *extent == 1 || *stride == step;
            step = step.saturating_mul(*extent);
            fits
        })
}

/// Elements by their strides, in row-major order.
fn strided(
    bytes: &[u8],
    meta: &TensorMeta,
    shape: &[i64],
    offset: i64,
    item: usize,
) -> Option<Vec<u8>> {
    let strides = numbers(&meta.strides).ok()?;
    if strides.len() != shape.len() || strides.iter().any(|s| *s < 0) {
        return None;
    }
    let mut last = offset;
    for (extent, stride) in shape.iter().zip(&strides) {
        last = last.checked_add((extent - 1).checked_mul(*stride)?)?;
    }
    let end = usize::try_from(last).ok()?.checked_add(1)?.checked_mul(item)?;
    if offset < 0 || end > bytes.len() {
        return None;
    }
    let count: i64 = shape.iter().product();
    let mut out = Vec::with_capacity(usize::try_from(count).ok()?.checked_mul(item)?);
    let mut index = vec![0i64; shape.len()];
    for _ in 0..count {
        let at: i64 = offset + index.iter().zip(&strides).map(|(i, s)| i * s).sum::<i64>();
        let at = at as usize * item;
        out.extend_from_slice(&bytes[at..at + item]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Some(out)
}

/// Extents that are numbers.
fn numbers(sizes: &[SymInt]) -> Result<Vec<i64>> {
    let number = |size: &SymInt| match size {
        SymInt::AsInt(value) if *value >= 0 => Ok(*value),
        _ => Err(malformed("an extent of a weight is no number")),
    };
    sizes.iter().map(number).collect()
}
