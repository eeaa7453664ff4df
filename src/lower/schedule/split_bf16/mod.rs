//! Float32 contractions as sums of bfloat16 contractions on AMX tiles (bf16x3, bf16x6).

pub mod exponents;
pub mod operands;
pub mod rule;
