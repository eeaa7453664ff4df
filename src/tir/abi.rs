//! Entry points that every compiled [`PrimFunc`] has, and the description of the raw one.
//!
//! `__tvm_ffi_<name>` is the packed entry of tvm-ffi's safe-call type with every check.
//! `__reflex_raw_<name>` is `extern "C" fn(pointers..., i64 values...) -> i32`: the data
//! pointers of the buffer parameters in order, then the [`RawSignature::scalars`]. It checks
//! the elements of index tensors ([`crate::IndexCheck`]) and nothing else; 0 is success, -1 a
//! failure that is in the thread's error slot. Tiers call it once the other checks are proven.
//!
//! Decision: docs/decisions/0002-packed-and-raw-entries.md

use serde::{Deserialize, Serialize};

use crate::{DType, Expr, ExprKind, Param, PrimFunc, Var};

/// Prefix of packed entries.
pub const PACKED_PREFIX: &str = "__tvm_ffi_";
/// Prefix of raw entries.
pub const RAW_PREFIX: &str = "__reflex_raw_";

/// One dimension of a buffer parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RawDim {
    /// Known when the kernel was compiled.
    Const(i64),
    /// Equal to `scalars[i]`.
    Scalar(u32),
    /// An expression over scalars that the packed entry checks; not needed to call.
    Derived,
}

/// A buffer parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RawBuffer {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<RawDim>,
}

/// Signature of a raw entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RawSignature {
    /// Kernel name without prefix.
    pub name: String,
    /// Buffer parameters in call order.
    pub buffers: Vec<RawBuffer>,
    /// Number of outputs, which are the last buffers.
    pub num_outputs: usize,
    /// Types of the i64-sized values after the pointers (floats travel as f64 bits): first
    /// the scalar parameters in order, then symbolic dimensions by first appearance.
    pub scalars: Vec<DType>,
    /// Number of `scalars`, the first, that are explicit scalar parameters of the packed entry.
    pub num_scalar_params: usize,
}

/// The variables that become `scalars`, in order: scalar parameters, then every symbolic
/// dimension in order of first appearance as a dimension of its own of a buffer parameter.
pub fn scalar_vars(func: &PrimFunc) -> Vec<Var> {
    let mut vars: Vec<Var> = func
        .params
        .iter()
        .filter_map(|p| match p {
            Param::Scalar(v) => Some(*v),
            Param::Buffer(_) => None,
        })
        .collect();
    for buffer in func.buffer_params() {
        for dim in &func.buffers[buffer].shape {
            if let ExprKind::Var { var, .. } = dim.kind()
                && !vars.contains(var)
            {
                vars.push(*var);
            }
        }
    }
    vars
}

/// Describes the raw entry of `func`.
pub fn raw_signature(func: &PrimFunc) -> RawSignature {
    let vars = scalar_vars(func);
    let dim = |e: &Expr| match (e.as_int(), e.as_var()) {
        (Some(n), _) => RawDim::Const(n),
        (_, Some(v)) => {
            let at = vars.iter().position(|x| *x == v).expect("scalar_vars lists it");
            RawDim::Scalar(at as u32)
        }
        _ => RawDim::Derived,
    };
    let buffers = func
        .buffer_params()
        .map(|b| RawBuffer {
            dtype: func.buffers[b].dtype,
            shape: func.buffers[b].shape.iter().map(dim).collect(),
        })
        .collect();
    RawSignature {
        name: func.name.clone(),
        buffers,
        num_outputs: func.num_outputs,
        scalars: vars.iter().map(|v| func.vars[*v].dtype).collect(),
        num_scalar_params: func.params.len() - func.buffer_params().count(),
    }
}
