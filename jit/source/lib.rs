//! Code generation as source text: loop IR in lowered form to C, CUDA C and OpenCL C.
//!
//! The text takes the same kernels as machine code, has the same two entries on a CPU (see [`reflex_tir::abi`]) and the
//! same launches on a GPU ([`DeviceKernel`](reflex_tir::codegen::DeviceKernel)), and gives the same bits once a
//! compiler that neither contracts nor reassociates has read it.
//!
//! - `print` has expressions and statements, for every dialect; [`Dialect`] is a table of words.
//! - `cpu` adds the entry points of C, parallel regions on the host's thread pool, and workspaces.
//! - `gpu` makes kernels of a GPU function's launches.
//!
//! Not here: matrix registers and tensor cores, which are refused.
//!
//! Decision: docs/decisions/0099-source-text.md
//!
//! ```
//! use reflex_tir::{DType, builder::FuncBuilder, lower};
//!
//! let mut f = FuncBuilder::new("twice");
//! let x = f.input("x", DType::F32, vec![4.into()]);
//! f.output("compute", "y", DType::F32, vec![4.into()], |f, i| f.at(x, i) + f.at(x, i));
//! let text = reflex_source::c(&[lower::lower(&f.finish())])?;
//! assert!(text.contains("int32_t __reflex_raw_twice(const float *x, float *y)"));
//! assert!(text.contains("y[i0] = x[i0] + x[i0];"));
//! # Ok::<(), reflex_source::SourceError>(())
//! ```
#![forbid(unsafe_code)]

mod cpu;
mod dialect;
mod error;
mod gpu;
mod helpers;
mod names;
mod print;

use reflex_tir::PrimFunc;
use reflex_tir::codegen::GpuTarget;

pub use dialect::Dialect;
pub use error::{Result, SourceError};
pub use gpu::DeviceSource;

/// The C text of lowered functions, with the entries that machine code has.
pub fn c(funcs: &[PrimFunc]) -> Result<String> {
    cpu::module(funcs)
}

/// The CUDA C text of functions that are lowered for a GPU.
pub fn cuda(funcs: &[PrimFunc], gpu: &GpuTarget) -> Result<DeviceSource> {
    gpu::module(funcs, gpu, Dialect::Cuda)
}

/// A GPU that most devices of OpenCL are no smaller than.
pub fn opencl_gpu() -> GpuTarget {
    GpuTarget {
        name: "opencl".to_owned(),
        sms: 32,
        shared_bytes: 32 << 10,
        registers: 64 << 10,
        l2_bytes: 4 << 20,
        l2_bytes_per_cycle: 1024,
        clock_mhz: 1000,
        memory_gbps: 100,
        fma_per_cycle: 64,
        mma_per_cycle: 64,
    }
}

/// The OpenCL C text of functions that are lowered for a GPU.
pub fn opencl(funcs: &[PrimFunc], gpu: &GpuTarget) -> Result<DeviceSource> {
    gpu::module(funcs, gpu, Dialect::OpenCl)
}
