//! Runs tensor programs: ONNX models, executables that TVM exported, compiled artifacts.
//!
//! An [`Engine`] holds the options and loads models into [`Program`]s, which threads share.
//! Each thread opens [`Session`]s on a program in some [`Mode`]; all modes give the same bits.
//!
//! ```no_run
//! use reflex::{Engine, Mode, npz};
//!
//! let program = Engine::builder().build()?.load("model.onnx".as_ref())?;
//! let case = &npz::read_cases("inputs.npz".as_ref())?[0];
//! let mut session = program.session(Mode::Tiered)?;
//! let outputs = session.call(&program.prepare("main", &case.inputs)?)?;
//! println!("{:?}", outputs.arrays()?);
//! # Ok::<(), reflex::Error>(())
//! ```

mod artifact;
mod disassemble;
mod dump;
mod engine;
mod error;
mod foreign;
mod info;
mod kernels;
mod options;
mod program;
mod session;
mod signature;

pub mod conformance;
pub mod npz;
pub mod stats;

pub use engine::{Engine, EngineBuilder};
pub use error::{Error, ErrorKind, Result};
pub use info::{ModelInfo, PortInfo};
pub use options::{Mode, Precision, Progress};
pub use program::{Prepared, Program};
pub use reflex_graph::Module;
pub use reflex_runtime::dtype::DType;
pub use session::{Outputs, Session};
pub use signature::{Dim, Port, Signature};

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
