//! Objects that a trace does not make: what an exit makes of them.

use std::fmt;

use reflex_runtime::dtype::DType;

/// An object that the trace does not make unless it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectId(pub(crate) u32);

/// How it is made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    /// A storage: so many bytes of the arena from an offset on.
    Storage { at: usize, bytes: usize },
    /// A compact tensor in a storage.
    Tensor { on: ObjectId, offset: usize, shape: Vec<i64>, dtype: DType },
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}", self.0)
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Storage { at, bytes } => write!(f, "storage of {bytes} bytes at {at}"),
            Object::Tensor { on, offset, shape, dtype } => {
                write!(f, "{dtype} tensor {shape:?} at {offset} in {on}")
            }
        }
    }
}
