//! The nodes of our modules are those that TVM makes of their text.
//!
//! Needs REFLEX_TVM_PYTHON, a Python with apache-tvm (`./x test` sets it up); without it the tests say so.

mod corpus;
#[path = "../../../tests/common/tvm.rs"]
mod tvm;

use std::path::Path;

use reflex_graph::print;
use reflex_node::equal::first_mismatch;
use reflex_node::json;
use tvm::{python, script};

/// Texts that TVM does not read, and why.
const UNREAD: [(&str, &str); 11] = [
    ("closures-py", "the state of the machine"),
    ("views-py", "operators of Reflex"),
    ("composed", "operators of Reflex"),
    ("cubes", "operators of Reflex"),
    ("detection", "operators of Reflex"),
    ("selections", "operators of Reflex"),
    ("suppression", "`R.const(\"-inf\", \"float32\")`"),
    ("pool_gradients", "operators of Reflex"),
    ("relax-constants", "`R.const(\"inf\", \"float32\")`"),
    ("other_names", "an index of a buffer without dimensions"),
    ("tensorize", "matrix registers"),
];

/// Texts that TVM reads as something else, and why.
const READ_OTHERWISE: [(&str, &str); 1] = [("allocations-py", "strings have a type of their own")];

/// Modules of TVM that are not the same from their nodes as from their text, and why.
const OTHERWISE: [(&str, &str); 3] = [
    ("in_place.before", "kernels that are added are numbered by the order of functions"),
    ("index.after", "a layout, which the text does not show"),
    ("index.lowered", "a layout, which the text does not show"),
];

#[test]
fn nodes_of_modules_are_those_that_tvm_makes_of_their_text() {
    let Some(python) = python() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-nodes");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let modules = corpus::modules();
    for (name, module) in &modules {
        let path = folder.join(name.replace(['/', '.'], "-"));
        let graph = reflex_reflect::nodes(module).unwrap_or_else(|e| panic!("{name}: {e}"));
        std::fs::write(path.with_extension("json"), json::save(&graph)).expect("writes");
        std::fs::write(path.with_extension("py"), print::module_with_metadata(module))
            .expect("writes");
    }
    let said = script(&python, "own_nodes.py", &[folder.to_str().expect("UTF-8")]);
    let (mut counts, mut otherwise) = ([0; 3], 0);
    let mut faults = vec![];
    for line in said.lines() {
        let (name, answer) = line.split_once(' ').expect("a name and an answer");
        let answer = answer.split(' ').next().unwrap_or(answer);
        let kind = ["equal", "free", "loaded"].iter().position(|kind| *kind == answer);
        match kind {
            Some(kind) if kind < 2 || UNREAD.iter().any(|(known, _)| name.contains(known)) => {
                counts[kind] += 1;
            }
            None if answer == "differs"
                && READ_OTHERWISE.iter().any(|(known, _)| name.contains(known)) =>
            {
                otherwise += 1;
            }
            _ => faults.push(line),
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), modules.len(), faults.join("\n"));
    assert_eq!(counts.iter().sum::<usize>() + otherwise, modules.len());
    let [equal, free, loaded] = counts;
    println!(
        "tvm: the nodes of {equal} modules are structurally equal to those of their text, of {free} with free \
         variables mapped; TVM loads {loaded} more, whose text it does not read"
    );
    assert!(equal > 80, "{equal}");
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
    let (mut same, mut neither, mut faults) = (0, 0, vec![]);
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).expect("readable");
        let nodes = std::fs::read_to_string(path.with_extension("json")).expect("readable");
        let of_text = reflex_graph::script::parse(&text, &name);
        let of_nodes = reflex_reflect::module(&json::load(&nodes).expect("a graph"));
        let said = match (of_text, of_nodes) {
            // Kernels that take packed arguments, which are refused.
            (Err(_), Err(_)) => {
                neither += 1;
                continue;
            }
            (Err(why), Ok(_)) => format!("no text: {why}"),
            (Ok(_), Err(why)) => format!("no nodes: {why}"),
            (Ok(one), Ok(two)) => {
                let nodes = |module| reflex_reflect::nodes(module).expect("nodes");
                match first_mismatch(&nodes(&one), &nodes(&two)) {
                    None => {
                        same += 1;
                        continue;
                    }
                    Some(mismatch) => mismatch.to_string(),
                }
            }
        };
        match OTHERWISE.iter().find(|(known, _)| *known == name) {
            Some((_, why)) => {
                println!("tvm: {name} is another module from its nodes: {said}; {why}")
            }
            None => faults.push(format!("{name}: {said}")),
        }
    }
    println!(
        "tvm: {same} of {} modules are the same from their nodes; {neither} have neither",
        paths.len()
    );
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
    assert!(same > 120 && neither < 50, "{same} {neither}");
}
