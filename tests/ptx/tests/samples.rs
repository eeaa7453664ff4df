//! Kernels that LLVM wrote, against the same computation here.

mod common;

use common::{Run, bytes, floats, load};
use reflex_ptx::{Arch, Kind, LaunchOptions, Order};

const ORDERS: [Order; 4] = [Order::Index, Order::Reverse, Order::Seeded(1), Order::Seeded(99)];

/// Options for every order.
fn orders() -> impl Iterator<Item = LaunchOptions> {
    ORDERS.into_iter().map(|order| LaunchOptions { order, ..LaunchOptions::default() })
}

/// Numbers that are exact in every format, and differ.
fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 101) as f32 - 50.0).collect()
}

#[test]
fn vector_add_adds() {
    let (a, b) = (ramp(1000), ramp(1000));
    for options in orders() {
        let mut run = Run::new("vector_add");
        let (x, y, z) = (run.floats(&a), run.floats(&b), run.empty(4000));
        let params = run.params().u64(x).u64(y).u64(z).u32(1000);
        let counters = run.go("vector_add", [4, 1, 1], [256, 1, 1], params, &options).unwrap();
        let wanted: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(run.read_floats(z, 1000), wanted);
        // 12,000 bytes in sectors of 32, each once.
        assert_eq!((counters.sectors_read, counters.sectors_written), (250, 125));
        let requests = counters.global_requests();
        assert_eq!((requests.units, requests.ideal, requests.bytes), (375, 375, 12_000));
        assert_eq!(counters.of(Kind::Float), 1000);
        assert_eq!(counters.blocks, 4);
    }
}

#[test]
fn reduce_sums_rows() {
    let x = ramp(5 * 300);
    for options in orders() {
        let mut run = Run::new("reduce");
        let (a, b) = (run.floats(&x), run.empty(20));
        let params = run.params().u64(a).u64(b).u32(300);
        let counters = run.go("reduce", [5, 1, 1], [128, 1, 1], params, &options).unwrap();
        let wanted: Vec<f32> = x.chunks(300).map(|row| row.iter().sum()).collect();
        assert_eq!(run.read_floats(b, 5), wanted);
        assert_eq!(counters.barriers, 5);
        assert_eq!(counters.of(Kind::Collective), 5 * 5 * 128);
    }
}

#[test]
fn gemm_multiplies() {
    let (m, n, k) = (32, 48, 64);
    let (a, b) = (ramp(m * k), ramp(k * n));
    for options in orders() {
        let mut run = Run::new("gemm");
        let (x, y, z) = (run.floats(&a), run.floats(&b), run.empty((m * n * 4) as u64));
        let params = run.params().u64(x).u64(y).u64(z).u32(n as u32).u32(k as u32);
        run.go("gemm", [3, 2, 1], [16, 16, 1], params, &options).unwrap();
        let at = |i: usize| {
            let (row, column) = (i / n, i % n);
            (0..k).fold(0.0_f32, |sum, l| a[row * k + l].mul_add(b[l * n + column], sum))
        };
        assert_eq!(run.read_floats(z, m * n), (0..m * n).map(at).collect::<Vec<_>>());
    }
}

#[test]
fn transpose_has_no_conflicts_when_padded() {
    let x = ramp(64 * 64);
    for options in orders() {
        let mut run = Run::new("transpose");
        let (a, b) = (run.floats(&x), run.empty(64 * 64 * 4));
        let params = run.params().u64(a).u64(b).u32(64);
        let counters = run.go("transpose", [2, 2, 1], [32, 32, 1], params, &options).unwrap();
        let wanted: Vec<f32> = (0..64 * 64).map(|i| x[i % 64 * 64 + i / 64]).collect();
        assert_eq!(run.read_floats(b, 64 * 64), wanted);
        let shared = counters.shared_requests();
        assert_eq!(shared.units, shared.ideal);
    }
}

#[test]
fn transpose_without_padding_has_conflicts() {
    let mut run = Run::new("transpose");
    let (a, b) = (run.floats(&ramp(1024)), run.empty(4096));
    let params = run.params().u64(a).u64(b).u32(32);
    let options = LaunchOptions::default();
    let counters = run.go("transpose_conflicts", [1; 3], [32, 32, 1], params, &options).unwrap();
    let shared = counters.shared_requests();
    // A column of 32 rows lies in one bank.
    assert_eq!((shared.requests, shared.units, shared.ideal), (64, 32 + 32 * 32, 64));
}

#[test]
fn gather_reads_rows() {
    let halves: Vec<u8> =
        (0..64).flat_map(|i| half::f16::from_f32(i as f32).to_le_bytes()).collect();
    let indices: Vec<i64> = (0..32).map(|i| i * 5 - 10).collect();
    for options in orders() {
        let mut run = Run::new("gather");
        let x = run.bytes(&halves);
        let index = run.bytes(&indices.iter().flat_map(|i| i.to_le_bytes()).collect::<Vec<_>>());
        let y = run.empty(128);
        let params = run.params().u64(x).u64(index).u64(y).u64(64);
        run.go("gather", [1; 3], [32, 1, 1], params, &options).unwrap();
        let wanted: Vec<f32> = indices.iter().map(|i| (*i).clamp(0, 63) as f32).collect();
        assert_eq!(run.read_floats(y, 32), wanted);
    }
}

/// The polynomial of `softmax.ll`.
fn exp_poly(x: f32) -> f32 {
    if x < -87.0 {
        return 0.0;
    }
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(f64::from_bits(0xBFE6_2E40_0000_0000) as f32, x);
    let r = n.mul_add(f64::from_bits(0xBEB7_F7D1_C000_0000) as f32, r);
    let c = [0x3F81_1111_2000_0000, 0x3FA5_5555_6000_0000, 0x3FC5_5555_4000_0000];
    let [c5, c4, c3] = c.map(|bits| f64::from_bits(bits) as f32);
    let p = [c4, c3, 0.5, 1.0, 1.0].into_iter().fold(c5, |p, c| p.mul_add(r, c));
    p * f32::from_bits(((n as i32 + 127) as u32) << 23)
}

#[test]
fn softmax_has_the_bits_of_the_cpu() {
    let (rows, n) = (4, 29);
    let x: Vec<f32> = ramp(rows * n).iter().map(|x| x * 0.173).collect();
    for options in orders() {
        let mut run = Run::new("softmax");
        let (a, b) = (run.floats(&x), run.empty((rows * n * 4) as u64));
        let params = run.params().u64(a).u64(b).u32(n as u32);
        run.go("softmax", [rows as u32, 1, 1], [32, 1, 1], params, &options).unwrap();
        let found = run.read_floats(b, rows * n);
        for (row, found) in x.chunks(n).zip(found.chunks(n)) {
            let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut exps: Vec<f32> = row.iter().map(|x| exp_poly(x - top)).collect();
            exps.resize(32, 0.0);
            let mut sums = exps.clone();
            for step in [16, 8, 4, 2, 1] {
                sums = (0..32).map(|lane: usize| sums[lane] + sums[lane ^ step]).collect();
            }
            let wanted: Vec<f32> = (0..n).map(|i| exps[i] / sums[i]).collect();
            assert_eq!(found, wanted);
        }
    }
}

#[test]
fn convert_rounds_as_rust_does() {
    let x: Vec<f32> = (0..128).map(|i| ((i as f32) - 64.0) * 1.000_37e3 / 7.0).collect();
    let mut run = Run::new("convert");
    let a = run.floats(&x);
    let [h, b, i, d] = [256, 256, 512, 1024].map(|size| run.empty(size));
    let params = run.params().u64(a).u64(h).u64(b).u64(i).u64(d);
    run.go("convert", [1; 3], [128, 1, 1], params, &LaunchOptions::default()).unwrap();
    let halves: Vec<u8> = x.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect();
    assert_eq!(run.read(h, 256), halves);
    let brains: Vec<u8> = x.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect();
    assert_eq!(run.read(b, 256), brains);
    let whole: Vec<u8> = x.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect();
    assert_eq!(run.read(i, 512), whole);
    let thirds: Vec<u8> = x.iter().flat_map(|x| (f64::from(*x) / 3.0).to_le_bytes()).collect();
    assert_eq!(run.read(d, 1024), thirds);
}

#[test]
fn packed_halves_are_rounded_once() {
    let x: Vec<half::f16> = (0..64).map(|i| half::f16::from_f32(i as f32 * 0.37 - 9.1)).collect();
    let mut run = Run::new("convert");
    let a = run.bytes(&x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    let y = run.empty(128);
    let params = run.params().u64(a).u64(y);
    run.go("packed", [1; 3], [32, 1, 1], params, &LaunchOptions::default()).unwrap();
    // Products and sums of halves are exact in float64.
    let wanted = x.iter().flat_map(|x| {
        let once = half::f16::from_f64(x.to_f64() * x.to_f64() + x.to_f64());
        half::f16::from_f64(once.to_f64() + x.to_f64()).to_le_bytes()
    });
    assert_eq!(run.read(y, 128), wanted.collect::<Vec<u8>>());
}

#[test]
fn switches_and_constants_are_followed() {
    for options in orders() {
        let mut run = Run::new("convert");
        let y = run.empty(256);
        let params = run.params().u64(y);
        run.go("choose", [1; 3], [64, 1, 1], params, &options).unwrap();
        let wanted = (0..64_u32).flat_map(|t| {
            let value = match t & 7 {
                0 => [7, u32::MAX, 100, 65536][t as usize & 3],
                1 => t * t,
                2 => 1000 / t,
                3 => !t,
                4 => t << 3,
                _ => 5,
            };
            value.to_le_bytes()
        });
        assert_eq!(run.read(y, 256), wanted.collect::<Vec<u8>>());
    }
}

#[test]
fn local_memory_is_of_each_thread() {
    for options in orders() {
        let mut run = Run::new("convert");
        let y = run.empty(128);
        let params = run.params().u64(y).u32(8);
        run.go("local", [1; 3], [32, 1, 1], params, &options).unwrap();
        let wanted = (0..32_u32).flat_map(|t| ((t & 7) * t).to_le_bytes());
        assert_eq!(run.read(y, 128), wanted.collect::<Vec<u8>>());
    }
}

#[test]
fn pipeline_waits_for_its_copies() {
    let x = ramp(5 * 256);
    for options in orders() {
        let mut run = Run::new("pipeline");
        let (a, b) = (run.floats(&x), run.empty(5 * 1024));
        let params = run.params().u64(a).u64(b).u32(5);
        run.go("pipeline", [1; 3], [64, 1, 1], params, &options).unwrap();
        assert_eq!(run.read_floats(b, 5 * 256), x.iter().map(|x| x * 2.0).collect::<Vec<_>>());
    }
}

#[test]
fn mma_multiplies_fragments() {
    let a: Vec<f32> = (0..256).map(|i| (i * 7 % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..128).map(|i| (i * 5 % 11) as f32 - 5.0).collect();
    let halves = |x: &[f32]| {
        x.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect::<Vec<u8>>()
    };
    for arch in [Arch::Sm80, Arch::Sm90a] {
        for options in orders() {
            let mut run = Run::new("mma");
            let (x, y, d) = (run.bytes(&halves(&a)), run.bytes(&halves(&b)), run.empty(512));
            let params = run.params().u64(x).u64(y).u64(d);
            let options = LaunchOptions { arch, ..options };
            run.go("mma", [1; 3], [32, 1, 1], params, &options).unwrap();
            // Small integers are exact whatever the alignment.
            let at = |i: usize| (0..16).map(|k| a[i / 8 * 16 + k] * b[i % 8 * 16 + k]).sum::<f32>();
            assert_eq!(run.read_floats(d, 128), (0..128).map(at).collect::<Vec<_>>());
        }
    }
}

#[test]
fn all_samples_parse() {
    for name in common::names() {
        assert!(!load(&name).kernels().is_empty(), "{name}");
    }
    assert_eq!(floats(&bytes(&[1.5])), [1.5]);
}
