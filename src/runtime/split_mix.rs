//! Reproducible random numbers.

/// Returns the next number of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014).
///
/// ```
/// use reflex_runtime::split_mix::split_mix;
/// let mut state = 0;
/// assert_ne!(split_mix(&mut state), split_mix(&mut state));
/// ```
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
