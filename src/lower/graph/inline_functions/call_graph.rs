//! Which functions mention which.

use std::collections::{HashMap, HashSet};

use reflex_graph::{Body, FuncData, FuncId, LeafExpr, Module, Node};

/// The mentions of functions, calls and values, in a module.
pub(super) struct CallGraph {
    /// The functions that each one mentions, by first mention, with how often.
    callees: HashMap<FuncId, Vec<(FuncId, usize)>>,
    mentions: HashMap<FuncId, usize>,
    recursive: HashSet<FuncId>,
    order: Vec<FuncId>,
}

impl CallGraph {
    pub fn of(module: &Module) -> CallGraph {
        let mut graph = CallGraph {
            callees: HashMap::new(),
            mentions: HashMap::new(),
            recursive: HashSet::new(),
            order: vec![],
        };
        for (id, func) in module.funcs.iter() {
            if let FuncData::Graph(func) = func {
                graph.update(id, &func.body);
            }
        }
        graph.sort(module.funcs.keys());
        graph
    }

    /// Counts the mentions of a body in place of those that the function had. What inlining does to one makes no cycles.
    pub fn update(&mut self, id: FuncId, body: &Body) {
        for (callee, count) in self.callees.remove(&id).into_iter().flatten() {
            self.mentions.entry(callee).and_modify(|sum| *sum -= count);
        }
        let mut found: Vec<(FuncId, usize)> = vec![];
        let mut at: HashMap<FuncId, usize> = HashMap::new();
        body.walk(&mut |binding| {
            if let Node::CallFunc { func, .. } | Node::Leaf(LeafExpr::Func(func)) = &binding.node {
                let at = *at.entry(*func).or_insert_with(|| {
                    found.push((*func, 0));
                    found.len() - 1
                });
                found[at].1 += 1;
            }
        });
        for (callee, count) in &found {
            *self.mentions.entry(*callee).or_insert(0) += count;
        }
        self.callees.insert(id, found);
    }

    /// Orders the functions, and finds the cycles: Tarjan's strongly connected components, without recursion.
    fn sort(&mut self, ids: impl Iterator<Item = FuncId>) {
        let mut index: HashMap<FuncId, usize> = HashMap::new();
        let mut low: HashMap<FuncId, usize> = HashMap::new();
        let (mut open, mut is_open) = (vec![], HashSet::new());
        for root in ids {
            if index.contains_key(&root) || !self.callees.contains_key(&root) {
                continue;
            }
            let mut todo = vec![(root, 0)];
            while let Some((id, next)) = todo.pop() {
                if next == 0 {
                    index.insert(id, index.len());
                    low.insert(id, index[&id]);
                    open.push(id);
                    is_open.insert(id);
                }
                let callees = &self.callees[&id];
                if let Some((callee, _)) = callees.get(next).copied() {
                    todo.push((id, next + 1));
                    match index.get(&callee) {
                        None => todo.push((callee, 0)),
                        Some(at) if is_open.contains(&callee) => {
                            let at = (*at).min(low[&id]);
                            low.insert(id, at);
                        }
                        Some(_) => {}
                    }
                    continue;
                }
                if low[&id] == index[&id] {
                    let start = open.iter().rposition(|other| *other == id).expect("it is open");
                    let cycle = open.split_off(start);
                    if cycle.len() > 1 || callees.iter().any(|(callee, _)| *callee == id) {
                        self.recursive.extend(&cycle);
                    }
                    cycle.iter().for_each(|id| {
                        is_open.remove(id);
                    });
                    self.order.extend(cycle);
                }
                if let Some((caller, _)) = todo.last() {
                    let least = low[caller].min(low[&id]);
                    low.insert(*caller, least);
                }
            }
        }
    }

    /// The functions, each after those that it mentions, cycles aside.
    pub fn callees_first(&self) -> Vec<FuncId> {
        self.order.clone()
    }

    /// Returns true if the function can come to itself.
    pub fn is_recursive(&self, id: FuncId) -> bool {
        self.recursive.contains(&id)
    }

    /// Returns true if a function calls one, or has one as a value.
    pub fn mentions_others(&self, id: FuncId) -> bool {
        self.callees.get(&id).is_some_and(|callees| !callees.is_empty())
    }

    /// Number of calls of a function, and of places that it is a value at.
    pub fn mentions(&self, id: FuncId) -> usize {
        self.mentions.get(&id).copied().unwrap_or(0)
    }

    /// The functions that callers of the module may want: those that are not private, or that nothing mentions.
    pub fn roots<'m>(&self, module: &'m Module) -> impl Iterator<Item = FuncId> + use<'m, '_> {
        module.funcs.iter().filter_map(|(id, func)| {
            let is_private = matches!(func, FuncData::Graph(func) if func.is_private);
            (!is_private || self.mentions(id) == 0).then_some(id)
        })
    }

    /// These functions, those that they mention, and so on.
    pub fn reached(&self, roots: Vec<FuncId>) -> HashSet<FuncId> {
        let (mut todo, mut found) = (roots, HashSet::new());
        while let Some(id) = todo.pop() {
            if found.insert(id) {
                let callees = self.callees.get(&id).into_iter().flatten();
                todo.extend(callees.map(|(callee, _)| *callee));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use reflex_graph::builder::FuncBuilder;
    use reflex_graph::{FuncData, Type, Value};

    use super::*;

    fn call(b: &mut FuncBuilder<'_>, func: u32, x: Value) -> Value {
        let func = FuncId::from_u32(func);
        b.bind_values(Node::CallFunc { func, args: vec![x] }, vec![Type::Object])[0]
    }

    /// 0 calls 1 and 2, 1 and 2 call each other, 2 calls 3, 4 calls itself.
    #[test]
    fn cycles_are_found_and_callees_come_first() {
        let mut module = Module::default();
        for calls in [&[1, 2][..], &[2], &[1, 3], &[], &[4]] {
            let name = format!("f{}", module.funcs.len());
            let mut b = FuncBuilder::new(&mut module, name);
            let mut x = b.param_of("x", Type::Object);
            for callee in calls {
                x = call(&mut b, *callee, x);
            }
            b.finish(vec![x], vec!["y".into()]);
        }
        let graph = CallGraph::of(&module);
        let ids = |list: &[u32]| list.iter().map(|id| FuncId::from_u32(*id)).collect::<Vec<_>>();
        let recursive = (0..5).map(FuncId::from_u32).filter(|id| graph.is_recursive(*id));
        assert_eq!(recursive.collect::<Vec<_>>(), ids(&[1, 2, 4]));
        let order = graph.callees_first();
        let at = |id: u32| order.iter().position(|found| found.as_u32() == id).unwrap();
        assert!(at(3) < at(2) && at(2) < at(0) && at(1) < at(0), "{order:?}");
        assert_eq!(order.len(), 5);
        assert_eq!((graph.mentions(ids(&[1])[0]), graph.mentions(ids(&[0])[0])), (2, 0));
        assert!(module.funcs.values().all(|func| matches!(func, FuncData::Graph(_))));
    }
}
