//! Vector registers of CPUs.

/// Vectors that a CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vectors {
    /// AVX2 and FMA: 16 registers of 8 floats.
    Avx2,
    /// AVX-512: 32 registers of 16 floats.
    Avx512,
}

impl Vectors {
    /// Floats in a register.
    pub fn lanes(self) -> i64 {
        match self {
            Vectors::Avx2 => 8,
            Vectors::Avx512 => 16,
        }
    }

    /// Registers.
    pub fn registers(self) -> usize {
        match self {
            Vectors::Avx2 => 16,
            Vectors::Avx512 => 32,
        }
    }
}
