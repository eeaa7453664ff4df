//! Runs tensor programs: ONNX models, programs that PyTorch or TVM exported, compiled artifacts.
//!
//! # Load
//!
//! An [`Engine`] holds the options and loads models into [`Program`]s, which threads share. A model
//! is a `.onnx` file, a `.pt2` file (PyTorch), a `.py` file (TVMScript), or a `.so`: an artifact of [`Program::save`], or an
//! executable that TVM exported. A [`ModelSource`] is one in memory. [`Engine::info`] reads a model
//! without compiling it; [`Program::signature`] has the inputs and outputs of a function.
//!
//! # Run
//!
//! Each thread opens a [`Session`] of its own. [`Program::prepare`] checks a [`Feed`] of [`Array`]s
//! by name, and [`Session::call`] runs it:
//!
//! ```
//! use reflex::{Array, Engine, Feed, Mode};
//!
//! let program = Engine::new()?.load("examples/softmax.py")?; // or .onnx, or .so
//! let x = Array::of(&[1, 2], &[8.0_f32, 8.0])?;
//! let feed = program.prepare("main", &Feed::from([("x".to_owned(), x)]))?;
//! let outputs = program.session(Mode::Tiered)?.call(&feed)?;
//! assert_eq!(outputs.arrays()?[0].1.to_vec::<f32>()?, [0.5, 0.5]);
//! # Ok::<(), reflex::Error>(())
//! ```
//!
//! [`Session::call_values`] calls by name on [`Any`] values, such as [`Tensor`]s; the methods of
//! TVM's virtual machine are there too ([`Session::set_input`], [`Session::invoke_stateful`],
//! [`Session::save_function`]). Packed [`Function`]s that programs call by name are registered by
//! [`register_global_func`].
//!
//! # Bind
//!
//! [`Session::bind`] keeps inputs and outputs in place between runs, as ONNX Runtime's IoBinding
//! does. Such runs make no heap allocation, in any mode:
//!
//! ```
//! # use reflex::{Array, Engine, Feed, Mode};
//! # let program = Engine::new()?.load("examples/softmax.py")?;
//! # let x = Array::of(&[1, 2], &[8.0_f32, 8.0])?;
//! # let feed = program.prepare("main", &Feed::from([("x".to_owned(), x)]))?;
//! let mut session = program.session(Mode::Tiered)?;
//! let mut binding = session.bind(&feed)?;
//! binding.input_mut::<f32>(0)?.copy_from_slice(&[0.0, 0.0]);
//! binding.run()?;
//! assert_eq!(binding.output::<f32>(0)?, [0.5, 0.5]);
//! # Ok::<(), reflex::Error>(())
//! ```
//!
//! With the feature `ndarray`, arrays of that crate convert into [`Array`]s, and bound inputs and
//! outputs are its views.
//!
//! # Modes and tiering
//!
//! A [`Mode`] is the way VM functions run; all modes give the same bits. [`Mode::Bytecode`] is the
//! interpreter, [`Mode::Compiled`] translates every function when the session opens, and
//! [`Mode::Tiered`] interprets first and compiles hot code: traces, functions, and programs
//! specialised for the shapes of calls. A [`TierPolicy`] says when, as text or field by field;
//! [`Session::warm_up`] runs until nothing more is compiled; [`Program::tiers`] prints what was
//! compiled and why the rest was not.
//!
//! ```
//! use reflex::{Engine, TierPolicy};
//!
//! let policy: TierPolicy = "threshold=2,compile=sync".parse()?;
//! let engine = Engine::builder().threads(2).tier(policy).build()?;
//! # Ok::<(), reflex::Error>(())
//! ```
//!
//! # Profile
//!
//! [`Session::profile`] times every call inside one, [`Session::time_evaluator`] a whole function,
//! [`Session::set_instrument`] shows each call to a callback. [`stats`] has percentiles and
//! comparisons of latencies, [`memory`] what tensors take and may take. [`Session::set_fuel`],
//! [`Session::set_deadline`] and [`Session::canceller`] limit runs.
//!
//! # Compile
//!
//! [`Program::save`] writes one shared library that loads without a compiler, for this CPU or for
//! [`Level`]s of x86-64 ([`EngineBuilder::levels`]). A [`Pipeline`] is the list of passes, with those of the
//! caller's and a [`PassInstrument`]. [`Engine::dump_after`],
//! [`Engine::dump_schedule`] and [`Engine::assembly`] show how a kernel came about.
//!
//! # Errors
//!
//! Every failure is an [`Error`] with an [`ErrorKind`] to branch on and a message that names the
//! file, node and reason. A session can be used again after an error. Models are hostile input and
//! checked; opening a `.so` runs machine code of its author's choice, as with any library.

// A build with fewer features leaves parts of what they share without a caller. The default build has all.
#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]
#![cfg_attr(not(feature = "jit"), allow(unreachable_code))]

mod array;
mod artifact;
#[cfg(feature = "compiler")]
mod baseline;
#[cfg(feature = "compiler")]
mod bound_dims;
mod capi;
#[cfg_attr(not(feature = "compiler"), path = "no_compiler.rs")]
mod compiler;
#[cfg(feature = "disassembly")]
mod disassemble;
#[cfg(feature = "compiler")]
mod dispatch;
#[cfg(feature = "compiler")]
mod dump;
mod engine;
mod error;
mod global_func;
#[cfg(feature = "llvm")]
mod install;
mod jit;
mod kernels;
mod library_function;
mod model_info;
mod model_source;
mod module;
#[cfg(feature = "ndarray")]
mod ndarray_interop;
#[cfg(not(feature = "onnx"))]
mod no_onnx;
#[cfg(feature = "compiler")]
mod operators;
mod options;
#[cfg(feature = "compiler")]
mod passes;
mod prepared;
mod program;
#[cfg(feature = "compiler")]
mod schedule;
mod session;
mod shared_session;
mod signature;
mod specialise;
#[cfg(feature = "compiler")]
mod stored;
#[cfg(feature = "compiler")]
mod target;
mod tier_policy;
mod tier_report;
#[cfg(feature = "compiler")]
mod whole_file;

#[cfg(feature = "onnx")]
pub mod conformance;
#[cfg(feature = "ir")]
pub mod ir;
#[cfg(feature = "log")]
pub mod log;
pub mod memory;
#[cfg(feature = "numpy")]
pub mod numpy;
#[cfg(feature = "onnx")]
pub mod quantize;
#[cfg(feature = "rpc")]
pub mod remote;
#[cfg(feature = "serve")]
pub mod serve;
pub mod stats;

pub use array::{Array, Feed};
pub use engine::{Engine, EngineBuilder};
pub use error::{Error, ErrorKind, Result};
pub use global_func::get_global_func;
pub use jit::CompileMode;
#[cfg(feature = "compiler")]
pub use kernels::tiered::KernelState;
pub use library_function::library_function;
pub use model_info::{ModelInfo, ValueInfo};
pub use model_source::{ModelFormat, ModelSource};
#[cfg(feature = "compiler")]
pub use operators::register_operator;
pub use options::{Mode, SessionOptions};
#[cfg(feature = "compiler")]
pub use options::{Precision, Progress};
#[cfg(feature = "compiler")]
pub use passes::{PassInstrument, Pipeline};
pub use prepared::Prepared;
pub use program::Program;
#[cfg(feature = "compiler")]
pub use reflex_graph::Module;
#[cfg(feature = "compiler")]
pub use reflex_graph::pattern;
#[cfg(feature = "compiler")]
pub use reflex_graph::registered::{AttrKind, AttrValue, CallTypes, FusionKind, OpDef as Operator};
#[cfg(feature = "compiler")]
pub use reflex_lower::dispatch::{AnnotatedPart, Dispatch, MatchedRegion};
#[cfg(feature = "compiler")]
pub use reflex_lower::optimize_for::OptimizeFor;
#[cfg(feature = "onnx")]
pub use reflex_onnx::{OnnxOperator, onnx_operators};
pub use reflex_runtime::array::Array as Tuple;
pub use reflex_runtime::dtype::DType;
pub use reflex_runtime::error::Error as RaisedError;
pub use reflex_runtime::file_bytes::FileAccess;
pub use reflex_runtime::function::Function;
pub use reflex_runtime::map::Map;
pub use reflex_runtime::module::{Functions, Imports, Module as RuntimeModule};
pub use reflex_runtime::registry::register as register_global_func;
pub use reflex_runtime::tensor::Tensor;
pub use reflex_runtime::tensor::data::Element;
pub use reflex_runtime::value::{Any, AnyView};
#[cfg(feature = "compiler")]
pub use reflex_source::Dialect;
#[cfg(feature = "compiler")]
pub use reflex_tir::codegen::KernelTier;
pub use reflex_tir::level::Level;
pub use reflex_vm::instrument::{CallEvent, Instrument, Verdict};
pub use reflex_vm::profile::Profile;
pub use reflex_vm::session::{Canceller, SavedResult};
#[cfg(feature = "compiler")]
pub use schedule::{Schedule, register_tensor_intrin};
pub use session::Session;
pub use session::batches::BatchReport;
pub use session::io_binding::IoBinding;
pub use session::outputs::Outputs;
pub use session::timing::{Timing, TimingOptions};
pub use signature::{Dim, Signature, TensorInfo};
#[cfg(feature = "compiler")]
pub use target::Target;
pub use tier_policy::{KernelGenerator, KernelSwaps, SavedCode, Specialise, TierPolicy, Tiering};
pub use tier_report::{TierDetail, TierReport};

/// The README's examples.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the page on deploying.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../docs/deploying.md")]
struct Deploying;
