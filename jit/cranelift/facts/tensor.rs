//! Facts about tensors: the properties that the packed entry of a kernel checks, one by one.
//!
//! Traces guard the facts that their passes cannot prove. Methods check those that the code does
//! not prove, and call the packed entry where one does not hold: only the packed entry raises the
//! errors.

use std::fmt;

use reflex_runtime::dtype::DType;
use reflex_vm::kernel::{Dim, TensorParam};

/// A property of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TensorFact {
    /// It has this many dimensions.
    Rank(u32),
    /// It has this element type, as [`DType::to_bits`] has it.
    Dtype(i32),
    /// It is in the host's memory.
    Cpu,
    /// This dimension, which it has, is of this size.
    Dim { dim: u32, is: i64 },
    /// The size of this dimension, which it has, is not negative.
    NonNegative { dim: u32 },
    /// It has data, in row-major order without gaps; its rank is known.
    Contiguous { rank: u32 },
}

impl fmt::Display for TensorFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TensorFact::Rank(rank) => write!(f, "has rank {rank}"),
            TensorFact::Dtype(bits) => {
                write!(f, "has dtype {}", DType::from_bits(bits))
            }
            TensorFact::Cpu => f.write_str("is on the CPU"),
            TensorFact::Dim { dim, is } => write!(f, "has dim {dim} == {is}"),
            TensorFact::NonNegative { dim } => write!(f, "has dim {dim} >= 0"),
            TensorFact::Contiguous { .. } => f.write_str("is contiguous"),
        }
    }
}

/// The facts that a kernel requires of the argument for `param`, apart from relations to others.
pub(crate) fn param_facts(param: &TensorParam) -> impl Iterator<Item = TensorFact> {
    let rank = param.shape.len() as u32;
    let first = [TensorFact::Rank(rank), TensorFact::Dtype(param.dtype.to_bits()), TensorFact::Cpu];
    let dims = (0..rank).zip(&param.shape).map(|(dim, extent)| match *extent {
        Dim::Static(is) => TensorFact::Dim { dim, is },
        Dim::Symbolic(_) => TensorFact::NonNegative { dim },
    });
    first.into_iter().chain(dims).chain([TensorFact::Contiguous { rank }])
}
