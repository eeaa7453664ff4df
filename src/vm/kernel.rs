//! Resolved packed functions, and the raw entry that kernels may have.
//!
//! The packed entry checks everything. A raw entry takes the data pointers of its tensors in the
//! order of the packed arguments, then its symbolic dimensions as 64-bit integers; it checks nothing
//! and returns zero, or another status with the error in the thread's slot. [`RawKernel`] says
//! what must hold before it is called; a tier that has guarded it calls the raw entry directly.
//!
//! Decision: docs/decisions/0002-packed-and-raw-entries.md

use std::collections::BTreeMap;
use std::ffi::c_void;

use reflex_runtime::abi::{DLDevice, SafeCall};
use reflex_runtime::dtype::DType;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;

use crate::abi::CodePtr;

/// A packed function, resolved for calls.
#[derive(Debug)]
pub struct Packed {
    /// The code.
    pub call: SafeCall,
    /// Its first argument.
    pub this: *mut c_void,
    /// The raw entry, if there is one.
    pub raw: Option<RawKernel>,
    /// Keeps all of them alive.
    function: Function,
}

// SAFETY: the pointers are into `function`, which may be shared between threads.
unsafe impl Send for Packed {}
// SAFETY: as for Send: `function` is immutable and may be called from several threads at once.
unsafe impl Sync for Packed {}

impl Packed {
    pub(crate) fn new(function: Function, raw: Option<RawKernel>) -> Packed {
        Packed { call: function.safe_call(), this: function.handle(), raw, function }
    }

    /// The function as a value.
    pub fn function(&self) -> &Function {
        &self.function
    }
}

/// One dimension of a kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Known when the kernel was compiled.
    Static(i64),
    /// A symbolic dimension: not negative, and equal in all parameters that name this symbol.
    Symbolic(u32),
}

/// The tensor dimension that gives a symbol its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolSource {
    /// Index of the parameter.
    pub param: usize,
    /// Dimension of that parameter.
    pub dim: usize,
}

/// A parameter: a compact tensor on the CPU, with data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorParam {
    /// Its element type.
    pub dtype: DType,
    /// Its dimensions.
    pub shape: Vec<Dim>,
}

/// A kernel's raw entry, which checks nothing.
#[derive(Clone, Debug)]
pub struct RawKernel {
    code: CodePtr,
    params: Vec<TensorParam>,
    /// By number of the symbol.
    symbol_sources: Vec<SymbolSource>,
}

// SAFETY: the address is of immutable code, which the packed function keeps loaded.
unsafe impl Send for RawKernel {}
// SAFETY: as for Send: sharing only reads the address.
unsafe impl Sync for RawKernel {}

impl RawKernel {
    /// The entry at `code`; `None` when some symbol is no dimension of any parameter.
    ///
    /// # Safety
    /// As long as the packed function of the kernel lives, `code` is an `extern "C"` function of
    /// one pointer for each of `params` and one 64-bit integer for each symbol, which may be
    /// called with the data of any tensors that are as `params` says, and then does what the
    /// packed function does with these tensors. The packed function refuses all others; strides
    /// where they do not matter, and data where there is none, may be anything there. It runs no
    /// function of a program, so it does not re-enter the session.
    pub unsafe fn new(code: CodePtr, params: Vec<TensorParam>) -> Option<RawKernel> {
        let mut found = BTreeMap::new();
        for (at, param) in params.iter().enumerate() {
            for (dim, size) in param.shape.iter().enumerate() {
                if let Dim::Symbolic(symbol) = size {
                    found.entry(*symbol).or_insert(SymbolSource { param: at, dim });
                }
            }
        }
        let all = found.keys().zip(0..).all(|(symbol, number)| *symbol == number);
        all.then(|| RawKernel { code, params, symbol_sources: found.into_values().collect() })
    }

    /// The address.
    pub fn code(&self) -> CodePtr {
        self.code
    }

    /// Its parameters.
    pub fn params(&self) -> &[TensorParam] {
        &self.params
    }

    /// The dimension that gives each symbol its value, by number of the symbol.
    pub fn symbol_sources(&self) -> &[SymbolSource] {
        &self.symbol_sources
    }

    /// Returns true if it may be called with the data of these tensors.
    pub fn accepts(&self, tensors: &[&Tensor]) -> bool {
        let value = |from: SymbolSource| tensors.get(from.param)?.shape().get(from.dim).copied();
        let alike = |tensor: &Tensor, param: &TensorParam| {
            tensor.shape().iter().zip(&param.shape).all(|(have, want)| match *want {
                Dim::Static(_) => true,
                Dim::Symbolic(symbol) => value(self.symbol_sources[symbol as usize]) == Some(*have),
            })
        };
        let mut all = tensors.iter().zip(&self.params);
        tensors.len() == self.params.len()
            && all.all(|(tensor, param)| param.accepts(tensor) && alike(tensor, param))
    }
}

impl TensorParam {
    /// Returns true if a tensor fits this parameter, for any values of its symbols.
    pub fn accepts(&self, tensor: &Tensor) -> bool {
        let dims = tensor.shape().iter().zip(&self.shape);
        tensor.dtype() == self.dtype
            && tensor.shape().len() == self.shape.len()
            && dims.into_iter().all(|(have, want)| match *want {
                Dim::Static(dim) => *have == dim,
                Dim::Symbolic(_) => *have >= 0,
            })
            && tensor.device().device_type == DLDevice::KIND_CPU
            && has_usual_strides(tensor)
            && !tensor.dl().data.is_null()
    }
}

/// Returns true if strides are those of row-major order, also for dimensions of 1, where they do
/// not matter.
fn has_usual_strides(tensor: &Tensor) -> bool {
    let Some(strides) = tensor.strides() else { return true };
    let mut expected = 1_i64;
    strides.iter().zip(tensor.shape()).rev().all(|(stride, dim)| {
        let usual = *stride == expected;
        expected = expected.wrapping_mul(*dim);
        usual
    })
}
