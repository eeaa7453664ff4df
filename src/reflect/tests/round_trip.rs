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
    let (one, two) = (unnamed(&print::module(module)), unnamed(&print::module(&again)));
    let mut lines = one.lines().zip(two.lines());
    let other = lines.find(|(one, two)| one != two);
    other.map(|(one, two)| format!("another text: `{}`, not `{}`", two.trim(), one.trim()))
}

/// A text in which values without a name of their own have the same.
fn unnamed(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    for part in text.split_inclusive(|c| !is_name(c)) {
        let name = part.trim_end_matches(|c| !is_name(c));
        let digits = name.strip_prefix("gv").map(|rest| rest.trim_start_matches('_'));
        match digits.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit())) {
            true => out.push_str(&part.replace(name, "gv")),
            false => out.push_str(part),
        }
    }
    out
}

#[test]
fn modules_are_the_same_after_their_nodes_were_saved_and_read() {
    let modules = corpus::modules();
    assert!(modules.len() > 80, "{}", modules.len());
    let different: Vec<String> = modules
        .iter()
        .filter_map(|(name, module)| Some(format!("{name}: {}", difference(module)?)))
        .collect();
    assert!(
        different.is_empty(),
        "{} of {}:\n{}",
        different.len(),
        modules.len(),
        different.join("\n")
    );
}
