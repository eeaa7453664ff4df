//! Lowering: what becomes of blocks, allocations and guards, and that no pass changes a bit.

mod common;

use arbtest::arbtest;
use common::random::{loops_of, step};
use common::{any_func, arguments, conv, dense, matmul, matmul_symbolic};
use reflex_tir::eval::{self, Arg};
use reflex_tir::lower::{self, PASSES};
use reflex_tir::schedule::Schedule;
use reflex_tir::verify::{Form, verify};
use reflex_tir::{Buffer, ForKind, PrimFunc, Scope, Stmt};

/// Evaluates after every pass. `lower_math` is left out: it may change the last bits.
fn assert_each_pass_preserves(func: &PrimFunc, args: &[Arg], what: &dyn Fn() -> String) {
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
            "bind_once" | "plan_allocations" => Form::Scheduled,
            _ => Form::Lowered,
        };
        if let Err(faults) = verify(&func, form) {
            panic!("{name}: {faults:?}\n{}\n{before:#?}\n{func:#?}", what());
        }
        assert!(actual == expected, "{name} changes results\n{}\n{before:#?}\n{func:#?}", what());
    }
}

#[test]
fn lowering_preserves_random_schedules() {
    arbtest(|u| {
        let mut s = Schedule::new(any_func(u)?);
        let mut log = vec![];
        for _ in 0..u.int_in_range(0..=8)? {
            log.extend(step(u, &mut s)?);
        }
        let args = arguments(u, s.func(), 5)?;
        let lowered = lower::lower(s.func());
        assert_eq!(verify(&lowered, Form::Lowered), Ok(()), "{}", log.join("\n"));
        assert_each_pass_preserves(s.func(), &args, &|| log.join("\n"));
        Ok(())
    })
    .budget_ms(8_000);
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

/// A fused matrix product over tiles of 6 by 16, accumulated in registers.
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

#[test]
fn guards_stay_in_the_tail_only() {
    let mut s = Schedule::new(matmul_symbolic(32, 7));
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 6).unwrap();
    s.reorder(&[io, j, k, ii]).unwrap();
    let lowered = lower::lower(s.func());
    let Stmt::Seq(parts) = &lowered.body else { panic!("{lowered:#?}") };
    let guards = |s: &Stmt| {
        let mut found = 0;
        s.visit(&mut |s| found += usize::from(matches!(s, Stmt::If { .. })));
        found
    };
    assert_eq!(guards(&parts[0]), 0, "{lowered:#?}");
    assert!(guards(&parts[1]) > 0, "{lowered:#?}");
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
