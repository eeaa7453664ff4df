//! The module as its functions see it: symbols, constants, and the signatures of all functions.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use ruff_python_ast::Expr as Py;

use super::types::Annotation;
use crate::{ConstructorRef, Func, FuncId, Literal, Type};

/// The parts of a module that its functions refer to.
pub(super) struct ModuleContext {
    /// Names declared as `TypeVar`.
    pub symbols: HashSet<String>,
    /// Name of the class.
    pub class: String,
    /// Functions of the class by name.
    pub globals: HashMap<String, GlobalFunc>,
    /// Constructors of the class's data types, as `List.Cons`.
    pub constructors: HashMap<String, ConstructorRef>,
    /// Constants of the metadata table.
    pub constants: Option<Vec<Literal>>,
    /// Functions that were defined inside of others, after those of the class.
    pub lifted: RefCell<Vec<Option<Func>>>,
    /// Number of functions of the class that have an id.
    pub count: usize,
}

/// A function of the class, before any body has been read.
pub(super) struct GlobalFunc {
    pub id: FuncId,
    pub kind: GlobalFuncKind,
}

/// The form of a function of the class.
pub(super) enum GlobalFuncKind {
    /// A kernel (`PrimFunc`) over buffers.
    Kernel,
    /// A kernel that returns one integer computed from integers. It has no id: calls are inlined.
    Scalar { params: Vec<String>, value: Box<Py> },
    /// A kernel that is one call of a packed function. It has no id: callers call the function.
    Packed { params: usize, name: String, args: Vec<PackedArg> },
    /// A graph function; its types are over its own symbolic dimensions.
    Graph { params: Vec<Type>, result: Option<Annotation> },
}

/// An argument of the call in a [`GlobalFuncKind::Packed`] kernel.
pub(super) enum PackedArg {
    /// A parameter of the kernel.
    Param(usize),
    /// An integer.
    Int(i64),
    /// A string.
    Text(String),
}
