//! Calls and copies over loopback, against a bare echo of as many bytes.
//!
//! `cargo bench -p reflex-rpc` prints medians of calls. Of copies it prints the least time on the clock, and the
//! least processor time of both sides, which are threads of one process: other work on the machine moves those least.
//! No assertion.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use reflex_rpc::client::RemoteSession;
use reflex_rpc::handshake::{self, Greeting};
use reflex_rpc::limits::Limits;
use reflex_rpc::serve::{Host, Server, builtins};
use reflex_rpc::store::Store;
use reflex_rpc::wire::item::Item;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;

struct OneFunction(Store);

impl Host for OneFunction {
    fn global(&mut self, name: &str) -> Result<Option<Function>, Error> {
        let load: Arc<builtins::Load> = Arc::new(|_: &str| Err(Error::value_error("no modules")));
        let echo = || (name == "echo").then(|| Function::new(|args| Ok(args[0].to_owned())));
        Ok(builtins::get(name, &self.0, &load).or_else(echo))
    }
}

const CALLS: usize = 20_000;
const COPY: usize = 64 << 20;
/// Copies of each kind.
const ROUNDS: usize = 15;
/// Bytes of a call's request and answer, with one integer each way.
const CALL_BYTES: [usize; 2] = [36, 40];

fn main() {
    let echo = echo_server();
    let rpc = rpc_server();
    let greeting = Greeting { key: String::new(), timeout: None };
    let session = RemoteSession::connect(&rpc, &greeting).expect("a session");
    let function = session.require("echo").expect("a function");
    let call = || drop(function.call(&[Item::Int(1)]).expect("an answer"));
    let mut bare = TcpStream::connect(&echo).expect("a connection");
    bare.set_nodelay(true).expect("a socket");
    let mut buffer = [0_u8; 64];
    let mut exchange = || {
        bare.write_all(&buffer[..CALL_BYTES[0]]).expect("writes");
        bare.read_exact(&mut buffer[..CALL_BYTES[1]]).expect("reads");
    };
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..CALLS {
        ours.push(time(call));
        theirs.push(time(&mut exchange));
    }
    let (ours, theirs) = (median(ours) * 1e6, median(theirs) * 1e6);
    println!("call {ours:.1} us, bare echo {theirs:.1} us, ratio {:.2}", ours / theirs);
    let local = Tensor::zeros(&[COPY as i64], DType::U8).expect("memory");
    let remote = session.empty(local.shape(), DType::U8).expect("memory");
    let mut bare = BareCopies::connect();
    let mut least = [[f64::INFINITY; 2]; 4];
    // The first round touches memory and opens windows.
    for round in 0..ROUNDS + 1 {
        let taken = [
            times(|| remote.write(&local).expect("writes")),
            times(|| bare.send()),
            times(|| drop(remote.to_local().expect("reads"))),
            times(|| bare.receive()),
        ];
        if round > 0 {
            let pairs = least.iter_mut().flatten().zip(taken.into_iter().flatten());
            pairs.for_each(|(least, taken)| *least = taken.min(*least));
        }
    }
    for (what, [ours, bare]) in [("to", [least[0], least[1]]), ("from", [least[2], least[3]])] {
        for (clock, at) in [("on the clock", 0), ("of the processor", 1)] {
            let [ours, bare] = [ours[at] * 1e3, bare[at] * 1e3];
            let ratio = bare / ours;
            println!(
                "64 MiB {what} {ours:.1} ms {clock}, bare socket {bare:.1} ms, rate {ratio:.2}"
            );
        }
    }
}

/// Time on the clock, and processor time of the process.
fn times(body: impl FnOnce()) -> [f64; 2] {
    let before = processor_time();
    let clock = time(body);
    [clock, processor_time() - before]
}

fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux, and the time is ours to write.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the clock of the process");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn time(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_secs_f64()
}

fn median(mut sample: Vec<f64>) -> f64 {
    sample.sort_by(f64::total_cmp);
    sample[sample.len() / 2]
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

fn echo_server() -> String {
    let (listener, address) = listen();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.set_nodelay(true).expect("a socket");
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer[..CALL_BYTES[0]]).is_ok() {
            stream.write_all(&buffer[..CALL_BYTES[1]]).expect("writes");
        }
    });
    address
}

fn rpc_server() -> String {
    let (listener, address) = listen();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.set_nodelay(true).expect("a socket");
        handshake::receive(&mut stream, "").expect("a greeting");
        handshake::accept(&mut stream, "").expect("writes");
        let nowhere = Path::new("/nonexistent");
        let host = OneFunction(Store::new(nowhere, nowhere, Limits::default()));
        let mut output = stream.try_clone().expect("a socket");
        drop(Server::new(host, Limits::default()).run(stream, &mut output));
    });
    address
}

/// Copies over a bare socket, in memory that both sides have touched.
struct BareCopies {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl BareCopies {
    fn connect() -> BareCopies {
        let (listener, address) = listen();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let (mut bytes, mut wanted) = (vec![1_u8; COPY], [0]);
            while stream.read_exact(&mut wanted).is_ok() {
                match wanted {
                    [0] => {
                        stream.read_exact(&mut bytes).expect("reads");
                        stream.write_all(&[1]).expect("writes");
                    }
                    _ => stream.write_all(&bytes).expect("writes"),
                }
            }
        });
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        BareCopies { stream, bytes: vec![1_u8; COPY] }
    }

    fn send(&mut self) {
        self.stream.write_all(&[0]).expect("writes");
        self.stream.write_all(&self.bytes).expect("writes");
        self.stream.read_exact(&mut [0]).expect("reads");
    }

    fn receive(&mut self) {
        self.stream.write_all(&[1]).expect("writes");
        self.stream.read_exact(&mut self.bytes).expect("reads");
    }
}
