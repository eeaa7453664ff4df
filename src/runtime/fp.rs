//! The floating-point environment that kernels run in.
//!
//! Results must not depend on what the host set: kernels run with rounding to
//! nearest, denormals honoured and exceptions masked. The host gets its own state
//! back, sticky flags included.

use std::marker::PhantomData;

use register::{DEFAULT, STICKY, Word, read, write};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "wasm32")))]
compile_error!(
    "reflex-runtime knows the floating-point control of x86-64, AArch64 and WebAssembly only"
);

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
    host: Word,
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

/// Miri and WebAssembly have no control word: the environment is the default one.
#[cfg(any(miri, target_arch = "wasm32"))]
mod register {
    pub type Word = u32;
    pub const DEFAULT: Word = 0;
    pub const STICKY: Word = 0;

    pub fn read() -> Word {
        DEFAULT
    }

    pub fn write(_word: Word) {}
}

/// MXCSR.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod register {
    use std::arch::asm;

    pub type Word = u32;
    /// Round to nearest, denormals honoured, every exception masked.
    pub const DEFAULT: Word = 0x1f80;
    /// Exceptions seen so far; they do not change results.
    pub const STICKY: Word = 0x3f;

    #[inline]
    pub fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: stores the control word to a local of the right size.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub fn write(word: Word) {
        // SAFETY: loads a control word without reserved bits: the default one, or one that
        // the processor gave us.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

/// FPCR, with FPSR above it.
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod register {
    use std::arch::asm;

    pub type Word = u64;
    /// Round to nearest, denormals honoured, NaN passed on, no exception trapped.
    pub const DEFAULT: Word = 0;
    /// Exceptions seen so far, and saturation; they do not change results.
    pub const STICKY: Word = 0xffff_ffff << 32;

    #[inline]
    pub fn read() -> Word {
        let (control, status): (u64, u64);
        // SAFETY: the registers are there wherever floats are, and reading them has no effect.
        unsafe {
            asm!(
                "mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status,
                options(nomem, nostack, preserves_flags),
            );
        }
        status << 32 | control & 0xffff_ffff
    }

    #[inline]
    pub fn write(word: Word) {
        let (control, status) = (word & 0xffff_ffff, word >> 32);
        // SAFETY: sets words without reserved bits: the default one, or those that the processor
        // gave us.
        unsafe {
            asm!(
                "msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no control word")]
    fn denormals_survive_a_host_that_flushes_them() {
        // Flush to zero; of x86-64, denormals are zero too.
        let flush: Word = if cfg!(target_arch = "aarch64") { 1 << 24 } else { 1 << 15 | 1 << 6 };
        let before = read();
        write(before | flush);
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
