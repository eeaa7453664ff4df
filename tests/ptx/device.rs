//! A device: its memory, and launches.

use std::collections::HashMap;
use std::fmt;

use crate::counters::Counters;
use crate::exec::machine::{Setup, run};
use crate::fault::Fault;
use crate::mem::global::Global;
use crate::mem::window::SHARED_START;
use crate::module::Module;
use crate::op::{Kernel, Symbol};
use crate::options::{Arch, LaunchOptions, Limits};

/// The largest extents of a grid.
const GRID: [u64; 3] = [(1 << 31) - 1, 65535, 65535];
/// The most bytes of local memory of a block.
const LOCAL: u64 = 1 << 28;
/// The largest extents of a block.
const BLOCK: [u32; 3] = [1024, 1024, 64];

/// Why an access from the host is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The device has not that much memory left.
    OutOfMemory,
    /// The range is not inside one allocation.
    OutOfBounds,
    /// No allocation begins at this address.
    NotAllocated,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryError::OutOfMemory => "out of device memory",
            MemoryError::OutOfBounds => "a range that is not inside one allocation",
            MemoryError::NotAllocated => "an address at which no allocation begins",
        })
    }
}

impl std::error::Error for MemoryError {}

/// A device.
#[derive(Debug)]
pub struct Device {
    memory: Global,
    limits: Limits,
    /// Addresses of the variables of modules.
    loaded: HashMap<u64, Vec<u64>>,
}

impl Device {
    /// A device without allocations.
    pub fn new(limits: Limits) -> Device {
        Device { memory: Global::new(limits.global), limits, loaded: HashMap::new() }
    }

    /// Allocates bytes, which are unwritten, at a multiple of 256.
    pub fn alloc(&mut self, size: u64) -> Result<u64, MemoryError> {
        self.memory.alloc(size, false).ok_or(MemoryError::OutOfMemory)
    }

    /// Frees an allocation.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        if self.memory.free(address) { Ok(()) } else { Err(MemoryError::NotAllocated) }
    }

    /// Bytes that are allocated.
    pub fn used(&self) -> u64 {
        self.memory.used()
    }

    /// Copies bytes from the device. Unwritten ones are poison.
    pub fn read(&mut self, address: u64, size: usize) -> Result<Vec<u8>, MemoryError> {
        let found = self.memory.find(address, size as u64);
        let (allocation, at) = found.ok_or(MemoryError::OutOfBounds)?;
        allocation.bytes.get(at, size).map(<[u8]>::to_vec).ok_or(MemoryError::OutOfBounds)
    }

    /// Whether all bytes of a range were written.
    pub fn is_written(&mut self, address: u64, size: usize) -> Result<bool, MemoryError> {
        let found = self.memory.find(address, size as u64);
        let (allocation, at) = found.ok_or(MemoryError::OutOfBounds)?;
        Ok(allocation.bytes.is_written(at, size))
    }

    /// Copies bytes to the device.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let found = self.memory.find(address, bytes.len() as u64);
        let (allocation, at) = found.ok_or(MemoryError::OutOfBounds)?;
        allocation.bytes.write(at, bytes);
        Ok(())
    }

    /// Copies a range to another with its initialised bits.
    pub fn copy(&mut self, to: u64, from: u64, size: usize) -> Result<(), MemoryError> {
        let bytes = self.read(from, size)?;
        let unwritten: Vec<usize> = {
            let found = self.memory.find(from, size as u64);
            let (allocation, at) = found.ok_or(MemoryError::OutOfBounds)?;
            (0..size).filter(|i| !allocation.bytes.is_written(at + i, 1)).collect()
        };
        self.write(to, &bytes)?;
        let found = self.memory.find(to, size as u64);
        let (allocation, at) = found.ok_or(MemoryError::OutOfBounds)?;
        unwritten.iter().for_each(|i| allocation.bytes.mark(at + i, 1, false));
        Ok(())
    }

    /// Poisons a range: its bytes count as unwritten.
    pub fn poison(&mut self, address: u64, size: usize) -> Result<(), MemoryError> {
        let found = self.memory.find(address, size as u64);
        let (allocation, at) = found.ok_or(MemoryError::OutOfBounds)?;
        allocation.bytes.mark(at, size, false);
        Ok(())
    }

    /// Allocates the variables of a module, unless that was done, and returns their addresses.
    pub fn load(&mut self, module: &Module) -> Result<&[u64], MemoryError> {
        if !self.loaded.contains_key(&module.id) {
            let mut addresses = vec![];
            for variable in module.variables() {
                let address = self.memory.alloc(variable.size, variable.constant);
                let address = address.ok_or(MemoryError::OutOfMemory)?;
                let mut bytes = variable.init.clone();
                bytes.resize(variable.size as usize, 0);
                self.write(address, &bytes)?;
                addresses.push(address);
            }
            self.loaded.insert(module.id, addresses);
        }
        Ok(&self.loaded[&module.id])
    }

    /// Frees the variables of a module.
    pub fn unload(&mut self, module: &Module) {
        for address in self.loaded.remove(&module.id).unwrap_or_default() {
            self.memory.free(address);
        }
    }

    /// The address and size of a variable of a module.
    pub fn variable(&mut self, module: &Module, name: &str) -> Option<(u64, u64)> {
        let at = module.variables().iter().position(|variable| variable.name == name)?;
        let size = module.variables()[at].size;
        self.load(module).ok().map(|addresses| (addresses[at], size))
    }

    /// Runs a kernel. `params` are the kernel's parameters at their offsets.
    #[expect(clippy::too_many_arguments)]
    pub fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        params: &[u8],
        options: &LaunchOptions,
    ) -> Result<Counters, Fault> {
        let refuse = |problem: String| Err(Fault::refused(kernel, problem));
        let Some(found) = module.kernel(kernel) else {
            return refuse("the module has no such kernel".into());
        };
        if module.target().starts_with("sm_90") && options.arch == Arch::Sm80 {
            return refuse(format!("a module for {} on sm_80", module.target()));
        }
        let base = found.shared_size.next_multiple_of(found.dynamic_align);
        let shared =
            if dynamic_shared > 0 { base + u64::from(dynamic_shared) } else { found.shared_size };
        if let Err(problem) = self.check(found, grid, block, shared, params) {
            return refuse(problem);
        }
        let variables = match self.load(module) {
            Ok(addresses) => addresses.to_vec(),
            Err(error) => return refuse(error.to_string()),
        };
        let address = |symbol: &Symbol| match *symbol {
            Symbol::Global(index) => variables[index as usize],
            Symbol::Shared(offset) => SHARED_START + offset,
            Symbol::Dynamic => SHARED_START + base,
            Symbol::Param(offset) | Symbol::Local(offset) => offset,
        };
        let symbols = found.symbols.iter().map(address).collect();
        let (dynamic, options) = (dynamic_shared, *options);
        let setup = Setup { kernel: found, grid, block, shared, dynamic, symbols, params, options };
        run(setup, &mut self.memory)
    }

    fn check(
        &self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u64,
        params: &[u8],
    ) -> Result<(), String> {
        let outside = |extent: u64, most: u64| extent == 0 || extent > most;
        if grid.iter().zip(GRID).any(|(extent, most)| outside(u64::from(*extent), most)) {
            return Err(format!("grid {grid:?}"));
        }
        if block.iter().zip(BLOCK).any(|(extent, most)| *extent == 0 || *extent > most) {
            return Err(format!("block {block:?}"));
        }
        let threads: u64 = block.iter().map(|extent| u64::from(*extent)).product();
        let most = kernel.max_threads.unwrap_or(u64::MAX).min(u64::from(self.limits.threads));
        if threads > most {
            return Err(format!("{threads} threads in a block, of at most {most}"));
        }
        if kernel.required.is_some_and(|required| required != block.map(u64::from)) {
            return Err(format!("block {block:?} is not the one that .reqntid wants"));
        }
        let cluster = kernel.cluster.max(1);
        if !grid[0].is_multiple_of(cluster) {
            return Err(format!("grid {grid:?} is not one of whole clusters of {cluster} blocks"));
        }
        // Hardware takes others; generated code has none.
        if cluster > 1 && !threads.is_multiple_of(128) {
            return Err(format!("blocks of {threads} threads, no whole warpgroups, in a cluster"));
        }
        if kernel.local_size * threads > LOCAL {
            return Err(format!("{} bytes of local memory for each thread", kernel.local_size));
        }
        if shared > self.limits.shared {
            return Err(format!("{shared} bytes of shared memory"));
        }
        if params.len() as u64 != kernel.param_size {
            let (found, wanted) = (params.len(), kernel.param_size);
            return Err(format!("{found} bytes of parameters instead of {wanted}"));
        }
        Ok(())
    }
}
