//! Runs tensor programs: ONNX models, executables that TVM exported, compiled artifacts.
//!
//! An [`Engine`] holds the options and loads models into [`Program`]s, which threads share.
//! Each thread opens [`Session`]s on a program in some [`Mode`]; all modes give the same bits.
//!
//! ```
//! use reflex::{Array, Engine, Feed, Mode};
//!
//! let program = Engine::new()?.load("examples/softmax.py".as_ref())?; // or .onnx, or .so
//! let x = Array::of(&[1, 2], &[8.0_f32, 8.0])?;
//! let feed = program.prepare("main", &Feed::from([("x".to_owned(), x)]))?;
//! let outputs = program.session(Mode::Tiered)?.call(&feed)?;
//! assert_eq!(outputs.arrays()?[0].1.to_vec::<f32>()?, [0.5, 0.5]);
//! # Ok::<(), reflex::Error>(())
//! ```

mod array;
mod artifact;
mod capi;
mod compiler;
mod disassemble;
mod dump;
mod engine;
mod error;
mod kernels;
mod library_function;
mod model_file;
mod model_info;
mod options;
mod prepared;
mod program;
mod session;
mod signature;
mod specialise;
mod tier_policy;
mod tier_report;

pub mod conformance;
pub mod memory;
pub mod numpy;
pub mod stats;

pub use array::{Array, Feed};
pub use engine::{Engine, EngineBuilder};
pub use error::{Error, ErrorKind, Result};
pub use library_function::library_function;
pub use model_info::{ModelInfo, ValueInfo};
pub use options::{Mode, Precision, Progress, SessionOptions};
pub use prepared::Prepared;
pub use program::Program;
pub use reflex_cranelift::CompileMode;
pub use reflex_graph::Module;
pub use reflex_runtime::dtype::DType;
pub use reflex_runtime::function::Function;
pub use reflex_runtime::registry::{get as get_global_func, register as register_global_func};
pub use reflex_runtime::tensor::Tensor;
pub use reflex_runtime::tensor::data::Element;
pub use reflex_runtime::value::{Any, AnyView};
pub use reflex_tir::level::Level;
pub use reflex_vm::instrument::{CallEvent, Instrument, Verdict};
pub use reflex_vm::profile::Profile;
pub use reflex_vm::session::{Canceller, SavedResult};
pub use session::Session;
pub use session::io_binding::IoBinding;
pub use session::outputs::Outputs;
pub use session::timing::{Timing, TimingOptions};
pub use signature::{Dim, Signature, TensorInfo};
pub use tier_policy::{SavedCode, Specialise, TierPolicy, Tiering};
pub use tier_report::{TierDetail, TierReport};

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
