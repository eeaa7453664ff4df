//! ONNX's backend-test cases: a model, and inputs with expected outputs as serialized tensors.
//!
//! A case passes, is unsupported (the importer or compiler refused it, and says what), or
//! fails. Tolerance is that of ONNX's own runner: rtol 1e-3 (of bfloat16 2^-6, two units in its last
//! place), and the atol of [`reflex_onnx::case_atol`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use reflex_onnx::Side;
use reflex_runtime::array::Array as Tuple;
use reflex_runtime::value::Any;
use serde::Serialize;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Mode;
use crate::program::Program;
use crate::session::Session;

pub use values::Tolerance;

mod values;

/// The relative tolerance of ONNX's own runner.
const RTOL: f64 = 1e-3;

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

impl Status {
    const ALL: [Status; 3] = [Status::Pass, Status::Fail, Status::Unsupported];

    /// Returns the word for it in lists and in JSON.
    ///
    /// ```
    /// assert_eq!(reflex::conformance::Status::Pass.name(), "pass");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Fail => "fail",
            Status::Unsupported => "unsupported",
        }
    }
}

/// Verdict and why.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Verdict.
    pub status: Status,
    /// Empty for a pass.
    pub reason: String,
}

/// The status of each case by name: a list that a later run is held to.
///
/// As text, a line is a status and the name of a case; `#` begins a comment.
///
/// ```
/// use reflex::conformance::{CaseList, Status};
///
/// let listed: CaseList = "pass test_abs\nunsupported test_adagrad\n".parse().unwrap();
/// let found: CaseList = [("test_abs", Status::Unsupported)].into_iter().collect();
/// let changes = listed.changes(&found);
/// assert_eq!(changes[0].to_string(), "test_abs: pass in the list, unsupported now");
/// assert_eq!(changes[1].to_string(), "test_adagrad: unsupported in the list, missing now");
/// assert!(changes.iter().all(|change| change.is_regression()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseList(BTreeMap<String, Status>);

/// A case whose status differs from the listed one; `None` where one side lacks the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the case.
    pub case: String,
    /// Status in the list.
    pub listed: Option<Status>,
    /// Status now.
    pub found: Option<Status>,
}

impl CaseList {
    /// Reads a list from a file; an error names the malformed line.
    ///
    /// ```
    /// use reflex::conformance::CaseList;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("cases.txt");
    /// let listed: CaseList = "pass test_abs\n".parse()?;
    /// listed.write(&path)?;
    /// assert_eq!(CaseList::read(&path)?, listed);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn read(path: &Path) -> Result<CaseList> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
        text.parse().map_err(|e: Error| e.at(path.display()))
    }

    /// Writes the list to a file, sorted by name.
    ///
    /// ```
    /// use reflex::conformance::{CaseList, Status};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("cases.txt");
    /// let found: CaseList = [("test_abs", Status::Pass)].into_iter().collect();
    /// found.write(&path)?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.to_string()).map_err(|e| Error::io(path, &e))
    }

    /// Drops the cases whose name does not satisfy `keep`.
    ///
    /// ```
    /// use reflex::conformance::CaseList;
    ///
    /// let mut listed: CaseList = "pass test_abs\npass test_add\n".parse()?;
    /// listed.retain(|case| case.contains("abs"));
    /// assert_eq!(listed, "pass test_abs".parse()?);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|case, _| keep(case));
    }

    /// Returns every difference of `found` from this list, sorted by name.
    ///
    /// ```
    /// use reflex::conformance::CaseList;
    ///
    /// let listed: CaseList = "pass test_abs\n".parse()?;
    /// assert!(listed.changes(&listed).is_empty());
    /// let found = "fail test_abs".parse()?;
    /// assert!(listed.changes(&found)[0].is_regression());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn changes(&self, found: &CaseList) -> Vec<Change> {
        let mut cases: Vec<&String> = self.0.keys().chain(found.0.keys()).collect();
        cases.sort();
        cases.dedup();
        let status = |list: &CaseList, case: &String| list.0.get(case).copied();
        let changes = cases.into_iter().map(|case| Change {
            case: case.clone(),
            listed: status(self, case),
            found: status(found, case),
        });
        changes.filter(|change| change.listed != change.found).collect()
    }
}

impl Change {
    /// Returns true if the case passed and does not, fails and did not, or is missing.
    ///
    /// ```
    /// use reflex::conformance::CaseList;
    ///
    /// let listed: CaseList = "unsupported test_abs".parse()?;
    /// let found: CaseList = "pass test_abs".parse()?;
    /// assert!(!listed.changes(&found)[0].is_regression());
    /// assert!(found.changes(&listed)[0].is_regression());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn is_regression(&self) -> bool {
        self.found.is_none()
            || self.listed == Some(Status::Pass)
            || self.found == Some(Status::Fail)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |status: Option<Status>| status.map_or("missing", Status::name);
        let (listed, found) = (name(self.listed), name(self.found));
        write!(f, "{}: {listed} in the list, {found} now", self.case)
    }
}

impl<N: Into<String>> FromIterator<(N, Status)> for CaseList {
    fn from_iter<I: IntoIterator<Item = (N, Status)>>(cases: I) -> CaseList {
        CaseList(cases.into_iter().map(|(name, status)| (name.into(), status)).collect())
    }
}

impl FromStr for CaseList {
    type Err = Error;

    fn from_str(text: &str) -> Result<CaseList> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let cases = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let case = |line: &str| {
            let (status, case) = line.split_once(' ')?;
            let status = Status::ALL.into_iter().find(|s| s.name() == status)?;
            Some((case.trim().to_owned(), status))
        };
        let wrong = |(at, line)| format!("line {at}: `{line}` is not a status and a case");
        cases.map(|(at, line)| case(line).ok_or_else(|| Error::input(wrong((at, line))))).collect()
    }
}

impl fmt::Display for CaseList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# STATUS CASE, as `reflex conformance DIR --write-expect FILE` records them."
        )?;
        self.0.iter().try_for_each(|(case, status)| writeln!(f, "{} {case}", status.name()))
    }
}

/// Runs the case in `folder` (`model.onnx`, `test_data_set_*`).
///
/// ```
/// use reflex::conformance::{Status, run_case};
/// use reflex::{Engine, Mode};
///
/// let result = run_case(&Engine::new()?, "no/such/folder".as_ref(), Mode::Bytecode);
/// assert_eq!(result.status, Status::Fail);
/// assert!(result.reason.contains("no/such/folder"));
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn run_case(engine: &Engine, folder: &Path, mode: Mode) -> CaseResult {
    let outcome = |status, reason: String| CaseResult { status, reason };
    let program = match engine.load(folder.join("model.onnx")) {
        Ok(program) => program,
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return outcome(Status::Unsupported, error.to_string());
        }
        Err(error) => return outcome(Status::Fail, error.to_string()),
    };
    let random = || is_random(&folder.join("model.onnx"));
    match data_sets(folder).and_then(|sets| run_sets(&program, &sets, mode, &random)) {
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

fn is_random(model: &Path) -> bool {
    reflex_onnx::ModelInfo::read(model).is_ok_and(|info| info.draws_random_numbers())
}

/// The first difference, if any.
fn run_sets(
    program: &Program,
    sets: &[PathBuf],
    mode: Mode,
    random: &dyn Fn() -> bool,
) -> Result<Option<String>> {
    let mut session = program.session(mode)?;
    for set in sets {
        let case = set.parent().unwrap_or(set);
        let tolerance = Tolerance { rtol: RTOL, atol: reflex_onnx::case_atol(case) };
        let model = case.join("model.onnx");
        let differences = differences(&mut session, &model, set, tolerance, random)?;
        let first = differences.into_iter().enumerate().find_map(|(at, d)| Some((at, d?)));
        if let Some((index, difference)) = first {
            return Ok(Some(format!("output {index}: {difference}")));
        }
    }
    Ok(None)
}

/// Calls `main` on the data set in a folder (`input_N.pb`) and compares the results with its references
/// (`output_N.pb`): tensors, sequences, optionals and maps, of the types that the ONNX file `model` declares.
/// Returns each output's name and its first difference, if any.
///
/// ```no_run
/// use reflex::conformance::{Tolerance, check_data_set};
/// use reflex::{Engine, Mode};
///
/// let mut session = Engine::new()?.load("model.onnx")?.session(Mode::Tiered)?;
/// let set = "test_data_set_0".as_ref();
/// let tolerance = Tolerance { rtol: 1e-3, atol: 1e-7 };
/// for (output, difference) in check_data_set(&mut session, "model.onnx".as_ref(), set, tolerance)? {
///     println!("{output}: {}", difference.as_deref().unwrap_or("ok"));
/// }
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn check_data_set(
    session: &mut Session,
    model: &Path,
    set: &Path,
    tolerance: Tolerance,
) -> Result<Vec<(String, Option<String>)>> {
    let info = reflex_onnx::ModelInfo::read(model)?;
    let random = || info.draws_random_numbers();
    let differences = differences(session, model, set, tolerance, &random)?;
    Ok(info.outputs.into_iter().map(|output| output.name).zip(differences).collect())
}

/// The first difference of each output.
fn differences(
    session: &mut Session,
    model: &Path,
    set: &Path,
    tolerance: Tolerance,
    random: &dyn Fn() -> bool,
) -> Result<Vec<Option<String>>> {
    let inputs = reflex_onnx::read_case_values(model, set, Side::Inputs)?;
    let inputs = inputs.iter().map(values::argument).collect::<Result<Vec<Any>>>()?;
    let result = session.call_values("main", &inputs)?;
    let wanted = reflex_onnx::read_case_values(model, set, Side::Outputs)?;
    let found = match (wanted.as_slice(), result.downcast_ref::<Tuple>()) {
        ([_], _) | (_, None) => vec![result],
        (_, Some(results)) => results.to_vec(),
    };
    if found.len() != wanted.len() {
        let counts = format!("{} results instead of {}", found.len(), wanted.len());
        return Ok(vec![Some(counts); wanted.len().max(1)]);
    }
    let pairs = found.iter().zip(&wanted);
    pairs.map(|(found, wanted)| values::difference(found, wanted, tolerance, random)).collect()
}
