//! A stand-in for the NVIDIA driver's `libcuda.so.1`, over the interpreter of PTX.
//!
//! Programs load it as they load the driver. It is a driver that does everything as late and in as
//! odd an order as the manual allows:
//!
//! - Addresses of device memory are none of the host's: touching one is a segmentation fault.
//! - Streams are lazy. Work runs when something waits for it, and with a seed other streams' work
//!   runs in between. Copies read the host's memory when they run.
//! - Memory is freed at once. Work that comes later and uses it is an illegal address.
//! - A fault of a kernel (out of bounds, a race, an uninitialised read) is the error that a device
//!   has, printed to standard error, and final: all later calls on the device give it.
//! - `REFLEX_STANDIN` plans failures, see [`plan`].
//!
//! It has no time, graphs, textures, managed memory, nor processes that share memory.
//!
//! Source: NVIDIA, "CUDA Driver API", version 12.0.
//!
//! Decision: docs/decisions/0060-stand-in-driver.md

mod api;
mod driver;
mod memory;
pub mod plan;
mod status;
mod streams;
mod tensor_maps;
