//! The memory of all devices: one interpreter's, whose allocations belong to devices.

use std::collections::BTreeMap;

use reflex_ptx::{Device, Limits};

use crate::status::{ILLEGAL_ADDRESS, INVALID_VALUE, OUT_OF_MEMORY, Status};

/// Memory of all devices. Addresses are unique among them.
pub struct Memory {
    /// The interpreter's device, which has all allocations and runs all kernels.
    pub all: Device,
    /// Allocations by address.
    owners: BTreeMap<u64, Owner>,
    used: Vec<u64>,
    /// Most bytes of each device.
    most: u64,
}

#[derive(Clone, Copy)]
struct Owner {
    bytes: u64,
    device: usize,
}

impl Memory {
    /// Memory of so many devices, of so many bytes each.
    pub fn new(devices: usize, most: u64) -> Memory {
        let limits = Limits { global: most.saturating_mul(devices as u64), ..Limits::default() };
        let (owners, used) = (BTreeMap::new(), vec![0; devices]);
        Memory { all: Device::new(limits), owners, used, most }
    }

    /// Allocates on a device.
    pub fn alloc(&mut self, device: usize, bytes: u64) -> Result<u64, Status> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let used = self.used[device].checked_add(bytes).filter(|used| *used <= self.most);
        let used = used.ok_or(OUT_OF_MEMORY)?;
        let address = self.all.alloc(bytes).map_err(|_| OUT_OF_MEMORY)?;
        self.used[device] = used;
        self.owners.insert(address, Owner { bytes, device });
        Ok(address)
    }

    /// Frees an allocation.
    pub fn free(&mut self, address: u64) -> Result<(), Status> {
        let owner = self.owners.remove(&address).ok_or(INVALID_VALUE)?;
        self.used[owner.device] -= owner.bytes;
        self.all.free(address).map_err(|_| INVALID_VALUE)
    }

    /// The device that has a range, if one allocation holds it.
    pub fn device_of(&self, address: u64, bytes: u64) -> Option<usize> {
        let (start, owner) = self.owners.range(..=address).next_back()?;
        let end = address.checked_add(bytes)?;
        (end <= start + owner.bytes).then_some(owner.device)
    }

    /// Copies bytes out.
    pub fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>, Status> {
        self.all.read(address, bytes).map_err(|_| ILLEGAL_ADDRESS)
    }

    /// Copies bytes in.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Status> {
        self.all.write(address, bytes).map_err(|_| ILLEGAL_ADDRESS)
    }

    /// Copies a range to another, and whether its bytes were written.
    pub fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Status> {
        self.all.copy(to, from, bytes).map_err(|_| ILLEGAL_ADDRESS)
    }
}
