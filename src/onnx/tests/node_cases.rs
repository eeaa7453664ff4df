//! ONNX's own node tests through the importer and the graph's reference evaluator: a case gives
//! the right answer, or is refused as unsupported; each does as the list `tests/onnx/expected.txt` says, which compiled kernels are held to as well
//! (`./x conformance`).
//!
//! The cases are in the folder that `REFLEX_ONNX_CASES` names, as `./x test` lays them out.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use reflex_graph::{EvalValue, FuncData, Literal, Module, eval_func};
use reflex_onnx::{CaseValue, ImportErrorKind, ModelInfo, Side, import, read_case_values};

/// A status (pass, unsupported or fail) and a case per line.
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/onnx/expected.txt");

enum Outcome {
    Pass,
    Refused(String),
    Fail(String),
}

#[test]
fn node_cases_pass_or_are_refused() {
    let Some(folder) = skip::variable("REFLEX_ONNX_CASES") else { return };
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of cases")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("model.onnx").exists())
        .collect();
    cases.sort();
    let (mut statuses, mut refused) = (String::new(), BTreeMap::<String, Vec<String>>::new());
    let listed = std::fs::read_to_string(LIST).expect("the list");
    let mut failed = vec![];
    for case in &cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        match std::panic::catch_unwind(|| run(case)) {
            Ok(Outcome::Pass) => statuses += &format!("pass {name}\n"),
            Ok(Outcome::Refused(reason)) => {
                statuses += &format!("unsupported {name}\n");
                refused.entry(reason).or_default().push(name);
            }
            Ok(Outcome::Fail(reason)) => failed.push(format!("{name}: {reason}")),
            Err(_) => failed.push(format!("{name}: panicked")),
        }
    }
    for (reason, names) in &refused {
        println!("refused {:4}  {reason}: {}", names.len(), names.join(" "));
    }
    failed.iter().for_each(|line| println!("FAIL {line}"));
    let refused: usize = refused.values().map(Vec::len).sum();
    println!("{refused} refused, {} failed of {}", failed.len(), cases.len());
    assert!(failed.is_empty(), "{} node cases are wrong", failed.len());
    hold_to_list(&listed, &statuses);
}

/// Compares every case with the list; a case that newly passes has to be recorded too.
fn hold_to_list(listed: &str, statuses: &str) {
    let lines = |text: &str| -> BTreeSet<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    let (listed, found) = (lines(listed), lines(statuses));
    let gone: Vec<_> = listed.difference(&found).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "in {LIST}, not found: {gone:#?}\nfound, not in the list: {new:#?}\n\
         `./x conformance --write-expect tests/onnx/expected.txt` records what is found"
    );
}

fn run(case: &Path) -> Outcome {
    let module = match import(&case.join("model.onnx")) {
        Ok(module) => module,
        Err(error) if error.kind() == ImportErrorKind::Unsupported => {
            return Outcome::Refused(reason(&error.to_string()));
        }
        Err(error) => return Outcome::Fail(error.to_string()),
    };
    if let Err(faults) = reflex_graph::verify::verify(&module) {
        return Outcome::Fail(faults[0].to_string());
    }
    // ONNX says type and shape of what is drawn, which the verifier has from the import.
    let info = ModelInfo::read(&case.join("model.onnx"));
    if info.is_ok_and(|info| info.draws_random_numbers()) {
        return Outcome::Pass;
    }
    let mut sets: Vec<PathBuf> = std::fs::read_dir(case)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    sets.sort();
    for set in sets {
        if let Err(message) = check(&module, &set) {
            return Outcome::Fail(message);
        }
    }
    Outcome::Pass
}

/// The message without file and node.
fn reason(message: &str) -> String {
    let rest = message.split_once("model.onnx: ").map_or(message, |(_, rest)| rest);
    match rest.strip_prefix("node `") {
        Some(node) => node.split_once('(').map_or(rest, |(_, rest)| rest).to_string(),
        None => rest.chars().take(120).collect(),
    }
}

fn value(given: CaseValue) -> Result<EvalValue, String> {
    Ok(match given {
        CaseValue::Tensor(tensor) | CaseValue::Strings(tensor, _) => EvalValue::Tensor(tensor),
        CaseValue::Sequence(items) => {
            EvalValue::Tuple(items.into_iter().map(value).collect::<Result<_, _>>()?)
        }
        CaseValue::Absent => EvalValue::Null,
        CaseValue::Maps(_) | CaseValue::Map(..) => return Err("maps have no evaluation".into()),
    })
}

fn compare(found: &EvalValue, wanted: &CaseValue, case: &Path) -> Result<(), String> {
    let tensor = |found: &EvalValue, wanted: &Literal| {
        let found = found.as_tensor().ok_or("not a tensor")?;
        let (rtol, atol) = common::tolerance(case, found);
        common::compare(found, wanted, rtol, atol)
    };
    match (found, wanted) {
        (_, CaseValue::Tensor(wanted)) => tensor(found, wanted),
        (EvalValue::Tensor(found), CaseValue::Strings(bytes, wanted)) => {
            let shape = |x: &Literal| x.shape().split_last().map(|(_, shape)| shape.to_vec());
            let found = (shape(found), strings(found));
            if found == (shape(bytes), wanted.clone()) {
                return Ok(());
            }
            Err(format!("{found:?} instead of {wanted:?}"))
        }
        (EvalValue::Tuple(found), CaseValue::Sequence(wanted)) if found.len() == wanted.len() => {
            found.iter().zip(wanted).try_for_each(|(found, wanted)| compare(found, wanted, case))
        }
        (EvalValue::Null, CaseValue::Absent) => Ok(()),
        _ => Err(format!("{found:?} instead of {wanted:?}")),
    }
}

/// Strings from their bytes, which are the last axis.
fn strings(bytes: &Literal) -> Vec<String> {
    let width = bytes.shape().last().map_or(1, |w| *w as usize).max(1);
    let text = |row: &[u8]| String::from_utf8_lossy(row).trim_end_matches('\0').to_string();
    bytes.bytes().chunks_exact(width).map(text).collect()
}

fn check(module: &Module, set: &Path) -> Result<(), String> {
    let (id, func) = module
        .funcs
        .iter()
        .find_map(|(id, f)| match f {
            FuncData::Graph(f) if f.name == "main" => Some((id, f)),
            _ => None,
        })
        .ok_or("no main")?;
    let case = set.parent().ok_or("no folder")?;
    let model = case.join("model.onnx");
    let read = |side| read_case_values(&model, set, side).map_err(|e| e.to_string());
    let inputs = read(Side::Inputs)?.into_iter().map(value).collect::<Result<Vec<_>, String>>()?;
    if inputs.len() != func.params.len() {
        return Err(format!("{} inputs for {} parameters", inputs.len(), func.params.len()));
    }
    let outputs = eval_func(module, id, &inputs).map_err(|e| e.to_string())?;
    for (found, wanted) in outputs.iter().zip(read(Side::Outputs)?) {
        compare(found, &wanted, case)?;
    }
    Ok(())
}
