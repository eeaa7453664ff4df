//! Functions that TVM compiled to native code (its `compiled` mode).
//!
//! Such a function is `__vmtir__<name>(vm, registers, constants, functions)`: it works
//! on arrays of values, like bytecode, and leaves its result behind its parameters. Here
//! it becomes a VM function of two operations: a packed call that passes the current
//! frame's registers, and a return. So it has a frame, and callers treat it as any VM function.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::value::{Any, AnyView};

use crate::reentry;
use crate::state::header;

/// Before the name of a function in its library.
pub const PREFIX: &str = "__vmtir__";

/// The tables that all such functions of a program share.
#[derive(Default)]
pub struct Pools {
    /// The program's constant table, which begins with the constant pool, and its functions
    /// as values by entry of the function table.
    tables: OnceLock<(Address, Box<[Any]>)>,
}

struct Address(*const Any);

// SAFETY: an address of immutable values, which the program keeps while its functions run.
unsafe impl Send for Address {}
// SAFETY: as for Send: the values behind the address are immutable and atomically counted.
unsafe impl Sync for Address {}

impl Pools {
    /// Fills the pools, once.
    ///
    /// # Safety
    /// `consts` stays where it is for as long as functions made with these pools run.
    pub unsafe fn fill(&self, consts: &[Any], functions: Box<[Any]>) {
        let _ = self.tables.set((Address(consts.as_ptr()), functions));
    }
}

/// The packed function that runs `native`, entry `func` of the function table, on the
/// current frame of the session it is given.
pub fn enter(native: Function, func: u32, pools: Arc<Pools>) -> Function {
    Function::new(move |args| {
        let vm = args.first().ok_or_else(|| Error::type_error("the VM is missing"))?;
        let state = reentry::running(vm)?;
        let Some((consts, functions)) = pools.tables.get() else {
            return Err(Error::runtime_error("the program is not loaded"));
        };
        // SAFETY: the state is live, and a run of it has a current frame.
        let (regs, frame_of) = unsafe {
            let regs = (*state).abi.regs;
            (regs, (*header(regs)).func)
        };
        if frame_of != func {
            return Err(Error::new("InternalError", "native code was called without its frame"));
        }
        let pointers = [
            *vm,
            opaque(regs.cast()),
            opaque(consts.0.cast_mut().cast()),
            opaque(functions.as_ptr().cast_mut().cast()),
        ];
        native.call(&pointers)?;
        Ok(Any::NONE)
    })
}

fn opaque(pointer: *mut c_void) -> AnyView<'static> {
    // SAFETY: an untyped pointer is a valid value whatever it points to.
    unsafe { AnyView::from_raw(*Any::opaque(pointer).as_raw()) }
}
