//! Barrier objects, bulk copies and warpgroups: the warp-specialised GEMM, and planted mistakes.

mod common;

use common::{Run, text};
use half::bf16;
use reflex_ptx::{Arch, Fault, FaultKind, LaunchOptions, Module, Order, Swizzle, TensorMap};

const ORDERS: [Order; 4] = [Order::Index, Order::Reverse, Order::Seeded(5), Order::Seeded(41)];
const K: usize = 320;
const STAGES: u32 = 4 * (128 + 64) * 64 * 2;

/// Runs the GEMM of 128 rows and 64 columns with a text that may be changed; the result.
fn gemm(text: &str, order: Order) -> Result<Vec<bf16>, Fault> {
    let mut run = Run::new("warp_specialised");
    run.module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    run.shared = STAGES + 64;
    let (a, b) = operands();
    let bytes = |x: &[bf16]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let (x, w, y) = (run.bytes(&bytes(&a)), run.bytes(&bytes(&b)), run.empty(128 * 64 * 2));
    let map = |address: u64, rows: u32| TensorMap {
        address,
        element: 2,
        dims: vec![K as u32, rows],
        strides: vec![K as u64 * 2],
        extents: vec![64, rows as u16],
        swizzle: Swizzle::Bytes128,
    };
    let params = run.params().bytes(&map(x, 128).to_bytes(), 64);
    let params = params.bytes(&map(w, 64).to_bytes(), 64).u64(y).u32(K as u32 / 64).u32(64);
    let fuel = 1 << 24;
    let options = LaunchOptions { order, arch: Arch::Sm90a, fuel, ..LaunchOptions::default() };
    run.go("ws", [1; 3], [384, 1, 1], params, &options)?;
    let out = run.read(y, 128 * 64 * 2);
    Ok(out.chunks(2).map(|two| bf16::from_le_bytes([two[0], two[1]])).collect())
}

/// Small integers, whose sums are exact.
fn operands() -> (Vec<bf16>, Vec<bf16>) {
    let a = (0..128 * K).map(|i| bf16::from_f32((i * 7 % 13) as f32 - 6.0));
    let b = (0..64 * K).map(|i| bf16::from_f32((i * 5 % 11) as f32 - 5.0));
    (a.collect(), b.collect())
}

#[test]
fn warp_specialised_gemm_multiplies() {
    let (a, b) = operands();
    let at = |i: usize| {
        let (row, column) = (i / 64, i % 64);
        let sum: f32 = (0..K).map(|k| a[row * K + k].to_f32() * b[column * K + k].to_f32()).sum();
        bf16::from_f32(sum)
    };
    let wanted: Vec<bf16> = (0..128 * 64).map(at).collect();
    for order in ORDERS {
        let found =
            gemm(&text("warp_specialised"), order).unwrap_or_else(|f| panic!("{order:?}: {f}"));
        assert_eq!(found, wanted, "{order:?}");
    }
}

/// The faults of the GEMM with one mistake planted in its text.
fn planted(from: &str, to: &str) -> Vec<FaultKind> {
    let text = text("warp_specialised");
    assert!(text.contains(from), "{from}");
    let text = text.replace(from, to);
    ORDERS.map(|order| gemm(&text, order).map(drop).expect_err("a planted mistake").kind).to_vec()
}

/// Whether an access without order, in one of its forms, was found in every order.
fn no_order(kinds: &[FaultKind]) -> bool {
    kinds.iter().all(|kind| {
        matches!(
            kind,
            FaultKind::Race { .. }
                | FaultKind::AsyncPending { .. }
                | FaultKind::Uninitialised { .. }
        )
    })
}

#[test]
fn consumers_that_do_not_wait() {
    // The consumer's wait is the first one of the text.
    let text = text("warp_specialised");
    let wait = "mbarrier.try_wait.parity.shared::cta.b64 p, [%r26], %r27;";
    assert!(text.contains(wait));
    let text = text.replace(wait, "setp.eq.u32 p, 0, 0;");
    let kinds = ORDERS.map(|order| gemm(&text, order).map(drop).expect_err("planted").kind);
    assert!(no_order(&kinds), "{kinds:?}");
}

#[test]
fn wrong_phase_of_the_consumers() {
    let kinds = planted("bfe.u32 \t%r27, %r99, 2, 1;", "mov.u32 \t%r27, 1;");
    assert!(no_order(&kinds), "{kinds:?}");
}

#[test]
fn wrong_phase_of_the_producer() {
    // It waits for a phase that no thread completes.
    let kinds = planted("bfe.u32 \t%r80, %r92, 2, 1;", "mov.u32 \t%r80, 0;");
    assert!(kinds.iter().all(|kind| matches!(kind, FaultKind::Deadlock { .. })), "{kinds:?}");
    // It does not wait for consumers.
    let wait = "mbarrier.try_wait.parity.shared::cta.b64 p, [%r79], %r80;";
    let kinds = planted(wait, "setp.eq.u32 p, 0, 0;");
    let found = |kind: &FaultKind| {
        matches!(kind, FaultKind::Mbarrier { .. }) || no_order(std::slice::from_ref(kind))
    };
    assert!(kinds.iter().all(found), "{kinds:?}");
}

#[test]
fn transaction_counts() {
    // More bytes are expected than come.
    let expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r86], %r82;";
    let more = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r86], 24592;";
    let kinds = planted(expect, more);
    assert!(kinds.iter().all(|kind| matches!(kind, FaultKind::Deadlock { .. })), "{kinds:?}");
    // None is expected, so the phase ends before the copies do.
    let kinds = planted(expect, "mbarrier.arrive.shared::cta.b64 _, [%r86];");
    let found = |kind: &FaultKind| {
        matches!(kind, FaultKind::Deadlock { .. } | FaultKind::Mbarrier { .. })
            || no_order(std::slice::from_ref(kind))
    };
    assert!(kinds.iter().all(found), "{kinds:?}");
}

#[test]
fn registers_of_products_without_a_fence() {
    let kinds = planted("wgmma.fence.sync.aligned;", "");
    assert!(kinds.iter().all(|kind| *kind == FaultKind::RegisterFence), "{kinds:?}");
}

#[test]
fn release_before_the_products_are_done() {
    let kinds = planted("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 7;");
    assert!(no_order(&kinds), "{kinds:?}");
}

#[test]
fn barrier_objects_that_are_not_there() {
    let kinds = planted("mbarrier.init.shared::cta.b64 [%r17], 2;", "");
    let missing = |kind: &FaultKind| matches!(kind, FaultKind::Mbarrier { .. });
    assert!(kinds.iter().all(missing), "{kinds:?}");
    let kinds = planted(
        "mbarrier.init.shared::cta.b64 [%r17], 2;",
        "mbarrier.init.shared::cta.b64 [%r17], 1;",
    );
    let found = |kind: &FaultKind| {
        missing(kind)
            || matches!(kind, FaultKind::Deadlock { .. })
            || no_order(std::slice::from_ref(kind))
    };
    assert!(kinds.iter().all(found), "{kinds:?}");
    // Without the barrier of the block, others use an object that may not be there yet.
    let kinds = planted("bar.sync \t0;", "");
    assert!(kinds.iter().all(found), "{kinds:?}");
}

#[test]
fn unwaited_sums_are_not_read() {
    let text = text("warp_specialised").replace("wgmma.wait_group.sync.aligned 0;", "");
    let found = gemm(&text, Order::Index).expect("it ends");
    let good = gemm(&common::text("warp_specialised"), Order::Index).expect("it ends");
    assert_ne!(found, good);
}

#[test]
fn generic_writes_need_a_fence_before_bulk_stores() {
    let body = |fence: &str| {
        format!(
            "mov.u64 %rd1, q; mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; shl.b32 %r3, %r1, 2;
             add.s32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1; {fence} bar.sync 0;
             setp.ne.u32 %p1, %r1, 0; @%p1 bra E; ld.param.u64 %rd2, [p];
             cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd2, {{0}}], [%r2];
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:"
        )
    };
    let go = |fence: &str, order: Order| {
        let mut run = Run::body(&body(fence));
        run.shared = 1024;
        let out = run.empty(128);
        let map = TensorMap {
            address: out,
            element: 4,
            dims: vec![32],
            strides: vec![],
            extents: vec![32],
            swizzle: Swizzle::None,
        };
        let map = run.bytes(&map.to_bytes());
        let params = run.params().u64(map).u64(0).u32(0);
        let options = LaunchOptions { order, arch: Arch::Sm90a, ..LaunchOptions::default() };
        run.go("k", [1; 3], [32, 1, 1], params, &options).map(|_| run.read(out, 128))
    };
    for order in ORDERS {
        let found = go("fence.proxy.async.shared::cta;", order).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(found, (0..32_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        let fault = go("", order).expect_err("planted");
        assert!(matches!(fault.kind, FaultKind::ProxyFence { .. }), "{fault}");
    }
}

#[test]
fn boxes_beyond_a_tensor_are_zero() {
    let body = "mov.u32 %r2, dyn; ld.param.u64 %rd2, [p]; add.s32 %r5, %r2, 512;
        mbarrier.init.shared.b64 [%r5], 1;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 128;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
            [%r2], [%rd2, {FIRST, 1}], [%r5];
        W: mbarrier.try_wait.parity.shared.b64 %p1, [%r5], 0; @!%p1 bra W;
        ld.param.u64 %rd3, [q]; mov.u32 %r6, 0;
        L: add.s32 %r7, %r2, %r6; ld.shared.u32 %r8, [%r7]; cvt.u64.u32 %rd4, %r6;
        add.s64 %rd5, %rd3, %rd4; st.global.u32 [%rd5], %r8; add.s32 %r6, %r6, 4;
        setp.lt.u32 %p2, %r6, 128; @%p2 bra L;";
    let go = |first: &str| {
        let mut run = Run::body(&body.replace("FIRST", first));
        run.shared = 1024;
        let values: Vec<u8> = (1..=12_u32).flat_map(u32::to_le_bytes).collect();
        let (tensor, out) = (run.bytes(&values), run.empty(128));
        // Three rows of three, of which each has a fourth element behind it; the box has eight by four
        // and begins left of the second row.
        let map = TensorMap {
            address: tensor,
            element: 4,
            dims: vec![3, 3],
            strides: vec![16],
            extents: vec![8, 4],
            swizzle: Swizzle::None,
        };
        let map = run.bytes(&map.to_bytes());
        let params = run.params().u64(map).u64(out).u32(0);
        let options = LaunchOptions { arch: Arch::Sm90a, ..LaunchOptions::default() };
        run.go("k", [1; 3], [1; 3], params, &options).map(|_| run.read(out, 128))
    };
    let mut wanted = [0_u32; 32];
    wanted[4..7].copy_from_slice(&[5, 6, 7]);
    wanted[12..15].copy_from_slice(&[9, 10, 11]);
    let wanted: Vec<u8> = wanted.into_iter().flat_map(u32::to_le_bytes).collect();
    assert_eq!(go("-4").unwrap_or_else(|f| panic!("{f}")), wanted);
    let fault = go("-1").expect_err("a box that begins between 16 bytes");
    assert!(matches!(fault.kind, FaultKind::Operand { .. }), "{fault}");
}
