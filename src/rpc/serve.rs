//! The server's state machine: requests in, answers out, over any `Read` and `Write`.
//!
//! It has no policy of its own about sockets, processes or files: what clients find is what its
//! [`Host`] has. A request that fails is answered with an error, and the next one is read; bytes
//! that are not a packet end the session.

use std::io::{BufReader, Read, Write};

use reflex_runtime::abi::DLDevice;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::{self, Tensor};
use reflex_runtime::value::AnyView;

use crate::content;
use crate::fault::{self, Fault};
use crate::handles::{Handles, Held, check_cpu};
use crate::limits::{Limits, check};
use crate::wire::body::Body;
use crate::wire::item::{Item, TensorRef};
use crate::wire::{self, Code, Packet};

pub mod builtins;
mod convert;
mod random;
pub mod timing;

/// Bytes that are read from the connection at once; larger values go past the buffer.
const BUFFER: usize = 64 << 10;

/// The functions and modules that a server has for its clients.
pub trait Host {
    /// The global function called `name`, if clients may have it.
    fn global(&mut self, name: &str) -> Result<Option<Function>, Error>;
}

/// A session's server.
pub struct Server<H> {
    host: H,
    handles: Handles,
    limits: Limits,
    started: bool,
}

/// The end of a session that met no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client asked for it.
    Shutdown,
    /// The client closed the connection.
    Closed,
}

/// The reply to the client.
enum Reply {
    /// A `Return` of these values.
    Items(Vec<Item>),
    /// A `CopyAck` with the bytes of a tensor.
    Bytes(Tensor),
}

impl<H: Host> Server<H> {
    /// A server of what `host` has.
    pub fn new(host: H, limits: Limits) -> Server<H> {
        Server { host, handles: Handles::new(limits), limits, started: false }
    }

    /// Handles that the client has.
    pub fn handles(&self) -> usize {
        self.handles.count()
    }

    /// Serves requests until the session ends.
    pub fn run(&mut self, input: impl Read, output: &mut impl Write) -> Result<End, Fault> {
        let mut input = BufReader::with_capacity(BUFFER, input);
        loop {
            if let Some(end) = self.serve_next(&mut input, output)? {
                return Ok(end);
            }
        }
    }

    /// Serves the requests that have arrived whole, and leaves the rest of the bytes. For connections that
    /// bring bytes by themselves; returns the end once there is one.
    pub fn receive(
        &mut self,
        arrived: &mut Vec<u8>,
        output: &mut impl Write,
    ) -> Result<Option<End>, Fault> {
        let mut done = 0;
        let end = loop {
            let rest = &arrived[done..];
            match wire::packet_size(rest, &self.limits) {
                // An empty packet means nothing.
                Some(size)
                    if size == wire::LENGTH as u64 && rest.starts_with(&[0; wire::LENGTH]) =>
                {
                    done += wire::LENGTH;
                }
                Some(size) if size <= rest.len() as u64 => {
                    let (mut packet, _) = rest.split_at(size as usize);
                    let end = self.serve_next(&mut packet, output)?;
                    done += size as usize;
                    if end.is_some() {
                        break end;
                    }
                }
                _ => break None,
            }
        };
        arrived.drain(..done);
        Ok(end)
    }

    /// Serves a request; the end if there is none.
    fn serve_next(
        &mut self,
        input: &mut impl Read,
        output: &mut impl Write,
    ) -> Result<Option<End>, Fault> {
        let limits = self.limits;
        let next = match wire::next(input, &limits) {
            Err(Fault::Stream(error)) => {
                send_error(&error, output)?;
                return Err(Fault::Stream(error));
            }
            other => other?,
        };
        let Some((code, mut body)) = next else { return Ok(Some(End::Closed)) };
        if code == Code::Shutdown {
            return Ok(Some(End::Shutdown));
        }
        match self.answer(code, &mut body) {
            Ok(reply) => {
                body.skip()?;
                self.send(reply, output)?;
            }
            Err(Fault::Request(error)) => {
                body.skip()?;
                send_error(&error, output)?;
            }
            Err(other) => return Err(other),
        }
        Ok(None)
    }

    fn send(&mut self, reply: Reply, output: &mut impl Write) -> Result<(), Fault> {
        match reply {
            Reply::Items(items) => Packet::of(Code::Return, &items).send(&[], output)?,
            Reply::Bytes(tensor) => {
                let send = |bytes: &[u8]| Packet::new(Code::CopyAck).send(bytes, output);
                content::with_bytes(&tensor, send)??;
            }
        }
        Ok(())
    }

    fn answer<R: Read>(&mut self, code: Code, body: &mut Body<'_, R>) -> Result<Reply, Fault> {
        if !self.started && code != Code::InitServer {
            return Err(Error::runtime_error("InitServer comes first").into());
        }
        match code {
            Code::InitServer => self.start(body),
            Code::CallFunc => {
                let function = body.u64()?;
                let items = complete(body)?;
                self.call(function, items).map_err(Fault::Request)
            }
            Code::CopyFromRemote => {
                let tensor = self.addressed(body)?;
                body.finish()?;
                Ok(Reply::Bytes(tensor))
            }
            Code::CopyToRemote => self.copy_to(body),
            _ => {
                let items = complete(body)?;
                self.device_or_handle(code, &items).map_err(Fault::Request)
            }
        }
    }

    fn start<R: Read>(&mut self, body: &mut Body<'_, R>) -> Result<Reply, Fault> {
        let version = body.counted("string bytes", 64)?;
        let constructor = complete(body)?;
        if self.started {
            return Err(Error::runtime_error("the session has been initialised already").into());
        }
        if version != wire::VERSION.as_bytes() {
            let theirs = String::from_utf8_lossy(&version);
            let text = format!("the server's protocol is {}, the client's {theirs}", wire::VERSION);
            return Err(Error::value_error(text).into());
        }
        if let Some(Item::Text(name)) = constructor.first() {
            let name = String::from_utf8_lossy(name);
            let text = format!("sessions made by `{name}` (several hops) are not supported");
            return Err(Error::new("NotImplementedError", text).into());
        }
        self.started = true;
        Ok(Reply::Items(vec![Item::None]))
    }

    /// Calls a function on values that came with the request.
    fn call(&mut self, function: u64, items: Vec<Item>) -> Result<Reply, Error> {
        let function = self.handles.function(function)?;
        let args = convert::arguments(&self.handles, items)?;
        let result = function.call(AnyView::slice(&args))?;
        drop(args);
        convert::result(&mut self.handles, result).map(Reply::Items)
    }

    /// The bytes that a copy names, as a tensor of bytes.
    fn addressed<R: Read>(&mut self, body: &mut Body<'_, R>) -> Result<Tensor, Fault> {
        let at = body.tensor()?;
        let bytes = body.u64()?;
        check("packet bytes", bytes, self.limits.packet)?;
        let needed = tensor::byte_size(&at.shape, at.dtype)? as u64;
        if bytes > needed {
            let text = format!("{bytes} bytes of a tensor of {needed}");
            return Err(Error::value_error(text).into());
        }
        let shape = vec![i64::try_from(bytes).unwrap_or(i64::MAX)];
        Ok(self.handles.tensor(&TensorRef { dtype: DType::U8, shape, ..at })?)
    }

    fn copy_to<R: Read>(&mut self, body: &mut Body<'_, R>) -> Result<Reply, Fault> {
        let tensor = self.addressed(body)?;
        let bytes = tensor.nbytes() as u64;
        if body.left() != bytes {
            let text = format!("{} bytes are sent for a copy of {bytes}", body.left());
            return Err(Error::value_error(text).into());
        }
        content::with_bytes_mut(&tensor, |bytes| body.read_into(bytes))??;
        Ok(Reply::Items(vec![Item::None]))
    }

    /// Answers what is neither a call nor a copy over the connection.
    fn device_or_handle(&mut self, code: Code, items: &[Item]) -> Result<Reply, Error> {
        let done = vec![Item::None];
        Ok(Reply::Items(match (code, items) {
            (Code::GetGlobalFunc, [Item::Text(name)]) => {
                let name = std::str::from_utf8(name).unwrap_or_default();
                let found = self.host.global(name)?;
                let insert = |function| self.handles.insert(Held::Function(function));
                vec![Item::Handle(found.map(insert).transpose()?.unwrap_or(0))]
            }
            (Code::FreeHandle, [handle]) => {
                self.free(handle)?;
                done
            }
            (Code::DevSetDevice | Code::GetCurrentStream, [Item::Device(device)]) => {
                check_cpu(*device)?;
                vec![if code == Code::DevSetDevice { Item::None } else { Item::Handle(0) }]
            }
            (Code::DevGetAttr, [Item::Device(device), Item::Int(kind)]) => {
                vec![attribute(*device, *kind)]
            }
            (
                Code::DevAllocData,
                [Item::Device(device), Item::Int(bytes), Item::Int(_), Item::DType(_)],
            ) => vec![self.allocate(*device, &[*bytes], DType::U8)?],
            (Code::DevAllocDataWithScope, [Item::Tensor(tensor), scope]) => {
                check_scope(scope)?;
                vec![self.allocate(tensor.device, &tensor.shape, tensor.dtype)?]
            }
            (Code::DevFreeData, [Item::Device(_), handle]) => {
                self.free(handle)?;
                done
            }
            (
                Code::DevStreamSync | Code::SetStream,
                [Item::Device(device), Item::Handle(0) | Item::None],
            ) => {
                check_cpu(*device)?;
                done
            }
            (Code::CopyAmongRemote, [Item::Tensor(from), Item::Tensor(to), ..]) => {
                self.copy_among(from, to)?;
                done
            }
            (Code::CreateStream | Code::FreeStream | Code::SetStream | Code::DevStreamSync, _) => {
                let text = format!("{code:?}: a CPU has no streams but its own");
                return Err(Error::new("NotImplementedError", text));
            }
            _ => {
                let kinds: Vec<_> = items.iter().map(Item::kind).collect();
                let text = format!("{code:?} does not take ({})", kinds.join(", "));
                return Err(Error::type_error(text));
            }
        }))
    }

    fn free(&mut self, handle: &Item) -> Result<(), Error> {
        match handle {
            Item::Handle(0) | Item::None => Ok(()),
            Item::Handle(handle)
            | Item::Object(handle)
            | Item::Function(handle)
            | Item::Module(handle) => self.handles.remove(*handle).map(drop),
            other => Err(Error::type_error(format!("{} is no handle", other.kind()))),
        }
    }

    fn allocate(&mut self, device: DLDevice, shape: &[i64], dtype: DType) -> Result<Item, Error> {
        check_cpu(device)?;
        let bytes = tensor::byte_size(shape, dtype)?;
        // Before there is an allocation.
        check("tensor bytes", bytes as u64, self.limits.tensor_bytes)?;
        let tensor = Tensor::empty_on(device, shape, dtype)?;
        self.handles.insert(Held::Tensor(tensor)).map(Item::Handle)
    }

    fn copy_among(&mut self, from: &TensorRef, to: &TensorRef) -> Result<(), Error> {
        let (from, to) = (self.handles.tensor(from)?, self.handles.tensor(to)?);
        if from.nbytes() != to.nbytes() {
            let text = format!("a copy of {} bytes to {}", from.nbytes(), to.nbytes());
            return Err(Error::value_error(text));
        }
        // They may overlap.
        let bytes = from.to_bytes()?;
        content::with_bytes_mut(&to, |to| to.copy_from_slice(&bytes))
    }
}

/// The values of a packet, which ends after them.
fn complete<R: Read>(body: &mut Body<'_, R>) -> Result<Vec<Item>, Fault> {
    let items = body.seq()?;
    body.finish()?;
    Ok(items)
}

/// Refuses memory that is not a CPU's plain one.
fn check_scope(scope: &Item) -> Result<(), Error> {
    match scope {
        Item::None => Ok(()),
        Item::Text(scope) if scope.is_empty() || scope == b"global" => Ok(()),
        _ => Err(Error::value_error("a CPU has memory of the scope `global` alone")),
    }
}

/// A property of a device: of a CPU its existence alone, as TVM's servers have it.
fn attribute(device: DLDevice, kind: i64) -> Item {
    match kind {
        0 => Item::Int(i64::from(check_cpu(device).is_ok())),
        _ => Item::None,
    }
}

fn send_error(error: &Error, output: &mut impl Write) -> Result<(), Fault> {
    let text = Item::Text(fault::text_of(error).into_bytes());
    Ok(Packet::of(Code::Exception, &[text]).send(&[], output)?)
}
