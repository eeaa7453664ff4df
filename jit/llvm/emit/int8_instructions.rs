//! The choice of instructions for dot products of 8-bit integers.

use reflex_tir::codegen::CpuTarget;

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
    /// `vpdpbusd`.
    Vnni {
        /// 32-bit lanes of a register.
        lanes: u32,
    },
}

impl Int8Dots {
    /// Those of a CPU.
    pub fn of(target: &CpuTarget) -> Int8Dots {
        let has = |feature: &str| target.features.contains(feature);
        let wide = target.vector_bytes == 64;
        match wide {
            true if target.has_avx512_vnni() => Int8Dots::Vnni { lanes: 16 },
            true if has("avx512bw") => Int8Dots::Widened { lanes: 16 },
            _ if has("avxvnni") || target.has_avx512_vnni() => Int8Dots::Vnni { lanes: 8 },
            _ if has("avx2") => Int8Dots::Widened { lanes: 8 },
            _ => Int8Dots::Widened { lanes: 4 },
        }
    }
}
