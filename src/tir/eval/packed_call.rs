//! Calls of packed functions: those that are registered, with copies of the tensors.

use reflex_runtime::error::Error;
use reflex_runtime::registry;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use super::error::EvalErrorKind;
use super::{Done, Evaluator, Scalar};
use crate::{Buffer, CallArg, PackedCall};

impl Evaluator<'_> {
    pub(super) fn call_packed(&mut self, call: &PackedCall) -> Done {
        let name = &call.name;
        let failed = |e: Error| EvalErrorKind::Packed(format!("{}: {}", e.kind(), e.message()));
        let function = registry::get(name).ok_or_else(|| {
            EvalErrorKind::Packed(format!("no packed function is registered as `{name}`"))
        })?;
        let (mut values, mut copies) = (vec![], vec![]);
        for arg in &call.args {
            values.push(match arg {
                CallArg::Tensor(buffer) => {
                    let tensor = self.copy_of(*buffer)?;
                    copies.push((*buffer, tensor.clone()));
                    Any::from(tensor)
                }
                CallArg::Scalar(value) => match self.eval(value)? {
                    Scalar::Int(n) if value.dtype() == crate::DType::BOOL => Any::from(n != 0),
                    Scalar::Int(n) => Any::from(n),
                    float => Any::from(float.as_f64()),
                },
                CallArg::Text(text) => Any::from(text.as_str()),
            });
        }
        let views: Vec<_> = values.iter().map(Any::view).collect();
        let result = function.call(&views).map_err(failed)?;
        if result.object_ref().is_some() {
            return Err(EvalErrorKind::Packed(PackedCall::returned_object(name)));
        }
        for (buffer, copy) in copies {
            let memory = self.memory[buffer].as_mut().expect("copied above");
            memory.tensor.bytes = copy.to_bytes().map_err(failed)?;
            // What the function left alone counts as written: nothing says what it did.
            memory.written.iter_mut().for_each(|written| written.fill(true));
        }
        Ok(())
    }

    fn copy_of(&self, buffer: Buffer) -> Result<Tensor, EvalErrorKind> {
        let name = &self.func.buffers[buffer].name;
        let memory = self.memory[buffer].as_ref().ok_or_else(|| {
            EvalErrorKind::Undefined(format!("buffer `{name}` is used outside its scope"))
        })?;
        let tensor = &memory.tensor;
        Tensor::from_bytes(&tensor.shape, tensor.dtype, &tensor.bytes)
            .map_err(|e| EvalErrorKind::Packed(e.message().into_owned()))
    }
}
