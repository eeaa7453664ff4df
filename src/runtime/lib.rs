//! Values, objects and functions in tvm-ffi's C layout, implemented in Rust.
//!
//! What is here: element types, and (in the modules that follow) the `Any`
//! value, reference-counted objects, tensors over pooled memory, packed functions
//! and their registry, loading of TVM-built libraries, and parallel launch.
//! What is not: programs. This crate has never heard of bytecode or graphs.

pub mod dtype;
