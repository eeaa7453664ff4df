//! The nodes of our modules are those that TVM makes of their text.
//!
//! Needs REFLEX_TVM_PYTHON, a Python with apache-tvm (`./x test` sets it up); without it the tests say so.

mod corpus;
#[path = "../../../tests/common/tvm.rs"]
mod tvm;

use std::path::Path;

use reflex_graph::print;
use reflex_node::json;
use tvm::{python, script};

#[test]
fn nodes_of_modules_are_those_that_tvm_makes_of_their_text() {
    let Some(python) = python() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-nodes");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let modules = corpus::modules();
    for (name, module) in &modules {
        let path = folder.join(name.replace('/', "-").replace('.', "-"));
        let graph = reflex_reflect::nodes(module).unwrap_or_else(|e| panic!("{name}: {e}"));
        std::fs::write(path.with_extension("json"), json::save(&graph)).expect("writes");
        std::fs::write(path.with_extension("py"), print::module_with_metadata(module)).expect("writes");
    }
    let said = script(&python, "own_nodes.py", &[folder.to_str().expect("UTF-8")]);
    println!("{said}");
    assert_eq!(said.lines().count(), modules.len());
}

/// Modules of TVM, before and after its pipelines, are the same from their nodes as from their text.
#[test]
fn nodes_of_tvm_become_the_modules_that_their_text_is() {
    let Some(python) = python() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-nodes");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    script(&python, "script.py", &["emit", folder.to_str().expect("UTF-8")]);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("the texts")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .collect();
    paths.sort();
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).expect("readable");
        let nodes = std::fs::read_to_string(path.with_extension("json")).expect("readable");
        let of_text = reflex_graph::script::parse(&text, &name);
        let of_nodes = reflex_reflect::module(&json::load(&nodes).expect("a graph"));
        let said = match (of_text, of_nodes) {
            (Err(_), Err(_)) => "neither".to_owned(),
            (Err(why), Ok(_)) => format!("nodes only: {why}"),
            (Ok(_), Err(why)) => format!("text only: {why}"),
            (Ok(one), Ok(two)) => {
                let (one, two) = (reflex_reflect::nodes(&one).unwrap(), reflex_reflect::nodes(&two).unwrap());
                match reflex_node::equal::first_mismatch(&one, &two) {
                    None => "same".to_owned(),
                    Some(mismatch) => format!("differ: {mismatch}"),
                }
            }
        };
        println!("{name} {said}");
    }
}
