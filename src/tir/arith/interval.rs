//! Intervals of int64 with infinite ends, and outward-safe arithmetic on them.

use std::ops;

use crate::DType;

/// All values from `min` to `max` inclusive; the ends of int64 stand for infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Least value, `i64::MIN` if there is none.
    pub min: i64,
    /// Greatest value, `i64::MAX` if there is none.
    pub max: i64,
}

impl Interval {
    /// No information.
    pub const EVERYTHING: Interval = Interval { min: i64::MIN, max: i64::MAX };

    /// One value.
    pub fn point(x: i64) -> Interval {
        Interval { min: x, max: x }
    }

    /// Every value of an integer or bool type.
    pub fn of_type(dtype: DType) -> Interval {
        match dtype {
            DType::BOOL => Interval { min: 0, max: 1 },
            DType::I8 => Interval { min: i8::MIN.into(), max: i8::MAX.into() },
            DType::I16 => Interval { min: i16::MIN.into(), max: i16::MAX.into() },
            DType::I32 => Interval { min: i32::MIN.into(), max: i32::MAX.into() },
            DType::U8 => Interval { min: 0, max: u8::MAX.into() },
            DType::U16 => Interval { min: 0, max: u16::MAX.into() },
            DType::U32 => Interval { min: 0, max: u32::MAX.into() },
            _ => Interval::EVERYTHING,
        }
    }

    /// The smallest interval around both.
    pub fn union(self, other: Interval) -> Interval {
        Interval { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Whether every value lies in `0..n`.
    pub fn within(self, n: i64) -> bool {
        self.min >= 0 && self.max < n
    }

    /// Quotients rounded down; divisors are assumed not zero.
    pub fn floordiv(self, by: Interval) -> Interval {
        if by.min <= 0 {
            return Interval::EVERYTHING;
        }
        // Monotone in the dividend; the least divisor makes the quotient largest in size.
        let quotient = |x: i64, near: i64, far: i64| match x {
            i64::MIN | i64::MAX => x,
            x if x >= 0 => x.div_euclid(near),
            x => x.div_euclid(far),
        };
        Interval {
            min: quotient(self.min, by.max, by.min),
            max: quotient(self.max, by.min, by.max),
        }
    }

    /// Remainders with the divisor's sign; divisors are assumed not zero.
    pub fn floormod(self, by: Interval) -> Interval {
        match by.min > 0 {
            true if self.within(by.min) => self,
            true if by.max == i64::MAX => {
                Interval { min: 0, max: if self.min >= 0 { self.max } else { i64::MAX } }
            }
            true => Interval { min: 0, max: by.max - 1 },
            false => Interval::EVERYTHING,
        }
    }
}

/// Saturates towards the infinity that `wide` exceeds.
fn clamp(wide: i128) -> i64 {
    wide.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

fn add(a: i64, b: i64, infinity: i64) -> i64 {
    if a == infinity || b == infinity { infinity } else { clamp(i128::from(a) + i128::from(b)) }
}

fn mul(a: i64, b: i64) -> i64 {
    clamp(i128::from(a) * i128::from(b))
}

impl ops::Add for Interval {
    type Output = Interval;
    fn add(self, b: Interval) -> Interval {
        Interval { min: add(self.min, b.min, i64::MIN), max: add(self.max, b.max, i64::MAX) }
    }
}

impl ops::Mul for Interval {
    type Output = Interval;
    fn mul(self, b: Interval) -> Interval {
        let corners = [
            mul(self.min, b.min),
            mul(self.min, b.max),
            mul(self.max, b.min),
            mul(self.max, b.max),
        ];
        let infinite = |x: i64| x == i64::MIN || x == i64::MAX;
        // An infinite end times anything but zero reaches an infinity; saturation covers that
        // for factors of size 2 and more, and this for factors of size 1.
        let ends = [self.min, self.max, b.min, b.max];
        let (mut min, mut max) = (corners[0], corners[0]);
        for corner in corners {
            (min, max) = (min.min(corner), max.max(corner));
        }
        if ends.into_iter().any(infinite) {
            if min < i64::MIN / 2 {
                min = i64::MIN;
            }
            if max > i64::MAX / 2 {
                max = i64::MAX;
            }
        }
        Interval { min, max }
    }
}
