//! The naive kernel of every operator computes what the graph evaluator says.

mod common;

use common::{assert_close, cases, run, tolerance};
use reflex_graph::Literal;
use reflex_lower::legalize::{pack, packings};
use reflex_lower::pipeline::Precision;

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
    let mut packed = 0;
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
            args[packing.operand] = pack(packing, &case.args[packing.operand]).unwrap();
            packed += 1;
        }
        let got = run(&case.legalized(&list).func, &args, &want);
        assert_close(&case.name, &got, &plain, 0.0);
    }
    assert!(packed > 20, "{packed}");
}
