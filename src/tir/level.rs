//! CPU levels: features that several machines of an architecture have in common, so that one file serves
//! them all.
//!
//! Decisions: docs/decisions/0039-cpu-levels.md, docs/decisions/0097-aarch64.md

use std::fmt;
use std::str::FromStr;

use crate::codegen::{Arch, CpuTarget};

/// The features that CPUs of an architecture have in common. Levels of one architecture grow; those of two
/// share nothing.
///
/// Of x86-64: a microarchitecture level of the psABI, section 3.1.1, "processor architecture", or one
/// with further instructions. The levels below lack fused multiply-add, which kernels are made of. Of
/// AArch64: Armv8-A, or it with further instructions. WebAssembly 2.0 has `simd128`, and 3.0 `relaxed-simd` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// AVX2 and FMA: 32-byte vectors.
    V3,
    /// AVX-512: 64-byte vectors.
    V4,
    /// [`Level::V4`] with AVX512_VNNI: dot products of 8-bit integers.
    V4Vnni,
    /// [`Level::V4Vnni`] with AVX512_BF16: dot products of bfloat16.
    V4Bf16,
    /// [`Level::V4Bf16`] with AMX-BF16: matrix registers.
    V4Amx,
    /// AArch64 with NEON, which every one has that runs Linux: vectors of two 16-byte registers.
    Armv8,
    /// [`Level::Armv8`] with dot products of 8-bit integers of one signedness.
    Armv8Dot,
    /// [`Level::Armv8Dot`] with those of either signedness.
    Armv8I8mm,
    /// WebAssembly 2.0: vectors of two 16-byte ones, fused multiply-adds in exact sequences of instructions.
    Wasm,
    /// [`Level::Wasm`] with relaxed SIMD, on a host whose `relaxed_madd` rounds once.
    WasmRelaxed,
}

/// The features of [`Level::V3`].
const V3: &[&str] = &[
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma",
    "lzcnt", "movbe",
];
/// The features that [`Level::V4`] adds.
const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];
/// The features that [`Level::V4Vnni`] adds.
const VNNI: &[&str] = &["avx512vnni"];
/// The features that [`Level::V4Bf16`] adds.
const BF16: &[&str] = &["avx512bf16"];
/// The features that [`Level::V4Amx`] adds.
const AMX: &[&str] = &["amx-tile", "amx-bf16", "amx-int8"];
/// The features of [`Level::Armv8`].
const NEON: &[&str] = &["neon"];
/// The features that [`Level::Armv8Dot`] adds.
const DOT: &[&str] = &["dotprod"];
/// The features that [`Level::Armv8I8mm`] adds.
const I8MM: &[&str] = &["i8mm"];
/// The features of [`Level::Wasm`] that kernels use.
const SIMD128: &[&str] =
    &["bulk-memory", "mutable-globals", "nontrapping-fptoint", "sign-ext", "simd128"];
/// The features that [`Level::WasmRelaxed`] adds.
const RELAXED: &[&str] = &["relaxed-simd"];

impl Level {
    /// Those of x86-64, the lowest first.
    pub const X86_64: [Level; 5] =
        [Level::V3, Level::V4, Level::V4Vnni, Level::V4Bf16, Level::V4Amx];
    /// Those of AArch64, the lowest first.
    pub const AARCH64: [Level; 3] = [Level::Armv8, Level::Armv8Dot, Level::Armv8I8mm];
    /// Those of WebAssembly, the lowest first.
    pub const WASM32: [Level; 2] = [Level::Wasm, Level::WasmRelaxed];
    /// Every level: those of an architecture side by side, the lowest first.
    pub const ALL: [Level; 10] = [
        Level::V3,
        Level::V4,
        Level::V4Vnni,
        Level::V4Bf16,
        Level::V4Amx,
        Level::Armv8,
        Level::Armv8Dot,
        Level::Armv8I8mm,
        Level::Wasm,
        Level::WasmRelaxed,
    ];

    /// `v3` or `armv8-a`.
    pub fn short(self) -> &'static str {
        match self {
            Level::V3 => "v3",
            Level::V4 => "v4",
            Level::V4Vnni => "v4+vnni",
            Level::V4Bf16 => "v4+bf16",
            Level::V4Amx => "v4+amx",
            Level::Armv8 => "armv8-a",
            Level::Armv8Dot => "armv8-a+dotprod",
            Level::Armv8I8mm => "armv8-a+i8mm",
            Level::Wasm => "wasm",
            Level::WasmRelaxed => "wasm+relaxed-simd",
        }
    }

    /// The suffix of its kernels' names.
    pub fn suffix(self) -> String {
        format!(".{}", self.short().replace(['+', '-'], "_"))
    }

    /// The architecture of its CPUs.
    pub fn arch(self) -> Arch {
        match self {
            Level::V3 | Level::V4 | Level::V4Vnni | Level::V4Bf16 | Level::V4Amx => Arch::X86_64,
            Level::Armv8 | Level::Armv8Dot | Level::Armv8I8mm => Arch::Aarch64,
            Level::Wasm | Level::WasmRelaxed => Arch::Wasm32,
        }
    }

    /// The levels of an architecture, the lowest first.
    pub fn of(arch: Arch) -> &'static [Level] {
        match arch {
            Arch::X86_64 => &Level::X86_64,
            Arch::Aarch64 => &Level::AARCH64,
            Arch::Wasm32 => &Level::WASM32,
        }
    }

    /// Whether this machine's CPU has it.
    pub fn runs_on_host(self) -> bool {
        CpuTarget::host().runs(&self.target())
    }

    /// A CPU of this level and no more, with caches that all such CPUs have.
    pub fn target(self) -> CpuTarget {
        let (features, vector_bytes): (&[&[&str]], _) = match self {
            Level::V3 => (&[V3], 32),
            Level::V4 => (&[V3, V4], 64),
            Level::V4Vnni => (&[V3, V4, VNNI], 64),
            Level::V4Bf16 => (&[V3, V4, VNNI, BF16], 64),
            Level::V4Amx => (&[V3, V4, VNNI, BF16, AMX], 64),
            Level::Armv8 => (&[NEON], NEON_VECTOR_BYTES),
            Level::Armv8Dot => (&[NEON, DOT], NEON_VECTOR_BYTES),
            Level::Armv8I8mm => (&[NEON, DOT, I8MM], NEON_VECTOR_BYTES),
            Level::Wasm => (&[SIMD128], WASM_VECTOR_BYTES),
            Level::WasmRelaxed => (&[SIMD128, RELAXED], WASM_VECTOR_BYTES),
        };
        CpuTarget {
            triple: self.arch().triple().to_owned(),
            features: features.iter().copied().flatten().map(|f| (*f).to_owned()).collect(),
            vector_bytes,
            l1d_bytes: 32 << 10,
            l2_bytes: 512 << 10,
        }
    }
}

/// Bytes of the vectors of schedules for NEON: two registers, so that its 32 hold what the 16 of
/// [`Level::V3`] do, kernels are scheduled as for that, and results are the same bits.
pub(crate) const NEON_VECTOR_BYTES: u32 = 32;
/// The same for WebAssembly, for the same reason.
pub(crate) const WASM_VECTOR_BYTES: u32 = 32;

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arch() {
            Arch::X86_64 => write!(f, "x86-64-{}", self.short()),
            Arch::Aarch64 | Arch::Wasm32 => f.write_str(self.short()),
        }
    }
}

impl FromStr for Level {
    type Err = String;

    /// `x86-64-v3`, or `v3` for short; `v4+amx`; `armv8-a`; `wasm`.
    fn from_str(text: &str) -> Result<Level, String> {
        let short = text.strip_prefix("x86-64-").filter(|short| short.starts_with('v'));
        let short = short.unwrap_or(text);
        let found = Level::ALL.into_iter().find(|l| l.short() == short);
        found.ok_or_else(|| {
            let [x86, arm, wasm] = Arch::ALL.map(|arch| {
                Level::of(arch).iter().map(|level| level.short()).collect::<Vec<_>>().join(", ")
            });
            format!(
                "no CPU level {text:?}; there are {x86} of x86-64, {arm} of AArch64 and {wasm} of WebAssembly"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_grow_and_read_back() {
        for levels in [&Level::X86_64[..], &Level::AARCH64] {
            for pair in levels.windows(2) {
                let (low, high) = (pair[0].target(), pair[1].target());
                assert!(high.runs(&low) && !low.runs(&high));
                assert!(low.vector_bytes <= high.vector_bytes);
            }
        }
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(level.short().parse(), Ok(level));
            assert!(Level::of(level.arch()).contains(&level));
        }
        let tiles = Level::X86_64.map(|level| level.target().has_amx_bf16());
        assert_eq!(tiles, [false, false, false, false, true]);
        let dots = Level::X86_64.map(|level| level.target().has_avx512_vnni());
        assert_eq!(dots, [false, false, true, true, true]);
        assert_eq!(Level::V4Amx.suffix(), ".v4_amx");
        assert_eq!(Level::Armv8Dot.suffix(), ".armv8_a_dotprod");
        let error = "v5".parse::<Level>().unwrap_err();
        assert!(error.contains("v4") && error.contains("armv8-a+i8mm of AArch64"), "{error}");
        assert!("x86-64-".parse::<Level>().is_err() && "64-v3".parse::<Level>().is_err());
        assert!("x86-64-armv8-a".parse::<Level>().is_err());
    }

    #[test]
    fn all_levels_are_those_of_the_architectures() {
        assert_eq!(Arch::ALL.map(Level::of).concat(), Level::ALL);
    }

    #[test]
    fn architectures_run_nothing_of_each_other() {
        for low in Level::ALL {
            for high in Level::ALL.into_iter().filter(|high| high.arch() != low.arch()) {
                assert!(!high.target().runs(&low.target()));
            }
        }
        // Nor where no feature is asked for.
        let mut bare = Level::V3.target();
        bare.features.clear();
        assert!(!Level::Armv8I8mm.target().runs(&bare));
    }

    #[test]
    fn kernels_for_neon_are_scheduled_as_for_avx2() {
        let (arm, x86) = (Level::Armv8.target(), Level::V3.target());
        let scheduled = |cpu: &CpuTarget| (cpu.vector_bytes, cpu.l1d_bytes, cpu.l2_bytes);
        assert_eq!(scheduled(&arm), scheduled(&x86));
    }
}
