//! x86-64 feature levels: features that several machines have in common, so that one file serves
//! them all.
//!
//! Decision: docs/decisions/0039-cpu-levels.md

use std::fmt;
use std::str::FromStr;

use crate::codegen::CpuTarget;

/// A microarchitecture level of the x86-64 psABI, section 3.1.1, "processor architecture", or one
/// with further instructions. The levels below lack fused multiply-add, which kernels are made of.
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

impl Level {
    /// Every level, the lowest first.
    pub const ALL: [Level; 5] = [Level::V3, Level::V4, Level::V4Vnni, Level::V4Bf16, Level::V4Amx];

    /// `v3`.
    pub fn short(self) -> &'static str {
        match self {
            Level::V3 => "v3",
            Level::V4 => "v4",
            Level::V4Vnni => "v4+vnni",
            Level::V4Bf16 => "v4+bf16",
            Level::V4Amx => "v4+amx",
        }
    }

    /// The suffix of its kernels' names.
    pub fn suffix(self) -> String {
        format!(".{}", self.short().replace('+', "_"))
    }

    /// Whether this machine's CPU has it.
    pub fn runs_on_host(self) -> bool {
        CpuTarget::host().runs(&self.target())
    }

    /// A CPU of this level and no more, with caches that all such CPUs have.
    pub fn target(self) -> CpuTarget {
        let (added, vector_bytes): (&[&[&str]], _) = match self {
            Level::V3 => (&[], 32),
            Level::V4 => (&[V4], 64),
            Level::V4Vnni => (&[V4, VNNI], 64),
            Level::V4Bf16 => (&[V4, VNNI, BF16], 64),
            Level::V4Amx => (&[V4, VNNI, BF16, AMX], 64),
        };
        CpuTarget {
            triple: "x86_64-unknown-linux-gnu".to_owned(),
            features: V3
                .iter()
                .chain(added.iter().copied().flatten())
                .map(|f| (*f).to_owned())
                .collect(),
            vector_bytes,
            l1d_bytes: 32 << 10,
            l2_bytes: 512 << 10,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x86-64-{}", self.short())
    }
}

impl FromStr for Level {
    type Err = String;

    /// `x86-64-v3`, or `v3` for short; `v4+amx`.
    fn from_str(text: &str) -> Result<Level, String> {
        let short = text.strip_prefix("x86-64-").unwrap_or(text);
        let found = Level::ALL.into_iter().find(|l| l.short() == short);
        found.ok_or_else(|| {
            let names = Level::ALL.map(Level::short).join(", ");
            format!("no CPU level {text:?}; there are {names} of x86-64")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_grow_and_read_back() {
        for pair in Level::ALL.windows(2) {
            let (low, high) = (pair[0].target(), pair[1].target());
            assert!(high.runs(&low) && !low.runs(&high) && low.vector_bytes <= high.vector_bytes);
        }
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(level.short().parse(), Ok(level));
        }
        let tiles = Level::ALL.map(|level| level.target().has_amx_bf16());
        assert_eq!(tiles, [false, false, false, false, true]);
        let dots = Level::ALL.map(|level| level.target().has_avx512_vnni());
        assert_eq!(dots, [false, false, true, true, true]);
        assert_eq!(Level::V4Amx.suffix(), ".v4_amx");
        assert!("v5".parse::<Level>().unwrap_err().contains("v4"));
        assert!("x86-64-".parse::<Level>().is_err() && "64-v3".parse::<Level>().is_err());
    }
}
