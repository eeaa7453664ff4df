//! Global functions of a session, and the loading of its models.

use std::path::PathBuf;
use std::sync::Arc;

use reflex_rpc::names;
use reflex_rpc::serve::{Host, builtins};
use reflex_rpc::store::Store;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::Function;
use reflex_runtime::module::Module;
use reflex_runtime::registry;
use reflex_runtime::value::Any;
use reflex_tir::level::Level;

use super::options::ServeOptions;
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
    options.engine.load_module(path, options.mode).map_err(raised)
}
