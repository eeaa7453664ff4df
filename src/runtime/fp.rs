//! The floating-point environment that kernels run in.
//!
//! Results must not depend on what the host set: kernels run with rounding to
//! nearest, denormals honoured and exceptions masked. The host gets its own state
//! back, sticky flags included.

#[cfg(not(miri))]
use std::arch::asm;
use std::marker::PhantomData;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("reflex-runtime knows the floating-point control word of x86-64 only");

/// Round to nearest, denormals honoured, every exception masked.
const DEFAULT: u32 = 0x1f80;
/// Exceptions seen so far; they do not change results.
const STICKY: u32 = 0x3f;

/// While it lives, this thread computes in the default environment.
///
/// ```
/// use reflex_runtime::fp::FpEnv;
/// let env = FpEnv::enter();
/// assert!(f32::MIN_POSITIVE / 2.0 > 0.0);
/// drop(env);
/// ```
#[must_use = "dropping it restores the host's environment"]
#[derive(Debug)]
pub struct FpEnv {
    host: u32,
    /// The control word belongs to a thread.
    this_thread: PhantomData<*const ()>,
}

impl FpEnv {
    /// Switches this thread to the default environment; nothing is written if it is
    /// in it already.
    #[inline]
    pub fn enter() -> FpEnv {
        let host = read();
        if host & !STICKY != DEFAULT {
            write(DEFAULT);
        }
        FpEnv { host, this_thread: PhantomData }
    }
}

impl Drop for FpEnv {
    #[inline]
    fn drop(&mut self) {
        if read() != self.host {
            write(self.host);
        }
    }
}

/// Miri has no control word; there, it stays the default one.
#[cfg(miri)]
fn read() -> u32 {
    DEFAULT
}

#[cfg(miri)]
fn write(_word: u32) {}

#[cfg(not(miri))]
#[inline]
fn read() -> u32 {
    let mut word = 0_u32;
    // SAFETY: stores the control word to a local of the right size.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

#[cfg(not(miri))]
#[inline]
fn write(word: u32) {
    // SAFETY: loads a control word without reserved bits: the default one, or one that
    // the processor gave us.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no control word")]
    fn denormals_survive_a_host_that_flushes_them() {
        const FLUSH_TO_ZERO: u32 = 1 << 15;
        const DENORMALS_ARE_ZERO: u32 = 1 << 6;
        let before = read();
        write(before | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
        let halved = |value: f32| black_box(value) / black_box(2.0);
        let flushed = halved(f32::MIN_POSITIVE);
        let host = read();
        let env = FpEnv::enter();
        let kept = halved(f32::MIN_POSITIVE);
        black_box(black_box(1e30_f32) * black_box(1e30));
        drop(env);
        let after = read();
        write(before);
        assert_eq!(flushed, 0.0);
        assert!(kept > 0.0);
        assert_eq!(after, host);
    }
}
