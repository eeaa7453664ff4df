//! Programs that TVM's Relay compiler made run here in every mode as in TVM's Relay virtual machine, and files
//! that are written here run there.
//!
//! Needs REFLEX_RELAY_PYTHON, a Python that runs tests/relay/oracle_env.py, and HHB_TVM, the folder of
//! its TVM: `./x test --relay` sets both up. The programs are in tests/relay/subjects.py.

#[path = "common/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use reflex::{Any, Engine, Mode, ModelSource, Program, Session, Tensor, Tuple};
use reflex_relay::executable::{Dialect, Executable};
use reflex_relay::instr::{Instr, StorageSize};
use reflex_relay::read::read;
use reflex_relay::text;
use reflex_relay::write::write;
use serde_json::{Value, json};

/// Calls of each function in each mode: enough for what is hot to be compiled.
const TURNS: usize = 12;

fn script(python: &str, name: &str, folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/relay").join(name);
    std::fs::create_dir_all(folder).expect("a folder");
    // TVM leaves files where it runs.
    let output = Command::new(python).arg(script).arg(folder).current_dir(folder).output();
    let output = output.expect("python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The Python, and the folder of what its TVM compiled.
fn compiled() -> Option<(String, &'static Path)> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let python = skip::variable("REFLEX_RELAY_PYTHON")?.to_str().expect("UTF-8").to_owned();
    let build = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("relay");
        script(&python, "compile.py", &folder);
        folder
    };
    let folder = BUILT.get_or_init(build);
    Some((python, folder))
}

fn json_of(path: PathBuf) -> Value {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn names(folder: &Path) -> Vec<String> {
    let names = json_of(folder.join("all.json"));
    let name = |name: &Value| name.as_str().expect("a name").to_owned();
    names.as_array().expect("a list").iter().map(name).collect()
}

/// The value that a JSON text stands for, as a caller has it.
fn value_of(json: &Value) -> Any {
    if let Some(fields) = json["fields"].as_array() {
        // A tuple has the tag 0 in TVM, and none here.
        let tag = json["tag"].as_i64().filter(|tag| *tag != 0).map(Any::from);
        return Tuple::new(tag.into_iter().chain(fields.iter().map(value_of)).collect::<Vec<_>>())
            .into();
    }
    let hex = json["data"].as_str().expect("hexadecimal digits").as_bytes();
    let digit = |digit: u8| (digit as char).to_digit(16).expect("a digit") as u8;
    let data: Vec<u8> = hex.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    let shape: Vec<i64> =
        json["shape"].as_array().expect("a shape").iter().filter_map(Value::as_i64).collect();
    let dtype = json["dtype"].as_str().expect("a type").parse().expect("a type");
    Tensor::from_bytes(&shape, dtype, &data).expect("a tensor").into()
}

/// A value as JSON.
fn shown(value: &Any) -> Value {
    if let Some(items) = value.downcast_ref::<Tuple>() {
        let tag = items.first().and_then(|first| first.view().as_int());
        let fields: Vec<Value> = items[usize::from(tag.is_some())..].iter().map(shown).collect();
        return json!({ "tag": tag.unwrap_or(0), "fields": fields });
    }
    let tensor = value.downcast_ref::<Tensor>().expect("a tensor");
    // SAFETY: a compact tensor of this machine's memory has so many bytes.
    let data = unsafe { std::slice::from_raw_parts(tensor.data_ptr(), tensor.nbytes()) };
    let data: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "dtype": tensor.dtype().to_string(), "shape": tensor.shape(), "data": data })
}

/// The difference between a call's answer and the oracle's, if there is one.
fn difference(session: &mut Session, call: &Value) -> Option<String> {
    let args: Vec<Any> = call["args"].as_array().expect("a list").iter().map(value_of).collect();
    let answer = session.call_values(call["func"].as_str().expect("a name"), &args);
    match (answer, &call["answer"]["result"], call["answer"]["error"].as_str()) {
        (Ok(value), expected, None) => {
            let found = shown(&value);
            (found != *expected).then(|| format!("{found} is not {expected}"))
        }
        (Err(error), _, Some(expected)) => {
            // Kernels check their arguments with the same words.
            let words = expected.split("Assert fail: ").nth(1).unwrap_or_default();
            let words = words.split("expected").last().unwrap_or_default().trim();
            (!error.to_string().contains(words)).then(|| format!("{error} is not {expected}"))
        }
        (Ok(value), _, Some(expected)) => {
            Some(format!("{} is not the error {expected}", shown(&value)))
        }
        (Err(error), expected, None) => Some(format!("the error {error} is not {expected}")),
    }
}

/// Runs the calls of a subject in every mode; the differences.
fn run(program: &Program, calls: &Value, what: &str) -> Vec<String> {
    let mut differences = vec![];
    for mode in Mode::ALL {
        let program = program.fork().expect("the same program");
        let mut session = program.session(mode).expect("a session");
        for turn in 0..TURNS {
            for call in calls.as_array().expect("a list") {
                let difference = difference(&mut session, call);
                differences
                    .extend(difference.map(|text| format!("{what}, {mode}, turn {turn}: {text}")));
            }
        }
    }
    differences
}

#[test]
fn programs_that_tvm_compiled_answer_as_in_its_virtual_machine() {
    let Some((_, folder)) = compiled() else { return };
    let policy = "threshold=3,compile=sync".parse().expect("a policy");
    let engine = Engine::builder().tier(policy).build().expect("an engine");
    let (mut faults, mut calls) = (vec![], 0);
    let names = names(folder);
    for name in &names {
        let subject = json_of(folder.join(format!("{name}.json")));
        let late_bound = subject["late_bound"] == true;
        calls += subject["calls"].as_array().expect("a list").len();
        for file in ["ro", "full.so"] {
            let mut source = ModelSource::from(&folder.join(format!("{name}.{file}")));
            if late_bound {
                source = source.params(folder.join(format!("{name}.params")));
            }
            match engine.load(source) {
                Ok(program) => {
                    faults.extend(run(&program, &subject["calls"], &format!("{name}.{file}")));
                }
                Err(error) => faults.push(format!("{name}.{file}: {error}")),
            }
        }
    }
    println!(
        "relay: {} programs, {calls} calls, from two kinds of files in three modes",
        names.len()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The instructions of an executable.
fn instructions(exec: &Executable) -> impl Iterator<Item = &Instr> {
    exec.functions.iter().flat_map(|function| &function.code)
}

fn has_pointer(instr: &Instr) -> bool {
    matches!(instr, Instr::AllocStorage { size: StorageSize::Shape(_), .. })
}

#[test]
fn files_and_listings_are_those_of_tvm() {
    let Some((_, folder)) = compiled() else { return };
    for name in names(folder) {
        let original = std::fs::read(folder.join(format!("{name}.ro"))).expect("a file");
        let exec = read(&original).unwrap_or_else(|error| panic!("{name}: {error}"));
        let copy = write(&exec);
        assert_eq!(copy.len(), original.len(), "{name}");
        // A pointer of the compiler's process, and the hash over it.
        let words = original.chunks(8).zip(copy.chunks(8)).filter(|(a, b)| a != b).count();
        let pointers = instructions(&exec).filter(|instr| has_pointer(instr)).count();
        // Words of the file need not be aligned: one may lie in two chunks.
        assert!(words <= 4 * pointers, "{name}: {words} words differ for {pointers} pointers");
        assert_eq!(read(&copy).as_ref(), Ok(&exec), "{name}");
        let listing = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("a file");
        assert_eq!(text::parse(&listing, Dialect::V14).as_ref(), Ok(&exec.functions), "{name}");
        let ours = text::listing(&exec);
        let pairs = listing.lines().zip(ours.lines()).filter(|(theirs, ours)| theirs != ours);
        let differ =
            pairs.filter(|(theirs, _)| !theirs.contains("alloc_storage")).collect::<Vec<_>>();
        assert!(differ.is_empty(), "{name}: {differ:?}");
        assert_eq!(listing.lines().count(), ours.lines().count(), "{name}");
    }
}

#[test]
fn files_written_here_run_in_tvms_virtual_machine() {
    let Some((python, folder)) = compiled() else { return };
    let names = names(folder);
    for name in &names {
        let exec = read(&std::fs::read(folder.join(format!("{name}.ro"))).expect("a file"));
        let copy = write(&exec.expect("an executable"));
        std::fs::write(folder.join(format!("{name}.copy.ro")), copy).expect("written");
    }
    let printed = script(&python, "rerun.py", folder);
    assert_eq!(printed, format!("reran {}\n", names.len()));
}
