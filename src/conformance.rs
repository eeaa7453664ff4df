//! ONNX's backend-test cases: a model, and inputs with expected outputs as serialized tensors.
//!
//! A case passes, is unsupported (the importer or compiler refused it, and says what), or
//! fails. Tolerance is that of ONNX's own runner: rtol 1e-3, atol 1e-7.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::array::{Array, Feed};
use crate::error::{Error, ErrorKind, Result};
use crate::stats::Difference;
use crate::{Engine, Mode, Program};

const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-7;

/// Verdict on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Every output of every data set is within tolerance.
    Pass,
    /// An output differs, or execution failed.
    Fail,
    /// Refused before execution.
    Unsupported,
}

/// Verdict and why.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Verdict.
    pub status: Status,
    /// Empty for a pass.
    pub reason: String,
}

/// Runs the case in `folder` (`model.onnx`, `test_data_set_*`).
pub fn run_case(engine: &Engine, folder: &Path, mode: Mode) -> CaseResult {
    let outcome = |status, reason: String| CaseResult { status, reason };
    let program = match engine.load(&folder.join("model.onnx")) {
        Ok(program) => program,
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return outcome(Status::Unsupported, error.to_string());
        }
        Err(error) => return outcome(Status::Fail, error.to_string()),
    };
    match data_sets(folder).and_then(|sets| run_sets(&program, &sets, mode)) {
        Ok(None) => outcome(Status::Pass, String::new()),
        Ok(Some(difference)) => outcome(Status::Fail, difference),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            outcome(Status::Unsupported, error.to_string())
        }
        Err(error) => outcome(Status::Fail, error.to_string()),
    }
}

fn data_sets(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io(folder, &e))?;
    let mut sets: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.is_dir() && p.file_name().is_some_and(is_data_set))
        .collect();
    sets.sort();
    if sets.is_empty() {
        return Err(Error::input(format!("{}: no test_data_set_*", folder.display())));
    }
    Ok(sets)
}

fn is_data_set(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("test_data_set_")
}

/// The first difference, if any.
fn run_sets(program: &Program, sets: &[PathBuf], mode: Mode) -> Result<Option<String>> {
    let signature = program.signature("main")?;
    let mut session = program.session(mode)?;
    for set in sets {
        let mut feed = Feed::new();
        for (i, port) in signature.inputs.iter().enumerate() {
            feed.insert(port.name.clone(), read(&set.join(format!("input_{i}.pb")))?);
        }
        let outputs = session.call(&program.prepare("main", &feed)?)?.arrays()?;
        for (i, (name, actual)) in outputs.iter().enumerate() {
            let expected = read(&set.join(format!("output_{i}.pb")))?;
            let difference = match Difference::of(actual, &expected, RTOL, ATOL) {
                Ok(d) if d.matches() => continue,
                Ok(d) => format!("element {}: {} instead of {}", d.at, d.actual, d.expected),
                Err(types) => types,
            };
            return Ok(Some(format!("{name}: {difference}")));
        }
    }
    Ok(None)
}

/// A serialized `TensorProto`.
fn read(path: &Path) -> Result<Array> {
    let literal = reflex_onnx::read_tensor_pb(path)?;
    Ok(Array {
        dtype: literal.dtype(),
        shape: literal.shape().to_vec(),
        data: literal.bytes().to_vec(),
    })
}
