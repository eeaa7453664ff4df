//! Bytes into the state machine of an RPC server: they are requests, errors or the end, and take
//! little memory.

use std::path::Path;
use std::sync::Arc;

use reflex_rpc::limits::Limits;
use reflex_rpc::serve::{Host, Server, builtins};
use reflex_rpc::store::Store;
use reflex_rpc::wire::{Code, Packet, VERSION};
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::module::{Functions, Module};

/// A host whose files cannot be written, with a module that returns its arguments.
struct Nowhere(Store);

struct Echo;

impl Functions for Echo {
    fn kind(&self) -> &str {
        "fuzz"
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        let first = |args: &[reflex_runtime::value::AnyView<'_>]| {
            Ok(args.first().map(reflex_runtime::value::AnyView::to_owned).unwrap_or_default())
        };
        Ok((name == "e").then(|| Function::new(first)))
    }
}

impl Host for Nowhere {
    fn global(&mut self, name: &str) -> Result<Option<Function>, Error> {
        let load: Arc<builtins::Load> = Arc::new(|_: &str| Ok(Module::new(Echo)));
        let echo = || Echo.function(name).ok().flatten();
        // A time evaluator may be asked to take an hour.
        let timer = name == reflex_rpc::names::TIME_EVALUATOR;
        Ok(if timer { None } else { builtins::get(name, &self.0, &load).or_else(echo) })
    }
}

/// The codes of answers. Their contents have handles, which are salted anew in each session.
fn codes(mut answers: &[u8]) -> Vec<i32> {
    let mut codes = vec![];
    while let Some((length, rest)) = answers.split_first_chunk() {
        let (packet, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
        codes.push(i32::from_le_bytes(*packet.first_chunk().expect("a packet has a code")));
        answers = rest;
    }
    codes
}

/// The answers are alike where the bytes arrive in pieces, whose length the bytes choose.
fn in_pieces(input: &[u8], limits: Limits, expected: &[u8], ended: bool) {
    let nowhere = Path::new("/nonexistent");
    let mut server = Server::new(Nowhere(Store::new(nowhere, nowhere, limits)), limits);
    let (mut arrived, mut output) = (vec![], vec![]);
    let piece = usize::from(input.last().copied().unwrap_or(0)) + 1;
    let mut outcome = Ok(None);
    for piece in input.chunks(piece) {
        arrived.extend_from_slice(piece);
        outcome = server.receive(&mut arrived, &mut output);
        if !matches!(outcome, Ok(None)) {
            break;
        }
    }
    // A packet that is cut off is an error of a connection that ends, and never complete of one that does not.
    assert!(
        !ended || codes(&output) == codes(expected) && outcome.is_ok(),
        "other answers in pieces"
    );
}

/// The server answers with packets, and with no more than a few times what it was sent.
pub fn rpc(bytes: &[u8]) -> usize {
    let limits = Limits {
        packet: 1 << 16,
        tensor_bytes: 1 << 16,
        handles: 64,
        file_bytes: 0,
        ..Limits::default()
    };
    let mut input = vec![];
    let mut init = Packet::new(Code::InitServer);
    init.u64(VERSION.len() as u64).bytes(VERSION.as_bytes()).seq(&[]);
    init.send(&[], &mut input).expect("a vector takes all");
    input.extend_from_slice(bytes);
    let nowhere = Path::new("/nonexistent");
    let mut server = Server::new(Nowhere(Store::new(nowhere, nowhere, limits)), limits);
    let mut output = vec![];
    let ended = server.run(input.as_slice(), &mut output).is_ok();
    assert!(server.handles() <= 64);
    in_pieces(&input, limits, &output, ended);
    // A request of 30 bytes may read a whole tensor.
    assert!(output.len() <= (bytes.len() / 12 + 2) * (1 << 16));
    output.len()
}
