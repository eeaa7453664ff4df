//! The naive kernel of every operator computes what the graph evaluator says.

mod common;

use common::{assert_close, cases, run, tolerance};
use reflex_graph::Literal;
use reflex_lower::packing::choose::packings;
use reflex_lower::packing::pack::pack;
use reflex_lower::precision::Precision;

#[test]
fn naive_kernels_mean_what_the_operators_mean() {
    for case in cases() {
        let want = case.expected();
        let kernel = case.legalized(&[]);
        let inputs: Vec<Literal> = kernel.inputs.iter().map(|n| case.args[*n].clone()).collect();
        let got = run(&kernel.func, &inputs, &want);
        assert_close(&case.name, &got, &want, tolerance(&want));
    }
}

#[test]
fn packed_weights_change_nothing() {
    let (mut packed, mut read_across) = (0, 0);
    for case in cases() {
        let types: Vec<_> = case.args.iter().map(common::tensor_type).collect();
        let list = packings(&case.op, &types, &|_| true, Precision::F32);
        if list.is_empty() {
            continue;
        }
        let want = case.expected();
        let plain = run(&case.legalized(&[]).func, &case.args, &want);
        let mut args = case.args.clone();
        for packing in &list {
            let weight = &case.args[packing.operand];
            args[packing.operand] = pack(packing, std::slice::from_ref(weight)).unwrap();
            packed += 1;
            if let Some(transposed) = transposed_twice(weight) {
                assert_eq!(
                    pack(packing, std::slice::from_ref(&transposed)).unwrap(),
                    args[packing.operand],
                    "{packing:?}"
                );
                read_across += usize::from(transposed.permutation().is_some());
            }
        }
        let got = run(&case.legalized(&list).func, &args, &want);
        assert_close(&case.name, &got, &plain, 0.0);
    }
    assert!(packed > 20, "{packed}");
    assert!(read_across > 5, "{read_across}");
}

/// The same matrices, as the transposition of a constant that is their transposition.
fn transposed_twice(x: &Literal) -> Option<Literal> {
    let rank = x.shape().len();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm[rank.checked_sub(2)?..].reverse();
    let turned = x.permuted(&perm)?;
    let turned = Literal::new(x.dtype(), turned.shape().to_vec(), turned.data())?;
    turned.permuted(&perm)
}
