//! Loading: from a verified executable to a program.
//!
//! Loading decodes verified code, makes constants into values (tensors in place where
//! their data is aligned) and finds every packed function. A name that no library and no
//! registry provides is an error here, not at a call.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reflex_runtime::abi::DLDevice;
use reflex_runtime::device;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::registry;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use crate::builtins::{Builtin, missing_group};
use crate::call_sites::function_value;
use crate::decode::{Code, ConstEntry, decode};
use crate::executable::{Constant, Executable, FuncKind, TensorConst};
use crate::kernel::{Packed, RawKernel};
use crate::program::{Parts, Program};
use crate::verify::Verified;
use crate::vmtir::{self, Pools};

/// A source of packed functions: a kernel library, or anything with names.
pub trait Library {
    /// The function called `name`, if this library has it.
    fn function(&self, name: &str) -> Option<Function>;

    /// The entry without checks of the kernel called `name`; it is good as long as the function
    /// of that name.
    fn raw(&self, name: &str) -> Option<RawKernel> {
        let _ = name;
        None
    }

    /// Accepts functions that the library's own native code looks up by name. Only code made by
    /// TVM's compiled mode does that; other libraries need not implement it.
    fn provide(&self, functions: &HashMap<String, Function>) {
        let _ = functions;
    }
}

impl Library for HashMap<String, Function> {
    fn function(&self, name: &str) -> Option<Function> {
        self.get(name).cloned()
    }
}

impl Library for [(&str, Function)] {
    fn function(&self, name: &str) -> Option<Function> {
        self.iter().find(|(known, _)| *known == name).map(|(_, function)| function.clone())
    }
}

impl Library for reflex_runtime::library::Library {
    fn function(&self, name: &str) -> Option<Function> {
        reflex_runtime::library::Library::function(self, name)
    }

    fn provide(&self, functions: &HashMap<String, Function>) {
        // A library that serves a second program has the same builtins already.
        let _ = self.provide_imports(functions.clone());
    }
}

/// Why a verified executable cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Functions that no library and no registered global function provides.
    #[error("functions not found in any kernel library or global registry: {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A constant that cannot be made a value.
    #[error("constant c[{index}]: {reason}")]
    Constant {
        /// Index in the pool.
        index: usize,
        /// Why it cannot be a value.
        reason: String,
    },
    /// Constants that cannot be copied to the device.
    #[error("constants: {0}")]
    Device(String),
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Program {
    /// Loads `exec`, taking packed functions from `libraries` in order, then from the
    /// global registry.
    pub fn load(
        exec: Verified<Executable>,
        libraries: &[&dyn Library],
    ) -> Result<Program, LoadError> {
        Program::load_on(exec, libraries, DLDevice::CPU)
    }

    /// [`Program::load`] for sessions whose first device is `device`: tensor constants are copied
    /// there.
    pub fn load_on(
        exec: Verified<Executable>,
        libraries: &[&dyn Library],
        device: DLDevice,
    ) -> Result<Program, LoadError> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let code = decode(&exec);
        let pools = Arc::new(Pools::default());
        let packed = resolve(&exec, libraries, &pools)?;
        let consts = materialise(id, &exec, &code, &packed, device)?;
        if exec.functions.iter().any(|f| f.kind == FuncKind::VmTir) {
            let count = exec.functions.len() as u32;
            let values = (0..count).map(|i| function_value(id, &exec, i, &packed)).collect();
            // SAFETY: the constants are on the heap and belong to the program, which
            // every session that runs the functions holds.
            unsafe { pools.fill(&consts, values) };
            provide_by_name(&exec, libraries, &packed);
        }
        Ok(Program::new(Parts { id, device, exec, code, consts, packed }))
    }
}

/// Gives native code of TVM's compiled mode what it looks up: builtins, and the packed
/// functions of the program.
fn provide_by_name(exec: &Executable, libraries: &[&dyn Library], packed: &[Option<Packed>]) {
    let builtins = Builtin::ALL.iter().map(|b| (b.name().to_owned(), b.function()));
    let builtins: HashMap<String, Function> = builtins.collect();
    for library in libraries {
        let mut functions = builtins.clone();
        for (function, packed) in exec.functions.iter().zip(packed) {
            // A library's own functions would keep it loaded for ever.
            let own = || library.function(&function.name).is_some();
            if let (FuncKind::Packed, Some(packed)) = (function.kind, packed)
                && !own()
            {
                functions.insert(function.name.clone(), packed.function().clone());
            }
        }
        library.provide(&functions);
    }
}

fn resolve(
    exec: &Executable,
    libraries: &[&dyn Library],
    pools: &Arc<Pools>,
) -> Result<Box<[Option<Packed>]>, LoadError> {
    let mut missing = Vec::new();
    let mut packed = Vec::with_capacity(exec.functions.len());
    for function in &exec.functions {
        let name = function.name.as_str();
        packed.push(match function.kind {
            FuncKind::Vm => None,
            FuncKind::VmTir => {
                let symbol = format!("{}{name}", vmtir::PREFIX);
                let native = libraries.iter().find_map(|library| library.function(&symbol));
                if native.is_none() {
                    missing.push(symbol);
                }
                native.map(|native| {
                    let native = vmtir::enter(native, packed.len() as u32, Arc::clone(pools));
                    Packed::new(native, None)
                })
            }
            FuncKind::Packed if Builtin::from_name(name).is_some() => None,
            FuncKind::Packed => {
                let found = libraries.iter().find_map(|library| {
                    Some(Packed::new(library.function(name)?, library.raw(name)))
                });
                let found = found.or_else(|| Some(Packed::new(registry::get(name)?, None)));
                if found.is_none() {
                    missing.push(match (registry::lacking_feature(name), missing_group(name)) {
                        (Some(feature), _) => {
                            format!("{name} (this build lacks the feature `{feature}`)")
                        }
                        (None, Some(group)) => format!("{name} ({group} are not supported)"),
                        (None, None) => name.to_owned(),
                    });
                }
                found
            }
        });
    }
    if missing.is_empty() { Ok(packed.into()) } else { Err(LoadError::Missing(missing)) }
}

fn materialise(
    id: u64,
    exec: &Executable,
    code: &Code,
    packed: &[Option<Packed>],
    device: DLDevice,
) -> Result<Box<[Any]>, LoadError> {
    for (index, scope) in &exec.memory_scopes {
        if !matches!(scope.as_str(), "" | "global") {
            let reason = format!("memory scope `{scope}` is not supported; the CPU has `global`");
            return Err(LoadError::Constant { index: *index as usize, reason });
        }
    }
    let value = |entry: &ConstEntry| match *entry {
        ConstEntry::None => Ok(Any::NONE),
        ConstEntry::Int(value) => Ok(Any::from(value)),
        ConstEntry::Func(index) => Ok(function_value(id, exec, index, packed)),
        ConstEntry::Pool(index) => {
            constant(&exec.constants[index as usize], device).map_err(|error| LoadError::Constant {
                index: index as usize,
                reason: error.message().into_owned(),
            })
        }
    };
    let values = code.consts.iter().map(value).collect::<Result<_, _>>()?;
    // Sessions have streams of their own, which do not wait for the one of these copies.
    let place = || device::get(device)?.synchronize(device::current_stream(device));
    if !device.is_cpu() {
        place().map_err(|error| LoadError::Device(error.message().into_owned()))?;
    }
    Ok(values)
}

fn constant(constant: &Constant, device: DLDevice) -> Result<Any, Error> {
    Ok(match constant {
        Constant::Int(value) => (*value).into(),
        Constant::Float(value) => (*value).into(),
        Constant::DType(dtype) => (*dtype).into(),
        Constant::Str(text) => Any::from(&**text),
        Constant::Shape(shape) => Shape::new(shape).into(),
        Constant::Tensor(tensor) => tensor_value(tensor)?.to_device(device)?.into(),
    })
}

fn tensor_value(t: &TensorConst) -> Result<Tensor, Error> {
    let bytes = t.elements().ok_or_else(|| {
        Error::value_error(format!("no tensor of shape {:?} and type {}", t.shape, t.dtype))
    })?;
    if bytes.is_empty() || !bytes.as_ptr().addr().is_multiple_of(64) {
        return Tensor::from_bytes(&t.shape, t.dtype, bytes);
    }
    let data = NonNull::from(bytes).cast();
    // SAFETY: the verifier checked that shape and type take exactly these bytes, and the
    // keeper holds the data, which is immutable.
    unsafe { Tensor::borrowing(data, &t.shape, t.dtype, Arc::new(t.data.clone())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::ExecBuilder;
    use crate::bytecode::Reg;
    use crate::verify::verify;

    #[test]
    fn every_missing_function_is_named() {
        let mut b = ExecBuilder::new();
        b.function("main", 0).unwrap();
        b.emit_call("nope", &[], Reg::VOID).unwrap();
        b.emit_call("vm.builtin.kv_state_clear", &[], Reg::VOID).unwrap();
        b.emit_ret(Reg::VOID).unwrap();
        b.end_function().unwrap();
        let error = Program::load(verify(b.finish().unwrap()).unwrap(), &[]).err().unwrap();
        assert_eq!(
            error.to_string(),
            "functions not found in any kernel library or global registry: nope, \
             vm.builtin.kv_state_clear (KV-cache builtins are not supported)"
        );
    }
}
