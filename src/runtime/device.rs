//! Devices: memory, copies, streams, events and kernels behind one trait, found by [`DLDevice`].
//!
//! Work that is enqueued on a stream happens in order, later; a stream's errors may come as late
//! as its next synchronisation. Every thread has a current stream for each device: kernels run on
//! it, and tensors are allocated in its order. The CPU is a device whose work happens at once.
//!
//! Host code reads and writes memory of CPUs alone. Everything else moves by
//! [`Tensor::copy_to`](crate::tensor::Tensor::copy_to).
//!
//! Decision: docs/decisions/0058-devices.md

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::abi::DLDevice;
use crate::alloc::device::DeviceAllocator;
use crate::dtype::DType;
use crate::error::Error;

pub mod batch;
mod cpu;
pub mod current;
pub mod host_stream;
pub mod waits;

/// The kind of an error after which a device does nothing more for this process.
pub const DEVICE_LOST: &str = "DeviceLost";

/// A stream of a device. Its number means something to the device alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u64);

impl Stream {
    /// The stream of threads that have entered none.
    pub const DEFAULT: Stream = Stream(0);
}

/// A place in the order of a stream, at which other streams can wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Event(pub u64);

/// The facts about a device that do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Name of the product.
    pub name: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Compute capability of a CUDA device: 8 and 0 for `sm_80`.
    pub compute_capability: Option<(u32, u32)>,
    /// Most blocks of a launch along x, y and z; 0 for a device without launches.
    pub max_grid: [u32; 3],
    /// Most threads of a block along x, y and z.
    pub max_block: [u32; 3],
    /// Most threads of a block.
    pub max_threads: u32,
    /// Most bytes of shared memory of a block.
    pub max_shared_bytes: u32,
}

/// A kernel of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// The name of its entry.
    pub name: String,
    /// Most bytes of dynamic shared memory that it is launched with.
    pub shared_bytes: u32,
}

/// Code of kernels, in the forms that there are.
#[derive(Clone, Copy, Debug)]
pub struct KernelCode<'a> {
    /// A text that the device compiles: PTX for CUDA.
    pub text: &'a str,
    /// Machine code of the same kernels; a device takes what is for it, before the text.
    pub images: &'a [Image],
}

impl<'a> From<&'a str> for KernelCode<'a> {
    fn from(text: &'a str) -> KernelCode<'a> {
        KernelCode { text, images: &[] }
    }
}

/// Machine code of kernels for one architecture: a cubin for CUDA.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// The architecture, such as `sm_90`.
    pub arch: String,
    /// The code.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.arch, self.bytes.len())
    }
}

/// The code that loaded kernels were made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeSource {
    /// Machine code for this architecture.
    Image(String),
    /// The text, which the device compiled.
    Text {
        /// Why it did not take machine code that is for it.
        refused: Option<String>,
    },
}

/// A launch: which kernel, on how many threads, with which parameters.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Number of the kernel in its module.
    pub kernel: usize,
    /// Blocks along x, y and z. None are launched where one of them is 0.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The parameters, 64 bits each.
    pub params: &'a [u64],
    /// The number of leading parameters that are addresses.
    pub addresses: usize,
    /// Tensors that the kernel copies boxes of, further parameters behind those.
    pub maps: &'a [TensorMap],
}

/// A tensor that a kernel copies boxes of: a tensor map for CUDA, whose rows in shared memory are swizzled in 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The number of the parameter that is the tensor's address, a multiple of [`TensorMap::ALIGN`].
    pub param: usize,
    /// Its elements.
    pub dtype: DType,
    /// Its dimensions, of which so many are used, the contiguous one first.
    pub rank: usize,
    /// Extents.
    pub extents: [u64; TensorMap::MOST_DIMS],
    /// Bytes between neighbours.
    pub strides: [u64; TensorMap::MOST_DIMS],
    /// Elements of a box.
    pub counts: [u32; TensorMap::MOST_DIMS],
}

impl TensorMap {
    /// The most dimensions.
    pub const MOST_DIMS: usize = 5;
    /// Bytes that addresses, and strides but for the first dimension's, are multiples of.
    pub const ALIGN: u64 = 16;

    /// Bytes from the first element to behind the last one.
    pub fn bytes(&self) -> u64 {
        let dims = self.extents.iter().zip(self.strides).take(self.rank);
        let last = dims.map(|(extent, stride)| extent.saturating_sub(1).saturating_mul(stride));
        last.fold(self.dtype.itemsize() as u64, u64::saturating_add)
    }
}

/// Kernels that a device has loaded. They are unloaded when this is dropped.
pub trait LoadedKernels: Send + Sync + fmt::Debug {
    /// The code that they were made of.
    fn source(&self) -> &CodeSource;

    /// Enqueues a launch.
    ///
    /// # Safety
    /// The parameters are those of the kernel. Addresses among them stay allocated until the
    /// stream is past the launch, and nothing uses their memory meanwhile out of its order.
    unsafe fn launch(&self, stream: Stream, launch: &Launch<'_>) -> Result<(), Error>;

    /// Prepares launches that are like this one but for their parameters, which are not looked at; `None` where a
    /// launch does more: it has tensor maps or no blocks, or is refused.
    fn prepare(self: Arc<Self>, launch: &Launch<'_>) -> Option<Box<dyn PreparedLaunch>>;
}

/// A launch that is checked before its calls, which have other parameters alone. Its kernels stay loaded.
pub trait PreparedLaunch: Send + Sync + fmt::Debug {
    /// Enqueues it.
    ///
    /// # Safety
    /// As for [`LoadedKernels::launch`].
    unsafe fn launch(&self, stream: Stream, params: &[u64]) -> Result<(), Error>;
}

/// A device.
///
/// Errors of the kind [`DEVICE_LOST`] are final. Others leave the device as it was.
pub trait Device: Send + Sync {
    /// Its place among the devices.
    fn id(&self) -> DLDevice;

    /// The facts about it.
    fn properties(&self) -> &Properties;

    /// Its memory. Blocks belong to the stream that is current when they are allocated: they may be
    /// released before that stream has come to what uses them.
    fn allocator(&self) -> &'static dyn DeviceAllocator;

    /// Bounds the memory in use at once: beyond it, allocations fail with a `MemoryError`.
    fn set_memory_limit(&self, bytes: usize);

    /// The stream that a block belongs to which holds this address; `None` for foreign memory.
    fn stream_of(&self, address: *const u8) -> Option<Stream>;

    /// Makes a stream, ordered with no other.
    fn create_stream(&self) -> Result<Stream, Error>;

    /// A stream of the host's own, by the driver's handle. It is never ended here.
    fn host_stream(&self, handle: u64) -> Result<Stream, Error>;

    /// The driver's handle of a stream.
    fn handle_of(&self, stream: Stream) -> Result<u64, Error>;

    /// Waits for a stream's work and ends it. Its errors are not reported.
    fn destroy_stream(&self, stream: Stream);

    /// Waits for a stream's work, and reports its errors.
    fn synchronize(&self, stream: Stream) -> Result<(), Error>;

    /// Records where a stream is.
    fn record(&self, stream: Stream) -> Result<Event, Error>;

    /// Makes a stream wait until another one, of any device of this kind, is past an event.
    fn wait(&self, stream: Stream, event: &Event) -> Result<(), Error>;

    /// Ends an event. Streams that wait for it still do.
    fn destroy_event(&self, event: Event);

    /// Makes a stream wait for what another one of this device has before it now.
    fn order(&self, stream: Stream, leads: Stream) -> Result<(), Error> {
        let event = self.record(leads)?;
        let waits = self.wait(stream, &event);
        self.destroy_event(event);
        waits
    }

    /// The same, at the latest before the stream is used again.
    fn order_later(&self, stream: Stream, leads: Stream) -> Result<(), Error> {
        self.order(stream, leads)
    }

    /// Enqueues a copy from the host. The source may change as soon as this returns.
    ///
    /// # Safety
    /// Both ranges are allocated: the source is readable, and the device's is used in the order of the
    /// stream.
    unsafe fn copy_from_host(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error>;

    /// Copies to the host, after what the stream has before it. The copy is made when this returns.
    ///
    /// # Safety
    /// Both ranges are allocated, and the host's may be written.
    unsafe fn copy_to_host(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error>;

    /// Enqueues a copy within the device.
    ///
    /// # Safety
    /// Both ranges are allocated, do not overlap, and are used in the order of the stream.
    unsafe fn copy(
        &self,
        stream: Stream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error>;

    /// Enqueues a copy from another device of this kind.
    ///
    /// # Safety
    /// Both ranges are allocated. The stream is past what wrote the source, and the source is
    /// kept until the stream is past the copy.
    unsafe fn copy_from_peer(
        &self,
        stream: Stream,
        to: *mut u8,
        peer: DLDevice,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Error>;

    /// Enqueues a fill with one byte.
    ///
    /// # Safety
    /// The range is allocated, and used in the order of the stream.
    unsafe fn fill(
        &self,
        stream: Stream,
        to: *mut u8,
        value: u8,
        bytes: usize,
    ) -> Result<(), Error>;

    /// Makes one object of recorded launches, whose kernels stay loaded as long as it is there. They
    /// are enqueued on this stream. The arena is the batch's until it is dropped.
    fn batch(
        &self,
        stream: Stream,
        recorded: batch::Recorded,
    ) -> Result<Box<dyn batch::Batch>, Error>;

    /// Takes back the memory of an arena that no work uses any more but what streams have enqueued.
    fn end_arena(&self, arena: batch::Arena);

    /// Loads kernels: machine code that is for the device, or else the text, which it compiles.
    fn load(
        &self,
        code: &KernelCode<'_>,
        kernels: &[KernelSpec],
    ) -> Result<Box<dyn LoadedKernels>, Error>;
}

/// A device other than a CPU, in the list of all. None is ever taken out, so a look-up needs no lock.
struct Registered {
    id: DLDevice,
    device: &'static dyn Device,
    next: OnceLock<Box<Registered>>,
}

static DEVICES: OnceLock<Box<Registered>> = OnceLock::new();

/// Registers a device; of two with the same place the first stays, and is returned.
pub fn register(device: &'static dyn Device) -> &'static dyn Device {
    let (id, mut slot) = (device.id(), &DEVICES);
    loop {
        let new = || Box::new(Registered { id, device, next: OnceLock::new() });
        let known = slot.get_or_init(new);
        if known.id == id {
            return known.device;
        }
        slot = &known.next;
    }
}

/// The device at a place, if there is one. All CPUs are one device.
///
/// ```
/// use reflex_runtime::{abi::DLDevice, device};
/// assert_eq!(device::find(DLDevice::cpu(3)).unwrap().id(), DLDevice::CPU);
/// let nowhere = DLDevice { device_type: 99, device_id: 0 };
/// assert!(device::find(nowhere).is_none());
/// ```
pub fn find(id: DLDevice) -> Option<&'static dyn Device> {
    if id.is_cpu() {
        return Some(&cpu::CPU_DEVICE);
    }
    let mut known = DEVICES.get();
    while let Some(other) = known.filter(|known| known.id != id) {
        known = other.next.get();
    }
    known.map(|known| known.device)
}

/// The device at a place, or an error that names it.
pub fn get(id: DLDevice) -> Result<&'static dyn Device, Error> {
    find(id).ok_or_else(|| {
        Error::value_error(format!("device {id} is not open; an engine for it opens it"))
    })
}

/// Refuses memory that host code cannot touch, by name.
#[inline]
pub fn require_host(id: DLDevice, what: impl fmt::Display) -> Result<(), Error> {
    if id.is_host() {
        return Ok(());
    }
    Err(Error::value_error(format!(
        "{what} is on {id}, which host code cannot touch: copy it first"
    )))
}

thread_local! {
    static CURRENT: RefCell<Vec<(DLDevice, Stream)>> = const { RefCell::new(vec![]) };
}

/// The current stream of this thread on a device.
pub fn current_stream(id: DLDevice) -> Stream {
    let last = |streams: &Vec<(DLDevice, Stream)>| {
        streams.iter().rev().find(|(of, _)| *of == id).map(|(_, stream)| *stream)
    };
    // A thread that ends has no current stream any more.
    CURRENT.try_with(|streams| last(&streams.borrow())).ok().flatten().unwrap_or_default()
}

/// Makes a stream the current one of this thread until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct StreamScope {
    id: DLDevice,
    /// Scopes belong to their thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl StreamScope {
    /// Enters a stream. Scopes end in reverse order.
    ///
    /// ```
    /// use reflex_runtime::{abi::DLDevice, device::{Stream, StreamScope, current_stream}};
    /// {
    ///     let _scope = StreamScope::enter(DLDevice::CPU, Stream(7));
    ///     assert_eq!(current_stream(DLDevice::CPU), Stream(7));
    /// }
    /// assert_eq!(current_stream(DLDevice::CPU), Stream::DEFAULT);
    /// ```
    pub fn enter(id: DLDevice, stream: Stream) -> StreamScope {
        CURRENT.with(|streams| streams.borrow_mut().push((id, stream)));
        StreamScope { id, _thread: std::marker::PhantomData }
    }
}

impl Drop for StreamScope {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|streams| {
            let mut streams = streams.borrow_mut();
            if let Some(at) = streams.iter().rposition(|(of, _)| *of == self.id) {
                streams.remove(at);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_by_device() {
        let gpu = DLDevice { device_type: DLDevice::KIND_CUDA, device_id: 1 };
        let _cpu = StreamScope::enter(DLDevice::CPU, Stream(1));
        {
            let _outer = StreamScope::enter(gpu, Stream(2));
            let _inner = StreamScope::enter(gpu, Stream(3));
            assert_eq!(
                (current_stream(gpu), current_stream(DLDevice::CPU)),
                (Stream(3), Stream(1))
            );
        }
        assert_eq!(current_stream(gpu), Stream::DEFAULT);
        assert_eq!(current_stream(DLDevice::CPU), Stream(1));
    }

    #[test]
    fn devices_that_are_not_open_are_named() {
        let id = DLDevice { device_type: DLDevice::KIND_CUDA, device_id: 63 };
        let error = get(id).err().expect("not open");
        assert!(error.message().contains("cuda:63"), "{error}");
        let error = require_host(id, "argument 0").unwrap_err();
        assert_eq!(
            error.message(),
            "argument 0 is on cuda:63, which host code cannot touch: copy it first"
        );
        let pinned = DLDevice { device_type: DLDevice::KIND_CUDA_HOST, device_id: 0 };
        assert!(require_host(pinned, "it").is_ok() && require_host(DLDevice::cpu(4), "it").is_ok());
    }
}
