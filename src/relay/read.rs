//! Reads executables (`.ro`).
//!
//! Every count is checked against the bytes that remain, every instruction against its hash, and errors
//! carry the section and the offset of what is wrong. What the instructions say is checked by
//! [`crate::verify`].

use std::fmt;

use crate::bytes::Cursor;
use crate::executable::{Constant, Device, Dialect, Executable, Function};
use crate::instr::{self, Instr};

/// The first word of a file: that of Relax's older files too, which the version tells apart.
pub const MAGIC: u64 = 0xD225_DE2F_4214_151D;

/// The sections of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// Magic and version.
    Header,
    /// The table of devices.
    Devices,
    /// Names of functions.
    Globals,
    /// Constants and their devices.
    Constants,
    /// Names and attributes of kernels.
    Primitives,
    /// Functions.
    Code,
    /// A file of late-bound constants.
    Params,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Header => "header",
            Section::Devices => "device section",
            Section::Globals => "global section",
            Section::Constants => "constant section",
            Section::Primitives => "primitive section",
            Section::Code => "code section",
            Section::Params => "late-bound constants",
        })
    }
}

/// Why bytes are not an executable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a readable Relay executable: {section}, byte {offset}: {reason}")]
pub struct ReadError {
    /// The section that is wrong.
    pub section: Section,
    /// Offset from the start of the bytes.
    pub offset: usize,
    /// The mistake there.
    pub reason: String,
}

/// Whether bytes begin like an executable of Relay's, alone or behind its length.
pub fn is_executable(bytes: &[u8]) -> bool {
    let mut c = Cursor::new(contents(bytes), Section::Header);
    c.u64() == Ok(MAGIC) && c.string().is_ok_and(|v| Dialect::of_version(&v).is_some())
}

/// The bytes behind the length that `Module.save` writes before the executable, or all bytes if
/// there is none.
fn contents(bytes: &[u8]) -> &[u8] {
    match bytes.split_first_chunk::<8>() {
        Some((length, rest)) if u64::from_le_bytes(*length) == rest.len() as u64 => rest,
        _ => bytes,
    }
}

/// Reads an executable from all of `bytes`.
///
/// Versions that end in `.dev` may be of the dialect before theirs or after, so these are tried
/// too.
pub fn read(bytes: &[u8]) -> Result<Executable, ReadError> {
    let bytes = contents(bytes);
    let mut c = Cursor::new(bytes, Section::Header);
    let magic = c.u64()?;
    if magic != MAGIC {
        return Err(c.error_at(0, format!("magic is {magic:#018X}, expected {MAGIC:#018X}")));
    }
    let at = c.at;
    let version = c.string()?;
    let Some(dialect) = Dialect::of_version(&version) else {
        let reason = match version.as_str() {
            "0.14" => "version is \"0.14\": an executable of Relax's virtual machine".to_owned(),
            _ => format!("written by TVM {version:?}; expected 0.8 to 0.19"),
        };
        return Err(c.error_at(at, reason));
    };
    let first = body(c.clone(), &version, dialect);
    if first.is_ok() || !version.contains("dev") {
        return first;
    }
    let others = Dialect::ALL.into_iter().filter(|other| *other != dialect);
    others.map(|other| body(c.clone(), &version, other)).find(Result::is_ok).unwrap_or(first)
}

fn body(mut c: Cursor<'_>, version: &str, dialect: Dialect) -> Result<Executable, ReadError> {
    let (mut devices, mut host_device) = (vec![], 0);
    if dialect != Dialect::V8 {
        c.section = Section::Devices;
        devices = c.list(8, |c| device(c, dialect))?;
        host_device = c.i32()?;
    }
    c.section = Section::Globals;
    let globals = c.list(8, Cursor::string)?;
    c.section = Section::Constants;
    let constants = c.list(4, |c| constant(c, dialect))?;
    let constant_devices = c.words()?;
    c.section = Section::Primitives;
    let primitives = c.list(8, Cursor::string)?;
    let attributes =
        c.list(16, |c| Ok((c.u64()?, c.list(16, |c| Ok((c.string()?, c.string()?)))?)))?;
    c.section = Section::Code;
    let functions = c.list(40, |c| function(c, dialect))?;
    if c.remaining() != 0 {
        return Err(c.error_at(c.at, format!("{} bytes are left over", c.remaining())));
    }
    let version = version.to_owned();
    Ok(Executable {
        version,
        dialect,
        devices,
        host_device,
        globals,
        constants,
        constant_devices,
        primitives,
        attributes,
        functions,
    })
}

fn device(c: &mut Cursor<'_>, dialect: Dialect) -> Result<Device, ReadError> {
    let (kind, id) = (c.i32()?, c.i32()?);
    let scope = if dialect == Dialect::V14 { c.string()? } else { String::new() };
    Ok(Device { kind, id, scope })
}

fn constant(c: &mut Cursor<'_>, dialect: Dialect) -> Result<Constant, ReadError> {
    if dialect == Dialect::V8 {
        return Ok(Constant::Tensor(c.tensor()?));
    }
    let at = c.at;
    match c.u32()? {
        0 => Ok(Constant::Tensor(c.tensor()?)),
        1 => Ok(Constant::Late(c.string()?)),
        tag => Err(c.error_at(at, format!("constant of unknown kind {tag}"))),
    }
}

fn function(c: &mut Cursor<'_>, dialect: Dialect) -> Result<Function, ReadError> {
    let at = c.at;
    let info = c.list(8, Cursor::string)?;
    let [name, registers, count] = <[String; 3]>::try_from(info)
        .map_err(|info| c.error_at(at, format!("function described by {} texts", info.len())))?;
    let number = |text: &str| {
        let number = text.parse::<i64>().ok().filter(|n| *n >= 0);
        number.ok_or_else(|| c.error_at(at, format!("function `{name}`: {text:?} is no count")))
    };
    let (registers, count) = (number(&registers)?, number(&count)?);
    let params = c.list(8, Cursor::string)?;
    let param_devices = c.words()?;
    let room = c.remaining() / 24;
    if usize::try_from(count).is_ok_and(|count| count > room) {
        let reason = format!("function `{name}`: {count} instructions exceed the remaining bytes");
        return Err(c.error_at(at, reason));
    }
    let code = (0..count).map(|_| instruction(c, dialect)).collect::<Result<_, _>>()?;
    Ok(Function { name, registers, params, param_devices, code })
}

fn instruction(c: &mut Cursor<'_>, dialect: Dialect) -> Result<Instr, ReadError> {
    let at = c.at;
    let words = c.words()?;
    let [hash, opcode, fields @ ..] = &words[..] else {
        return Err(c.error_at(at, format!("instruction of {} words", words.len())));
    };
    let expected = instr::hash(*opcode, fields);
    if *hash as u64 != expected {
        let reason = format!("instruction with hash {:#x}, its fields have {expected:#x}", *hash);
        return Err(c.error_at(at, reason));
    }
    Instr::decode(dialect, *opcode, fields).map_err(|error| c.error_at(at, error.to_string()))
}
