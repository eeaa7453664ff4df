//! The device and its driver.

use std::fmt;

use reflex_runtime::device::Device;
use serde::{Deserialize, Serialize};

/// The name that devices of the stand-in for the driver have (`tests/libcuda`).
const STAND_IN: &str = "Stand-in ";

/// The device and its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The product.
    pub name: String,
    /// Architecture, such as `sm_90`.
    pub sm: String,
    /// The version of CUDA that the driver is for.
    pub driver: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Most bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: Option<u32>,
    /// Level 2 cache, bytes.
    pub l2_bytes: Option<u32>,
    /// Clock of the multiprocessors at most, kHz.
    pub clock_khz: Option<u32>,
    /// Clock of the memory at most, kHz.
    pub memory_clock_khz: Option<u32>,
    /// Width of the memory's bus, bits.
    pub bus_bits: Option<u32>,
}

impl Facts {
    /// Reads the facts about an open device.
    pub fn of(device: &dyn Device) -> Result<Facts, String> {
        let more =
            reflex_cuda::facts(device.id().device_id).map_err(|e| e.message().to_string())?;
        let properties = device.properties();
        let (major, minor) = properties.compute_capability.unwrap_or_default();
        Ok(Facts {
            name: properties.name.clone(),
            sm: format!("sm_{major}{minor}"),
            driver: format!("{}.{}", more.driver.0, more.driver.1),
            memory_bytes: properties.memory_bytes,
            shared_bytes: properties.max_shared_bytes,
            multiprocessors: more.multiprocessors,
            l2_bytes: more.l2_bytes,
            clock_khz: more.clock_khz,
            memory_clock_khz: more.memory_clock_khz,
            bus_bits: more.bus_bits,
        })
    }

    /// Whether the device is no GPU: its figures mean nothing.
    pub fn is_stand_in(&self) -> bool {
        self.name.starts_with(STAND_IN)
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        write!(f, "{} ({}), {gib:.1} GiB, driver for CUDA {}", self.name, self.sm, self.driver)?;
        let known = [
            (self.multiprocessors, "multiprocessors"),
            (self.l2_bytes, "bytes of level 2 cache"),
            (self.clock_khz, "kHz"),
            (self.memory_clock_khz, "kHz of memory"),
            (self.bus_bits, "bits of bus"),
        ];
        known.iter().try_for_each(|(value, unit)| match value {
            Some(value) => write!(f, ", {value} {unit}"),
            None => Ok(()),
        })
    }
}
