//! The instructions of a CPU that LLVM is asked for by name.

use reflex_tir::codegen::{Arch, CpuTarget};

use crate::emit::int8_instructions::Int8Dots;

/// Those of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// Dot products of 8-bit integers.
    pub int8_dots: Int8Dots,
    /// Fused multiply-adds.
    pub fma: Fma,
    /// Lookups of bytes in a table.
    pub byte_lookups: ByteLookups,
    /// Bytes of the widest registers of x86-64; 0 elsewhere.
    pub x86_vector_bytes: u32,
    /// Bytes of a pointer.
    pub pointer_bytes: usize,
}

impl Instructions {
    /// None at all.
    pub const PLAIN: Instructions = Instructions {
        int8_dots: Int8Dots::Plain,
        fma: Fma::Instruction,
        byte_lookups: ByteLookups::Plain,
        x86_vector_bytes: 0,
        pointer_bytes: Arch::X86_64.pointer_bytes(),
    };

    /// Those of a CPU.
    pub fn of(target: &CpuTarget) -> Instructions {
        let has = |feature: &str| target.features.contains(feature);
        let x86_vector_bytes = match target.arch() {
            Some(Arch::X86_64) if has("avx512f") && target.vector_bytes == 64 => 64,
            Some(Arch::X86_64) if has("avx") => 32,
            Some(Arch::X86_64) => 16,
            _ => 0,
        };
        let (int8_dots, byte_lookups) = (Int8Dots::of(target), ByteLookups::of(target));
        let pointer_bytes = target.arch().unwrap_or(Arch::HOST).pointer_bytes();
        let fma = Fma::of(target);
        Instructions { int8_dots, fma, byte_lookups, x86_vector_bytes, pointer_bytes }
    }
}

/// The form of fused multiply-adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fma {
    /// An instruction, which LLVM chooses.
    Instruction,
    /// `relaxed_madd` of WebAssembly, on hosts where it rounds once.
    Relaxed,
    /// A sequence for float32; the C library's function for float64.
    Sequence,
}

impl Fma {
    /// That of a CPU.
    pub fn of(target: &CpuTarget) -> Fma {
        match target.arch() {
            _ if !target.has_fma() => Fma::Sequence,
            Some(Arch::Wasm32) => Fma::Relaxed,
            _ => Fma::Instruction,
        }
    }
}

/// The instructions that look bytes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteLookups {
    /// Loads, one element after the other.
    Plain,
    /// `pshufb`.
    Shuffle {
        /// Bytes of a register.
        bytes: u32,
    },
    /// `vpermi2b`.
    Permute,
}

impl ByteLookups {
    /// Those of a CPU.
    pub fn of(target: &CpuTarget) -> ByteLookups {
        let has = |feature: &str| target.features.contains(feature);
        if target.arch() != Some(Arch::X86_64) {
            return ByteLookups::Plain;
        }
        match target.vector_bytes == 64 {
            true if has("avx512vbmi") => ByteLookups::Permute,
            true if has("avx512bw") => ByteLookups::Shuffle { bytes: 64 },
            _ if has("avx2") => ByteLookups::Shuffle { bytes: 32 },
            _ if has("ssse3") => ByteLookups::Shuffle { bytes: 16 },
            _ => ByteLookups::Plain,
        }
    }
}
