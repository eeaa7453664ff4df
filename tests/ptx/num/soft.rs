//! Arithmetic on bits of any format, exact before its one rounding.

use super::format::{Exact, Format, Round, Value};

/// `a + b`.
pub fn add(format: Format, a: u64, b: u64, round: Round) -> u64 {
    match (format.decode(a), format.decode(b)) {
        (Value::Nan, _) | (_, Value::Nan) => format.nan,
        (Value::Infinity(x), Value::Infinity(y)) if x != y => format.nan,
        (Value::Infinity(_), _) => a,
        (_, Value::Infinity(_)) => b,
        (Value::Finite(x), Value::Finite(y)) => format.encode(sum(x, y, round), round),
    }
}

/// `a * b`.
pub fn mul(format: Format, a: u64, b: u64, round: Round) -> u64 {
    match product(format.decode(a), format.decode(b)) {
        Value::Nan => format.nan,
        Value::Infinity(negative) => signed(format, negative, format.infinity()),
        Value::Finite(exact) => format.encode(exact, round),
    }
}

/// `a * b + c` with one rounding.
pub fn fma(format: Format, a: u64, b: u64, c: u64, round: Round) -> u64 {
    match (product(format.decode(a), format.decode(b)), format.decode(c)) {
        (Value::Nan, _) | (_, Value::Nan) => format.nan,
        (Value::Infinity(x), Value::Infinity(y)) if x != y => format.nan,
        (Value::Infinity(x), _) => signed(format, x, format.infinity()),
        (_, Value::Infinity(_)) => c,
        (Value::Finite(x), Value::Finite(y)) => format.encode(sum(x, y, round), round),
    }
}

/// `a / b`.
pub fn div(format: Format, a: u64, b: u64, round: Round) -> u64 {
    let (a, b) = (format.decode(a), format.decode(b));
    let negative = is_negative(a) != is_negative(b);
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => format.nan,
        (Value::Infinity(_), Value::Infinity(_)) => format.nan,
        (Value::Infinity(_), _) => signed(format, negative, format.infinity()),
        (_, Value::Infinity(_)) => signed(format, negative, 0),
        (Value::Finite(x), Value::Finite(y)) => match (x.mantissa, y.mantissa) {
            (0, 0) => format.nan,
            (_, 0) => signed(format, negative, format.infinity()),
            (p, q) => {
                // 53 bits shifted by 70 divided by 53 bits leave at least 70 bits.
                let up = p.leading_zeros() as i32 - 2;
                let (quotient, rest) = ((p << up) / q, (p << up) % q);
                let mantissa = quotient | u128::from(rest != 0);
                let exponent = x.exponent - up - y.exponent;
                format.encode(Exact { negative, mantissa, exponent }, round)
            }
        },
    }
}

/// The square root.
pub fn sqrt(format: Format, a: u64, round: Round) -> u64 {
    match format.decode(a) {
        Value::Nan | Value::Infinity(true) => format.nan,
        Value::Infinity(false) => a,
        Value::Finite(x) if x.mantissa == 0 => a,
        Value::Finite(x) if x.negative => format.nan,
        Value::Finite(x) => {
            let mut up = x.mantissa.leading_zeros() as i32 - 2;
            up -= (x.exponent - up) & 1;
            let scaled = x.mantissa << up;
            let root = scaled.isqrt();
            let mantissa = (root << 1) | u128::from(root * root != scaled);
            let exponent = (x.exponent - up) / 2 - 1;
            format.encode(Exact { negative: false, mantissa, exponent }, round)
        }
    }
}

/// Bits of one format as bits of another.
pub fn convert(from: Format, to: Format, a: u64, round: Round) -> u64 {
    match from.decode(a) {
        Value::Nan => to.nan,
        Value::Infinity(negative) => signed(to, negative, to.infinity()),
        Value::Finite(exact) => to.encode(exact, round),
    }
}

/// An integer, given by sign and magnitude, as a number.
pub fn from_integer(to: Format, negative: bool, magnitude: u64, round: Round) -> u64 {
    let exact = Exact { negative, mantissa: u128::from(magnitude), exponent: 0 };
    to.encode(exact, round)
}

/// The integer that rounding gives, clamped to `least..=most`; none of NaN.
pub fn to_integer(from: Format, a: u64, round: Round, least: i128, most: i128) -> Option<i128> {
    Some(match from.decode(a) {
        Value::Nan => return None,
        Value::Infinity(true) => least,
        Value::Infinity(false) => most,
        Value::Finite(exact) => integer(exact, round).clamp(least, most),
    })
}

/// Rounds to an integer in the same format.
pub fn round_to_integral(format: Format, a: u64, round: Round) -> u64 {
    match format.decode(a) {
        Value::Nan => format.nan,
        Value::Finite(exact) if exact.exponent < 0 => {
            let mantissa = integer(exact, round).unsigned_abs();
            format.encode(Exact { negative: exact.negative, mantissa, exponent: 0 }, round)
        }
        Value::Infinity(_) | Value::Finite(_) => a,
    }
}

/// The value rounded to an integer; magnitudes past 2^100 stay there.
fn integer(value: Exact, round: Round) -> i128 {
    let shift = -value.exponent;
    let magnitude = if shift <= 0 {
        let bits = 128 - value.mantissa.leading_zeros() as i32;
        if bits - shift > 100 { 1 << 100 } else { value.mantissa << -shift }
    } else {
        let shift = shift.min(120);
        let (kept, rest) = (value.mantissa >> shift, value.mantissa & ((1 << shift) - 1));
        let half = 1_u128 << (shift - 1);
        let up = match round {
            Round::Nearest => rest > half || (rest == half && kept & 1 == 1),
            Round::Away => rest >= half,
            Round::Zero => false,
            Round::Down => value.negative && rest > 0,
            Round::Up => !value.negative && rest > 0,
        };
        kept + u128::from(up)
    };
    if value.negative { -(magnitude as i128) } else { magnitude as i128 }
}

fn signed(format: Format, negative: bool, magnitude: u64) -> u64 {
    magnitude | if negative { format.sign_bit() } else { 0 }
}

fn is_negative(value: Value) -> bool {
    match value {
        Value::Nan => false,
        Value::Infinity(negative) => negative,
        Value::Finite(exact) => exact.negative,
    }
}

fn product(a: Value, b: Value) -> Value {
    let negative = is_negative(a) != is_negative(b);
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinity(_), Value::Finite(x)) | (Value::Finite(x), Value::Infinity(_))
            if x.mantissa == 0 =>
        {
            Value::Nan
        }
        (Value::Infinity(_), _) | (_, Value::Infinity(_)) => Value::Infinity(negative),
        (Value::Finite(x), Value::Finite(y)) => Value::Finite(Exact {
            negative,
            mantissa: x.mantissa * y.mantissa,
            exponent: x.exponent + y.exponent,
        }),
    }
}

/// `a + b`, exact but for a tail far below the sum's significand, kept as its lowest bit.
pub fn sum(a: Exact, b: Exact, round: Round) -> Exact {
    if a.mantissa == 0 && b.mantissa == 0 {
        let negative = if a.negative == b.negative { a.negative } else { round == Round::Down };
        return Exact { negative, mantissa: 0, exponent: 0 };
    }
    if a.mantissa == 0 {
        return b;
    }
    if b.mantissa == 0 {
        return a;
    }
    let (a, b) = (at_top(a), at_top(b));
    let (big, small) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    let shift = (big.exponent - small.exponent) as u32;
    let moved = if shift > 126 {
        1
    } else {
        let kept = small.mantissa >> shift;
        kept | u128::from(kept << shift != small.mantissa)
    };
    if big.negative == small.negative {
        return Exact { mantissa: big.mantissa + moved, ..big };
    }
    let mantissa = big.mantissa.abs_diff(moved);
    let negative = match big.mantissa.cmp(&moved) {
        std::cmp::Ordering::Greater => big.negative,
        std::cmp::Ordering::Less => small.negative,
        std::cmp::Ordering::Equal => round == Round::Down,
    };
    Exact { negative, mantissa, exponent: big.exponent }
}

/// The same value with the highest bit of its significand at bit 125.
fn at_top(value: Exact) -> Exact {
    let up = value.mantissa.leading_zeros() - 2;
    Exact { mantissa: value.mantissa << up, exponent: value.exponent - up as i32, ..value }
}
