//! Global functions of a session, and the loading of its models.

use std::path::PathBuf;
use std::sync::Arc;

use reflex_rpc::module::{Functions, Module};
use reflex_rpc::names;
use reflex_rpc::serve::{Host, builtins};
use reflex_rpc::store::Store;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::Function;
use reflex_runtime::library::Library;
use reflex_runtime::registry;
use reflex_runtime::value::Any;
use reflex_tir::level::Level;

use super::options::ServeOptions;
use super::virtual_machine::ExecutableModule;
use crate::error::Error;
use crate::model_source::ModelFormat;

/// The functions and files that the clients of a session find.
pub(super) struct ModelHost {
    store: Store,
    load: Arc<builtins::Load>,
    allow_code: bool,
}

impl ModelHost {
    pub(super) fn new(options: ServeOptions) -> ModelHost {
        let store = Store::new(&options.folder, &options.contents, options.limits);
        let allow_code = options.allow_code;
        let files = store.clone();
        let load = move |name: &str| load(&options, &files, name);
        ModelHost { store, load: Arc::new(load), allow_code }
    }
}

impl Host for ModelHost {
    fn global(&mut self, name: &str) -> Result<Option<Function>, Raised> {
        let builtin = builtins::get(name, &self.store, &self.load);
        if builtin.is_some() {
            return Ok(builtin);
        }
        if name == names::TARGET {
            let text = target(self.allow_code);
            return Ok(Some(Function::new(move |_| Ok(Any::from(&*text)))));
        }
        // Functions that this process registered do not expect the arguments of untrusted clients.
        Ok(if self.allow_code { registry::get(name) } else { None })
    }
}

/// JSON of the version, the CPU's levels, the lowest first, and whether libraries are opened.
fn target(allow_code: bool) -> String {
    let levels = Level::ALL.into_iter().filter(|level| level.runs_on_host());
    let levels: Vec<&str> = levels.map(Level::short).collect();
    let version = env!("CARGO_PKG_VERSION");
    serde_json::json!({ "version": version, "levels": levels, "code": allow_code }).to_string()
}

/// Loads a file of the session, or else one of the server's models.
fn load(options: &ServeOptions, store: &Store, name: &str) -> Result<Module, Raised> {
    let uploaded = store.path(name)?;
    if uploaded.exists() {
        return open(options, uploaded, options.allow_code);
    }
    if let Some(models) = &options.models {
        let path = Store::new(models, models, options.limits).path(name)?;
        if path.exists() {
            return open(options, path, true);
        }
    }
    Err(Raised::new("OSError", format!("there is no file {name:?}")))
}

fn open(options: &ServeOptions, path: PathBuf, trusted: bool) -> Result<Module, Raised> {
    let raised = |e: Error| e.to_object();
    let format = ModelFormat::of_path(&path).map_err(raised)?;
    let is_library = format == ModelFormat::Library;
    // The kernels of a Relay executable are in a library beside it.
    if (is_library || format == ModelFormat::RelayExecutable) && !trusted {
        return Err(Raised::new(
            "PermissionError",
            "uploaded machine code is not loaded: the server was started without --allow-code",
        ));
    }
    if is_library && let Some(kernels) = PlainLibrary::open(&path)? {
        return Ok(Module::new(kernels));
    }
    let program = options.engine.load(path).map_err(raised)?;
    Ok(Module::new(ExecutableModule::new(program, options.mode)))
}

/// A library of kernels without a program.
struct PlainLibrary(Library);

impl PlainLibrary {
    /// The library at `path`; None if it has a program.
    fn open(path: &std::path::Path) -> Result<Option<PlainLibrary>, Raised> {
        // SAFETY: the server's owner allows machine code of clients, or put the file there.
        let library = unsafe { Library::open(path)? };
        let bundle = library.bundle();
        let has_program = library.legacy_executable().is_some()
            || bundle.is_some_and(|bundle| bundle.find(crate::artifact::EXECUTABLE_KIND).is_some());
        Ok((!has_program).then_some(PlainLibrary(library)))
    }
}

impl Functions for PlainLibrary {
    fn function(&self, name: &str) -> Result<Option<Function>, Raised> {
        Ok(self.0.function(name))
    }
}
