//! The choice of instructions for dot products of 8-bit integers.

use reflex_tir::codegen::{Arch, CpuTarget};

/// The instructions for dot products of 8-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Int8Dots {
    /// Shifts and multiplications, lane by lane.
    Plain,
    /// `pmaddwd` of 16-bit integers.
    Widened {
        /// 32-bit lanes of a register.
        lanes: u32,
    },
    /// `i32x4.dot_i16x8_s` of 16-bit integers.
    Simd128,
    /// `vpdpbusd`.
    Vnni {
        /// 32-bit lanes of a register.
        lanes: u32,
    },
    /// `sdot` and `udot`.
    Neon {
        /// Whether there is `usdot`, for operands of two signednesses.
        mixed: bool,
    },
}

impl Int8Dots {
    /// Those of a CPU.
    pub fn of(target: &CpuTarget) -> Int8Dots {
        let has = |feature: &str| target.features.contains(feature);
        if target.arch() == Some(Arch::Aarch64) {
            return match has("dotprod") {
                true => Int8Dots::Neon { mixed: has("i8mm") },
                false => Int8Dots::Plain,
            };
        }
        if target.arch() == Some(Arch::Wasm32) {
            return Int8Dots::Simd128;
        }
        let wide = target.vector_bytes == 64;
        match wide {
            true if target.has_avx512_vnni() => Int8Dots::Vnni { lanes: 16 },
            true if has("avx512bw") => Int8Dots::Widened { lanes: 16 },
            _ if target.has_int8_dots() => Int8Dots::Vnni { lanes: 8 },
            _ if has("avx2") => Int8Dots::Widened { lanes: 8 },
            _ => Int8Dots::Widened { lanes: 4 },
        }
    }
}
