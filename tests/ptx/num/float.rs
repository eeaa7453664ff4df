//! Floating-point operations on registers, one function for each format and rounding mode.

use super::format::{BF16, F16, F32, F64, Format, Round};
use super::{Scalar, soft};

const FORMATS: [Format; 4] = [F16, BF16, F32, F64];
const ROUNDS: [Round; 4] = [Round::Nearest, Round::Zero, Round::Down, Round::Up];

/// The value of bits; float64 holds the numbers of all formats.
fn value<const F: usize>(bits: u64) -> f64 {
    match F {
        2 => f64::from(f32::from_bits(bits as u32)),
        3 => f64::from_bits(bits),
        1 => f64::from(f32::from_bits((bits as u32) << 16)),
        _ => f64::from_bits(soft::convert(F16, F64, bits, Round::Nearest)),
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn from_single(value: f32) -> u64 {
    if value.is_nan() { F32.nan } else { u64::from(value.to_bits()) }
}

fn from_double(value: f64) -> u64 {
    if value.is_nan() { F64.nan } else { value.to_bits() }
}

fn add<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    match (F, R) {
        (2, 0) => from_single(single(a) + single(b)),
        (3, 0) => from_double(f64::from_bits(a) + f64::from_bits(b)),
        _ => soft::add(FORMATS[F], a, b, ROUNDS[R]),
    }
}

fn sub<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    add::<F, R>(a, b ^ FORMATS[F].sign_bit(), 0)
}

fn mul<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    match (F, R) {
        (2, 0) => from_single(single(a) * single(b)),
        (3, 0) => from_double(f64::from_bits(a) * f64::from_bits(b)),
        _ => soft::mul(FORMATS[F], a, b, ROUNDS[R]),
    }
}

fn fma<const F: usize, const R: usize>(a: u64, b: u64, c: u64) -> u64 {
    match (F, R) {
        (2, 0) => from_single(single(a).mul_add(single(b), single(c))),
        (3, 0) => from_double(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c))),
        _ => soft::fma(FORMATS[F], a, b, c, ROUNDS[R]),
    }
}

fn div<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    match (F, R) {
        (2, 0) => from_single(single(a) / single(b)),
        (3, 0) => from_double(f64::from_bits(a) / f64::from_bits(b)),
        _ => soft::div(FORMATS[F], a, b, ROUNDS[R]),
    }
}

fn sqrt<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    match (F, R) {
        (2, 0) => from_single(single(a).sqrt()),
        (3, 0) => from_double(f64::from_bits(a).sqrt()),
        _ => soft::sqrt(FORMATS[F], a, ROUNDS[R]),
    }
}

fn rcp<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    const ONES: [u64; 4] = [0x3c00, 0x3f80, 0x3f80_0000, 0x3ff0_0000_0000_0000];
    div::<F, R>(ONES[F], a, 0)
}

fn neg<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    a ^ FORMATS[F].sign_bit()
}

fn abs<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    a & (FORMATS[F].sign_bit() - 1)
}

/// The magnitude of `b` with the sign of `a`.
fn copysign<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    let sign = FORMATS[F].sign_bit();
    a & sign | b & (sign - 1)
}

/// Two to the power of a float32, rounded to the nearest. The PTX manual promises a relative error of
/// 2^-22.5 and no bits, so results of a device differ.
pub fn exp2(a: u64, _: u64, _: u64) -> u64 {
    from_single(value::<2>(a).exp2() as f32)
}

/// [`exp2`] with zeros in place of subnormal numbers.
pub fn exp2_flushed(a: u64, _: u64, _: u64) -> u64 {
    let flush = |bits: u64| match subnormal::<2, 0>(bits, 0, 0) {
        1 => bits & F32.sign_bit(),
        _ => bits,
    };
    flush(exp2(flush(a), 0, 0))
}

/// The smaller number, or the larger one; zeros are ordered by sign.
fn pick<const F: usize>(a: u64, b: u64, larger: bool, keep_nan: bool) -> u64 {
    let format = FORMATS[F];
    match (format.is_nan(a), format.is_nan(b)) {
        (false, false) => {
            let (x, y) = (value::<F>(a), value::<F>(b));
            let less = x < y || (x == y && x.is_sign_negative());
            if less != larger { a } else { b }
        }
        (true, true) => format.nan,
        _ if keep_nan => format.nan,
        (true, false) => b,
        (false, true) => a,
    }
}

fn min<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    pick::<F>(a, b, false, false)
}

fn max<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    pick::<F>(a, b, true, false)
}

fn min_nan<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    pick::<F>(a, b, false, true)
}

fn max_nan<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    pick::<F>(a, b, true, true)
}

/// Clamps to `0..=1`; NaN is zero.
fn sat<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    const ONES: [u64; 4] = [0x3c00, 0x3f80, 0x3f80_0000, 0x3ff0_0000_0000_0000];
    let x = value::<F>(a);
    match x {
        _ if x.is_nan() || x <= 0.0 => 0,
        _ if x >= 1.0 => ONES[F],
        _ => a,
    }
}

/// Negative numbers become zero; NaN stays.
fn relu<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    if FORMATS[F].is_nan(a) { FORMATS[F].nan } else { pick::<F>(a, 0, true, true) }
}

fn eq<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    u64::from(value::<F>(a) == value::<F>(b))
}

fn lt<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    u64::from(value::<F>(a) < value::<F>(b))
}

fn le<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    u64::from(value::<F>(a) <= value::<F>(b))
}

fn gt<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    lt::<F, R>(b, a, 0)
}

fn ge<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    le::<F, R>(b, a, 0)
}

fn num<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    u64::from(!FORMATS[F].is_nan(a) && !FORMATS[F].is_nan(b))
}

fn nan<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    1 - num::<F, R>(a, b, 0)
}

fn infinite<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    u64::from(abs::<F, R>(a, 0, 0) == FORMATS[F].infinity())
}

fn finite<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    u64::from(abs::<F, R>(a, 0, 0) < FORMATS[F].infinity())
}

fn number<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    num::<F, R>(a, a, 0)
}

fn notanumber<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    nan::<F, R>(a, a, 0)
}

fn subnormal<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    let magnitude = abs::<F, R>(a, 0, 0);
    u64::from(magnitude != 0 && magnitude >> FORMATS[F].fraction == 0)
}

fn normal<const F: usize, const R: usize>(a: u64, _: u64, _: u64) -> u64 {
    finite::<F, R>(a, 0, 0) & u64::from(abs::<F, R>(a, 0, 0) >> FORMATS[F].fraction != 0)
}

fn ne<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    num::<F, R>(a, b, 0) & (1 - eq::<F, R>(a, b, 0))
}

fn equ<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    nan::<F, R>(a, b, 0) | eq::<F, R>(a, b, 0)
}

fn neu<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    1 - eq::<F, R>(a, b, 0)
}

fn ltu<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    1 - ge::<F, R>(a, b, 0)
}

fn leu<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    1 - gt::<F, R>(a, b, 0)
}

fn gtu<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    1 - le::<F, R>(a, b, 0)
}

fn geu<const F: usize, const R: usize>(a: u64, b: u64, _: u64) -> u64 {
    1 - lt::<F, R>(a, b, 0)
}

/// Both halves of a register of two numbers.
macro_rules! halves {
    ($($packed:ident = $one:ident)*) => { $(
        fn $packed<const F: usize, const R: usize>(a: u64, b: u64, c: u64) -> u64 {
            let low = $one::<F, R>(a & 0xffff, b & 0xffff, c & 0xffff);
            let high = $one::<F, R>(a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff);
            low | high << 16
        }
    )* };
}

halves! {
    add_x2 = add sub_x2 = sub mul_x2 = mul fma_x2 = fma neg_x2 = neg abs_x2 = abs min_x2 = min
    max_x2 = max min_nan_x2 = min_nan max_nan_x2 = max_nan sat_x2 = sat relu_x2 = relu
}

macro_rules! rounded {
    ($function:ident, $format:literal, $round:expr) => {
        match $round {
            Round::Nearest => $function::<$format, 0>,
            Round::Zero => $function::<$format, 1>,
            Round::Down => $function::<$format, 2>,
            Round::Up => $function::<$format, 3>,
            Round::Away => return None,
        }
    };
}

macro_rules! table {
    ($name:expr, $format:expr, $round:expr, $($function:ident)*) => {
        match $name {
            $(stringify!($function) => Some(match $format {
                F16 => rounded!($function, 0, $round),
                BF16 => rounded!($function, 1, $round),
                F32 => rounded!($function, 2, $round),
                F64 => rounded!($function, 3, $round),
                _ => return None,
            }),)*
            _ => None,
        }
    };
}

/// The function of an operation by name, format and rounding mode; names that end in `_x2` work
/// on two numbers in one register.
pub fn operation(name: &str, format: Format, round: Round) -> Option<Scalar> {
    table!(name, format, round, add sub mul fma div sqrt rcp neg abs copysign
        min max min_nan max_nan sat relu infinite finite number notanumber subnormal normal
        eq lt le gt ge num nan ne equ neu ltu leu gtu geu
        add_x2 sub_x2 mul_x2 fma_x2 neg_x2 abs_x2 min_x2 max_x2 min_nan_x2 max_nan_x2 sat_x2 relu_x2)
}
