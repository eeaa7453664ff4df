//! Objects that a trace does not make: what an exit makes of them.

use std::fmt;

use reflex_runtime::dtype::DType;

use super::print::List;
use super::{Exit, Plain, Trace};

/// An object that the trace does not make unless it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectId(pub(crate) u32);

/// An owned value in machine registers: an item of such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held(pub(crate) u32);

/// How such a value is taken from a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is a second reference.
    Copy,
    /// It is the reference of the register, which is empty afterwards.
    Move,
    /// The register keeps its reference, and outlives the value.
    Borrow,
}

/// How it is made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    /// A storage: so many bytes of the arena from an offset on.
    Storage { at: usize, bytes: usize },
    /// A compact tensor in a storage.
    Tensor { on: ObjectId, offset: usize, shape: Vec<i64>, dtype: DType },
    /// A compact tensor of another one's data: that tensor, and the extents.
    View { items: Vec<Item>, dtype: DType },
    /// A tuple.
    Tuple { items: Vec<Item> },
    /// A closure of a function of the program.
    Closure { func: u32, captured: Vec<Item> },
    /// A shape.
    Shape { extents: Vec<Item> },
    /// A shape heap, as it is now: what is stored in it makes another object of it.
    Heap { entries: Vec<Item> },
}

impl Object {
    /// What a tuple, closure or view refers to, and the numbers of a view, shape or heap.
    pub(crate) fn items(&self) -> &[Item] {
        match self {
            Object::Tuple { items }
            | Object::Closure { captured: items, .. }
            | Object::Shape { extents: items }
            | Object::View { items, .. }
            | Object::Heap { entries: items } => items,
            Object::Storage { .. } | Object::Tensor { .. } => &[],
        }
    }

    /// The extents of a tensor, or the numbers of a shape.
    pub(crate) fn extents(&self) -> Option<Vec<Plain>> {
        let plain = |item: &Item| match item {
            Item::Plain(plain) => Some(*plain),
            Item::Held(_) | Item::Const(_) | Item::Object(_) => None,
        };
        match self {
            Object::Tensor { shape, .. } => Some(shape.iter().copied().map(Plain::int).collect()),
            Object::View { items, .. } => items[1..].iter().map(plain).collect(),
            Object::Shape { extents } => extents.iter().map(plain).collect(),
            Object::Storage { .. }
            | Object::Tuple { .. }
            | Object::Closure { .. }
            | Object::Heap { .. } => None,
        }
    }
}

/// What an object refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item {
    /// A value that nothing else owns.
    Held(Held),
    Plain(Plain),
    /// An entry of the constant table.
    Const(u32),
    Object(ObjectId),
}

impl Trace {
    /// What machine code knows of the objects of an exit: values in machine registers.
    pub(crate) fn sources(&self, exit: &Exit) -> Vec<Item> {
        let mut sources = Vec::new();
        let mut seen: Vec<ObjectId> = Vec::new();
        let mut work: Vec<ObjectId> = exit.objects.iter().map(|&(_, object)| object).collect();
        while let Some(object) = work.pop() {
            if seen.contains(&object) {
                continue;
            }
            seen.push(object);
            for &item in self.object(object).items() {
                match item {
                    Item::Object(object) => work.push(object),
                    Item::Held(_) | Item::Plain(Plain::Var { .. }) if !sources.contains(&item) => {
                        sources.push(item);
                    }
                    Item::Held(_) | Item::Plain(_) | Item::Const(_) => {}
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

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Held(held) => write!(f, "{held}"),
            Item::Plain(plain) => write!(f, "{plain}"),
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
                let extents = List(&items[1..]);
                return write!(f, "{dtype} view [{extents}] of {}", items[0]);
            }
            Object::Tuple { .. } => f.write_str("tuple (")?,
            Object::Closure { func, .. } => write!(f, "closure of {func} (")?,
            Object::Shape { .. } => f.write_str("shape (")?,
            Object::Heap { .. } => f.write_str("shape heap (")?,
        }
        write!(f, "{})", List(self.items()))
    }
}
