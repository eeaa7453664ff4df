//! Facts about a device and its driver, for reports.

use std::ffi::c_int;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use reflex_runtime::error::Error;

use crate::call::cu;

/// Facts that explain figures. What the driver does not tell is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The version of CUDA that the driver is for: 12 and 4.
    pub driver: (u32, u32),
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

/// Reads the facts about the device of a number, which [`open`](crate::open) has opened.
pub fn facts(number: i32) -> Result<Facts, Error> {
    crate::open(number)?;
    let failed = |why| Error::new("DriverError", format!("cuda:{number}: {why}"));
    let (mut version, mut device) = (0, 0);
    // SAFETY: the driver is probed, and each call writes one integer.
    unsafe {
        cu!(cuDriverGetVersion(&mut version)).map_err(failed)?;
        cu!(cuDeviceGet(&mut device, number)).map_err(failed)?;
    }
    let attribute = |which: Attribute| {
        let mut value: c_int = 0;
        // SAFETY: it writes one integer.
        unsafe { cu!(cuDeviceGetAttribute(&mut value, which, device)) }.ok()?;
        u32::try_from(value).ok()
    };
    let version = u32::try_from(version).unwrap_or(0);
    Ok(Facts {
        driver: (version / 1000, version % 1000 / 10),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        memory_clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        bus_bits: attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    })
}
