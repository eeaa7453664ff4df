//! Properties over random input that every machine tries on the same cases.

use arbtest::arbitrary::{Error, Result, Unstructured};

/// Checks `property` on `count` cases of growing size, the same ones in every run. With
/// `REFLEX_FUZZ_MS` set it searches new cases for so many milliseconds instead, and a failure
/// prints a seed: `ARBTEST_SEED=0x...` with `REFLEX_FUZZ_MS=0` repeats that one.
pub fn property(count: u32, mut property: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    if let Some(ms) = std::env::var("REFLEX_FUZZ_MS").ok().and_then(|ms| ms.parse().ok()) {
        return arbtest::arbtest(property).budget_ms(ms).run();
    }
    let mut ran = 0;
    for case in 0..count {
        // arbtest's seeds hold the number of bytes in their low half, which repeats the sizes
        // that its own search tries.
        let size = 32 + 4 * u64::from(case % 64).pow(2);
        let random = u64::from(case + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let once = |u: &mut Unstructured<'_>| match property(u) {
            Ok(()) => {
                ran += 1;
                Ok(())
            }
            // A case that wants more bytes than it has says nothing.
            Err(Error::NotEnoughData | Error::IncorrectFormat | Error::EmptyChoose) => Ok(()),
            Err(other) => Err(other),
        };
        arbtest::arbtest(once).seed(random << 32 | size).run();
    }
    assert!(ran > count / 2, "{ran} of {count} cases ran");
}
