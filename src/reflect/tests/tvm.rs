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
