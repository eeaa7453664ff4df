//! Types of outputs that kernels write into the responses of requests that run alone.

use reflex::Tensor;

use crate::batch::TensorTypes;

/// Outputs of more bytes are written into the response by kernels; smaller ones are copied there.
const LEAST_BYTES: usize = 64 << 10;
/// Combinations of input shapes that are kept.
const MOST: usize = 32;

/// The outputs' types that requests had, by their inputs': a response's buffers are asked for by size,
/// before the run. A model's declared shapes may name dimensions that no input has.
#[derive(Default)]
pub(crate) struct LargeOutputs(Vec<(TensorTypes, TensorTypes)>);

impl LargeOutputs {
    /// Returns the types that the outputs of a request had whose inputs had these; `None` for one with
    /// small outputs alone.
    pub(crate) fn of(&self, inputs: &TensorTypes) -> Option<TensorTypes> {
        self.0.iter().find(|(known, _)| known == inputs).map(|(_, outputs)| outputs.clone())
    }

    /// Keeps the types of a request's results if one is large; the oldest make way.
    pub(crate) fn note(&mut self, inputs: &TensorTypes, results: &[Tensor]) {
        if !results.iter().any(|tensor| tensor.nbytes() > LEAST_BYTES) {
            return;
        }
        self.forget(inputs);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        let types = results.iter().map(|tensor| (tensor.dtype(), tensor.shape().to_vec()));
        self.0.push((inputs.clone(), types.collect()));
    }

    /// Forgets what was kept for these inputs.
    pub(crate) fn forget(&mut self, inputs: &TensorTypes) {
        self.0.retain(|(known, _)| known != inputs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reflex::DType;

    fn inputs(rows: i64) -> TensorTypes {
        vec![(DType::I64, vec![rows, 8])]
    }

    #[test]
    fn large_results_are_kept_by_the_shapes_of_inputs() {
        let mut known = LargeOutputs::default();
        let tensor = |count: i64| Tensor::empty(&[count], DType::U8).unwrap();
        known.note(&inputs(1), &[tensor(8)]);
        assert_eq!(known.of(&inputs(1)), None, "small");
        known.note(&inputs(1), &[tensor(8), tensor(1 << 17)]);
        let types = vec![(DType::U8, vec![8]), (DType::U8, vec![1 << 17])];
        assert_eq!(known.of(&inputs(1)), Some(types));
        assert_eq!(known.of(&inputs(2)), None);
        for rows in 2..40 {
            known.note(&inputs(rows), &[tensor(1 << 17)]);
        }
        assert_eq!(known.of(&inputs(1)), None, "the oldest made way");
        assert!(known.of(&inputs(39)).is_some());
        known.forget(&inputs(39));
        assert_eq!(known.of(&inputs(39)), None);
    }
}
