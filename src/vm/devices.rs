//! The devices of a session. Programs name them by index.
//!
//! All are host memory: a program that TVM built for `cpu:0` and `cpu:1` runs as it is, and its
//! tensors say where they are.

use reflex_runtime::abi::DLDevice;
use reflex_runtime::error::Error;

/// The devices that indices stand for. The first one is `cpu:0`, where constants are.
///
/// ```
/// use reflex_vm::devices::Devices;
/// assert_eq!(Devices::ByIndex.get(3).unwrap().device_id, 3);
/// let listed = Devices::Listed(vec![0, 2]);
/// assert_eq!(listed.get(1).unwrap().device_id, 2);
/// assert!(listed.get(2).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// The CPUs of these numbers.
    Listed(Vec<i32>),
    /// Index N is CPU number N.
    ByIndex,
}

impl Default for Devices {
    fn default() -> Devices {
        Devices::Listed(vec![0])
    }
}

impl Devices {
    /// Device `index`; -1 is the host.
    pub fn get(&self, index: i64) -> Result<DLDevice, Error> {
        // Nearly every program has one device.
        if matches!(index, -1 | 0) {
            return Ok(DLDevice::CPU);
        }
        let number = match self {
            Devices::ByIndex => i32::try_from(index).ok().filter(|number| *number > 0),
            Devices::Listed(listed) => {
                usize::try_from(index).ok().and_then(|at| listed.get(at).copied())
            }
        };
        number.map(DLDevice::cpu).ok_or_else(|| self.missing(index))
    }

    #[cold]
    fn missing(&self, index: i64) -> Error {
        let given = match self {
            Devices::Listed(listed) if listed.len() == 1 => " (1 device)".to_owned(),
            Devices::Listed(listed) => format!(" ({} devices)", listed.len()),
            Devices::ByIndex => String::new(),
        };
        Error::value_error(format!(
            "the device index {index} is out of the VM's device list{given}"
        ))
    }
}
