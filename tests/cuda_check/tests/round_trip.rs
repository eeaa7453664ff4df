//! The whole way without a GPU: a folder is packed, checked on the stand-in for the driver, and imported.

#[path = "../../common/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const TOOL: &str = env!("CARGO_BIN_EXE_reflex-cuda-check");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder with the stand-in under the driver's name.
fn stand_in() -> TempDir {
    let test = std::env::current_exe().expect("the test's path");
    let folder = tempfile::tempdir().expect("a folder");
    let built = test.with_file_name("libcuda.so");
    std::os::unix::fs::symlink(built, folder.path().join("libcuda.so.1")).expect("links");
    folder
}

fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().expect("starts");
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (status.code(), said.concat())
}

/// Runs the folder with its own program, as on another machine.
fn check(pack: &Path, out: &Path, driver: &Path, plan: &str) -> (Option<i32>, String) {
    let mut command = Command::new(pack.join("reflex-cuda-check"));
    command.arg("check").arg("--out").arg(out).env("LD_LIBRARY_PATH", driver);
    run(command.env("REFLEX_STANDIN", plan).env("REFLEX_CODEGEN", "/nowhere").current_dir("/"))
}

fn report(out: &Path) -> serde_json::Value {
    let text = std::fs::read(out.join("report.json")).expect("a report");
    serde_json::from_slice(&text).expect("JSON")
}

/// The results with a status.
fn with_status<'a>(report: &'a serde_json::Value, status: &str) -> Vec<&'a serde_json::Value> {
    let results = report["results"].as_array().expect("results");
    results.iter().filter(|result| result["status"] == status).collect()
}

#[test]
fn a_folder_is_packed_checked_and_imported() {
    let Some(models) = skip::variable("REFLEX_MODELS") else { return };
    let Some(refs) = skip::variable("REFLEX_REFS") else { return };
    let Some(cases) = skip::variable("REFLEX_ONNX_CASES") else { return };
    let (driver, out) = (stand_in(), tempfile::tempdir().expect("a folder"));
    let pack = out.path().join("pack");
    let list = root().join("tests/onnx/cuda.txt");
    let mut command = Command::new(TOOL);
    command
        .arg("pack")
        .arg(&pack)
        .arg("--small")
        .arg("--models")
        .arg(models)
        .arg("--refs")
        .arg(refs);
    command.arg("--cases").arg(cases).arg("--list").arg(list).env_remove("LD_LIBRARY_PATH");
    let (code, said) = run(&mut command);
    assert_eq!(code, Some(0), "{said}");

    let (code, said) = check(&pack, out.path(), driver.path(), "seed=3");
    assert_eq!(code, Some(0), "{said}");
    let found = report(out.path());
    assert!(with_status(&found, "pass").len() > 60, "{said}");
    assert_eq!(found["facts"]["sm"], "sm_80");
    // Programs of tensor cores have the bits of Hopper's.
    let of_hopper = tempfile::tempdir().expect("a folder");
    let (code, said) = check(&pack, of_hopper.path(), driver.path(), "seed=3;sm=90");
    assert_eq!(code, Some(0), "{said}");
    let hopper = report(of_hopper.path());
    let passed = with_status(&hopper, "pass");
    for name in ["matmul_f16_small", "matmul_bf16_ragged"] {
        assert!(passed.iter().any(|result| result["name"] == name), "{name}: {said}");
    }
    failures_are_told(&pack, out.path(), driver.path());
    figures_of_no_gpu_are_refused(out.path(), &found);
}

/// A device that is lost in the middle costs one part; what differs is shown; time that is up is said.
fn failures_are_told(pack: &Path, out: &Path, driver: &Path) {
    let (code, said) = check(pack, out, driver, "late=40:700");
    assert_eq!(code, Some(1), "{said}");
    let found = report(out);
    let failed = with_status(&found, "fail");
    assert!(!failed.is_empty() && !with_status(&found, "pass").is_empty(), "{said}");
    let lost = |result: &&serde_json::Value| {
        result["detail"].as_str().is_some_and(|text| text.contains("is lost"))
    };
    assert!(failed.iter().all(lost), "{said}");

    let path = pack.join("data.bin");
    let data = std::fs::read(&path).expect("the data");
    let mut other = data.clone();
    let last = other.len() - 16;
    other[last] ^= 4;
    std::fs::write(&path, other).expect("writes");
    let manifest = pack.join("pack.json");
    let packed = std::fs::read_to_string(&manifest).expect("the manifest");
    let mut changed: serde_json::Value = serde_json::from_str(&packed).expect("JSON");
    let probe = changed["probes"].as_array_mut().and_then(|list| list.last_mut()).expect("a probe");
    probe["hash"] = "another".into();
    std::fs::write(&manifest, changed.to_string()).expect("writes");
    let (code, said) = check(pack, out, driver, "");
    assert_eq!(code, Some(1), "{said}");
    let found = report(out);
    let failed = with_status(&found, "fail");
    assert_eq!(failed.len(), 1, "{said}");
    assert!(failed[0]["detail"].as_str().expect("text").contains("words differ"), "{said}");
    std::fs::write(&path, &data[..data.len() - 16]).expect("writes");
    let (_, said) = check(pack, out, driver, "");
    assert!(said.contains("data.bin: ends before its contents do"), "{said}");
    std::fs::write(&path, data).expect("writes");
}

fn figures_of_no_gpu_are_refused(out: &Path, found: &serde_json::Value) {
    let import = |report: &serde_json::Value| {
        let (file, record) = (out.join("import.json"), out.join("record.md"));
        std::fs::write(&file, report.to_string()).expect("writes");
        let mut command = Command::new(TOOL);
        run(command.args(["import", "--date", "2026-11-26"]).arg(&file).arg("--record").arg(record))
    };
    let (code, said) = import(found);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("Stand-in 0 is no GPU"), "{said}");
    let mut renamed = found.clone();
    renamed["facts"]["name"] = "A device".into();
    assert_eq!(import(&renamed).0, Some(0));
    let record = std::fs::read_to_string(out.join("record.md")).expect("the record");
    for part in ["A device (sm_80)", "| programs |", "| launch and wait, us |", "## Reach"] {
        assert!(record.contains(part), "{part}: {record}");
    }
    assert!(
        record.contains("| bf16 matmul, 8192 cubed | torch | 97% |  |"),
        "not measured: {record}"
    );
}

#[test]
fn what_is_missing_is_named() {
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(TOOL);
    let (code, said) = run(command.arg("check").arg(out.path()));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("pack.json: No such file"), "{said}");

    let manifest = r#"{"version": 2, "reflex": "0", "probes": [], "cases": []}"#;
    std::fs::write(out.path().join("pack.json"), manifest).expect("writes");
    let driver = stand_in();
    let (plan, words) = ("devices=0", "no device to check: cuda:0: cuInit: CUDA_ERROR_NO_DEVICE");
    let mut command = Command::new(TOOL);
    command.arg("check").arg(out.path()).env("LD_LIBRARY_PATH", driver.path());
    let (code, said) = run(command.env("REFLEX_STANDIN", plan));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(words), "{said}");

    let mut command = Command::new(TOOL);
    let (code, said) = run(command.arg("check").arg(out.path()).env_remove("LD_LIBRARY_PATH"));
    // A machine with a driver checks it.
    if code != Some(0) {
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("there is no NVIDIA driver: libcuda.so.1 cannot be opened"),
            "{said}"
        );
    }
    std::fs::write(out.path().join("pack.json"), manifest.replace(": 2,", ": 99,"))
        .expect("writes");
    let mut command = Command::new(TOOL);
    let (code, said) = run(command.arg("check").arg(out.path()));
    assert_eq!(
        (code, said.contains("version 99, and this program reads 2")),
        (Some(2), true),
        "{said}"
    );
}
