//! LoweringContext: the 21 opcodes become calls of builtins and kernels in the four opcodes of
//! [`reflex_vm`], once, when an executable is loaded.
//!
//! Each function becomes two: its *body*, which Relay's code calls, and under its own name an *entry*
//! for callers from outside, which passes values of data types between their form and the one inside
//! ([`crate::host`]). A value of a data type is a tuple that begins with its tag, so that tiers remove
//! pattern matching as they remove tuples.
//!
//! Booleans of these versions of TVM, unsigned integers of one bit, become
//! [`DType::BOOL`], as everywhere else here; kernels see the old ones.
//!
//! | Relay | becomes |
//! |---|---|
//! | Move, KillRegister | `copy`, `null_value` |
//! | Invoke, Ret, Goto | Call, Ret, Goto |
//! | AllocADT, GetField, GetTag | `make_tuple(tag, fields...)`, `tuple_getitem`, `relay.int` of item 0 |
//! | If | `relay.is` where it compares a tag with a constant, else `relay.equal`; If, Goto |
//! | LoadConst, LoadConsti | an argument where it can be one, else `copy`, `relay.int` |
//! | AllocClosure, InvokeClosure | `make_closure`, `invoke_closure` |
//! | AllocStorage, AllocTensor, AllocTensorReg | `alloc_storage`, `alloc_tensor` |
//! | InvokePacked | Call of the kernel ([`crate::kernels`]) |
//! | ShapeOf, ReshapeTensor | `relay.shape`, `reshape` |
//! | DeviceCopy | `to_device` |
//! | Fatal | `relay.fatal` |

mod body;
mod constants;
mod entry;
mod facts;

use std::collections::BTreeSet;

use reflex_runtime::dtype::DType;
use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::bytecode::Arg;
use reflex_vm::executable::{Executable as Bytecode, FuncKind};

use crate::executable::{Constant, Dialect, Function};
use crate::instr::Instr;
use crate::verify::Verified;
use body::Body;

/// Before the names of functions that callers from outside do not see, and of what the lowered
/// program calls besides kernels.
pub const RESERVED: &str = "relay.";
/// Before the name of a body.
const BODY: &str = "relay.body.";

/// DLPack's type of CPUs.
const CPU: i32 = 1;

/// Why a verified executable cannot be lowered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// Constants that were not bound.
    #[error("late-bound constants without a value: {}; give the file that has them", .0.join(", "))]
    Unbound(Vec<String>),
    /// A device that this machine has not.
    #[error("{place}: device type {kind} is not supported; programs run on the CPU, type 1")]
    Device {
        /// The entry of the file that names it.
        place: String,
        /// DLPack's device type.
        kind: i64,
    },
    /// A memory scope that the CPU has not.
    #[error("device {device}: memory scope `{scope}` is not supported; the CPU has `global`")]
    Scope {
        /// Place in the table of devices.
        device: usize,
        /// The scope.
        scope: String,
    },
    /// A name that the lowered program needs for itself, or that is used twice.
    #[error(
        "the name `{0}` cannot be a function's and a kernel's, nor begin with `relay.` or `vm.builtin.`"
    )]
    Name(String),
    /// The bytecode cannot say it.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Lowers an executable to bytecode.
pub fn lower(exec: &Verified) -> Result<Bytecode, LowerError> {
    let unbound = exec.late_bound();
    if !unbound.is_empty() {
        return Err(LowerError::Unbound(unbound.into_iter().map(str::to_owned).collect()));
    }
    check_devices(exec)?;
    check_names(exec)?;
    let mut lowering =
        LoweringContext { exec, builder: ExecBuilder::new(), closures: BTreeSet::new() };
    // Functions have the numbers of the file: entries first.
    for name in &exec.globals {
        lowering.builder.declare_function(name, FuncKind::Vm);
    }
    for number in 0..exec.globals.len() {
        Body::new(&mut lowering, exec.function(number)).emit()?;
    }
    for number in 0..exec.globals.len() {
        entry::emit(&mut lowering.builder, exec.function(number))?;
    }
    for (func, free) in std::mem::take(&mut lowering.closures) {
        entry::emit_closure(&mut lowering.builder, exec.function(func), free)?;
    }
    Ok(lowering.builder.finish()?)
}

/// The state of a lowering.
struct LoweringContext<'e> {
    exec: &'e Verified,
    builder: ExecBuilder,
    /// Functions that are bound to so many of their first parameters.
    closures: BTreeSet<(usize, usize)>,
}

impl LoweringContext<'_> {
    /// The constant of a number, as an argument.
    fn constant(&mut self, number: usize) -> Arg {
        match &self.exec.constants[number] {
            Constant::Tensor(tensor) => {
                let dtype = element(tensor.dtype);
                self.builder.tensor(reflex_vm::executable::TensorConst { dtype, ..tensor.clone() })
            }
            // Refused before anything is lowered.
            Constant::Late(_) => self.builder.void_arg(),
        }
    }
}

/// The element type in bytecode.
fn element(dtype: DType) -> DType {
    match (dtype.code, dtype.bits) {
        (reflex_runtime::dtype::code::UINT, 1) => DType::BOOL.with_lanes(dtype.lanes),
        _ => dtype,
    }
}

/// The name of a function's body.
fn body_name(function: &Function) -> String {
    format!("{BODY}{}", function.name)
}

/// Refuses devices other than CPUs, wherever the file names one.
fn check_devices(exec: &Verified) -> Result<(), LowerError> {
    for (at, device) in exec.devices.iter().enumerate() {
        if device.kind != CPU {
            let (place, kind) = (format!("device {at}"), device.kind.into());
            return Err(LowerError::Device { place, kind });
        }
        if !matches!(device.scope.as_str(), "" | "global") {
            return Err(LowerError::Scope { device: at, scope: device.scope.clone() });
        }
    }
    if exec.dialect != Dialect::V8 {
        return Ok(());
    }
    let check = |place: String, kind: i64| {
        if kind == i64::from(CPU) { Ok(()) } else { Err(LowerError::Device { place, kind }) }
    };
    for (at, kind) in exec.constant_devices.iter().enumerate() {
        check(format!("constant {at}"), *kind)?;
    }
    for function in &exec.functions {
        let place = || format!("function `{}`", function.name);
        for kind in &function.param_devices {
            check(place(), *kind)?;
        }
        for instr in &function.code {
            match instr {
                Instr::AllocStorage { device, .. } => check(place(), *device)?,
                Instr::DeviceCopy { src_device, dst_device, .. } => {
                    check(place(), *src_device)?;
                    check(place(), *dst_device)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Refuses names that would mean two things in the bytecode's one table.
fn check_names(exec: &Verified) -> Result<(), LowerError> {
    let mut seen = BTreeSet::new();
    for name in exec.globals.iter().chain(&exec.primitives) {
        let reserved = name.starts_with(RESERVED) || name.starts_with("vm.builtin.");
        if reserved || !seen.insert(name) {
            return Err(LowerError::Name(name.clone()));
        }
    }
    Ok(())
}
