//! Values, objects and functions in tvm-ffi's C layout, implemented in Rust.
//!
//! Provides element types, the `Any` value, reference-counted objects, tensors
//! over pooled memory, packed functions and their registry, loading of TVM-built
//! libraries, and parallel launch. The C ABI is in [`abi`]; no C++ library is
//! linked. What is not here: programs. This crate has never heard of bytecode or
//! graphs.

pub mod abi;
pub mod aligned_bytes;
pub mod alloc;
pub mod amx;
pub mod array;
pub mod backend;
pub mod bundle;
pub mod closure;
mod contrib;
pub mod device;
pub mod dlpack;
pub mod dtype;
pub mod error;
pub mod exports;
pub mod file_bytes;
pub mod fp;
pub mod function;
#[cfg_attr(not(unix), path = "no_host.rs")]
mod host;
pub mod late_file;
pub mod legacy;
pub mod library;
pub mod map;
pub mod module;
pub mod object;
pub mod page;
pub mod registry;
pub mod shape;
pub mod simd;
pub mod split_mix;
pub mod storage;
pub mod string;
pub mod tensor;
#[cfg(feature = "onnx-values")]
pub mod text;
pub mod threads;
pub mod timing;
mod type_info;
pub mod types;
pub mod value;
