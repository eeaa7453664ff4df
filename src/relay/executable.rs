//! An executable as its file has it: plain data, valid or not.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use reflex_vm::executable::TensorConst;

use crate::instr::Instr;

/// The forms of the file, which the version of TVM in it tells apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dialect {
    /// TVM 0.8: device types in place of a table of devices, no late-bound constants, no
    /// `kill_register`.
    V8,
    /// TVM 0.9 to 0.13: a table of devices, `kill_register`, late-bound constants.
    V9,
    /// TVM 0.14 to 0.19: memory scopes, storages with shapes, constants loaded to devices.
    V14,
}

impl Dialect {
    /// Every dialect, the oldest first.
    pub const ALL: [Dialect; 3] = [Dialect::V8, Dialect::V9, Dialect::V14];

    /// The dialect of files that a version of TVM writes, such as `0.16.dev0` or `0.8.0`; None for
    /// those that this crate does not know, and for `0.14` alone, which Relax's files have.
    pub fn of_version(version: &str) -> Option<Dialect> {
        let mut parts = version.split('.');
        let (major, minor, _patch) = (parts.next()?, parts.next()?, parts.next()?);
        let minor: u32 = minor.parse().ok()?;
        match (major, minor) {
            ("0", 8) => Some(Dialect::V8),
            ("0", 9..=13) => Some(Dialect::V9),
            ("0", 14..=19) => Some(Dialect::V14),
            _ => None,
        }
    }
}

/// The versions of TVM that write it.
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::V8 => "TVM 0.8",
            Dialect::V9 => "TVM 0.9 to 0.13",
            Dialect::V14 => "TVM 0.14 to 0.19",
        })
    }
}

/// A device that code names by its place in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// DLPack's device type; 1 is a CPU.
    pub kind: i32,
    /// Number of the device among those of its type.
    pub id: i32,
    /// Memory scope, empty for the default. Since TVM 0.14.
    pub scope: String,
}

/// A constant.
#[derive(Clone, PartialEq, Debug)]
pub enum Constant {
    /// A tensor in the file.
    Tensor(TensorConst),
    /// A tensor that is bound by this name before a run.
    Late(String),
}

/// A function.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Number of registers, parameters included, which are the first.
    pub registers: i64,
    /// Names of its parameters.
    pub params: Vec<String>,
    /// Device of each parameter, by its place in the table; in 0.8 its type.
    pub param_devices: Vec<i64>,
    /// The instructions.
    pub code: Vec<Instr>,
}

/// String attributes of a primitive: pairs of name and value.
pub type Attributes = Vec<(String, String)>;

/// An executable.
#[derive(Clone, PartialEq, Debug)]
pub struct Executable {
    /// The version of TVM in the file, such as `0.16.dev0`.
    pub version: String,
    /// The form of the file.
    pub dialect: Dialect,
    /// The devices; none in 0.8.
    pub devices: Vec<Device>,
    /// Place of the host among the devices; 0 in 0.8.
    pub host_device: i32,
    /// Names of the functions by number, by which code calls them.
    pub globals: Vec<String>,
    /// The constants.
    pub constants: Vec<Constant>,
    /// Device of each constant, by its place in the table; in 0.8 its type.
    pub constant_devices: Vec<i64>,
    /// Names of the kernels.
    pub primitives: Vec<String>,
    /// String attributes of kernels: number of the kernel, and pairs.
    pub attributes: Vec<(u64, Attributes)>,
    /// The functions, in the order of the file.
    pub functions: Vec<Function>,
}

/// Late-bound constants by name.
pub type Params = HashMap<String, TensorConst>;

/// Why late-bound constants do not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// The executable names constants that were not given.
    #[error("no value for the late-bound constants {}", .0.join(", "))]
    Missing(Vec<String>),
    /// Values were given that the executable does not name.
    #[error("no late-bound constant is called {}", .0.join(", "))]
    Unused(Vec<String>),
}

impl Executable {
    /// An executable without functions, for the CPU.
    pub fn new(dialect: Dialect) -> Executable {
        let (version, devices) = match dialect {
            Dialect::V8 => ("0.8.0", vec![]),
            Dialect::V9 => ("0.13.0", vec![Device { kind: 1, id: 0, scope: String::new() }]),
            Dialect::V14 => ("0.16.0", vec![Device { kind: 1, id: 0, scope: String::new() }]),
        };
        Executable {
            version: version.to_owned(),
            dialect,
            devices,
            host_device: 0,
            globals: vec![],
            constants: vec![],
            constant_devices: vec![],
            primitives: vec![],
            attributes: vec![],
            functions: vec![],
        }
    }

    /// The names of the constants that are bound before a run, in order.
    pub fn late_bound(&self) -> Vec<&str> {
        let late = self.constants.iter().filter_map(|constant| match constant {
            Constant::Late(name) => Some(name.as_str()),
            Constant::Tensor(_) => None,
        });
        late.collect()
    }

    /// Replaces every late-bound constant by the tensor of its name. As in TVM every name needs a
    /// value and every value a name; values are free to be of any shape and type.
    pub fn bind(&mut self, params: &Params) -> Result<(), BindError> {
        let names: BTreeSet<&str> = self.late_bound().into_iter().collect();
        let missing = names.iter().filter(|name| !params.contains_key(**name));
        let missing: Vec<String> = missing.map(|&name| name.to_owned()).collect();
        if !missing.is_empty() {
            return Err(BindError::Missing(missing));
        }
        let unused = params.keys().filter(|name| !names.contains(name.as_str()));
        let mut unused: Vec<String> = unused.cloned().collect();
        if !unused.is_empty() {
            unused.sort();
            return Err(BindError::Unused(unused));
        }
        for constant in &mut self.constants {
            if let Constant::Late(name) = constant {
                *constant = Constant::Tensor(params[name].clone());
            }
        }
        Ok(())
    }
}
