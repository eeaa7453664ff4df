//! Static memory planning: storage reuse by liveness.
//!
//! Kernel outputs of known size whose whole use is visible (kernels, views, conditions) share
//! one arena per function: offsets are packed best-fit over lifetimes. Outputs of symbolic
//! size reuse a storage of provably equal size in the same body. Everything else, results
//! above all, is allocated on its own and counted by reference.

use std::collections::{HashMap, HashSet};

use reflex_graph::{Body, Func, Node, Value, dims};
use reflex_tir::Expr;

/// Where offsets may start.
const ALIGN: i64 = 64;

/// Where a kernel output lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageSlot {
    /// At an offset of the function's arena.
    Arena(i64),
    /// In a storage that others use before or after; the first user allocates it, and the last one
    /// (`true`) alone keeps it alive.
    Shared(usize, bool),
    /// Alone.
    Own,
}

/// The storage of all kernel outputs.
#[derive(Debug, Default)]
pub struct MemoryPlan {
    /// Bytes of the arena.
    pub arena: i64,
    slots: HashMap<Value, StorageSlot>,
    /// The kernel output whose memory a value is.
    owners: HashMap<Value, Value>,
}

impl MemoryPlan {
    /// The storage of a kernel output.
    pub fn slot(&self, value: Value) -> StorageSlot {
        self.slots.get(&value).copied().unwrap_or(StorageSlot::Own)
    }

    /// Whether the value, perhaps a view, lives in the arena: then its register need not be
    /// cleared for its memory to be free.
    pub fn in_arena(&self, value: Value) -> bool {
        let owner = self.owners.get(&value).copied().unwrap_or(value);
        matches!(self.slot(owner), StorageSlot::Arena(_))
    }
}

/// Plans a function.
pub fn plan(func: &Func) -> MemoryPlan {
    let mut lives = Liveness {
        func,
        clock: 0,
        bodies: 0,
        owner: HashMap::new(),
        outputs: vec![],
        life: HashMap::new(),
        escapes: HashSet::new(),
    };
    let results = lives.body(&func.body);
    lives.escape(&results);
    let mut plan = MemoryPlan::default();
    let (mut fixed, mut symbolic) = (vec![], vec![]);
    for item in &lives.outputs {
        if lives.escapes.contains(&item.value) {
            continue;
        }
        let (first, last) = lives.life[&item.value];
        match &item.size {
            ByteSize::Known(bytes) => {
                fixed.push(Interval { value: item.value, bytes: *bytes, first, last })
            }
            ByteSize::Symbolic(size) => {
                symbolic.push((item.body, size.clone(), item.value, first, last));
            }
        }
    }
    pack(fixed, &mut plan);
    plan.owners = lives.owner;
    share(symbolic, &mut plan);
    plan
}

struct Interval {
    value: Value,
    bytes: i64,
    first: u32,
    last: u32,
}

/// Largest blocks first, each at the tightest gap between those alive at the same time.
fn pack(mut blocks: Vec<Interval>, plan: &mut MemoryPlan) {
    blocks.sort_by_key(|b| (std::cmp::Reverse(b.bytes), b.first));
    let mut placed: Vec<(i64, Interval)> = vec![];
    for block in blocks {
        let mut busy: Vec<(i64, i64)> = placed
            .iter()
            .filter(|(_, p)| p.first <= block.last && block.first <= p.last)
            .map(|(at, p)| (*at, at + p.bytes))
            .collect();
        busy.sort_unstable();
        let (mut end, mut best): (i64, Option<(i64, i64)>) = (0, None);
        for (from, to) in busy {
            let gap = from - end;
            if gap >= block.bytes && best.is_none_or(|(size, _)| gap < size) {
                best = Some((gap, end));
            }
            end = end.max(to);
        }
        let at = best.map_or(end, |(_, at)| at);
        plan.arena = plan.arena.max(at + block.bytes);
        plan.slots.insert(block.value, StorageSlot::Arena(at));
        placed.push((at, block));
    }
}

type Symbolic = (usize, Expr, Value, u32, u32);

/// Storages of equal symbolic size in one body, each used by values one after the other.
fn share(values: Vec<Symbolic>, plan: &mut MemoryPlan) {
    let mut pools: HashMap<(usize, Expr), Vec<(usize, u32)>> = HashMap::new();
    let mut users: Vec<Vec<Value>> = vec![];
    for (body, size, value, first, last) in values {
        let pool = pools.entry((body, size)).or_default();
        let free = pool.iter_mut().find(|(_, busy_until)| *busy_until < first);
        let id = match free {
            Some((id, busy_until)) => {
                *busy_until = last;
                *id
            }
            None => {
                pool.push((users.len(), last));
                users.push(vec![]);
                users.len() - 1
            }
        };
        users[id].push(value);
    }
    for (id, users) in users.iter().enumerate() {
        for (n, user) in users.iter().enumerate() {
            plan.slots.insert(*user, StorageSlot::Shared(id, n + 1 == users.len()));
        }
    }
}

enum ByteSize {
    Known(i64),
    Symbolic(Expr),
}

struct KernelOutput {
    value: Value,
    body: usize,
    size: ByteSize,
}

struct Liveness<'a> {
    func: &'a Func,
    clock: u32,
    bodies: usize,
    /// The kernel output whose memory a value is.
    owner: HashMap<Value, Value>,
    outputs: Vec<KernelOutput>,
    life: HashMap<Value, (u32, u32)>,
    /// Outputs that something may hold on to.
    escapes: HashSet<Value>,
}

impl Liveness<'_> {
    fn tick(&mut self) -> u32 {
        self.clock += 1;
        self.clock
    }

    fn touch(&mut self, value: Value, at: u32) {
        if let Some(owner) = self.owner.get(&value) {
            let life = self.life.get_mut(owner).expect("roots have a life");
            life.1 = life.1.max(at);
        }
    }

    fn escape(&mut self, values: &[Value]) {
        let owners = values.iter().filter_map(|v| self.owner.get(v).copied());
        self.escapes.extend(owners.collect::<Vec<_>>());
    }

    /// Walks a body and returns its results, whose end of life the caller decides.
    fn body(&mut self, body: &Body) -> Vec<Value> {
        let id = self.bodies;
        self.bodies += 1;
        for binding in &body.bindings {
            let at = self.tick();
            binding.node.operands(&mut |v| self.touch(v, at));
            self.node(binding.outputs.as_slice(), &binding.node, at, id);
        }
        let end = self.tick();
        body.results.iter().for_each(|v| self.touch(*v, end));
        body.results.clone()
    }

    fn node(&mut self, outputs: &[Value], node: &Node, at: u32, body: usize) {
        match node {
            Node::CallTir { .. } => outputs.iter().for_each(|v| self.output(*v, at, body)),
            Node::Op { args, .. } => self.alias(outputs, args),
            Node::MatchCast(value) | Node::MatchShape { value, .. } => {
                self.alias(outputs, &[*value]);
            }
            Node::Const(_) | Node::Leaf(_) => {}
            Node::CallFunc { args, .. } | Node::CallPacked { args, .. } => self.escape(args),
            Node::Tuple(items) => self.escape(items),
            Node::TupleGet(..) => {}
            Node::If { then, otherwise, .. } => {
                for side in [then, otherwise] {
                    let results = self.body(side);
                    self.escape(&results);
                }
            }
            Node::Loop(l) => {
                self.escape(&l.init);
                let results = self.body(&l.body);
                self.escape(&results);
                // A value that the body reads from outside is needed again in the next iteration.
                let end = self.tick();
                l.body.uses(&mut |v| {
                    let outside = self.owner.get(&v).is_some_and(|r| self.life[r].0 < at);
                    if outside {
                        self.touch(v, end);
                    }
                });
            }
        }
    }

    /// Views have the memory of their operand.
    fn alias(&mut self, outputs: &[Value], args: &[Value]) {
        if let (Some(owner), [output]) = (args.first().and_then(|v| self.owner.get(v)), outputs) {
            self.owner.insert(*output, *owner);
        }
    }

    fn output(&mut self, value: Value, at: u32, body: usize) {
        self.owner.insert(value, value);
        self.life.insert(value, (at, at));
        let Some(ty) = self.func.values[value].ty.as_tensor() else { return };
        let count = dims::product(&ty.shape);
        let size = match count.as_int() {
            Some(n) => {
                let bytes = usize::try_from(n).ok().and_then(|n| ty.dtype.bytes_for(n));
                match bytes.and_then(|b| i64::try_from(b).ok()) {
                    Some(bytes) => ByteSize::Known((bytes + ALIGN - 1) / ALIGN * ALIGN),
                    None => return self.escape(&[value]),
                }
            }
            None => ByteSize::Symbolic(dims::simplify(&(count * ty.dtype.itemsize() as i64))),
        };
        self.outputs.push(KernelOutput { value, body, size });
    }
}
