//! Memory of a device, and launches of single kernels.

use reflex_runtime::alloc::device::OwnedBlock;
use reflex_runtime::device::{Device, KernelSpec, Launch, LoadedKernels, Stream};
use reflex_runtime::error::Error;

/// The stream of everything here.
const STREAM: Stream = Stream::DEFAULT;

/// An allocation.
pub struct Buffer {
    device: &'static dyn Device,
    block: OwnedBlock,
    bytes: usize,
}

impl Buffer {
    /// Allocates so many bytes and fills them with one value.
    pub fn filled(device: &'static dyn Device, bytes: usize, value: u8) -> Result<Buffer, Error> {
        let block = OwnedBlock::new(device.allocator(), bytes)?;
        // SAFETY: the block has so many bytes, and nothing else uses it.
        unsafe { device.fill(STREAM, block.data().as_ptr(), value, bytes)? };
        Ok(Buffer { device, block, bytes })
    }

    /// Allocates a copy of words.
    pub fn of(device: &'static dyn Device, words: &[u64]) -> Result<Buffer, Error> {
        let bytes = size_of_val(words);
        let block = OwnedBlock::new(device.allocator(), bytes.max(1))?;
        let from = words.as_ptr().cast();
        // SAFETY: both ranges have so many bytes, and nothing else uses the block.
        unsafe { device.copy_from_host(STREAM, block.data().as_ptr(), from, bytes)? };
        Ok(Buffer { device, block, bytes })
    }

    /// Its address, as kernels take it.
    pub fn address(&self) -> u64 {
        self.block.data().addr().get() as u64
    }

    /// Copies its words to the host, which waits for the device.
    pub fn words(&self) -> Result<Vec<u64>, Error> {
        let mut words = vec![0_u64; self.bytes / 8];
        let to = words.as_mut_ptr().cast();
        // SAFETY: both ranges have so many bytes.
        unsafe {
            self.device.copy_to_host(STREAM, to, self.block.data().as_ptr(), self.bytes / 8 * 8)?;
        }
        Ok(words)
    }

    /// Enqueues a copy of another one of the same size.
    pub fn copy_from(&self, other: &Buffer) -> Result<(), Error> {
        let (to, from) = (self.block.data().as_ptr(), other.block.data().as_ptr());
        let bytes = self.bytes.min(other.bytes);
        // SAFETY: two blocks of so many bytes, used on this stream alone.
        unsafe { self.device.copy(STREAM, to, from, bytes) }
    }
}

/// One kernel of a module.
pub struct Kernel {
    device: &'static dyn Device,
    module: Box<dyn LoadedKernels>,
}

impl Kernel {
    /// Loads the kernel of a name from PTX.
    pub fn load(device: &'static dyn Device, ptx: &str, name: &str) -> Result<Kernel, Error> {
        let spec = KernelSpec { name: name.to_owned(), shared_bytes: 0 };
        Ok(Kernel { device, module: device.load(&ptx.into(), &[spec])? })
    }

    /// Enqueues a launch in one dimension.
    ///
    /// # Safety
    /// The parameters are those of the kernel. Buffers among them live until the device is waited for.
    pub unsafe fn launch(&self, blocks: u32, threads: u32, params: &[u64]) -> Result<(), Error> {
        let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
        // Nothing here is recorded, so it does not matter which of them are addresses.
        let launch =
            Launch { kernel: 0, grid, block, shared_bytes: 0, params, addresses: 0, maps: &[] };
        // SAFETY: as the caller says; all work is on this stream.
        unsafe { self.module.launch(STREAM, &launch) }
    }

    /// Waits for what is enqueued.
    pub fn wait(&self) -> Result<(), Error> {
        self.device.synchronize(STREAM)
    }
}
