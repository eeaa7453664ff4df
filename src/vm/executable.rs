//! An executable: function table, constant pool, memory scopes and code words.
//!
//! Plain data in TVM's own terms, exactly what the serialized form carries, valid or
//! not. Running one goes through [`crate::verify`]; nothing here checks code.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use reflex_runtime::aligned_bytes::AlignedBytes;
use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::byte_size;

use crate::bytecode::{BadWord, Instr};

/// The kinds of function table entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum FuncKind {
    /// A function found by name: a kernel or a `vm.builtin.*`.
    Packed = 0,
    /// A function in bytecode.
    Vm = 1,
    /// A function compiled to native code by TVM, entered as `__vmtir__<name>`.
    VmTir = 2,
}

/// One entry of the function table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its kind.
    pub kind: FuncKind,
    /// Its name.
    pub name: String,
    /// First instruction (VM functions; 0 otherwise).
    pub start_instr: i64,
    /// One past the last instruction (VM functions; 0 otherwise).
    pub end_instr: i64,
    /// Number of parameters; -2 for packed functions, whose arity is their own.
    pub num_args: i64,
    /// Number of registers, parameters included.
    pub register_file_size: i64,
    /// Parameter names, as many as parameters or none.
    pub param_names: Vec<String>,
}

impl Function {
    /// `num_args` of packed functions.
    pub const PACKED_ARITY: i64 = -2;

    /// An entry for the packed function `name`.
    pub fn packed(name: impl Into<String>) -> Function {
        Function {
            kind: FuncKind::Packed,
            name: name.into(),
            start_instr: 0,
            end_instr: 0,
            num_args: Function::PACKED_ARITY,
            register_file_size: 0,
            param_names: Vec::new(),
        }
    }
}

/// Immutable bytes shared with their owner: a buffer or a mapped file.
#[derive(Clone)]
pub struct ConstData {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl ConstData {
    /// The whole of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> ConstData {
        let range = 0..(*owner).as_ref().len();
        ConstData { owner, range }
    }

    /// `range` of `owner`, or None when it does not lie inside.
    pub fn slice(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Option<Self> {
        (*owner).as_ref().get(range.clone())?;
        Some(ConstData { owner, range })
    }

    /// A copy of `bytes` that starts on a 64-byte boundary, so that a program uses it
    /// in place.
    pub fn copy_of(bytes: &[u8]) -> ConstData {
        ConstData::new(Arc::new(AlignedBytes::copy_of(bytes)))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }

    /// Whether both are the same memory (a cheap test that may miss equal contents).
    pub fn same_memory(&self, other: &ConstData) -> bool {
        std::ptr::eq(self.bytes(), other.bytes())
    }
}

impl AsRef<[u8]> for ConstData {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for ConstData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}

impl PartialEq for ConstData {
    fn eq(&self, other: &ConstData) -> bool {
        self.same_memory(other) || self.bytes() == other.bytes()
    }
}

/// A tensor of the constant pool: compact, row-major, on the CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorConst {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, none negative.
    pub shape: Box<[i64]>,
    /// The elements.
    pub data: ConstData,
}

impl TensorConst {
    /// Bytes that a tensor takes in the serialized form: whole bytes for each element, and one
    /// lane of it.
    pub fn stored_bytes(dtype: DType, shape: &[i64]) -> Option<usize> {
        let element = usize::from(dtype.bits).div_ceil(8);
        shape.iter().try_fold(element, |size, &dim| size.checked_mul(usize::try_from(dim).ok()?))
    }

    /// The bytes that make up the tensor in memory, where elements smaller than a byte lie
    /// packed: the first of those stored. None where the form does not hold them all.
    pub fn elements(&self) -> Option<&[u8]> {
        if self.dtype.bits == 0 || (self.dtype.lanes as i16) < 1 {
            return None;
        }
        self.data.bytes().get(..byte_size(&self.shape, self.dtype).ok()?)
    }
}

/// One entry of the constant pool.
#[derive(Clone, PartialEq, Debug)]
pub enum Constant {
    /// An integer too large for an immediate.
    Int(i64),
    /// A float.
    Float(f64),
    /// An element type.
    DType(DType),
    /// A string.
    Str(Box<str>),
    /// A shape.
    Shape(Box<[i64]>),
    /// A tensor.
    Tensor(TensorConst),
}

impl Constant {
    /// Equality that tells -0.0 from 0.0 and lets a NaN equal itself: what sharing an
    /// entry of the pool needs. Tensors are the same only when they share memory.
    pub fn shares_with(&self, other: &Constant) -> bool {
        match (self, other) {
            (Constant::Float(a), Constant::Float(b)) => a.to_bits() == b.to_bits(),
            (Constant::Tensor(a), Constant::Tensor(b)) => {
                a.dtype == b.dtype && a.shape == b.shape && a.data.same_memory(&b.data)
            }
            _ => self == other,
        }
    }
}

/// A complete executable.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Executable {
    /// The function table.
    pub functions: Vec<Function>,
    /// Memory scopes of constants, in the order they were read: (constant, scope).
    pub memory_scopes: Vec<(i64, String)>,
    /// The constant pool.
    pub constants: Vec<Constant>,
    /// Word offset of each instruction in `instr_data`.
    pub instr_offset: Vec<i64>,
    /// The code words.
    pub instr_data: Vec<i64>,
}

impl Executable {
    /// Decodes instruction number `index`.
    pub fn instr(&self, index: usize) -> Result<Instr<'_>, BadWord> {
        let offset = *self.instr_offset.get(index).ok_or(BadWord::Truncated)?;
        let at = usize::try_from(offset).map_err(|_| BadWord::Index(offset))?;
        Instr::decode(&self.instr_data, at)
    }

    /// Index of the function called `name`.
    pub fn function_index(&self, name: &str) -> Option<usize> {
        self.functions.iter().position(|f| f.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reflex_runtime::alloc::huge_pages::LEAST;

    #[test]
    #[cfg_attr(miri, ignore = "Miri gives no advice to the system")]
    fn copies_start_on_a_boundary_and_end_with_the_original() {
        for len in [0, 1, 63, 64, 65, LEAST - 1, LEAST, LEAST + 4097] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let copy = ConstData::copy_of(&bytes);
            assert_eq!(copy.bytes(), bytes, "{len}");
            assert!(copy.bytes().as_ptr().addr().is_multiple_of(64), "{len}");
        }
    }
}
