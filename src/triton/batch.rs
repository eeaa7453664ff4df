//! Checks of requests against the signature, and the groups of those that run together.

use std::collections::BTreeMap;

use reflex::{DType, Dim, TensorInfo};

/// Element types and shapes of inputs or outputs, in the order of the signature.
pub(crate) type TensorTypes = Vec<(DType, Vec<i64>)>;

/// Checks a request's inputs; equal symbols are equal sizes.
pub(crate) fn check(signature: &[TensorInfo], inputs: &TensorTypes) -> Result<(), String> {
    let mut sizes: BTreeMap<&str, i64> = BTreeMap::new();
    for (info, (dtype, shape)) in signature.iter().zip(inputs) {
        let got = || format!("got {dtype}{shape:?}");
        // A program of another compiler may not say what its tensors are.
        if info.dtype == DType::VOID {
            continue;
        }
        if info.dtype != *dtype || info.shape.len() != shape.len() {
            return Err(format!("input {info}: {}", got()));
        }
        for (axis, (dim, size)) in info.shape.iter().zip(shape).enumerate() {
            let expected = match dim {
                Dim::Const(size) => *size,
                Dim::Symbol(name) => *sizes.entry(name).or_insert(*size),
            };
            if expected != *size {
                let text = format!("dimension {axis} must be {expected}");
                return Err(format!("input {info}: {}; {text}", got()));
            }
        }
    }
    Ok(())
}

/// Returns the rows of a request: the first dimension, which all inputs of a batch have; 1 where the
/// model has no batches.
pub(crate) fn rows(inputs: &TensorTypes, batched: bool) -> Result<i64, String> {
    if !batched {
        return Ok(1);
    }
    let mut firsts = inputs.iter().map(|(_, shape)| shape.first().copied());
    match firsts.next().flatten() {
        Some(rows) if rows > 0 && firsts.all(|first| first == Some(rows)) => Ok(rows),
        _ => Err("the inputs of a batch have one first dimension, of 1 or more".to_owned()),
    }
}

/// Returns the requests that run together, by index and in order: those that differ in the first
/// dimension alone.
pub(crate) fn groups(requests: &[(usize, &TensorTypes)], batched: bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<(&TensorTypes, Vec<usize>)> = vec![];
    for (index, inputs) in requests {
        let same = groups.iter_mut().find(|(first, _)| batched && same_rows(first, inputs));
        match same {
            Some((_, group)) => group.push(*index),
            None => groups.push((*inputs, vec![*index])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn same_rows(a: &TensorTypes, b: &TensorTypes) -> bool {
    let pairs = || a.iter().zip(b);
    a.len() == b.len() && pairs().all(|((a, x), (b, y))| a == b && x.get(1..) == y.get(1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(rows: i64, length: i64) -> TensorTypes {
        vec![(DType::I64, vec![rows, length]), (DType::I64, vec![rows, length])]
    }

    fn signature() -> Vec<TensorInfo> {
        let symbol = |name: &str| Dim::Symbol(name.to_owned());
        let tensor = |name: &str| TensorInfo {
            name: name.to_owned(),
            dtype: DType::I64,
            shape: vec![symbol("n"), symbol("length")],
        };
        vec![tensor("ids"), tensor("mask")]
    }

    #[test]
    fn requests_of_one_length_run_together() {
        let requests = [request(1, 8), request(1, 16), request(3, 8), request(2, 16)];
        let indexed: Vec<_> = requests.iter().enumerate().collect();
        assert_eq!(groups(&indexed, true), [vec![0, 2], vec![1, 3]]);
        assert_eq!(groups(&indexed, false), [[0], [1], [2], [3]]);
    }

    #[test]
    fn rows_are_the_common_first_dimension() {
        assert_eq!(rows(&request(3, 8), true), Ok(3));
        assert_eq!(rows(&request(3, 8), false), Ok(1));
        assert!(rows(&request(0, 8), true).is_err());
        assert!(rows(&vec![(DType::F32, vec![])], true).is_err());
        assert!(rows(&vec![(DType::F32, vec![1]), (DType::F32, vec![2])], true).is_err());
    }

    #[test]
    fn inputs_that_do_not_fit_are_named() {
        check(&signature(), &request(2, 8)).unwrap();
        let refused = |inputs| check(&signature(), &inputs).unwrap_err();
        let mask = |dtype, shape: &[i64]| vec![(DType::I64, vec![2, 8]), (dtype, shape.to_vec())];
        let text = "input mask: int64[n, length]: got int64[2, 9]; dimension 1 must be 8";
        assert_eq!(refused(mask(DType::I64, &[2, 9])), text);
        assert!(refused(mask(DType::F32, &[2, 8])).contains("got float32[2, 8]"));
        assert!(refused(mask(DType::I64, &[2])).contains("got int64[2]"));
    }
}
