//! CUDA devices behind the runtime's trait.

use cudarc::driver::sys::CUevent;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::DeviceAllocator;
use reflex_runtime::device::batch::{Arena, Batch, Recorded, spoil};
use reflex_runtime::device::{
    Device, Event, KernelCode, KernelSpec, LoadedKernels, Properties, Stream,
};
use reflex_runtime::error::Error;

use crate::call::cu;
use crate::gpu::{Gpu, OPEN, new_event};
use crate::graph::Graph;
use crate::module::Module;

impl Device for &'static Gpu {
    fn id(&self) -> DLDevice {
        self.id
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn allocator(&self) -> &'static dyn DeviceAllocator {
        *self
    }

    fn set_memory_limit(&self, bytes: usize) {
        self.pool.set_limit(bytes);
    }

    fn stream_of(&self, address: *const u8) -> Option<Stream> {
        self.pool.stream_of(address.addr() as u64)
    }

    fn create_stream(&self) -> Result<Stream, Error> {
        self.new_stream()
    }

    fn host_stream(&self, handle: u64) -> Result<Stream, Error> {
        let raw = std::ptr::with_exposed_provenance_mut(handle as usize);
        self.streams.of_host(raw).ok_or_else(|| self.too_many_streams())
    }

    fn handle_of(&self, stream: Stream) -> Result<u64, Error> {
        let state = self.stream(stream)?;
        state.share();
        Ok(state.raw().addr() as u64)
    }

    fn destroy_stream(&self, stream: Stream) {
        let Some(state) = self.streams.remove(stream) else { return };
        if self.is_lost() || self.enter().is_err() || self.wait_for(state).is_err() {
            // What a lost device had is gone with it.
            return;
        }
        self.pool.adopt(stream);
        state.end_event();
        // SAFETY: nothing finds the stream any more, so this is its last use.
        let _ = unsafe { cu!(cuStreamDestroy_v2(state.raw())) };
        self.streams.vacate(state);
    }

    fn synchronize(&self, stream: Stream) -> Result<(), Error> {
        self.enter()?;
        self.wait_for(&*self.stream(stream)?)
    }

    fn record(&self, stream: Stream) -> Result<Event, Error> {
        let state = self.stream(stream)?;
        self.enter()?;
        let event = new_event(&state).map_err(|why| self.stream_error(why, &state))?;
        Ok(Event(event.addr() as u64))
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<(), Error> {
        let state = self.stream(stream)?;
        self.enter()?;
        // SAFETY: events are destroyed through `destroy_event` alone, which takes them by value.
        unsafe { cu!(cuStreamWaitEvent(state.raw(), raw_event(event), 0)) }
            .map_err(|why| self.stream_error(why, &state))
    }

    fn order(&self, stream: Stream, leads: Stream) -> Result<(), Error> {
        Gpu::order(self, stream, leads)
    }

    fn order_later(&self, stream: Stream, leads: Stream) -> Result<(), Error> {
        Gpu::order_later(self, stream, leads)
    }

    fn destroy_event(&self, event: Event) {
        if self.enter().is_ok() {
            // SAFETY: the event was recorded here and is used no more.
            let _ = unsafe { cu!(cuEventDestroy_v2(raw_event(&event))) };
        }
    }

    unsafe fn copy_from_host(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        spoil(self.id, "copy from the host");
        let state = self.stream(stream)?;
        self.enter()?;
        // SAFETY: the caller passes two ranges of so many bytes.
        let copied = unsafe { self.staging.lock().send(state.raw(), to, from, bytes) };
        copied.map_err(|why| self.stream_error(why, &state))
    }

    unsafe fn copy_to_host(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        let state = self.stream(stream)?;
        self.enter()?;
        // SAFETY: the caller passes two ranges of so many bytes.
        let copied = unsafe { self.staging.lock().receive(state.raw(), to, from, bytes) };
        copied.map_err(|why| self.stream_error(why, &state))?;
        state.launches.clear();
        Ok(())
    }

    unsafe fn copy(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        spoil(self.id, "copy within the device");
        let state = self.stream(stream)?;
        self.enter()?;
        let (to, from) = (to.addr() as u64, from.addr() as u64);
        // SAFETY: the caller passes two ranges of so many bytes of the device.
        unsafe { cu!(cuMemcpyDtoDAsync_v2(to, from, bytes, state.raw())) }
            .map_err(|why| self.stream_error(why, &state))
    }

    unsafe fn copy_from_peer(
        &self,
        stream: Stream,
        to: *mut u8,
        peer: DLDevice,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error> {
        spoil(self.id, "copy from another device");
        let unknown = || Error::value_error(format!("{peer} is no open CUDA device"));
        let theirs = OPEN.lock().get(&peer.device_id).copied();
        let theirs = theirs.filter(|gpu| gpu.id == peer).ok_or_else(unknown)?;
        let state = self.stream(stream)?;
        self.enter()?;
        let (to, from) = (to.addr() as u64, from.addr() as u64);
        let (here, there) = (self.context.0, theirs.context.0);
        // SAFETY: the caller passes a range of each device, of so many bytes.
        unsafe { cu!(cuMemcpyPeerAsync(to, here, from, there, bytes, state.raw())) }
            .map_err(|why| self.stream_error(why, &state))
    }

    unsafe fn fill(
        &self,
        stream: Stream,
        to: *mut u8,
        value: u8,
        bytes: usize,
    ) -> Result<(), Error> {
        spoil(self.id, "fill");
        let state = self.stream(stream)?;
        self.enter()?;
        // SAFETY: the caller passes a range of so many bytes of the device.
        unsafe { cu!(cuMemsetD8Async(to.addr() as u64, value, bytes, state.raw())) }
            .map_err(|why| self.stream_error(why, &state))
    }

    fn batch(&self, stream: Stream, recorded: Recorded) -> Result<Box<dyn Batch>, Error> {
        Ok(Box::new(Graph::new(self, stream, recorded)?))
    }

    fn end_arena(&self, arena: Arena) {
        self.pool.adopt(arena.owner());
    }

    fn load(
        &self,
        code: &KernelCode<'_>,
        kernels: &[KernelSpec],
    ) -> Result<Box<dyn LoadedKernels>, Error> {
        Ok(Box::new(Module::load(self, code, kernels)?))
    }
}

fn raw_event(event: &Event) -> CUevent {
    std::ptr::with_exposed_provenance_mut(event.0 as usize)
}
