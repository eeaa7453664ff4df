//! Schedule primitives: what each makes of a function, what it refuses, and that random
//! sequences of them never change a bit.

mod common;

use std::collections::BTreeMap;

use common::{any_func, assert_same, chain, dense, matmul, matmul_symbolic, property, softmax};
use reflex_tir::eval::{self, Arg, Tensor};
use reflex_tir::generate::{arguments, loops_of, steps};
use reflex_tir::schedule::{Schedule, packer};
use reflex_tir::{DType, Expr, ForKind, Scope, Stmt};

#[test]
fn random_schedules_preserve_every_bit() {
    let mut applied: BTreeMap<String, usize> = BTreeMap::new();
    property(1000, |u| {
        let before = any_func(u)?;
        let mut s = Schedule::new(before.clone());
        let log = steps(u, &mut s, 8)?;
        for line in log.iter().filter(|l| !l.starts_with(' ')) {
            *applied.entry(line.split(' ').next().unwrap().to_string()).or_insert(0) += 1;
        }
        let args = arguments(u, &before, 5)?;
        assert_same(&before, s.func(), &args, &|| log.join("\n"));
        Ok(())
    });
    println!("applied: {applied:?}");
    assert!(applied.len() >= 15, "some primitive was never applied: {applied:?}");
}

/// Runs loops of the given kinds backwards, which independent iterations must survive.
fn reversed(stmt: &Stmt) -> Stmt {
    let stmt = stmt.map_children(&mut reversed);
    match stmt {
        Stmt::For(l) if matches!(l.kind, ForKind::Parallel | ForKind::Vectorized) => {
            let last = l.min.clone() + l.extent.clone() - 1;
            let mut l = *l;
            let (var, min) = (l.var, l.min.clone());
            l.body = l.body.substitute(&|v| (v == var).then(|| last.clone() - var + min.clone()));
            Stmt::For(Box::new(l))
        }
        other => other,
    }
}

#[test]
fn parallel_and_vectorized_loops_may_run_backwards() {
    let mut marked = 0;
    property(600, |u| {
        let before = any_func(u)?;
        let mut s = Schedule::new(before.clone());
        let log = steps(u, &mut s, 4)?;
        for i in loops_of(s.func()) {
            let kind = if u.ratio(1, 2)? { s.parallel(i) } else { s.vectorize(i) };
            marked += usize::from(kind.is_ok());
        }
        let mut after = s.into_func();
        after.body = reversed(&after.body);
        let args = arguments(u, &before, 4)?;
        assert_same(&before, &after, &args, &|| log.join("\n"));
        Ok(())
    });
    assert!(marked > 100, "only {marked} loops could be marked");
}

#[test]
fn a_register_tile_can_be_built() {
    let mut s = Schedule::new(matmul_symbolic(32, 16));
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 6).unwrap();
    let (jo, ji) = s.split(j, 16).unwrap();
    s.reorder(&[io, jo, k, ii, ji]).unwrap();
    s.vectorize(ji).unwrap();
    s.unroll(ii).unwrap();
    s.parallel(io).unwrap();
    assert_eq!(s.get_loops("matmul").unwrap(), [io, jo, k, ii, ji]);
    // Only the symbolic rows need a guard.
    let predicate = &s.get_block("matmul").unwrap().predicate;
    assert!(format!("{predicate:?}").starts_with("Lt("), "{predicate:?}");
}

#[test]
fn a_flattened_symbolic_nest_can_be_tiled_and_run_in_parallel() {
    let mut s = Schedule::new(chain(7));
    s.compute_inline("scale").unwrap();
    s.compute_inline("bias_add").unwrap();
    assert_eq!(s.blocks(), ["exp"]);
    let loops = s.get_loops("exp").unwrap();
    let fused = s.fuse_all(&loops).unwrap();
    let (o, i) = s.split(fused, 16).unwrap();
    s.parallel(o).unwrap();
    s.vectorize(i).unwrap();
}

#[test]
fn an_epilogue_can_be_folded() {
    let mut s = Schedule::new(dense(4.into(), 8, 3));
    s.reverse_compute_inline("relu").unwrap();
    assert_eq!(s.blocks(), ["matmul", "bias_add"]);
    let refused = s.reverse_compute_inline("bias_add").unwrap_err();
    assert!(refused.why.contains("matmul"), "{refused}");
}

#[test]
fn a_fused_matrix_product_keeps_its_tile_in_registers() {
    let before = dense(13.into(), 32, 5);
    let mut s = Schedule::new(before.clone());
    s.compute_inline("bias_add").unwrap();
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 6).unwrap();
    let (jo, ji) = s.split(j, 16).unwrap();
    s.reorder(&[io, jo, k, ii, ji]).unwrap();
    s.reverse_compute_at("relu", jo).unwrap();
    let [.., ri, rj] = s.get_loops("relu").unwrap()[..] else { unreachable!() };
    assert_eq!((s.extent(ri).unwrap(), s.extent(rj).unwrap()), (Some(6), Some(16)));
    s.decompose_reduction("matmul", k).unwrap();
    s.set_scope("matmul", Scope::Local).unwrap();
    let [.., zi, zj] = s.get_loops("matmul_init").unwrap()[..] else { unreachable!() };
    for (unrolled, lanes) in [(zi, zj), (ii, ji), (ri, rj)] {
        s.unroll(unrolled).unwrap();
        s.vectorize(lanes).unwrap();
    }
    s.parallel(io).unwrap();
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn a_reduction_can_be_done_in_lanes() {
    let before = softmax(3, 37);
    let mut s = Schedule::new(before.clone());
    for block in ["max", "sum"] {
        let k = s.get_loops(block).unwrap()[1];
        let (_, lane) = s.split(k, 8).unwrap();
        let rf = s.rfactor(block, lane, 1).unwrap();
        let [_, o, l] = s.get_loops(&rf).unwrap()[..] else { unreachable!() };
        s.reorder(&[o, l]).unwrap();
        s.vectorize(l).unwrap();
        s.decompose_reduction(&rf, o).unwrap();
    }
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        let (mut a, mut b) = (args.clone(), args);
        eval::eval(&before, &mut a).unwrap();
        eval::eval(s.func(), &mut b).unwrap();
        for (x, y) in a[1].tensor().to_f32().iter().zip(b[1].tensor().to_f32()) {
            assert!((x - y).abs() <= 1e-6, "{x} and {y}");
        }
        Ok(())
    });
    let mut s = Schedule::new(matmul(4.into(), 4.into(), 4.into()));
    let i = s.get_loops("matmul").unwrap()[0];
    assert!(s.rfactor("matmul", i, 0).unwrap_err().why.contains("does not reduce"));
}

#[test]
fn weights_can_be_packed() {
    let (n, k) = (21, 6);
    let before = matmul(5.into(), n.into(), k.into());
    let mut s = Schedule::new(before.clone());
    let weights = s.func().buffer_params().nth(1).unwrap();
    let panels =
        |i: &[Expr]| vec![i[1].clone().floordiv(8), i[0].clone(), i[1].clone().floormod(8)];
    let shape = vec![Expr::i64(3), k.into(), 8.into()];
    s.transform_layout(weights, shape.clone(), &panels).unwrap();
    let collide = |i: &[Expr]| vec![i[1].clone().floordiv(8), i[0].clone(), Expr::i64(0)];
    let refused = s.clone().transform_layout(weights, shape.clone(), &collide).unwrap_err();
    assert!(refused.why.contains("dimension"), "{refused}");
    let pack = packer("pack", DType::F32, vec![k.into(), n.into()], shape, &panels);
    property(4, |u| {
        let mut args = arguments(u, &before, 1)?;
        let mut packed = [args[1].clone(), Arg::Tensor(Tensor::zeros(DType::F32, &[3, k, 8]))];
        eval::eval(&pack, &mut packed).unwrap();
        let mut after = args.clone();
        after[1] = packed[1].clone();
        eval::eval(&before, &mut args).unwrap();
        eval::eval(s.func(), &mut after).unwrap();
        assert_eq!(args[2], after[2]);
        Ok(())
    });
}

#[test]
fn a_cut_loop_needs_no_guard_in_its_first_part() {
    let before = matmul_symbolic(8, 4);
    let mut s = Schedule::new(before.clone());
    let i = s.get_loops("matmul").unwrap()[0];
    let n = s.get_loop(i).unwrap().extent.clone();
    let (main, _) = s.partition(i, n.floordiv(6) * 6).unwrap();
    s.split(main, 6).unwrap();
    assert_eq!(s.blocks(), ["matmul", "matmul_tail"]);
    assert_eq!(s.get_block("matmul").unwrap().predicate.as_int(), Some(1));
}

#[test]
fn what_changes_results_is_refused() {
    let mut s = Schedule::new(matmul(8.into(), 8.into(), 8.into()));
    let [i, _, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let refused = s.parallel(k).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "parallel of `k0` refused: iterator `v_k0` of block `matmul` is Reduce"
    );
    let (ko, ki) = s.split(k, 4).unwrap();
    let refused = s.reorder(&[ki, ko]).unwrap_err();
    assert!(refused.why.contains("carry dependences"), "{refused}");
    s.vectorize(i).unwrap();
    assert!(s.vectorize(i).unwrap_err().why.contains("already is"));
    let mut s = Schedule::new(matmul_symbolic(8, 8));
    let i = s.get_loops("matmul").unwrap()[0];
    assert!(s.vectorize(i).unwrap_err().why.contains("not constant"));
    assert!(s.unroll(i).unwrap_err().why.contains("not constant"));
}
