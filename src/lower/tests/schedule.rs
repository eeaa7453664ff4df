//! Scheduled kernels compute what the naive ones do: exactly, but for reductions along rows,
//! whose tree differs (tolerance 2e-5 relative and absolute on operands in [-1, 1)).

mod common;

use common::{Case, assert_close, cases, run, target};
use reflex_graph::{ConvAttrs, Literal, Op, ReduceKind, TensorType};
use reflex_lower::legalize::Legalized;
use reflex_lower::packing::choose::packings;
use reflex_lower::packing::pack::pack;
use reflex_lower::precision::Precision;
use reflex_lower::schedule::{Refusal, Scheduled, schedule_explained};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Expr, Stmt};

fn exact(scheduled: &Scheduled) -> bool {
    scheduled.decisions.iter().all(|d| d.rule != "row reduction")
}

fn check(name: &str, kernel: &Legalized, args: &[Literal], want: &[Literal], target: &CpuTarget) {
    let inputs: Vec<Literal> = kernel.inputs.iter().map(|n| args[*n].clone()).collect();
    let naive = run(&kernel.func, &inputs, want);
    let scheduled = schedule_explained(&kernel.func, target);
    let primitive = |(_, why): &(_, Refusal)| matches!(why, Refusal::Primitive(_));
    let refused = scheduled.decisions.iter().any(|d| d.refused.iter().any(primitive));
    assert!(!refused, "{name}: a rule asked for what no primitive does\n{scheduled}");
    scheduled.func.body.visit(&mut |s| assert!(!matches!(s, Stmt::Block(_)), "{name}"));
    let got = run(&scheduled.func, &inputs, want);
    let half = want.iter().any(|w| w.dtype() == DType::F16);
    let tolerance = match (exact(&scheduled), half) {
        (true, _) => 0.0,
        (false, true) => 1e-2,
        (false, false) => 2e-5,
    };
    assert_close(&format!("{name} {:?}", scheduled.decisions), &got, &naive, tolerance);
}

#[test]
fn schedules_keep_meaning_at_every_vector_width() {
    for case in cases() {
        let (want, kernel) = (case.expected(), case.legalized(&[]));
        for bytes in [64, 32, 16] {
            check(&case.name, &kernel, &case.args, &want, &target(bytes));
        }
    }
}

/// With the operands packed that would be if they were constants: one layout for vectors of every width.
fn check_packed(case: &Case) {
    let types: Vec<TensorType> = case.args.iter().map(common::tensor_type).collect();
    let list = packings(&case.op, &types, &|_| true, Precision::F32);
    for bytes in [64, 32, 16].into_iter().filter(|_| !list.is_empty()) {
        let mut args = case.args.clone();
        for packing in &list {
            args[packing.operand] =
                pack(packing, std::slice::from_ref(&case.args[packing.operand])).unwrap();
        }
        check(&case.name, &case.legalized(&list), &args, &case.expected(), &target(bytes));
    }
}

#[test]
fn schedules_of_packed_weights_keep_meaning() {
    cases().iter().for_each(check_packed);
}

/// Batches, feature maps that are a vector or a part of one, and channels that fill no panel.
#[test]
fn schedules_of_convolutions_of_all_extents_keep_meaning() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut within = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 32) % most + 1) as i64
    };
    for _ in 0..80 {
        let (images, from, to) = (within(5), within(6), within(52));
        let window = [within(3), within(3)];
        let image = match within(2) {
            1 => [within(5), within(20)],
            // As many positions as a vector has lanes, with padding.
            _ => [[1, 16], [2, 8], [4, 4], [1, 8], [2, 4], [2, 2], [4, 1]][within(7) as usize - 1],
        };
        let attrs = ConvAttrs {
            strides: vec![1; 2],
            pads_begin: window.map(|n| (n - 1) / 2).to_vec(),
            pads_end: window.map(|n| n / 2).to_vec(),
            dilations: vec![1; 2],
            groups: 1,
        };
        let [x, w] = [[images, from, image[0], image[1]], [to, from, window[0], window[1]]];
        check_packed(&Case {
            name: format!("{w:?} over {x:?}"),
            op: Op::Conv(attrs),
            args: vec![common::noise(&x, 1), common::noise(&w, 2)],
        });
    }
}

#[test]
fn schedules_of_symbolic_extents_keep_meaning() {
    let mut seen = 0;
    for case in cases() {
        let want = case.expected();
        let Some(kernel) = case.symbolic(&want) else { continue };
        check(&case.name, &kernel, &case.args, &want, &target(64));
        check(&case.name, &kernel, &case.args, &want, &target(16));
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
}

#[test]
fn sums_along_rows_do_not_depend_on_what_is_known() {
    for n in 8..200 {
        let x = common::noise(&[3, n], 7);
        let op = Op::Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: false };
        let case = Case { name: format!("sum of {n}"), op, args: vec![x] };
        let want = case.expected();
        let unknown = case.symbolic(&want).unwrap();
        for bytes in [64, 32, 16] {
            let sums = [&case.legalized(&[]), &unknown].map(|kernel| {
                let scheduled = schedule_explained(&kernel.func, &target(bytes));
                assert!(!exact(&scheduled), "{}: {scheduled}", case.name);
                run(&scheduled.func, &case.args, &want)[0].bytes().to_vec()
            });
            assert_eq!(sums[0], sums[1], "{}, vectors of {bytes} bytes", case.name);
        }
    }
}

/// An extent that is a quotient of a scalar parameter is known not to be negative either.
#[test]
fn sums_over_parts_of_unknown_extents_are_in_vectors() {
    let mut b = FuncBuilder::new("sum");
    let n = b.scalar("n");
    let half = ((n + 1).floordiv(2) + 1).floordiv(2);
    let x = b.input("x", DType::F32, vec![Expr::i64(3), half.clone(), half.clone()]);
    let zero = Expr::constant(0.0, DType::F32);
    let reducer = Reducer { init: zero, combine: &|a, b| a + b };
    let reduced = [half.clone(), half];
    b.reduce_output("sum", "y", DType::F32, vec![Expr::i64(3)], &reduced, reducer, |f, i, k| {
        f.at(x, &[i, k].concat())
    });
    let scheduled = schedule_explained(&b.finish(), &target(64));
    assert!(!exact(&scheduled), "{scheduled}");
}

#[test]
fn products_take_the_macro_kernel() {
    let mut taken = 0;
    for case in cases() {
        let product = case.name.starts_with("matmul") || case.name.starts_with("conv");
        let columns = case.expected()[0].shape().last().copied().unwrap_or(1);
        if !product
            || case.args[0].dtype() != DType::F32
            || columns == 1
            || case.args[1].shape().len() < 2
        {
            continue;
        }
        let scheduled = schedule_explained(&case.legalized(&[]).func, &target(64));
        let gemm = scheduled.decisions.iter().any(|d| d.rule == "gemm");
        let shapes: Vec<&[i64]> = case.args.iter().map(|a| a.shape()).collect();
        assert!(gemm, "{} {shapes:?}: {:?}", case.name, scheduled.decisions);
        taken += 1;
    }
    assert!(taken > 20, "{taken}");
}
