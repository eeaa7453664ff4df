//! Handles: checked numbers for what a session holds. None is an address.
//!
//! A handle has its kind, an index in the table, how often that index was used before, and salt of
//! the session: one that was guessed, freed, or made by another session is refused.

use std::hash::{BuildHasher, RandomState};

use reflex_runtime::abi::DLDevice;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::module::Module;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use crate::limits::{Limits, check};
use crate::wire::item::TensorRef;

/// Bits of a handle: the index in the table, the kind, the generation, the salt.
const INDEX_BITS: u32 = 24;
const KIND_BITS: u32 = 4;
const GENERATION_BITS: u32 = 16;
const SALT_BITS: u32 = 64 - INDEX_BITS - KIND_BITS - GENERATION_BITS;

/// The object behind a handle.
#[derive(Clone)]
pub enum Held {
    /// A function.
    Function(Function),
    /// A module.
    Module(Module),
    /// A tensor, or bytes that a client allocated.
    Tensor(Tensor),
    /// Any other object.
    Object(Any),
}

impl Held {
    /// The number of its kind, and its name for messages.
    fn kind(&self) -> (u64, &'static str) {
        match self {
            Held::Function(_) => (1, "a function"),
            Held::Module(_) => (2, "a module"),
            Held::Tensor(_) => (3, "a tensor"),
            Held::Object(_) => (4, "an object"),
        }
    }

    /// Bytes that count against the limit.
    fn tensor_bytes(&self) -> u64 {
        match self {
            Held::Tensor(tensor) => tensor.nbytes() as u64,
            _ => 0,
        }
    }
}

#[derive(Default)]
struct Slot {
    generation: u64,
    held: Option<Held>,
}

/// The handles of a session.
pub struct Handles {
    slots: Vec<Slot>,
    vacant: Vec<usize>,
    salt: u64,
    tensor_bytes: u64,
    limits: Limits,
}

impl Handles {
    /// No handles yet, with salt of its own.
    pub fn new(limits: Limits) -> Handles {
        let salt = RandomState::new().hash_one("salt") >> (64 - SALT_BITS);
        // A salt of zero would make small handles, and with it the 0 that stands for none.
        let (slots, vacant) = (vec![], vec![]);
        Handles { slots, vacant, salt: salt.max(1), tensor_bytes: 0, limits }
    }

    /// Handles in use.
    pub fn count(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Makes a handle.
    pub fn insert(&mut self, held: Held) -> Result<u64, Error> {
        let bytes = self.tensor_bytes.saturating_add(held.tensor_bytes());
        check("tensor bytes", bytes, self.limits.tensor_bytes)?;
        let most = self.limits.handles.min(1 << INDEX_BITS) as u64;
        check("handles", self.count() as u64 + 1, most)?;
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.tensor_bytes = bytes;
        let (kind, _) = held.kind();
        self.slots[index].held = Some(held);
        Ok(self.handle(index, kind))
    }

    fn handle(&self, index: usize, kind: u64) -> u64 {
        let generation = self.slots[index].generation & ((1 << GENERATION_BITS) - 1);
        let salted = (self.salt << GENERATION_BITS) | generation;
        (((salted << KIND_BITS) | kind) << INDEX_BITS) | index as u64
    }

    /// The table index of a handle that is in use.
    fn index(&self, handle: u64) -> Option<usize> {
        let index = usize::try_from(handle & ((1 << INDEX_BITS) - 1)).ok()?;
        let (kind, _) = self.slots.get(index)?.held.as_ref()?.kind();
        (self.handle(index, kind) == handle).then_some(index)
    }

    /// The object behind a handle.
    pub fn get(&self, handle: u64) -> Result<&Held, Error> {
        let held = self.index(handle).and_then(|index| self.slots[index].held.as_ref());
        held.ok_or_else(|| unknown(handle))
    }

    /// Releases a handle.
    pub fn remove(&mut self, handle: u64) -> Result<Held, Error> {
        let index = self.index(handle).ok_or_else(|| unknown(handle))?;
        let slot = &mut self.slots[index];
        slot.generation += 1;
        let held = slot.held.take().ok_or_else(|| unknown(handle))?;
        self.tensor_bytes -= held.tensor_bytes();
        self.vacant.push(index);
        Ok(held)
    }

    /// The function that a handle stands for.
    pub fn function(&self, handle: u64) -> Result<Function, Error> {
        match self.get(handle)? {
            Held::Function(function) => Ok(function.clone()),
            other => Err(mismatch(handle, other, "a function")),
        }
    }

    /// The module that a handle stands for.
    pub fn module(&self, handle: u64) -> Result<Module, Error> {
        match self.get(handle)? {
            Held::Module(module) => Ok(module.clone()),
            other => Err(mismatch(handle, other, "a module")),
        }
    }

    /// The tensor that a description stands for, inside of its allocation.
    pub fn tensor(&self, at: &TensorRef) -> Result<Tensor, Error> {
        let whole = match self.get(at.data)? {
            Held::Tensor(tensor) => tensor,
            other => return Err(mismatch(at.data, other, "a tensor")),
        };
        check_cpu(at.device)?;
        let offset = usize::try_from(at.byte_offset).unwrap_or(usize::MAX);
        let same = offset == 0 && whole.dtype() == at.dtype && whole.shape() == at.shape;
        if same { Ok(whole.clone()) } else { whole.view(offset, &at.shape, at.dtype) }
    }
}

/// Refuses a device that is no CPU.
pub fn check_cpu(device: DLDevice) -> Result<(), Error> {
    match device.device_type == DLDevice::KIND_CPU && device.device_id >= 0 {
        true => Ok(()),
        false => Err(Error::value_error(format!("there is no device {device:?}; there is cpu"))),
    }
}

#[cold]
fn unknown(handle: u64) -> Error {
    Error::value_error(format!("{handle:#x} is no handle of this session, or was freed"))
}

#[cold]
fn mismatch(handle: u64, held: &Held, expected: &str) -> Error {
    Error::type_error(format!("the handle {handle:#x} is of {}, not of {expected}", held.kind().1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reflex_runtime::dtype::DType;

    fn bytes(count: i64) -> Held {
        Held::Tensor(Tensor::zeros(&[count], DType::U8).unwrap())
    }

    fn at(data: u64, byte_offset: u64, shape: &[i64]) -> TensorRef {
        let (device, dtype) = (DLDevice::CPU, DType::F32);
        TensorRef { data, device, dtype, shape: shape.to_vec(), byte_offset }
    }

    #[test]
    fn freed_and_guessed_handles_are_refused() {
        let mut handles = Handles::new(Limits::default());
        let first = handles.insert(bytes(8)).unwrap();
        handles.remove(first).unwrap();
        let second = handles.insert(bytes(8)).unwrap();
        assert_ne!(first, second);
        for wrong in [0, 1, 0x1234, first, second ^ 1, second ^ (1 << 60), second + (1 << 24)] {
            assert!(handles.get(wrong).is_err() && handles.remove(wrong).is_err(), "{wrong:#x}");
        }
        assert!(handles.get(second).is_ok());
        let function = handles.insert(Held::Function(Function::new(|_| Ok(Any::NONE)))).unwrap();
        assert!(handles.function(function).is_ok() && handles.module(function).is_err());
        let error = handles.tensor(&at(function, 0, &[1])).unwrap_err();
        assert!(error.message().contains("is of a function, not of a tensor"), "{error}");
        assert!(Handles::new(Limits::default()).get(second).is_err(), "another session's");
    }

    #[test]
    fn tensors_stay_inside_of_their_allocation() {
        let mut handles = Handles::new(Limits::default());
        let data = handles.insert(bytes(16)).unwrap();
        assert_eq!(handles.tensor(&at(data, 8, &[2])).unwrap().shape(), [2]);
        for (offset, shape) in [
            (0, &[5_i64][..]),
            (9, &[2]),
            (u64::MAX, &[1]),
            (0, &[-1]),
            (0, &[i64::MAX, 4]),
            (17, &[0]),
        ] {
            assert!(handles.tensor(&at(data, offset, shape)).is_err(), "{offset} {shape:?}");
        }
        let elsewhere = DLDevice { device_type: 2, device_id: 0 };
        assert!(handles.tensor(&TensorRef { device: elsewhere, ..at(data, 0, &[1]) }).is_err());
    }

    #[test]
    fn limits_are_named() {
        let limits = Limits { handles: 2, tensor_bytes: 10, ..Limits::default() };
        let mut handles = Handles::new(limits);
        handles.insert(bytes(4)).unwrap();
        let error = handles.insert(bytes(7)).unwrap_err();
        assert_eq!(error.message(), "the limit `tensor bytes` is 10, and this needs 11");
        let second = handles.insert(bytes(6)).unwrap();
        let error = handles.insert(bytes(0)).unwrap_err();
        assert_eq!(error.message(), "the limit `handles` is 2, and this needs 3");
        handles.remove(second).unwrap();
        handles.insert(bytes(6)).unwrap();
    }
}
