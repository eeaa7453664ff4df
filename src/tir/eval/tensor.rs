//! Arguments of an evaluation: typed, compact byte buffers.

use super::error::EvalErrorKind;
use super::scalar::Scalar;
use crate::DType;

/// A compact row-major tensor in host memory, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalTensor {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<i64>,
    /// Elements.
    pub bytes: Vec<u8>,
}

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub enum EvalArg {
    /// For a buffer parameter.
    Tensor(EvalTensor),
    /// For a scalar parameter.
    Scalar(Scalar),
}

impl Default for EvalTensor {
    fn default() -> EvalTensor {
        EvalTensor::zeros(DType::U8, &[0])
    }
}

impl EvalTensor {
    /// All bytes zero.
    pub fn zeros(dtype: DType, shape: &[i64]) -> EvalTensor {
        let count = shape.iter().product::<i64>() as usize;
        EvalTensor { dtype, shape: shape.to_vec(), bytes: vec![0; count * dtype.itemsize()] }
    }

    /// An f32 tensor.
    pub fn f32(shape: &[i64], values: &[f32]) -> EvalTensor {
        assert_eq!(shape.iter().product::<i64>() as usize, values.len());
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        EvalTensor { dtype: DType::F32, shape: shape.to_vec(), bytes }
    }

    /// An int64 tensor.
    pub fn i64(shape: &[i64], values: &[i64]) -> EvalTensor {
        assert_eq!(shape.iter().product::<i64>() as usize, values.len());
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        EvalTensor { dtype: DType::I64, shape: shape.to_vec(), bytes }
    }

    /// A tensor of any type, each value converted from f64 as a cast would.
    pub fn from_f64(
        dtype: DType,
        shape: &[i64],
        values: &[f64],
    ) -> Result<EvalTensor, EvalErrorKind> {
        let mut tensor = EvalTensor::zeros(dtype, shape);
        for (at, x) in values.iter().enumerate() {
            tensor.set(at, super::scalar::cast(Scalar::F64(*x), DType::F64, dtype)?)?;
        }
        Ok(tensor)
    }

    /// The elements as f32; integers are converted.
    pub fn to_f32(&self) -> Vec<f32> {
        (0..self.len()).map(|i| self.get(i).map_or(f32::NAN, |v| v.as_f64() as f32)).collect()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row-major position of an element, `None` outside the shape. A single index into a
    /// tensor of another rank than 1 is that position already.
    pub fn offset(&self, at: &[i64]) -> Option<usize> {
        if let [flat] = at
            && self.shape.len() != 1
        {
            return usize::try_from(*flat).ok().filter(|flat| *flat < self.len());
        }
        if at.len() != self.shape.len() {
            return None;
        }
        at.iter().zip(&self.shape).try_fold(0usize, |offset, (i, n)| {
            (0..*n).contains(i).then(|| offset * *n as usize + *i as usize)
        })
    }

    /// Element by position.
    pub fn get(&self, offset: usize) -> Result<Scalar, EvalErrorKind> {
        let size = self.dtype.itemsize();
        Scalar::read(&self.bytes[offset * size..][..size], self.dtype)
    }

    /// Replaces an element by position; the value must be of the tensor's type.
    pub fn set(&mut self, offset: usize, value: Scalar) -> Result<(), EvalErrorKind> {
        let size = self.dtype.itemsize();
        let fits = match value {
            Scalar::Int(_) => !self.dtype.is_float(),
            Scalar::F16(_) => self.dtype == DType::F16,
            Scalar::Bf16(_) => self.dtype == DType::BF16,
            Scalar::F32(_) => self.dtype == DType::F32,
            Scalar::F64(_) => self.dtype == DType::F64,
        };
        if !fits {
            return Err(EvalErrorKind::Type(format!(
                "{value:?} stored to a buffer of {}",
                self.dtype
            )));
        }
        value.write(&mut self.bytes[offset * size..][..size]);
        Ok(())
    }
}

impl EvalArg {
    /// The tensor of a tensor argument.
    ///
    /// # Panics
    /// On a scalar.
    pub fn tensor(&self) -> &EvalTensor {
        match self {
            EvalArg::Tensor(tensor) => tensor,
            EvalArg::Scalar(_) => panic!("a scalar argument has no tensor"),
        }
    }
}
