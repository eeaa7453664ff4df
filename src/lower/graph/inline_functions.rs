//! Inlines calls of functions.
//!
//! A call is replaced by the callee's body where the callee is not recursive and is marked, small, or private with this
//! one call. Callees are finished before their callers. Closures that are known where they are invoked become calls first.
//!
//! Decision: docs/decisions/0087-inlining.md

mod call_graph;
mod known_closures;
mod splice;

use std::collections::HashMap;

use cranelift_entity::PrimaryMap;
use reflex_graph::{Body, Func, FuncData, FuncId, LeafExpr, Module, Node};

use self::call_graph::CallGraph;
use self::known_closures::call_known_closures;
use self::splice::Splice;
use crate::LowerError;

/// Most bodies inside of one another that inlining makes: later passes recurse over them.
const MAX_DEPTH: usize = 64;

/// Most operations of a function that something is inlined into: marked functions that call each other twice
/// double from one to the next.
const MAX_CALLER: usize = 1 << 14;

/// Most times that a function is gone over: inlining makes closures known, whose calls are inlined then.
const MAX_ROUNDS: usize = 4;

/// Inlines calls of functions that are marked, of private ones that are called once, and of those of at most `max_size`
/// operations. Private functions that nothing needs after that are gone.
pub fn inline_functions(module: &mut Module, max_size: usize) -> Result<(), LowerError> {
    let mut graph = CallGraph::of(module);
    let roots: Vec<FuncId> = graph.roots(module).collect();
    let arities = arities(module);
    for id in graph.callees_first() {
        if !graph.mentions_others(id) {
            continue;
        }
        for _ in 0..MAX_ROUNDS {
            let FuncData::Graph(func) = &module.funcs[id] else { break };
            let mut func = func.clone();
            let closures = call_known_closures(&mut func, &arities);
            let calls = inline_into(module, id, &mut func, &graph, max_size);
            if closures || calls {
                graph.update(id, &func.body);
                module.funcs[id] = FuncData::Graph(func);
            }
            if !calls {
                break;
            }
        }
    }
    let needed = graph.reached(roots);
    if module.funcs.iter().any(|(id, func)| is_graph(func) && !needed.contains(&id)) {
        remove(module, |id| !needed.contains(&id));
    }
    Ok(())
}

/// Numbers of parameters of the functions that have one result.
fn arities(module: &Module) -> HashMap<FuncId, usize> {
    let graph = module.funcs.iter().filter_map(|(id, func)| match func {
        FuncData::Graph(func) if func.body.results.len() == 1 => Some((id, func.params.len())),
        _ => None,
    });
    graph.collect()
}

/// Inlines into one function. Returns true if something was.
fn inline_into(
    module: &Module,
    id: FuncId,
    caller: &mut Func,
    graph: &CallGraph,
    max_size: usize,
) -> bool {
    if !calls(&caller.body) {
        return false;
    }
    let mut size = size_of(&caller.body);
    let mut chosen = |callee: FuncId, depth: usize| {
        let FuncData::Graph(func) = &module.funcs[callee] else { return None };
        if callee == id || graph.is_recursive(callee) {
            return None;
        }
        let only = func.is_private && graph.mentions(callee) == 1;
        let own = size_of(&func.body);
        let wanted = func.inline || only || own <= max_size;
        let fits = size + own <= MAX_CALLER && depth + depth_of(&func.body) <= MAX_DEPTH;
        if !wanted || !fits {
            return None;
        }
        size += own;
        Some(func)
    };
    Splice::run(caller, &mut chosen)
}

fn calls(body: &Body) -> bool {
    let mut found = false;
    body.walk(&mut |binding| found |= matches!(binding.node, Node::CallFunc { .. }));
    found
}

/// Number of operations: what constants and other leaves do costs nothing.
fn size_of(body: &Body) -> usize {
    let mut count = 0;
    body.walk(&mut |binding| {
        count += usize::from(!matches!(binding.node, Node::Const(_) | Node::Leaf(_)));
    });
    count
}

/// Bodies inside of one another.
fn depth_of(body: &Body) -> usize {
    let nested = body.bindings.iter().flat_map(|binding| binding.node.bodies());
    nested.map(|body| 1 + depth_of(body)).max().unwrap_or(0)
}

fn is_graph(func: &FuncData) -> bool {
    matches!(func, FuncData::Graph(_))
}

/// Removes graph functions, and renumbers what stays.
fn remove(module: &mut Module, goes: impl Fn(FuncId) -> bool) {
    let mut kept: PrimaryMap<FuncId, FuncData> = PrimaryMap::new();
    let mut new = vec![];
    for (id, func) in std::mem::take(&mut module.funcs) {
        let stays = !is_graph(&func) || !goes(id);
        new.push(stays.then(|| kept.push(func)));
    }
    let renumber = |id: &mut FuncId| {
        *id = new[id.as_u32() as usize].expect("what is mentioned stays");
    };
    for func in kept.values_mut() {
        if let FuncData::Graph(Func { body, .. }) = func {
            renumber_body(body, &renumber);
        }
    }
    module.funcs = kept;
}

fn renumber_body(body: &mut Body, renumber: &dyn Fn(&mut FuncId)) {
    for binding in &mut body.bindings {
        match &mut binding.node {
            Node::CallTir { func, .. }
            | Node::CallFunc { func, .. }
            | Node::Leaf(LeafExpr::Func(func)) => renumber(func),
            _ => {}
        }
        binding.node.bodies_mut().into_iter().for_each(|body| renumber_body(body, renumber));
    }
}
