//! Engines and programs for C.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::value::Any;

use super::signature::{ReflexSignature, Signatures};
use super::{ReflexStatus, give, live, quiet, status, text};
#[cfg(feature = "compiler")]
use crate::bound_dims;
use crate::engine::{Engine, EngineBuilder};
use crate::error::{Error, Result};
use crate::memory;
use crate::model_source::{ModelFormat, ModelSource};
use crate::program::Program;

/// Loads models.
pub struct ReflexEngine(pub(super) Engine);

/// A loaded model, shared by any number of sessions on any threads.
pub struct ReflexProgram {
    pub(super) program: Program,
    signatures: Signatures,
}

impl ReflexProgram {
    fn new(program: Program) -> ReflexProgram {
        ReflexProgram { program, signatures: Signatures::default() }
    }
}

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
    /// Tier policy, such as `threshold=10,compile=sync` or `off`; null is that of the variable
    /// `REFLEX_TIER`.
    pub tier: *const c_char,
    /// Arithmetic of f32 matmuls and convolutions in models that are compiled: `f32`,
    /// `f32-fast`, `bf16` or `int8`; null is `f32`.
    pub precision: *const c_char,
    /// The goal of models that are compiled: `speed`, or `size` for weights of no more bytes than the
    /// model's; null is `speed`.
    pub optimize_for: *const c_char,
    /// Symbolic dimensions of inputs that are constants in models that are compiled, such as
    /// `batch=1,height=320` (free dimension overrides); null is none.
    pub dims: *const c_char,
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
    /// The state of the tiers, function by function.
    Tiers = 3,
}

/// Formats of models in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ReflexFormat {
    /// ONNX.
    Onnx = 0,
    /// TVMScript.
    Script = 1,
    /// A shared library: an artifact, or an executable that TVM exported.
    Library = 2,
    /// Relay text.
    Relay = 3,
    /// An executable of TVM's Relay virtual machine.
    RelayExecutable = 4,
    /// Nodes of TVM's IR as JSON.
    Nodes = 5,
    /// A program that PyTorch exported (`.pt2`).
    Torch = 6,
}

impl ReflexFormat {
    fn of(format: i32) -> Result<ModelFormat> {
        let known = [
            (ReflexFormat::Onnx, ModelFormat::Onnx),
            (ReflexFormat::Script, ModelFormat::Script),
            (ReflexFormat::Library, ModelFormat::Library),
            (ReflexFormat::Relay, ModelFormat::Relay),
            (ReflexFormat::RelayExecutable, ModelFormat::RelayExecutable),
            (ReflexFormat::Nodes, ModelFormat::Nodes),
            (ReflexFormat::Torch, ModelFormat::Torch),
        ];
        let found = known.into_iter().find(|(c, _)| *c as i32 == format);
        let none = || Error::input(format!("there is no format {format}"));
        found.map(|(_, format)| format).ok_or_else(none)
    }
}

/// Makes an engine; `options` may be null.
///
/// ```c
/// ReflexEngineOptions options = {.threads = 2, .tier = "threshold=20", .optimize_for = "size"};
/// ReflexEngine *other;
/// CHECK_OK(reflex_engine_new(&options, &other));
/// reflex_engine_free(other);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_new(
    options: *const ReflexEngineOptions,
    out: *mut *mut ReflexEngine,
) -> ReflexStatus {
    status(|| {
        #[cfg(feature = "log")]
        crate::log::of_environment();
        let mut builder = Engine::builder();
        // SAFETY: the caller passes options that are null or valid.
        if let Some(options) = unsafe { options.as_ref() } {
            if !options.device.is_null() {
                // SAFETY: the caller passes strings that are null or end in NUL.
                builder = builder.device(unsafe { text(options.device, "the device") }?);
            }
            if !options.tier.is_null() {
                // SAFETY: the caller passes strings that are null or end in NUL.
                let policy = unsafe { text(options.tier, "the tier policy") }?;
                builder = builder.tier(policy.parse()?);
            }
            // SAFETY: the caller passes strings that are null or end in NUL.
            builder = unsafe { compiling(builder, options) }?;
            builder = builder.threads(options.threads.max(1) as usize);
            match options.cache_bytes {
                0 => {}
                u64::MAX => memory::set_cache_limit(0),
                bytes => memory::set_cache_limit(usize::try_from(bytes).unwrap_or(usize::MAX)),
            }
        }
        let engine = Box::into_raw(Box::new(ReflexEngine(builder.build()?)));
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, engine) }
    })
}

/// The options of models that are compiled.
///
/// # Safety
/// Strings of the options are null or end in NUL.
#[cfg(feature = "compiler")]
unsafe fn compiling(
    mut builder: EngineBuilder,
    options: &ReflexEngineOptions,
) -> Result<EngineBuilder> {
    if !options.kernel_cache.is_null() {
        // SAFETY: the caller passes strings that are null or end in NUL.
        builder = builder.cache(unsafe { text(options.kernel_cache, "the folder") }?);
    }
    if !options.precision.is_null() {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let precision = unsafe { text(options.precision, "the precision") }?;
        builder = builder.precision(precision.parse().map_err(Error::input)?);
    }
    if !options.optimize_for.is_null() {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let goal = unsafe { text(options.optimize_for, "the goal") }?;
        builder = builder.optimize_for(goal.parse().map_err(Error::input)?);
    }
    if !options.dims.is_null() {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let dims = unsafe { text(options.dims, "the dimensions") }?;
        builder = builder.dims(bound_dims::parse(dims)?);
    }
    Ok(builder)
}

/// Models are not compiled, so there must be no options for it.
///
/// # Safety
/// None is needed.
#[cfg(not(feature = "compiler"))]
unsafe fn compiling(
    builder: EngineBuilder,
    options: &ReflexEngineOptions,
) -> Result<EngineBuilder> {
    let ReflexEngineOptions { precision, optimize_for, dims, .. } = options;
    match precision.is_null() && optimize_for.is_null() && dims.is_null() {
        true => Ok(builder),
        false => Err(crate::error::lacks("compiler")),
    }
}

/// Frees an engine; its programs stay.
///
/// ```c
/// ReflexEngine *other;
/// CHECK_OK(reflex_engine_new(NULL, &other));
/// reflex_engine_free(other);
/// ```
///
/// # Safety
/// `engine` is null or came from `reflex_engine_new`, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_free(engine: *mut ReflexEngine) {
    // SAFETY: the caller passes a handle that is null or owned, and uses it no more.
    quiet(|| unsafe { free(engine) });
}

/// Loads a model: `.onnx`, `.pt2` and `.py` are compiled, `.so` is opened (which runs machine code of
/// its author's choice).
///
/// ```c
/// ReflexProgram *loaded;
/// CHECK_OK(reflex_engine_load(engine, model, &loaded));
/// reflex_program_free(loaded);
/// ```
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
        // SAFETY: the caller passes strings that are null or end in NUL and a handle that is null
        // or live.
        let (engine, path) = unsafe { (live(engine, "the engine")?, text(path, "the path")?) };
        let program = Box::new(ReflexProgram::new(engine.0.load(Path::new(path))?));
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(program)) }
    })
}

/// Loads an executable of TVM's Relay virtual machine: `executable` is the path of a `.ro`, or of a
/// `.so` that holds one. `kernels` is the library with its kernels, null for the `.so` of the same
/// name; `params` is the file of its late-bound constants, null if it has none.
///
/// ```c
/// ReflexProgram *relay = NULL;
/// CHECK(reflex_engine_load_relay(engine, "no/such.ro", NULL, NULL, &relay) == REFLEX_STATUS_IO);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_load_relay(
    engine: *const ReflexEngine,
    executable: *const c_char,
    kernels: *const c_char,
    params: *const c_char,
    out: *mut *mut ReflexProgram,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and a handle that is null
        // or live.
        let (engine, executable) =
            unsafe { (live(engine, "the engine")?, text(executable, "the executable")?) };
        let mut source = ModelSource::from(Path::new(executable));
        if !kernels.is_null() {
            // SAFETY: the caller passes strings that are null or end in NUL.
            source = source.kernels(unsafe { text(kernels, "the library") }?);
        }
        if !params.is_null() {
            // SAFETY: the caller passes strings that are null or end in NUL.
            source = source.params(unsafe { text(params, "the constants") }?);
        }
        let program = Box::new(ReflexProgram::new(engine.0.load(source)?));
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(program)) }
    })
}

/// Loads a model from `size` bytes at `data`, which are copied; `format` is a `ReflexFormat`.
/// External data of an ONNX model needs `reflex_engine_load`.
///
/// ```c
/// char *bytes;
/// size_t size = read_file(model, &bytes);
/// ReflexFormat format = strstr(model, ".onnx") ? REFLEX_FORMAT_ONNX : REFLEX_FORMAT_LIBRARY;
/// ReflexProgram *loaded;
/// CHECK_OK(reflex_engine_load_bytes(engine, format, bytes, size, &loaded));
/// free(bytes);
/// reflex_program_free(loaded);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_load_bytes(
    engine: *const ReflexEngine,
    format: i32,
    data: *const c_void,
    size: usize,
    out: *mut *mut ReflexProgram,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a handle that is null or live.
        let engine = unsafe { live(engine, "the engine")? };
        if data.is_null() {
            return Err(Error::input("the model is null"));
        }
        // SAFETY: the caller passes so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        let source = ModelSource::bytes(ReflexFormat::of(format)?, bytes);
        let program = engine.0.load(source)?;
        let program = Box::new(ReflexProgram::new(program));
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(program)) }
    })
}

/// Makes an engine with the options of another one and a pipeline of its own: `default` or `minimal`, and
/// edits separated by commas. `-PASS` leaves a pass out, `PASS.OPTION=VALUE` sets an option,
/// `order=A+B` sets the passes and their order, `after:PASS=NAME` and `before:PASS=NAME` put in a function
/// that is registered by this name, or `LIBRARY.so:FUNCTION`: it takes the module as TVMScript and gives
/// one.
///
/// ```c
/// ReflexEngine *plain;
/// CHECK_OK(reflex_engine_with_pipeline(engine, "default,-simplify", &plain));
/// reflex_engine_free(plain);
/// CHECK(reflex_engine_with_pipeline(engine, "-nothing", &plain) == REFLEX_STATUS_INPUT);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_with_pipeline(
    engine: *const ReflexEngine,
    pipeline: *const c_char,
    out: *mut *mut ReflexEngine,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and a handle that is null
        // or live.
        let (engine, pipeline) =
            unsafe { (live(engine, "the engine")?, text(pipeline, "the pipeline")?) };
        let engine = ReflexEngine(with_pipeline(&engine.0, pipeline)?);
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(Box::new(engine))) }
    })
}

/// Makes an engine with the options of another one, whose pipeline begins with a dispatch: what a pattern
/// matches becomes a call of a packed function, or of one that an external code generator makes.
/// `description` is JSON: `name`, `pattern` with its `nodes` and its `root`, `annotations` with numbers of
/// nodes, and the names of registered functions: `check`, and `packed` or `external`. The page on
/// operators from outside lists the kinds of nodes.
///
/// ```c
/// ReflexEngine *mine;
/// const char *description = "{\"name\": \"docs.relu\", \"packed\": \"docs.relu\", \"pattern\":"
///     "{\"nodes\": [{\"kind\": \"op\", \"name\": \"relax.nn.relu\", \"args\": null}], \"root\": 0}}";
/// CHECK_OK(reflex_engine_with_dispatch(engine, description, &mine));
/// reflex_engine_free(mine);
/// CHECK(reflex_engine_with_dispatch(engine, "{}", &mine) == REFLEX_STATUS_INPUT);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_engine_with_dispatch(
    engine: *const ReflexEngine,
    description: *const c_char,
    out: *mut *mut ReflexEngine,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and a handle that is null
        // or live.
        let (engine, description) =
            unsafe { (live(engine, "the engine")?, text(description, "the description")?) };
        let engine = ReflexEngine(with_dispatch(&engine.0, description)?);
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(Box::new(engine))) }
    })
}

/// Registers an operator for the process: TVMScript calls it `R.SPACE.NAME`, ONNX `NAME` of the domain
/// `SPACE`. `description` is JSON: `name`, `operands` as fewest and most, `attrs` with `name`, `kind` and
/// `default`, `fusion`, `kernel_text`, and the names of registered functions: `infer`, `kernel`,
/// `packed`. Without `infer` the result has the type of the first operand.
///
/// ```c
/// CHECK_OK(reflex_register_operator("{\"name\": \"docs.same\", \"packed\": \"docs.same\"}"));
/// CHECK(reflex_register_operator("{\"name\": \"docs.same\", \"packed\": \"docs.same\"}") == REFLEX_STATUS_INPUT);
/// ```
///
/// # Safety
/// `description` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_register_operator(description: *const c_char) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a string that is null or ends in NUL.
        register_operator(unsafe { text(description, "the description")? })
    })
}

/// Frees a program; its sessions stay.
///
/// ```c
/// ReflexProgram *loaded;
/// CHECK_OK(reflex_engine_load(engine, model, &loaded));
/// reflex_program_free(loaded);
/// ```
///
/// # Safety
/// `program` is null or came from `reflex_engine_load` or `reflex_engine_load_bytes`, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_program_free(program: *mut ReflexProgram) {
    // SAFETY: the caller passes a handle that is null or owned, and uses it no more.
    quiet(|| unsafe { free(program) });
}

/// Writes a compiled model as a library that `reflex_engine_load` and TVM open.
///
/// ```c
/// // A program that was loaded from a library has been saved already.
/// CHECK(reflex_program_save(program, "model.so") == REFLEX_STATUS_UNSUPPORTED);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_program_save(
    program: *const ReflexProgram,
    path: *const c_char,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and a handle that is null
        // or live.
        let (program, path) = unsafe { (live(program, "the program")?, text(path, "the path")?) };
        save(&program.program, Path::new(path))
    })
}

/// Prints the program in a form, a `ReflexText`: a string that the caller frees.
///
/// ```c
/// ReflexValue text;
/// CHECK_OK(reflex_program_print(program, REFLEX_TEXT_STATS, &text));
/// reflex_free(&text);
/// ```
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
        // SAFETY: the caller passes a handle that is null or live.
        let program = &unsafe { live(program, "the program") }?.program;
        let printed = match form {
            form if form == ReflexText::Text as i32 => program.as_text(),
            form if form == ReflexText::Python as i32 => program.as_python(),
            form if form == ReflexText::Stats as i32 => program.stats(),
            form if form == ReflexText::Tiers as i32 => program.tiers(),
            _ => return Err(Error::input(format!("there is no form {form}"))),
        };
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(printed.as_str()).into_raw()) }
    })
}

/// Returns the name of function `index` of the program, or an error past the last: a string that the
/// caller frees.
///
/// ```c
/// ReflexValue name;
/// for (uint32_t i = 0; reflex_program_function(program, i, &name) == REFLEX_STATUS_OK; ++i)
///     reflex_free(&name);
/// ```
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
        // SAFETY: the caller passes a handle that is null or live.
        let functions = unsafe { live(program, "the program") }?.program.functions();
        let name: Result<&String> = functions
            .get(index as usize)
            .ok_or_else(|| Error::input(format!("the program has {} functions", functions.len())));
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(name?.as_str()).into_raw()) }
    })
}

/// Returns the inputs and outputs of a function, such as `main`. What `out` points to is valid as long
/// as the program.
///
/// ```c
/// ReflexSignature signature;
/// CHECK_OK(reflex_program_signature(program, "main", &signature));
/// CHECK(signature.input_count == 2 && signature.output_count == 1);
/// for (uint32_t i = 0; i < signature.input_count; ++i)
///     printf("%s has %d dimensions\n", signature.inputs[i].name, signature.inputs[i].ndim);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_program_signature(
    program: *const ReflexProgram,
    function: *const c_char,
    out: *mut ReflexSignature,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a handle that is null or live.
        let program = unsafe { live(program, "the program") }?;
        // SAFETY: the caller passes strings that are null or end in NUL.
        let function = unsafe { text(function, "the name") }?;
        let signature = program.signatures.get(&program.program, function)?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, signature) }
    })
}

/// Returns the memory that tensors of this process take.
///
/// ```c
/// ReflexMemory memory;
/// CHECK_OK(reflex_memory(&memory));
/// CHECK(memory.peak_live >= memory.live);
/// ```
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
    // SAFETY: the caller passes a result pointer that is null or may be written.
    status(|| unsafe { give(out, memory) })
}

/// Limits the memory that tensors of this process have in use at once, in bytes: beyond it, runs fail
/// with a `MemoryError`. `UINT64_MAX`, the default, is no limit.
///
/// ```c
/// reflex_set_memory_limit(UINT64_C(1) << 30);
/// reflex_set_memory_limit(UINT64_MAX);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_set_memory_limit(bytes: u64) {
    memory::set_memory_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
}

#[cfg(feature = "compiler")]
fn with_pipeline(engine: &Engine, pipeline: &str) -> Result<Engine> {
    Ok(engine.with_pipeline(pipeline.parse()?))
}

#[cfg(not(feature = "compiler"))]
fn with_pipeline(_: &Engine, _: &str) -> Result<Engine> {
    Err(crate::error::lacks("compiler"))
}

#[cfg(feature = "compiler")]
fn with_dispatch(engine: &Engine, description: &str) -> Result<Engine> {
    engine.with_dispatch(crate::dispatch::described(description, &crate::get_global_func)?)
}

#[cfg(not(feature = "compiler"))]
fn with_dispatch(_: &Engine, _: &str) -> Result<Engine> {
    Err(crate::error::lacks("compiler"))
}

#[cfg(feature = "compiler")]
fn register_operator(description: &str) -> Result<()> {
    crate::operators::register_described(description, &crate::get_global_func)
}

#[cfg(not(feature = "compiler"))]
fn register_operator(_: &str) -> Result<()> {
    Err(crate::error::lacks("compiler"))
}

#[cfg(feature = "compiler")]
fn save(program: &Program, path: &Path) -> Result<()> {
    program.save(path).map(drop)
}

#[cfg(not(feature = "compiler"))]
fn save(_: &Program, _: &Path) -> Result<()> {
    Err(crate::error::lacks("compiler"))
}

/// # Safety
/// `handle` is null or came from a box, and is used no more.
pub(super) unsafe fn free<T>(handle: *mut T) {
    if !ptr::eq(handle, ptr::null()) {
        // SAFETY: the caller passes a handle that is null or owned, and uses it no more.
        drop(unsafe { Box::from_raw(handle) });
    }
}
