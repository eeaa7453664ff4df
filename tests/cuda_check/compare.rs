//! Compares arrays bit by bit, all NaNs being the same.

use reflex::{Array, DType};

/// The bits of a float that say it is a NaN or an infinity, and those of its fraction.
fn float_masks(dtype: DType) -> Option<(u64, u64)> {
    match dtype {
        DType::F16 => Some((0x7c00, 0x03ff)),
        DType::BF16 => Some((0x7f80, 0x007f)),
        DType::F32 => Some((0x7f80_0000, 0x007f_ffff)),
        DType::F64 => Some((0x7ff0_0000_0000_0000, 0x000f_ffff_ffff_ffff)),
        _ => None,
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A word with the NaN that stands for all.
fn plain(bits: u64, masks: Option<(u64, u64)>) -> u64 {
    match masks {
        Some((exponent, fraction)) if bits & exponent == exponent && bits & fraction != 0 => {
            exponent | fraction
        }
        _ => bits,
    }
}

/// A result of so many bits, with the NaN that stands for all.
pub fn plain_float(bits: u64, width: u32) -> u64 {
    let dtype = match width {
        16 => DType::F16,
        32 => DType::F32,
        _ => DType::F64,
    };
    plain(bits, float_masks(dtype))
}

/// The hash of an array's elements.
pub fn hash(array: &Array) -> String {
    let masks = float_masks(array.dtype);
    let Some((_, _)) = masks else { return blake3::hash(&array.data).to_string() };
    let width = (array.dtype.bits as usize).div_ceil(8);
    let mut hasher = blake3::Hasher::new();
    for element in array.data.chunks(width) {
        hasher.update(&plain(word(element), masks).to_le_bytes()[..width]);
    }
    hasher.finalize().to_string()
}

/// The first element that differs, and how many do.
pub fn difference(found: &Array, expected: &[u8]) -> String {
    let masks = float_masks(found.dtype);
    let width = (found.dtype.bits as usize).div_ceil(8).max(1);
    let both = found.data.chunks(width).zip(expected.chunks(width));
    let pairs: Vec<(usize, u64, u64)> = both
        .enumerate()
        .map(|(at, (a, b))| (at, plain(word(a), masks), plain(word(b), masks)))
        .filter(|(_, a, b)| a != b)
        .collect();
    let Some(&(at, a, b)) = pairs.first() else { return "the hash alone differs".to_owned() };
    let digits = 2 * width;
    let farthest = match found.dtype {
        DType::F32 => pairs.iter().map(|(_, a, b)| (ordered(*a) - ordered(*b)).abs()).max(),
        _ => None,
    };
    let steps = farthest.map_or_else(String::new, |n| format!(", at most {n} steps of float32"));
    format!(
        "{} elements differ{steps}; element {at} is {a:#0w$x}, not {b:#0w$x}",
        pairs.len(),
        w = digits + 2
    )
}

/// A float32 as a number that grows with it, so that neighbours differ by one.
fn ordered(bits: u64) -> i64 {
    let magnitude = (bits & 0x7fff_ffff) as i64;
    if bits >> 31 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nans_are_the_same_and_zeros_are_not() {
        let of = |bits: u32| Array::of(&[1], &[f32::from_bits(bits)]).unwrap();
        assert_eq!(hash(&of(0x7fff_ffff)), hash(&of(0xffc0_0001)));
        assert_ne!(hash(&of(0)), hash(&of(0x8000_0000)));
        assert_ne!(hash(&of(0x7f80_0000)), hash(&of(0x7fff_ffff)), "an infinity is no NaN");
    }

    #[test]
    fn a_difference_names_its_first_element_and_its_size() {
        let found = Array::of(&[3], &[1.0_f32, 2.0, f32::from_bits(0x4040_0001)]).unwrap();
        let expected = Array::of(&[3], &[1.0_f32, f32::from_bits(0x4000_0003), 3.0]).unwrap();
        assert_eq!(
            difference(&found, &expected.data),
            "2 elements differ, at most 3 steps of float32; element 1 is 0x40000000, not 0x40000003"
        );
    }
}
