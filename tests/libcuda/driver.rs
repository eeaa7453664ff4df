//! The state of the stand-in: devices, handles, counts of calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use reflex_ptx::{Arch, Fault, FaultKind, LaunchOptions, Module, Order, Policy};

use crate::memory::Memory;
use crate::plan::Plan;
use crate::status::{
    ILLEGAL_ADDRESS, INVALID_HANDLE, INVALID_VALUE, LAUNCH_FAILED, LAUNCH_TIMEOUT,
    MISALIGNED_ADDRESS, Status, is_final,
};
use crate::streams::{Goal, Launch, Streams, Work};

/// Launches by the handles of their nodes, in order.
type Nodes = Vec<(u64, Launch)>;

/// The driver.
pub struct Driver {
    pub plan: Plan,
    pub initialised: bool,
    pub memory: Memory,
    pub streams: Streams,
    /// The latest ticket of each event; none before it is recorded.
    pub events: BTreeMap<u64, Option<u64>>,
    pub modules: BTreeMap<u64, Arc<Module>>,
    pub functions: BTreeMap<u64, Function>,
    /// The nodes of graphs, and of instantiated ones.
    pub graphs: BTreeMap<u64, Nodes>,
    pub executables: BTreeMap<u64, Nodes>,
    /// The final error of each device.
    lost: Vec<Option<Status>>,
    launches: u64,
    calls: HashMap<&'static str, u64>,
    handles: u64,
}

/// A kernel of a module.
#[derive(Clone)]
pub struct Function {
    pub module: u64,
    pub kernel: String,
    /// Most bytes of dynamic shared memory.
    pub shared: u32,
}

/// The one driver of the process.
pub fn driver() -> MutexGuard<'static, Driver> {
    static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| Mutex::new(Driver::new(Plan::of_environment())));
    driver.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    fn new(plan: Plan) -> Driver {
        Driver {
            initialised: false,
            memory: Memory::new(plan.devices, plan.memory),
            streams: Streams::new(plan.seed),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            lost: vec![None; plan.devices],
            launches: 0,
            calls: HashMap::new(),
            // No address, and none that other handles have.
            handles: 0xa000,
            plan,
        }
    }

    /// A handle that nothing has.
    pub fn new_handle(&mut self) -> u64 {
        self.handles += 16;
        self.handles
    }

    /// Counts a call; the status that the plan has for it, if it has one.
    pub fn planned(&mut self, function: &'static str) -> Option<Status> {
        if self.plan.failures.is_empty() {
            return None;
        }
        let count = self.calls.entry(function).or_default();
        *count += 1;
        let fails = |f: &&crate::plan::Failure| f.function == function && f.call == *count;
        let status = self.plan.failures.iter().find(fails)?.status;
        if is_final(status) {
            self.lost.iter_mut().for_each(|lost| *lost = lost.or(Some(status)));
        }
        Some(status)
    }

    /// The final error of a device.
    pub fn lost(&self, device: usize) -> Option<Status> {
        self.lost.get(device).copied().flatten()
    }

    /// The device of a stream.
    pub fn stream(&self, handle: u64) -> Result<usize, Status> {
        let device = self.streams.device_of(handle).ok_or(INVALID_HANDLE)?;
        match self.lost(device) {
            Some(status) => Err(status),
            None => Ok(device),
        }
    }

    /// Checks that a range is a device's.
    pub fn check_range(&self, device: usize, address: u64, bytes: usize) -> Result<(), Status> {
        match self.memory.device_of(address, bytes as u64) {
            Some(of) if of == device => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Numbers a launch.
    pub fn next_launch(&mut self) -> u64 {
        self.launches += 1;
        self.launches
    }

    /// Runs work until a goal is reached; the error is that of the device whose work it is for.
    pub fn run(&mut self, goal: Goal, device: usize) -> Result<(), Status> {
        while let Some((of, work)) = self.streams.next(goal)? {
            if self.lost(of).is_some() {
                continue;
            }
            if let Err(status) = self.execute(of, work) {
                if is_final(status) {
                    self.lost[of] = Some(status);
                } else if of == device {
                    return Err(status);
                }
            }
        }
        match self.lost(device) {
            Some(status) => Err(status),
            None => Ok(()),
        }
    }

    fn execute(&mut self, device: usize, work: Work) -> Result<(), Status> {
        match work {
            Work::FromHost { to, from, bytes } => {
                let from: *const u8 = std::ptr::with_exposed_provenance(from);
                // SAFETY: the caller that enqueued the copy said that the range is readable until it runs.
                let data = unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec();
                self.memory.write(to, &data)
            }
            Work::ToHost { to, from, bytes } => {
                let data = self.memory.read(from, bytes)?;
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
                // SAFETY: the caller that enqueued the copy said that the range is writable until it runs.
                unsafe { to.copy_from_nonoverlapping(data.as_ptr(), bytes) };
                Ok(())
            }
            Work::Copy { to, from, bytes } => self.memory.copy(to, from, bytes),
            Work::Fill { to, value, bytes } => self.memory.write(to, &vec![value; bytes]),
            Work::Launch(launch) => self.launch(device, &launch),
            Work::Record(_) | Work::Wait(_) => Ok(()),
        }
    }

    fn launch(&mut self, device: usize, launch: &Launch) -> Result<(), Status> {
        if let Some((_, status)) = self.plan.late.iter().find(|(n, _)| *n == launch.number) {
            return Err(*status);
        }
        for word in launch.params.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if self.memory.device_of(word, 0).is_some_and(|of| of != device) {
                eprintln!("stand-in: {} is given memory of another device", launch.kernel);
                return Err(ILLEGAL_ADDRESS);
            }
        }
        let order = match self.plan.seed {
            0 => Order::Index,
            seed if seed % 3 == 1 => Order::Reverse,
            seed => Order::Seeded(seed),
        };
        let arch = if self.plan.sm >= 90 { Arch::Sm90a } else { Arch::Sm80 };
        let inactive_lanes = if self.plan.any_lanes { Policy::Allow } else { Policy::Fault };
        let options = LaunchOptions { order, arch, inactive_lanes, ..LaunchOptions::default() };
        let Launch { module, kernel, grid, block, shared, params, .. } = launch;
        let ran = self.memory.all.launch(module, kernel, *grid, *block, *shared, params, &options);
        ran.map(drop).map_err(|fault| {
            eprintln!("stand-in: {fault}");
            status_of(&fault)
        })
    }
}

/// The status that a device has for a fault.
fn status_of(fault: &Fault) -> Status {
    match fault.kind {
        FaultKind::OutOfBounds { .. } => ILLEGAL_ADDRESS,
        FaultKind::Misaligned { .. } => MISALIGNED_ADDRESS,
        FaultKind::Deadlock { .. } | FaultKind::OutOfFuel => LAUNCH_TIMEOUT,
        _ => LAUNCH_FAILED,
    }
}
