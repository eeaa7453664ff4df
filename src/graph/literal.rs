//! Constant tensors: shared bytes with a type, which may live in a mapped file.

use std::fmt;
use std::sync::Arc;

use reflex_runtime::mapped::Mapped;
use reflex_tir::DType;

/// A constant tensor, compact and row-major, little-endian. Cloning shares the bytes.
#[derive(Clone)]
pub struct Literal {
    dtype: DType,
    shape: Vec<i64>,
    data: Arc<dyn AsRef<[u8]> + Send + Sync>,
    /// The file that the bytes are in, when they are not in memory of their own.
    file: Option<Mapped>,
}

impl Literal {
    /// A tensor over `data`; `None` when the byte count does not match type and shape.
    pub fn new(
        dtype: DType,
        shape: Vec<i64>,
        data: Arc<dyn AsRef<[u8]> + Send + Sync>,
    ) -> Option<Literal> {
        let mut count = 1usize;
        for dim in &shape {
            count = count.checked_mul(usize::try_from(*dim).ok()?)?;
        }
        let fits = dtype.bytes_for(count) == Some((*data).as_ref().len());
        fits.then_some(Literal { dtype, shape, data, file: None })
    }

    /// The same tensor, whose bytes are in a file.
    pub fn in_file(self, file: Mapped) -> Literal {
        Literal { file: Some(file), ..self }
    }

    /// Tells that the bytes will hardly be read again. Those of a file leave memory, until then.
    pub fn release(&self) {
        if let Some(file) = &self.file {
            file.release(self.bytes());
        }
    }

    /// Whether `other` has the same bytes under the same type. Those of a file leave memory as
    /// they are compared, until they are read again.
    pub fn is_copy_of(&self, other: &Literal) -> bool {
        const CHUNK: usize = 1 << 20;
        let same = |(ours, theirs): (&[u8], &[u8])| {
            let same = ours == theirs;
            if let Some(file) = &self.file {
                file.release(ours);
            }
            same
        };
        let chunks = || self.bytes().chunks(CHUNK).zip(other.bytes().chunks(CHUNK));
        self.dtype == other.dtype
            && self.shape == other.shape
            && (std::ptr::eq(self.bytes(), other.bytes()) || chunks().all(same))
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

    /// Extents.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.data).as_ref()
    }

    /// The owner of the bytes, to share.
    pub fn data(&self) -> Arc<dyn AsRef<[u8]> + Send + Sync> {
        Arc::clone(&self.data)
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// The same bytes under another shape of the same count.
    pub fn reshaped(&self, shape: Vec<i64>) -> Option<Literal> {
        let other = Literal::new(self.dtype, shape, self.data.clone())?;
        Some(Literal { file: self.file.clone(), ..other })
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
