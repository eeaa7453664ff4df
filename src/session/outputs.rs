//! The results of calls.

use std::sync::Arc;

use reflex_runtime::array::Array as Tuple;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use crate::array::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::signature::OutputNames;

/// The result of a call: tensors in the order of the signature's outputs.
pub struct Outputs {
    pub(super) value: Any,
    pub(super) func: u32,
    pub(super) names: Arc<OutputNames>,
}

impl Outputs {
    /// Returns the tensors in order; those of nested tuples one after another.
    ///
    /// ```
    /// use reflex::{Array, Engine, Feed, Mode};
    ///
    /// let program = Engine::new()?.load("examples/softmax.py")?;
    /// let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// let outputs = program.session(Mode::Bytecode)?.call(&program.prepare("main", &feed)?)?;
    /// assert_eq!(outputs.tensors()?[0].shape(), [1, 2]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn tensors(&self) -> Result<Vec<Tensor>> {
        tensors_of(&self.value)
    }

    /// Returns names and copies of the tensors in order. Outputs that the program does not name
    /// are called `output0`, `output1`, ...
    ///
    /// ```
    /// use reflex::{Array, Engine, Feed, Mode};
    ///
    /// let program = Engine::new()?.load("examples/softmax.py")?;
    /// let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// let outputs = program.session(Mode::Bytecode)?.call(&program.prepare("main", &feed)?)?;
    /// let (name, y) = outputs.arrays()?.remove(0);
    /// assert_eq!((name.as_str(), y.to_vec::<f32>()?), ("output0", vec![0.5, 0.5]));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn arrays(&self) -> Result<Vec<(String, Array)>> {
        let names = self.names.get(&self.func).map_or(&[][..], Vec::as_slice);
        let array = |(i, tensor): (usize, Tensor)| {
            let name = names.get(i).cloned().unwrap_or_else(|| format!("output{i}"));
            Ok((name, Array::of_tensor(&tensor)?))
        };
        self.tensors()?.into_iter().enumerate().map(array).collect()
    }
}

/// Returns the tensors of a result in order, those of nested tuples one after another. Tags of data
/// values, integers that begin an array, are left out.
pub(crate) fn tensors_of(value: &Any) -> Result<Vec<Tensor>> {
    let mut tensors = vec![];
    // Lists are as deep as they are long.
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        if let Some(items) = value.downcast_ref::<Tuple>() {
            let is_tag = items.first().is_some_and(|first| first.view().as_int().is_some());
            rest.extend(items[usize::from(is_tag)..].iter().rev());
            continue;
        }
        let tensor = value.downcast_ref::<Tensor>().ok_or_else(|| {
            let what = value.view().type_key();
            Error::new(ErrorKind::Run, format!("a result is a {what}, not a tensor"))
        })?;
        tensors.push(tensor.clone());
    }
    Ok(tensors)
}
