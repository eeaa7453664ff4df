//! The order in which the nodes of a graph are imported.
//!
//! ONNX asks for topological order, but writers of models do not always keep to it. Nodes that
//! are in order stay as they are; a node that reads a later node's output is moved behind it.

use std::collections::{HashMap, HashSet};

use crate::error::{Result, invalid};
use crate::proto::{GraphProto, NodeProto};

/// A node that is being ordered: its dependencies, and how many of them are done.
struct Visit {
    node: usize,
    dependencies: Vec<usize>,
    done: usize,
}

/// State of a node during the walk.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Unvisited,
    /// On the path from the node where the walk started.
    Open,
    Ordered,
}

/// Positions of `nodes` such that each comes after those whose outputs it reads, subgraphs
/// included. `known` says which names have a value before the first node.
pub(crate) fn node_order(nodes: &[NodeProto], known: impl Fn(&str) -> bool) -> Result<Vec<usize>> {
    let producers = producers(nodes);
    let dependencies = |node: usize| dependencies(nodes, node, &producers, &known);
    let mut order = Vec::with_capacity(nodes.len());
    let mut states = vec![State::Unvisited; nodes.len()];
    for first in 0..nodes.len() {
        if states[first] != State::Unvisited {
            continue;
        }
        let mut path = vec![Visit { node: first, dependencies: dependencies(first), done: 0 }];
        states[first] = State::Open;
        while let Some(visit) = path.last_mut() {
            let Some(&next) = visit.dependencies.get(visit.done) else {
                states[visit.node] = State::Ordered;
                order.push(visit.node);
                path.pop();
                continue;
            };
            visit.done += 1;
            match states[next] {
                State::Ordered => {}
                State::Open => return Err(cycle(nodes, &path, next)),
                State::Unvisited => {
                    states[next] = State::Open;
                    path.push(Visit { node: next, dependencies: dependencies(next), done: 0 });
                }
            }
        }
    }
    Ok(order)
}

/// The nodes that write each name, in the order of the graph.
fn producers(nodes: &[NodeProto]) -> HashMap<&str, Vec<usize>> {
    let mut producers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            producers.entry(name).or_default().push(index);
        }
    }
    producers
}

/// The nodes whose outputs a node reads. Of several that write a name it is the last one before
/// the node, else the first one after it.
fn dependencies(
    nodes: &[NodeProto],
    node: usize,
    producers: &HashMap<&str, Vec<usize>>,
    known: &impl Fn(&str) -> bool,
) -> Vec<usize> {
    let mut names = vec![];
    read_names(&nodes[node], &mut names);
    let producer = |name: &str| {
        let all = producers.get(name)?;
        let before = all.partition_point(|p| *p < node);
        match before.checked_sub(1) {
            Some(last) => Some(all[last]),
            None if known(name) => None,
            None => all.first().copied(),
        }
    };
    names.into_iter().filter_map(producer).collect()
}

/// The names that a node reads from the graph it is in.
fn read_names<'a>(node: &'a NodeProto, names: &mut Vec<&'a str>) {
    names.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
    for attribute in &node.attribute {
        attribute.g.iter().chain(&attribute.graphs).for_each(|g| captured_names(g, names));
    }
}

/// The names that a subgraph reads from the graph around it.
fn captured_names<'a>(graph: &'a GraphProto, names: &mut Vec<&'a str>) {
    let inputs = graph.input.iter().map(|i| &i.name);
    let constants = graph.initializer.iter().map(|t| &t.name);
    let outputs = graph.node.iter().flat_map(|n| &n.output);
    let own: HashSet<&str> = inputs.chain(constants).chain(outputs).map(String::as_str).collect();
    let mut read = vec![];
    graph.node.iter().for_each(|node| read_names(node, &mut read));
    read.extend(graph.output.iter().map(|o| o.name.as_str()));
    names.extend(read.into_iter().filter(|name| !own.contains(name)));
}

/// The error for a path of nodes that leads back to the node `again`.
fn cycle(nodes: &[NodeProto], path: &[Visit], again: usize) -> crate::error::ImportError {
    let start = path.iter().position(|visit| visit.node == again).unwrap_or(0);
    let names = path[start..].iter().map(|visit| node_name(nodes, visit.node));
    let list: Vec<String> = names.chain([node_name(nodes, again)]).collect();
    invalid(format!("the nodes read each other's outputs in a cycle: {}", list.join(" reads ")))
}

/// A node as messages name it.
pub(crate) fn node_name(nodes: &[NodeProto], index: usize) -> String {
    let node = &nodes[index];
    match node.name.as_str() {
        "" => format!("node `#{index}` ({})", node.op_type),
        name => format!("node `{name}` ({})", node.op_type),
    }
}
