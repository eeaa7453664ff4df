//! Closures: functions of a program with captured values, as objects.

use reflex_runtime::array::Array;
use reflex_runtime::object::{self, ObjectRef, ObjectType, RustObject};
use reflex_runtime::value::{Any, AnyView};

use crate::abi::{CLOSURE_CAPTURED, CLOSURE_FUNC, CLOSURE_PROGRAM};

/// A function of a program, and captured values that calls append to their arguments.
#[repr(C)]
#[derive(Clone)]
pub struct Closure {
    /// Identity of the program the function belongs to.
    pub program: u64,
    /// Index in that program's function table; a VM function.
    pub func: u32,
    /// The captured values.
    pub captured: Array,
}

const _: () = if cfg!(target_pointer_width = "64") {
    let value = object::value_offset::<Closure>();
    assert!(CLOSURE_PROGRAM == value + std::mem::offset_of!(Closure, program));
    assert!(CLOSURE_FUNC == value + std::mem::offset_of!(Closure, func));
    assert!(CLOSURE_CAPTURED == value + std::mem::offset_of!(Closure, captured));
};

impl RustObject for Closure {
    // Not TVM's `relax.vm.Closure`, whose layout is another one.
    const KEY: &'static str = "reflex.vm.Closure";

    fn into_link(self) -> Option<ObjectRef> {
        Some(self.captured.into_object())
    }
}

impl Closure {
    /// The closure in a value, if it is one.
    pub fn of<'a>(value: &'a AnyView<'_>) -> Option<&'a Closure> {
        value.object_ref().and_then(object::get::<Closure>)
    }

    /// The closure as a value.
    pub fn into_value(self) -> Any {
        let object: ObjectRef = object::wrap(self);
        object.into()
    }
}
