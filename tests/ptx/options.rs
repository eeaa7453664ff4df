//! Options of a launch.

/// The order in which warps and blocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By index.
    Index,
    /// The highest index first.
    Reverse,
    /// By a generator with this seed, in short turns.
    Seeded(u64),
}

/// The architecture whose tensor cores are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// Ampere.
    Sm80,
    /// Hopper.
    Sm90a,
}

/// The consequence of a doubtful access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It is a fault.
    Fault,
    /// It runs.
    Allow,
}

/// Options of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchOptions {
    /// The order of warps and blocks.
    pub order: Order,
    /// The architecture.
    pub arch: Arch,
    /// The consequence of reading unwritten bytes.
    pub uninitialised: Policy,
    /// The consequence of unordered accesses.
    pub races: Policy,
    /// The consequence of a shuffle from a lane that does not take part. Where it runs, it gives a value
    /// that depends on the order.
    pub inactive_lanes: Policy,
    /// The most instructions of all threads together.
    pub fuel: u64,
}

impl Default for LaunchOptions {
    fn default() -> LaunchOptions {
        LaunchOptions {
            order: Order::Index,
            arch: Arch::Sm80,
            uninitialised: Policy::Fault,
            races: Policy::Fault,
            inactive_lanes: Policy::Fault,
            fuel: 1 << 34,
        }
    }
}

/// The resources of a device.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of global memory.
    pub global: u64,
    /// Bytes of shared memory of a block.
    pub shared: u64,
    /// Threads of a block.
    pub threads: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { global: 1 << 32, shared: 227 << 10, threads: 1024 }
    }
}

/// The parameters of a launch, laid out as the kernel wants them.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Params {
    /// No parameters.
    pub fn new() -> Params {
        Params::default()
    }

    /// Adds a parameter at a multiple of its alignment.
    pub fn bytes(mut self, bytes: &[u8], align: usize) -> Params {
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        self.bytes.extend(bytes);
        self
    }

    /// Adds an address or another 64-bit number.
    pub fn u64(self, value: u64) -> Params {
        self.bytes(&value.to_le_bytes(), 8)
    }

    /// Adds a 32-bit number.
    pub fn u32(self, value: u32) -> Params {
        self.bytes(&value.to_le_bytes(), 4)
    }
}
