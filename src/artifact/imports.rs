//! The modules that a library carries beside its program: each kind is made by the function
//! `ffi.Module.load_from_bytes.KIND` of the registry. That of `cuda`, for TVM's kernels, is registered
//! here.

#[cfg(feature = "cuda")]
use reflex_cuda::tvm::{DeviceModule, KIND, register_loader};
use reflex_runtime::bundle::{LIBRARY_KIND, LOADER_PREFIX};
use reflex_runtime::device::Device;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::Function;
use reflex_runtime::library::Library;
use reflex_runtime::module::{Functions, Module};
use reflex_runtime::registry;
use reflex_runtime::string::Bytes;
use reflex_runtime::value::Any;

use super::EXECUTABLE_KIND;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "cuda")]
use crate::kernels::device::needs_device;
use crate::program::loaded::Resources;

/// The modules of a bundle, linked to those that they import.
pub(crate) struct Tree {
    /// The root; the library itself where the program is the root.
    pub(crate) root: Module,
    /// Those that the program or the library imports, without the library.
    pub(crate) imports: Vec<Module>,
}

/// Makes the modules of a library's bundle; `own` stands for the library itself. Its code finds the
/// functions of the modules that it and the program import.
pub(crate) fn tree(library: &Library, own: Module) -> Result<Tree> {
    let failed = |e: Raised| Error::new(ErrorKind::Model, e.message());
    let Some(bundle) = library.bundle() else {
        return Ok(Tree { root: own, imports: vec![] });
    };
    let mut made = vec![];
    for module in bundle.modules() {
        made.push(match module.kind.as_str() {
            EXECUTABLE_KIND => None,
            LIBRARY_KIND => Some(own.clone()),
            kind => {
                let bytes = library.bundle_bytes(module.bytes.clone());
                Some(load(kind, bytes).map_err(failed)?)
            }
        });
    }
    let mut imports = vec![];
    for (module, described) in made.iter().zip(bundle.modules()) {
        for child in described.imports.iter().filter_map(|at| made[*at].as_ref()) {
            if module.as_ref().is_none_or(|module| module.same(&own)) && !child.same(&own) {
                imports.push(child.clone());
            }
            if let Some(module) = module {
                module.import(child).map_err(failed)?;
            }
        }
    }
    library.provide_modules(imports.clone()).map_err(failed)?;
    Ok(Tree { root: made.into_iter().next().flatten().unwrap_or(own), imports })
}

/// Makes a module from its serialized form.
fn load(kind: &str, bytes: &[u8]) -> std::result::Result<Module, Raised> {
    #[cfg(feature = "cuda")]
    if kind == KIND {
        register_loader();
    }
    let name = format!("{LOADER_PREFIX}{kind}");
    let loader = registry::get(&name).ok_or_else(|| {
        Raised::new(
            "NotImplementedError",
            format!(
                "its bundle holds a module of kind `{kind}`, and no function `{name}` is registered \
                 that loads it"
            ),
        )
    })?;
    let bytes = Any::from(Bytes::new(bytes));
    Module::try_from(loader.call(&[bytes.view()])?)
}

/// Lets a program compute on a device where kernels of TVM's for one are among the modules beside it: they
/// are loaded there. Without a device no session runs the program. Returns whether there are such kernels.
#[cfg(feature = "cuda")]
pub(crate) fn place_kernels(
    resources: &mut Resources,
    device: Option<&'static dyn Device>,
) -> Result<bool> {
    let modules = resources.imports.iter();
    let kernels: Vec<_> = modules.filter_map(Module::functions::<DeviceModule>).collect();
    if kernels.is_empty() {
        return Ok(false);
    }
    match device {
        Some(device) => {
            let load = |kernels: &DeviceModule| kernels.load_on(device.id());
            let loaded = kernels.into_iter().try_for_each(load);
            loaded.map_err(|e| Error::new(ErrorKind::Model, e.message()))?;
            resources.device = device.id();
        }
        None => resources.obstacle = Some(needs_device(KIND)),
    }
    Ok(true)
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn place_kernels(_: &mut Resources, _: Option<&'static dyn Device>) -> Result<bool> {
    Ok(false)
}

/// The packed functions of a library.
pub(crate) struct LibraryFunctions(pub(crate) Library);

impl Functions for LibraryFunctions {
    fn kind(&self) -> &str {
        "library"
    }

    fn function(&self, name: &str) -> std::result::Result<Option<Function>, Raised> {
        Ok(self.0.function(name))
    }
}
