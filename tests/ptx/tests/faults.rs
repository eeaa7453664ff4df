//! Every fault is found where it is planted, and not where the mistake is repaired.

mod common;

use common::Run;
use reflex_ptx::{Counters, Fault, FaultKind, LaunchOptions, Order, Policy, Space};

const ORDERS: [Order; 4] = [Order::Index, Order::Reverse, Order::Seeded(3), Order::Seeded(77)];

/// Runs a body with two buffers of 1024 written bytes and `n`.
fn run(body: &str, grid: u32, block: u32, options: &LaunchOptions) -> Result<Counters, Fault> {
    let mut run = Run::body(body);
    run.shared = 1024;
    let (p, q) = (run.bytes(&[0; 1024]), run.bytes(&[0; 1024]));
    let params = run.params().u64(p).u64(q).u32(8);
    run.go("k", [grid, 1, 1], [block, 1, 1], params, options)
}

/// The kind of fault of a body, the same in every order.
fn fault(body: &str, grid: u32, block: u32) -> FaultKind {
    let mut found = ORDERS.map(|order| {
        let options = LaunchOptions { order, fuel: 400_000, ..LaunchOptions::default() };
        let fault = run(body, grid, block, &options).expect_err("a planted fault");
        assert!(fault.line > 0 && !fault.instruction.is_empty(), "{fault}");
        fault.kind
    });
    let same =
        |a: &FaultKind, b: &FaultKind| std::mem::discriminant(a) == std::mem::discriminant(b);
    assert!(found.iter().all(|kind| same(kind, &found[0])), "{found:?}");
    std::mem::replace(&mut found[0], FaultKind::Trap)
}

fn clean(body: &str, grid: u32, block: u32) {
    for order in ORDERS {
        let options = LaunchOptions { order, fuel: 400_000, ..LaunchOptions::default() };
        run(body, grid, block, &options).unwrap_or_else(|fault| panic!("{fault}\n{body}"));
    }
}

const TID: &str = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2; mov.u32 %r20, dyn; shl.b32 %r21, %r1, 2; add.s32 %r2, %r20, %r21;\n";

fn with_tid(body: &str) -> String {
    format!("{TID}{body}")
}

#[test]
fn out_of_bounds() {
    let body = |offset: i32| with_tid(&format!("st.global.u32 [%rd3+{offset}], %r1;"));
    let kind = fault(&body(1024 - 124), 1, 32);
    assert!(matches!(kind, FaultKind::OutOfBounds { space: Space::Global, freed: false, .. }));
    clean(&body(1024 - 128), 1, 32);
    let shared = |offset: i32| with_tid(&format!("st.shared.u32 [%r2+{offset}], %r1;"));
    let kind = fault(&shared(1024 - 124), 1, 32);
    assert!(matches!(kind, FaultKind::OutOfBounds { space: Space::Shared, .. }));
    clean(&shared(1024 - 128), 1, 32);
    let local = |offset: i32| {
        format!(".local .b8 l[16]; mov.u64 %rd1, l; st.local.u32 [%rd1+{offset}], 1;")
    };
    assert!(matches!(fault(&local(16), 1, 1), FaultKind::OutOfBounds { space: Space::Local, .. }));
    clean(&local(12), 1, 1);
}

#[test]
fn null_and_host_addresses() {
    for address in ["0", "0x7fff12340000"] {
        let body = format!("mov.u64 %rd1, {address}; st.global.u32 [%rd1], 1;");
        assert!(matches!(fault(&body, 1, 1), FaultKind::OutOfBounds { .. }));
    }
}

#[test]
fn generic_addresses_are_not_those_of_a_space() {
    let body = |space: &str| {
        format!(
            "mov.u32 %r1, dyn; cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd2, %rd1;
             st{space}.u32 [%rd2], 1;"
        )
    };
    let kind = fault(&body(".shared"), 1, 1);
    assert!(matches!(kind, FaultKind::OutOfBounds { space: Space::Shared, .. }), "{kind:?}");
    clean(&body(""), 1, 1);
}

#[test]
fn freed_memory() {
    let mut run = Run::body("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1];");
    let buffer = run.bytes(&[1; 16]);
    let params = run.params().u64(buffer).u64(0).u32(0);
    let options = LaunchOptions::default();
    run.go("k", [1; 3], [1; 3], params.clone(), &options).unwrap();
    run.device.free(buffer).unwrap();
    let fault = run.go("k", [1; 3], [1; 3], params, &options).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::OutOfBounds { freed: true, .. }), "{fault}");
    assert!(run.device.read(buffer, 1).is_err() && run.device.free(buffer).is_err());
}

#[test]
fn misaligned() {
    let body = |offset: i32| with_tid(&format!("ld.global.v2.f32 {{%f1, %f2}}, [%rd1+{offset}];"));
    assert!(matches!(fault(&body(4), 1, 32), FaultKind::Misaligned { size: 8, .. }));
    clean(&body(8), 1, 32);
}

#[test]
fn uninitialised() {
    let read = with_tid("ld.shared.u32 %r3, [%r2];");
    assert!(matches!(fault(&read, 1, 32), FaultKind::Uninitialised { space: Space::Shared, .. }));
    clean(&with_tid("st.shared.u32 [%r2], %r1; ld.shared.u32 %r3, [%r2];"), 1, 32);
    let options = LaunchOptions { uninitialised: Policy::Allow, ..LaunchOptions::default() };
    run(&read, 1, 32, &options).unwrap();
    let mut fresh = Run::body("ld.param.u64 %rd1, [p]; ld.global.u16 %rs1, [%rd1+2];");
    let buffer = fresh.empty(16);
    fresh.device.write(buffer, &[1, 2]).unwrap();
    let params = fresh.params().u64(buffer).u64(0).u32(0);
    let fault = fresh.go("k", [1; 3], [1; 3], params, &LaunchOptions::default()).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Uninitialised { .. }), "{fault}");
}

#[test]
fn read_only() {
    let body = "mov.u64 %rd1, n; cvta.param.u64 %rd1, %rd1; st.u32 [%rd1], 1;";
    assert!(matches!(fault(body, 1, 1), FaultKind::ReadOnly { space: Space::Param, .. }));
    clean("mov.u64 %rd1, n; cvta.param.u64 %rd1, %rd1; ld.u32 %r1, [%rd1];", 1, 1);
}

#[test]
fn races_of_a_block() {
    let body = |barrier: &str| {
        with_tid(&format!(
            "st.shared.u32 [%r2], %r1; {barrier} xor.b32 %r3, %r21, 124; add.s32 %r4, %r20, %r3;
             ld.shared.u32 %r5, [%r4];"
        ))
    };
    assert!(matches!(
        fault(&body(""), 1, 32),
        FaultKind::Race { space: Space::Shared, .. } | FaultKind::Uninitialised { .. }
    ));
    clean(&body("bar.sync 0;"), 1, 64);
    clean(&body("bar.warp.sync -1;"), 1, 64);
}

#[test]
fn races_across_warps() {
    // A barrier of a warp does not order two warps.
    let body = |barrier: &str| {
        with_tid(&format!(
            "st.shared.u32 [%r2], %r1; bar.sync 0; st.shared.u32 [%r2], %r1; {barrier}
             xor.b32 %r3, %r21, 128; add.s32 %r4, %r20, %r3; ld.shared.u32 %r5, [%r4];"
        ))
    };
    let kind = fault(&body("bar.warp.sync -1;"), 1, 64);
    assert!(matches!(kind, FaultKind::Race { space: Space::Shared, .. }), "{kind:?}");
    clean(&body("bar.sync 0;"), 1, 64);
    clean(&body("barrier.sync 1, 64;"), 1, 64);
}

#[test]
fn races_of_readers_and_a_writer() {
    let body = |barrier: &str| {
        with_tid(&format!(
            "st.shared.u32 [%r2], %r1; bar.sync 0; ld.shared.u32 %r3, [%r20]; {barrier}
             setp.eq.u32 %p1, %r1, 5; @%p1 st.shared.u32 [%r20], %r1;"
        ))
    };
    let kind = fault(&body(""), 1, 64);
    assert!(
        matches!(kind, FaultKind::Race { write: true, .. } | FaultKind::Race { .. }),
        "{kind:?}"
    );
    clean(&body("bar.sync 0;"), 1, 64);
    clean(&body("barrier.sync 2, 64;"), 1, 64);
    clean(&body("bar.warp.sync -1;"), 1, 32);
}

#[test]
fn races_in_global_memory() {
    let body = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; st.global.u32 [%rd1], %r1;";
    let kind = fault(body, 2, 1);
    let FaultKind::Race { space: Space::Global, other, .. } = kind else {
        panic!("{kind:?}");
    };
    assert!(other.other_block);
    clean("ld.param.u64 %rd1, [p]; red.global.add.u32 [%rd1], 1;", 4, 32);
    // A barrier orders a block, not the grid.
    let body = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
        @%p1 st.global.u32 [%rd1], %r1; bar.sync 0; ld.global.u32 %r2, [%rd1];";
    clean(body, 1, 64);
    assert!(matches!(fault(body, 2, 64), FaultKind::Race { .. }));
    let options = LaunchOptions { races: Policy::Allow, ..LaunchOptions::default() };
    run(body, 2, 64, &options).unwrap();
}

#[test]
fn races_of_narrow_stores() {
    // Neighbouring halves do not race.
    let body = |stride: u32| {
        format!(
            "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, {stride};
             mul.wide.u32 %rd2, %r2, 2; add.s64 %rd3, %rd1, %rd2; cvt.u16.u32 %rs1, %r1;
             st.global.u16 [%rd3], %rs1;"
        )
    };
    clean(&body(0), 1, 64);
    assert!(matches!(fault(&body(1), 1, 64), FaultKind::Race { .. }));
}

#[test]
fn divergent_barriers() {
    let half = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra B;
        A: bar.warp.sync 0xffff; B: bar.warp.sync -1;";
    let kind = fault(half, 1, 32);
    assert!(matches!(
        kind,
        FaultKind::DivergentBarrier { .. } | FaultKind::DivergentCollective { .. }
    ));
    let two = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra B;
        A: bar.sync 0; B:";
    assert!(matches!(fault(two, 1, 32), FaultKind::DivergentBarrier { .. }));
    let other = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1; bra B;
        A: bar.sync 0; B:";
    assert!(matches!(fault(other, 1, 64), FaultKind::DivergentBarrier { .. }));
    let joined = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; add.u32 %r1, %r1, 1;
        A: bar.sync 0;";
    clean(joined, 1, 64);
    // Threads that have exited are not waited for.
    let early = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 ret; bar.sync 0;";
    clean(early, 1, 64);
}

#[test]
fn divergent_collectives() {
    let body = |mask: &str| {
        format!(
            "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @!%p1 bra A;
             shfl.sync.bfly.b32 %r2, %r1, 1, 31, {mask}; A: bar.warp.sync -1;"
        )
    };
    assert!(matches!(fault(&body("-1"), 1, 32), FaultKind::DivergentCollective { .. }));
    clean(&body("0xffff"), 1, 32);
    let outside = "mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xffff;";
    assert!(matches!(fault(outside, 1, 32), FaultKind::DivergentCollective { .. }));
    assert!(matches!(fault(outside, 1, 16), FaultKind::InactiveLane { lane: 20 }));
    clean("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 15, 31, 0xffff;", 1, 16);
}

#[test]
fn endless_loops() {
    let body = |end: u32| {
        format!("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, {end}; @%p1 bra L;")
    };
    assert!(matches!(fault(&body(0), 1, 32), FaultKind::OutOfFuel));
    clean(&body(20), 1, 32);
}

#[test]
fn polling_lets_others_run() {
    // Thread 0 waits in a loop for thread 1 of the same warp.
    let body = with_tid(
        "setp.eq.u32 %p1, %r1, 0; @%p1 bra W; st.volatile.global.u32 [%rd1], 1; bra E;
         W: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.u32 %p2, %r3, 0; @%p2 bra W; E:",
    );
    clean(&body, 1, 2);
}

#[test]
fn traps_and_tables() {
    assert_eq!(fault("trap;", 1, 1), FaultKind::Trap);
    let body = |index: u32| {
        format!("mov.u32 %r1, {index}; T: .branchtargets A, B; brx.idx %r1, T; A: trap; B:")
    };
    assert_eq!(fault(&body(2), 1, 1), FaultKind::BranchTable { index: 2 });
    clean(&body(1), 1, 1);
}

#[test]
fn copies_that_were_not_waited_for() {
    let body = |wait: &str| {
        format!(
            "ld.param.u64 %rd1, [p]; mov.u32 %r1, dyn;
             cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.commit_group; {wait}
             ld.shared.u32 %r2, [%r1];"
        )
    };
    assert!(matches!(fault(&body(""), 1, 1), FaultKind::AsyncPending { .. }));
    assert!(matches!(fault(&body("cp.async.wait_group 1;"), 1, 1), FaultKind::AsyncPending { .. }));
    clean(&body("cp.async.wait_group 0;"), 1, 1);
    clean(&body("cp.async.wait_all;"), 1, 1);
}

#[test]
fn samples_with_planted_mistakes() {
    for order in ORDERS {
        let options = LaunchOptions { order, ..LaunchOptions::default() };
        let mut run = Run::new("gemm_racy");
        let (a, b, c) = (run.floats(&[1.0; 1024]), run.floats(&[1.0; 1024]), run.empty(4096));
        let params = run.params().u64(a).u64(b).u64(c).u32(32).u32(32);
        let fault = run.go("gemm_racy", [2, 2, 1], [16, 16, 1], params, &options).unwrap_err();
        let kind = fault.kind;
        assert!(matches!(kind, FaultKind::Race { .. } | FaultKind::Uninitialised { .. }), "{kind}");
        let mut run = Run::new("pipeline_early");
        let (a, b) = (run.floats(&[1.0; 1024]), run.empty(4096));
        let params = run.params().u64(a).u64(b).u32(4);
        let fault = run.go("pipeline_early", [1; 3], [64, 1, 1], params, &options).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::AsyncPending { .. }), "{fault}");
        let mut run = Run::new("gather");
        let index: Vec<u8> = [64_i64; 32].iter().flat_map(|i| i.to_le_bytes()).collect();
        let (x, index, y) = (run.bytes(&[0; 128]), run.bytes(&index), run.empty(128));
        let params = run.params().u64(x).u64(index).u64(y).u64(64);
        let fault = run.go("gather_unchecked", [1; 3], [32, 1, 1], params, &options).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::OutOfBounds { address, .. } if address == x + 128));
    }
}

#[test]
fn launches_that_are_refused() {
    let mut run = Run::new("vector_add");
    let options = LaunchOptions::default();
    let params = run.params().u64(0).u64(0).u64(0).u32(0);
    let kind = |fault: Result<Counters, Fault>| fault.unwrap_err().kind;
    let refused = |kind| matches!(kind, FaultKind::Launch { .. });
    assert!(refused(kind(run.go("vector_add", [1; 3], [257, 1, 1], params.clone(), &options))));
    assert!(refused(kind(run.go("vector_add", [0, 1, 1], [1; 3], params.clone(), &options))));
    assert!(refused(kind(run.go("other", [1; 3], [1; 3], params.clone(), &options))));
    let short = run.params().u64(0);
    assert!(refused(kind(run.go("vector_add", [1; 3], [1; 3], short, &options))));
    run.shared = 1 << 20;
    assert!(refused(kind(run.go("vector_add", [1; 3], [1; 3], params, &options))));
}
