//! VM closures: packed functions whose first argument is the VM.
//!
//! The layout is that of TVM's `relax.vm.Closure`: the name, then the function.

use std::sync::LazyLock;

use crate::function::Function;
use crate::object::{self, ObjectRef, ObjectType};
use crate::string::Str;
use crate::types;
use crate::value::impl_object_conversions;

/// A reference to a closure.
///
/// ```
/// use reflex_runtime::{closure::VmClosure, function::Function, value::Any};
/// let closure = VmClosure::new("main", Function::new(|args| Ok(Any::from(args.len() as i64))));
/// assert_eq!(closure.name(), "main");
/// assert!(VmClosure::try_from(Any::from(closure)).is_ok());
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct VmClosure(ObjectRef);

#[repr(C)]
struct Cell {
    name: Str,
    function: Function,
}

static INDEX: LazyLock<i32> = LazyLock::new(|| types::index_of(VmClosure::KEY));

// SAFETY: transparent; every object of this type has the cell TVM defines.
unsafe impl ObjectType for VmClosure {
    const KEY: &'static str = "relax.vm.Closure";
    #[inline]
    fn type_index() -> i32 {
        *INDEX
    }
}

impl_object_conversions!(VmClosure);

impl VmClosure {
    /// A closure called `name` over `function`, whose first argument is the VM.
    pub fn new(name: &str, function: Function) -> VmClosure {
        let cell = Cell { name: Str::new(name), function };
        VmClosure(object::create(*INDEX, 0, |_| cell))
    }

    fn cell(&self) -> &Cell {
        // SAFETY: every `relax.vm.Closure` has this cell after its header.
        unsafe { &*self.0.cell::<Cell>() }
    }

    /// The name of the function in its program.
    pub fn name(&self) -> &str {
        &self.cell().name
    }

    /// The function to call, with the VM before the arguments.
    #[inline]
    pub fn function(&self) -> &Function {
        &self.cell().function
    }
}
