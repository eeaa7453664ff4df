//! The primitives that reductions and rows are made of: rfactor, tree reduction, write caching, loop
//! fusion, storage of a row.

mod common;

use common::{assert_same, chain, matmul, matmul_symbolic, property, softmax};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::eval;
use reflex_tir::fuzzgen::arguments;
use reflex_tir::schedule::Schedule;
use reflex_tir::{DType, Expr, Intrin, PrimFunc, Scope, Stmt, Var};

const F: DType = DType::F32;

/// `y[i] = reduce_k x[i, k]`, rows symbolic.
fn rows(length: Expr, init: Expr, combine: &dyn Fn(Expr, Expr) -> Expr) -> PrimFunc {
    let mut f = FuncBuilder::new("rows");
    let n = f.symbol("n");
    let dtype = init.dtype();
    let x = f.input("x", dtype, vec![n.clone(), length.clone()]);
    let reducer = Reducer { init, combine };
    f.reduce_output("sum", "y", dtype, vec![n], &[length], reducer, |f, i, k| {
        f.at(x, &[i[0].clone(), k[0].clone()])
    });
    f.finish()
}

/// Partial results in lanes, combined by a tree reduction: the loop of each step.
fn in_lanes(s: &mut Schedule, block: &str, lanes: i64) -> Vec<i64> {
    let k = *s.get_loops(block).unwrap().last().unwrap();
    let (outer, lane) = s.split(k, lanes).unwrap();
    let rf = s.rfactor(block, lane).unwrap();
    s.set_scope(&rf, Scope::Local).unwrap();
    let init = s.decompose_reduction(&rf, outer).unwrap();
    for name in [&rf, &init] {
        let last = *s.get_loops(name).unwrap().last().unwrap();
        s.vectorize(last).unwrap();
    }
    let mut extents = vec![];
    while let Some(at) = s.get_loops(block).unwrap().get(1).copied() {
        let Some((_, half)) = s.tree_reduce(block, at).unwrap() else { break };
        extents.push(s.extent(half).unwrap().unwrap());
        s.vectorize(half).unwrap();
    }
    extents
}

#[test]
fn parts_of_rows_are_combined_by_halves() {
    let lowest = Expr::float(f64::from(f32::MIN), F);
    let sum = (Expr::float(0.0, F), &(|a, b| a + b) as &dyn Fn(Expr, Expr) -> Expr, false);
    let most = (lowest, &(|a: Expr, b: Expr| a.max(b)) as &dyn Fn(Expr, Expr) -> Expr, true);
    let ints = (Expr::int(0, DType::I32), &(|a, b| a + b) as &dyn Fn(Expr, Expr) -> Expr, true);
    for (init, combine, exact) in [sum, most, ints] {
        for length in [37, 64, 5] {
            let before = rows(length.into(), init.clone(), combine);
            let mut s = Schedule::new(before.clone());
            assert_eq!(in_lanes(&mut s, "sum", 8), [4, 2]);
            assert_eq!(s.get_loops("sum").unwrap().len(), 1);
            let rows = s.get_loops("sum").unwrap()[0];
            s.parallel(rows).unwrap();
            property(10, |u| {
                let args = arguments(u, &before, 4)?;
                if exact {
                    assert_same(&before, s.func(), &args, &String::new);
                    return Ok(());
                }
                let (mut a, mut b) = (args.clone(), args);
                eval::eval(&before, &mut a).unwrap();
                eval::eval(s.func(), &mut b).unwrap();
                for (x, y) in a[1].tensor().to_f32().iter().zip(b[1].tensor().to_f32()) {
                    assert!((x - y).abs() <= 4e-6, "{x} and {y}");
                }
                Ok(())
            });
        }
    }
}

#[test]
fn parts_are_refused_where_they_do_not_combine() {
    let from_one = rows(8.into(), Expr::float(1.0, F), &|a, b| a + b);
    let mut s = Schedule::new(from_one);
    let k = s.get_loops("sum").unwrap()[1];
    assert!(s.rfactor("sum", k).unwrap_err().why.contains("cannot be done in parts"));
    let horner = rows(8.into(), Expr::float(0.0, F), &|a, b| b + a);
    let mut s = Schedule::new(horner);
    let k = s.get_loops("sum").unwrap()[1];
    assert!(s.rfactor("sum", k).unwrap_err().why.contains("not `X = X op value`"));
    let mut s = Schedule::new(rows(24.into(), Expr::float(0.0, F), &|a, b| a + b));
    let [i, k] = s.get_loops("sum").unwrap()[..] else { unreachable!() };
    assert!(s.tree_reduce("sum", k).unwrap_err().why.contains("may be used elsewhere"));
    let (_, lane) = s.split(k, 6).unwrap();
    s.rfactor("sum", lane).unwrap();
    let at = s.get_loops("sum").unwrap()[1];
    s.tree_reduce("sum", at).unwrap().unwrap();
    let at = s.get_loops("sum").unwrap()[1];
    assert!(s.tree_reduce("sum", at).unwrap_err().why.contains("3 parts have no halves"));
    assert!(s.tree_reduce("sum", i).unwrap_err().why.contains("its loops alone"));
}

/// Columns in vectors, each result's sum kept in a lane.
fn by_columns(s: &mut Schedule, block: &str, lanes: i64) -> Var {
    let [i, j, k] = s.get_loops(block).unwrap()[..] else { unreachable!() };
    let (outer, lane) = s.split(j, lanes).unwrap();
    s.reorder(&[outer, k, lane]).unwrap();
    let write = s.cache_write_at(block, k, Scope::Local).unwrap();
    let init = s.decompose_reduction(block, k).unwrap();
    for name in [block, &write, &init] {
        let last = *s.get_loops(name).unwrap().last().unwrap();
        s.vectorize(last).unwrap();
    }
    i
}

#[test]
fn sums_are_kept_in_lanes_across_rows() {
    for before in [matmul(5.into(), 21.into(), 6.into()), matmul_symbolic(16, 7)] {
        let mut s = Schedule::new(before.clone());
        let i = by_columns(&mut s, "matmul", 8);
        s.parallel(i).unwrap();
        // Lanes past the end are left alone, not left out.
        assert_eq!(s.get_block("matmul").unwrap().predicate.as_int(), Some(1));
        assert_eq!(s.get_block("matmul_init").unwrap().predicate.as_int(), Some(1));
        property(10, |u| {
            let args = arguments(u, &before, 4)?;
            assert_same(&before, s.func(), &args, &String::new);
            Ok(())
        });
    }
}

#[test]
fn sums_are_kept_by_position_where_axes_were_merged() {
    let mut f = FuncBuilder::new("merged");
    let (n, m) = (f.symbol("n"), f.symbol("m"));
    let x = f.input("x", F, vec![4.into(), n.clone(), m.clone()]);
    let sum = Reducer { init: Expr::float(0.0, F), combine: &|a, b| a + b };
    f.reduce_output("sum", "y", F, vec![n, m], &[4.into()], sum, |f, i, k| {
        f.at(x, &[&k[..1], i].concat())
    });
    let before = f.finish();
    let mut s = Schedule::new(before.clone());
    let [i, j, k] = s.get_loops("sum").unwrap()[..] else { unreachable!() };
    let m = s.collapse_axes(i, j, "m").unwrap();
    let (outer, lane) = s.split(m, 4).unwrap();
    s.reorder(&[outer, k, lane]).unwrap();
    s.parallel(outer).unwrap();
    let write = s.cache_write_at("sum", k, Scope::Local).unwrap();
    s.decompose_reduction("sum", k).unwrap();
    let last = *s.get_loops(&write).unwrap().last().unwrap();
    s.vectorize(last).unwrap();
    property(10, |u| {
        let args = arguments(u, &before, 5)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn guards_of_accumulators_are_decided_outside_of_their_loop() {
    for length in [Some(37), None] {
        let before = match length {
            Some(n) => rows(n.into(), Expr::float(-9.0, F), &|a, b| a.max(b)),
            None => {
                let mut f = FuncBuilder::new("long");
                let n = f.symbol("n");
                let x = f.input("x", F, vec![n.clone()]);
                let init = Expr::float(-9.0, F);
                let most = Reducer { init, combine: &|a, b| a.max(b) };
                f.reduce_output("sum", "y", F, vec![], &[n], most, |f, _, k| f.at(x, k));
                f.finish()
            }
        };
        let mut s = Schedule::new(before.clone());
        let k = *s.get_loops("sum").unwrap().last().unwrap();
        let n = s.get_loop(k).unwrap().extent.clone();
        let (steps, part) = s.split(k, 8).unwrap();
        let rf = s.rfactor("sum", part).unwrap();
        let refused = s.separate_full_tiles(&rf, part).unwrap_err();
        assert!(refused.why.contains("choose between"), "{refused}");
        s.decompose_reduction(&rf, steps).unwrap();
        s.partition(steps, n.floordiv(8)).unwrap();
        let tail = *s.get_loops("sum_rf_tail").unwrap().last().unwrap();
        let lanes = if length.is_some() { tail } else { s.split(tail, 4).unwrap().1 };
        let (whole, rest) = s.separate_full_tiles("sum_rf_tail", lanes).unwrap();
        assert_eq!(s.extent(whole).unwrap(), Some(length.map_or(4, |n| n % 8)));
        assert_eq!(rest.is_none(), length.is_some());
        for at in [Some(whole), rest].into_iter().flatten() {
            s.vectorize(at).unwrap();
        }
        property(30, |u| {
            let symbol = u.int_in_range(1..=30)?;
            let args = arguments(u, &before, symbol)?;
            assert_same(&before, s.func(), &args, &String::new);
            Ok(())
        });
    }
}

#[test]
fn what_cannot_be_kept_below_a_loop_is_refused() {
    let mut s = Schedule::new(matmul(4.into(), 8.into(), 6.into()));
    let [i, _, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (outer, inner) = s.split(k, 2).unwrap();
    let refused = s.cache_write_at("matmul", inner, Scope::Local).unwrap_err();
    assert!(refused.why.contains("of the reduction lies outside"), "{refused}");
    s.decompose_reduction("matmul", outer).unwrap();
    let refused = s.cache_write_at("matmul", outer, Scope::Local).unwrap_err();
    assert!(refused.why.contains("held before"), "{refused}");
    let refused = s.cache_write_at("matmul", i, Scope::Local).unwrap_err();
    assert!(refused.why.contains("its loops alone"), "{refused}");
    let mut s = Schedule::new(matmul_symbolic(8, 6));
    let [i, ..] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let refused = s.cache_write_at("matmul", i, Scope::Local).unwrap_err();
    assert!(refused.why.contains("no constant size"), "{refused}");
}

/// A block that keeps its row has two iterators for a column, and one guard for both.
#[test]
fn what_is_kept_in_a_row_is_kept_in_lanes() {
    let before = matmul(5.into(), 21.into(), 6.into());
    let mut s = Schedule::new(before.clone());
    let [_, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    s.cache_write_at("matmul", j, Scope::Global).unwrap();
    let (_, lane) = s.split(j, 8).unwrap();
    s.reorder(&[k, lane]).unwrap();
    s.cache_write_at("matmul", k, Scope::Local).unwrap();
    assert_eq!(s.get_block("matmul").unwrap().predicate.as_int(), Some(1));
    property(10, |u| {
        let args = arguments(u, &before, 4)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

/// Of `n // 5 * 5` iterations there may be none: the tail has the initial value then, and a copy of what
/// the head kept would be a copy of nothing.
#[test]
fn a_part_of_a_reduction_that_may_be_empty_is_not_kept() {
    let mut f = FuncBuilder::new("largest");
    let n = f.symbol("n");
    let x = f.input("x", F, vec![n.clone()]);
    let max = Reducer { init: Expr::float(-9.0, F), combine: &|a, b| a.max(b) };
    f.reduce_output("max", "y", F, vec![], std::slice::from_ref(&n), max, |f, _, k| f.at(x, k));
    let before = f.finish();
    let mut s = Schedule::new(before.clone());
    let k = s.get_loops("max").unwrap()[0];
    s.partition(k, n.floordiv(5) * 5).unwrap();
    let refused = s.cache_write_at("max", k, Scope::Local).unwrap_err();
    assert!(refused.why.contains("may not run at all"), "{refused}");
    // The whole reduction is another matter: nothing but its own block gives the result.
    let mut s = Schedule::new(before);
    let k = s.get_loops("max").unwrap()[0];
    s.cache_write_at("max", k, Scope::Local).unwrap();
}

#[test]
fn stages_of_rows_run_in_one_loop() {
    let before = softmax(5, 19);
    let mut s = Schedule::new(before.clone());
    let first = s.get_loops("max").unwrap()[0];
    for block in ["exp", "sum", "div"] {
        let next = s.get_loops(block).unwrap()[0];
        s.fuse_adjacent(first, next).unwrap();
    }
    for block in ["max", "exp", "sum"] {
        s.store_at(block, first, Scope::Local).unwrap();
    }
    s.parallel(first).unwrap();
    assert!(s.func().allocs.is_empty());
    let mut shapes = vec![];
    s.func().body.visit(&mut |stmt| {
        if let Stmt::Allocate { buffer, .. } = stmt {
            shapes.push(s.func().buffers[*buffer].shape.len());
        }
    });
    assert_eq!(shapes, [0, 1, 0]);
    property(10, |u| {
        let args = arguments(u, &before, 4)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn loops_that_use_each_others_iterations_are_not_joined() {
    let mut f = FuncBuilder::new("turned");
    let x = f.input("x", F, vec![6.into(), 6.into()]);
    let a = f.stage("twice", "a", F, vec![6.into(), 6.into()], |f, i| f.at(x, i) + f.at(x, i));
    f.output("turn", "y", F, vec![6.into(), 6.into()], |f, i| {
        Expr::call(Intrin::Abs, vec![f.at(a, &[i[1].clone(), i[0].clone()])])
    });
    let mut s = Schedule::new(f.finish());
    let (i, j) = (s.get_loops("twice").unwrap()[0], s.get_loops("turn").unwrap()[0]);
    let refused = s.fuse_adjacent(i, j).unwrap_err();
    assert!(refused.why.contains("may touch what another one made of `a`"), "{refused}");
    assert!(s.fuse_adjacent(j, i).unwrap_err().why.contains("one after the other"));
    let mut s = Schedule::new(chain(7));
    let [i, j] = s.get_loops("scale").unwrap()[..] else { unreachable!() };
    assert!(s.fuse_adjacent(i, j).unwrap_err().why.contains("over one range"));
    let next = s.get_loops("bias_add").unwrap()[0];
    let refused = s.store_at("scale", i, Scope::Local).unwrap_err();
    assert!(refused.why.contains("used outside of the loop"), "{refused}");
    s.fuse_adjacent(i, next).unwrap();
    let refused = s.store_at("exp", i, Scope::Local).unwrap_err();
    assert!(refused.why.contains("not an intermediate"), "{refused}");
    s.store_at("scale", i, Scope::Local).unwrap();
}
