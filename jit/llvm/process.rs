//! The `reflex-codegen` process: requests on one stream, responses on another.
//!
//! Each message is a little-endian u64 length and that many bytes of postcard. The end of the
//! input ends the loop; a message that cannot be decoded is answered, and then ends it too,
//! because nothing after it can be trusted.
//!
//! Decision: docs/decisions/0017-compiler-process.md

use std::io::{self, Read, Write};

use reflex_tir::codegen::{Codegen, Request, Response};

/// Longest message taken, in bytes.
const LIMIT: u64 = 1 << 30;

/// Answers requests until the input ends.
pub fn serve(
    codegen: &dyn Codegen,
    mut input: impl Read,
    mut output: impl Write,
) -> io::Result<()> {
    while let Some(message) = read_message(&mut input)? {
        let decoded = postcard::from_bytes::<Request>(&message);
        let (response, last) = match decoded {
            Ok(request) => (codegen.compile(&request), false),
            Err(error) => {
                let message = format!("the request cannot be decoded: {error}");
                (Response::Failed { func: String::new(), message }, true)
            }
        };
        write_message(&mut output, &response)?;
        if last {
            break;
        }
    }
    Ok(())
}

/// The next message, or `None` at a clean end.
pub fn read_message(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    let mut filled = 0;
    while filled < length.len() {
        match input.read(&mut length[filled..])? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    let length = u64::from_le_bytes(length);
    if length > LIMIT {
        let text = format!("a message of {length} bytes exceeds {LIMIT}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut message = vec![];
    input.take(length).read_to_end(&mut message)?;
    if (message.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(message))
}

/// Writes one message and flushes.
pub fn write_message(output: &mut impl Write, message: &impl serde::Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    output.write_all(&(bytes.len() as u64).to_le_bytes())?;
    output.write_all(&bytes)?;
    output.flush()
}
