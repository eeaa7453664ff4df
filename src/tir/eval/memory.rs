//! Elements of buffers: bounds, elements that were never written, and races.

use super::error::EvalErrorKind;
use super::race::AccessKind;
use super::scalar::Scalar;
use super::tensor::EvalTensor;
use super::{Done, Evaluator};
use crate::Buffer;

/// A buffer's storage. `written` is kept for intermediates only.
#[derive(Clone)]
pub(super) struct Memory {
    pub tensor: EvalTensor,
    pub written: Option<Vec<bool>>,
}

impl Evaluator<'_> {
    pub(super) fn allocate(&mut self, buffer: Buffer) -> Done {
        self.memory[buffer] = Some(self.fresh(buffer)?);
        Ok(())
    }

    /// Storage of a buffer that nothing has written to.
    pub(super) fn fresh(&self, buffer: Buffer) -> Result<Memory, EvalErrorKind> {
        let data = &self.func.buffers[buffer];
        let shape = self.shape(buffer)?;
        if shape.iter().any(|n| *n < 0) {
            let name = &data.name;
            return Err(EvalErrorKind::Bounds(format!("buffer `{name}` of shape {shape:?}")));
        }
        let count: i64 = shape.iter().product();
        let tensor = EvalTensor::zeros(data.dtype, &shape);
        Ok(Memory { tensor, written: Some(vec![false; count as usize]) })
    }

    pub(super) fn shape(&self, buffer: Buffer) -> Result<Vec<i64>, EvalErrorKind> {
        self.func.buffers[buffer].shape.iter().map(|e| self.int(e)).collect()
    }

    fn locate(&self, buffer: Buffer, at: &[i64]) -> Result<(&Memory, usize), EvalErrorKind> {
        let name = || &self.func.buffers[buffer].name;
        let memory = self.memory[buffer].as_ref().ok_or_else(|| {
            EvalErrorKind::Undefined(format!("buffer `{}` is used outside its scope", name()))
        })?;
        let offset = memory.tensor.offset(at).ok_or_else(|| {
            let shape = &memory.tensor.shape;
            EvalErrorKind::Bounds(format!("buffer `{}` of shape {shape:?} at {at:?}", name()))
        })?;
        Ok((memory, offset))
    }

    pub(super) fn get(&self, buffer: Buffer, at: &[i64]) -> Result<Scalar, EvalErrorKind> {
        let (memory, offset) = self.locate(buffer, at)?;
        if let Some(races) = &self.races {
            races.access(buffer, offset, at, AccessKind::Read)?;
        }
        if memory.written.as_ref().is_some_and(|w| !w[offset]) {
            let name = &self.func.buffers[buffer].name;
            return Err(EvalErrorKind::Undefined(format!("`{name}`{at:?} is read before written")));
        }
        memory.tensor.get(offset)
    }

    pub(super) fn put(&mut self, buffer: Buffer, at: &[i64], value: Scalar) -> Done {
        let (_, offset) = self.locate(buffer, at)?;
        if let Some(races) = &self.races {
            races.access(buffer, offset, at, AccessKind::Write)?;
        }
        let memory = self.memory[buffer].as_mut().expect("located");
        memory.tensor.set(offset, value)?;
        if let Some(written) = &mut memory.written {
            written[offset] = true;
        }
        Ok(())
    }
}
