//! A model: its file, its programs, and what its instances need to know of it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reflex::{Engine, Mode, Program, Signature};
use serde_json::Value;

use crate::config::{self, Settings, StatePort, WarmUp};
use crate::server::{Failure, ModelHandle, Outcome, c_string};

/// Names of a model's file, of which a version's folder has one.
const FILES: [&str; 5] = ["model.onnx", "model.so", "model.py", "model.relay", "model.ro"];

/// The name that the server gives the file of a model called `NAME.reflex` that has no configuration.
const UNNAMED: &str = "model.reflex";

/// The part that instances share.
pub(crate) struct Served {
    pub(crate) signature: Signature,
    /// The names of the outputs, in their order.
    pub(crate) output_names: Vec<CString>,
    pub(crate) function: String,
    pub(crate) mode: Mode,
    /// Whether requests are rows of a batch.
    pub(crate) batched: bool,
    pub(crate) states: Vec<StatePort>,
    pub(crate) warm_ups: Vec<WarmUp>,
    pub(crate) timeout: Option<Duration>,
}

/// A model of the server.
pub(crate) struct ModelState {
    file: PathBuf,
    settings: Settings,
    /// By device: the instances of one share a program.
    programs: Mutex<BTreeMap<String, Program>>,
    served: Arc<Served>,
}

impl ModelState {
    /// Loads the model and completes its configuration.
    pub(crate) fn open(handle: ModelHandle) -> Outcome<ModelState> {
        let mut config = handle.config()?;
        let settings = config::settings(&config).map_err(Failure::invalid)?;
        let folder = Path::new(&handle.folder()?).join(handle.version()?.to_string());
        let file = model_file(&folder, config["default_model_filename"].as_str().unwrap_or(""))?;
        let device = first_device(&config);
        let program = load(&file, &settings, &device)?;
        let signature = program.signature(&settings.function)?;
        if handle.wants_completion()? {
            let rows = default_max_batch(&handle.backend_config()?);
            config::complete(&mut config, &signature, rows).map_err(Failure::invalid)?;
            handle.set_config(&config)?;
        }
        config::check(&config, &signature).map_err(Failure::invalid)?;
        let served = Served {
            warm_ups: config::warm_ups(&config, &signature).map_err(Failure::invalid)?,
            batched: config::max_batch_size(&config) > 0,
            states: config::states(&config),
            function: settings.function.clone(),
            mode: settings.mode,
            timeout: settings.timeout,
            output_names: signature.outputs.iter().map(|output| c_string(&output.name)).collect(),
            signature,
        };
        let programs = Mutex::new(BTreeMap::from([(device, program)]));
        Ok(ModelState { file, settings, programs, served: Arc::new(served) })
    }

    pub(crate) fn served(&self) -> Arc<Served> {
        self.served.clone()
    }

    /// Returns the program for a device, which is loaded once.
    pub(crate) fn program(&self, device: &str) -> Outcome<Program> {
        let mut programs = self.programs.lock();
        if let Some(program) = programs.get(device) {
            return Ok(program.clone());
        }
        let program = load(&self.file, &self.settings, device)?;
        programs.insert(device.to_owned(), program.clone());
        Ok(program)
    }
}

fn load(file: &Path, settings: &Settings, device: &str) -> Outcome<Program> {
    let mut engine =
        Engine::builder().device(device).threads(settings.threads).precision(settings.precision);
    if let Some(policy) = &settings.tier {
        engine = engine.tier(policy.clone());
    }
    Ok(engine.build()?.load(file)?)
}

/// Returns the device of the first group of instances.
fn first_device(config: &Value) -> String {
    let group = &config["instance_group"][0];
    match group["kind"].as_str() {
        Some("KIND_GPU") => format!("cuda:{}", group["gpus"][0].as_i64().unwrap_or(0)),
        _ => "cpu".to_owned(),
    }
}

/// Returns the server's `default-max-batch-size`, 4 if it is not told otherwise.
fn default_max_batch(backend: &Value) -> i64 {
    let text = backend["cmdline"]["default-max-batch-size"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// Returns the file of a model: `named`, or the one that there is.
fn model_file(folder: &Path, named: &str) -> Outcome<PathBuf> {
    let names = if named.is_empty() || named == UNNAMED { &FILES[..] } else { &[named][..] };
    let found = names.iter().map(|name| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let text = format!("{} has no {}", folder.display(), names.join(", nor "));
        Failure::invalid(text)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_server_says_how_large_batches_are() {
        let backend = json!({ "cmdline": { "default-max-batch-size": "16" } });
        assert_eq!(default_max_batch(&backend), 16);
        assert_eq!(default_max_batch(&json!({})), 4);
    }

    #[test]
    fn instances_on_gpus_name_their_device() {
        let group = json!({ "kind": "KIND_GPU", "gpus": [1] });
        assert_eq!(first_device(&json!({ "instance_group": [group] })), "cuda:1");
        assert_eq!(first_device(&json!({})), "cpu");
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_the_folder() {
        let error = model_file(Path::new("no/such"), "").unwrap_err();
        assert!(error.message.starts_with("no/such has no model.onnx, nor model.so"));
        let error = model_file(Path::new("no/such"), "model.reflex").unwrap_err();
        assert!(error.message.starts_with("no/such has no model.onnx, nor model.so"));
        let error = model_file(Path::new("no/such"), "net.onnx").unwrap_err();
        assert_eq!(error.message, "no/such has no net.onnx");
    }
}
