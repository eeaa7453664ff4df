//! Single instructions in small kernels, whose results 32 threads store.

mod common;

use common::Run;
use reflex_ptx::{Counters, Kind, LaunchOptions, Order, Policy};

/// The results `%r2` of a body in 32 threads, whose index is in `%r1`; the same in all orders.
fn results(body: &str) -> Vec<u32> {
    run(body, 32).0
}

/// The text of a body, whose results `%r2` are stored.
fn stored(body: &str) -> String {
    format!(
        "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4;
         add.s64 %rd3, %rd1, %rd2; {body} st.global.u32 [%rd3], %r2;"
    )
}

fn run(body: &str, threads: u32) -> (Vec<u32>, Counters) {
    let text = stored(body);
    let mut found = [Order::Index, Order::Reverse, Order::Seeded(11)].map(|order| {
        let mut run = Run::body(&text);
        run.shared = 1024;
        let (out, counter) = (run.empty(u64::from(threads) * 4), run.bytes(&[0; 64]));
        let params = run.params().u64(out).u64(counter).u32(3);
        let options = LaunchOptions { order, ..LaunchOptions::default() };
        let counters = run
            .go("k", [1; 3], [threads, 1, 1], params, &options)
            .unwrap_or_else(|fault| panic!("{fault}\n{body}"));
        let bytes = run.read(out, threads as usize * 4);
        let words = bytes.chunks(4).map(|w| u32::from_le_bytes(w.try_into().expect("four")));
        (words.collect::<Vec<u32>>(), counters)
    });
    assert!(found[0].0 == found[1].0 && found[0].0 == found[2].0, "{body}");
    std::mem::take(&mut found[0])
}

fn each(f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(f).collect()
}

#[test]
fn shuffles() {
    let shuffle = |how: &str| results(&format!("shfl.sync.{how}, -1;"));
    assert_eq!(shuffle("up.b32 %r2, %r1, 3, 0"), each(|t| if t >= 3 { t - 3 } else { t }));
    assert_eq!(shuffle("down.b32 %r2, %r1, 3, 31"), each(|t| if t + 3 < 32 { t + 3 } else { t }));
    assert_eq!(shuffle("bfly.b32 %r2, %r1, 5, 31"), each(|t| t ^ 5));
    assert_eq!(shuffle("idx.b32 %r2, %r1, 7, 31"), each(|_| 7));
    // Segments of eight lanes.
    assert_eq!(shuffle("idx.b32 %r2, %r1, 3, 6175"), each(|t| t / 8 * 8 + 3));
    let inside = "shfl.sync.down.b32 %r3|%p1, %r1, 3, 31, -1; selp.u32 %r2, 1, 0, %p1;";
    assert_eq!(results(inside), each(|t| u32::from(t < 29)));
}

#[test]
fn lanes_that_do_not_take_part_give_any_value() {
    let text = stored("shfl.sync.down.b32 %r2, %r1, 8, 31, 0xffff;");
    let of = |order| {
        let mut run = Run::body(&text);
        let out = run.empty(16 * 4);
        let params = run.params().u64(out).u64(0).u32(0);
        let inactive_lanes = Policy::Allow;
        let options = LaunchOptions { order, inactive_lanes, ..LaunchOptions::default() };
        run.go("k", [1; 3], [16, 1, 1], params, &options).unwrap_or_else(|fault| panic!("{fault}"));
        let bytes = run.read(out, 16 * 4);
        let words = bytes.chunks(4).map(|w| u32::from_le_bytes(w.try_into().expect("four")));
        words.collect::<Vec<u32>>()
    };
    let found = [Order::Index, Order::Reverse, Order::Seeded(3)].map(of);
    for words in &found {
        assert_eq!(words[..8], [8, 9, 10, 11, 12, 13, 14, 15]);
    }
    assert!(found[0][8] != found[1][8] && found[1][8] != found[2][8] && found[0][8] != found[2][8]);
}

#[test]
fn votes_and_matches() {
    let vote = "setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r2, %p1, -1;";
    assert_eq!(results(vote), each(|_| 31));
    let all = "setp.lt.u32 %p1, %r1, 5; vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r2, 1, 0, %p2;";
    assert_eq!(results(all), each(|_| 0));
    let any = "and.b32 %r3, %r1, 3; match.any.sync.b32 %r2, %r3, -1;";
    assert_eq!(results(any), each(|t| 0x1111_1111 << (t & 3)));
    assert_eq!(results("redux.sync.add.u32 %r2, %r1, -1;"), each(|_| 496));
    let least = "sub.s32 %r3, 7, %r1; redux.sync.min.s32 %r2, %r3, -1;";
    assert_eq!(results(least), each(|_| -24_i32 as u32));
    let elect = "elect.sync _|%p1, -1; selp.u32 %r2, 1, 0, %p1;";
    assert_eq!(results(elect), each(|t| u32::from(t == 0)));
    // Halves of a warp that have parted vote apart.
    let parted = "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; vote.sync.ballot.b32 %r2, 1, 0xffff0000;
        bra B; A: activemask.b32 %r2; and.b32 %r2, %r2, 0xffff; B:";
    assert_eq!(results(parted), each(|t| if t < 16 { 0xffff } else { 0xffff_0000 }));
}

#[test]
fn powers_of_two() {
    // From -149.5 on in steps of 9.5, beyond both ends of float32.
    let power = |form: &str| {
        results(&format!(
            ".reg .f32 %f<3>; cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f1, %f1, 0f41180000, 0fC3158000;
             ex2.approx.{form} %f2, %f1; mov.b32 %r2, %f2;"
        ))
    };
    let expected = |t: u32| (f64::from(t) * 9.5 - 149.5).exp2() as f32;
    assert_eq!(power("f32"), each(|t| expected(t).to_bits()));
    let flushed = |x: f32| if x.is_subnormal() { 0 } else { x.to_bits() };
    assert_eq!(power("ftz.f32"), each(|t| flushed(expected(t))));
    let of = |bits: &str| {
        let body = format!(
            ".reg .f32 %f<3>; mov.b32 %f1, {bits}; ex2.approx.ftz.f32 %f2, %f1; mov.b32 %r2, %f2;"
        );
        results(&body)[0]
    };
    for (bits, power) in [
        ("0x7fc00000", 0x7fff_ffff),
        ("0xff800000", 0),
        ("0x7f800000", 0x7f80_0000),
        ("0x80000001", 0x3f80_0000),
    ] {
        assert_eq!(of(bits), power, "{bits}");
    }
}

#[test]
fn barriers_that_count() {
    let (found, counters) = run("setp.lt.u32 %p1, %r1, 40; barrier.red.popc.u32 %r2, 0, %p1;", 64);
    assert_eq!((found, counters.barriers), (vec![40; 64], 1));
    let (found, _) = run(
        "setp.lt.u32 %p1, %r1, 40; barrier.red.and.pred %p2, 0, %p1; selp.u32 %r2, 1, 0, %p2;",
        64,
    );
    assert_eq!(found, vec![0; 64]);
    // One warp arrives and goes on, the other waits for it.
    let body = "mov.u32 %r20, dyn; setp.lt.u32 %p1, %r1, 32; @!%p1 bra W;
        shl.b32 %r3, %r1, 2; add.s32 %r4, %r20, %r3; st.shared.u32 [%r4], %r1;
        barrier.arrive 1, 64; mov.u32 %r2, 0; bra E;
        W: barrier.sync 1, 64; shl.b32 %r3, %r1, 2; add.s32 %r4, %r20, %r3;
        ld.shared.u32 %r2, [%r4+-128]; E:";
    let (found, _) = run(body, 64);
    assert_eq!(found[32..], each(|t| t));
}

#[test]
fn atomics() {
    let add = "ld.param.u64 %rd4, [q]; atom.global.add.u32 %r3, [%rd4], 2; bar.sync 0;
        ld.volatile.global.u32 %r2, [%rd4];";
    assert_eq!(results(add), each(|_| 64));
    let cas = "ld.param.u64 %rd4, [q]; setp.eq.u32 %p1, %r1, 4; mov.u32 %r2, 9;
        @%p1 atom.global.cas.b32 %r2, [%rd4], 0, 5; @%p1 atom.global.exch.b32 %r2, [%rd4], 6;";
    assert_eq!(results(cas), each(|t| if t == 4 { 5 } else { 9 }));
    let shared = "mov.u32 %r20, dyn; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r20], 100;
        bar.sync 0; red.shared.max.u32 [%r20], %r1; red.shared.min.u32 [%r20], 50; bar.sync 0;
        ld.shared.u32 %r2, [%r20];";
    assert_eq!(results(shared), each(|_| 50));
}

#[test]
fn special_registers() {
    assert_eq!(results("mov.u32 %r2, %laneid;"), each(|t| t));
    assert_eq!(results("mov.u32 %r2, %lanemask_lt;"), each(|t| (1 << t) - 1));
    assert_eq!(results("mov.u32 %r2, %lanemask_ge;"), each(|t| u32::MAX << t));
    assert_eq!(results("mov.u32 %r2, %lanemask_gt;"), each(|t| !(u32::MAX >> (31 - t))));
    assert_eq!(results("mov.u32 %r2, %ntid.x;"), each(|_| 32));
    let (found, _) = run("mov.u32 %r2, %warpid;", 96);
    assert_eq!(found, (0..96).map(|t| t / 32).collect::<Vec<u32>>());
}

#[test]
fn predicates_and_packing() {
    let both = "setp.lt.and.u32 %p1|%p2, %r1, 9, %p3; selp.u32 %r2, 1, 2, %p1;";
    let body = format!("setp.gt.u32 %p3, %r1, 3; {both}");
    assert_eq!(results(&body), each(|t| if t < 9 && t > 3 { 1 } else { 2 }));
    let pack = "mov.b64 %rd5, {%r1, 7}; mov.b64 {%r3, %r4}, %rd5; add.u32 %r2, %r3, %r4;";
    assert_eq!(results(pack), each(|t| t + 7));
    let halves = "mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r2, {%rs2, %rs1};";
    assert_eq!(results(halves), each(|t| t << 16));
    let set = "set.lt.u32.s32 %r2, %r1, 4;";
    assert_eq!(results(set), each(|t| if t < 4 { u32::MAX } else { 0 }));
    let signs = "cvt.s32.s8 %r2, %r1; sub.s32 %r3, 0, %r1; cvt.s8.s32 %r2, %r3;";
    assert_eq!(results(signs), each(|t| t.wrapping_neg()));
}

#[test]
fn generic_addresses() {
    let body =
        "mov.u32 %r20, dyn; shl.b32 %r3, %r1, 2; add.s32 %r4, %r20, %r3; cvt.u64.u32 %rd5, %r4;
        cvta.shared.u64 %rd6, %rd5; st.u32 [%rd6], %r1; ld.shared.u32 %r5, [%r4];
        isspacep.shared %p1, %rd6; selp.u32 %r2, %r5, 999, %p1;";
    assert_eq!(results(body), each(|t| t));
    let vector = "mov.u32 %r20, dyn; shl.b32 %r3, %r1, 4; add.s32 %r4, %r20, %r3;
        st.shared.v4.u32 [%r4], {%r1, 1, 2, 3}; ld.shared.v2.u32 {%r5, %r6}, [%r4+8];
        ld.shared.s8 %r7, [%r4]; add.u32 %r2, %r5, %r7;";
    assert_eq!(results(vector), each(|t| t + 2));
}

#[test]
fn instructions_are_counted_by_kind() {
    let (_, counters) = run("add.u32 %r2, %r1, 1; mul.lo.u32 %r2, %r2, %r2;", 64);
    // With the address: mul.wide and add.
    assert_eq!(counters.of(Kind::Integer), 4 * 64);
    assert_eq!((counters.of(Kind::Load), counters.of(Kind::Store)), (64, 64));
    assert_eq!(counters.of(Kind::Control), 64);
}

/// Each lane stores to its own sector.
#[test]
fn strided_stores_need_a_sector_each() {
    let mut run = Run::body(
        "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 32;
         add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;",
    );
    let out = run.empty(1024);
    let params = run.params().u64(out).u64(0).u32(0);
    let counters =
        run.go("k", [1; 3], [32, 1, 1], params, &LaunchOptions::default()).expect("clean");
    let requests = counters.global_requests();
    assert_eq!((requests.requests, requests.units, requests.ideal), (1, 32, 4));
}
