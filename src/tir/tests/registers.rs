//! The primitives that micro-kernels are made of: loop distribution, read caching, unroll and jam.

mod common;

use common::{assert_same, chain, dense, matmul, matmul_symbolic, property, softmax};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::fuzzgen::arguments;
use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::{DType, Expr, Scope, Stmt, Var};

const F: DType = DType::F32;

/// `dense` with everything about a result in its iteration: the loops of results.
fn by_result(s: &mut Schedule) -> [Var; 2] {
    s.compute_inline("bias_add").unwrap();
    let [i, j, _] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let [p, q] = s.get_loops("relu").unwrap()[..] else { unreachable!() };
    s.fuse_adjacent(i, p).unwrap();
    s.fuse_adjacent(j, q).unwrap();
    s.store_at("matmul", j, Scope::Local).unwrap();
    [i, j]
}

/// A tile of sums in loops over rows, vectors and lanes, as a schedule rule makes it.
fn tile(s: &mut Schedule, store: &str, r: Var) -> Result<(), ScheduleError> {
    s.distribute_loops(r)?;
    let loops = s.get_loops("matmul")?;
    let [.., r, v, l, k] = loops[..] else { unreachable!("{loops:?}") };
    s.reorder(&[k, r, v, l])?;
    s.decompose_reduction("matmul", k)?;
    s.reorder(&[l, r, v])?;
    s.vectorize(l)?;
    s.unroll_and_jam("matmul", r)?;
    let loops = s.get_loops(store)?;
    let [.., r, v, l] = loops[..] else { unreachable!("{loops:?}") };
    let acc = s.get_block("matmul")?.writes[0].buffer;
    s.cache_read_at(store, acc, r, Scope::Local)?;
    s.reorder(&[l, v])?;
    s.vectorize(l)?;
    s.unroll_and_jam(store, v)
}

#[test]
fn a_tile_of_sums_keeps_every_bit() {
    for (rows, columns) in [(6, 16), (4, 24), (3, 13)] {
        let before = dense(rows.into(), columns, 7);
        let mut s = Schedule::new(before.clone());
        let [i, j] = by_result(&mut s);
        s.split(j, 8).unwrap();
        tile(&mut s, "relu", i).unwrap();
        let mut names = 0i64;
        s.func().body.visit(&mut |stmt| names += i64::from(matches!(stmt, Stmt::Let { .. })));
        // Vectors of columns and elements of rows; what is guarded has no names.
        assert_eq!(names, if columns % 8 == 0 { columns / 8 + rows } else { 0 });
        property(20, |u| {
            let args = arguments(u, &before, 4)?;
            assert_same(&before, s.func(), &args, &String::new);
            Ok(())
        });
    }
}

#[test]
fn tiles_of_symbolic_rows_keep_every_bit() {
    let before = matmul_symbolic(16, 5);
    let mut s = Schedule::new(before.clone());
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let store = s.cache_write_at("matmul", k, Scope::Local).unwrap();
    let (outer, r) = s.split(i, 4).unwrap();
    s.split(j, 8).unwrap();
    tile(&mut s, &store, r).unwrap();
    s.parallel(outer).unwrap();
    property(20, |u| {
        let rows = u.int_in_range(1..=9)?;
        let args = arguments(u, &before, rows)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn statements_that_depend_on_other_iterations_stay_together() {
    let mut s = Schedule::new(matmul(4.into(), 8.into(), 6.into()));
    let i = s.get_loops("matmul").unwrap()[0];
    let refused = s.distribute_loops(i).unwrap_err();
    assert!(refused.why.contains("one statement"), "{refused}");
    // Each row of a softmax: its sum is complete before any of its elements is divided.
    let mut s = Schedule::new(softmax(4, 9));
    let first = s.get_loops("max").unwrap()[0];
    for block in ["exp", "sum", "div"] {
        let next = s.get_loops(block).unwrap()[0];
        s.fuse_adjacent(first, next).unwrap();
    }
    s.distribute_loops(first).unwrap();
    assert_eq!(s.get_loops("div").unwrap().len(), 2);
    let mut s = Schedule::new(chain(7));
    let i = s.get_loops("scale").unwrap()[0];
    let next = s.get_loops("bias_add").unwrap()[0];
    s.fuse_adjacent(i, next).unwrap();
    assert!(s.distribute_loops(i).unwrap_err().why.contains("constant extents"));
}

#[test]
fn distributing_undoes_joining() {
    let before = softmax(5, 6);
    let mut s = Schedule::new(before.clone());
    let i = s.get_loops("exp").unwrap()[0];
    for block in ["sum", "div"] {
        let next = s.get_loops(block).unwrap()[0];
        s.fuse_adjacent(i, next).unwrap();
    }
    s.store_at("exp", i, Scope::Local).unwrap();
    s.store_at("sum", i, Scope::Local).unwrap();
    s.distribute_loops(i).unwrap();
    let mut shapes: Vec<usize> = vec![];
    s.func().body.visit(&mut |stmt| {
        if let Stmt::Allocate { buffer, .. } = stmt {
            shapes.push(s.func().buffers[*buffer].shape.len());
        }
    });
    shapes.sort_unstable();
    assert_eq!(shapes, [1, 2]);
    property(10, |u| {
        let args = arguments(u, &before, 4)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn what_is_read_only_sometimes_is_neither_copied_nor_named() {
    let mut f = FuncBuilder::new("padded");
    let x = f.input("x", F, vec![6.into()]);
    f.output("pad", "y", F, vec![4.into(), 8.into()], |f, i| {
        let inside = i[1].clone().lt(6);
        Expr::if_then_else(inside, f.at(x, &i[1..]), Expr::float(0.0, F)) + f.at(x, &i[..1])
    });
    let before = f.finish();
    let mut s = Schedule::new(before.clone());
    let [i, j] = s.get_loops("pad").unwrap()[..] else { unreachable!() };
    let refused = s.cache_read_at("pad", x, i, Scope::Local).unwrap_err();
    assert!(refused.why.contains("does not always read"), "{refused}");
    s.reorder(&[j, i]).unwrap();
    s.unroll_and_jam("pad", j).unwrap();
    property(10, |u| {
        let args = arguments(u, &before, 4)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn only_one_plain_store_is_written_out() {
    let mut s = Schedule::new(matmul(4.into(), 8.into(), 6.into()));
    let [i, _, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    assert!(s.unroll_and_jam("matmul", i).unwrap_err().why.contains("has an init"));
    s.decompose_reduction("matmul", k).unwrap();
    assert!(s.unroll_and_jam("matmul", i).unwrap_err().why.contains("have the loops alone"));
    s.unroll(k).unwrap();
    assert!(s.unroll_and_jam("matmul", k).unwrap_err().why.contains("not serial"));
}
