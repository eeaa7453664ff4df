//! Every operator of TVM has a case in the corpus, which is compared with TVM's answer, or a case
//! elsewhere, or is refused.
//!
//! `tests/filetests/relax/operators.txt` lists TVM's operators; `generate.py` there writes it.

use std::path::{Path, PathBuf};

use reflex_graph::script::parse;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/relax")
}

/// Operators whose cases need more than one function or TVM's pipeline: `tests/tvm.rs` compiles the
/// texts of `tests/tvm/subjects.py` at each stage, `tests/python_modules.py` has the packed one, and `script.rs` here those that
/// give numbers.
const ELSEWHERE: [&str; 16] = [
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_tir_inplace",
    "inspect.tensor_byte_offset",
    "inspect.tensor_dtype_bits",
    "inspect.tensor_dtype_code",
    "inspect.tensor_dtype_lanes",
    "inspect.tensor_elem_offset",
    "inspect.tensor_ndim",
    "inspect.tensor_shape_i",
    "inspect.tensor_stride_i",
    "null_value",
    "shape_of",
    "vm.alloc_storage",
    "vm.alloc_tensor",
    "vm.kill_object",
];

/// Operators that are read, of which no text of TVM's has one.
const WITHOUT_CASE: [&str; 1] = ["vm.call_tir_dyn"];

/// Operators that are refused, by why.
const REFUSED: [(&str, &[&str]); 3] = [
    (
        "more than one process",
        &[
            "ccl.allgather",
            "ccl.allreduce",
            "ccl.broadcast_from_worker0",
            "ccl.scatter_from_worker0",
            "dist.annotate_sharding",
            "dist.call_tir_local_view",
            "dist.redistribute",
            "dist.redistribute_replica_to_shard",
        ],
    ),
    ("functions of the Python that the module was written in", &["call_py_func"]),
    ("not composed of what there is", &["nn.attention_var_len"]),
];

/// A program that calls an operator with one tensor.
fn program(name: &str) -> String {
    format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((4, 3), \
         dtype=\"float32\")):\n        y = R.{name}(x)\n        return y\n"
    )
}

#[test]
fn every_operator_of_tvm_has_a_case_or_is_refused() {
    let names = std::fs::read_to_string(corpus().join("operators.txt")).expect("the list");
    let mut texts = String::new();
    for entry in std::fs::read_dir(corpus()).expect("the corpus") {
        let path = entry.expect("an entry").path();
        let made = path.file_name().is_some_and(|n| n != "generate.py");
        if made && path.extension().is_some_and(|e| e == "py") {
            texts += &std::fs::read_to_string(path).expect("text");
        }
    }
    let refused = |name: &str| REFUSED.iter().any(|(_, names)| names.contains(&name));
    let (mut faults, mut read, mut without) = (vec![], WITHOUT_CASE.len(), 0);
    let names: Vec<&str> = names.lines().filter_map(|n| n.strip_prefix("relax.")).collect();
    for name in names.iter().filter(|name| !WITHOUT_CASE.contains(name)) {
        let has_case = texts.contains(&format!("R.{name}(")) || ELSEWHERE.contains(name);
        match (has_case, refused(name)) {
            (true, false) => read += 1,
            (false, true) => without += 1,
            (false, false) => faults.push(format!("{name} has no case and is not refused")),
            (true, true) => faults.push(format!("{name} has a case and is refused")),
        }
        if refused(name) {
            match parse(&program(name), "refused") {
                Ok(_) => faults.push(format!("{name} is read, and is listed as refused")),
                // An operator that is read would name what is wrong with its arguments.
                Err(error) if !error.to_string().contains("is not supported") => {
                    faults.push(format!("{name} is refused for another reason: {error}"));
                }
                Err(_) => {}
            }
        }
    }
    let listed =
        REFUSED.iter().flat_map(|(_, names)| names.iter()).chain(&ELSEWHERE).chain(&WITHOUT_CASE);
    faults.extend(listed.filter(|n| !names.contains(n)).map(|n| format!("TVM has no {n}")));
    println!("relax: {read} of {} operators are read, {without} are refused", names.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
