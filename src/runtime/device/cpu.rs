//! The CPU as a device: work happens when it is enqueued, so streams and events are names alone.

use super::batch::{Arena, Batch, Recorded};
use std::sync::LazyLock;

use super::{Device, Event, KernelCode, KernelSpec, LoadedKernels, Properties, Stream};
use crate::abi::DLDevice;
use crate::alloc::device::{CPU, DeviceAllocator, set_memory_limit};
use crate::error::Error;

/// The device of all CPUs.
pub(super) static CPU_DEVICE: Cpu = Cpu;

#[derive(Debug)]
pub(super) struct Cpu;

static PROPERTIES: LazyLock<Properties> = LazyLock::new(|| Properties {
    name: "the host's memory".to_owned(),
    memory_bytes: u64::MAX,
    compute_capability: None,
    max_grid: [0; 3],
    max_block: [0; 3],
    max_threads: 0,
    max_shared_bytes: 0,
});

impl Device for Cpu {
    fn id(&self) -> DLDevice {
        DLDevice::CPU
    }

    fn properties(&self) -> &Properties {
        &PROPERTIES
    }

    fn allocator(&self) -> &'static dyn DeviceAllocator {
        &CPU
    }

    fn set_memory_limit(&self, bytes: usize) {
        set_memory_limit(bytes);
    }

    fn stream_of(&self, _: *const u8) -> Option<Stream> {
        None
    }

    fn create_stream(&self) -> Result<Stream, Error> {
        Ok(Stream::DEFAULT)
    }

    fn host_stream(&self, _: u64) -> Result<Stream, Error> {
        Ok(Stream::DEFAULT)
    }

    fn handle_of(&self, stream: Stream) -> Result<u64, Error> {
        Ok(stream.0)
    }

    fn destroy_stream(&self, _: Stream) {}

    fn synchronize(&self, _: Stream) -> Result<(), Error> {
        Ok(())
    }

    fn record(&self, _: Stream) -> Result<Event, Error> {
        Ok(Event(0))
    }

    fn wait(&self, _: Stream, _: &Event) -> Result<(), Error> {
        Ok(())
    }

    fn destroy_event(&self, _: Event) {}

    unsafe fn copy_from_host(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract is that of `copy`: a CPU's memory is the host's.
        unsafe { self.copy(stream, to, from, bytes) }
    }

    unsafe fn copy_to_host(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract is that of `copy`: a CPU's memory is the host's.
        unsafe { self.copy(stream, to, from, bytes) }
    }

    unsafe fn copy(
        &self,
        _: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller passes two ranges of so many bytes that do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        Ok(())
    }

    unsafe fn copy_from_peer(
        &self,
        stream: Stream,
        to: *mut u8,
        _: DLDevice,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract is that of `copy`: all CPUs have one memory.
        unsafe { self.copy(stream, to, from, bytes) }
    }

    unsafe fn fill(&self, _: Stream, to: *mut u8, value: u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller passes a range of so many bytes.
        unsafe { to.write_bytes(value, bytes) };
        Ok(())
    }

    fn batch(&self, _: Stream, _: Recorded) -> Result<Box<dyn Batch>, Error> {
        Err(Error::value_error("cpu:0 has no batches of launches"))
    }

    fn end_arena(&self, _: Arena) {}

    fn load(
        &self,
        _: &KernelCode<'_>,
        kernels: &[KernelSpec],
    ) -> Result<Box<dyn LoadedKernels>, Error> {
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let names = names.join(", ");
        Err(Error::value_error(format!("cpu:0 loads no texts of kernels: {names}")))
    }
}
