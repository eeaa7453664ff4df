//! `reflex conformance` holds a folder of cases to a list of their statuses.

mod common;

use std::path::Path;
use std::process::{Command, Output};

/// A `TensorProto` of 3 floats, `[1, 3]` or `[3]`.
fn tensor(dims: &[u8], values: [f32; 3]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|d| [0x08, *d]);
    let data = values.into_iter().flat_map(f32::to_le_bytes);
    dims.chain([0x10, 1, 0x4a, 12]).chain(data).collect()
}

/// The case `y = x + b` with `y` as the expected output.
fn case(folder: &Path, name: &str, model: &[u8], y: [f32; 3]) {
    let set = folder.join(name).join("test_data_set_0");
    std::fs::create_dir_all(&set).expect("a folder");
    let write = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).expect("writes");
    write(&folder.join(name).join("model.onnx"), model);
    write(&set.join("input_0.pb"), &tensor(&[1, 3], [1.0, 2.0, 3.0]));
    write(&set.join("input_1.pb"), &tensor(&[3], [10.0, 20.0, 30.0]));
    write(&set.join("output_0.pb"), &tensor(&[1, 3], y));
}

/// One case that passes, one that fails, one that is refused.
fn cases() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    case(folder.path(), "right", &common::add(), [11.0, 22.0, 33.0]);
    case(folder.path(), "wrong", &common::add(), [11.0, 22.0, 34.0]);
    let inputs: [(&str, &[&str]); 2] = [("x", &["1", "3"]), ("b", &["3"])];
    let refused = common::one_node("NoSuchOperator", &inputs, ("y", &["1", "3"]));
    case(folder.path(), "refused", &refused, [0.0; 3]);
    folder
}

fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_reflex"))
        .args(["conformance", "."])
        .args(args)
        .current_dir(folder)
        .env("REFLEX_CACHE", folder.join("cache"))
        .output()
        .expect("the command runs");
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn a_list_holds_a_run_to_what_it_recorded() {
    let folder = cases();
    let path = folder.path();
    let (code, said) = run(path, &[]);
    assert_eq!(code, Some(1), "a failure without a list: {said}");
    let (code, said) = run(path, &["--write-expect", "list"]);
    assert_eq!(code, Some(1), "{said}");
    let recorded = std::fs::read_to_string(path.join("list")).expect("recorded");
    assert!(recorded.ends_with("unsupported refused\npass right\nfail wrong\n"), "{recorded}");
    let (code, said) = run(path, &["--expect", "list"]);
    assert_eq!(code, Some(0), "all as recorded: {said}");
}

#[test]
fn what_does_worse_or_is_missing_is_a_regression() {
    let folder = cases();
    let path = folder.path();
    let held = |list: &str| {
        std::fs::write(path.join("list"), list).expect("writes");
        run(path, &["--expect", "list"])
    };
    for (list, regression) in [
        ("pass refused\npass right\nfail wrong\n", "refused: pass in the list, unsupported now"),
        ("unsupported refused\npass right\npass wrong\n", "wrong: pass in the list, fail now"),
        ("unsupported refused\npass right\n", "wrong: missing in the list, fail now"),
        ("pass gone\npass right\nfail wrong\n", "gone: pass in the list, missing now"),
    ] {
        let (code, said) = held(list);
        assert_eq!(code, Some(1), "{list}{said}");
        assert!(said.contains(&format!("regressed: {regression}")), "{said}");
    }
    let (code, said) = held("unsupported refused\nunsupported right\nfail wrong\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("changed: right: unsupported in the list, pass now"), "{said}");
    let (code, said) = held("passes right\n");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("line 1: `passes right` is not a status and a case"), "{said}");
}

#[test]
fn json_names_the_changes() {
    let folder = cases();
    std::fs::write(folder.path().join("list"), "pass refused\nfail wrong\n").expect("writes");
    let (code, said) = run(folder.path(), &["--expect", "list", "--json"]);
    assert_eq!(code, Some(1), "{said}");
    let totals: serde_json::Value =
        serde_json::from_str(said.lines().last().expect("totals")).expect("JSON");
    assert_eq!(totals["regressed"], serde_json::json!(["refused"]));
    assert_eq!(totals["changed"], serde_json::json!(["right"]));
}
