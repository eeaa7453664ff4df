//! Arrays of the crate ndarray as inputs and outputs (feature `ndarray`).

use ndarray::{ArrayBase, ArrayD, ArrayViewD, ArrayViewMutD, Data, Dimension, IxDyn};
use reflex_runtime::tensor::data::Element;

use crate::array::Array;
use crate::error::{Error, Result};
use crate::session::io_binding::IoBinding;

/// Copies the elements in row-major order, whatever the strides are.
///
/// ```
/// use reflex::Array;
///
/// let transposed = ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]].reversed_axes();
/// let array = Array::from(&transposed);
/// assert_eq!((array.shape, array.data), (vec![2, 2], [1.0_f32, 3.0, 2.0, 4.0].map(f32::to_le_bytes).concat()));
/// ```
impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Array {
    fn from(array: &ArrayBase<S, D>) -> Array {
        let shape: Vec<i64> = array.shape().iter().map(|extent| *extent as i64).collect();
        let elements: Vec<T> = array.iter().copied().collect();
        Array::of(&shape, &elements).expect("an array has as many elements as its shape")
    }
}

impl Array {
    /// Copies the elements, which must be of type `T`, into an array of ndarray.
    ///
    /// ```
    /// let array = reflex::Array::of(&[1, 2], &[1.0_f32, 2.0])?;
    /// assert_eq!(array.to_ndarray::<f32>()?, ndarray::array![[1.0, 2.0]].into_dyn());
    /// assert!(array.to_ndarray::<i64>().is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let elements = self.to_vec::<T>()?;
        ArrayD::from_shape_vec(dimension(&self.shape), elements).map_err(|e| failed(&e))
    }
}

impl IoBinding<'_> {
    /// Returns input `index` as a view, to be written for the next run.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let mut binding = session.bind(&prepared)?;
    /// binding.input_ndarray::<f32>(0)?[[0, 0]] = f32::NEG_INFINITY;
    /// binding.run()?;
    /// assert_eq!(binding.output_ndarray::<f32>(0)?[[0, 1]], 1.0);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn input_ndarray<T: Element>(&mut self, index: usize) -> Result<ArrayViewMutD<'_, T>> {
        let shape = dimension(self.input_shape(index)?);
        ArrayViewMutD::from_shape(shape, self.input_mut(index)?).map_err(|e| failed(&e))
    }

    /// Returns output `index` as a view of what the last run wrote.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let binding = session.bind(&prepared)?;
    /// assert_eq!(binding.output_ndarray::<f32>(0)?, ndarray::array![[0.5, 0.5]].into_dyn());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn output_ndarray<T: Element>(&self, index: usize) -> Result<ArrayViewD<'_, T>> {
        let shape = dimension(self.output_shape(index)?);
        ArrayViewD::from_shape(shape, self.output(index)?).map_err(|e| failed(&e))
    }
}

fn dimension(shape: &[i64]) -> IxDyn {
    let extents: Vec<usize> = shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    IxDyn(&extents)
}

fn failed(error: &ndarray::ShapeError) -> Error {
    Error::input(error.to_string())
}
