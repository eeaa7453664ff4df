//! Schedule primitives: what each makes of a function, what it refuses, and that random
//! sequences of them never change a bit.

mod common;

use std::collections::BTreeMap;

use common::{any_func, assert_same, chain, dense, matmul, matmul_symbolic, property, softmax};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::eval::{self, EvalArg, EvalTensor};
use reflex_tir::fuzzgen::{arguments, bindings, loops_of, steps};
use reflex_tir::schedule::{Schedule, packer};
use reflex_tir::{BinOp, DType, Expr, ExprKind, ForKind, Intrin, Scope, Stmt, abi};

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
    assert!(applied.len() >= 35, "some primitive was never applied: {applied:?}");
}

/// Runs loops of the given kinds backwards, which independent iterations must survive.
fn reversed(stmt: &Stmt) -> Stmt {
    let stmt = stmt.map_children(&mut reversed);
    match stmt {
        Stmt::For(l) if !matches!(l.kind, ForKind::Serial | ForKind::Unrolled) => {
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
fn loops_that_run_at_once_may_run_backwards() {
    let (mut marked, mut bound) = (0, 0);
    property(600, |u| {
        let before = any_func(u)?;
        let mut s = Schedule::new(before.clone());
        let mut log = steps(u, &mut s, 4)?;
        log.extend(bindings(u, &mut s)?);
        bound += log.iter().filter(|l| l.starts_with("bind ")).count();
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
    assert!(bound > 100, "only {bound} loops could be bound");
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
        let rf = s.rfactor(block, lane).unwrap();
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
    assert!(s.rfactor("matmul", i).unwrap_err().why.contains("does not reduce"));
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
    let twice =
        vec![(weights, shape.clone(), &panels as _), (weights, shape.clone(), &panels as _)];
    let unchanged = Schedule::new(before.clone());
    let mut refusing = unchanged.clone();
    let refused = refusing.transform_layouts(twice).unwrap_err();
    assert!(refused.why.contains("twice"), "{refused}");
    assert_eq!(refusing.func().body, unchanged.func().body);
    let pack = packer("pack", DType::F32, vec![k.into(), n.into()], shape, &panels);
    property(4, |u| {
        let mut args = arguments(u, &before, 1)?;
        let mut packed =
            [args[1].clone(), EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[3, k, 8]))];
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
fn a_tile_is_splits_and_an_order() {
    let before = matmul_symbolic(32, 16);
    let mut s = Schedule::new(before.clone());
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (over, within) = s.tile(&[i, j], &[6, 16]).unwrap();
    assert_eq!(s.get_loops("matmul").unwrap(), [over, within, vec![k]].concat());
    let refused = s.clone().tile(&[k, i], &[4, 4]).unwrap_err();
    assert_eq!(refused.primitive, "tile");
    assert!(refused.why.contains("no such loop"), "{refused}");
    let mut whole = s.clone();
    assert!(whole.tile(&[k], &[4, 4]).unwrap_err().why.contains("2 sizes for 1 loops"));
    // The reduction would be cut across: nothing is left changed.
    let [.., ki] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let inner = s.split(ki, 4).unwrap().1;
    let outer = s.get_loops("matmul").unwrap()[4];
    let text = format!("{:?}", s.func().body);
    assert!(s.tile(&[inner, outer], &[2, 2]).unwrap_err().why.starts_with("reorder"));
    assert_eq!(format!("{:?}", s.func().body), text);
    property(4, |u| {
        let args = arguments(u, &before, 13)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn a_cached_tile_reads_the_copy_in_the_blocks_within() {
    let mut s = Schedule::new(matmul(8.into(), 8.into(), 8.into()));
    let a = s.get_block("matmul").unwrap().reads[0].buffer;
    let copy = s.cache_read("matmul", a, Scope::Global).unwrap();
    let outer = s.get_loops(&copy).unwrap()[0];
    let tile = s.blockize(outer).unwrap();
    s.cache_read(&tile, a, Scope::Local).unwrap();
    for name in [&tile, &copy] {
        assert!(s.get_block(name).unwrap().reads.iter().all(|r| r.buffer != a), "{name}");
    }
}

#[test]
fn a_buffer_inside_of_a_loop_is_not_cached_outside() {
    let mut s = Schedule::new(chain(8));
    let [i, ..] = s.get_loops("bias_add").unwrap()[..] else { unreachable!() };
    s.compute_at("scale", i).unwrap();
    s.store_at("scale", i, Scope::Global).unwrap();
    let buffer = s.get_block("scale").unwrap().writes[0].buffer;
    let refused = s.cache_write("scale", Scope::Global).unwrap_err();
    assert!(refused.why.contains("allocated for other statements"), "{refused}");
    let refused = s.cache_read("bias_add", buffer, Scope::Global).unwrap_err();
    assert!(refused.why.contains("allocated for other statements"), "{refused}");
}

/// A cached read gives the block iterators that follow its own; loops rebuilt from all of them would run
/// pairs that are no instances.
#[test]
fn a_block_moves_only_if_its_iterators_are_independent() {
    let mut s = Schedule::new(chain(8));
    let [_, j] = s.get_loops("bias_add").unwrap()[..] else { unreachable!() };
    let bias = s.get_block("bias_add").unwrap().reads[1].buffer;
    let copy = s.cache_read_at("bias_add", bias, j, Scope::Local).unwrap();
    let [consumer, ..] = s.get_loops("exp").unwrap()[..] else { unreachable!() };
    let refused = s.compute_at("bias_add", consumer).unwrap_err();
    assert!(refused.why.contains("iterators follow each other"), "{refused}");
    let copies = *s.get_loops(&copy).unwrap().last().unwrap();
    let refused = s.reverse_compute_at("bias_add", copies).unwrap_err();
    assert!(refused.why.contains("iterators follow each other"), "{refused}");
    // Fused loops run all combinations.
    let mut s = Schedule::new(chain(8));
    let [i2, j2] = s.get_loops("bias_add").unwrap()[..] else { unreachable!() };
    s.fuse(i2, j2).unwrap();
    let [consumer, ..] = s.get_loops("exp").unwrap()[..] else { unreachable!() };
    s.compute_at("bias_add", consumer).unwrap();
}

#[test]
fn nothing_moves_into_a_tile() {
    let mut s = Schedule::new(chain(8));
    let [i, ..] = s.get_loops("scale").unwrap()[..] else { unreachable!() };
    let tile = s.blockize(i).unwrap();
    let refused = s.reverse_compute_at("bias_add", i).unwrap_err();
    assert!(refused.why.contains(&format!("inside block `{tile}`")), "{refused}");
    let mut s = Schedule::new(chain(8));
    let [i, ..] = s.get_loops("bias_add").unwrap()[..] else { unreachable!() };
    s.blockize(i).unwrap();
    assert!(s.compute_at("scale", i).unwrap_err().why.contains("inside block"));
}

#[test]
fn a_tile_can_be_one_block() {
    let before = matmul(13.into(), 32.into(), 8.into());
    let mut s = Schedule::new(before.clone());
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 4).unwrap();
    let (jo, ji) = s.split(j, 16).unwrap();
    s.reorder(&[io, jo, ii, ji, k]).unwrap();
    s.decompose_reduction("matmul", k).unwrap();
    let refused = s.blockize(ii).unwrap_err();
    assert!(refused.why.contains("something other than one block"), "{refused}");
    let mut s = Schedule::new(before.clone());
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 4).unwrap();
    let (jo, ji) = s.split(j, 16).unwrap();
    let (ko, ki) = s.split(k, 2).unwrap();
    s.reorder(&[io, jo, ko, ii, ji, ki]).unwrap();
    assert_eq!(s.blockize(ii).unwrap(), "matmul_o");
    assert_eq!(s.get_loops("matmul_o").unwrap(), [io, jo, ko]);
    assert_eq!(s.get_loops("matmul").unwrap(), [ii, ji, ki]);
    let iters = &s.get_block("matmul_o").unwrap().iters;
    let extents: Vec<_> = iters.iter().map(|i| i.extent.as_int()).collect();
    assert_eq!(extents, [Some(4), Some(2), Some(4)]);
    // The block moves as a whole, and what is in it stays in it.
    s.reorder(&[jo, io]).unwrap();
    s.parallel(jo).unwrap();
    assert!(s.parallel(ko).is_err());
    let refused = s.cache_write("matmul", Scope::Local).unwrap_err();
    assert!(refused.why.contains("lies inside block `matmul_o`"), "{refused}");
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn rows_of_an_intermediate_can_be_put_apart() {
    let before = dense(6.into(), 30, 3);
    let mut s = Schedule::new(before.clone());
    s.storage_align("matmul", 0, 16, 1).unwrap();
    let buffer = s.get_block("matmul").unwrap().writes[0].buffer;
    let shape = &s.func().buffers[buffer].shape;
    assert_eq!(shape.iter().map(Expr::as_int).collect::<Vec<_>>(), [Some(6), Some(33)]);
    assert!(s.storage_align("matmul", 1, 16, 0).unwrap_err().why.contains("no rows below"));
    assert!(s.storage_align("matmul", 0, 4, 4).unwrap_err().why.contains("no step"));
    let refused = s.storage_align("relu", 0, 16, 0).unwrap_err();
    assert!(refused.why.contains("not an intermediate"), "{refused}");
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn a_product_can_be_padded_to_whole_tiles() {
    let before = dense(13.into(), 21, 5);
    let mut s = Schedule::new(before.clone());
    let padded = s.pad_einsum("matmul", &[4, 8, 2]).unwrap();
    assert_eq!(
        (&padded.operands[..], &padded.result[..]),
        (&["a_pad".into(), "b_pad".into()][..], "c_pad")
    );
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    assert_eq!([i, j, k].map(|v| s.extent(v).unwrap()), [Some(16), Some(24), Some(6)]);
    s.tile(&[i, j], &[4, 8]).unwrap();
    assert_eq!(s.get_block("matmul").unwrap().predicate.as_int(), Some(1));
    let refused = s.pad_einsum("matmul", &[4, 8, 1]).unwrap_err();
    assert!(refused.why.contains("no axis grows") || refused.why.contains("guarded"), "{refused}");
    assert!(s.pad_einsum("relu", &[2, 2]).unwrap_err().why.contains("not a sum"));
    property(20, |u| {
        let mut args = arguments(u, &before, 1)?;
        // Results below the least number, infinities and NaN come out as they did.
        let mut odd = |at: usize, values: &[f32]| {
            let shape: Vec<i64> = args[at].tensor().shape.clone();
            let mut all = args[at].tensor().to_f32();
            for value in values {
                let place = u.choose_index(all.len())?;
                all[place] = *value;
            }
            args[at] = EvalArg::Tensor(EvalTensor::f32(&shape, &all));
            arbtest::arbitrary::Result::Ok(())
        };
        odd(0, &[f32::INFINITY, -1e-30, 1e-30, -0.0])?;
        odd(1, &[f32::NEG_INFINITY, f32::NAN, 1e-30, -1e-30, -0.0])?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn axes_that_are_stepped_through_as_one_are_merged() {
    let before = chain(7);
    let mut s = Schedule::new(before.clone());
    s.compute_inline("scale").unwrap();
    let [i, j] = s.get_loops("bias_add").unwrap()[..] else { unreachable!() };
    let refused = s.collapse_axes(i, j, "m").unwrap_err();
    assert!(refused.why.contains("`bias` is not stepped through as one"), "{refused}");
    let [i, j] = s.get_loops("exp").unwrap()[..] else { unreachable!() };
    let m = s.collapse_axes(i, j, "m").unwrap();
    let Stmt::Store { indices, .. } = &s.get_block("exp").unwrap().body else { unreachable!() };
    assert_eq!(indices.len(), 1);
    let (o, l) = s.split(m, 8).unwrap();
    s.vectorize(l).unwrap();
    s.parallel(o).unwrap();
    assert_eq!(
        s.steps(),
        [
            "compute_inline scale",
            "collapse_axes i0, i1 of exp -> m",
            "split m by 8 -> m_0, m_1",
            "vectorize m_1",
            "parallel m_0"
        ]
    );
    property(4, |u| {
        let args = arguments(u, &before, 5)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn iterations_stay_independent_when_steps_are_symbolic() {
    let mut f = FuncBuilder::new("rows");
    let (n, m, k) = (f.symbol("n"), f.symbol("m"), f.symbol("k"));
    let shape = vec![n, m.clone(), k.clone()];
    let x = f.input("x", DType::F32, shape.clone());
    let y = f.input("y", DType::F32, vec![m, k]);
    f.output("add", "z", DType::F32, shape, |f, i| f.at(x, i) + f.at(y, &i[1..]));
    let before = f.finish();
    let mut s = Schedule::new(before.clone());
    let [i, j, l] = s.get_loops("add").unwrap()[..] else { unreachable!() };
    let m = s.collapse_axes(j, l, "m").unwrap();
    let (_, lanes) = s.split(m, 8).unwrap();
    s.vectorize(lanes).unwrap();
    let (main, other) = s.specialize(i, Expr::var(abi::scalar_vars(s.func())[0]).ge(3)).unwrap();
    s.parallel(main).unwrap();
    let cond = Expr::var(abi::scalar_vars(s.func())[1]).ge(4);
    let (task, _) = s.parallel_if(other, &cond).unwrap();
    assert_eq!(s.get_loop(task).unwrap().kind, ForKind::Parallel);
    assert_eq!(
        s.steps()[3..],
        [
            "specialize i0 where n >= 3, else i0_else",
            "parallel i0",
            "parallel i0_else where m >= 4 -> task, i0_else"
        ]
    );
    let moving = Expr::var(task).ge(1);
    let loops = s.get_loops("add_else").unwrap();
    let refused = s.specialize(*loops.last().unwrap(), moving.clone()).unwrap_err();
    assert!(refused.why.contains("kind"), "{refused}");
    assert!(s.parallel_if(loops[1], &moving).unwrap_err().why.contains("not one over extents"));
    property(12, |u| {
        let symbol = u.int_in_range(1..=6)?;
        let args = arguments(u, &before, symbol)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn zeros_added_to_a_sum_keep_the_sign_of_what_was_rounded_to_zero() {
    let mut f = FuncBuilder::new("tiny");
    let a = f.input("a", DType::F32, vec![3.into(), 5.into()]);
    let b = f.input("b", DType::F32, vec![5.into()]);
    let fma = |sum: Expr, product: Expr| match product.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } => {
            Expr::call(Intrin::Fma, vec![a.clone(), b.clone(), sum])
        }
        _ => unreachable!("a product"),
    };
    let sum = Reducer { init: Expr::float(0.0, DType::F32), combine: &fma };
    f.reduce_output("sum", "y", DType::F32, vec![3.into()], &[5.into()], sum, |f, i, k| {
        f.at(a, &[i[0].clone(), k[0].clone()]) * f.at(b, k)
    });
    let before = f.finish();
    let mut s = Schedule::new(before.clone());
    s.pad_einsum("sum", &[1, 4]).unwrap();
    let tiny = [EvalTensor::f32(&[3, 5], &[-1e-30; 15]), EvalTensor::f32(&[5], &[1e-30; 5])];
    let mut args: Vec<EvalArg> = tiny.into_iter().map(EvalArg::Tensor).collect();
    args.push(EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[3])));
    assert_same(&before, s.func(), &args, &String::new);
    eval::eval(s.func(), &mut args).unwrap();
    assert!(args[2].tensor().to_f32().iter().all(|y| y.to_bits() == (-0.0f32).to_bits()));
}

/// Checks a schedule on a few arguments.
fn assert_keeps(before: &reflex_tir::PrimFunc, s: &Schedule) {
    property(4, |u| {
        let args = arguments(u, before, 5)?;
        assert_same(before, s.func(), &args, &|| s.steps().join("\n"));
        Ok(())
    });
}

#[test]
fn nests_are_merged_down_to_a_loop() {
    let before = chain(7);
    let mut s = Schedule::new(before.clone());
    let at = |s: &Schedule, block| s.get_loops(block).unwrap();
    let [scale, bias, exp] = ["scale", "bias_add", "exp"].map(|block| at(&s, block)[1]);
    assert_eq!(s.merge(&[scale, bias, exp]).unwrap(), scale);
    assert_eq!(at(&s, "exp"), at(&s, "scale"));
    assert_keeps(&before, &s);
    // The second stage of a softmax needs all of the first's row.
    let mut s = Schedule::new(softmax(3, 8));
    let (max, sum) = (at(&s, "max")[1], at(&s, "sum")[1]);
    let steps = s.steps().len();
    s.merge(&[max, sum]).unwrap_err();
    assert_eq!(s.steps().len(), steps, "a part of it was done");
    let (outer, inner) = (at(&s, "max")[0], at(&s, "sum")[1]);
    let refused = s.merge(&[outer, inner]).unwrap_err();
    assert_eq!(refused.why, "the loops are not equally deep");
}

/// `y[i, j] = x[i, j - 2]` where that is inside, else 0.
fn padded() -> reflex_tir::PrimFunc {
    let mut f = FuncBuilder::new("pad");
    let n = f.symbol("n");
    let x = f.input("x", DType::F32, vec![n.clone(), 6.into()]);
    f.output("pad", "y", DType::F32, vec![n, 10.into()], |f, i| {
        let column = i[1].clone() - 2;
        let inside = column.clone().ge(0).and(column.clone().lt(6));
        let value = f.at(x, &[i[0].clone(), column]);
        Expr::if_then_else(inside, value, Expr::float(0.0, DType::F32))
    });
    f.finish()
}

#[test]
fn the_constant_of_a_padding_is_stored_first() {
    for depth in 0..2 {
        let before = padded();
        let mut s = Schedule::new(before.clone());
        let at = s.get_loops("pad").unwrap()[depth];
        assert_eq!(s.decompose_padding("pad", at).unwrap(), "pad_pad_const");
        assert_eq!(s.blocks(), ["pad_pad_const", "pad"]);
        assert_eq!(s.get_loops("pad_pad_const").unwrap().len(), 2);
        let Stmt::Store { value, .. } = &s.get_block("pad").unwrap().body else { unreachable!() };
        assert!(matches!(value.kind(), ExprKind::Load { .. }), "{value:?}");
        for block in ["pad_pad_const", "pad"] {
            let [.., row] = s.get_loops(block).unwrap()[..] else { unreachable!() };
            s.vectorize(row).unwrap();
        }
        assert_keeps(&before, &s);
    }
    // What is written twice keeps the order of its writes.
    let mut s = Schedule::new(dense(4.into(), 8, 3));
    let at = s.get_loops("relu").unwrap()[0];
    let refused = s.decompose_padding("relu", at).unwrap_err();
    assert_eq!(refused.why, "its value is no choice between two");
}

#[test]
fn copies_are_laid_out_as_a_block_iterates() {
    let before = matmul(6.into(), 8.into(), 5.into());
    let mut s = Schedule::new(before.clone());
    let b = s.get_block("matmul").unwrap().reads[1].buffer;
    s.reorder_block_iters("matmul", &[1, 0, 2]).unwrap();
    let read = s.reindex_read("matmul", b, Scope::Global).unwrap();
    let shape = |s: &Schedule, b: reflex_tir::Buffer| -> Vec<Option<i64>> {
        s.func().buffers[b].shape.iter().map(Expr::as_int).collect()
    };
    // Iterators in the block's order: columns come before the reduction.
    assert_eq!((&read.iters[..], shape(&s, read.buffer)), (&[0, 2][..], vec![Some(8), Some(5)]));
    let write = s.reindex_write("matmul", Scope::Global).unwrap();
    assert_eq!(shape(&s, write.buffer), [Some(8), Some(6)]);
    assert_eq!(s.blocks(), [&*read.block, "matmul", &*write.block]);
    assert_keeps(&before, &s);
    // Outside of the padding there is nothing to copy.
    let mut s = Schedule::new(padded());
    let x = s.get_block("pad").unwrap().reads[0].buffer;
    let refused = s.reindex_read("pad", x, Scope::Global).map(|made| made.block).unwrap_err();
    assert!(refused.why.contains("index 1 may lie outside"), "{refused}");
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

/// Loops that are rebuilt from iterators run all of their domains, so that those before must have.
#[test]
fn blocks_that_run_a_part_of_their_domain_stay_where_they_are() {
    let kernel = |loops: &str, value: &str| {
        let text = format!(
            r#"
@T.prim_func(s_tir=True)
def part(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    B = T.sblock_alloc_buffer((8,))
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = X[v] * T.float32(2)
    for i, j in T.grid({loops}):
        with T.sblock("C"):
            v = T.axis.spatial(8, {value})
            Y[v] = B[v] + T.float32(1)
"#
        );
        let before = reflex_tir::script::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let mut s = Schedule::new(before.clone());
        let at = s.get_loops("B").unwrap()[0];
        let moved = s.reverse_compute_at("C", at);
        assert_keeps(&before, &s);
        moved.map_err(|refused| refused.why)
    };
    let part = "its iterators follow each other: its loops run a part of its domain";
    for (loops, value) in [
        ("1, 4", "j * 2 + i"),
        ("2, 3", "i * 4 + j"),
        ("1, 7", "j + i"),
        ("1, 7", "j + 1 + i"),
        ("2, 2", "i + j"),
        ("2, 4", "(i + j) % 2 * 4 + j"),
    ] {
        assert_eq!(kernel(loops, value).unwrap_err(), part, "{value}");
    }
    for (loops, value) in [
        ("2, 4", "i * 4 + j"),
        ("4, 2", "j * 4 + i"),
        ("1, 8", "j + i"),
        ("4, 4", "(i * 4 + j) // 2"),
        ("8, 2", "i // 2 + j * 4"),
        // Windows that overlap.
        ("3, 4", "i * 2 + j"),
    ] {
        assert_eq!(kernel(loops, value), Ok(()), "{value}");
    }
}
