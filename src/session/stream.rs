//! A session's stream on a device that is no CPU: its runs' kernels, copies and memory are in the
//! order of this stream.

use reflex_runtime::abi::DLDevice;
use reflex_runtime::array::Array;
use reflex_runtime::device::{self, Device, Stream, StreamScope, host_stream};
use reflex_runtime::error::Error as Raised;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::tensor::transfer::{follow, stream_of};
use reflex_runtime::value::{Any, AnyView};
use smallvec::SmallVec;

use super::batches::Batches;

/// A stream, which is ended when this is dropped.
pub(super) struct SessionStream {
    device: &'static dyn Device,
    stream: Stream,
}

/// Arguments on the device, and the streams that made them: other sessions', and the host's.
pub(super) struct PlacedArgs {
    pub(super) args: SmallVec<[Any; 8]>,
    guests: Guests,
}

type Guests = SmallVec<[Stream; 4]>;

impl SessionStream {
    /// Makes a stream; `None` on a CPU.
    pub(super) fn open(id: DLDevice) -> Result<Option<SessionStream>, Raised> {
        if id.is_cpu() {
            return Ok(None);
        }
        let device = device::get(id)?;
        Ok(Some(SessionStream { device, stream: device.create_stream()? }))
    }

    /// Calls on the stream that are enqueued as one: none so far.
    pub(super) fn batches(&self, impurity: Option<String>) -> Batches {
        Batches::new(self.device, self.stream, impurity)
    }

    /// Makes the stream this thread's.
    pub(super) fn enter(&self) -> StreamScope {
        StreamScope::enter(self.device.id(), self.stream)
    }

    /// Waits for the stream's work, and reports its errors.
    pub(super) fn synchronize(&self) -> Result<(), Raised> {
        self.device.synchronize(self.stream)
    }

    /// Copies tensors in host memory to the device, those of tuples too, and makes the stream wait for
    /// what wrote the others. The stream is entered.
    pub(super) fn place(&self, args: &[AnyView<'_>]) -> Result<PlacedArgs, Raised> {
        let mut placed = PlacedArgs { args: SmallVec::new(), guests: Guests::new() };
        if let Some(host) = host_stream::current(self.device.id())? {
            self.follow(host, &mut placed.guests)?;
        }
        for arg in args {
            let value = self.value(arg.to_owned(), &mut placed.guests)?;
            placed.args.push(value);
        }
        Ok(placed)
    }

    fn value(&self, value: Any, guests: &mut Guests) -> Result<Any, Raised> {
        if let Some(items) = value.downcast_ref::<Array>() {
            let items = items.iter().map(|item| self.value(item.clone(), guests));
            return Ok(Array::new(items.collect::<Result<Vec<_>, _>>()?).into());
        }
        let Some(tensor) = value.downcast_ref::<Tensor>() else { return Ok(value) };
        if tensor.device() == self.device.id() {
            self.follow(stream_of(self.device, tensor.data_ptr()), guests)?;
            return Ok(value);
        }
        Ok(tensor.to_device(self.device.id())?.into())
    }

    /// Makes the stream wait for what another one has before it now.
    fn follow(&self, owner: Stream, guests: &mut Guests) -> Result<(), Raised> {
        if owner != self.stream && !guests.contains(&owner) {
            follow(self.device, self.stream, self.device, owner)?;
            guests.push(owner);
        }
        Ok(())
    }

    /// Makes the streams of the arguments wait for the run: their memory may be used again then.
    pub(super) fn leave(&self, placed: PlacedArgs) -> Result<(), Raised> {
        let wait = |guest: &Stream| self.device.order_later(*guest, self.stream);
        placed.guests.iter().try_for_each(wait)
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.device.destroy_stream(self.stream);
    }
}
