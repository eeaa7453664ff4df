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
    id: DLDevice,
    device: &'static dyn Device,
    stream: Stream,
}

/// Values on the device that stand for arguments of a call, and the streams that made the other arguments: other
/// sessions', and the host's.
#[derive(Default)]
pub(super) struct PlacedArgs {
    /// With the numbers of the arguments that they stand for.
    values: Vec<(usize, Any)>,
    guests: Guests,
}

impl PlacedArgs {
    /// The arguments with the values in their places, of which there are some.
    fn apply<'a>(&'a self, args: &[AnyView<'a>]) -> Vec<AnyView<'a>> {
        let mut args = args.to_vec();
        self.values.iter().for_each(|(at, value)| args[*at] = value.view());
        args
    }

    /// Calls with the arguments on the device.
    #[inline]
    pub(super) fn with<T>(
        &self,
        args: &[AnyView<'_>],
        call: impl FnOnce(&[AnyView<'_>]) -> T,
    ) -> T {
        if self.values.is_empty() { call(args) } else { call(&self.apply(args)) }
    }
}

type Guests = SmallVec<[Stream; 4]>;

impl SessionStream {
    /// Makes a stream; `None` on a CPU.
    pub(super) fn open(id: DLDevice) -> Result<Option<SessionStream>, Raised> {
        if id.is_cpu() {
            return Ok(None);
        }
        let device = device::get(id)?;
        Ok(Some(SessionStream { id, device, stream: device.create_stream()? }))
    }

    /// Calls on the stream that are enqueued as one: none so far.
    pub(super) fn batches(&self, impurity: Option<String>) -> Batches {
        Batches::new(self.device, self.stream, impurity)
    }

    /// Makes the stream this thread's.
    pub(super) fn enter(&self) -> StreamScope {
        StreamScope::enter(self.id, self.stream)
    }

    /// Waits for the stream's work, and reports its errors.
    pub(super) fn synchronize(&self) -> Result<(), Raised> {
        self.device.synchronize(self.stream)
    }

    /// Copies tensors in host memory to the device, those of tuples too, and makes the stream wait for
    /// what wrote the others. The stream is entered.
    pub(super) fn place(
        &self,
        args: &[AnyView<'_>],
        placed: &mut PlacedArgs,
    ) -> Result<(), Raised> {
        if let Some(host) = host_stream::current(self.id)? {
            self.follow(host, &mut placed.guests)?;
        }
        for (at, arg) in args.iter().enumerate() {
            match arg.downcast_ref::<Tensor>().filter(|tensor| self.holds(tensor)) {
                Some(tensor) => self.follow_owner(tensor, &mut placed.guests)?,
                None if arg.as_int().is_some() => {}
                None => {
                    let value = self.value(arg.to_owned(), &mut placed.guests)?;
                    placed.values.push((at, value));
                }
            }
        }
        Ok(())
    }

    fn value(&self, value: Any, guests: &mut Guests) -> Result<Any, Raised> {
        if let Some(items) = value.downcast_ref::<Array>() {
            let items = items.iter().map(|item| self.value(item.clone(), guests));
            return Ok(Array::new(items.collect::<Result<Vec<_>, _>>()?).into());
        }
        let Some(tensor) = value.downcast_ref::<Tensor>() else { return Ok(value) };
        if self.holds(tensor) {
            self.follow_owner(tensor, guests)?;
            return Ok(value);
        }
        Ok(tensor.to_device(self.id)?.into())
    }

    fn holds(&self, tensor: &Tensor) -> bool {
        tensor.device() == self.id
    }

    /// Makes the stream wait for what made a tensor of the device.
    fn follow_owner(&self, tensor: &Tensor, guests: &mut Guests) -> Result<(), Raised> {
        self.follow(stream_of(self.device, tensor.data_ptr()), guests)
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
    pub(super) fn leave(&self, placed: &PlacedArgs) -> Result<(), Raised> {
        let wait = |guest: &Stream| self.device.order_later(*guest, self.stream);
        placed.guests.iter().try_for_each(wait)
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.device.destroy_stream(self.stream);
    }
}
