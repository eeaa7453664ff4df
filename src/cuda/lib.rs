//! CUDA devices: memory, streams, copies and kernels by the driver's interface.
//!
//! The driver is a library of the machine, opened when the first device is. What it lacks is an
//! error by name ([`driver`]), so programs for CPUs run where there is none. Only this crate names
//! `cudarc`; the others see [`reflex_runtime::device::Device`].
//!
//! Tests load a stand-in for the driver (`tests/libcuda`); `./x cuda-check` runs it on a GPU.
//!
//! Decision: docs/decisions/0059-cuda-driver.md

use std::collections::btree_map::Entry;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::device;
use reflex_runtime::error::Error;

mod blocks;
mod call;
mod cuda_device;
pub mod driver;
mod facts;
mod gpu;
mod graph;
mod images;
mod launches;
mod module;
mod pool;
mod settings;
mod staging;
mod streams;
mod tensor_maps;
pub mod tvm;

use gpu::{Gpu, OPEN};

pub use facts::{Facts, facts};
pub use settings::{JIT_VARIABLE, SYNC_VARIABLE};

/// Opens the device of a number, registers it, and returns it. Once open, it stays so.
///
/// An error says what is missing: the driver, its version, a function of it, or the device.
pub fn open(number: i32) -> Result<&'static dyn device::Device, Error> {
    let mut open = OPEN.lock();
    if let Entry::Vacant(vacant) = open.entry(number) {
        driver::probe()?;
        let gpu: &'static Gpu = Box::leak(Box::new(Gpu::open(number)?));
        gpu.start()?;
        tracing::info!(device = %DLDevice::cuda(number), name = gpu.name(), "opened");
        vacant.insert(gpu);
        device::register(Box::leak(Box::new(gpu)));
    }
    device::get(DLDevice::cuda(number))
}
