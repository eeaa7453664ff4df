//! Loops of our own code, compiled for the vectors of the CPU at hand (function multiversioning).
//!
//! The library is built for the first x86-64, whose vectors have 16 bytes. What is generated for models has the CPU's own;
//! this is for the few loops that prepare constants.

/// Loops that are compiled for several CPUs.
pub trait Loops {
    /// The outcome.
    type Output;

    /// Runs them. It is `#[inline(always)]`, as what it calls in loops is: they are compiled where they are inlined.
    fn run(self) -> Self::Output;
}

/// Runs loops in a function compiled for AVX2, where the CPU has it. The results are the same: no instruction of AVX2
/// rounds otherwise.
///
/// ```
/// use reflex_runtime::simd::{Loops, dispatch};
///
/// struct Sum<'a>(&'a [i32]);
///
/// impl Loops for Sum<'_> {
///     type Output = i32;
///
///     #[inline(always)]
///     fn run(self) -> i32 {
///         self.0.iter().sum()
///     }
/// }
/// assert_eq!(dispatch(Sum(&[1, 2, 3])), 6);
/// ```
pub fn dispatch<L: Loops>(loops: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { avx2(loops) };
    }
    loops.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<L: Loops>(loops: L) -> L::Output {
    loops.run()
}
