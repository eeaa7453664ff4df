//! Arithmetic against Rust's own, and against exact sums.

use super::convert::{Conversion, Number};
use super::format::{BF16, F16, F32, F64, Format, Round};
use super::mma::{AMPERE, HOPPER, dot};
use super::{float, integer, soft};

/// Numbers of all kinds: random bits, and neighbours of what is special.
fn samples(count: usize, width: u32) -> Vec<u64> {
    let mut state = 7_u64;
    let mut found: Vec<u64> = (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 29) & integer::mask(width)
        })
        .collect();
    let format = if width == 32 { F32 } else { F64 };
    let one = format.infinity() >> 1 & !integer::mask(format.fraction);
    for base in [0, one, format.infinity(), 1 << format.fraction, 1 << (format.fraction / 2)] {
        for near in [base.wrapping_sub(1), base, base + 1] {
            found.push(near & integer::mask(width - 1));
            found.push(near & integer::mask(width - 1) | format.sign_bit());
        }
    }
    found
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Compares with NaN as one value.
fn same(format: Format, found: u64, wanted: u64) -> bool {
    found == wanted || format.is_nan(found) && format.is_nan(wanted)
}

#[test]
fn float32_rounds_to_nearest_as_the_cpu() {
    let all = samples(400, 32);
    let near = Round::Nearest;
    for &a in &all {
        assert!(same(F32, soft::sqrt(F32, a, near), single(a).sqrt().to_bits().into()), "{a:x}");
        for &b in &all {
            let (x, y) = (single(a), single(b));
            let checks = [
                (soft::add(F32, a, b, near), x + y),
                (soft::mul(F32, a, b, near), x * y),
                (soft::div(F32, a, b, near), x / y),
                (soft::fma(F32, a, b, b ^ 0x12345, near), x.mul_add(y, single(b ^ 0x12345))),
            ];
            for (at, (found, wanted)) in checks.into_iter().enumerate() {
                assert!(same(F32, found, wanted.to_bits().into()), "{at}: {a:x} {b:x} {found:x}");
            }
        }
    }
}

#[test]
fn float64_rounds_to_nearest_as_the_cpu() {
    let all = samples(300, 64);
    let near = Round::Nearest;
    for &a in &all {
        assert!(same(F64, soft::sqrt(F64, a, near), f64::from_bits(a).sqrt().to_bits()), "{a:x}");
        for &b in &all {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let checks = [
                (soft::add(F64, a, b, near), x + y),
                (soft::mul(F64, a, b, near), x * y),
                (soft::div(F64, a, b, near), x / y),
                (soft::fma(F64, a, b, !a, near), x.mul_add(y, f64::from_bits(!a))),
            ];
            for (at, (found, wanted)) in checks.into_iter().enumerate() {
                assert!(same(F64, found, wanted.to_bits()), "{at}: {a:x} {b:x} {found:x}");
            }
        }
    }
}

/// Results of the other modes lie around the exact value, and are neighbours or equal.
#[test]
fn directed_modes_enclose_the_result() {
    let all = samples(300, 32);
    for &a in &all {
        for &b in &all {
            let exact = f64::from(single(a)) * f64::from(single(b));
            if !exact.is_finite() {
                continue;
            }
            let [down, up, zero] =
                [Round::Down, Round::Up, Round::Zero].map(|r| single(soft::mul(F32, a, b, r)));
            assert!(f64::from(down) <= exact && f64::from(up) >= exact, "{a:x} {b:x}");
            assert!(down == up || down.next_up() == up, "{a:x} {b:x}");
            assert_eq!(zero, if exact > 0.0 { down } else { up }, "{a:x} {b:x}");
        }
    }
}

#[test]
fn every_half_converts_both_ways() {
    for bits in 0..=u16::MAX {
        let wide = soft::convert(F16, F32, bits.into(), Round::Nearest);
        let brain = soft::convert(BF16, F32, bits.into(), Round::Nearest);
        if F16.is_nan(bits.into()) || BF16.is_nan(bits.into()) {
            continue;
        }
        assert_eq!(single(wide), half::f16::from_bits(bits).to_f32());
        assert_eq!(single(brain), half::bf16::from_bits(bits).to_f32());
        assert_eq!(soft::convert(F32, F16, wide, Round::Nearest), bits.into());
        assert_eq!(soft::convert(F32, BF16, brain, Round::Nearest), bits.into());
    }
}

#[test]
fn float32_converts_to_halves_as_the_crate_half() {
    for bits in samples(200_000, 32) {
        let x = single(bits);
        if x.is_nan() {
            continue;
        }
        let found = soft::convert(F32, F16, bits, Round::Nearest);
        assert_eq!(found, half::f16::from_f32(x).to_bits().into(), "{bits:x}");
        let found = soft::convert(F32, BF16, bits, Round::Nearest);
        assert_eq!(found, half::bf16::from_f32(x).to_bits().into(), "{bits:x}");
    }
}

/// Sums and products of halves are exact in float64.
#[test]
fn halves_are_rounded_once() {
    let (add, mul) = ("add", "mul");
    for (name, format) in [("f16", F16), ("bf16", BF16)] {
        let [add, mul] =
            [add, mul].map(|op| float::operation(op, format, Round::Nearest).expect(name));
        for a in (0..=u16::MAX).step_by(257) {
            for b in (0..=u16::MAX).step_by(193) {
                let (a, b) = (u64::from(a), u64::from(b));
                let wide = |bits| f64::from_bits(soft::convert(format, F64, bits, Round::Nearest));
                let narrow = |x: f64| soft::convert(F64, format, x.to_bits(), Round::Nearest);
                // Sums of far exponents are rounded twice by way of float64, to the same side.
                assert!(same(format, mul(a, b, 0), narrow(wide(a) * wide(b))), "{a:x} {b:x}");
                if format == F16 {
                    assert!(same(format, add(a, b, 0), narrow(wide(a) + wide(b))), "{a:x} {b:x}");
                }
            }
        }
    }
}

#[test]
fn integers_convert_as_the_cpu() {
    let float = |bits: u64, round, to, signed| {
        let to = Number::Integer { bits: to, signed };
        let how = Conversion {
            from: Number::Float(F32),
            to,
            round,
            integral: false,
            saturate: false,
            relu: false,
        };
        how.apply(bits)
    };
    for bits in samples(20_000, 32) {
        let x = single(bits);
        // Of NaN, results of 64 bits are the highest bit, as an H100 gives them.
        let wide = |value: f32| if x.is_nan() { i64::MIN } else { value as i64 };
        assert_eq!(float(bits, Round::Zero, 32, true) as i64, i64::from(x as i32), "{x}");
        assert_eq!(float(bits, Round::Zero, 32, false), u64::from(x as u32), "{x}");
        assert_eq!(float(bits, Round::Zero, 64, true) as i64, wide(x), "{x}");
        let unsigned = if x.is_nan() { 1 << 63 } else { x as u64 };
        assert_eq!(float(bits, Round::Zero, 64, false), unsigned, "{x}");
        assert_eq!(float(bits, Round::Zero, 8, true) as i64, i64::from(x as i8), "{x}");
        assert_eq!(float(bits, Round::Down, 64, true) as i64, wide(x.floor()), "{x}");
        assert_eq!(float(bits, Round::Up, 64, true) as i64, wide(x.ceil()), "{x}");
        let even = wide(x.round_ties_even());
        assert_eq!(float(bits, Round::Nearest, 64, true) as i64, even, "{x}");
        let whole = soft::from_integer(F32, false, bits, Round::Nearest);
        assert_eq!(single(whole), bits as f32);
    }
}

#[test]
fn minimum_and_maximum_order_zeros_and_skip_nan() {
    let f = |name| float::operation(name, F32, Round::Nearest).expect("in the table");
    let (zero, minus, nan, one) = (0, 0x8000_0000, 0x7fc0_0000, 0x3f80_0000);
    assert_eq!((f("min")(zero, minus, 0), f("max")(minus, zero, 0)), (minus, zero));
    assert_eq!((f("min")(nan, one, 0), f("max")(one, nan, 0)), (one, one));
    assert_eq!((f("min_nan")(nan, one, 0), f("max")(nan, nan, 0)), (F32.nan, F32.nan));
    assert_eq!((f("neu")(nan, nan, 0), f("ne")(nan, nan, 0), f("equ")(nan, one, 0)), (1, 0, 1));
}

#[test]
fn properties_of_numbers() {
    let f = |name| float::operation(name, F32, Round::Nearest).expect("in the table");
    for x in [0.0, 1.0, -1e-40, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE] {
        let found = ["infinite", "finite", "number", "notanumber", "subnormal", "normal"]
            .map(|name| f(name)(bits(x), 0, 0) == 1);
        let wanted = [
            x.is_infinite(),
            x.is_finite(),
            !x.is_nan(),
            x.is_nan(),
            x.is_subnormal(),
            x.is_normal(),
        ];
        assert_eq!(found, wanted, "{x}");
    }
}

#[test]
fn bit_fields() {
    let f = |name, signed| integer::operation(name, 32, signed).expect("in the table");
    assert_eq!(f("bfe", false)(0xabcd_1234, 8, 8), 0x12);
    assert_eq!(f("bfe", true)(0xabcd_1234, 24, 8), 0xffff_ffab);
    assert_eq!(f("bfe", true)(0x8000_0000, 28, 16), 0xffff_fff8);
    assert_eq!(integer::insert(32).expect("there")(0xff, 0, 4, 8), 0xff0);
    assert_eq!(integer::prmt(0x3322_1100, 0x7766_5544, 0x7210), 0x7722_1100);
    assert_eq!(integer::prmt(0x80, 0, 0x8888), 0xffff_ffff);
    assert_eq!(integer::lop3(0b1100, 0b1010, 0b0110, 0x96), 0b1100 ^ 0b1010 ^ 0b0110);
    assert_eq!(integer::funnel::<true, true>(0x8000_0001, 0x1, 33), 0x3);
    assert_eq!(integer::funnel::<false, false>(0x1, 0xf, 40), 0xf);
    assert_eq!(f("clz", false)(1, 0, 0), 31);
    assert_eq!(f("brev", false)(1, 0, 0), 0x8000_0000);
    assert_eq!(f("shr", true)(0x8000_0000, 99, 0), 0xffff_ffff);
    assert_eq!(f("mul_hi", true)(0xffff_ffff, 2, 0), 0xffff_ffff);
    assert_eq!(f("mul_wide", true)(0xffff_ffff, 2, 0), u64::MAX - 1);
    assert_eq!(f("add_sat", true)(0x7fff_ffff, 1, 0), 0x7fff_ffff);
}

fn f16(x: f32) -> u64 {
    half::f16::from_f32(x).to_bits().into()
}

fn bits(x: f32) -> u64 {
    x.to_bits().into()
}

#[test]
fn tensor_cores_truncate_at_their_widths() {
    // Beside 1, Ampere keeps 2^-24 and Hopper 2^-25 of a product: 2^-13 * 2^-12 is lost on one.
    let (mut a, mut b) = (vec![f16(0.0); 8], vec![f16(0.0); 8]);
    (a[0], b[0]) = (f16(2.0_f32.powi(-13)), f16(2.0_f32.powi(-12)));
    (a[1], b[1]) = (a[0], b[0]);
    let negative = bits(-1.0);
    let found = [AMPERE, HOPPER].map(|model| dot(model, F16, &a, &b, negative));
    // -1 + 2^-24 is a float32; half of it is cut off.
    assert_eq!(found.map(single), [-1.0, -1.0 + 2.0_f32.powi(-24)]);
}

#[test]
fn tensor_cores_round_towards_zero() {
    let (a, b) = (vec![f16(1.0); 8], vec![f16(2.0_f32.powi(-10)); 8]);
    let sum = dot(HOPPER, F16, &a, &b, bits(16384.0 + 2.0_f32.powi(-9)));
    // The exact sum needs more bits than float32 has where rounding to nearest goes up.
    let exact = 16384.0_f64 + 2.0_f64.powi(-9) + 8.0 * 2.0_f64.powi(-10);
    assert!(f64::from(single(sum)) <= exact);
    // Sixteen products: two sums of eight on Ampere, one on Hopper.
    let (mut a, mut b) = (vec![f16(0.0); 16], vec![f16(0.0); 16]);
    (a[0], b[0]) = (f16(16384.0), f16(16384.0));
    (a[8], b[8]) = (f16(-16384.0), f16(16384.0));
    (a[9], b[9]) = (f16(1.0), f16(1.0));
    let found = [AMPERE, HOPPER].map(|model| single(dot(model, F16, &a, &b, bits(0.0))));
    // 2^28 leaves units of 2^4 with 24 bits, 2^3 with 25; both lose the 1.
    assert_eq!(found, [0.0, 0.0]);
}

#[test]
fn tensor_cores_pass_infinities_and_nan_on() {
    let (inf, ones) = (vec![F16.infinity(); 8], vec![f16(1.0); 8]);
    assert_eq!(dot(AMPERE, F16, &inf, &ones, bits(1.0)), F32.infinity());
    assert_eq!(dot(AMPERE, F16, &inf, &ones, bits(f32::NEG_INFINITY)), F32.nan);
    assert_eq!(dot(AMPERE, F16, &inf, &[f16(0.0); 8], bits(1.0)), F32.nan);
    assert_eq!(dot(HOPPER, F16, &ones, &ones, bits(f32::NAN)), F32.nan);
}

/// An obvious version of the model over rational numbers scaled by powers of two.
#[test]
fn tensor_cores_agree_with_an_obvious_model() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        let x = (state >> 40) as i32 % 4096 - 2048;
        f16(x as f32 * 2.0_f32.powi((state >> 33) as i32 % 8 - 8))
    };
    for round in 0..2000 {
        let (a, b): (Vec<u64>, Vec<u64>) = (0..8).map(|_| (next(), next())).unzip();
        let c = (round as f32 - 1000.0) * 0.37;
        let value = |bits: u64| f64::from(half::f16::from_bits(bits as u16).to_f32());
        let exponent = |x: f64| if x == 0.0 { -126 } else { x.abs().log2().floor() as i32 };
        let mut terms = vec![(f64::from(c), exponent(f64::from(c)))];
        for (a, b) in a.iter().zip(&b) {
            let (a, b) = (value(*a), value(*b));
            terms.push((a * b, exponent(a) + exponent(b)));
        }
        let top = terms.iter().map(|term| term.1).max().expect("nine");
        let unit = 2.0_f64.powi(top - 24);
        let sum: f64 = terms.iter().map(|term| (term.0 / unit).trunc()).sum::<f64>() * unit;
        let wanted = soft::convert(F64, F32, sum.to_bits(), Round::Zero);
        assert_eq!(dot(AMPERE, F16, &a, &b, bits(c)), wanted, "{round}");
    }
}
