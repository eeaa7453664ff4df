//! The texts that TVM prints of its modules, before and after its pipelines, are read and printed
//! again as text that TVM reads to a structurally equal module.
//!
//! Needs REFLEX_TVM_PYTHON, a Python with apache-tvm (`./x test` sets it up); without it the
//! test says so. The modules are in tests/tvm/subjects.py at the root.

#[path = "../../../tests/common/tvm.rs"]
mod tvm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reflex_graph::FuncData;
use reflex_graph::script::{Script, parse};
use reflex_tir::op_pattern::op_pattern;
use reflex_tir::{Expr, ExprKind, PrimFunc, Stmt};
use tvm::{python, script};

/// The finding of script.py for every text that is not equal: name, finding, and reason.
const OTHERWISE: [(&str, &str, &str); 7] = [
    ("branches.after", "text", "TVM's lowering uses a value that one branch leaves undefined"),
    ("branches.lowered", "text", "TVM's lowering uses a value that one branch leaves undefined"),
    ("index.after", "same", "TVM prints no layout of a parameter"),
    ("index.lowered", "same", "TVM prints no layout of a parameter"),
    ("minilm_l3_fp32_params.before", "text", "TVM does not read `R.const(\"-inf\", \"float32\")`"),
    ("minilm_l3_fp32_params.after", "text", "TVM does not read `R.const(\"-inf\", \"float32\")`"),
    ("minilm_l3_fp32_params.lowered", "text", "TVM does not read `R.const(\"-inf\", \"float32\")`"),
];

/// TVM does not read kernels that take packed arguments, which it printed itself: the type of
/// `T.tvm_struct_get(...)` is none that its reader takes for the branches of `T.if_then_else`.
fn expected(name: &str) -> &'static [&'static str] {
    match OTHERWISE.iter().find(|(known, _, _)| *known == name) {
        Some((_, "text", _)) => &["text"],
        Some(_) => &["same"],
        // Functions of Relax are the same as when they are lowered.
        None if name.ends_with(".packed") => &["equal", "text", "kernels"],
        None => &["equal"],
    }
}

#[test]
fn scripts_of_tvm_print_to_structurally_equal_modules() {
    let Some(python) = python() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-scripts");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let out = folder.to_str().expect("UTF-8");
    println!("{}", script(&python, "script.py", &["emit", out]));
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the texts")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .collect();
    paths.sort();
    let mut faults = vec![];
    for path in &paths {
        let text = std::fs::read_to_string(path).expect("readable");
        let name = path.display().to_string();
        let read = Script::read(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        let printed = read.print();
        let again = Script::read(&printed, &name).unwrap_or_else(|e| panic!("printed {e}"));
        if again.print() != printed {
            faults.push(format!("{name}: printed twice, the texts differ"));
        }
        std::fs::write(path.with_extension("ours.py"), printed).expect("writes");
    }
    let said = script(&python, "script.py", &["check", out]);
    for line in said.lines() {
        let (name, answer) = line.split_once(' ').expect("a name and an answer");
        let expected = expected(name);
        if !expected.contains(&answer.split(' ').next().unwrap_or(answer)) {
            faults.push(format!("{name}: {answer}, where {expected:?} is expected"));
        }
    }
    println!("{said}");
    for stage in ["before", "after", "lowered", "packed"] {
        let of = |line: &&str| line.split(' ').next().is_some_and(|name| name.ends_with(stage));
        let texts: Vec<&str> = said.lines().filter(|line| of(line)).collect();
        let equal = texts.iter().filter(|line| line.ends_with(" equal")).count();
        println!(
            "tvm: {equal} of {} texts ({stage}) printed here are structurally equal to TVM's modules",
            texts.len()
        );
        assert!(texts.len() >= 40, "{} texts", texts.len());
    }
    for (name, answer, why) in OTHERWISE {
        println!("tvm: {name} is not: {answer}; {why}");
    }
    println!(
        "tvm: of `packed` TVM reads none that has a kernel; there kernels print to TVM's text"
    );
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(said.lines().count(), paths.len());
}

/// Whether there is a block, so that iterations have names. TVM calls what has none elementwise, which is not so.
fn has_block(kernel: &PrimFunc) -> bool {
    let mut found = false;
    kernel.body.visit(&mut |s| found |= matches!(s, Stmt::Block(_)));
    found
}

/// Whether an index is loaded. To TVM the buffer that it is loaded from is a variable that the store lacks.
fn loads_indices(kernel: &PrimFunc) -> bool {
    let is_load = |e: &Expr| {
        let mut found = false;
        e.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Load { .. }));
        found
    };
    let mut found = false;
    kernel.body.visit_exprs(&mut |e| {
        if let ExprKind::Load { indices, .. } = e.kind() {
            found |= indices.iter().any(is_load);
        }
    });
    found
}

#[test]
fn kinds_of_kernels_are_those_that_tvm_finds() {
    let Some(python) = python() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("op-patterns");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let out = folder.to_str().expect("UTF-8");
    script(&python, "script.py", &["emit", out]);
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/relax");
    for entry in std::fs::read_dir(scripts).expect("the scripts") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        if path.extension().is_some_and(|e| e == "py") {
            std::fs::copy(&path, folder.join(name)).expect("copies");
        }
    }
    let said = script(&python, "op_pattern.py", &[out]);
    let (mut faults, mut counts) = (vec![], BTreeMap::new());
    for line in said.lines() {
        let (name, number) = line.split_once(' ').expect("a kernel and a number");
        let text = std::fs::read_to_string(folder.join(format!("{name}.kernel")));
        let module = match parse(&text.expect("readable"), name) {
            Ok(module) => module,
            Err(why) => {
                println!("not read: {why}");
                *counts.entry("unread".to_owned()).or_insert(0) += 1;
                continue;
            }
        };
        for func in module.funcs.values() {
            let FuncData::Prim(kernel) = func else { continue };
            let found = op_pattern(kernel);
            let expected = match (has_block(kernel), loads_indices(kernel)) {
                (false, _) => "8",
                // Opaque in TVM, and here what it is but for this.
                (true, true) if number == "8" => {
                    *counts.entry("loaded indices".to_owned()).or_insert(0) += 1;
                    continue;
                }
                (true, _) => number,
            };
            *counts.entry(found.to_string()).or_insert(0) += 1;
            if found.number().to_string() != expected {
                faults.push(format!("{name}: {found}, in TVM {number}"));
            }
        }
    }
    println!("tvm: the kinds of fusion of kernels that both find: {counts:?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
