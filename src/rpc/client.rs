//! The client: a session at a server, whose functions, modules and tensors are values here.
//!
//! A remote function is an ordinary [`Function`](reflex_runtime::function::Function) ([`RemoteFunction::to_function`]). Remote tensors
//! are handles with shape and type; their bytes travel when they are asked for.

use std::io::{BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::tensor::{self, Tensor};

use crate::content;
use crate::fault::{self, Fault};
use crate::handshake::{self, Greeting};
use crate::limits::Limits;
use crate::secure::ClientTls;
use crate::wire::body::Body;
use crate::wire::item::{Item, TensorRef};
use crate::wire::{self, Answer, Code, Packet};

mod function;
mod upload;
mod value;

pub use function::{Copies, RemoteFunction};
pub use value::{Handle, RemoteModule, RemoteTensor, RemoteValue, Results};

/// Requests that may be on their way at once, and bytes of them: what both sides' buffers hold.
const PIPELINED: usize = 64;
const PIPELINED_BYTES: usize = 32 << 10;

/// The longest wait for a connection, and for each answer before the protocol begins.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A session at a server. Clones share it.
#[derive(Clone)]
pub struct RemoteSession(Arc<Mutex<Connection>>);

type Input = BufReader<Box<dyn Read + Send>>;

struct Connection {
    input: Input,
    output: Box<dyn Write + Send>,
    limits: Limits,
    /// Requests that free what is no longer used here, sent before the next one.
    released: Vec<(Code, Vec<Item>)>,
    /// The fault that ended the connection.
    broken: Option<Error>,
}

impl RemoteSession {
    /// Connects to `host:port` and starts a session.
    pub fn connect(address: &str, greeting: &Greeting) -> Result<RemoteSession, Error> {
        let failed = |e: std::io::Error| Error::new("ConnectionError", format!("{address}: {e}"));
        let mut stream = connect(address)?;
        handshake::greet(&mut stream, greeting).map_err(Fault::into_error)?;
        stream.set_read_timeout(None).map_err(failed)?;
        let input = stream.try_clone().map_err(failed)?;
        RemoteSession::over(Box::new(input), Box::new(stream))
    }

    /// Connects to `host:port` by TLS with a token, and starts a session.
    pub fn connect_secure(
        address: &str,
        tls: &ClientTls,
        greeting: &Greeting,
    ) -> Result<RemoteSession, Error> {
        let failed = |e: std::io::Error| Error::new("ConnectionError", format!("{address}: {e}"));
        let mut stream = tls.connect(address, connect(address)?)?;
        handshake::greet(&mut stream, greeting).map_err(Fault::into_error)?;
        let local = stream.into_local().map_err(failed)?;
        let input = local.try_clone().map_err(failed)?;
        RemoteSession::over(Box::new(input), Box::new(local))
    }

    /// Starts a session over a connection that needs no handshake, or is past it.
    pub fn over(
        input: Box<dyn Read + Send>,
        output: Box<dyn Write + Send>,
    ) -> Result<RemoteSession, Error> {
        let connection = Connection {
            input: BufReader::with_capacity(64 << 10, input),
            output,
            limits: Limits::default(),
            released: vec![],
            broken: None,
        };
        let session = RemoteSession(Arc::new(Mutex::new(connection)));
        let mut packet = Packet::new(Code::InitServer);
        packet.u64(wire::VERSION.len() as u64).bytes(wire::VERSION.as_bytes()).seq(&[]);
        session.0.lock().request(Code::InitServer, packet, &[])?;
        Ok(session)
    }

    /// The global function called `name`, if the server has it.
    pub fn global(&self, name: &str) -> Result<Option<RemoteFunction>, Error> {
        match *self.ask(Code::GetGlobalFunc, &[Item::text(name)])? {
            [Item::Handle(0)] => Ok(None),
            [Item::Handle(handle)] => Ok(Some(RemoteFunction::new(self.hold(handle), name))),
            ref other => Err(unexpected(other)),
        }
    }

    /// The global function called `name`; an error if the server has none.
    pub fn require(&self, name: &str) -> Result<RemoteFunction, Error> {
        let missing = || {
            let text = format!("the server has no function `{name}`");
            Error::new("NotImplementedError", text)
        };
        self.global(name)?.ok_or_else(missing)
    }

    /// A tensor at the server whose values are unspecified.
    pub fn empty(&self, shape: &[i64], dtype: DType) -> Result<RemoteTensor, Error> {
        let device = DLDevice::CPU;
        let mut at = TensorRef { data: 0, device, dtype, shape: shape.to_vec(), byte_offset: 0 };
        tensor::byte_size(shape, dtype)?;
        let items = [Item::Tensor(at.clone()), Item::None];
        match *self.ask(Code::DevAllocDataWithScope, &items)? {
            [Item::Handle(handle)] => {
                at.data = handle;
                let handle = Handle::allocation(self, handle, device);
                Ok(RemoteTensor::new(Arc::new(handle), at))
            }
            ref other => Err(unexpected(other)),
        }
    }

    /// A copy of a tensor at the server.
    pub fn to_remote(&self, tensor: &Tensor) -> Result<RemoteTensor, Error> {
        let remote = self.empty(tensor.shape(), tensor.dtype())?;
        remote.write(tensor)?;
        Ok(remote)
    }

    /// Makes several calls in one round trip: all are sent before the first answer is read, and each
    /// is made whether or not one before it fails.
    pub fn pipeline(
        &self,
        calls: &[(&RemoteFunction, Vec<Item>)],
    ) -> Result<Vec<Result<RemoteValue, Error>>, Error> {
        let mut replies = vec![];
        let mut connection = self.0.lock();
        let mut waiting = 0;
        let mut bytes = 0;
        for (function, items) in calls {
            let packet = function.packet(items);
            if waiting == PIPELINED || (waiting > 0 && bytes + packet.size() > PIPELINED_BYTES) {
                for _ in 0..std::mem::take(&mut waiting) {
                    replies.push(connection.receive(Code::CallFunc)?);
                }
                bytes = 0;
            }
            bytes += packet.size();
            connection.send(packet, &[])?;
            waiting += 1;
        }
        for _ in 0..waiting {
            replies.push(connection.receive(Code::CallFunc)?);
        }
        drop(connection);
        let value = |reply: Result<_, _>| reply.and_then(|items| RemoteValue::of(self, items));
        Ok(replies.into_iter().map(value).collect())
    }

    /// Ends the session.
    pub fn shut_down(&self) {
        let mut connection = self.0.lock();
        // The server may be gone already.
        let _ = Packet::new(Code::Shutdown).send(&[], &mut connection.output);
        connection.broken = Some(Error::new("ConnectionError", "the session was shut down"));
    }

    fn hold(&self, handle: u64) -> Arc<Handle> {
        Arc::new(Handle::object(self, handle))
    }

    fn ask(&self, code: Code, items: &[Item]) -> Result<Vec<Item>, Error> {
        self.0.lock().request(code, Packet::of(code, items), &[])
    }
}

impl Connection {
    fn request(&mut self, code: Code, packet: Packet, tail: &[u8]) -> Result<Vec<Item>, Error> {
        self.free_released()?;
        self.send(packet, tail)?;
        self.receive(code)?
    }

    /// Reads the `size` bytes that a packet asks for into the tensor that `target` gives, which is not asked
    /// before the server has as many.
    fn copy(
        &mut self,
        packet: Packet,
        size: usize,
        target: impl FnOnce() -> Result<Tensor, Error>,
    ) -> Result<Tensor, Error> {
        self.free_released()?;
        self.send(packet, &[])?;
        let copied = read_reply(&mut self.input, &self.limits, Code::CopyFromRemote, |body| {
            let copied = read_bytes(body, size, target)?;
            body.skip()?;
            Ok(copied)
        });
        copied.map_err(|fault| self.fail(fault))?
    }

    /// Frees what is no longer used, in one round trip.
    fn free_released(&mut self) -> Result<(), Error> {
        while !self.released.is_empty() {
            let few = self.released.len().min(PIPELINED);
            let few: Vec<_> = self.released.drain(..few).collect();
            for (code, items) in &few {
                self.send(Packet::of(*code, items), &[])?;
            }
            for (code, _) in few {
                // A handle that the server does not have any more is free.
                drop(self.receive(code)?);
            }
        }
        Ok(())
    }

    fn send(&mut self, packet: Packet, tail: &[u8]) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let sent = packet.send(tail, &mut self.output);
        sent.map_err(|e| self.fail(Fault::Connection(e)))
    }

    /// Remembers a fault that ends the connection.
    fn fail(&mut self, fault: Fault) -> Error {
        let error = fault.into_error();
        self.broken = Some(error.clone());
        error
    }

    /// Reads the answer to a request: the outer error ends the connection.
    fn receive(&mut self, code: Code) -> Result<Result<Vec<Item>, Error>, Error> {
        let reply = read_reply(&mut self.input, &self.limits, code, |body| {
            let items = body.seq()?;
            body.finish()?;
            Ok(Ok(items))
        });
        reply.map_err(|fault| self.fail(fault))
    }
}

/// A connection to `host:port` that waits for answers for a while.
pub fn connect(address: &str) -> Result<TcpStream, Error> {
    let failed = |e: std::io::Error| Error::new("ConnectionError", format!("{address}: {e}"));
    let found = address.to_socket_addrs().map_err(failed)?.next();
    let found = found.ok_or_else(|| Error::value_error(format!("{address}: no address")))?;
    let stream = TcpStream::connect_timeout(&found, CONNECT_TIMEOUT).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_read_timeout(Some(CONNECT_TIMEOUT)).map_err(failed)?;
    Ok(stream)
}

/// Reads the answer to a request by `read`, or the server's error.
fn read_reply<T>(
    input: &mut Input,
    limits: &Limits,
    code: Code,
    read: impl FnOnce(&mut Body<'_, Input>) -> Result<Result<T, Error>, Fault>,
) -> Result<Result<T, Error>, Fault> {
    let ended = || std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the server is gone");
    let (got, mut body) = wire::next(input, limits)?.ok_or_else(ended)?;
    Ok(match (got, code.answer()) {
        (Code::Return, Answer::Return) | (Code::CopyAck, Answer::Copy) => read(&mut body)?,
        (Code::Exception, _) => {
            let items = body.seq()?;
            match items.first() {
                Some(Item::Text(text)) => Err(fault::error_of(&String::from_utf8_lossy(text))),
                _ => Err(Error::new("RPCError", "an error without a text")),
            }
        }
        (other, _) => {
            let text = format!("{other:?} is no answer to {code:?}");
            return Err(Fault::Stream(Error::new("RPCError", text)));
        }
    })
}

/// Reads a packet's bytes into the tensor that `target` gives, if there are `size`.
fn read_bytes(
    body: &mut Body<'_, Input>,
    size: usize,
    target: impl FnOnce() -> Result<Tensor, Error>,
) -> Result<Result<Tensor, Error>, Fault> {
    if body.left() != size as u64 {
        let text = format!("the server has {} bytes for a tensor of {size}", body.left());
        return Ok(Err(Error::value_error(text)));
    }
    let tensor = match target() {
        Ok(tensor) if tensor.nbytes() == size => tensor,
        Ok(tensor) => {
            let text = format!("a copy of {size} bytes to a tensor of {}", tensor.nbytes());
            return Ok(Err(Error::value_error(text)));
        }
        Err(error) => return Ok(Err(error)),
    };
    match content::with_bytes_mut(&tensor, |bytes| body.read_into(bytes)) {
        Ok(read) => read.map(|()| Ok(tensor)),
        Err(error) => Ok(Err(error)),
    }
}

/// The error for an answer of another form.
#[cold]
fn unexpected(items: &[Item]) -> Error {
    let kinds: Vec<_> = items.iter().map(Item::kind).collect();
    Error::new("RPCError", format!("the server answered ({})", kinds.join(", ")))
}
