//! Modules become nodes and come back the same.

mod corpus;

use reflex_graph::{Module, print};
use reflex_node::equal::first_mismatch;
use reflex_node::hash::structural_hash;
use reflex_node::json;

/// The difference after a module went through nodes and their text.
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

/// A number that is a dimension has the dimension's variable as its node, which is no value of the function.
#[test]
fn dimensions_that_are_bound_as_numbers_come_back() {
    let text = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Prim("int64")) -> R.Prim("int64"):
        n = T.int64()
        gv: R.Prim("int64") = R.reflex.match_shape(x, R.shape([n]))
        gv1: R.Prim("int64") = R.prim_value(n)
        return gv1
"#;
    let module = reflex_graph::script::parse(text, "numbers").expect("a module");
    let nodes = reflex_reflect::nodes(&module).expect("nodes");
    let again = print::module(&reflex_reflect::module(&nodes).expect("a module again"));
    assert!(again.contains("R.prim_value(n)"), "{again}");
}

/// Nodes with other data, where a change of a text still leaves nodes: refused, or a module like any other.
#[test]
fn changed_nodes_are_refused_or_modules_like_any_other() {
    let modules = corpus::modules();
    let texts: Vec<String> = modules
        .iter()
        .map(|(name, module)| {
            json::save(&reflex_reflect::nodes(module).unwrap_or_else(|e| panic!("{name}: {e}")))
        })
        .filter(|text| text.len() < 40_000)
        .collect();
    let (mut modules, mut refused) = (0, 0);
    arbtest::arbtest(|u| {
        let mut bytes = u.choose(&texts)?.as_bytes().to_vec();
        for _ in 0..u.int_in_range(1..=3)? {
            let at = u.choose_index(bytes.len())?;
            // Another reference, number or letter, which keeps the form of the text.
            match bytes[at] {
                b'0'..=b'9' => bytes[at] = *u.choose(b"0123456789")?,
                b'a'..=b'z' | b'A'..=b'Z' => bytes[at] = *u.choose(b"abnxTVR_")?,
                _ => {}
            }
        }
        let Some(graph) = std::str::from_utf8(&bytes).ok().and_then(|text| json::load(text).ok())
        else {
            return Ok(());
        };
        match reflex_reflect::module(&graph) {
            Ok(module) => {
                modules += 1;
                let nodes = reflex_reflect::nodes(&module).expect("nodes of a module");
                reflex_reflect::module(&nodes)
                    .unwrap_or_else(|e| panic!("{e}: {}", print::module(&module)));
            }
            Err(_) => refused += 1,
        }
        Ok(())
    })
    .budget_ms(3_000);
    assert!(modules > 10 && refused > 10, "{modules} modules, {refused} refused");
}
