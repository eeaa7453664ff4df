//! Values at the server: handles that free themselves, tensors, modules.

use std::sync::Arc;
use std::time::Duration;

use reflex_runtime::abi::{DLDevice, type_index as index};
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::module::{Functions, Module};
use reflex_runtime::object::{self, RustObject};
use reflex_runtime::string::Bytes;
use reflex_runtime::tensor::{self, Tensor};
use reflex_runtime::timing::TimingOptions;
use reflex_runtime::value::Any;

use super::{Copies, RemoteFunction, RemoteSession, unexpected};
use crate::content;
use crate::names;
use crate::wire::item::{Item, TensorRef};
use crate::wire::{Code, Packet};

/// A handle of the server, which is freed when it is no longer used.
pub struct Handle {
    session: RemoteSession,
    id: u64,
    /// The device of an allocation, which is freed in its own way.
    allocation: Option<DLDevice>,
}

impl Handle {
    pub(super) fn object(session: &RemoteSession, id: u64) -> Handle {
        Handle { session: session.clone(), id, allocation: None }
    }

    pub(super) fn allocation(session: &RemoteSession, id: u64, device: DLDevice) -> Handle {
        Handle { session: session.clone(), id, allocation: Some(device) }
    }

    /// The number.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn session(&self) -> &RemoteSession {
        &self.session
    }

    /// Whether it is a handle of this session.
    pub(super) fn is_of(&self, session: &RemoteSession) -> bool {
        Arc::ptr_eq(&self.session.0, &session.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let handle = Item::Handle(self.id);
        let request = match self.allocation {
            None => (Code::FreeHandle, vec![handle]),
            Some(device) => (Code::DevFreeData, vec![Item::Device(device), handle]),
        };
        self.session.0.lock().released.push(request);
    }
}

/// A tensor at the server.
#[derive(Clone)]
pub struct RemoteTensor {
    handle: Arc<Handle>,
    at: TensorRef,
}

impl RemoteTensor {
    pub(super) fn new(handle: Arc<Handle>, at: TensorRef) -> RemoteTensor {
        RemoteTensor { handle, at }
    }

    /// The handle, for calls in its session.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The dimensions.
    pub fn shape(&self) -> &[i64] {
        &self.at.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.at.dtype
    }

    /// The tensor as an argument.
    pub fn item(&self) -> Item {
        Item::Tensor(self.at.clone())
    }

    /// Overwrites the elements with those of a tensor of as many bytes.
    pub fn write(&self, tensor: &Tensor) -> Result<(), Error> {
        let tensor = tensor.to_compact()?;
        let mut packet = Packet::new(Code::CopyToRemote);
        packet.tensor(&self.at).u64(tensor.nbytes() as u64);
        let mut connection = self.handle.session.0.lock();
        let send = |bytes: &[u8]| connection.request(Code::CopyToRemote, packet, bytes).map(drop);
        content::with_bytes(&tensor, send)?
    }

    /// A copy of the tensor here.
    pub fn to_local(&self) -> Result<Tensor, Error> {
        self.copy(|| Tensor::empty(&self.at.shape, self.at.dtype))
    }

    /// Overwrites a compact tensor of as many bytes with the elements.
    pub(super) fn read_into(&self, tensor: &Tensor) -> Result<(), Error> {
        if !tensor.is_compact() || tensor.is_read_only() {
            return Err(Error::value_error("a result's tensor must be compact and may be written"));
        }
        self.copy(|| Ok(tensor.clone())).map(drop)
    }

    fn copy(&self, target: impl FnOnce() -> Result<Tensor, Error>) -> Result<Tensor, Error> {
        let size = tensor::byte_size(&self.at.shape, self.at.dtype)?;
        let mut packet = Packet::new(Code::CopyFromRemote);
        packet.tensor(&self.at).u64(size as u64);
        self.handle.session.0.lock().copy(packet, size, target)
    }
}

impl RustObject for RemoteTensor {
    const KEY: &'static str = "reflex.rpc.Tensor";
}

/// Another object at the server, as a local value.
pub(super) struct RemoteObject(pub(super) Arc<Handle>);

impl RustObject for RemoteObject {
    const KEY: &'static str = "reflex.rpc.Object";
}

/// Where the tensors stay that a remote function returns to local code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// They are copied here.
    Here,
    /// They stay at the server, as objects of type [`RemoteTensor`].
    There,
}

/// A module at the server.
#[derive(Clone)]
pub struct RemoteModule(Arc<Handle>);

/// A module at the server, as a local one.
struct LocalModule {
    remote: RemoteModule,
    results: Results,
}

impl Functions for LocalModule {
    fn kind(&self) -> &str {
        "rpc"
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        let copies = Copies::Results(self.results);
        Ok(self.remote.function(name)?.map(|function| function.to_function(copies)))
    }
}

impl RemoteModule {
    /// The function called `name`, if the module or one that it imports has it.
    pub fn function(&self, name: &str) -> Result<Option<RemoteFunction>, Error> {
        let get = self.0.session.require(names::MODULE_GET_FUNCTION)?;
        let args = [self.item(), Item::text(name), Item::Bool(true)];
        match get.call(&args)? {
            RemoteValue::Function(function) => Ok(Some(function.named(name))),
            RemoteValue::Local(none) if none.is_none() => Ok(None),
            _ => Err(unexpected(&[])),
        }
    }

    /// The function called `name`; an error if there is none.
    pub fn require(&self, name: &str) -> Result<RemoteFunction, Error> {
        self.function(name)?.ok_or_else(|| {
            Error::new("AttributeError", format!("the module has no function `{name}`"))
        })
    }

    /// The module as an argument.
    pub fn item(&self) -> Item {
        Item::Module(self.0.id)
    }

    /// The module as an ordinary one, whose functions are [`RemoteFunction::to_function`]'s.
    pub fn to_module(&self, results: Results) -> Module {
        Module::new(LocalModule { remote: self.clone(), results })
    }

    /// The module at the server of a session that an ordinary one stands for.
    pub fn of(module: &Module, session: &RemoteSession) -> Option<RemoteModule> {
        let remote = &module.functions::<LocalModule>()?.remote;
        remote.0.is_of(session).then(|| remote.clone())
    }

    /// A function that measures the one called `name` at the server, on arguments that it is called with:
    /// it gives bytes of `repeat` floats, seconds of a call.
    pub fn time_evaluator(
        &self,
        name: &str,
        options: &TimingOptions,
    ) -> Result<RemoteFunction, Error> {
        let milliseconds =
            |time: Duration| Item::Int(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let device = DLDevice::CPU;
        let preprocess = options.preprocess.as_deref().unwrap_or_default();
        let args = [
            self.item(),
            Item::text(name),
            Item::Int(device.device_type.into()),
            Item::Int(device.device_id.into()),
            Item::Int(options.number.into()),
            Item::Int(options.repeat.into()),
            milliseconds(options.min_repeat),
            Item::Int(options.zero_time_limit.into()),
            milliseconds(options.cooldown),
            Item::Int(options.repeats_to_cooldown.into()),
            Item::Int(i64::try_from(options.cache_flush_bytes).unwrap_or(i64::MAX)),
            Item::text(preprocess),
        ];
        match self.0.session.require(names::TIME_EVALUATOR)?.call(&args)? {
            RemoteValue::Function(function) => Ok(function.named(name)),
            _ => Err(Error::runtime_error("the server gave no function to measure with")),
        }
    }
}

/// The result of a call.
pub enum RemoteValue {
    /// A value that travelled.
    Local(Any),
    /// A tensor.
    Tensor(RemoteTensor),
    /// A function.
    Function(RemoteFunction),
    /// A module.
    Module(RemoteModule),
    /// Another object, which stays there.
    Object(Arc<Handle>),
}

impl RemoteValue {
    /// The value of a `Return` after a call.
    pub(super) fn of(session: &RemoteSession, items: Vec<Item>) -> Result<RemoteValue, Error> {
        let mut items = items.into_iter();
        let (head, first, second) = (items.next(), items.next(), items.next());
        let Some(Item::Int(head)) = head else { return Err(unexpected(&[])) };
        let hold = |handle| Arc::new(Handle::object(session, handle));
        Ok(match (i32::try_from(head).unwrap_or(-1), first, second) {
            (index::TENSOR, Some(Item::Tensor(at)), Some(Item::Handle(handle))) => {
                RemoteValue::Tensor(RemoteTensor::new(hold(handle), at))
            }
            (index::FUNCTION, Some(Item::Handle(handle)), None) => {
                RemoteValue::Function(RemoteFunction::new(hold(handle), "a remote function"))
            }
            (index::MODULE, Some(Item::Handle(handle)), None) => {
                RemoteValue::Module(RemoteModule(hold(handle)))
            }
            (index, Some(Item::Handle(handle)), None) if index >= index::STATIC_OBJECT_BEGIN => {
                RemoteValue::Object(hold(handle))
            }
            (_, Some(item), None) => RemoteValue::Local(local(item)?),
            _ => return Err(unexpected(&[])),
        })
    }

    /// The value here, as [`RemoteValue::value`] gives it with tensors copied.
    pub fn local(self) -> Result<Any, Error> {
        self.value(Results::Here)
    }

    /// The value here: functions and modules as ordinary ones, and other objects that stay at the
    /// server as values that its functions take.
    pub fn value(self, results: Results) -> Result<Any, Error> {
        Ok(match (self, results) {
            (RemoteValue::Local(value), _) => value,
            (RemoteValue::Tensor(tensor), Results::Here) => tensor.to_local()?.into(),
            (RemoteValue::Tensor(tensor), Results::There) => object::wrap(tensor).into(),
            (RemoteValue::Function(function), _) => {
                function.to_function(Copies::Results(results)).into()
            }
            (RemoteValue::Module(module), _) => module.to_module(results).into(),
            (RemoteValue::Object(handle), _) => object::wrap(RemoteObject(handle)).into(),
        })
    }

    /// The module that the value is.
    pub fn module(self) -> Result<RemoteModule, Error> {
        match self {
            RemoteValue::Module(module) => Ok(module),
            _ => Err(Error::type_error("the result is not a module")),
        }
    }
}

/// A value that travelled.
fn local(item: Item) -> Result<Any, Error> {
    Ok(match item {
        Item::None => Any::NONE,
        Item::Int(value) => value.into(),
        Item::Bool(value) => value.into(),
        Item::Float(value) => value.into(),
        Item::DType(dtype) => dtype.into(),
        Item::Device(device) => device.into(),
        Item::Text(text) => Any::from(&*String::from_utf8_lossy(&text)),
        Item::Bytes(bytes) => Bytes::new(&bytes).into(),
        Item::Handle(0) => Any::NONE,
        other => return Err(unexpected(&[other])),
    })
}
