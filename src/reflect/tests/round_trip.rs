//! Modules become nodes and come back the same.

mod corpus;

use reflex_graph::{Module, print};
use reflex_node::equal::first_mismatch;
use reflex_node::hash::structural_hash;
use reflex_node::json;

/// What differs once a module went through nodes and their text.
fn difference(module: &Module) -> Option<String> {
    let graph = match reflex_reflect::nodes(module) {
        Ok(graph) => graph,
        Err(why) => return Some(format!("no nodes: {why}")),
    };
    let saved = json::load(&json::save(&graph)).expect("what was saved is read");
    assert_eq!(first_mismatch(&graph, &saved), None);
    let again = match reflex_reflect::module(&saved) {
        Ok(again) => again,
        Err(why) => return Some(format!("no module: {why}")),
    };
    let other = reflex_reflect::nodes(&again).expect("nodes of the same");
    if let Some(mismatch) = first_mismatch(&graph, &other) {
        return Some(mismatch.to_string());
    }
    assert_eq!(structural_hash(&graph), structural_hash(&other));
    let (one, two) = (print::module(module), print::module(&again));
    (one.lines().count() != two.lines().count()).then(|| format!("other text:\n{one}\n{two}"))
}

#[test]
fn modules_are_the_same_after_their_nodes_were_saved_and_read() {
    let modules = corpus::modules();
    assert!(modules.len() > 80, "{}", modules.len());
    let different: Vec<String> = modules
        .iter()
        .filter_map(|(name, module)| Some(format!("{name}: {}", difference(module)?)))
        .collect();
    assert!(different.is_empty(), "{} of {}:\n{}", different.len(), modules.len(), different.join("\n"));
}
