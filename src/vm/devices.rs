//! The devices of a session, and the allocators of CPUs. Programs name devices by index.
//!
//! The first one is where the program computes and its constants are. CPUs of any number are host
//! memory: a program that TVM built for `cpu:0` and `cpu:1` runs as it is, and its tensors say
//! where they are.

use std::str::FromStr;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::AllocatorKind;
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

/// The kind of allocator of each CPU of a session. As text: a kind, and others for single CPUs, such as
/// `pooled,cpu:1=naive`.
///
/// ```
/// use reflex_runtime::alloc::device::AllocatorKind::{Naive, Pooled};
/// use reflex_vm::devices::CpuAllocators;
/// let allocators: CpuAllocators = "cpu:1=naive".parse().unwrap();
/// assert_eq!([allocators.of(0), allocators.of(1)], [Pooled, Naive]);
/// assert_eq!(CpuAllocators::from(Naive).of(7), Naive);
/// assert!("cuda:0=naive".parse::<CpuAllocators>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAllocators {
    general: AllocatorKind,
    /// By the number of the CPU, the last one first.
    own: Vec<(i32, AllocatorKind)>,
}

impl CpuAllocators {
    /// Gives one CPU an allocator of its own kind.
    pub fn set(&mut self, cpu: i32, kind: AllocatorKind) {
        self.own.insert(0, (cpu, kind));
    }

    /// The same with what a text says of single CPUs, or of the others.
    pub fn and(mut self, text: &str) -> Result<CpuAllocators, String> {
        for part in text.split(',') {
            let Some((device, kind)) = part.split_once('=') else {
                self.general = part.trim().parse()?;
                continue;
            };
            let number = device.trim().strip_prefix("cpu").map(|n| n.trim_start_matches(':'));
            let number = match number {
                Some("") => Some(0),
                Some(number) => number.parse().ok().filter(|number| *number >= 0),
                None => None,
            };
            let number = number.ok_or_else(|| format!("{device:?} is no CPU"))?;
            self.set(number, kind.trim().parse()?);
        }
        Ok(self)
    }

    /// The kind of a CPU's allocator.
    #[inline]
    pub fn of(&self, cpu: i32) -> AllocatorKind {
        let own = self.own.iter().find(|(number, _)| *number == cpu);
        own.map_or(self.general, |(_, kind)| *kind)
    }
}

impl From<AllocatorKind> for CpuAllocators {
    fn from(general: AllocatorKind) -> CpuAllocators {
        CpuAllocators { general, own: vec![] }
    }
}

impl FromStr for CpuAllocators {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuAllocators, String> {
        CpuAllocators::default().and(text)
    }
}
