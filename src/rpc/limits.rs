//! The limits of a connection. Whatever passes one is refused with an error that names it.

use reflex_runtime::error::Error;

/// The limits of a session, on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a packet.
    pub packet: u64,
    /// Values of a sequence.
    pub values: usize,
    /// Dimensions of a tensor.
    pub rank: usize,
    /// Bytes of a string.
    pub text: u64,
    /// Handles that are in use at once.
    pub handles: usize,
    /// Bytes of tensors that a session holds at once.
    pub tensor_bytes: u64,
    /// Bytes of the files of a session.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            packet: 1 << 30,
            values: 4096,
            rank: 64,
            text: 64 << 20,
            handles: 1 << 20,
            tensor_bytes: 8 << 30,
            file_bytes: 8 << 30,
        }
    }
}

/// The error for `found` where the limit called `name` allows `most`.
#[cold]
pub fn exceeded(name: &str, found: u64, most: u64) -> Error {
    Error::value_error(format!("the limit `{name}` is {most}, and this needs {found}"))
}

/// Refuses what passes a limit.
pub fn check(name: &str, found: u64, most: u64) -> Result<(), Error> {
    if found <= most { Ok(()) } else { Err(exceeded(name, found, most)) }
}
