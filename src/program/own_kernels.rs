//! Programs whose kernels this process compiled: they are saved, listed and shown.

use std::path::Path;

use reflex_runtime::module::{Imports, Module};
use reflex_tir::codegen::{Arch, KernelTier, ObjectFile};
use reflex_vm::executable::Executable;

use super::loaded::{ImportedFunctions, LoadedProgram, verified};
use super::{Program, tier};
use crate::artifact::device::{CompanionProgram, DeviceSection};
use crate::artifact::metadata::Metadata;
use crate::artifact::writer::{self, Contents};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::{DeviceCodes, ptxas};
use crate::kernels::objects::ByCpu;
use crate::kernels::tiered::KernelState;
use crate::options::CubinOptions;

impl Program {
    /// Writes the artifact that [`Engine::load`](crate::Engine::load) and TVM open, with saved code
    /// for its functions. Kernels for a GPU are in it as PTX, and as cubins where `ptxas` is found
    /// ([`EngineBuilder::cubins`](crate::EngineBuilder::cubins)). Returns its size in bytes. The name ends in `.so`, by which the file is
    /// known for a library; it appears when it is complete.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("softmax.so");
    /// let bytes = program.save(&path)?;
    /// assert_eq!(path.metadata().unwrap().len(), bytes);
    /// assert!(program.save(&folder.path().join("softmax.dll")).is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        let resources = self.loaded.resources();
        if let Some(tiered) = &resources.tiered {
            tiered.wait_for_all();
        }
        let kernels = self.loaded.objects()?.ok_or_else(|| {
            let text = match &resources.listing {
                None => "a .so is compiled already; compile the model itself",
                Some(_) => {
                    "an executable of Relay's virtual machine is shipped as it is, with its kernels"
                }
            };
            Error::new(ErrorKind::Unsupported, text)
        })?;
        let imports = saved_imports(&resources.imports, self.loaded.executable())?;
        let exec = verified(writer::aligned(self.loaded.executable(), imports.len())?)?;
        let imported = ImportedFunctions(&resources.imports);
        let arch = kernels.first().and_then(|(cpu, _)| cpu.target.arch()).unwrap_or(Arch::HOST);
        writer::check_name(path.as_ref(), arch)?;
        let saved_code = match resources.device_code {
            // Machine code of VM functions is this process's.
            None if arch != Arch::HOST => None,
            None => tier::machine_code(exec.clone(), &[resources.library.as_ref(), &imported])?,
            Some(_) => None,
        };
        let mut metadata = Metadata::new(&kernels, resources);
        let companion = self.loaded.companion();
        let others = companion.and_then(|program| program.resources().objects.as_ref());
        let others = others.map(|objects| objects.read()).transpose()?;
        let device = self.device_section(others.as_deref())?;
        let beside = device.as_ref().filter(|section| section.companion.is_some());
        metadata.gpu = beside.map(|section| section.codes.description());
        let all = kernels.iter().chain(others.iter().flat_map(|kernels| kernels.iter()));
        let contents = Contents {
            arch,
            executable: &exec,
            saved_code: saved_code.as_deref(),
            kernels: all.flat_map(|(_, objects)| objects).collect(),
            metadata: &metadata,
            device,
            imports,
        };
        writer::write(path.as_ref(), &contents)
    }

    /// The artifact's section for a GPU: this program's code, or its companion with the kernels in
    /// host memory.
    fn device_section(&self, kernels: Option<&ByCpu>) -> Result<Option<DeviceSection<'_>>> {
        let code = |program: &LoadedProgram| -> Result<Option<DeviceCodes>> {
            let resources = program.resources();
            let Some(codes) = resources.device_code.as_deref() else { return Ok(None) };
            let mut codes = codes.clone();
            let CubinOptions { archs, progress } = &resources.execution.cubins;
            codes.assemble(archs.as_ref(), |done, of| progress.report("cubins", done, of))?;
            Ok(Some(codes))
        };
        if let Some(codes) = code(&self.loaded)? {
            return Ok(Some(DeviceSection { codes, companion: None }));
        }
        let Some(program) = self.loaded.companion() else { return Ok(None) };
        let Some(codes) = code(program)? else { return Ok(None) };
        let metadata = Metadata::new(kernels.unwrap_or_default(), program.resources());
        let companion = Some(CompanionProgram::new(program.executable(), &metadata)?);
        Ok(Some(DeviceSection { codes, companion }))
    }

    /// Whether [`Program::save`] finds `ptxas`, which makes cubins of a program for a GPU; an error where
    /// `REFLEX_PTXAS` names no file.
    ///
    /// ```
    /// if !reflex::Program::has_ptxas()? {
    ///     println!("the driver compiles kernels at load");
    /// }
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn has_ptxas() -> Result<bool> {
        Ok(ptxas::find()?.is_some())
    }

    /// Returns the kernels that this process compiled, by name, with their code generators; an error
    /// for a program whose kernels come from a library, which does not say.
    ///
    /// ```
    /// use reflex::{Engine, KernelTier};
    ///
    /// let engine = Engine::builder().tier("kernels=cranelift".parse()?).build()?;
    /// let kernels = engine.load("examples/softmax.py")?.kernels()?;
    /// assert!(kernels.iter().all(|(_, tier)| *tier == KernelTier::Baseline));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn kernels(&self) -> Result<Vec<(String, KernelTier)>> {
        let objects = self.loaded.resources().objects.as_deref().ok_or_else(|| {
            let why = "the kernels of a library or of another device do not say what compiled them";
            Error::new(ErrorKind::Unsupported, why)
        })?;
        if let Some(tiered) = &self.loaded.resources().tiered {
            let states = tiered.states().into_iter();
            return Ok(states.map(|state| (state.name, state.tier)).collect());
        }
        Ok(objects.tiers().map(|(name, tier)| (name.to_owned(), tier)).collect())
    }

    /// Returns the kernels whose code is replaced while calls go on, with their tiers and why they are in
    /// them; none unless the tier policy says `kernels=tiered` and a kernel was not in the cache.
    ///
    /// ```
    /// let program = reflex::Engine::new()?.load("examples/softmax.py")?;
    /// for kernel in program.kernel_states() {
    ///     println!("{kernel}");
    /// }
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn kernel_states(&self) -> Vec<KernelState> {
        self.loaded.resources().tiered.as_ref().map_or(vec![], |tiered| tiered.states())
    }

    /// Waits until no kernel that was called waits for better code.
    ///
    /// ```
    /// let program = reflex::Engine::new()?.load("examples/softmax.py")?;
    /// program.wait_for_kernels();
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn wait_for_kernels(&self) {
        if let Some(tiered) = &self.loaded.resources().tiered {
            tiered.wait();
        }
    }

    /// Returns the assembly of a kernel.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// let error = program.assembly("no_kernel").unwrap_err();
    /// assert!(error.to_string().starts_with("no kernel \"no_kernel\"; there are"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn assembly(&self, func: &str) -> Result<String> {
        let list = self.loaded.objects()?.ok_or_else(|| {
            let why = "this program has no objects; see Engine::assembly for a .so";
            Error::new(ErrorKind::Unsupported, why)
        })?;
        let objects = || list.iter().flat_map(|(_, objects)| objects);
        let names = || objects().map(|o| o.signature.name.as_str()).collect::<Vec<_>>();
        let object = objects().find(|o| o.signature.name == func).ok_or_else(|| {
            Error::input(format!("no kernel {func:?}; there are {}", names().join(", ")))
        })?;
        disassembly(object)
    }
}

#[cfg(feature = "disassembly")]
fn disassembly(kernel: &ObjectFile) -> Result<String> {
    crate::disassemble::object(kernel)
}

#[cfg(not(feature = "disassembly"))]
fn disassembly(_: &ObjectFile) -> Result<String> {
    Err(crate::error::lacks("disassembly"))
}

/// Modules that a program calls, as kinds and bytes; one that cannot be saved is an error by the functions that
/// the program has of it.
fn saved_imports(modules: &[Module], exec: &Executable) -> Result<Vec<(String, Vec<u8>)>> {
    let unsupported = |why: String| Error::new(ErrorKind::Unsupported, why);
    let saved = modules.iter().map(|module| {
        let kind = module.kind().map_err(|e| unsupported(e.message().into_owned()))?;
        let bytes = module.to_bytes().ok_or_else(|| {
            let names = exec.functions.iter().map(|func| func.name.as_str());
            let has = |name: &&str| matches!(module.function(name, Imports::Search), Ok(Some(_)));
            let names: Vec<&str> = names.filter(has).collect();
            let names = names.join(", ");
            unsupported(format!(
                "the module of kind `{kind}` that has {names} cannot be saved: it gives no bytes"
            ))
        })?;
        Ok((kind, bytes))
    });
    saved.collect()
}
