//! Relay to graph IR.
//!
//! Types are inferred as far as operators need them (`types`, `context`). Polymorphic values have no
//! tensor type in graph IR; where one is used as a tensor, a `match_cast` checks it.
//!
//! Decision: docs/decisions/0062-relay-text.md

mod closure;
mod context;
mod expr;
mod func;
mod matching;
mod ops;
mod tree;
mod types;

use serde_json::Value as Json;

use super::ast::RelayModule;
use super::source::{Result, Source};
use crate::{FuncData, Literal, Module, verify};
use context::{Context, needed};
use func::FuncLowerer;

/// Lowers what `@main` needs of a module. Functions that no other mentions have the items of a tuple as their results.
pub(super) fn lower(source: Source<'_>, tree: &RelayModule) -> Result<Module> {
    let mut module = Module::default();
    let constants = match &tree.metadata {
        Some(json) => constants(json).map_err(|message| source.refuse(0, message))?,
        None => vec![],
    };
    let defs = needed(tree);
    let cx = Context::declare(source, tree, &defs, constants, &mut module)?;
    for def in defs {
        let func = FuncLowerer::global(&cx, &mut module, def)?;
        module.funcs.push(func);
    }
    module.funcs.extend(cx.lifted.take().into_iter().flatten().map(FuncData::Graph));
    verify::verify(&module).map_err(|faults| {
        let fault = &faults[0];
        let at = tree.defs.iter().find(|def| def.name == fault.func).map_or(0, |def| def.at);
        source.refuse(at, fault.to_string())
    })?;
    Ok(module)
}

/// The constants of the metadata, in order.
fn constants(json: &str) -> std::result::Result<Vec<Literal>, String> {
    let graph: Json = serde_json::from_str(json).map_err(|e| format!("metadata: {e}"))?;
    let node = |index: &Json| {
        let index = index.as_u64().and_then(|n| usize::try_from(n).ok());
        let node = index.and_then(|n| graph["nodes"].get(n));
        node.ok_or_else(|| "metadata: a node is missing".to_string())
    };
    let root = node(&graph["root"])?;
    let keys = root["keys"].as_array().into_iter().flatten();
    let lists = root["data"].as_array().into_iter().flatten();
    let Some((_, list)) = keys.zip(lists).find(|(key, _)| **key == *"relay.Constant") else {
        return Ok(vec![]);
    };
    let entries = node(list)?["data"].as_array().ok_or("metadata: a list is missing")?;
    let constant = |entry: &Json| {
        let attr = node(entry)?["attrs"]["data"].as_str();
        let index = attr.and_then(|text| text.parse::<usize>().ok());
        let text = index.and_then(|n| graph["b64ndarrays"].get(n)).and_then(Json::as_str);
        let found = text.and_then(crate::Literal::from_saved);
        found.ok_or_else(|| "metadata: a tensor is damaged".to_string())
    };
    entries.iter().map(constant).collect()
}
