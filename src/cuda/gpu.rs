//! One CUDA device.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUcontext, CUdevice_attribute as Attribute, CUevent};
use parking_lot::Mutex;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::DeviceAllocator;
use reflex_runtime::device::batch::{Arena, arena};
use reflex_runtime::device::{self, DEVICE_LOST, Properties, Stream};
use reflex_runtime::error::Error;

use crate::call::{Failure, cu};
use crate::pool::Pool;
use crate::staging::Staging;
use crate::streams::{InUse, StreamState, Streams};

/// The devices that are open, by number. They are never closed: the primary context is shared with
/// the rest of the process.
pub(crate) static OPEN: Mutex<BTreeMap<i32, &'static Gpu>> = Mutex::new(BTreeMap::new());

/// A device with its primary context, which the process shares and which is never reset here.
pub(crate) struct Gpu {
    pub(crate) id: DLDevice,
    pub(crate) context: Context,
    pub(crate) properties: Properties,
    /// Why the device is lost.
    lost: OnceLock<String>,
    pub(crate) streams: Streams,
    pub(crate) pool: Pool,
    pub(crate) staging: Mutex<Staging>,
}

pub(crate) struct Context(pub(crate) CUcontext);

// SAFETY: a context is the driver's, which takes it from any thread.
unsafe impl Send for Context {}
// SAFETY: as for `Send`: the driver locks what it changes.
unsafe impl Sync for Context {}

impl Gpu {
    /// Retains the primary context of a device. The driver is probed.
    pub(crate) fn open(number: i32) -> Result<Gpu, Error> {
        let id = DLDevice::cuda(number);
        let failed = |why: Failure| Error::new("DriverError", format!("{id}: {why}"));
        let (mut count, mut device, mut context) = (0, 0, std::ptr::null_mut());
        // SAFETY: each call writes to the variable of its type that it is given.
        unsafe {
            cu!(cuInit(0)).map_err(failed)?;
            cu!(cuDeviceGetCount(&mut count)).map_err(failed)?;
            if !(0..count).contains(&number) {
                let there = match count {
                    0 => "the driver has no device".to_owned(),
                    1 => "there is cuda:0".to_owned(),
                    count => format!("there are cuda:0 to cuda:{}", count - 1),
                };
                return Err(Error::new("DriverError", format!("there is no {id}; {there}")));
            }
            cu!(cuDeviceGet(&mut device, number)).map_err(failed)?;
        }
        let properties = properties(device).map_err(failed)?;
        // SAFETY: the device is one of the driver's.
        unsafe { cu!(cuDevicePrimaryCtxRetain(&mut context, device)).map_err(failed)? };
        Ok(Gpu {
            id,
            context: Context(context),
            properties,
            lost: OnceLock::new(),
            streams: Streams::default(),
            pool: Pool::default(),
            staging: Mutex::new(Staging::default()),
        })
    }

    /// Makes the default stream.
    pub(crate) fn start(&self) -> Result<(), Error> {
        let stream = self.new_stream()?;
        debug_assert_eq!(stream, Stream::DEFAULT, "it is the first one");
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.properties.name
    }

    /// Makes the context this thread's, unless the device is lost. Every entry but those of launches does: other
    /// code in the process may have set another one.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        self.is_alive()?;
        self.set_context().map_err(|why| self.error(why))
    }

    fn set_context(&self) -> Result<(), Failure> {
        // SAFETY: the context is retained for ever.
        unsafe { cu!(cuCtxSetCurrent(self.context.0)) }
    }

    /// Calls a function of the driver that enqueues launches on a stream of this device, in whatever context the thread
    /// has, which is this one most often. With another one the function fails and enqueues nothing (CUDA C++ programming
    /// guide, stream and event behavior), so it is called once more with this one.
    #[inline]
    pub(crate) fn enqueue(&self, call: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        call().or_else(|why| self.enqueue_again(why, call))
    }

    #[cold]
    fn enqueue_again(
        &self,
        why: Failure,
        call: impl Fn() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut current = std::ptr::null_mut();
        // SAFETY: it writes one handle.
        unsafe { cu!(cuCtxGetCurrent(&mut current)) }?;
        if current == self.context.0 {
            return Err(why);
        }
        self.set_context()?;
        call()
    }

    /// Returns the error of a device that is lost.
    #[inline]
    pub(crate) fn is_alive(&self) -> Result<(), Error> {
        match self.lost.get() {
            Some(why) => Err(Error::new(DEVICE_LOST, why.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// The error of a failure that no stream's kernels can have caused.
    pub(crate) fn error(&self, why: Failure) -> Error {
        self.error_with(why, String::new)
    }

    /// The error of a failure on a stream: it may be that of an earlier launch.
    pub(crate) fn stream_error(&self, why: Failure, stream: &StreamState) -> Error {
        self.error_with(why, || format!("; {}", stream.launches.suspects()))
    }

    fn error_with(&self, why: Failure, more: impl FnOnce() -> String) -> Error {
        let kind = match why.is_out_of_memory() {
            true => "MemoryError",
            false => "RuntimeError",
        };
        if !why.is_final() {
            return Error::new(kind, format!("{}: {why}{}", self.id, more()));
        }
        let first = || format!("{} is lost: {why}{}", self.id, more());
        let text = self.lost.get_or_init(first).clone();
        Error::new(DEVICE_LOST, text)
    }

    pub(crate) fn new_stream(&self) -> Result<Stream, Error> {
        self.enter()?;
        let mut raw = std::ptr::null_mut();
        const NON_BLOCKING: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: it writes one handle.
        unsafe { cu!(cuStreamCreate(&mut raw, NON_BLOCKING)) }.map_err(|why| self.error(why))?;
        self.streams.add(raw).ok_or_else(|| self.too_many_streams())
    }

    pub(crate) fn too_many_streams(&self) -> Error {
        Error::value_error(format!("{}: there are too many streams", self.id))
    }

    /// A stream to enqueue work on, or an error for one that is not of this device.
    #[inline]
    pub(crate) fn stream(&self, stream: Stream) -> Result<InUse<'_>, Error> {
        let state = self.known_stream(stream)?;
        let wait = |leads: Stream| match self.streams.get(leads) {
            Some(leads) => {
                self.set_context()?;
                state.wait_for(leads)
            }
            // A stream that has ended has no work left.
            None => Ok(()),
        };
        state.settle(wait).map_err(|why| self.stream_error(why, state))?;
        Ok(InUse(state))
    }

    #[inline]
    fn known_stream(&self, stream: Stream) -> Result<&StreamState, Error> {
        self.streams.get(stream).ok_or_else(|| {
            Error::value_error(format!("{}: there is no stream {:#x}", self.id, stream.0))
        })
    }

    /// Makes a stream wait for what another one has before it now.
    pub(crate) fn order(&self, stream: Stream, leads: Stream) -> Result<(), Error> {
        let leads = self.known_stream(leads)?;
        // Most often there is nothing new to wait for, and no use of the stream either.
        if self.known_stream(stream)?.has_waited_for(leads) {
            return self.is_alive();
        }
        let waits = self.stream(stream)?;
        self.enter()?;
        waits.wait_for(leads).map_err(|why| self.stream_error(why, &waits))
    }

    /// The same before the next use of the stream, where all uses are known here.
    pub(crate) fn order_later(&self, stream: Stream, leads: Stream) -> Result<(), Error> {
        if self.known_stream(stream)?.owe(leads) { Ok(()) } else { self.order(stream, leads) }
    }

    /// Waits for a stream's work.
    pub(crate) fn wait_for(&self, stream: &StreamState) -> Result<(), Error> {
        // SAFETY: the stream lives as long as its state.
        unsafe { cu!(cuStreamSynchronize(stream.raw())) }
            .map_err(|why| self.stream_error(why, stream))?;
        stream.launches.clear();
        Ok(())
    }

    /// Waits for the work of all streams, for what has no order with them.
    pub(crate) fn wait_for_all(&self) -> Result<(), Error> {
        self.streams.all().try_for_each(|stream| self.wait_for(stream))
    }
}

/// Reads the facts about a device of the driver.
fn properties(device: sys::CUdevice) -> Result<Properties, Failure> {
    let attribute = |which: Attribute| {
        let mut value: c_int = 0;
        // SAFETY: it writes one integer.
        unsafe { cu!(cuDeviceGetAttribute(&mut value, which, device)) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let (mut name, mut memory) = ([0; 256], 0);
    // SAFETY: the name is written with its terminator into so many bytes, the size into its
    // variable.
    unsafe {
        cu!(cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device))?;
        cu!(cuDeviceTotalMem_v2(&mut memory, device))?;
    }
    let name: Vec<u8> = name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    use Attribute as A;
    Ok(Properties {
        name: String::from_utf8_lossy(&name).into_owned(),
        memory_bytes: memory as u64,
        compute_capability: Some((
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        )),
        max_grid: [
            attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        max_block: [
            attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        max_threads: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_shared_bytes: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}

/// An event that is recorded on a stream of the current context.
pub(crate) fn new_event(stream: &StreamState) -> Result<CUevent, Failure> {
    const NO_TIMES: u32 = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    let mut event = std::ptr::null_mut();
    // SAFETY: the event is made before it is recorded, and the stream lives as long as its state.
    unsafe {
        cu!(cuEventCreate(&mut event, NO_TIMES))?;
        if let Err(why) = cu!(cuEventRecord(event, stream.raw())) {
            let _ = cu!(cuEventDestroy_v2(event));
            return Err(why);
        }
    }
    Ok(event)
}

impl DeviceAllocator for Gpu {
    fn device(&self) -> DLDevice {
        self.id
    }

    fn allocate(&self, bytes: usize) -> Result<reflex_runtime::alloc::device::Block, Error> {
        let stream = device::current_stream(self.id);
        let owner = arena(self.id).map_or(stream, Arena::owner);
        self.pool.allocate(self, bytes, stream, owner)
    }

    unsafe fn release(&self, block: reflex_runtime::alloc::device::Block) {
        self.pool.release(block.data.addr().get() as u64);
    }

    fn trim(&self) {
        // An error of a stream shows again at its next use.
        let _ = self.enter().and_then(|()| self.pool.trim(self));
    }

    fn statistics(&self) -> reflex_runtime::alloc::device::Statistics {
        self.pool.statistics()
    }
}
