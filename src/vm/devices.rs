//! The devices of a session. Programs name them by index.
//!
//! The first one is where the program computes and its constants are. CPUs of any number are host
//! memory: a program that TVM built for `cpu:0` and `cpu:1` runs as it is, and its tensors say
//! where they are.

use reflex_runtime::abi::DLDevice;
use reflex_runtime::error::Error;

/// The devices that indices stand for.
///
/// ```
/// use reflex_runtime::abi::DLDevice;
/// use reflex_vm::devices::Devices;
/// assert_eq!(Devices::ByIndex.get(3).unwrap().device_id, 3);
/// let listed = Devices::Listed(vec![DLDevice::cuda(1), DLDevice::CPU]);
/// assert_eq!(listed.get(0).unwrap(), DLDevice::cuda(1));
/// assert_eq!(listed.get(-1).unwrap(), DLDevice::CPU);
/// assert!(listed.get(2).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// These, of which there is at least one.
    Listed(Vec<DLDevice>),
    /// Index N is CPU number N.
    ByIndex,
}

impl Default for Devices {
    fn default() -> Devices {
        Devices::Listed(vec![DLDevice::CPU])
    }
}

impl Devices {
    /// The device of the program: that of index 0.
    pub fn first(&self) -> DLDevice {
        match self {
            Devices::Listed(listed) => listed.first().copied().unwrap_or_default(),
            Devices::ByIndex => DLDevice::CPU,
        }
    }

    /// Device `index`; -1 is the host.
    #[inline]
    pub fn get(&self, index: i64) -> Result<DLDevice, Error> {
        if index == -1 {
            return Ok(DLDevice::CPU);
        }
        let device = match self {
            Devices::ByIndex => i32::try_from(index).ok().filter(|n| *n >= 0).map(DLDevice::cpu),
            Devices::Listed(listed) => {
                usize::try_from(index).ok().and_then(|at| listed.get(at).copied())
            }
        };
        device.ok_or_else(|| self.missing(index))
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
