//! Files of tensors by name, as TVM's `save_params` writes them: late-bound constants.

use crate::bytes::{Cursor, Writer};
use crate::executable::Params;
use crate::read::{ReadError, Section};

const MAGIC: u64 = 0xF7E5_8D4F_0504_9CB7;

/// Reads tensors by name from all of `bytes`.
pub fn read(bytes: &[u8]) -> Result<Params, ReadError> {
    let mut c = Cursor::new(bytes, Section::Params);
    let magic = c.u64()?;
    if magic != MAGIC {
        return Err(c.error_at(0, format!("magic is {magic:#018X}, expected {MAGIC:#018X}")));
    }
    c.u64()?;
    let names = c.list(8, Cursor::string)?;
    let at = c.at;
    let tensors = c.list(40, Cursor::tensor)?;
    if names.len() != tensors.len() {
        let reason = format!("{} names for {} tensors", names.len(), tensors.len());
        return Err(c.error_at(at, reason));
    }
    if c.remaining() != 0 {
        return Err(c.error_at(c.at, format!("{} bytes are left over", c.remaining())));
    }
    let mut params = Params::new();
    for (name, tensor) in names.into_iter().zip(tensors) {
        if params.insert(name.clone(), tensor).is_some() {
            return Err(c.error_at(at, format!("{name:?} is given twice")));
        }
    }
    Ok(params)
}

/// Writes tensors by name, in the order of the names.
pub fn write(params: &Params) -> Vec<u8> {
    let mut names: Vec<&String> = params.keys().collect();
    names.sort();
    let mut w = Writer::default();
    w.u64(MAGIC);
    w.u64(0);
    w.strings(&names);
    w.u64(names.len() as u64);
    names.iter().for_each(|&name| w.tensor(&params[name]));
    w.0
}
