//! Which operators of a body become one kernel.
//!
//! Bindings are visited last to first. A producer joins the group of its consumers when all
//! of its uses are in that one group and the kinds allow it, so no value is computed twice
//! and nothing can depend on itself. Within a group, everything that depends on a product or
//! reduction is element by element and of its shape: an epilogue.

use std::collections::{HashMap, HashSet};

use reflex_graph::{Body, Func, Node, Op, Value, dims};
use reflex_tir::Expr;

use super::kind::{Kind, is_heavy, kind};

/// Most operators in a kernel.
const MAX_MEMBERS: usize = 32;
/// Most different tensors a kernel reads.
const MAX_INPUTS: usize = 24;

/// Groups of binding numbers, each ascending; the last one of a group is its root. Bindings
/// that become no kernel (views, calls, constants) are in none.
pub fn groups(func: &Func, body: &Body) -> Vec<Vec<usize>> {
    let mut planner = Planner::new(func, body);
    for at in (0..body.bindings.len()).rev() {
        planner.place(at);
    }
    let mut groups: Vec<Vec<usize>> = planner.groups.into_iter().map(|g| g.members).collect();
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.sort_by_key(|g| g.last().copied());
    groups
}

struct Group {
    members: Vec<usize>,
    inputs: HashSet<Value>,
    anchored: bool,
    /// Elements the group iterates over: the root's output, or what the reduction reads.
    domain: Vec<Expr>,
}

struct Planner<'a> {
    func: &'a Func,
    body: &'a Body,
    /// Consumers of each value within the body; `None` when it is used elsewhere too.
    uses: HashMap<Value, Option<Vec<usize>>>,
    group_of: HashMap<usize, usize>,
    groups: Vec<Group>,
}

impl<'a> Planner<'a> {
    fn new(func: &'a Func, body: &'a Body) -> Planner<'a> {
        let mut uses: HashMap<Value, Option<Vec<usize>>> = HashMap::new();
        for (at, binding) in body.bindings.iter().enumerate() {
            binding.node.operands(&mut |v| {
                if let Some(list) = uses.entry(v).or_insert_with(|| Some(vec![])) {
                    list.push(at);
                }
            });
            for nested in binding.node.bodies() {
                nested.uses(&mut |v| {
                    uses.insert(v, None);
                });
            }
        }
        for result in &body.results {
            uses.insert(*result, None);
        }
        Planner { func, body, uses, group_of: HashMap::new(), groups: vec![] }
    }

    fn op(&self, at: usize) -> Option<(&'a Op, &'a [Value])> {
        match &self.body.bindings[at].node {
            Node::Op { op, args } => Some((op, args)),
            _ => None,
        }
    }

    fn place(&mut self, at: usize) {
        let Some((op, args)) = self.op(at) else { return };
        if kind(op) == Kind::View {
            return;
        }
        let joined = self.consumer_group(at).filter(|g| self.may_join(at, op, args, *g));
        let group = joined.unwrap_or_else(|| {
            self.groups.push(Group {
                members: vec![],
                inputs: HashSet::new(),
                anchored: false,
                domain: self.domain(at, op, args),
            });
            self.groups.len() - 1
        });
        if kind(op) == Kind::Reduce && joined.is_some() {
            self.groups[group].domain = self.domain(at, op, args);
        }
        let outputs = &self.body.bindings[at].outputs;
        let entry = &mut self.groups[group];
        entry.members.push(at);
        outputs.iter().for_each(|v| {
            entry.inputs.remove(v);
        });
        entry.inputs.extend(args.iter().copied());
        entry.anchored |= matches!(kind(op), Kind::Anchor | Kind::Reduce);
        self.group_of.insert(at, group);
    }

    /// The one group that all uses of the binding's only output are in.
    fn consumer_group(&self, at: usize) -> Option<usize> {
        let [output] = self.body.bindings[at].outputs[..] else { return None };
        let users = self.uses.get(&output)?.as_ref()?;
        let mut groups = users.iter().map(|user| self.group_of.get(user).copied());
        let first = groups.next()??;
        groups.all(|g| g == Some(first)).then_some(first)
    }

    fn may_join(&self, at: usize, op: &Op, args: &[Value], group: usize) -> bool {
        let entry = &self.groups[group];
        let output = self.body.bindings[at].outputs[0];
        let new_inputs = args.iter().filter(|v| !entry.inputs.contains(v)).count();
        if entry.members.len() >= MAX_MEMBERS || entry.inputs.len() + new_inputs > MAX_INPUTS {
            return false;
        }
        let users = || {
            let list = self.uses[&output].as_ref().expect("the consumers are known");
            list.iter().filter_map(|user| self.op(*user))
        };
        match kind(op) {
            Kind::Elementwise | Kind::Injective => {
                let takes = |k| {
                    matches!(k, Kind::Elementwise | Kind::Injective | Kind::Join | Kind::Reduce)
                };
                let same_work = || self.same_count(&entry.domain, self.shape(output));
                users().all(|(user, _)| takes(kind(user))) && (!is_heavy(op) || same_work())
            }
            Kind::Anchor | Kind::Reduce => !entry.anchored && self.only_epilogue(output, group),
            Kind::Join | Kind::View | Kind::Opaque => false,
        }
    }

    /// Whether all members that depend on `value` are element by element and of its shape.
    fn only_epilogue(&self, value: Value, group: usize) -> bool {
        let shape = self.shape(value);
        let mut dependent = HashSet::from([value]);
        let mut members = self.groups[group].members.clone();
        members.sort_unstable();
        members.into_iter().all(|member| {
            let Some((op, args)) = self.op(member) else { return false };
            if !args.iter().any(|a| dependent.contains(a)) {
                return true;
            }
            let output = self.body.bindings[member].outputs[0];
            dependent.insert(output);
            kind(op) == Kind::Elementwise && self.shape(output) == shape
        })
    }

    fn shape(&self, value: Value) -> &'a [Expr] {
        self.func.values[value].ty.as_tensor().map_or(&[], |t| &t.shape)
    }

    fn domain(&self, at: usize, op: &Op, args: &[Value]) -> Vec<Expr> {
        let value = match kind(op) {
            Kind::Reduce => args[0],
            _ => self.body.bindings[at].outputs[0],
        };
        self.shape(value).to_vec()
    }

    fn same_count(&self, a: &[Expr], b: &[Expr]) -> bool {
        a == b || dims::equal(&dims::product(a), &dims::product(b)) == Some(true)
    }
}
