//! Signatures for C: names, element types and shapes, in arrays that live as long as the program.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::ptr;

use parking_lot::Mutex;
use reflex_runtime::dtype::DType;

use super::c_string;
use crate::error::Result;
use crate::program::Program;
use crate::signature::{Dim, TensorInfo};

/// The size of a dimension that each call chooses.
const DYNAMIC: i64 = -1;

/// An input or output of a function.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReflexTensorInfo {
    /// The model's name for it.
    pub name: *const c_char,
    /// Element type; of 0 bits if the program does not say.
    pub dtype: DType,
    /// Number of dimensions.
    pub ndim: i32,
    /// `ndim` dimensions; -1 for one that each call chooses.
    pub shape: *const i64,
    /// `ndim` names: null for a known dimension, else its name, or an expression over names. Equal
    /// names are equal sizes.
    pub symbols: *const *const c_char,
}

/// The inputs and outputs of a function, in the order of calls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReflexSignature {
    /// Inputs.
    pub inputs: *const ReflexTensorInfo,
    /// Their number.
    pub input_count: u32,
    /// Outputs, those of tuples one after another.
    pub outputs: *const ReflexTensorInfo,
    /// Their number; 0 if the program does not describe them, as TVM's exports do not.
    pub output_count: u32,
}

/// The signatures that C has asked for, by function.
#[derive(Default)]
pub(super) struct Signatures(Mutex<BTreeMap<String, Box<Described>>>);

/// A signature, and what its pointers point to.
struct Described {
    inputs: Side,
    outputs: Side,
}

/// Inputs or outputs.
struct Side {
    infos: Vec<ReflexTensorInfo>,
    #[expect(dead_code, reason = "the infos point into it")]
    owners: Vec<Owner>,
}

/// The memory of one [`ReflexTensorInfo`].
struct Owner {
    name: CString,
    shape: Vec<i64>,
    #[expect(dead_code, reason = "`symbols` points into it")]
    names: Vec<Option<CString>>,
    symbols: Vec<*const c_char>,
}

// SAFETY: the pointers are to memory that the owners keep and nothing changes.
unsafe impl Send for Side {}
// SAFETY: as for `Send`.
unsafe impl Sync for Side {}

impl Side {
    fn new(infos: &[TensorInfo]) -> Side {
        let owners: Vec<Owner> = infos.iter().map(Owner::new).collect();
        let info = |(info, owner): (&TensorInfo, &Owner)| ReflexTensorInfo {
            name: owner.name.as_ptr(),
            dtype: if info.is_typed() { info.dtype } else { DType { bits: 0, ..DType::VOID } },
            ndim: owner.shape.len() as i32,
            shape: owner.shape.as_ptr(),
            symbols: owner.symbols.as_ptr(),
        };
        // The memory that the infos point to is on the heap: it stays where it is when owners move.
        let infos = infos.iter().zip(&owners).map(info).collect();
        Side { infos, owners }
    }
}

impl Owner {
    fn new(info: &TensorInfo) -> Owner {
        let size = |dim: &Dim| match dim {
            Dim::Const(size) => *size,
            Dim::Symbol(_) => DYNAMIC,
        };
        let name = |dim: &Dim| match dim {
            Dim::Const(_) => None,
            Dim::Symbol(name) => Some(c_string(name)),
        };
        let names: Vec<Option<CString>> = info.shape.iter().map(name).collect();
        let symbols = names.iter().map(|n| n.as_ref().map_or(ptr::null(), |name| name.as_ptr()));
        Owner {
            name: c_string(&info.name),
            shape: info.shape.iter().map(size).collect(),
            symbols: symbols.collect(),
            names,
        }
    }
}

impl Signatures {
    /// Returns a signature whose pointers are valid as long as `self`.
    pub(super) fn get(&self, program: &Program, func: &str) -> Result<ReflexSignature> {
        let mut known = self.0.lock();
        if !known.contains_key(func) {
            let signature = program.signature(func)?;
            let (inputs, outputs) = (Side::new(&signature.inputs), Side::new(&signature.outputs));
            known.insert(func.to_owned(), Box::new(Described { inputs, outputs }));
        }
        let Described { inputs, outputs } = &*known[func];
        Ok(ReflexSignature {
            inputs: inputs.infos.as_ptr(),
            input_count: inputs.infos.len() as u32,
            outputs: outputs.infos.as_ptr(),
            output_count: outputs.infos.len() as u32,
        })
    }
}
