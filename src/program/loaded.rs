//! A loaded program: bytecode linked to its kernels, and the tier that its sessions share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "compiler")]
use reflex_graph::{ConstantPool, Literal};
use reflex_runtime::abi::DLDevice;
use reflex_runtime::device::Device;
use reflex_runtime::function::Function;
use reflex_runtime::module::{Imports, Module};
use reflex_vm::devices::Devices;
use reflex_vm::executable::{Constant, Executable, FuncKind};
use reflex_vm::session as vm;
use reflex_vm::tier::Bailout;
use reflex_vm::verify::{self, Verified};
use reflex_vm::{load, program, text};

use super::shape_variant::{NamedVariant, ShapeVariant};
use super::tier::ProgramTier;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::DeviceCodes;
#[cfg(feature = "device")]
use crate::kernels::device::{DeviceKernels, needs_device};
#[cfg(feature = "compiler")]
use crate::kernels::objects::{ByCpu, KernelObjects};
use crate::kernels::tiered::TieredKernels;
use crate::options::{ExecutionOptions, Mode, SessionOptions, devices};
use crate::session::batches::{impurity, obstacle};
use crate::session::plain::{PlainOptions, PlainSession};
use crate::signature::{KernelOperations, Signature};
use crate::tier_policy::Tiering;
use crate::tier_report::{TierDetail, TierReport};

/// A program that sessions run. It is not specialised by itself.
pub(crate) struct LoadedProgram {
    vm: Arc<program::Program>,
    resources: Resources,
    variants: Arc<[ShapeVariant]>,
    /// The tier, made at first use, or the reason why it cannot be made.
    tier: OnceLock<std::result::Result<ProgramTier, String>>,
    /// Functions that compiled mode leaves to the interpreter.
    bailouts: OnceLock<Vec<(u32, Bailout)>>,
    /// Whether results can be written in memory of a caller's.
    outputs_in_place: OnceLock<bool>,
    /// The same model for a GPU, which is saved with this one.
    companion: Option<Arc<LoadedProgram>>,
}

/// The parts of a program that are not bytecode. A fork shares them.
#[derive(Clone)]
pub(crate) struct Resources {
    /// The packed functions that the VM links by name.
    pub(crate) library: Arc<dyn load::Library + Send + Sync>,
    /// That library, if its kernels are replaced while calls go on.
    pub(crate) tiered: Option<Arc<TieredKernels>>,
    /// The device that it computes on.
    pub(crate) device: DLDevice,
    /// Kernels that the CPU runs, as the device has no code for them.
    pub(crate) on_cpu: Arc<[String]>,
    pub(crate) signatures: Arc<BTreeMap<String, Signature>>,
    /// The kernels as object files, if this process compiled them to be saved.
    #[cfg(feature = "compiler")]
    pub(crate) objects: Option<Arc<KernelObjects>>,
    /// Modules beside the program: those of an artifact, or of external code generators.
    pub(crate) imports: Arc<[Module]>,
    /// The kernels for a GPU, if the program computes on one.
    pub(crate) device_code: Option<Arc<DeviceCodes>>,
    /// The code that the device made them of.
    pub(crate) device_code_source: Option<Arc<str>>,
    /// Why no session runs it: CPU features that its kernels need, or a device that is not open.
    pub(crate) obstacle: Option<String>,
    pub(crate) execution: ExecutionOptions,
    /// The program's compiler, for `reflex info`.
    pub(crate) origin: String,
    pub(crate) operations: Arc<KernelOperations>,
    /// The functions that were compiled for known shapes.
    pub(crate) variants: Arc<[NamedVariant]>,
    /// Machine code of VM functions from the artifact.
    pub(crate) saved_code: Option<Arc<[u8]>>,
    /// The listing of an executable of Relay's virtual machine.
    pub(crate) listing: Option<Arc<str>>,
}

impl Resources {
    /// Makes the kernels those for a GPU, and the present ones those for host memory. Without a device
    /// no session runs the program.
    #[cfg(feature = "device")]
    pub(crate) fn compute_on(
        &mut self,
        codes: DeviceCodes,
        device: Option<&'static dyn Device>,
    ) -> Result<()> {
        let on_cpu = self.library.clone();
        match device {
            Some(device) => {
                let kernels = DeviceKernels::load(&codes, on_cpu, device)?;
                self.device_code_source = Some(kernels.made_of().into());
                self.library = Arc::new(kernels);
                self.device = device.id();
            }
            None => {
                self.library = Arc::new(DeviceKernels::closed(&codes, on_cpu));
                self.obstacle = Some(needs_device(&codes.gpu));
            }
        }
        self.on_cpu = codes.on_cpu.as_slice().into();
        self.device_code = Some(Arc::new(codes));
        Ok(())
    }

    #[cfg(not(feature = "device"))]
    pub(crate) fn compute_on(
        &mut self,
        codes: DeviceCodes,
        _: Option<&'static dyn Device>,
    ) -> Result<()> {
        match codes.never {}
    }
}

impl LoadedProgram {
    /// Links bytecode to its packed functions.
    pub(crate) fn link(exec: Verified<Executable>, resources: Resources) -> Result<LoadedProgram> {
        let failed = |e: load::LoadError| Error::new(ErrorKind::Model, e.to_string());
        let imports = ImportedFunctions(&resources.imports);
        let libraries: [&dyn load::Library; 2] = [resources.library.as_ref(), &imports];
        let vm = program::Program::load_on(exec, &libraries, resources.device).map_err(failed)?;
        let (tier, bailouts, outputs_in_place) =
            (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let lacking = |v: &NamedVariant| {
            let text = format!("the program lacks `{}` or `{}`", v.function, v.variant);
            Error::new(ErrorKind::Model, text)
        };
        let link = |v: &NamedVariant| v.link(|name| vm.find(name)).ok_or_else(|| lacking(v));
        let variants = resources.variants.iter().map(link).collect::<Result<_>>()?;
        let companion = None;
        let vm = Arc::new(vm);
        if let Some(tiered) = &resources.tiered {
            tiered.serve(&vm);
        }
        Ok(LoadedProgram { vm, resources, variants, tier, bailouts, outputs_in_place, companion })
    }

    /// Links the same bytecode again: kernels and constants are shared, tiers start empty.
    pub(crate) fn fork(&self) -> Result<LoadedProgram> {
        let fork = LoadedProgram::link(self.vm.executable().clone(), self.resources.clone())?;
        Ok(LoadedProgram { companion: self.companion.clone(), ..fork })
    }

    /// Returns the program with one for a GPU that is saved with it.
    #[cfg(feature = "compiler")]
    pub(crate) fn with_companion(self, companion: LoadedProgram) -> LoadedProgram {
        LoadedProgram { companion: Some(Arc::new(companion)), ..self }
    }

    #[cfg(feature = "compiler")]
    pub(crate) fn companion(&self) -> Option<&LoadedProgram> {
        self.companion.as_deref()
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Returns the variants of its functions for known shapes.
    pub(crate) fn variants(&self) -> &Arc<[ShapeVariant]> {
        &self.variants
    }

    /// Returns the kernels as object files, the best that there are; `None` if this process did not
    /// compile them.
    #[cfg(feature = "compiler")]
    pub(crate) fn objects(&self) -> Result<Option<Cow<'_, ByCpu>>> {
        let Some(objects) = &self.resources.objects else { return Ok(None) };
        let mut list = objects.read()?;
        let Some(tiered) = &self.resources.tiered else { return Ok(Some(list)) };
        for object in list.to_mut().iter_mut().flat_map(|(_, objects)| objects) {
            if let Some(better) = tiered.replacement(&object.signature.name) {
                *object = better;
            }
        }
        Ok(Some(list))
    }

    pub(crate) fn executable(&self) -> &Verified<Executable> {
        self.vm.executable()
    }

    /// Returns the index of a function.
    pub(crate) fn function_index(&self, func: &str) -> Option<u32> {
        self.vm.find(func)
    }

    /// Returns its constants, for a program that shares their memory.
    #[cfg(feature = "compiler")]
    pub(crate) fn constants(&self) -> ConstantPool {
        let constants = self.vm.executable().constants.iter();
        let literal = |constant: &Constant| match constant {
            Constant::Tensor(tensor) => {
                let data = Arc::new(tensor.data.clone());
                Literal::new(tensor.dtype, tensor.shape.to_vec(), data)
            }
            _ => None,
        };
        constants.filter_map(literal).collect()
    }

    /// Opens a session that runs this program only.
    pub(crate) fn open(&self, options: &SessionOptions) -> Result<PlainSession> {
        let devices = self.devices(options)?;
        if let Some(obstacle) = &self.resources.obstacle {
            return Err(Error::new(ErrorKind::Unsupported, obstacle.as_str()));
        }
        let mode = match options.mode {
            Mode::Tiered if self.is_tiering_off() => Mode::Bytecode,
            mode => mode,
        };
        let tier = match mode {
            Mode::Bytecode => None,
            Mode::Compiled | Mode::Tiered => Some(self.tier()?.of_session()),
        };
        if mode == Mode::Compiled {
            self.bailouts.get_or_init(|| self.vm.compile_ahead_of_time());
        }
        let allocators = options.allocators.clone();
        let kernels = self.resources.tiered.clone();
        let library = &self.resources.library;
        let is_kernel = |name: &str| library.function(name).is_some();
        let impurity = match self.resources.device.is_cpu() {
            true => None,
            false => obstacle(self.vm.executable(), is_kernel),
        };
        let outputs_in_place = self.can_write_outputs_in_place();
        let threads = self.resources.execution.threads;
        let options = PlainOptions {
            mode,
            tier,
            kernels,
            allocators,
            devices,
            threads,
            impurity,
            outputs_in_place,
        };
        PlainSession::open(&self.vm, options)
    }

    /// Returns the devices of a session: those that it asks for, which are CPUs, or the program's.
    fn devices(&self, options: &SessionOptions) -> Result<Devices> {
        let own = self.resources.device;
        match &options.device {
            None if own.is_cpu() => Ok(Devices::ByIndex),
            None => Ok(Devices::Listed(vec![own])),
            Some(text) if own.is_cpu() => devices(text),
            Some(text) if *text == own.to_string() => Ok(Devices::Listed(vec![own])),
            Some(text) => {
                let text = format!("the program was compiled for {own}, not for {text}");
                Err(Error::new(ErrorKind::Unsupported, text))
            }
        }
    }

    /// Whether kernels can write results in memory of a caller's. What is called beside kernels and
    /// builtins may keep a tensor. Kernels of other compilers, which have no raw entries, may need more
    /// alignment than that memory has.
    fn can_write_outputs_in_place(&self) -> bool {
        *self.outputs_in_place.get_or_init(|| {
            let is_own = |name: &str| self.resources.library.raw(name).is_some();
            self.resources.device.is_cpu() && impurity(self.vm.executable(), is_own).is_none()
        })
    }

    /// Returns true if the tier policy turns compilation off, or this build has no tier.
    pub(crate) fn is_tiering_off(&self) -> bool {
        !ProgramTier::IS_BUILT || self.resources.execution.policy.tiering == Tiering::Off
    }

    /// Returns the tier, which is made and attached at first use. Saved code runs from then on.
    fn tier(&self) -> Result<&ProgramTier> {
        let Resources { saved_code, execution, .. } = &self.resources;
        let attach = || ProgramTier::attach(&self.vm, &execution.policy, saved_code.as_deref());
        let tier = self.tier.get_or_init(attach);
        tier.as_ref().map_err(|e| Error::new(ErrorKind::Compile, e.clone()))
    }

    /// Sizes and counts of the bytecode; of a library also the state of its saved code.
    pub(crate) fn stats(&self) -> String {
        let mut stats = text::stats(self.vm.executable());
        if let Some(made_of) = &self.resources.device_code_source {
            stats = format!("{}\nCode of the device: {made_of}\n", stats.trim_end());
        }
        let Some(code) = &self.resources.saved_code else { return stats };
        if !stats.ends_with('\n') {
            stats.push('\n');
        }
        let state = match self.tier() {
            Ok(tier) => tier.saved_code_state(&self.vm),
            Err(error) => format!("not used: {error}"),
        };
        stats += &format!("Machine code of VM functions ({} bytes): {state}\n", code.len());
        stats
    }

    /// Reports the state of the tier, with the counts of a session if one is given.
    pub(crate) fn tier_report(
        &self,
        session: Option<&vm::Session>,
        detail: TierDetail,
    ) -> TierReport {
        match self.tier.get().and_then(|tier| tier.as_ref().ok()) {
            Some(tier) => tier.report(&self.vm, session, detail),
            None => TierReport { off: self.is_tiering_off(), ..TierReport::default() },
        }
    }
}

/// The functions of modules beside a program.
pub(super) struct ImportedFunctions<'a>(pub(super) &'a [Module]);

impl load::Library for ImportedFunctions<'_> {
    fn function(&self, name: &str) -> Option<Function> {
        // A module that fails to look up lacks the function; the program is then refused by name.
        self.0.iter().find_map(|module| module.function(name, Imports::Search).ok()?)
    }
}

/// Verifies an executable that defines a function.
pub(crate) fn verified(exec: Executable) -> Result<Verified<Executable>> {
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Model, e.to_string());
    if !exec.functions.iter().any(|f| f.kind != FuncKind::Packed) {
        return Err(failed(&"the executable defines no function"));
    }
    verify::verify(exec).map_err(|e| failed(&e))
}
