//! Virtual objects: objects whose allocation was sunk into side exits.

use std::fmt;

use reflex_runtime::dtype::DType;

use super::print::List;
use super::{Scalar, Snapshot, Trace};

/// A virtual object: the trace does not allocate it unless it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectId(pub(crate) u32);

/// An owned value in machine registers: an item of a virtual object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnedValue(pub(crate) u32);

/// The ownership of a value that is loaded from a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadMode {
    /// A second reference.
    Copy,
    /// The reference of the register, which is empty afterwards.
    Move,
    /// The register keeps its reference, and outlives the value.
    Borrow,
}

/// The contents of a virtual object, from which a side exit materialises it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    /// A storage: bytes of the arena from an offset on.
    Storage { at: usize, bytes: usize },
    /// A compact tensor in a storage.
    Tensor { on: ObjectId, offset: usize, shape: Vec<i64>, dtype: DType },
    /// A compact view of a tensor: that tensor, then the dimensions.
    View { items: Vec<Item>, dtype: DType },
    /// A tuple.
    Tuple { items: Vec<Item> },
    /// A closure of a function of the program.
    Closure { func: u32, captured: Vec<Item> },
    /// A shape.
    Shape { dims: Vec<Item> },
    /// A shape heap at one moment: a store to it makes another object.
    Heap { entries: Vec<Item> },
}

impl Object {
    /// The references of a tuple, closure or view, and the numbers of a view, shape or heap.
    pub(crate) fn items(&self) -> &[Item] {
        match self {
            Object::Tuple { items }
            | Object::Closure { captured: items, .. }
            | Object::Shape { dims: items }
            | Object::View { items, .. }
            | Object::Heap { entries: items } => items,
            Object::Storage { .. } | Object::Tensor { .. } => &[],
        }
    }

    /// The dimensions of a tensor or shape.
    pub(crate) fn dims(&self) -> Option<Vec<Scalar>> {
        let scalar = |item: &Item| match item {
            Item::Scalar(scalar) => Some(*scalar),
            Item::Owned(_) | Item::Const(_) | Item::Object(_) => None,
        };
        match self {
            Object::Tensor { shape, .. } => Some(shape.iter().copied().map(Scalar::int).collect()),
            Object::View { items, .. } => items[1..].iter().map(scalar).collect(),
            Object::Shape { dims } => dims.iter().map(scalar).collect(),
            Object::Storage { .. }
            | Object::Tuple { .. }
            | Object::Closure { .. }
            | Object::Heap { .. } => None,
        }
    }
}

/// An item of a virtual object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item {
    /// A value that only this object owns.
    Owned(OwnedValue),
    Scalar(Scalar),
    /// An entry of the constant table.
    Const(u32),
    Object(ObjectId),
}

impl Trace {
    /// The values in machine registers that a snapshot needs for its virtual objects.
    pub(crate) fn sources(&self, snapshot: &Snapshot) -> Vec<Item> {
        let mut sources = Vec::new();
        let mut seen: Vec<ObjectId> = Vec::new();
        let mut work: Vec<ObjectId> = snapshot.objects.iter().map(|&(_, object)| object).collect();
        while let Some(object) = work.pop() {
            if seen.contains(&object) {
                continue;
            }
            seen.push(object);
            for &item in self.object(object).items() {
                match item {
                    Item::Object(object) => work.push(object),
                    Item::Owned(_) | Item::Scalar(Scalar::Var { .. })
                        if !sources.contains(&item) =>
                    {
                        sources.push(item);
                    }
                    Item::Owned(_) | Item::Scalar(_) | Item::Const(_) => {}
                }
            }
        }
        sources
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}", self.0)
    }
}

impl fmt::Display for OwnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Owned(value) => write!(f, "{value}"),
            Item::Scalar(scalar) => write!(f, "{scalar}"),
            Item::Const(index) => write!(f, "c[{index}]"),
            Item::Object(object) => write!(f, "{object}"),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Storage { at, bytes } => return write!(f, "storage of {bytes} bytes at {at}"),
            Object::Tensor { on, offset, shape, dtype } => {
                return write!(f, "{dtype} tensor {shape:?} at {offset} in {on}");
            }
            Object::View { items, dtype } => {
                let dims = List(&items[1..]);
                return write!(f, "{dtype} view [{dims}] of {}", items[0]);
            }
            Object::Tuple { .. } => f.write_str("tuple (")?,
            Object::Closure { func, .. } => write!(f, "closure of {func} (")?,
            Object::Shape { .. } => f.write_str("shape (")?,
            Object::Heap { .. } => f.write_str("shape heap (")?,
        }
        write!(f, "{})", List(self.items()))
    }
}
