//! Functions at the server, called on handles or as ordinary functions on local values.

use std::sync::Arc;

use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::module::Module;
use reflex_runtime::object;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use super::value::RemoteObject;
use super::{Handle, RemoteModule, RemoteSession, RemoteTensor, RemoteValue, Results};
use crate::wire::item::Item;
use crate::wire::{Code, Packet};

/// A function at the server.
#[derive(Clone)]
pub struct RemoteFunction {
    handle: Arc<Handle>,
    name: Arc<str>,
}

/// Which tensors an ordinary function copies back after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// The results of the function, if they are to be here.
    Results(Results),
    /// The last arguments, as many: results of a kernel in destination-passing style.
    Last(usize),
}

impl RemoteFunction {
    pub(super) fn new(handle: Arc<Handle>, name: &str) -> RemoteFunction {
        RemoteFunction { handle, name: name.into() }
    }

    pub(super) fn named(self, name: &str) -> RemoteFunction {
        RemoteFunction { name: name.into(), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function as an argument.
    pub fn item(&self) -> Item {
        Item::Function(self.handle.id())
    }

    pub(super) fn packet(&self, args: &[Item]) -> Packet {
        let mut packet = Packet::new(Code::CallFunc);
        packet.u64(self.handle.id()).seq(args);
        packet
    }

    /// Calls the function on what travels and on handles.
    pub fn call(&self, args: &[Item]) -> Result<RemoteValue, Error> {
        let session = self.handle.session();
        let items = session.0.lock().request(Code::CallFunc, self.packet(args), &[])?;
        RemoteValue::of(session, items)
    }

    /// The function as an ordinary one, on local values: tensors among its arguments are copied to
    /// the server for the call, and tensors that it returns are copied here.
    pub fn to_function(&self, copies: Copies) -> Function {
        let remote = self.clone();
        Function::new(move |args| remote.call_local(args, copies))
    }

    fn call_local(&self, args: &[AnyView<'_>], copies: Copies) -> Result<Any, Error> {
        let mut items = vec![];
        let mut tensors: Vec<Option<(Tensor, RemoteTensor)>> = vec![];
        let session = self.handle.session();
        for arg in args {
            let local = match arg.as_dltensor() {
                Some(_) => Some(Tensor::try_from(arg.to_owned_copy()?)?),
                None => None,
            };
            let remote = local.as_ref().map(|tensor| session.to_remote(tensor)).transpose()?;
            items.push(match &remote {
                Some(remote) => remote.item(),
                None => plain(arg, session)?,
            });
            tensors.push(local.zip(remote));
        }
        let results = match copies {
            Copies::Results(results) => results,
            Copies::Last(_) => Results::Here,
        };
        let result = self.call(&items)?.value(results)?;
        if let Copies::Last(count) = copies {
            for (local, remote) in tensors.iter().rev().take(count).flatten() {
                remote.read_into(local)?;
            }
        }
        Ok(result)
    }
}

/// A value that is at the server of a session already.
fn there(arg: &AnyView<'_>, session: &RemoteSession) -> Result<Option<Item>, Error> {
    let Some(object) = arg.object_ref() else { return Ok(None) };
    let (handle, item) = if let Some(tensor) = object::get::<RemoteTensor>(object) {
        (tensor.handle(), tensor.item())
    } else if let Some(RemoteObject(handle)) = object::get(object) {
        (&**handle, Item::Object(handle.id()))
    } else if let Some(module) = arg.downcast_ref::<Module>() {
        return Ok(RemoteModule::of(module, session).map(|module| module.item()));
    } else {
        return Ok(None);
    };
    match handle.is_of(session) {
        true => Ok(Some(item)),
        false => Err(Error::value_error("the argument belongs to another session")),
    }
}

/// A local value that travels as it is.
fn plain(arg: &AnyView<'_>, session: &RemoteSession) -> Result<Item, Error> {
    use reflex_runtime::abi::type_index as index;
    if let Some(item) = there(arg, session)? {
        return Ok(item);
    }
    Ok(match arg.type_index() {
        index::NONE => Item::None,
        index::INT => Item::Int(arg.as_int().unwrap_or_default()),
        index::BOOL => Item::Bool(arg.as_bool().unwrap_or_default()),
        index::FLOAT => Item::Float(arg.as_float().unwrap_or_default()),
        index::DATA_TYPE => Item::DType((*arg).try_into()?),
        index::DEVICE => Item::Device((*arg).try_into()?),
        _ => match (arg.as_str(), arg.as_bytes()) {
            (Some(text), _) => Item::text(text),
            (_, Some(bytes)) => Item::Bytes(bytes.to_vec()),
            _ => {
                let text = format!("a `{}` does not travel to a server", arg.type_key());
                return Err(Error::type_error(text));
            }
        },
    })
}
