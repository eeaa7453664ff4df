//! Packets: a length, a code, and values, all little-endian.
//!
//! Decision: docs/decisions/0055-rpc.md

use std::io::{self, IoSlice, Read, Write};

use reflex_runtime::error::Error;

use crate::fault::Fault;
use crate::limits::{Limits, check};

pub mod body;
pub mod item;

use body::Body;
use item::Item;

/// The version that a client names, compared as text.
pub const VERSION: &str = "0.8.0";

/// The kind of reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: the connection ends, or the packet is an answer itself.
    Nothing,
    /// [`Code::Return`].
    Return,
    /// [`Code::CopyAck`].
    Copy,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $answer:ident;)*) => {
        /// The kind of a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $name = $number,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: [Code; [$($number),*].len()] = [$(Code::$name),*];

            /// The code with this number.
            pub fn of(number: i32) -> Option<Code> {
                match number {
                    $($number => Some(Code::$name),)*
                    _ => None,
                }
            }

            /// The packet that answers it where nothing fails.
            pub fn answer(self) -> Answer {
                match self {
                    $(Code::$name => Answer::$answer,)*
                }
            }
        }
    };
}

codes! {
    /// The client ends the session.
    Shutdown = 1, Nothing;
    /// Version and constructor of the session.
    InitServer = 2, Return;
    /// A function's handle and its arguments.
    CallFunc = 3, Return;
    /// Results.
    Return = 4, Nothing;
    /// The text of an error.
    Exception = 5, Nothing;
    /// Reads bytes of a tensor.
    CopyFromRemote = 6, Copy;
    /// Writes bytes of a tensor.
    CopyToRemote = 7, Return;
    /// Bytes of a tensor.
    CopyAck = 8, Nothing;
    /// The handle of a global function; 0 if there is none.
    GetGlobalFunc = 9, Return;
    /// Releases a handle.
    FreeHandle = 10, Return;
    /// Makes a device the current one.
    DevSetDevice = 11, Return;
    /// A property of a device.
    DevGetAttr = 12, Return;
    /// Allocates bytes.
    DevAllocData = 13, Return;
    /// Releases an allocation.
    DevFreeData = 14, Return;
    /// Waits for a stream.
    DevStreamSync = 15, Return;
    /// Copies between two tensors of the server.
    CopyAmongRemote = 16, Return;
    /// Allocates a tensor.
    DevAllocDataWithScope = 17, Return;
    /// Makes a stream.
    CreateStream = 18, Return;
    /// Releases a stream.
    FreeStream = 19, Return;
    /// Makes a stream the current one.
    SetStream = 20, Return;
    /// The current stream.
    GetCurrentStream = 21, Return;
}

/// A packet that is being written: its bytes, the length to be filled in.
#[derive(Debug)]
pub struct Packet(Vec<u8>);

/// Bytes of the length.
pub(crate) const LENGTH: usize = 8;

impl Packet {
    /// A packet without a body.
    pub fn new(code: Code) -> Packet {
        let mut bytes = vec![0; LENGTH];
        bytes.extend((code as i32).to_le_bytes());
        Packet(bytes)
    }

    /// A packet of a sequence of values.
    pub fn of(code: Code, items: &[Item]) -> Packet {
        let mut packet = Packet::new(code);
        packet.seq(items);
        packet
    }

    /// Bytes so far.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Appends plain bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Packet {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a number.
    pub fn u64(&mut self, number: u64) -> &mut Packet {
        self.bytes(&number.to_le_bytes())
    }

    /// Appends a sequence of values.
    pub fn seq(&mut self, items: &[Item]) -> &mut Packet {
        item::write_seq(items, &mut self.0);
        self
    }

    /// Appends what describes a tensor.
    pub fn tensor(&mut self, tensor: &item::TensorRef) -> &mut Packet {
        tensor.write(&mut self.0);
        self
    }

    /// Writes the packet, and `tail` as its last bytes.
    pub fn send(mut self, tail: &[u8], out: &mut impl Write) -> io::Result<()> {
        let length = (self.0.len() - LENGTH + tail.len()) as u64;
        self.0[..LENGTH].copy_from_slice(&length.to_le_bytes());
        // One call for both: a small tail is not a packet of its own on the network.
        let mut parts = [IoSlice::new(&self.0), IoSlice::new(tail)];
        let mut left = &mut parts[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match out.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        out.flush()
    }
}

/// Bytes of the packet that some bytes begin with, once they say it. Of one that is longer than the limit these are
/// its length alone, by which it is refused.
pub fn packet_size(bytes: &[u8], limits: &Limits) -> Option<u64> {
    let length = u64::from_le_bytes(*bytes.first_chunk()?);
    let whole = length.checked_add(LENGTH as u64).filter(|_| length <= limits.packet);
    Some(whole.unwrap_or(LENGTH as u64))
}

/// Reads the head of the next packet; None at the end of the stream.
pub fn next<'a, R: Read>(
    input: &'a mut R,
    limits: &'a Limits,
) -> Result<Option<(Code, Body<'a, R>)>, Fault> {
    let mut word = [0; LENGTH];
    let length = loop {
        match read_or_end(input, &mut word)? {
            // An empty packet means nothing.
            true if word == [0; LENGTH] => {}
            true => break u64::from_le_bytes(word),
            false => return Ok(None),
        }
    };
    check("packet bytes", length, limits.packet).map_err(Fault::Stream)?;
    let mut body = Body::new(input, length, limits);
    let number = body.i32().map_err(|_| lost("a packet without a code"))?;
    let code = Code::of(number).ok_or_else(|| lost(&format!("a packet with the code {number}")))?;
    Ok(Some((code, body)))
}

/// The fault of bytes that are not a packet.
fn lost(what: &str) -> Fault {
    Fault::Stream(Error::value_error(format!("not TVM's RPC protocol {VERSION}: {what}")))
}

/// Fills `word`; false if the stream ends before its first byte.
fn read_or_end(input: &mut impl Read, word: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < word.len() {
        match input.read(&mut word[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_number() {
        for (at, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!((code as usize, Code::of(code as i32)), (at + 1, Some(code)));
        }
        assert!(Code::of(0).is_none() && Code::of(22).is_none() && Code::of(-1).is_none());
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        let mut bytes = vec![0; LENGTH];
        let items = [Item::Int(3), Item::Text(b"main".to_vec())];
        Packet::of(Code::GetGlobalFunc, &items).send(&[], &mut bytes).unwrap();
        Packet::new(Code::CopyAck).send(b"tail", &mut bytes).unwrap();
        let (mut input, limits) = (bytes.as_slice(), Limits::default());
        let (code, mut body) = next(&mut input, &limits).unwrap().unwrap();
        assert_eq!((code, body.seq().unwrap()), (Code::GetGlobalFunc, items.to_vec()));
        body.finish().unwrap();
        let (code, mut body) = next(&mut input, &limits).unwrap().unwrap();
        assert_eq!((code, body.rest().unwrap()), (Code::CopyAck, b"tail".to_vec()));
        assert!(next(&mut input, &limits).unwrap().is_none());
    }

    #[test]
    fn what_is_no_packet_loses_the_stream() {
        let limits = Limits { packet: 100, ..Limits::default() };
        for (length, rest, message) in [
            (101_u64, &[][..], "the limit `packet bytes` is 100, and this needs 101"),
            (3, &[1, 2, 3], "without a code"),
            (4, &[22, 0, 0, 0], "the code 22"),
        ] {
            let bytes = [&length.to_le_bytes()[..], rest].concat();
            let fault = next(&mut bytes.as_slice(), &limits).err().unwrap();
            assert!(matches!(&fault, Fault::Stream(e) if e.message().contains(message)), "{fault}");
        }
        let fault = next(&mut [1_u8, 2].as_slice(), &limits).err().unwrap();
        assert!(matches!(fault, Fault::Connection(_)));
    }
}
