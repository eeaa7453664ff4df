//! Operator fusion: which operators of a body become one kernel.
//!
//! Bindings are visited last to first. A producer joins the group of its consumers when all of its
//! uses are in that one group and their patterns allow it, so no value is computed twice (but for
//! slices, which cheap groups read in place) and nothing can depend on itself. Within a group,
//! everything that depends on a contraction or reduction is elementwise and of its shape: an
//! epilogue.
//!
//! Decision: docs/decisions/0035-fused-attention.md

use std::collections::{BTreeSet, HashMap, HashSet};

use reflex_graph::{Binding, Body, Func, Node, Op, OutOfRange, PadMode, Value, dims};
use reflex_tir::Expr;

use super::pattern::{OpPattern, is_cheap, is_heavy, pattern};

/// Most where all are cheap and read elements at static indices: they share one loop nest.
const MAX_CHEAP: usize = 512;
/// Most different tensors a kernel reads, but for constants of one element.
const MAX_INPUTS: usize = 24;

/// Operators that become one kernel.
pub struct KernelGroup {
    /// Their bindings, ascending.
    pub members: Vec<usize>,
    /// The binding that the kernel's call takes the place of.
    pub at: usize,
    /// The kernel's results.
    pub results: Vec<Value>,
}

/// The groups of a body, by their root, the last member, whose results are the kernel's. Bindings
/// that become no kernel (views, calls, constants) are in none.
/// None of more than `max_members` becomes one kernel, unless all are cheap.
pub fn groups(func: &Func, body: &Body, max_members: usize) -> Vec<KernelGroup> {
    let mut planner = GroupPlanner::new(func, body, max_members);
    for at in (0..body.bindings.len()).rev() {
        planner.assign(at);
    }
    let group = |group: FusionGroup| {
        let mut members = group.members;
        members.sort_unstable();
        let at = *members.last().expect("groups are never empty");
        KernelGroup { members, at, results: body.bindings[at].outputs.clone() }
    };
    let mut groups: Vec<KernelGroup> = planner.groups.into_iter().map(group).collect();
    groups.sort_by_key(|g| g.at);
    groups
}

struct FusionGroup {
    members: Vec<usize>,
    inputs: HashSet<Value>,
    anchored: bool,
    /// All members are cheap, but for a last one that concatenates them.
    cheap: bool,
    /// The scores of an attention, once its softmax is in the group.
    scores: Option<Vec<Expr>>,
    /// Elements the group iterates over: the root's output, or what the reduction reads.
    domain: Vec<Expr>,
}

struct GroupPlanner<'a> {
    func: &'a Func,
    body: &'a Body,
    /// Consumers of each value within the body; `None` when it is used elsewhere too.
    uses: HashMap<Value, Option<Vec<usize>>>,
    /// The binding that defines each value.
    defs: HashMap<Value, usize>,
    /// By binding, the operators of its expression, as far as they are cheap and read there alone.
    sizes: Vec<usize>,
    group_of: HashMap<usize, usize>,
    groups: Vec<FusionGroup>,
    /// Most operators in a kernel, but for cheap ones.
    max_members: usize,
}

impl<'a> GroupPlanner<'a> {
    fn new(func: &'a Func, body: &'a Body, max_members: usize) -> GroupPlanner<'a> {
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
        let outputs = |(at, b): (usize, &'a Binding)| b.outputs.iter().map(move |v| (*v, at));
        let defs = body.bindings.iter().enumerate().flat_map(outputs).collect();
        let sizes = Vec::with_capacity(body.bindings.len());
        let (group_of, groups) = (HashMap::new(), vec![]);
        let mut planner =
            GroupPlanner { func, body, uses, defs, sizes, group_of, groups, max_members };
        for at in 0..body.bindings.len() {
            let size = planner.size(at);
            planner.sizes.push(size);
        }
        planner
    }

    fn size(&self, at: usize) -> usize {
        let Some((_, args)) = self.op(at).filter(|(op, _)| is_cheap(op)) else { return 0 };
        let alone = |v: &&Value| matches!(self.uses.get(*v), Some(Some(users)) if users.len() == 1);
        let defined = args.iter().filter(alone).filter_map(|v| self.defs.get(v));
        1 + defined.map(|at| self.sizes[*at]).sum::<usize>()
    }

    fn op(&self, at: usize) -> Option<(&'a Op, &'a [Value])> {
        match &self.body.bindings[at].node {
            Node::Op { op, args } => Some((op, args)),
            _ => None,
        }
    }

    fn assign(&mut self, at: usize) {
        let Some((op, args)) = self.op(at) else { return };
        if pattern(op) == OpPattern::View || self.join_slice(at, op, args) {
            return;
        }
        let joined = self.consumer_group(at).filter(|g| {
            self.has_capacity(at, *g)
                && (self.may_join(at, op, args, *g) || self.joins_attention(at, op, args, *g))
        });
        let group = joined.unwrap_or_else(|| {
            self.groups.push(FusionGroup {
                members: vec![],
                inputs: HashSet::new(),
                anchored: false,
                cheap: true,
                scores: None,
                domain: self.domain(at, op, args),
            });
            self.groups.len() - 1
        });
        if pattern(op) == OpPattern::Reduce && joined.is_some() {
            self.groups[group].domain = self.domain(at, op, args);
        }
        let outputs = &self.body.bindings[at].outputs;
        let scores = self.scores_of(at).filter(|_| joined.is_some());
        let read: Vec<Value> = self.read(op, args).collect();
        let entry = &mut self.groups[group];
        entry.scores = entry.scores.take().or(scores);
        entry.members.push(at);
        outputs.iter().for_each(|v| {
            entry.inputs.remove(v);
        });
        entry.inputs.extend(read);
        entry.cheap &=
            is_cheap(op) || (entry.members.len() == 1 && pattern(op) == OpPattern::Concat);
        entry.anchored |= matches!(pattern(op), OpPattern::Anchor | OpPattern::Reduce);
        self.group_of.insert(at, group);
    }

    /// Lets a slice that several cheap groups read be a member of each, which reads where it lies.
    fn join_slice(&mut self, at: usize, op: &Op, args: &[Value]) -> bool {
        let [output] = self.body.bindings[at].outputs[..] else { return false };
        let users = self.uses.get(&output).and_then(Option::as_ref);
        let (Op::Slice { .. }, Some(users)) = (op, users) else { return false };
        let groups = users.iter().map(|user| self.group_of.get(user).copied());
        let Some(groups) = groups.collect::<Option<BTreeSet<usize>>>() else { return false };
        let fits = |g: &usize| {
            self.groups[*g].cheap && self.has_capacity(at, *g) && self.may_join(at, op, args, *g)
        };
        if groups.len() < 2 || !groups.iter().all(fits) {
            return false;
        }
        for group in groups {
            let entry = &mut self.groups[group];
            entry.members.push(at);
            entry.inputs.remove(&output);
            entry.inputs.insert(args[0]);
        }
        true
    }

    /// The one group that all uses of the binding's only output are in.
    fn consumer_group(&self, at: usize) -> Option<usize> {
        let [output] = self.body.bindings[at].outputs[..] else { return None };
        let users = self.uses.get(&output)?.as_ref()?;
        let mut groups = users.iter().map(|user| self.group_of.get(user).copied());
        let first = groups.next()??;
        groups.all(|g| g == Some(first)).then_some(first)
    }

    /// Whether one more operator keeps the group within its limits. A cheap expression that fits a
    /// kernel joins as a whole or not at all, so that a larger one is divided where a single value
    /// crosses.
    fn has_capacity(&self, at: usize, group: usize) -> bool {
        let Some((op, args)) = self.op(at) else { return false };
        let entry = &self.groups[group];
        let new_inputs = self.read(op, args).filter(|v| !entry.inputs.contains(v)).count();
        let capacity = match entry.cheap && is_cheap(op) {
            true if matches!(op, Op::Slice { .. }) => true,
            true if self.sizes[at] <= MAX_CHEAP => {
                entry.members.len() + self.sizes[at] <= MAX_CHEAP
            }
            true => entry.members.len() < MAX_CHEAP,
            false => entry.members.len() < self.max_members,
        };
        capacity && entry.inputs.len() + new_inputs <= MAX_INPUTS
    }

    /// The tensors that an operator's kernel reads: operands but for constants that become part
    /// of an expression.
    fn read<'b>(&'b self, op: &Op, args: &'b [Value]) -> impl Iterator<Item = Value> + use<'a, 'b> {
        let elementwise = pattern(op) == OpPattern::Elementwise;
        let immediate = move |v: &Value| {
            let is_const = |at: &usize| matches!(self.body.bindings[*at].node, Node::Const(_));
            elementwise
                && self.defs.get(v).is_some_and(is_const)
                && self.shape(*v).iter().all(|n| n.as_int() == Some(1))
        };
        args.iter().copied().filter(move |v| !immediate(v))
    }

    /// The operators that read a value whose consumers are known.
    fn users(&self, value: Value) -> impl Iterator<Item = (&'a Op, &'a [Value])> {
        let list = self.uses[&value].as_ref().expect("the consumers are known");
        list.iter().filter_map(|user| self.op(*user))
    }

    /// Whether a producer takes part in an attention: the softmax of scores that the group's matmul
    /// weighs values by, the operators that compute the scores, and the transposes that both
    /// matmuls read.
    fn joins_attention(&self, at: usize, op: &Op, args: &[Value], group: usize) -> bool {
        let (entry, output) = (&self.groups[group], self.body.bindings[at].outputs[0]);
        let Some(scores) = &entry.scores else {
            // The softmax itself, or the matmul behind it where nothing but a transpose follows.
            let only_order = || match &entry.members[..] {
                [one] => matches!(self.op(*one), Some((Op::Transpose(_), _))),
                _ => false,
            };
            let weighs = matches!(op, Op::MatMul) && self.attends(args[0]);
            return self.scores_of(at).is_some() || (weighs && only_order());
        };
        let before = |user: &Op| {
            pattern(user) == OpPattern::Elementwise || matches!(user, Op::Softmax { .. })
        };
        match op {
            Op::Transpose(_) => self.users(output).all(|(user, _)| matches!(user, Op::MatMul)),
            _ => {
                (matches!(op, Op::MatMul) || pattern(op) == OpPattern::Elementwise)
                    && self.shape(output) == scores
                    && self.users(output).all(|(user, _)| before(user))
            }
        }
    }

    /// The shape of the scores, when the binding is a softmax that makes an attention.
    fn scores_of(&self, at: usize) -> Option<Vec<Expr>> {
        let [output] = self.body.bindings[at].outputs[..] else { return None };
        self.attends(output).then(|| self.shape(output).to_vec())
    }

    /// Whether a value is a softmax over the last axis of a matmul's scores, and the left operand
    /// of one matmul alone.
    fn attends(&self, value: Value) -> bool {
        let Some((Op::Softmax { axis, log: false }, args)) =
            self.defs.get(&value).and_then(|at| self.op(*at))
        else {
            return false;
        };
        let Some(Some(users)) = self.uses.get(&value) else { return false };
        let weighs = match &users[..] {
            [user] => {
                matches!(self.op(*user), Some((Op::MatMul, a)) if a[0] == value && a[1] != value)
            }
            _ => false,
        };
        let rank = self.shape(value).len();
        weighs && rank >= 2 && axis + 1 == rank && self.is_scores(args[0])
    }

    /// Whether a value with one reader is a matmul, or elementwise of a matmul of its shape.
    fn is_scores(&self, value: Value) -> bool {
        let once = matches!(self.uses.get(&value), Some(Some(users)) if users.len() == 1);
        let Some((op, args)) = self.defs.get(&value).and_then(|at| self.op(*at)) else {
            return false;
        };
        let alike = |v: &&Value| self.shape(**v) == self.shape(value);
        match op {
            Op::MatMul => once,
            _ if pattern(op) == OpPattern::Elementwise => {
                once && args.iter().filter(alike).any(|v| self.is_scores(*v))
            }
            _ => false,
        }
    }

    fn may_join(&self, at: usize, op: &Op, args: &[Value], group: usize) -> bool {
        let entry = &self.groups[group];
        let output = self.body.bindings[at].outputs[0];
        match pattern(op) {
            OpPattern::Elementwise if self.joined(output) && self.ends_contraction(output) => false,
            OpPattern::Elementwise | OpPattern::Injective => {
                let takes = |k| {
                    matches!(
                        k,
                        OpPattern::Elementwise
                            | OpPattern::Injective
                            | OpPattern::Concat
                            | OpPattern::Reduce
                    )
                };
                // A check reads indices before the body, so nothing of the body may write them. Codes, which need
                // none, are stored by the contraction that they are quantised sums of.
                let checked = |user: &Op, args: &[Value]| {
                    matches!(user, Op::Gather { out_of_range: OutOfRange::Raise, .. })
                        && args[1] == output
                };
                let same_work = || self.same_count(&entry.domain, self.shape(output));
                let padded = |root: &usize| matches!(self.op(*root), Some((Op::Pad { .. }, _)));
                let stays = || padded(&entry.members[0]) && self.is_epilogue(args, output);
                let in_padding =
                    || self.is_padded(output, &entry.domain) && !self.is_epilogue(args, output);
                self.users(output).all(|(user, args)| takes(pattern(user)) && !checked(user, args))
                    && (!is_heavy(op) || same_work() && !stays() || in_padding())
            }
            OpPattern::Anchor | OpPattern::Reduce => {
                !entry.anchored && self.only_epilogue(output, group)
            }
            OpPattern::Concat | OpPattern::View | OpPattern::Opaque => false,
        }
    }

    /// Whether a value is read by a concatenation.
    fn joined(&self, value: Value) -> bool {
        self.users(value).any(|(user, _)| pattern(user) == OpPattern::Concat)
    }

    /// Whether a value is elementwise of a contraction that nothing else reads: the contraction's
    /// kernel then stores it, at no cost.
    fn ends_contraction(&self, value: Value) -> bool {
        let Some((op, args)) = self.defs.get(&value).and_then(|at| self.op(*at)) else {
            return false;
        };
        let shape = self.shape(value);
        match pattern(op) {
            OpPattern::Anchor => {
                let after = |user: &usize| {
                    self.op(*user).is_some_and(|(op, _)| pattern(op) == OpPattern::Elementwise)
                };
                self.uses
                    .get(&value)
                    .is_some_and(|u| u.as_ref().is_some_and(|u| u.iter().all(after)))
            }
            OpPattern::Elementwise => {
                args.iter().any(|v| self.shape(*v) == shape && self.ends_contraction(*v))
            }
            _ => false,
        }
    }

    /// Whether the contraction that a value is elementwise of can store it: nothing else reads what is between.
    fn is_epilogue(&self, args: &[Value], value: Value) -> bool {
        let alone = |v: &Value| matches!(self.uses.get(v), Some(Some(users)) if users.len() == 1);
        let of = |v: &&Value| self.shape(**v) == self.shape(value) && alone(v);
        args.iter().filter(of).any(|v| self.ends_contraction(*v))
    }

    /// Whether constants are put around what is made of a value, element by element, and fill a group's domain then:
    /// nothing is computed of the elements around.
    fn is_padded(&self, value: Value, domain: &[Expr]) -> bool {
        let Some(Some(users)) = self.uses.get(&value) else { return false };
        let [user] = users[..] else { return false };
        let (Some((op, args)), [output]) = (self.op(user), &self.body.bindings[user].outputs[..])
        else {
            return false;
        };
        let shape = self.shape(*output);
        match op {
            Op::Pad { mode: PadMode::Constant, .. } => {
                args[0] == value && self.same_count(domain, shape)
            }
            _ if pattern(op) == OpPattern::Elementwise => {
                shape == self.shape(value) && self.is_padded(*output, domain)
            }
            _ => false,
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
            pattern(op) == OpPattern::Elementwise && self.shape(output) == shape
        })
    }

    fn shape(&self, value: Value) -> &'a [Expr] {
        self.func.values[value].ty.as_tensor().map_or(&[], |t| &t.shape)
    }

    fn domain(&self, at: usize, op: &Op, args: &[Value]) -> Vec<Expr> {
        let value = match pattern(op) {
            OpPattern::Reduce => args[0],
            // Nothing is computed of the elements around it.
            _ if matches!(op, Op::Pad { mode: PadMode::Constant, .. }) => args[0],
            _ => self.body.bindings[at].outputs[0],
        };
        self.shape(value).to_vec()
    }

    fn same_count(&self, a: &[Expr], b: &[Expr]) -> bool {
        a == b || dims::equal(&dims::product(a), &dims::product(b)) == Some(true)
    }
}
