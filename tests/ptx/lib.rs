//! An interpreter of PTX: it runs what LLVM's NVPTX back end writes, without a GPU.
//!
//! It answers two questions about a kernel. Is it right: an access out of bounds, a race, a
//! barrier that threads miss and the like end the launch with a [`Fault`] that says where. And is
//! it good: [`Counters`] have sectors, bank conflicts and instructions by kind. It knows no time,
//! no caches and no `ptxas`.
//!
//! Decision: docs/decisions/0054-ptx-interpreter.md
//!
//! ```
//! # use reflex_ptx::{Device, LaunchOptions, Limits, Module, Params};
//! let module = Module::parse(
//!     ".version 8.0 .target sm_80 .address_size 64
//!      .visible .entry fill(.param .u64 p) {
//!          .reg .b32 %r<2>; .reg .b64 %rd<4>;
//!          ld.param.u64 %rd1, [p];
//!          mov.u32 %r1, %tid.x;
//!          mul.wide.u32 %rd2, %r1, 4;
//!          add.s64 %rd3, %rd1, %rd2;
//!          st.global.u32 [%rd3], %r1;
//!          ret;
//!      }",
//! )?;
//! let mut device = Device::new(Limits::default());
//! let buffer = device.alloc(16)?;
//! let params = Params::new().u64(buffer).bytes;
//! device.launch(&module, "fill", [1; 3], [4, 1, 1], 0, &params, &LaunchOptions::default())?;
//! assert_eq!(device.read(buffer, 8)?, [0, 0, 0, 0, 1, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod counters;
mod decode;
mod device;
mod exec;
mod fault;
mod mem;
mod module;
mod num;
mod op;
mod options;
mod parse;
mod tensor_map;

pub use counters::{Counters, Requests};
pub use decode::ModuleVariable;
pub use device::{Device, MemoryError};
pub use fault::{Fault, FaultKind, Other, Space};
pub use module::Module;
pub use op::{KINDS, Kernel, Kind, Param};
pub use options::{Arch, LaunchOptions, Limits, Order, Params, Policy};
pub use parse::error::{ParseError, Position};
pub use tensor_map::{Swizzle, TensorMap};
