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

mod artifact;
mod bound;
mod capi;
mod disassemble;
mod dump;
mod engine;
mod error;
mod foreign;
mod info;
mod kernels;
mod library;
mod objects;
mod options;
mod policy;
mod program;
mod session;
mod signature;
mod specialise;
mod tiers;

pub mod conformance;
pub mod memory;
pub mod npz;
pub mod stats;

pub use bound::Bound;
pub use engine::{Engine, EngineBuilder};
pub use error::{Error, ErrorKind, Result};
pub use info::{ModelInfo, PortInfo};
pub use library::library_function;
pub use npz::{Array, Feed};
pub use options::{Mode, Precision, Progress, SessionOptions};
pub use policy::{Keep, SavedCode, TierPolicy, Tiering};
pub use program::{Prepared, Program};
pub use reflex_cranelift::CompileMode;
pub use reflex_graph::Module;
pub use reflex_runtime::dtype::DType;
pub use reflex_runtime::function::Function;
pub use reflex_runtime::registry::{get as registered, register};
pub use reflex_runtime::tensor::Tensor;
pub use reflex_runtime::tensor::data::Element;
pub use reflex_runtime::value::{Any, AnyView};
pub use reflex_tir::level::Level;
pub use reflex_vm::instrument::{CallEvent, Instrument, Verdict};
pub use reflex_vm::profile::Profile;
pub use reflex_vm::session::{Canceller, SavedResult};
pub use session::{Outputs, Session, Timing, TimingOptions};
pub use signature::{Dim, Port, Signature};
pub use tiers::{TierCode, Tiers};

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
