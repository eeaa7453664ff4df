//! Tensors as plain bytes, and feeds: what callers pass and get by name.

use std::collections::BTreeMap;

use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::tensor::data::Element;

use crate::error::{Error, ErrorKind, Result};

/// A tensor as bytes: compact, row-major, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<i64>,
    /// Elements.
    pub data: Vec<u8>,
}

/// One feed: tensors by name.
pub type Feed = BTreeMap<String, Array>;

impl Array {
    /// Copies elements in row-major order; an error unless there are as many as the shape has.
    ///
    /// ```
    /// use reflex::{Array, DType};
    ///
    /// let array = Array::of(&[2, 1], &[1_i64, 2])?;
    /// assert_eq!((array.dtype, array.shape), (DType::I64, vec![2, 1]));
    /// assert!(Array::of(&[3], &[1.0_f32]).is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn of<T: Element>(shape: &[i64], elements: &[T]) -> Result<Array> {
        let tensor = Tensor::from_slice(shape, elements);
        tensor.map_err(|e| Error::input(e.message())).and_then(|t| Array::of_tensor(&t))
    }

    /// Copies strings in row-major order, as models take and give them: the bytes of their UTF-8, filled
    /// up with zeros, along one more axis. An error unless there are as many as the shape has, and
    /// for one that ends with a zero byte.
    ///
    /// ```
    /// use reflex::{Array, DType};
    ///
    /// let array = Array::of_strings(&[2], &["a", "bc"])?;
    /// assert_eq!((array.dtype, &array.shape), (DType::U8, &vec![2, 2]));
    /// assert_eq!(array.to_strings()?, ["a", "bc"]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn of_strings<S: AsRef<str>>(shape: &[i64], strings: &[S]) -> Result<Array> {
        let longest = strings.iter().map(|s| s.as_ref().len()).max().unwrap_or(0);
        let width = longest.max(1);
        let mut data = vec![0; strings.len() * width];
        for (row, string) in data.chunks_exact_mut(width).zip(strings) {
            let bytes = string.as_ref().as_bytes();
            if bytes.ends_with(b"\0") {
                return Err(Error::input("a string that ends with a zero byte"));
            }
            row[..bytes.len()].copy_from_slice(bytes);
        }
        let shape: Vec<i64> = shape.iter().copied().chain([width as i64]).collect();
        let array = Array { dtype: DType::U8, shape, data };
        // The tensor checks the number of elements.
        array.tensor().map(|_| array)
    }

    /// Returns the strings of such bytes.
    ///
    /// ```
    /// use reflex::Array;
    ///
    /// assert_eq!(Array::of(&[2, 2], b"a\0bc")?.to_strings()?, ["a", "bc"]);
    /// assert!(Array::of(&[2], &[1.0_f32, 2.0])?.to_strings().is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn to_strings(&self) -> Result<Vec<String>> {
        let width = self.shape.last().and_then(|w| usize::try_from(*w).ok());
        let (DType::U8, Some(width)) = (self.dtype, width) else {
            let message = format!("{}{:?} does not hold strings", self.dtype, self.shape);
            return Err(Error::input(message));
        };
        let text = |row: &[u8]| {
            let end = row.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
            let text = String::from_utf8(row[..end].to_vec());
            text.map_err(|_| Error::input("a string that is not UTF-8"))
        };
        self.data.chunks_exact(width.max(1)).map(text).collect()
    }

    /// Copies a compact tensor of any device.
    ///
    /// ```
    /// use reflex::{Array, Tensor};
    ///
    /// let tensor = Tensor::from_slice(&[2], &[1.0_f32, 2.0])?;
    /// assert_eq!(Array::of_tensor(&tensor)?, Array::of(&[2], &[1.0_f32, 2.0])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_tensor(tensor: &Tensor) -> Result<Array> {
        let data = tensor
            .to_host()
            .and_then(|t| t.to_bytes())
            .map_err(|e| Error::new(ErrorKind::Run, e.message()))?;
        Ok(Array { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), data })
    }

    /// A tensor with a copy of the elements.
    pub(crate) fn tensor(&self) -> Result<Tensor> {
        Tensor::from_bytes(&self.shape, self.dtype, &self.data)
            .map_err(|e| Error::input(e.message()))
    }

    /// Returns the elements, which must be of type `T`.
    ///
    /// ```
    /// use reflex::Array;
    ///
    /// let array = Array::of(&[2], &[1.0_f32, 2.0])?;
    /// assert_eq!(array.to_vec::<f32>()?, [1.0, 2.0]);
    /// assert!(array.to_vec::<f64>().is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.tensor()?.to_vec().map_err(|e| Error::input(e.message()))
    }

    /// Returns the elements as f64, for comparison and printing.
    ///
    /// ```
    /// use reflex::Array;
    ///
    /// assert_eq!(Array::of(&[2], &[1_u8, 2])?.to_f64(), [1.0, 2.0]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn to_f64(&self) -> Vec<f64> {
        macro_rules! read {
            ($t:ty, $to:expr) => {
                self.data
                    .chunks_exact(size_of::<$t>())
                    .map(|c| $to(<$t>::from_le_bytes(c.try_into().expect("exact chunk"))))
                    .collect()
            };
        }
        match self.dtype {
            DType::F32 => read!(f32, f64::from),
            DType::F64 => read!(f64, |v| v),
            DType::F16 => read!(u16, |v| half::f16::from_bits(v).to_f64()),
            DType::BF16 => read!(u16, |v| half::bf16::from_bits(v).to_f64()),
            DType::I64 => read!(i64, |v| v as f64),
            DType::U64 => read!(u64, |v| v as f64),
            DType::I32 => read!(i32, f64::from),
            DType::U32 => read!(u32, f64::from),
            DType::I16 => read!(i16, f64::from),
            DType::U16 => read!(u16, f64::from),
            DType::I8 => read!(i8, f64::from),
            _ => read!(u8, f64::from),
        }
    }
}
