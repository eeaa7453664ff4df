//! The order of a body in which regions are one call each.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use reflex_graph::{Body, Func, Node, Value};
use reflex_tir::Var;

/// Bindings that become one call.
pub(super) struct Region {
    pub bindings: BTreeSet<usize>,
    /// Values from outside that it reads, in the order of the reads.
    pub inputs: Vec<Value>,
    /// Its values that others read.
    pub outputs: Vec<Value>,
}

/// A binding, or a region by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Binding(usize),
    Region(usize),
}

/// The bindings that are in no region, and the regions, so that each comes after what it needs and as little as
/// can be moves; `None` where regions need each other or what is between their parts.
pub(super) fn order(func: &Func, body: &Body, regions: &[&Region]) -> Option<Vec<Unit>> {
    let count = body.bindings.len();
    // The place of a unit is that of its last binding.
    let mut place: Vec<usize> = (0..count).collect();
    let mut unit: HashMap<usize, Unit> = (0..count).map(|at| (at, Unit::Binding(at))).collect();
    for (number, region) in regions.iter().enumerate() {
        let last = *region.bindings.last()?;
        region.bindings.iter().for_each(|at| place[*at] = last);
        unit.insert(last, Unit::Region(number));
    }
    let mut before: Vec<HashSet<usize>> = vec![HashSet::new(); count];
    let mut depend = |at: usize, on: usize| {
        if place[at] != place[on] {
            before[place[at]].insert(place[on]);
        }
    };
    let mut defs: HashMap<Value, usize> = HashMap::new();
    let mut dims: HashMap<Var, usize> = HashMap::new();
    let mut last_effect = None;
    for (at, binding) in body.bindings.iter().enumerate() {
        binding.uses(&mut |value| {
            if let Some(on) = defs.get(&value) {
                depend(at, *on);
            }
        });
        let mut mentioned = HashSet::new();
        binding.node.dims(&mut |dim| dim.visit(&mut |e| mentioned.extend(e.as_var())));
        for output in &binding.outputs {
            if let Some(ty) = func.values[*output].ty.as_tensor() {
                ty.shape.iter().for_each(|dim| dim.visit(&mut |e| mentioned.extend(e.as_var())));
            }
        }
        let defines = matches!(binding.node, Node::MatchShape { .. } | Node::MatchCast(_));
        for var in mentioned {
            match dims.get(&var) {
                Some(on) => depend(at, *on),
                None if defines => _ = dims.insert(var, at),
                None => {}
            }
        }
        if binding.node.has_effect() || !binding.node.bodies().is_empty() {
            if let Some(on) = last_effect {
                depend(at, on);
            }
            last_effect = Some(at);
        }
        binding.outputs.iter().for_each(|value| _ = defs.insert(*value, at));
    }
    let mut after: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut missing: HashMap<usize, usize> = HashMap::new();
    let places: BTreeSet<usize> = place.iter().copied().collect();
    let mut ready = BinaryHeap::new();
    for at in &places {
        before[*at].iter().for_each(|on| after.entry(*on).or_default().push(*at));
        missing.insert(*at, before[*at].len());
        if before[*at].is_empty() {
            ready.push(Reverse(*at));
        }
    }
    let mut units = vec![];
    while let Some(Reverse(at)) = ready.pop() {
        units.push(unit[&at]);
        for next in after.get(&at).into_iter().flatten() {
            let left = missing.get_mut(next)?;
            *left -= 1;
            if *left == 0 {
                ready.push(Reverse(*next));
            }
        }
    }
    (units.len() == places.len()).then_some(units)
}
