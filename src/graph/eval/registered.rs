//! Operators from outside: the meaning of one is that of its kernel.

use std::sync::Arc;

use reflex_tir::eval::{EvalArg, EvalTensor, eval_with_fuel};

use super::dim::{DimValues, eval_dim};
use super::error::{EvalError, Result};
use crate::literal::Literal;
use crate::registered_op::{RegisteredCode, RegisteredOp};

/// Statements that a kernel may execute.
const FUEL: u64 = 1 << 28;

pub(super) fn registered(
    op: &RegisteredOp,
    args: &[&Literal],
    dims: DimValues<'_>,
) -> Result<Vec<Literal>> {
    let failed = |why: String| EvalError::new(format!("operator {}: {why}", op.name));
    let RegisteredCode::Kernel(kernel) = &op.code else {
        return Err(failed("a packed function has no reference meaning".to_owned()));
    };
    let mut tensors: Vec<EvalArg> = args.iter().map(|arg| EvalArg::Tensor(tensor(arg))).collect();
    for (dtype, shape) in &op.results {
        let shape = shape.iter().map(|dim| {
            let size = eval_dim(dim, dims).filter(|size| *size >= 0);
            size.ok_or_else(|| failed(format!("the dimension {dim:?} has no value here")))
        });
        let shape: Vec<i64> = shape.collect::<Result<_>>()?;
        tensors.push(EvalArg::Tensor(EvalTensor::zeros(*dtype, &shape)));
    }
    eval_with_fuel(kernel, &mut tensors, FUEL).map_err(|why| failed(why.to_string()))?;
    let results = tensors.split_off(args.len()).into_iter().map(|result| {
        let EvalArg::Tensor(EvalTensor { dtype, shape, bytes }) = result else {
            return Err(failed("a result that is no tensor".to_owned()));
        };
        Literal::new(dtype, shape, Arc::new(bytes))
            .ok_or_else(|| failed("a result of another size".to_owned()))
    });
    results.collect()
}

fn tensor(literal: &Literal) -> EvalTensor {
    EvalTensor {
        dtype: literal.dtype(),
        shape: literal.shape().to_vec(),
        bytes: literal.bytes().to_vec(),
    }
}
