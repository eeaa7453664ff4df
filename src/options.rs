//! Options of engines and sessions: mode, precision, device, progress.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::AllocatorKind;
use reflex_runtime::device::Device;
use reflex_tir::codegen::{CpuTarget, GpuTarget};
use reflex_tir::level::Level;
use reflex_vm::devices::{CpuAllocators, Devices};

use crate::error::{Error, ErrorKind};
use crate::tier_policy::TierPolicy;

/// The way VM functions run. All modes give the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The interpreter.
    Bytecode,
    /// Every function translated to machine code when the session opens.
    Compiled,
    /// The interpreter first; what is hot becomes machine code.
    #[default]
    Tiered,
}

impl Mode {
    /// Every mode, in the order of the tables.
    pub const ALL: [Mode; 3] = [Mode::Bytecode, Mode::Compiled, Mode::Tiered];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Bytecode => "bytecode",
            Mode::Compiled => "compiled",
            Mode::Tiered => "tiered",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let found = Mode::ALL.into_iter().find(|m| m.to_string() == text);
        found.ok_or_else(|| format!("no mode {text:?}; use bytecode, compiled or tiered"))
    }
}

/// Options of a session. Sessions of one program may differ.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub(crate) mode: Mode,
    /// As text; `None` for the program's own.
    pub(crate) device: Option<String>,
    pub(crate) allocators: CpuAllocators,
    pub(crate) slow_call: Option<Duration>,
}

impl SessionOptions {
    /// Returns options with the program's device and the pooled allocator.
    ///
    /// ```
    /// use reflex::{Mode, SessionOptions};
    ///
    /// let options = SessionOptions::new(Mode::Compiled);
    /// ```
    pub fn new(mode: Mode) -> SessionOptions {
        let allocators = CpuAllocators::default();
        SessionOptions { mode, device: None, allocators, slow_call: None }
    }

    /// Sets the device that the session computes on: `cpu`, or the list of those that a program for
    /// several CPUs names by index, such as `cpu:0,cpu:1`. For `cpu`, index N is `cpu:N`.
    ///
    /// ```
    /// use reflex::{Mode, SessionOptions};
    ///
    /// let options = SessionOptions::new(Mode::Tiered).device("cpu");
    /// ```
    pub fn device(mut self, device: &str) -> SessionOptions {
        self.device = Some(device.to_owned());
        self
    }

    /// Sets the allocator of tensors, which reuses the memory that a run releases or returns it to
    /// the system. Machine code recycles its small objects with either kind.
    ///
    /// ```
    /// use reflex::memory::AllocatorKind;
    /// use reflex::{Mode, SessionOptions};
    ///
    /// let options = SessionOptions::new(Mode::Tiered).allocator(AllocatorKind::Naive);
    /// ```
    pub fn allocator(mut self, kind: AllocatorKind) -> SessionOptions {
        self.allocators = kind.into();
        self
    }

    /// Sets the allocator of one of several CPUs, whose number is that in `cpu:N`.
    ///
    /// ```
    /// use reflex::memory::AllocatorKind;
    /// use reflex::{Mode, SessionOptions};
    ///
    /// let options = SessionOptions::new(Mode::Tiered).device("cpu:0,cpu:1");
    /// let options = options.allocator_of(1, AllocatorKind::Naive);
    /// ```
    pub fn allocator_of(mut self, cpu: i32, kind: AllocatorKind) -> SessionOptions {
        self.allocators.set(cpu, kind);
        self
    }

    pub(crate) fn with_allocators(mut self, allocators: CpuAllocators) -> SessionOptions {
        self.allocators = allocators;
        self
    }

    /// Reports calls that take this long or longer as `tracing` warnings named `slow call`: their
    /// time, how much of it the thread was running, page faults, preemptions, and whether code was
    /// compiled meanwhile. Costs two system calls a call, about 1 us.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use reflex::{Mode, SessionOptions};
    ///
    /// let options = SessionOptions::new(Mode::Tiered).slow_call(Duration::from_millis(5));
    /// ```
    pub fn slow_call(mut self, threshold: Duration) -> SessionOptions {
        self.slow_call = Some(threshold);
        self
    }
}

/// The options of an engine that its programs keep.
#[derive(Clone)]
pub(crate) struct ExecutionOptions {
    /// Threads for parallel kernels, the caller's included.
    pub(crate) threads: usize,
    pub(crate) policy: TierPolicy,
    /// The machine code that a program for a GPU is saved with.
    #[cfg(feature = "compiler")]
    pub(crate) cubins: CubinOptions,
}

/// The cubins of a program that is saved.
#[cfg(feature = "compiler")]
#[derive(Clone)]
pub(crate) struct CubinOptions {
    /// The architectures asked for; those that are usual for its GPU where none are said.
    pub(crate) archs: Option<BTreeSet<String>>,
    pub(crate) progress: Progress,
}

#[cfg(feature = "compiler")]
impl CubinOptions {
    /// Checks names, which a program is given.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_arch = |arch: &str| {
            let number = arch.strip_prefix("sm_").map(|n| n.strip_suffix('a').unwrap_or(n));
            let is_number = |n: &str| (2..=3).contains(&n.len()) && n.parse::<u8>().is_ok();
            number.is_some_and(is_number)
        };
        match self.archs.iter().flatten().find(|arch| !is_arch(arch)) {
            Some(arch) => {
                Err(Error::input(format!("{arch:?} is no architecture of a GPU such as sm_90")))
            }
            None => Ok(()),
        }
    }
}

/// The CPUs that kernels are compiled for, or chosen for.
#[derive(Clone)]
pub(crate) struct TargetSelection {
    /// This CPU.
    pub(crate) host: CpuTarget,
    /// Levels asked for; none for this CPU with all its features.
    pub(crate) levels: BTreeSet<Level>,
    /// The GPU whose schedules the CPUs run.
    pub(crate) schedule_for: Option<GpuTarget>,
    /// The device that kernels run on, if it is no CPU.
    pub(crate) device: Option<TargetDevice>,
}

impl Default for ExecutionOptions {
    fn default() -> ExecutionOptions {
        ExecutionOptions {
            threads: 1,
            policy: TierPolicy::default(),
            #[cfg(feature = "compiler")]
            cubins: CubinOptions { archs: None, progress: Progress::silent() },
        }
    }
}

impl Default for TargetSelection {
    fn default() -> TargetSelection {
        let host = CpuTarget::host();
        TargetSelection { host, levels: BTreeSet::new(), schedule_for: None, device: None }
    }
}

/// A device that kernels are compiled for.
#[derive(Clone)]
pub(crate) struct TargetDevice {
    /// The open device; `None` for a GPU that is named by its architecture alone.
    pub(crate) id: Option<DLDevice>,
    pub(crate) gpu: GpuTarget,
}

impl TargetDevice {
    /// Opens the device that a text such as `cuda:0` names, or takes an architecture, `cuda:sm_80`;
    /// `None` for CPUs.
    pub(crate) fn of(text: &str) -> Result<Option<TargetDevice>, Error> {
        let Some(number) = text.strip_prefix("cuda") else { return Ok(None) };
        if let Ok(gpu) = text.parse() {
            return Ok(Some(TargetDevice { id: None, gpu }));
        }
        let number = match number {
            "" => Some(0),
            number => number.strip_prefix(':').and_then(|n| n.parse::<u16>().ok()),
        };
        let unsupported = |why: String| Error::new(ErrorKind::Unsupported, why);
        let number = number.ok_or_else(|| unsupported(format!("there is no device {text:?}")))?;
        let device =
            open_gpu(number).map_err(|why| unsupported(format!("device {text}: {why}")))?;
        let properties = device.properties();
        let gpu = match properties.compute_capability {
            Some((9, 0)) => "cuda:sm_90a",
            Some(capability) if capability >= (8, 0) => "cuda:sm_80",
            capability => {
                let (major, minor) = capability.unwrap_or_default();
                let name = &properties.name;
                return Err(unsupported(format!(
                    "device {text} ({name}) is sm_{major}{minor}; kernels need sm_80 or newer"
                )));
            }
        };
        let gpu: GpuTarget = gpu.parse().map_err(unsupported)?;
        Ok(Some(TargetDevice { id: Some(device.id()), gpu }))
    }

    /// Its name, for messages.
    pub(crate) fn name(&self) -> String {
        self.id.map_or_else(|| self.gpu.name.clone(), |id| id.to_string())
    }
}

#[cfg(feature = "cuda")]
fn open_gpu(number: u16) -> Result<&'static dyn Device, String> {
    reflex_cuda::open(i32::from(number)).map_err(|error| error.message().into_owned())
}

#[cfg(not(feature = "cuda"))]
fn open_gpu(_: u16) -> Result<&'static dyn Device, String> {
    Err(crate::error::lacks("cuda").to_string())
}

/// Returns the devices that a text names: `cpu`, or a list such as `cpu:0,cpu:1`.
pub(crate) fn devices(text: &str) -> Result<Devices, Error> {
    if text == "cpu" {
        return Ok(Devices::ByIndex);
    }
    let number = |name: &str| match name.trim() {
        "cpu" => Some(0),
        name => name.strip_prefix("cpu:")?.parse::<u16>().ok().map(i32::from),
    };
    let unsupported = |why: String| Error::new(ErrorKind::Unsupported, why);
    let known = "there is cpu, or a list such as cpu:0,cpu:1";
    let listed: Option<Vec<i32>> = text.split(',').map(number).collect();
    match listed {
        Some(listed) if listed[0] == 0 => {
            Ok(Devices::Listed(listed.into_iter().map(DLDevice::cpu).collect()))
        }
        Some(_) => Err(unsupported(format!(
            "the devices {text:?} do not begin with cpu:0, where constants are"
        ))),
        None => Err(unsupported(format!("there is no device {text:?}; {known}"))),
    }
}

/// Arithmetic of f32 matmuls and convolutions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Single precision, with fused multiply-add.
    #[default]
    F32,
    /// [`Precision::F32`], but on CPUs with AMX large GEMMs may use split-bf16 emulation (bf16x3): each product is within 2^-15 of
    /// itself. On other CPUs this is [`Precision::F32`], which is faster there than split-bf16. On GPUs of Hopper's generation long
    /// products are bf16x6, whose errors are at most those of [`Precision::F32`].
    F32Fast,
    /// Operands of GEMMs and of dense and grouped convolutions rounded to bfloat16, with
    /// accumulation in single precision. The CPU must have AVX512_BF16.
    Bf16,
    /// Matrix multiplications by constant weights on 8-bit integers: weights rounded with a scale for each
    /// column, activations with one for each row (dynamic quantization). All else is [`Precision::F32`].
    Int8,
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Precision, String> {
        match text {
            "f32" => Ok(Precision::F32),
            "f32-fast" => Ok(Precision::F32Fast),
            "bf16" => Ok(Precision::Bf16),
            "int8" => Ok(Precision::Int8),
            _ => Err(format!("no precision {text:?}; use f32, f32-fast, bf16 or int8")),
        }
    }
}

type Callback = dyn Fn(&str, usize, usize) + Send + Sync;

/// Called with a stage's name, how many of its steps are done, and how many there are.
#[derive(Clone)]
pub struct Progress(Arc<Callback>);

impl Progress {
    /// Wraps a callback, which may be called from any thread.
    ///
    /// ```
    /// let progress = reflex::Progress::new(|stage, done, total| {
    ///     eprintln!("{stage}: {done} of {total}");
    /// });
    /// progress.report("kernels", 1, 2);
    /// ```
    pub fn new(callback: impl Fn(&str, usize, usize) + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(callback))
    }

    /// Returns a callback that does nothing.
    ///
    /// ```
    /// reflex::Progress::silent().report("kernels", 1, 2);
    /// ```
    pub fn silent() -> Progress {
        Progress::new(|_, _, _| ())
    }

    /// Calls the callback.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// static DONE: AtomicUsize = AtomicUsize::new(0);
    /// reflex::Progress::new(|_, done, _| DONE.store(done, Relaxed)).report("kernels", 1, 2);
    /// assert_eq!(DONE.load(Relaxed), 1);
    /// ```
    pub fn report(&self, stage: &str, done: usize, total: usize) {
        (self.0)(stage, done, total);
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::silent()
    }
}
