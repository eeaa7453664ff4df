//! Engines and programs for C.

use std::ffi::c_char;
use std::path::Path;
use std::ptr;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::value::Any;

use super::{ReflexStatus, give, live, quiet, status, text};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory;
use crate::program::Program;

/// Loads models.
pub struct ReflexEngine(Engine);

/// A loaded model, shared by any number of sessions on any threads.
pub struct ReflexProgram(pub(super) Program);

/// Options of an engine. Zeroes are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReflexEngineOptions {
    /// Where programs run, such as `cpu`; null is `cpu`.
    pub device: *const c_char,
    /// Threads for parallel kernels, the caller's included; 0 is 1.
    pub threads: u32,
    /// Bytes of released memory that each thread of the process keeps for reuse; 0 leaves the
    /// limit as it is, `UINT64_MAX` keeps nothing.
    pub cache_bytes: u64,
    /// Folder of compiled kernels; null is the user's cache folder.
    pub kernel_cache: *const c_char,
    /// When programs become machine code, such as `threshold=10,compile=sync` or `off`; null is
    /// what the variable `REFLEX_TIER` says.
    pub tier: *const c_char,
    /// Arithmetic of f32 products in models that are compiled: `f32`, `f32-fast` or `bf16`; null is
    /// `f32`.
    pub precision: *const c_char,
}

/// Memory of tensors in this process, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReflexMemory {
    /// In use now.
    pub live: u64,
    /// Most that was ever in use at once.
    pub peak_live: u64,
    /// In use or kept for reuse.
    pub resident: u64,
    /// Most that was ever resident.
    pub peak_resident: u64,
}

/// Forms in which a program is printed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ReflexText {
    /// Instructions, as TVM prints them.
    Text = 0,
    /// A Python script for TVM's `ExecBuilder`.
    Python = 1,
    /// Sizes and counts.
    Stats = 2,
    /// What the tiers made of the functions so far.
    Tiers = 3,
}

/// Makes an engine; `options` may be null.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_new(
    options: *const ReflexEngineOptions,
    out: *mut *mut ReflexEngine,
) -> ReflexStatus {
    status(|| {
        let mut builder = Engine::builder();
        // SAFETY: by the contract.
        if let Some(options) = unsafe { options.as_ref() } {
            if !options.device.is_null() {
                // SAFETY: by the contract.
                builder = builder.device(unsafe { text(options.device, "the device") }?);
            }
            if !options.kernel_cache.is_null() {
                // SAFETY: by the contract.
                builder = builder.cache(unsafe { text(options.kernel_cache, "the folder") }?);
            }
            if !options.tier.is_null() {
                // SAFETY: by the contract.
                let policy = unsafe { text(options.tier, "the tier policy") }?;
                builder = builder.tier(policy.parse()?);
            }
            if !options.precision.is_null() {
                // SAFETY: by the contract.
                let precision = unsafe { text(options.precision, "the precision") }?;
                builder = builder.precision(precision.parse().map_err(Error::input)?);
            }
            builder = builder.threads(options.threads.max(1) as usize);
            match options.cache_bytes {
                0 => {}
                u64::MAX => memory::set_cache_limit(0),
                bytes => memory::set_cache_limit(usize::try_from(bytes).unwrap_or(usize::MAX)),
            }
        }
        let engine = Box::into_raw(Box::new(ReflexEngine(builder.build()?)));
        // SAFETY: by the contract.
        unsafe { give(out, engine) }
    })
}

/// Gives an engine back; its programs stay.
///
/// # Safety
/// `engine` is null or came from `reflex_engine_new`, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_free(engine: *mut ReflexEngine) {
    // SAFETY: by the contract.
    quiet(|| unsafe { free(engine) });
}

/// Loads a model: `.onnx` and `.py` are compiled, `.so` is opened (which runs machine code of
/// its author's choice).
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_load(
    engine: *const ReflexEngine,
    path: *const c_char,
    out: *mut *mut ReflexProgram,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let (engine, path) = unsafe { (live(engine, "the engine")?, text(path, "the path")?) };
        let program = Box::into_raw(Box::new(ReflexProgram(engine.0.load(Path::new(path))?)));
        // SAFETY: by the contract.
        unsafe { give(out, program) }
    })
}

/// Gives a program back; its sessions stay.
///
/// # Safety
/// `program` is null or came from `reflex_engine_load`, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_program_free(program: *mut ReflexProgram) {
    // SAFETY: by the contract.
    quiet(|| unsafe { free(program) });
}

/// Writes a compiled model as a library that this function's counterpart and TVM open.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_program_save(
    program: *const ReflexProgram,
    path: *const c_char,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let (program, path) = unsafe { (live(program, "the program")?, text(path, "the path")?) };
        program.0.save(Path::new(path)).map(drop)
    })
}

/// Prints the program in a form, a `ReflexText`: a string that the caller frees.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_program_print(
    program: *const ReflexProgram,
    form: i32,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let program = &unsafe { live(program, "the program") }?.0;
        let printed = match form {
            form if form == ReflexText::Text as i32 => program.as_text(),
            form if form == ReflexText::Python as i32 => program.as_python(),
            form if form == ReflexText::Stats as i32 => program.stats(),
            form if form == ReflexText::Tiers as i32 => program.tiers(),
            _ => return Err(Error::input(format!("there is no form {form}"))),
        };
        // SAFETY: by the contract.
        unsafe { give(out, Any::from(printed.as_str()).into_raw()) }
    })
}

/// Name of function `index` of the program, or an error past the last: a string that the
/// caller frees.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_program_function(
    program: *const ReflexProgram,
    index: u32,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let functions = unsafe { live(program, "the program") }?.0.functions();
        let name: Result<&String> = functions
            .get(index as usize)
            .ok_or_else(|| Error::input(format!("the program has {} functions", functions.len())));
        // SAFETY: by the contract.
        unsafe { give(out, Any::from(name?.as_str()).into_raw()) }
    })
}

/// Tells what memory tensors of this process take.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_memory(out: *mut ReflexMemory) -> ReflexStatus {
    let statistics = memory::statistics();
    let memory = ReflexMemory {
        live: statistics.live as u64,
        peak_live: statistics.peak_live as u64,
        resident: statistics.resident as u64,
        peak_resident: statistics.peak_resident as u64,
    };
    // SAFETY: by the contract.
    status(|| unsafe { give(out, memory) })
}

/// Bounds what tensors of this process have in use at once, in bytes: beyond it, runs fail with
/// a `MemoryError`. `UINT64_MAX` is no bound, which is how it begins.
#[unsafe(no_mangle)]
pub extern "C" fn reflex_set_memory_limit(bytes: u64) {
    memory::set_memory_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
}

/// # Safety
/// `handle` is null or came from a box, and is used no more.
pub(super) unsafe fn free<T>(handle: *mut T) {
    if !ptr::eq(handle, ptr::null()) {
        // SAFETY: by the caller's contract.
        drop(unsafe { Box::from_raw(handle) });
    }
}
