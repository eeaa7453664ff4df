//! Tensors from device to device.
//!
//! A tensor of a device belongs to the stream of its memory: copies out of it come after what that
//! stream has before them.

use super::{Tensor, is_compact};
use crate::abi::{DLDevice, DLTensor};
use crate::device::waits::{Wait, count};
use crate::device::{Device, Stream, current_stream, get};
use crate::error::Error;

impl Tensor {
    /// A copy on a device, or the tensor itself where it is there already. A copy to the host is made
    /// when this returns; one to a device, or between two of one kind, is enqueued.
    ///
    /// ```
    /// use reflex_runtime::{abi::DLDevice, tensor::Tensor};
    /// let tensor = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    /// let there = tensor.to_device(DLDevice::cpu(1)).unwrap();
    /// assert_eq!((there.device(), there.to_vec::<f32>().unwrap()), (DLDevice::cpu(1), vec![1.0, 2.0]));
    /// ```
    pub fn to_device(&self, device: DLDevice) -> Result<Tensor, Error> {
        if self.device() == device {
            return Ok(self.clone());
        }
        self.copy_to(device)
    }

    /// The tensor in memory that host code reads: itself, or a copy.
    pub fn to_host(&self) -> Result<Tensor, Error> {
        if self.device().is_host() {
            return Ok(self.clone());
        }
        self.copy_to(DLDevice::CPU)
    }

    /// Writes the elements of another tensor of the same shape and type into this one, wherever
    /// both are.
    ///
    /// # Safety
    /// The data may be written, and nothing else uses it but in the order of its stream.
    pub unsafe fn assign(&self, from: &Tensor) -> Result<(), Error> {
        let alike = self.shape() == from.shape() && self.dtype() == from.dtype();
        if !alike || !self.is_compact() || !from.is_compact() {
            let of = |t: &Tensor| format!("{}{:?}", t.dtype(), t.shape());
            return Err(Error::value_error(format!(
                "a {} cannot be copied to a {}, both compact",
                of(from),
                of(self)
            )));
        }
        // SAFETY: both are compact and of as many bytes, and the caller says who uses this one.
        unsafe { copy_bytes(from, self) }
    }

    /// A compact copy with data of its own on a device.
    pub fn copy_to(&self, device: DLDevice) -> Result<Tensor, Error> {
        if !self.is_compact() {
            return Err(Error::value_error(format!(
                "a tensor with strides {:?} cannot be copied; make it compact first",
                self.strides().unwrap_or_default()
            )));
        }
        if self.dl().data.is_null() && self.nbytes() > 0 {
            return Err(Error::value_error("a tensor of elements without data"));
        }
        let copy = Tensor::empty_on(device, self.shape(), self.dtype())?;
        // SAFETY: the copy is unshared and has as many bytes, and both are compact.
        unsafe { copy_bytes(self, &copy)? };
        Ok(copy)
    }
}

/// A copy in host memory of a compact tensor of a device. It is made when this returns: this is
/// where host code waits for values that decide what it does, which is counted.
pub fn host_copy_of(dl: &DLTensor, wait: Wait) -> Result<Tensor, Error> {
    let rank = usize::try_from(dl.ndim).unwrap_or(0);
    // SAFETY: the caller's reference is to a live tensor, whose shape, and strides if there are
    // any, are `ndim` long.
    let (shape, compact) = unsafe {
        let shape = if rank == 0 { &[][..] } else { std::slice::from_raw_parts(dl.shape, rank) };
        (shape, is_compact(dl))
    };
    let copy = Tensor::empty(shape, dl.dtype)?;
    if !compact || (dl.data.is_null() && copy.nbytes() > 0) {
        let what = "a tensor of a device that is not compact, or has no data, cannot be copied";
        return Err(Error::value_error(what));
    }
    let device = get(dl.device)?;
    let from = dl.data.cast::<u8>().wrapping_add(dl.byte_offset as usize).cast_const();
    let stream = stream_of(device, from);
    count(wait);
    // SAFETY: a compact tensor has the bytes of its shape at its data, and the copy has as many.
    unsafe { device.copy_to_host(stream, copy.data_ptr(), from, copy.nbytes())? };
    Ok(copy)
}

/// # Safety
/// Both are compact and of as many bytes, and nothing else uses `to`.
unsafe fn copy_bytes(from: &Tensor, to: &Tensor) -> Result<(), Error> {
    let bytes = from.nbytes();
    if bytes == 0 {
        return Ok(());
    }
    let (source, target) = (from.device(), to.device());
    let (read, write) = (from.data_ptr().cast_const(), to.data_ptr());
    // SAFETY: the caller passes two tensors of so many bytes, and what writes `from` does so in
    // the order of its stream.
    unsafe {
        match (source.is_host(), target.is_host()) {
            (true, true) => {
                write.copy_from_nonoverlapping(read, bytes);
                Ok(())
            }
            (true, false) => {
                let device = get(target)?;
                device.copy_from_host(current_stream(target), write, read, bytes)
            }
            (false, true) => {
                let device = get(source)?;
                count(Wait::Copy);
                device.copy_to_host(stream_of(device, read), write, read, bytes)
            }
            (false, false) if source == target => {
                let device = get(source)?;
                let stream = current_stream(target);
                let owner = stream_of(device, read);
                follow(device, stream, device, owner)?;
                device.copy(stream, write, read, bytes)?;
                follow(device, owner, device, stream)
            }
            (false, false) if source.device_type == target.device_type => {
                let (here, there) = (get(target)?, get(source)?);
                let (stream, owner) = (current_stream(target), stream_of(there, read));
                follow(here, stream, there, owner)?;
                here.copy_from_peer(stream, write, source, read, bytes)?;
                follow(there, owner, here, stream)
            }
            (false, false) => {
                let host = from.to_host()?;
                copy_bytes(&host, to)
            }
        }
    }
}

/// The stream that memory belongs to: of foreign memory, the current one.
pub fn stream_of(device: &dyn Device, address: *const u8) -> Stream {
    device.stream_of(address).unwrap_or_else(|| current_stream(device.id()))
}

/// Makes a stream wait for what another one has before it now.
pub fn follow(
    device: &dyn Device,
    stream: Stream,
    leader: &dyn Device,
    leads: Stream,
) -> Result<(), Error> {
    if device.id() == leader.id() {
        return if stream == leads { Ok(()) } else { device.order(stream, leads) };
    }
    let event = leader.record(leads)?;
    let waits = device.wait(stream, &event);
    leader.destroy_event(event);
    waits
}
