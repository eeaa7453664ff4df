//! Lowering: what becomes of blocks, allocations and guards, and that no pass changes a bit.

mod common;

use common::{any_func, conv, dense, matmul, matmul_symbolic, property};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::eval::{self, EvalArg, EvalTensor};
use reflex_tir::fuzzgen::{arguments, bindings, loops_of, steps};
use reflex_tir::lower::{self, PASSES};
use reflex_tir::schedule::Schedule;
use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{
    Block, BlockIter, Buffer, DType, Expr, ForKind, IterKind, PrimFunc, Scope, Stmt, Var,
};

/// Evaluates after every pass. `lower_math` is left out: it may change the last bits.
fn assert_each_pass_preserves(func: &PrimFunc, args: &[EvalArg], what: &dyn Fn() -> String) {
    let mut expected = args.to_vec();
    eval::eval(func, &mut expected).unwrap_or_else(|e| panic!("scheduled: {e}\n{}", what()));
    let mut func = func.clone();
    for (name, pass) in PASSES.iter().filter(|(name, _)| *name != "lower_math") {
        let before = func.clone();
        func = pass(&func);
        let mut actual = args.to_vec();
        eval::eval(&func, &mut actual)
            .unwrap_or_else(|e| panic!("{name}: {e}\n{}\n{before:#?}\n{func:#?}", what()));
        let form = match *name {
            "convert_ssa" | "plan_allocations" => IrForm::Scheduled,
            _ => IrForm::Lowered,
        };
        if let Err(faults) = verify(&func, form) {
            panic!("{name}: {faults:?}\n{}\n{before:#?}\n{func:#?}", what());
        }
        assert!(actual == expected, "{name} changes results\n{}\n{before:#?}\n{func:#?}", what());
    }
}

#[test]
fn lowering_preserves_random_schedules() {
    property(600, |u| {
        let mut s = Schedule::new(any_func(u)?);
        let mut log = steps(u, &mut s, 8)?;
        log.extend(bindings(u, &mut s)?);
        let args = arguments(u, s.func(), 5)?;
        let lowered = lower::lower(s.func());
        assert_eq!(verify(&lowered, IrForm::Lowered), Ok(()), "{}", log.join("\n"));
        assert_each_pass_preserves(s.func(), &args, &|| log.join("\n"));
        Ok(())
    });
}

fn count(func: &PrimFunc, test: fn(&Stmt) -> bool) -> usize {
    let mut count = 0;
    func.body.visit(&mut |s| count += usize::from(test(s)));
    count
}

fn allocated(func: &PrimFunc) -> Vec<Buffer> {
    let mut found = vec![];
    func.body.visit(&mut |s| {
        if let Stmt::Allocate { buffer, .. } = s {
            found.push(*buffer);
        }
    });
    found
}

/// A GEMM with its epilogue over tiles of 6 by 16, accumulated in registers.
fn tiled(rows: i64) -> Schedule {
    let mut s = Schedule::new(dense(rows.into(), 32, 5));
    s.compute_inline("bias_add").unwrap();
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 6).unwrap();
    let (jo, ji) = s.split(j, 16).unwrap();
    s.reorder(&[io, jo, k, ii, ji]).unwrap();
    s.reverse_compute_at("relu", jo).unwrap();
    s.set_scope("matmul", Scope::Local).unwrap();
    s.vectorize(ji).unwrap();
    s.unroll(ii).unwrap();
    let [.., ri, rj] = s.get_loops("relu").unwrap()[..] else { unreachable!() };
    s.vectorize(rj).unwrap();
    s.unroll(ri).unwrap();
    s
}

#[test]
fn inits_leave_their_reductions() {
    let lowered = lower::lower(&matmul(4.into(), 5.into(), 6.into()));
    assert_eq!(count(&lowered, |s| matches!(s, Stmt::If { .. })), 0);
    assert_eq!(loops_of(&lowered).len(), 3, "{lowered:#?}");
}

#[test]
fn accumulators_shrink_to_the_tile() {
    let lowered = lower::lower(tiled(12).func());
    let [tile] = allocated(&lowered)[..] else { panic!("{lowered:#?}") };
    assert_eq!(lowered.buffers[tile].shape, [6.into(), 16.into()]);
    assert_eq!(count(&lowered, |s| matches!(s, Stmt::If { .. })), 0);
}

/// A GEMM of symbolically many rows, six at a time.
fn rows_by_six(change: impl FnOnce(&mut Schedule, Var)) -> PrimFunc {
    let mut s = Schedule::new(matmul_symbolic(32, 7));
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 6).unwrap();
    s.reorder(&[io, j, k, ii]).unwrap();
    change(&mut s, ii);
    lower::lower(s.func())
}

fn is_guard(s: &Stmt) -> bool {
    matches!(s, Stmt::If { .. })
}

#[test]
fn guards_stay_in_the_tail_only() {
    let lowered = rows_by_six(|s, rows| s.unroll(rows).unwrap());
    let Stmt::Seq(parts) = &lowered.body else { panic!("{lowered:#?}") };
    let guards = |s: &Stmt| {
        let mut found = 0;
        s.visit(&mut |s| found += usize::from(is_guard(s)));
        found
    };
    assert_eq!(guards(&parts[0]), 0, "{lowered:#?}");
    assert!(guards(&parts[1]) > 0, "{lowered:#?}");
}

#[test]
fn serial_loops_of_the_tail_end_early_instead() {
    let lowered = rows_by_six(|_, _| ());
    assert!(matches!(&lowered.body, Stmt::Seq(parts) if parts.len() == 2), "{lowered:#?}");
    assert_eq!(count(&lowered, is_guard), 0, "{lowered:#?}");
    let unknown = |s: &Stmt| matches!(s, Stmt::For(l) if l.extent.as_int().is_none());
    // The loop over sixes, and the rows of the tail.
    assert!(count(&lowered, unknown) >= 2, "{lowered:#?}");
}

#[test]
fn parallel_loops_keep_their_range() {
    let mut s = Schedule::new(conv(20, 3));
    s.compute_inline("pad").unwrap();
    let [_, h, _, _] = s.get_loops("conv").unwrap()[..] else { unreachable!() };
    s.parallel(h).unwrap();
    let lowered = lower::lower(s.func());
    let parallel = |s: &Stmt| matches!(s, Stmt::For(l) if l.kind == ForKind::Parallel);
    assert!(count(&lowered, parallel) <= 2, "{lowered:#?}");
}

/// `for i { t[i] = x[i]; y[i] = t[i - back] }` as two blocks of one loop.
fn delayed(back: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("delayed");
    let x = f.input("x", DType::F32, vec![9.into()]);
    let y = f.declare_output("y", DType::F32, vec![9.into()]);
    let func = f.func_mut();
    let t = func.new_buffer("t", DType::F32, vec![9.into()], Scope::Global);
    func.allocs.push(t);
    let i = func.new_var("i");
    let mut block = |name: &str, store: &dyn Fn(&PrimFunc, Expr) -> Stmt| {
        let var = func.new_var("v");
        let (extent, value) = (9.into(), i.into());
        Stmt::Block(Box::new(Block {
            name: name.into(),
            iters: vec![BlockIter { var, extent, kind: IterKind::Spatial, value }],
            predicate: Expr::bool(true),
            reads: vec![],
            writes: vec![],
            init: None,
            allocs: vec![],
            annotations: Default::default(),
            body: store(func, var.into()),
        }))
    };
    let first = block("first", &|f, v| Stmt::store(t, vec![v.clone()], f.load(x, vec![v])));
    let second = block("second", &|f, v| {
        let at = v.clone() - back;
        let earlier = f.load(t, vec![at.clone()]);
        let value = Expr::if_then_else(at.ge(0), earlier, Expr::float(0.0, DType::F32));
        Stmt::store(y, vec![v], value)
    });
    f.push(Stmt::serial(i, 9.into(), Stmt::Seq(vec![first, second])));
    f.finish()
}

#[test]
fn what_a_later_iteration_reads_stays_outside_the_loop() {
    let values: Vec<f32> = (0..9).map(|i| i as f32).collect();
    let args = [
        EvalArg::Tensor(EvalTensor::f32(&[9], &values)),
        EvalArg::Tensor(EvalTensor::f32(&[9], &[f32::NAN; 9])),
    ];
    for (back, extent) in [(0, 1), (1, 9)] {
        let func = delayed(back);
        assert_each_pass_preserves(&func, &args, &|| format!("back {back}"));
        let lowered = lower::lower(&func);
        let [t] = allocated(&lowered)[..] else { panic!("{lowered:#?}") };
        assert_eq!(lowered.buffers[t].shape, [extent.into()], "back {back}");
    }
}

#[test]
fn loops_are_not_split_by_what_they_write() {
    let mut f = FuncBuilder::new("changes");
    let out = f.declare_output("out", DType::I64, vec![Expr::i64(16)]);
    let state = f.func_mut().new_buffer("state", DType::I64, vec![1.into()], Scope::Local);
    let e = f.func_mut().new_var("e");
    let (at, now) = (Expr::from(e), f.at(state, &[0.into()]));
    let set = Stmt::store(state, vec![0.into()], at.clone() * 2);
    let put = Stmt::store(out, vec![at.clone()], 1.into());
    let cond = (now + 1).lt(Expr::i64(16) - at);
    let test = Stmt::If { cond, then: Box::new(put), otherwise: None };
    let nest = Stmt::serial(e, Expr::i64(16), Stmt::Seq(vec![set, test]));
    f.push(Stmt::Allocate { buffer: state, body: Box::new(nest) });
    let func = f.finish();
    let args = [EvalArg::Tensor(EvalTensor::zeros(DType::I64, &[16]))];
    assert_each_pass_preserves(&func, &args, &|| "a condition on a state".to_owned());
}
