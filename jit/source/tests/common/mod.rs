//! Compilers of the three languages, and what runs the kernels that they compile.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod library;
pub mod nvrtc;
pub mod opencl;
