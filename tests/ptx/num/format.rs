//! Floating-point formats: decoding to exact values and encoding with one rounding.

/// A binary interchange format, by the widths of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Explicit bits of the significand.
    pub fraction: u32,
    /// Bits of the exponent.
    pub exponent: u32,
    /// The NaN that arithmetic returns.
    pub nan: u64,
}

/// IEEE binary16.
pub const F16: Format = Format { fraction: 10, exponent: 5, nan: 0x7fff };
/// bfloat16.
pub const BF16: Format = Format { fraction: 7, exponent: 8, nan: 0x7fff };
/// IEEE binary32.
pub const F32: Format = Format { fraction: 23, exponent: 8, nan: 0x7fff_ffff };
/// IEEE binary64.
pub const F64: Format = Format { fraction: 52, exponent: 11, nan: 0x7fff_ffff_ffff_ffff };
/// TensorFloat-32 without its low bits, as a number of 19 bits.
pub const TF32: Format = Format { fraction: 10, exponent: 8, nan: 0x3_ffff };

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To nearest, ties to even.
    Nearest,
    /// To nearest, ties away from zero.
    Away,
    /// Towards zero.
    Zero,
    /// Towards negative infinity.
    Down,
    /// Towards positive infinity.
    Up,
}

/// `mantissa * 2^exponent`, negated when `negative`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// The sign.
    pub negative: bool,
    /// The integer significand.
    pub mantissa: u128,
    /// The weight of the significand's lowest bit.
    pub exponent: i32,
}

/// The value that the bits of a format stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not a number.
    Nan,
    /// Infinity; negative when true.
    Infinity(bool),
    /// A finite number, zero included.
    Finite(Exact),
}

impl Format {
    /// The bit of the sign.
    pub fn sign_bit(self) -> u64 {
        1 << (self.exponent + self.fraction)
    }

    /// The exponent of the smallest normal number.
    pub fn min_exponent(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    /// Infinity, positive.
    pub fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    /// Whether bits are a NaN.
    pub fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign_bit() - 1) > self.infinity()
    }

    /// The value of bits.
    pub fn decode(self, bits: u64) -> Value {
        let negative = bits & self.sign_bit() != 0;
        let magnitude = bits & (self.sign_bit() - 1);
        if magnitude > self.infinity() {
            return Value::Nan;
        }
        if magnitude == self.infinity() {
            return Value::Infinity(negative);
        }
        let field = (magnitude >> self.fraction) as i32;
        let fraction = u128::from(magnitude & ((1 << self.fraction) - 1));
        let hidden = if field > 0 { 1 << self.fraction } else { 0 };
        let exponent = self.min_exponent() + field.max(1) - 1 - self.fraction as i32;
        Value::Finite(Exact { negative, mantissa: fraction | hidden, exponent })
    }

    /// The number nearest to a value by a rounding mode. A lost tail may be set as the lowest
    /// bit of a significand that has at least two bits more than the format.
    pub fn encode(self, value: Exact, round: Round) -> u64 {
        let sign = if value.negative { self.sign_bit() } else { 0 };
        if value.mantissa == 0 {
            return sign;
        }
        let top = 127 - value.mantissa.leading_zeros() as i32;
        let scale = (value.exponent + top).max(self.min_exponent());
        let unit = scale - self.fraction as i32;
        let (mut kept, rest, half) = split(value.mantissa, unit - value.exponent);
        let up = match round {
            Round::Nearest => rest > half || (rest == half && half > 0 && kept & 1 == 1),
            Round::Away => rest >= half && rest > 0,
            Round::Zero => false,
            Round::Down => value.negative && rest > 0,
            Round::Up => !value.negative && rest > 0,
        };
        kept += u128::from(up);
        // A carry out of the significand moves into the exponent by itself.
        let field = (scale - self.min_exponent()) as u128;
        let magnitude = (field << self.fraction) + kept;
        if magnitude < u128::from(self.infinity()) {
            return sign | magnitude as u64;
        }
        let to_infinity = match round {
            Round::Nearest | Round::Away => true,
            Round::Zero => false,
            Round::Down => value.negative,
            Round::Up => !value.negative,
        };
        sign | (self.infinity() - u64::from(!to_infinity))
    }
}

/// `mantissa` shifted right by `shift`: the integer, the rest, and half of a unit of the integer.
/// A shift past all bits leaves a rest below half.
fn split(mantissa: u128, shift: i32) -> (u128, u128, u128) {
    match shift {
        ..=0 => (mantissa << -shift, 0, 0),
        1..=127 => (mantissa >> shift, mantissa & ((1_u128 << shift) - 1), 1_u128 << (shift - 1)),
        _ => (0, 1, 2),
    }
}
