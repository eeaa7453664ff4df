//! A client and a server over a pair of sockets, and hostile bytes into the server's state machine.

use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use arbtest::arbtest;
use reflex_rpc::client::{Copies, RemoteSession, RemoteValue, Results};
use reflex_rpc::fault::Fault;
use reflex_rpc::limits::Limits;
use reflex_rpc::serve::{End, Host, Server, builtins};
use reflex_rpc::store::Store;
use reflex_rpc::wire::item::{Item, TensorRef};
use reflex_rpc::wire::{Code, Packet};
use reflex_runtime::abi::DLDevice;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::module::{Functions, Module};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

/// A module with a function that doubles, and one in destination-passing style.
struct Doubling;

impl Functions for Doubling {
    fn kind(&self) -> &str {
        "test.doubling"
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        let double = |x: &Tensor| -> Result<Tensor, Error> {
            let values: Vec<f32> = x.to_vec::<f32>()?.iter().map(|x| x * 2.0).collect();
            Tensor::from_slice(x.shape(), &values)
        };
        Ok(match name {
            "double" => {
                Some(Function::new(move |args| Ok(double(&function::arg(args, 0)?)?.into())))
            }
            "double_into" => Some(Function::new(move |args| {
                let (from, to) = (function::arg::<Tensor>(args, 0)?, args[1]);
                let to = Tensor::try_from(to)?;
                // SAFETY: the test's only user of the tensor.
                let target = unsafe { to.as_mut_slice::<f32>()? };
                target.copy_from_slice(&double(&from)?.to_vec::<f32>()?);
                Ok(Any::NONE)
            })),
            _ => None,
        })
    }
}

struct TestHost(Store);

impl Host for TestHost {
    fn global(&mut self, name: &str) -> Result<Option<Function>, Error> {
        let load: Arc<builtins::Load> = Arc::new(|name: &str| match name {
            "m.so" => Ok(Module::new(Doubling)),
            other => Err(Error::new("OSError", format!("no file {other}"))),
        });
        Ok(builtins::get(name, &self.0, &load).or_else(|| match name {
            "test.echo" => Some(Function::new(|args| Ok(args[0].to_owned()))),
            "test.fail" => Some(Function::new(|_| {
                Err(Error::with_context("IndexError", "no such item", "main\n", None, None))
            })),
            "test.panic" => Some(Function::new(|args| Ok(args[7].to_owned()))),
            _ => None,
        }))
    }
}

fn store(folder: &Path) -> Store {
    Store::new(folder, &folder.join("contents"), Limits::default())
}

/// The end of a session, and the handles that were left.
type Served = (Result<End, Fault>, usize);

/// A client, and the thread that serves it.
fn pair(folder: &Path) -> (RemoteSession, JoinHandle<Served>) {
    let (here, there) = UnixStream::pair().unwrap();
    let host = TestHost(store(folder));
    let server = thread::spawn(move || {
        let mut server = Server::new(host, Limits::default());
        let mut output = there.try_clone().unwrap();
        let end = server.run(there, &mut output);
        (end, server.handles())
    });
    let output = Box::new(here.try_clone().unwrap());
    (RemoteSession::over(Box::new(here), output).unwrap(), server)
}

/// The addresses that bytes are read to, or written from, and their numbers.
type Places = Arc<Mutex<Vec<(usize, usize)>>>;

/// A socket that notes where bytes come from and go to.
struct Watched(UnixStream, Places);

impl Read for Watched {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(target)?;
        self.1.lock().unwrap().push((target.as_ptr().addr(), read));
        Ok(read)
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.0.write_vectored(parts)?;
        let mut left = written;
        for part in parts {
            let count = part.len().min(left);
            self.1.lock().unwrap().push((part.as_ptr().addr(), count));
            left -= count;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Bytes among those noted that are the tensor's own.
fn in_place(places: &Places, tensor: &Tensor) -> usize {
    let data = tensor.data_ptr().addr();
    let own = data..data + tensor.nbytes();
    let places = std::mem::take(&mut *places.lock().unwrap());
    places.iter().filter(|(at, _)| own.contains(at)).map(|(_, count)| count).sum()
}

#[test]
fn copies_have_no_buffer_between_the_connection_and_the_tensors() {
    const BYTES: usize = 1 << 20;
    /// The most that a reader takes into its own buffer: with the head of a packet, and once more when less
    /// than a buffer is left of it.
    const BUFFERED: usize = 2 * (64 << 10);
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let [to, from, to_server, from_server]: [Places; 4] = Default::default();
    let tensor = Tensor::zeros(&[BYTES as i64 / 4], DType::F32).unwrap();
    let (input, output) = (
        Watched(there.try_clone().unwrap(), to_server.clone()),
        Watched(there, from_server.clone()),
    );
    let host = TestHost(store(folder.path()));
    let server = thread::spawn(move || {
        let mut output = output;
        Server::new(host, Limits::default()).run(input, &mut output)
    });
    let input = Box::new(Watched(here.try_clone().unwrap(), from.clone()));
    let session = RemoteSession::over(input, Box::new(Watched(here, to.clone()))).unwrap();
    let remote = session.to_remote(&tensor).unwrap();
    assert_eq!(in_place(&to, &tensor), BYTES);
    let back = remote.to_local().unwrap();
    assert!(in_place(&from, &back) >= BYTES - BUFFERED);
    // The server's tensor is of this process too, and its address is what most bytes went to.
    let places = |of: &Places| -> usize {
        let places = std::mem::take(&mut *of.lock().unwrap());
        let large = places.iter().max_by_key(|(_, count)| *count).unwrap().0;
        places
            .iter()
            .filter(|(at, _)| (large - BYTES..large + BYTES).contains(at))
            .map(|p| p.1)
            .sum()
    };
    session.shut_down();
    assert_eq!(server.join().unwrap().unwrap(), End::Shutdown);
    // The server notes what it wrote after the client may have read it.
    let (read, written) = (places(&to_server), places(&from_server));
    assert!(read >= BYTES - BUFFERED && written >= BYTES, "{read} and {written} of {BYTES}");
}

#[test]
fn copies_of_another_size_than_the_tensor_are_refused() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let answer = |code, items: &[Item], tail: &[u8], there: &mut UnixStream| {
            let mut packet = Packet::new(code);
            if code == Code::Return {
                packet.seq(items);
            }
            packet.send(tail, there).unwrap();
        };
        // To InitServer, the allocation, and two copies.
        answer(Code::Return, &[Item::None], &[], &mut there);
        answer(Code::Return, &[Item::Handle(7)], &[], &mut there);
        answer(Code::CopyAck, &[], &[1; 12], &mut there);
        answer(Code::CopyAck, &[], &[1; 8], &mut there);
        there
    });
    let session = RemoteSession::over(Box::new(here.try_clone().unwrap()), Box::new(here)).unwrap();
    let remote = session.empty(&[8], DType::U8).unwrap();
    let error = remote.to_local().unwrap_err();
    assert!(error.message().contains("12 bytes for a tensor of 8"), "{error}");
    // The connection is still of use.
    assert_eq!(remote.to_local().unwrap().to_vec::<u8>().unwrap(), [1; 8]);
    drop(server.join().unwrap());
}

#[test]
fn values_go_there_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (session, server) = pair(folder.path());
    let echo = session.require("test.echo").unwrap();
    let long = "a longer one, which is an object";
    for (item, value) in [
        (Item::None, Any::NONE),
        (Item::Int(-3), Any::from(-3_i64)),
        (Item::Bool(true), Any::from(true)),
        (Item::Float(0.5), Any::from(0.5)),
        (Item::text("a"), Any::from("a")),
        (Item::text(long), Any::from(long)),
        (Item::DType(DType::BF16), Any::from(DType::BF16)),
        (Item::Device(DLDevice::CPU), Any::from(DLDevice::CPU)),
    ] {
        let back = echo.call(&[item]).unwrap().local().unwrap();
        assert_eq!(format!("{back:?}"), format!("{value:?}"));
    }
    for bytes in [vec![], vec![0; 3], vec![1; 300]] {
        let back = echo.call(&[Item::Bytes(bytes.clone())]).unwrap().local().unwrap();
        assert_eq!(back.view().as_bytes(), Some(&bytes[..]));
    }
    let local = Tensor::from_slice(&[2, 1], &[1.5_f32, -2.0]).unwrap();
    let RemoteValue::Tensor(back) =
        echo.call(&[session.to_remote(&local).unwrap().item()]).unwrap()
    else {
        panic!("not a tensor")
    };
    assert_eq!(back.shape(), [2, 1]);
    assert_eq!(back.to_local().unwrap().to_vec::<f32>().unwrap(), [1.5, -2.0]);
    let RemoteValue::Function(same) = echo.call(&[echo.item()]).unwrap() else {
        panic!("not a function")
    };
    let value = same.call(&[Item::Int(7)]).unwrap().local().unwrap();
    assert_eq!(i64::try_from(value).unwrap(), 7);
    drop((same, back, echo));
    // The next request frees what was dropped.
    assert!(session.global("no.such.function").unwrap().is_none());
    session.shut_down();
    let (end, handles) = server.join().unwrap();
    assert_eq!((end.unwrap(), handles), (End::Shutdown, 0));
}

#[test]
fn errors_keep_their_kind_and_the_session_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (session, _server) = pair(folder.path());
    let error = session.call_global("test.fail", &[]).err().unwrap();
    assert_eq!((&*error.kind(), &*error.message()), ("IndexError", "no such item"));
    assert_eq!(error.backtrace(), "main\n");
    let error = session.call_global("test.panic", &[]).err().unwrap();
    assert_eq!(error.kind(), "InternalError");
    let error = session.load_module("absent.so").err().unwrap();
    assert_eq!(error.kind(), "OSError");
    let echo = session.require("test.echo").unwrap();
    let at = |data| {
        let (device, dtype) = (DLDevice::CPU, DType::F32);
        Item::Tensor(TensorRef { data, device, dtype, shape: vec![1], byte_offset: 0 })
    };
    for item in [Item::Handle(0x1234), Item::Object(1), Item::Function(2), Item::Module(3), at(4)] {
        let error = echo.call(&[item]).err().unwrap();
        assert!(error.message().contains("is no handle of this session"), "{error}");
    }
    assert!(echo.call(&[Item::None]).is_ok());
}

#[test]
fn modules_uploads_and_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let (session, _server) = pair(folder.path());
    session.upload_bytes("a.bin", b"12345").unwrap();
    assert_eq!(session.download("a.bin").unwrap(), b"12345");
    assert!(session.upload_bytes("../escape", b"x").is_err());
    let file = folder.path().join("weights");
    std::fs::write(&file, vec![7; 3 << 20]).unwrap();
    assert_eq!(session.upload(&file, "w").unwrap().sent, 3 << 20);
    assert_eq!(session.upload(&file, "again").unwrap().sent, 0, "the content is there");
    for absent in ["a.bin", "a.bin", "never", ""] {
        session.remove(absent).unwrap();
    }
    let module = session.load_module("m.so").unwrap();
    assert!(module.function("nope").unwrap().is_none());
    let x = Tensor::from_slice(&[2], &[1.0_f32, 4.0]).unwrap();
    let remote = session.to_remote(&x).unwrap();
    let times = session.time_evaluator(&module, "double", [3, 2], &[remote.item()]).unwrap();
    assert!(times.len() == 2 && times.iter().all(|t| *t > 0.0), "{times:?}");
    // An ordinary function: local tensors there and back.
    let double = module.require("double").unwrap().to_function(Copies::Results(Results::Here));
    let y = Tensor::try_from(double.call(&[AnyView::from(&x)]).unwrap()).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 8.0]);
    let into = module.require("double_into").unwrap().to_function(Copies::Last(1));
    into.call(&[AnyView::from(&y), AnyView::from(&x)]).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [4.0, 16.0]);
}

#[test]
fn calls_are_pipelined() {
    let folder = tempfile::tempdir().unwrap();
    let (session, _server) = pair(folder.path());
    let echo = session.require("test.echo").unwrap();
    let fail = session.require("test.fail").unwrap();
    let calls: Vec<_> = (0..300)
        .map(|at| if at % 7 == 0 { (&fail, vec![]) } else { (&echo, vec![Item::Int(at)]) })
        .collect();
    for (at, result) in session.pipeline(&calls).unwrap().into_iter().enumerate() {
        match at % 7 {
            0 => assert_eq!(result.err().unwrap().kind(), "IndexError"),
            _ => {
                let value = result.unwrap().local().unwrap();
                assert_eq!(i64::try_from(value).unwrap(), at as i64);
            }
        }
    }
}

/// The bytes that the server writes when it reads `input`.
fn answer(input: &[u8], limits: Limits) -> (Result<End, Fault>, Vec<u8>) {
    let mut output = vec![];
    let store = Store::new(Path::new("/nonexistent"), Path::new("/nonexistent"), limits);
    let end = Server::new(TestHost(store), limits).run(input, &mut output);
    (end, output)
}

fn init() -> Vec<u8> {
    let mut bytes = vec![];
    let mut packet = Packet::new(Code::InitServer);
    packet.u64(5).bytes(b"0.8.0").seq(&[]);
    packet.send(&[], &mut bytes).unwrap();
    bytes
}

#[test]
fn requests_in_pieces_are_answered_when_they_are_complete() {
    let limits = Limits::default();
    // Empty packets mean nothing.
    let mut bytes = [vec![0; 16], init(), vec![0; 8]].concat();
    for name in ["nothing", "tvm.rpc.server.listdir"] {
        let name = [Item::Text(name.as_bytes().to_vec())];
        Packet::of(Code::GetCurrentStream, &name).send(&[], &mut bytes).unwrap();
    }
    Packet::new(Code::Shutdown).send(&[], &mut bytes).unwrap();
    let (end, expected) = answer(&bytes, limits);
    assert!(matches!(end, Ok(End::Shutdown)) && !expected.is_empty());
    for size in 1..=bytes.len() {
        let store = Store::new(Path::new("/nonexistent"), Path::new("/nonexistent"), limits);
        let mut server = Server::new(TestHost(store), limits);
        let (mut arrived, mut output, mut end) = (vec![], vec![], None);
        for piece in bytes.chunks(size) {
            assert!(end.is_none(), "it ends with the last piece");
            arrived.extend_from_slice(piece);
            end = server.receive(&mut arrived, &mut output).unwrap();
        }
        assert_eq!((end, arrived.len()), (Some(End::Shutdown), 0));
        assert!(output == expected, "in pieces of {size}");
    }
    let mut long = u64::MAX.to_le_bytes().to_vec();
    let store = Store::new(Path::new("/nonexistent"), Path::new("/nonexistent"), limits);
    let refused = Server::new(TestHost(store), limits).receive(&mut long, &mut vec![]);
    assert!(matches!(refused, Err(Fault::Stream(e)) if e.message().contains("packet bytes")));
}

#[test]
fn hostile_bytes_never_panic_and_take_little_memory() {
    let limits = Limits { packet: 1 << 16, tensor_bytes: 1 << 16, ..Limits::default() };
    arbtest(|u| {
        let mut bytes = if u.arbitrary()? { init() } else { vec![] };
        // Packets whose frame is right, with any body.
        for _ in 0..u.int_in_range(0..=4)? {
            let length = u.int_in_range(0..=200_u64)?;
            let code: i32 = u.int_in_range(0..=23)?;
            bytes.extend((length + 4).to_le_bytes());
            bytes.extend(code.to_le_bytes());
            bytes.extend(u.bytes((length as usize).min(u.len()))?);
        }
        bytes.extend(u.bytes(u.len())?);
        let (_, output) = answer(&bytes, limits);
        assert!(output.len() < 1 << 20);
        Ok(())
    });
}

#[test]
fn sessions_begin_with_the_right_version() {
    let mut wrong = vec![];
    let mut packet = Packet::new(Code::InitServer);
    packet.u64(5).bytes(b"9.9.9").seq(&[]);
    packet.send(&[], &mut wrong).unwrap();
    let mut early = vec![];
    Packet::of(Code::GetGlobalFunc, &[Item::text("test.echo")]).send(&[], &mut early).unwrap();
    let mut hops = vec![];
    let mut packet = Packet::new(Code::InitServer);
    packet.u64(5).bytes(b"0.8.0").seq(&[Item::text("rpc.Connect"), Item::text("h"), Item::Int(1)]);
    packet.send(&[], &mut hops).unwrap();
    for (bytes, text) in [
        (wrong, "the server's protocol is 0.8.0, the client's 9.9.9"),
        (early, "InitServer comes first"),
        (hops, "several hops"),
        ([init(), init()].concat(), "initialised already"),
    ] {
        let (end, output) = answer(&bytes, Limits::default());
        assert_eq!(end.unwrap(), End::Closed);
        assert!(String::from_utf8_lossy(&output).contains(text), "{text}");
    }
}

#[test]
fn packets_past_a_limit_end_the_session() {
    let mut bytes = init();
    bytes.extend(u64::MAX.to_le_bytes());
    let (end, output) = answer(&bytes, Limits::default());
    assert!(matches!(end, Err(Fault::Stream(_))));
    assert!(String::from_utf8_lossy(&output).contains("the limit `packet bytes` is 1073741824"));
}
