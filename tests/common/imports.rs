//! The graph of imports between the files of one crate, read from their tokens.
//!
//! Tokens rather than a syntax tree, so that paths inside of macro calls count too. An edge goes
//! to the deepest module that a path names: an item that a module re-exports counts as that
//! module's. Code under `#[cfg(test)]` and files of tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Names of a module below the crate root; the root itself is empty.
pub type Module = Vec<String>;

/// Modules of a crate and which of them each imports.
#[derive(Debug, Default)]
pub struct Imports {
    pub edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Imports {
    /// Reads the crate whose root file lies in `dir`; folders in `skip` belong to others.
    pub fn read(dir: &Path, skip: &[PathBuf]) -> Imports {
        let mut files = BTreeMap::new();
        list(dir, &mut Vec::new(), skip, &mut files);
        let modules: BTreeSet<Module> = files.keys().cloned().collect();
        let mut edges = BTreeMap::new();
        for (module, file) in &files {
            let text = std::fs::read_to_string(file).expect("readable");
            let tokens: TokenStream =
                text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let mut paths = Vec::new();
            collect(tokens, &mut paths);
            let targets = paths.iter().filter_map(|path| resolve(module, path, &modules));
            let targets = targets.filter(|target| target != module).collect();
            edges.insert(module.clone(), targets);
        }
        Imports { edges }
    }

    /// Strongly connected components of more than one module, largest first.
    pub fn circles(&self) -> Vec<Vec<&Module>> {
        let mut state = Tarjan {
            imports: self,
            index: BTreeMap::new(),
            low: BTreeMap::new(),
            stack: Vec::new(),
            found: Vec::new(),
        };
        for node in self.edges.keys() {
            if !state.index.contains_key(node) {
                state.visit(node);
            }
        }
        let mut circles = state.found;
        circles.retain(|circle| circle.len() > 1);
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

struct Tarjan<'a> {
    imports: &'a Imports,
    index: BTreeMap<&'a Module, usize>,
    low: BTreeMap<&'a Module, usize>,
    stack: Vec<&'a Module>,
    found: Vec<Vec<&'a Module>>,
}

impl<'a> Tarjan<'a> {
    /// Tarjan's algorithm: R. Tarjan, Depth-first search and linear graph algorithms, 1972.
    fn visit(&mut self, node: &'a Module) {
        let number = self.index.len();
        self.index.insert(node, number);
        self.low.insert(node, number);
        self.stack.push(node);
        for target in &self.imports.edges[node] {
            if !self.index.contains_key(target) {
                self.visit(target);
                self.low.insert(node, self.low[node].min(self.low[target]));
            } else if self.stack.contains(&target) {
                self.low.insert(node, self.low[node].min(self.index[target]));
            }
        }
        if self.low[node] == number {
            let at = self.stack.iter().position(|other| *other == node).expect("on the stack");
            self.found.push(self.stack.split_off(at));
        }
    }
}

/// Lists the modules below `dir` with their files. `lib.rs`, `main.rs` and `mod.rs` are the module
/// of their folder.
fn list(dir: &Path, at: &mut Module, skip: &[PathBuf], files: &mut BTreeMap<Module, PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let of_tests = stem == "tests" || stem.ends_with("_tests") || stem == "benches";
        if of_tests || skip.contains(&path) {
            continue;
        }
        if path.is_dir() {
            at.push(stem);
            list(&path, at, skip, files);
            at.pop();
        } else if path.extension().is_some_and(|e| e == "rs") {
            let mut module = at.clone();
            match stem.as_str() {
                "lib" | "mod" => {}
                "main" | "build" if at.is_empty() => continue,
                _ => module.push(stem),
            }
            files.insert(module, path);
        }
    }
}

/// Collects every path of the tokens, `use` trees one path per leaf.
fn collect(tokens: TokenStream, paths: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(hash) if hash.as_char() == '#' && is_cfg_test(tokens.get(at + 1)) => {
                at = after_item(&tokens, at + 2);
            }
            TokenTree::Ident(_) => {
                let mut path = Vec::new();
                at = collect_path(&tokens, at, &mut path, paths);
            }
            TokenTree::Group(group) => {
                collect(group.stream(), paths);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Reads `a::b::{c, d::e}` from `at`, pushes its paths, and returns the position after it.
fn collect_path(
    tokens: &[TokenTree],
    mut at: usize,
    path: &mut Vec<String>,
    paths: &mut Vec<Vec<String>>,
) -> usize {
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(name)) => path.push(name.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let leaves: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut inner = 0;
                while inner < leaves.len() {
                    if matches!(leaves[inner], TokenTree::Ident(_)) {
                        inner = collect_path(&leaves, inner, &mut path.clone(), paths);
                    } else {
                        inner += 1;
                    }
                }
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !(is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1))) {
            break;
        }
        at += 2;
    }
    paths.push(std::mem::take(path));
    at
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}

fn is_cfg_test(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.to_string().replace(' ', "") == "[cfg(test)]")
}

/// The position after the item that begins at `at`: behind its braces or its semicolon.
fn after_item(tokens: &[TokenTree], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
            TokenTree::Punct(punct) if punct.as_char() == ';' => break,
            _ => {}
        }
    }
    at
}

/// The deepest module of this crate that a path in `module` names, if it names one.
fn resolve(module: &Module, path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let mut rest = path;
    let mut at = match path.first()?.as_str() {
        "crate" => {
            rest = &rest[1..];
            Module::new()
        }
        "self" | "super" => {
            let mut base = module.clone();
            while let Some(first @ ("self" | "super")) = rest.first().map(String::as_str) {
                if first == "super" {
                    base.pop();
                }
                rest = &rest[1..];
            }
            base
        }
        child if path.len() > 1 => {
            let mut base = module.clone();
            base.push(child.to_owned());
            if !modules.contains(&base) {
                return None;
            }
            rest = &rest[1..];
            base
        }
        _ => return None,
    };
    for name in rest {
        at.push(name.clone());
        if !modules.contains(&at) {
            at.pop();
            break;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Imports {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("written");
        }
        Imports::read(dir.path(), &[])
    }

    #[test]
    fn every_form_of_import_is_an_edge() {
        let forms = [
            "use crate::b::{x, c::y};",
            "use super::b::c::y;",
            "fn f() { crate::b::c::y(); }",
            "fn f() { vec![crate::b::c::Y] }",
        ];
        for form in forms {
            let imports =
                crate_of(&[("lib.rs", ""), ("a.rs", form), ("b.rs", ""), ("b/c.rs", "")]);
            let target = vec!["b".to_owned(), "c".to_owned()];
            assert!(imports.edges[&vec!["a".to_owned()]].contains(&target), "{form}");
        }
    }

    #[test]
    fn circles_are_found_and_tests_left_out() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::f;"),
            ("b.rs", "use crate::c::f;"),
            ("c.rs", "pub fn f() { crate::a::g() }"),
            ("d.rs", "use crate::a; #[cfg(test)] mod tests { use crate::e; }"),
            ("e.rs", "use crate::d;"),
        ];
        let imports = crate_of(&files);
        let circles = imports.circles();
        assert_eq!(circles.len(), 1, "{circles:?}");
        assert_eq!(circles[0].len(), 3);
    }
}
