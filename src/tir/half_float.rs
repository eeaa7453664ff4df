//! Conversion of float64 to float16 and bfloat16 with one rounding, to nearest, ties to even.
//!
//! `half` goes by way of float32, or drops the low bits: values next to a tie then end on its wrong
//! side. Rounded to odd first, a float32 tells the tie from its neighbours (Boldo and Melquiond,
//! "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).

use half::{bf16, f16};

/// The nearest float16.
pub fn f64_to_f16(x: f64) -> f16 {
    f16::from_f32(to_odd(x))
}

/// The nearest bfloat16.
pub fn f64_to_bf16(x: f64) -> bf16 {
    bf16::from_f32(to_odd(x))
}

/// `x` where float32 has it, else of its two neighbours there the one whose last bit is set.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() || near.to_bits() & 1 == 1 {
        return near;
    }
    // The even neighbour is the nearer one: the other is a step towards `x`. From infinity that is
    // the largest number, which is odd; from zero the smallest one, whose sign is that of `x`.
    let step = if back.abs() < x.abs() { 1 } else { -1 };
    f32::from_bits(near.to_bits().wrapping_add_signed(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_ties_go_to_their_sides() {
        // One and a half steps of bfloat16 above 1, and the nearest float64s.
        let tie = 1.0 + 3.0 / 256.0;
        let near = |bits: i64| f64::from_bits(f64::to_bits(tie).wrapping_add_signed(bits));
        assert_eq!(f64_to_bf16(tie).to_f64(), 1.0 + 4.0 / 256.0);
        assert_eq!(f64_to_bf16(near(1)).to_f64(), 1.0 + 4.0 / 256.0);
        assert_eq!(f64_to_bf16(near(-1)).to_f64(), 1.0 + 2.0 / 256.0);
        let tie = 1.0 + 1.0 / 2048.0;
        let near = |bits: i64| f64::from_bits(f64::to_bits(tie).wrapping_add_signed(bits));
        assert_eq!(f64_to_f16(tie).to_f64(), 1.0);
        assert_eq!(f64_to_f16(near(1)).to_f64(), 1.0 + 1.0 / 1024.0);
        assert_eq!(f64_to_f16(-near(1)).to_f64(), -1.0 - 1.0 / 1024.0);
        assert_eq!(f64_to_f16(near(-1)).to_f64(), 1.0);
    }

    #[test]
    fn representable_values_are_kept() {
        for x in [0.0, -0.0, 1.5, -2.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(f64_to_bf16(x).to_f64().to_bits(), x.to_bits());
            assert_eq!(f64_to_f16(x).to_f64().to_bits(), x.to_bits());
        }
        assert!(f64_to_bf16(f64::NAN).is_nan() && f64_to_f16(f64::NAN).is_nan());
        // Too large, too small, and the halves of the smallest numbers with their neighbours.
        assert_eq!(f64_to_bf16(1e300).to_f64(), f64::INFINITY);
        assert_eq!(f64_to_f16(65520.0).to_f64(), f64::INFINITY);
        assert_eq!(f64_to_f16(65_519.999_999_999).to_f64(), 65504.0);
        assert_eq!(f64_to_bf16(-1e-300).to_f64().to_bits(), (-0.0f64).to_bits());
        let smallest = 2f64.powi(-24);
        assert_eq!(f64_to_f16(smallest / 2.0).to_f64(), 0.0);
        assert_eq!(f64_to_f16((smallest / 2.0).next_up()).to_f64(), smallest);
        let smallest = 2f64.powi(-133);
        assert_eq!(f64_to_bf16(smallest / 2.0).to_f64(), 0.0);
        assert_eq!(f64_to_bf16((smallest / 2.0).next_up()).to_f64(), smallest);
    }

    #[test]
    fn all_halves_and_what_is_between() {
        // Any two neighbours of one sign: their middle goes to the even one, and what is
        // next to it to the side where it is.
        for bits in 0..0x7bffu16 {
            let [low, high] = [bits, bits + 1].map(|b| f16::from_bits(b).to_f64());
            let middle = (low + high) / 2.0;
            let even = if bits & 1 == 0 { low } else { high };
            assert_eq!(f64_to_f16(middle).to_f64(), even);
            assert_eq!(f64_to_f16(middle.next_up()).to_f64(), high);
            assert_eq!(f64_to_f16(middle.next_down()).to_f64(), low);
        }
    }
}
