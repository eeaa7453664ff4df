//! A loaded program: what all sessions of one executable share.
//!
//! Loading decodes verified code, makes constants into values (tensors in place where
//! their data is aligned) and finds every packed function. A name that nobody provides
//! is an error here, not at a call. A program holds no running state.

use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::registry;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use crate::abi::{CodePtr, Trampolines};
use crate::builtins::{Builtin, Closure, missing_group};
use crate::decode::{Code, ConstEntry, FuncCode, SiteId, decode};
use crate::epoch::Epochs;
use crate::executable::{Constant, Executable, FuncKind, TensorConst};
use crate::kernel::{Packed, RawKernel};
use crate::tier::{Bailout, Compiled, Tier};
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

    /// Takes functions that the library's own native code finds by name. Only code that
    /// TVM's compiled mode made does that; other libraries leave this alone.
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
        /// What is wrong.
        reason: String,
    },
}

/// A loaded program.
pub struct Program {
    id: u64,
    exec: Verified<Executable>,
    code: Code,
    consts: Box<[Any]>,
    packed: Box<[Option<Packed>]>,
    names: HashMap<String, u32>,
    cells: Box<[AtomicPtr<u8>]>,
    tier: OnceLock<Arc<dyn Tier>>,
    kept: Mutex<Vec<Compiled>>,
    epochs: Epochs,
    bailouts: Mutex<BTreeMap<(SiteId, &'static str), u64>>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Program {
    /// Loads `exec`, taking packed functions from `libraries` in order, then from the
    /// global registry.
    pub fn load(
        exec: Verified<Executable>,
        libraries: &[&dyn Library],
    ) -> Result<Program, LoadError> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let code = decode(&exec);
        let pools = Arc::new(Pools::default());
        let packed = resolve(&exec, libraries, &pools)?;
        let consts = materialise(id, &exec, &code, &packed)?;
        if exec.functions.iter().any(|f| f.kind == FuncKind::VmTir) {
            let count = exec.functions.len() as u32;
            let values = (0..count).map(|i| function_value(id, &exec, i, &packed)).collect();
            // SAFETY: the constants are on the heap and belong to the program, which
            // every session that runs the functions holds.
            unsafe { pools.fill(&consts, values) };
            provide_by_name(&exec, libraries, &packed);
        }
        let cells = code.sites.iter().map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
        let names =
            exec.functions.iter().enumerate().map(|(i, f)| (f.name.clone(), i as u32)).collect();
        Ok(Program {
            id,
            exec,
            code,
            consts,
            packed,
            names,
            cells,
            tier: OnceLock::new(),
            kept: Mutex::default(),
            epochs: Epochs::new(),
            bailouts: Mutex::default(),
        })
    }

    /// The executable.
    pub fn executable(&self) -> &Verified<Executable> {
        &self.exec
    }

    /// The decoded code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// VM function number `func`, if it is one (native code of TVM's compiled mode counts).
    #[inline(always)]
    pub fn function(&self, func: u32) -> Option<&FuncCode> {
        self.code.functions.get(func as usize)?.as_ref()
    }

    /// Index of the VM function called `name`.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied().filter(|&func| self.function(func).is_some())
    }

    /// The name of entry `func` of the function table.
    pub fn name(&self, func: u32) -> &str {
        self.exec.functions.get(func as usize).map_or("<no such function>", |f| f.name.as_str())
    }

    /// Packed function number `callee`; None for builtins and VM functions.
    #[inline(always)]
    pub fn packed(&self, callee: u32) -> Option<&Packed> {
        self.packed.get(callee as usize)?.as_ref()
    }

    /// The constant table: never moves, lives as long as the program.
    #[inline(always)]
    pub fn consts(&self) -> &[Any] {
        &self.consts
    }

    /// Code cells by site; see [`crate::abi::SessionAbi::cells`].
    #[inline(always)]
    pub fn cells(&self) -> &[AtomicPtr<u8>] {
        &self.cells
    }

    /// Identity in this process, which closures carry.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The attached tier.
    pub fn tier(&self) -> Option<&Arc<dyn Tier>> {
        self.tier.get()
    }

    /// How sessions enter and leave machine code.
    pub fn trampolines(&self) -> Trampolines {
        self.tier.get().map_or(Trampolines::NONE, |tier| tier.trampolines())
    }

    /// Attaches the tier of this program; only the first one is taken. Sessions made
    /// before do not see it.
    pub fn attach(&self, tier: Arc<dyn Tier>) -> bool {
        let exit = tier.trampolines().exit.cast_mut();
        if self.tier.set(tier).is_err() {
            return false;
        }
        for cell in &self.cells {
            cell.store(exit, Ordering::Release);
        }
        true
    }

    /// Compiles every VM function ahead of time with the attached tier. Functions it
    /// refuses stay with the interpreter; they are returned with the reason.
    pub fn compile_ahead_of_time(&self) -> Vec<(u32, Bailout)> {
        let Some(tier) = self.tier.get() else {
            return Vec::new();
        };
        let mut refused = Vec::new();
        for func in self.code.functions.iter().flatten().filter(|func| !func.is_foreign) {
            match tier.compile(self, func) {
                Ok(compiled) => self.install(SiteId(func.index), &compiled),
                Err(bailout) => {
                    self.count_bailout(SiteId(func.index), &bailout);
                    refused.push((func.index, bailout));
                }
            }
        }
        refused
    }

    /// Makes `compiled` what runs at `site`. The code is kept as long as the program, unless it is
    /// [retired](Program::retire).
    pub fn install(&self, site: SiteId, compiled: &Compiled) {
        self.retain(compiled);
        self.cells[site.0 as usize].store(compiled.code().cast_mut(), Ordering::Release);
    }

    /// [`Program::install`] where nothing is installed yet; whether that was so.
    pub fn install_if_vacant(&self, site: SiteId, compiled: &Compiled) -> bool {
        self.retain(compiled);
        let (cell, exit) = (&self.cells[site.0 as usize], self.trampolines().exit.cast_mut());
        let code = compiled.code().cast_mut();
        let vacant = cell.compare_exchange(exit, code, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !vacant {
            // No session has seen it.
            drop(self.take(&[compiled.code()]));
        }
        vacant
    }

    /// Leaves `site` to the interpreter if `code` is what runs there; whether it was.
    pub fn uninstall(&self, site: SiteId, code: CodePtr) -> bool {
        let (cell, exit) = (&self.cells[site.0 as usize], self.trampolines().exit.cast_mut());
        let code = code.cast_mut();
        // Where something else was installed since, that stays.
        cell.compare_exchange(code, exit, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Keeps code as long as the program, or until it is [retired](Program::retire).
    pub fn retain(&self, compiled: &Compiled) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(compiled.clone());
    }

    /// Gives up code by the addresses that it was installed or kept with. Nothing leads to it any
    /// more: no cell, and no other code that is not given up with it. It is freed when no session
    /// can be inside.
    pub fn retire(&self, codes: &[CodePtr]) {
        self.epochs.retire(self.take(codes));
    }

    /// Code that is no longer kept.
    fn take(&self, codes: &[CodePtr]) -> Vec<Compiled> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extract_if(.., |kept| codes.contains(&kept.code())).collect()
    }

    /// Frees retired code that no session can be inside of; whether some is still waiting.
    pub fn reclaim(&self) -> bool {
        self.epochs.reclaim()
    }

    /// When code may be freed.
    #[inline(always)]
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Counts a bailout at a site.
    pub fn count_bailout(&self, site: SiteId, bailout: &Bailout) {
        let mut counts = self.bailouts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((site, bailout.name())).or_default() += 1;
    }

    /// How often each reason not to compile was given.
    pub fn bailouts(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for ((_, name), count) in self.bailouts_by_site() {
            *sums.entry(name).or_default() += count;
        }
        sums
    }

    /// How often each reason not to compile was given at each site.
    pub fn bailouts_by_site(&self) -> BTreeMap<(SiteId, &'static str), u64> {
        self.bailouts.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
                    missing.push(match missing_group(name) {
                        Some(group) => format!("{name} ({group} are not built)"),
                        None => name.to_owned(),
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
) -> Result<Box<[Any]>, LoadError> {
    for (index, scope) in &exec.memory_scopes {
        if !matches!(scope.as_str(), "" | "global") {
            let reason = format!("memory scope `{scope}` is not built; the CPU has `global`");
            return Err(LoadError::Constant { index: *index as usize, reason });
        }
    }
    let value = |entry: &ConstEntry| match *entry {
        ConstEntry::None => Ok(Any::NONE),
        ConstEntry::Int(value) => Ok(Any::from(value)),
        ConstEntry::Func(index) => Ok(function_value(id, exec, index, packed)),
        ConstEntry::Pool(index) => constant(&exec.constants[index as usize]).map_err(|error| {
            LoadError::Constant { index: index as usize, reason: error.message().into_owned() }
        }),
    };
    code.consts.iter().map(value).collect()
}

fn function_value(id: u64, exec: &Executable, index: u32, packed: &[Option<Packed>]) -> Any {
    let function = &exec.functions[index as usize];
    match (function.kind, &packed[index as usize]) {
        (FuncKind::Packed, Some(packed)) => packed.function().clone().into(),
        (FuncKind::Packed, None) => match Builtin::from_name(&function.name) {
            Some(builtin) => builtin.function().into(),
            None => Any::NONE,
        },
        (FuncKind::Vm | FuncKind::VmTir, _) => {
            Closure { program: id, func: index, captured: Array::new([]) }.into_value()
        }
    }
}

fn constant(constant: &Constant) -> Result<Any, Error> {
    Ok(match constant {
        Constant::Int(value) => (*value).into(),
        Constant::Float(value) => (*value).into(),
        Constant::DType(dtype) => (*dtype).into(),
        Constant::Str(text) => Any::from(&**text),
        Constant::Shape(shape) => Shape::new(shape).into(),
        Constant::Tensor(tensor) => tensor_value(tensor)?.into(),
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
             vm.builtin.kv_state_clear (KV-cache builtins are not built)"
        );
    }
}
