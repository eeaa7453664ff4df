//! Constant tensors: typed, shared bytes, of their own or of a file (XLA calls them literals).

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;
use reflex_runtime::file_bytes::FileBytes;
use reflex_runtime::late_file::LatePart;
use reflex_tir::DType;

use crate::block_quantized::{BlockQuantized, DepthAxis};
use crate::strides::{gather_strided, strides};

/// Makes a constant when its bytes are first read.
type Make = Box<dyn FnOnce() -> Literal + Send>;

/// A constant tensor, compact and row-major, little-endian. Cloning shares the bytes.
#[derive(Clone)]
pub struct Literal {
    dtype: DType,
    shape: Vec<i64>,
    data: Arc<dyn AsRef<[u8]> + Send + Sync>,
    /// The file that the bytes are a part of, if any.
    file: Option<FileBytes>,
    /// Set if `data` is a lazily permuted copy of another constant.
    permuted: Option<Arc<Permuted>>,
    /// Set if `data` is lazily made of codes.
    quantized: Option<Arc<Expanded>>,
    /// Set if `data` is a part of a file that is read when it is used.
    late: Option<Arc<LatePart>>,
    /// Constants that may have to be made first, each for the next one, when the bytes are first read.
    layers: usize,
}

/// Most layers of lazily made constants: each is a call deep.
const MAX_LAYERS: usize = 64;

/// Lazily expanded bytes of a matrix of codes.
struct Expanded {
    matrix: Arc<BlockQuantized>,
    axis: DepthAxis,
    bytes: OnceLock<Vec<u8>>,
}

impl AsRef<[u8]> for Expanded {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get_or_init(|| self.matrix.expanded(self.axis))
    }
}

/// Lazily permuted bytes, made on first use. A weight that is only read while it is packed is
/// never in memory twice.
struct Permuted {
    /// Released once the bytes are made.
    source: Mutex<Option<Literal>>,
    perm: Vec<usize>,
    bytes: OnceLock<Vec<u8>>,
}

impl Permuted {
    fn source(&self) -> Option<Literal> {
        self.source.lock().clone()
    }
}

impl AsRef<[u8]> for Permuted {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get_or_init(|| {
            let source = self.source.lock().take();
            let source = source.expect("the source is there until the bytes are");
            let from = strides(&source.shape);
            let steps: Vec<i64> = self.perm.iter().map(|p| from[*p]).collect();
            let shape = permute(&source.shape, &self.perm);
            let size = source.dtype.itemsize();
            let bytes = gather_strided(source.bytes(), size, &shape, &steps, 0);
            source.release();
            bytes
        })
    }
}

/// Lazily computed bytes. What is computed of weights and then packed is made where it is packed: by several
/// threads, and one after the other in memory.
struct Computed {
    made: LazyLock<Literal, Make>,
    size: usize,
}

impl AsRef<[u8]> for Computed {
    fn as_ref(&self) -> &[u8] {
        assert_eq!(
            self.made.size(),
            self.size,
            "a constant has the type that it was declared with"
        );
        self.made.bytes()
    }
}

/// The bytes that a tensor takes, unless they overflow or an extent is negative.
fn byte_count(dtype: DType, shape: &[i64]) -> Option<usize> {
    let extents = shape.iter().map(|extent| usize::try_from(*extent).ok());
    dtype.bytes_for(extents.into_iter().try_fold(1usize, |count, e| count.checked_mul(e?))?)
}

fn permute(shape: &[i64], perm: &[usize]) -> Vec<i64> {
    perm.iter().map(|p| shape[*p]).collect()
}

impl Literal {
    /// A tensor over `data`; `None` when the byte count does not match type and shape.
    pub fn new(
        dtype: DType,
        shape: Vec<i64>,
        data: Arc<dyn AsRef<[u8]> + Send + Sync>,
    ) -> Option<Literal> {
        let fits = byte_count(dtype, &shape)? == (*data).as_ref().len();
        fits.then_some(Literal {
            dtype,
            shape,
            data,
            file: None,
            permuted: None,
            quantized: None,
            late: None,
            layers: 0,
        })
    }

    /// A tensor that `make` computes of `operands` when its bytes are first read, with this type; what it returns has
    /// its bytes. `None` for a shape that no tensor has.
    pub fn computed(
        dtype: DType,
        shape: Vec<i64>,
        operands: &[&Literal],
        make: impl FnOnce() -> Literal + Send + 'static,
    ) -> Option<Literal> {
        let size = byte_count(dtype, &shape)?;
        let make: Make = Box::new(make);
        let data = Arc::new(Computed { made: LazyLock::new(make), size });
        let (file, permuted, quantized, late) = (None, None, None, None);
        let layers = Literal::layers_above(operands);
        Some(Literal { dtype, shape, data, file, permuted, quantized, late, layers })
    }

    /// The layers of what is made of `operands`, which are made at once where there are too many.
    fn layers_above(operands: &[&Literal]) -> usize {
        let below = operands.iter().map(|literal| literal.layers).max().unwrap_or(0);
        if below < MAX_LAYERS {
            return below + 1;
        }
        for operand in operands {
            let _: &[u8] = operand.bytes();
        }
        1
    }

    /// A tensor whose bytes are read from a file when they are first used. `None` when the byte count does
    /// not match type and shape.
    pub fn late(dtype: DType, shape: Vec<i64>, part: Arc<LatePart>) -> Option<Literal> {
        (byte_count(dtype, &shape)? == part.size()).then(|| {
            let (data, late) = (part.clone(), Some(part));
            let (file, permuted, quantized) = (None, None, None);
            Literal { dtype, shape, data, file, permuted, quantized, late, layers: 0 }
        })
    }

    /// Reads what is still in a file, of this constant and of those that it is to be made of.
    pub fn read(&self) {
        if let Some(part) = &self.late {
            let _: &[u8] = (**part).as_ref();
        }
        if let Some((source, _)) = self.permutation() {
            source.read();
        } else if self.layers > 0 {
            let _: &[u8] = self.bytes();
        }
        if let Some(quantized) = &self.quantized {
            quantized.matrix.codes.read();
        }
    }

    /// A matrix of codes. Floats are made of them when the bytes are first read. `None` when its parts
    /// do not fit together.
    pub fn block_quantized(matrix: Arc<BlockQuantized>, axis: DepthAxis) -> Option<Literal> {
        let depth = i64::try_from(matrix.depth).ok()?;
        let columns = i64::try_from(matrix.columns).ok()?;
        let shape = match axis {
            DepthAxis::First => vec![depth, columns],
            DepthAxis::Last => vec![columns, depth],
        };
        let count = matrix.depth.checked_mul(matrix.columns)?;
        matrix.dtype.bytes_for(count)?;
        let dtype = matrix.is_consistent().then_some(matrix.dtype)?;
        let quantized = Arc::new(Expanded { matrix, axis, bytes: OnceLock::new() });
        let data = quantized.clone();
        Some(Literal {
            dtype,
            shape,
            data,
            file: None,
            permuted: None,
            quantized: Some(quantized),
            late: None,
            layers: 0,
        })
    }

    /// The codes of a constant that is made of them, and the axis that their depth is.
    pub fn as_block_quantized(&self) -> Option<(&BlockQuantized, DepthAxis)> {
        self.quantized.as_deref().map(|q| (&*q.matrix, q.axis))
    }

    /// The same tensor with its bytes in a file.
    pub fn in_file(self, file: FileBytes) -> Literal {
        Literal { file: Some(file), ..self }
    }

    /// Releases the bytes that are in a mapped file from memory (`madvise`): they are unlikely to be
    /// read again.
    pub fn release(&self) {
        if let Some((source, _)) = self.permutation() {
            source.release();
        }
        if let Some(quantized) = &self.quantized {
            quantized.matrix.codes.release();
        }
        if let Some(file) = &self.file {
            file.release(self.bytes());
        }
    }

    /// As [`Literal::release`], for a range of the bytes.
    pub fn release_part(&self, part: std::ops::Range<usize>) {
        if let (Some(file), Some(part)) = (&self.file, self.bytes().get(part)) {
            file.release(part);
        }
    }

    /// The tensor with axis `perm[n]` as axis `n`. The bytes are permuted when they are first read.
    /// `None` when `perm` does not permute the axes, or for elements of less than a byte.
    pub fn permuted(&self, perm: &[usize]) -> Option<Literal> {
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        let fits = sorted.iter().copied().eq(0..self.shape.len());
        if !fits || !self.dtype.bits.is_multiple_of(8) || !self.dtype.is_scalar() {
            return None;
        }
        if let (Some(quantized), [1, 0]) = (&self.quantized, perm) {
            let axis = quantized.axis.transposed();
            return Literal::block_quantized(quantized.matrix.clone(), axis);
        }
        let shape = permute(&self.shape, perm);
        let permuted = Arc::new(Permuted {
            source: Mutex::new(Some(self.clone())),
            perm: perm.to_vec(),
            bytes: OnceLock::new(),
        });
        let (dtype, data) = (self.dtype, permuted.clone());
        let (file, quantized, late) = (None, None, None);
        let (layers, permuted) = (Literal::layers_above(&[self]), Some(permuted));
        Some(Literal { dtype, shape, data, file, permuted, quantized, late, layers })
    }

    /// The source and the permutation of a lazily permuted constant; `None` once its bytes have been
    /// read.
    pub fn permutation(&self) -> Option<(Literal, &[usize])> {
        let permuted = self.permuted.as_deref()?;
        Some((permuted.source()?, &permuted.perm))
    }

    /// Returns true if `other` has the same type, shape and bytes; codes are no copy of floats. Bytes of a
    /// mapped file are released from memory as they are compared.
    pub fn is_copy_of(&self, other: &Literal) -> bool {
        const CHUNK: usize = 1 << 20;
        let same = |(ours, theirs): (&[u8], &[u8])| {
            let same = ours == theirs;
            if let Some(file) = &self.file {
                file.release(ours);
            }
            same
        };
        // Codes are compared as such: floats are not made of them for this.
        match (&self.quantized, &other.quantized) {
            (Some(a), Some(b)) => return a.axis == b.axis && a.matrix == b.matrix,
            (None, None) => {}
            (Some(_), None) | (None, Some(_)) => return false,
        }
        if self.dtype != other.dtype || self.shape != other.shape {
            return false;
        }
        if let Some(part) = &self.late {
            return part.equals(other.bytes());
        }
        let chunks = || self.bytes().chunks(CHUNK).zip(other.bytes().chunks(CHUNK));
        std::ptr::eq(self.bytes(), other.bytes()) || chunks().all(same)
    }

    /// A tensor of int64 values of the given shape.
    ///
    /// # Panics
    /// When the count does not match.
    pub fn from_i64(shape: Vec<i64>, values: &[i64]) -> Literal {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Literal::new(DType::I64, shape, Arc::new(data)).expect("count matches shape")
    }

    /// A tensor of f32 values of the given shape.
    ///
    /// # Panics
    /// When the count does not match.
    pub fn from_f32(shape: Vec<i64>, values: &[f32]) -> Literal {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Literal::new(DType::F32, shape, Arc::new(data)).expect("count matches shape")
    }

    /// The scalar 1 of a floating-point type.
    pub fn one(dtype: DType) -> Option<Literal> {
        let data = match dtype {
            DType::F64 => 1f64.to_le_bytes().to_vec(),
            DType::F32 => 1f32.to_le_bytes().to_vec(),
            DType::F16 => half::f16::ONE.to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::ONE.to_le_bytes().to_vec(),
            _ => return None,
        };
        Literal::new(dtype, vec![], Arc::new(data))
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Dimensions.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.data).as_ref()
    }

    /// The owner of the bytes.
    pub fn data(&self) -> Arc<dyn AsRef<[u8]> + Send + Sync> {
        Arc::clone(&self.data)
    }

    /// Number of bytes. Does not make lazy ones.
    pub fn size(&self) -> usize {
        self.dtype.bytes_for(self.count()).expect("counted when it was made")
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// The same bytes under another shape of the same count.
    pub fn reshaped(&self, shape: Vec<i64>) -> Option<Literal> {
        let count = shape.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
        let other = || Literal { shape, permuted: None, quantized: None, ..self.clone() };
        (count == Some(self.count())).then(other)
    }

    /// The values as f32, for tensors of float32 and of 16-bit floats.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let halves = || self.bytes().as_chunks::<2>().0.iter();
        Some(match self.dtype {
            DType::F32 => {
                let words = self.bytes().as_chunks::<4>().0.iter();
                words.map(|b| f32::from_le_bytes(*b)).collect()
            }
            DType::F16 => halves().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
            DType::BF16 => halves().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect(),
            _ => return None,
        })
    }

    /// The values as i64, for integer and bool tensors.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        macro_rules! read {
            ($t:ty) => {
                self.bytes()
                    .chunks_exact(size_of::<$t>())
                    .map(|c| <$t>::from_le_bytes(c.try_into().expect("exact chunk")) as i64)
                    .collect()
            };
        }
        Some(match self.dtype {
            DType::I64 => read!(i64),
            DType::U64 => read!(u64),
            DType::I32 => read!(i32),
            DType::U32 => read!(u32),
            DType::I16 => read!(i16),
            DType::U16 => read!(u16),
            DType::I8 => read!(i8),
            DType::U8 | DType::BOOL => read!(u8),
            _ => return None,
        })
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn computed_bytes_are_made_once() {
        let (made, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (in_make, source) = (made.clone(), count.clone());
        let x = Literal::computed(DType::F32, vec![2], &[], move || {
            in_make.fetch_add(1, Ordering::Relaxed);
            let _held = source;
            Literal::from_f32(vec![2], &[1.0, 2.0])
        });
        let x = x.unwrap();
        let same = x.reshaped(vec![1, 2]).unwrap().permuted(&[1, 0]).unwrap();
        assert_eq!((x.size(), x.shape(), made.load(Ordering::Relaxed)), (8, &[2i64][..], 0));
        assert_eq!(same, Literal::from_f32(vec![2, 1], &[1.0, 2.0]));
        assert_eq!(x, Literal::from_f32(vec![2], &[1.0, 2.0]));
        // What it was made of is gone.
        assert_eq!((made.load(Ordering::Relaxed), Arc::strong_count(&count)), (1, 1));
        assert!(Literal::computed(DType::F32, vec![-1], &[], || unreachable!()).is_none());
    }

    #[test]
    fn what_a_constant_is_made_of_is_read_with_it() {
        let forms: [fn(&Literal) -> Option<Literal>; 3] =
            [|x| Some(x.clone()), |x| x.permuted(&[0]), |x| x.permuted(&[0])?.reshaped(vec![1, 2])];
        for form in forms {
            let made = Arc::new(AtomicUsize::new(0));
            let count = made.clone();
            let x = Literal::computed(DType::F32, vec![2], &[], move || {
                count.fetch_add(1, Ordering::Relaxed);
                Literal::from_f32(vec![2], &[1.0, 2.0])
            });
            let x = form(&x.unwrap()).unwrap();
            assert_eq!(made.load(Ordering::Relaxed), 0);
            x.read();
            assert_eq!(made.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn long_chains_of_lazy_constants_are_made_on_the_way() {
        let mut x = Literal::from_f32(vec![2], &[1.0, 2.0]);
        for _ in 0..100_000 {
            let below = x.clone();
            let make = move || Literal::from_f32(vec![2], &below.to_f32().unwrap());
            x = Literal::computed(DType::F32, vec![2], &[&x], make).unwrap();
            x = x.permuted(&[0]).unwrap();
        }
        assert_eq!(x, Literal::from_f32(vec![2], &[1.0, 2.0]));
    }

    #[test]
    fn permuted_bytes_are_made_when_they_are_read() {
        let x = Literal::from_f32(vec![2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let t = x.permuted(&[1, 0]).unwrap();
        assert_eq!(t.shape(), [3, 2]);
        assert!(t.permutation().is_some_and(|(source, perm)| source == x && perm == [1, 0]));
        assert_eq!(t, Literal::from_f32(vec![3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        assert!(t.permutation().is_none());
        assert_eq!(t.permuted(&[1, 0]), Some(x.clone()));
        assert!(x.permuted(&[0, 0]).is_none() && x.permuted(&[0]).is_none());
    }
}
