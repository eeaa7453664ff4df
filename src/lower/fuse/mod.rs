//! Operator fusion (FuseOps in TVM): every operator becomes part of a kernel, several operators one
//! kernel where that saves memory traffic.
//!
//! After this pass a function holds calls of kernels, views (`Reshape`), constants, control
//! flow and checks. Constant weights are stored in the layout that their kernel asks for.
//! Kernels that are equal up to names are shared.

mod groups;
mod kernel_dims;
mod merge;
mod packed;
mod pattern;
mod propagate_layout;
mod ranges;
mod store_bf16;
mod tir_calls;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use reflex_graph::{
    Binding, Body, Const, Func, FuncData, FuncId, Literal, Module, Node, Op, TensorType, Type,
    Value,
};
use reflex_tir::PrimFunc;

use crate::LowerError;
use crate::graph::edit::{constant_names, constants, release};
use crate::graph::eliminate_dead_code;
use crate::layout::blocked_shape;
use crate::optimize_for::{DeviceKind, OptimizeFor};
use crate::packing::choose::{
    block_packing, blocked_packings, gpu_packings, packings, winograd_packings,
};
use crate::packing::pack::pack;
use crate::packing::panels::Packing;
use crate::parallel::in_parallel;
use crate::precision::{BF16_ATTR, Precision, SPLIT_BF16_ATTR};
use groups::KernelGroup;
use merge::{GroupMember, MergedKernel, merge};
use propagate_layout::{Goal, Layouts};

/// Turns the operators of every function into kernels, of at most `max_operators` each unless all are
/// cheap. Calls of kernels fuse too, but for those that `has_trace` names.
pub fn fuse_operators(
    module: &mut Module,
    precision: Precision,
    optimize_for: OptimizeFor,
    device: DeviceKind,
    max_operators: usize,
    has_trace: &dyn Fn(&str) -> bool,
) -> Result<(), LowerError> {
    // A GPU's rules round operands where they fill tiles: there are no pairs in memory.
    let rounds = (precision, device) == (Precision::Bf16, DeviceKind::Gpu);
    let (precision, attribute) = match (precision, device) {
        (Precision::Bf16, DeviceKind::Gpu) => (Precision::F32, Some((BF16_ATTR, "1"))),
        (Precision::Int8, _) => (Precision::F32, None),
        (Precision::F32Fast, DeviceKind::Gpu) => (precision, Some((SPLIT_BF16_ATTR, "6"))),
        (Precision::F32Fast, _) => (precision, Some((SPLIT_BF16_ATTR, "3"))),
        _ => (precision, None),
    };
    let mut pass = FusePass {
        precision,
        optimize_for,
        device,
        rounds,
        max_operators,
        by_hash: HashMap::new(),
        names: module.funcs.values().map(|f| f.name().to_string()).collect(),
        packed: HashMap::new(),
        read_once: HashSet::new(),
    };
    packed::call_packed(module);
    let names = constant_names(module);
    let ids: Vec<FuncId> = module.funcs.keys().collect();
    for id in ids {
        let FuncData::Graph(func) = &module.funcs[id] else { continue };
        let mut func = func.clone();
        let consts = constants(&func.body);
        let mut body = std::mem::take(&mut func.body);
        pass.read_once = read_once(&body, &consts, &names);
        let result = pass.body(module, &mut func, &consts, &mut body, has_trace);
        func.body = body;
        module.funcs[id] = FuncData::Graph(func);
        result?;
    }
    if let Some((name, value)) = attribute {
        for func in module.funcs.values_mut() {
            if let FuncData::Prim(kernel) = func {
                kernel.attrs.insert(name.to_owned(), value.to_owned());
            }
        }
    }
    // Constants that were replaced by their packed form are removed.
    eliminate_dead_code(module)
}

/// Constants that one operator reads once, and that no other value of any function names.
fn read_once(
    body: &Body,
    consts: &HashMap<Value, Const>,
    names: &HashMap<Const, usize>,
) -> HashSet<Value> {
    let mut uses: HashMap<Value, usize> = HashMap::new();
    body.uses(&mut |v| *uses.entry(v).or_default() += 1);
    let sole = consts.iter().filter(|(v, c)| uses.get(v) == Some(&1) && names[c] == 1);
    sole.map(|(v, _)| *v).collect()
}

/// Kernels are equal when their bodies are, up to names; the key is a hash of that.
pub(crate) fn structural_hash(func: &PrimFunc) -> blake3::Hash {
    let mut anonymous = func.clone();
    anonymous.name.clear();
    anonymous.vars.values_mut().for_each(|v| v.name = Arc::default());
    anonymous.buffers.values_mut().for_each(|b| b.name.clear());
    let bytes = postcard::to_stdvec(&anonymous).expect("plain data always encodes");
    blake3::hash(&bytes)
}

/// The kernel of a group before it is part of the module.
struct GroupKernel {
    kernel: MergedKernel,
    hash: blake3::Hash,
    /// The name that it would like.
    name: String,
    /// Constants that it reads in packed form.
    packed: Vec<PackedOperand>,
}

/// Constants that one operand of a kernel is made of.
struct PackedOperand {
    value: Value,
    /// Other constants that the packed form holds.
    held: Vec<Value>,
    packing: Packing,
}

/// A constant, and in words how it is packed and with which others.
type PackedKey = (Const, String);

fn packed_key(consts: &HashMap<Value, Const>, operand: &PackedOperand) -> PackedKey {
    let PackedOperand { value, held, packing } = operand;
    let (elements, held) = (packing.elements, held.iter().map(|v| consts[v]).collect::<Vec<_>>());
    let key = format!("{:?} {} {elements:?} {held:?}", packing.matrix, packing.width);
    (consts[value], key)
}

struct FusePass {
    precision: Precision,
    optimize_for: OptimizeFor,
    device: DeviceKind,
    /// Whether a GPU rounds float32 for its tensor cores.
    rounds: bool,
    max_operators: usize,
    by_hash: HashMap<blake3::Hash, FuncId>,
    names: HashSet<String>,
    /// Packed constants made so far, by constant and packing.
    packed: HashMap<PackedKey, Const>,
    /// Constants with a single reader.
    read_once: HashSet<Value>,
}

impl FusePass {
    fn body(
        &mut self,
        module: &mut Module,
        func: &mut Func,
        consts: &HashMap<Value, Const>,
        body: &mut Body,
        has_trace: &dyn Fn(&str) -> bool,
    ) -> Result<(), LowerError> {
        for binding in &mut body.bindings {
            for nested in binding.node.bodies_mut() {
                self.body(module, func, consts, nested, has_trace)?;
            }
        }
        let mut calls = tir_calls::as_operators(module, func, body, has_trace);
        let (precision, optimize_for, device) = (self.precision, self.optimize_for, self.device);
        let goal = Goal { precision, optimize_for, device, rounds: self.rounds };
        let mut layouts = propagate_layout::choose(func, body, consts, goal, &HashSet::new());
        let rounded = store_bf16::store_rounded(func, body, &layouts, &|func, op, args, sums| {
            self.packings(func, consts, op, args, args, Some(sums))
        });
        if !rounded.is_empty() {
            layouts = propagate_layout::choose(func, body, consts, goal, &rounded);
        }
        let mut groups = groups::groups(func, body, self.max_operators);
        // A call that fused with nothing stays the call of its kernel.
        groups.retain(|group| match group.members[..] {
            [at] => calls.remove(&at).map(|call| body.bindings[at].node = call).is_none(),
            _ => true,
        });
        if self.device == DeviceKind::Cpu {
            ranges::join_ranges(func, body, consts, &mut groups, self.max_operators);
        }
        let (pass, read) = (&*self, &*module);
        let kernels = in_parallel(groups.len(), 0, |at| {
            pass.kernel(read, func, consts, body, &groups[at], &layouts)
        });
        let kernels = kernels.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.pack(module, consts, kernels.iter().flat_map(|kernel| &kernel.packed))?;
        let mut replaced: HashMap<usize, Vec<Binding>> = HashMap::new();
        let mut gone = HashSet::new();
        for (group, kernel) in groups.iter().zip(kernels) {
            gone.extend(group.members.iter().copied().filter(|member| *member != group.at));
            let source = &body.bindings[group.at].source;
            let call = self.group(module, func, consts, (&group.results, source), kernel);
            replaced.insert(group.at, call);
        }
        let old = std::mem::take(&mut body.bindings);
        for (at, binding) in old.into_iter().enumerate() {
            match replaced.remove(&at) {
                Some(new) => body.bindings.extend(new),
                None if gone.contains(&at) => {}
                None => body.bindings.push(binding),
            }
        }
        for value in layouts.values() {
            let block = layouts.of(value).expect("a value in blocks");
            let ty = func.tensor(value);
            let ty = TensorType::new(ty.dtype, blocked_shape(&ty.shape, block));
            func.values[value].ty = Type::Tensor(ty);
        }
        Ok(())
    }

    /// The kernel of a group.
    fn kernel(
        &self,
        module: &Module,
        func: &Func,
        consts: &HashMap<Value, Const>,
        body: &Body,
        group: &KernelGroup,
        layouts: &Layouts,
    ) -> Result<GroupKernel, LowerError> {
        let members = &group.members;
        let mut list: Vec<GroupMember<'_>> = vec![];
        let mut packed = vec![];
        let mut all_args = vec![];
        members.iter().for_each(|at| body.bindings[*at].node.operands(&mut |v| all_args.push(v)));
        for at in members {
            let binding = &body.bindings[*at];
            let Node::Op { op, args } = &binding.node else {
                return Err(LowerError::internal(
                    "a fusion group holds a node that is no operator",
                ));
            };
            let sums = layouts.sums(*at);
            let literal = |v: Value| consts.get(&v).map(|c| module.consts[*c].clone());
            let packings = match self.codes_packing(func, op, args, &all_args, &literal) {
                Some(codes) => vec![codes],
                None => self.packings(func, consts, op, args, &all_args, sums),
            };
            packed.extend(packings.iter().map(|p| {
                let held = p.holds.iter().map(|n| args[*n]).collect();
                PackedOperand { value: args[p.operand], held, packing: p.clone() }
            }));
            let (outputs, source) = (&binding.outputs[..], binding.source.as_str());
            // Without packed weights the sums stay plain; that is right in any layout.
            let sums = sums.filter(|_| !packings.is_empty());
            list.push(GroupMember { op, args: args.clone(), outputs, packings, sums, source });
        }
        let constant = |v: Value| consts.get(&v).map(|c| &module.consts[*c]);
        let kernel = merge(func, layouts, &list, &group.results, &constant, self.precision)?;
        let hash = structural_hash(&kernel.func);
        Ok(GroupKernel { kernel, hash, name: self.kernel_name(&list), packed })
    }

    /// The call that stands for a group, with the packed constants it reads before it. It has results, and a
    /// source for messages.
    fn group(
        &mut self,
        module: &mut Module,
        func: &mut Func,
        consts: &HashMap<Value, Const>,
        call: (&[Value], &str),
        group: GroupKernel,
    ) -> Vec<Binding> {
        let mut bindings = vec![];
        let mut packed_values = HashMap::new();
        for operand in &group.packed {
            let PackedOperand { value, packing, .. } = operand;
            let constant = self.packed[&packed_key(consts, operand)];
            let ty =
                TensorType::new(packing.dtype(func.tensor(*value).dtype), packing.packed_shape());
            let name = format!("{}_packed", func.values[*value].name);
            let fresh = func.new_value(name, Type::Tensor(ty));
            bindings.push(Binding {
                outputs: vec![fresh],
                node: Node::Const(constant),
                source: String::new(),
            });
            packed_values.insert(*value, fresh);
        }
        bindings.push(self.call(module, group, call, &packed_values));
        bindings
    }

    /// The packings of an operator's constants; `sums` is the block of channels in which a
    /// convolution computes its sums.
    fn packings(
        &self,
        func: &Func,
        consts: &HashMap<Value, Const>,
        op: &Op,
        args: &[Value],
        all_args: &[Value],
        sums: Option<i64>,
    ) -> Vec<Packing> {
        let types: Option<Vec<_>> =
            args.iter().map(|v| func.values[*v].ty.as_tensor().cloned()).collect();
        // A constant that the same kernel reads twice keeps its own layout.
        let once = |n: usize| all_args.iter().filter(|v| **v == args[n]).count() == 1;
        let is_constant = |n: usize| consts.contains_key(&args[n]) && once(n);
        types.map_or(vec![], |types| match sums {
            _ if self.device == DeviceKind::Gpu => {
                gpu_packings(op, &types, &is_constant, self.rounds)
            }
            Some(block) => {
                let (shape, precision) = (func.symbolic_shape(args[0]), self.precision);
                let tiled = match self.optimize_for {
                    OptimizeFor::Size => vec![],
                    OptimizeFor::Speed => {
                        winograd_packings(op, shape, &types, &is_constant, block, precision)
                    }
                };
                match &tiled[..] {
                    [] => blocked_packings(op, &types, &is_constant, block, precision),
                    _ => tiled,
                }
            }
            None => packings(op, &types, &is_constant, self.precision),
        })
    }

    /// The packing of an operand that is a constant of codes, which stay codes.
    fn codes_packing(
        &self,
        func: &Func,
        op: &Op,
        args: &[Value],
        all_args: &[Value],
        literal: &dyn Fn(Value) -> Option<Literal>,
    ) -> Option<Packing> {
        // Products of integers are instructions of CPUs.
        if self.device == DeviceKind::Gpu && !matches!(op, Op::MatMul) {
            return None;
        }
        let ty = |v: &Value| func.values[*v].ty.as_tensor().cloned();
        let types = args.iter().map(ty).collect::<Option<Vec<_>>>()?;
        let once = |n: usize| all_args.iter().filter(|v| **v == args[n]).count() == 1;
        // GPUs, and precisions other than float32's, make numbers of their own of floats.
        let any = self.device == DeviceKind::Cpu && self.precision == Precision::F32;
        let by_columns =
            |l: &Literal| l.as_block_quantized().is_some_and(|(m, _)| m.is_by_columns());
        let constant = |n: usize| literal(args[n]).filter(|l| once(n) && (any || !by_columns(l)));
        block_packing(op, &types, &constant, self.precision)
    }

    /// Adds the packed forms of operands to the module, made by all cores.
    fn pack<'a>(
        &mut self,
        module: &mut Module,
        consts: &HashMap<Value, Const>,
        operands: impl Iterator<Item = &'a PackedOperand>,
    ) -> Result<(), LowerError> {
        let mut wanted = vec![];
        let mut seen = HashSet::new();
        for operand in operands {
            let key = packed_key(consts, operand);
            if !self.packed.contains_key(&key) && seen.insert(key.clone()) {
                wanted.push((key, operand));
            }
        }
        let shared = Mutex::new(&mut *module);
        let lock = || shared.lock().expect("no thread panics with the lock");
        let packed = in_parallel(wanted.len(), 0, |at| {
            let PackedOperand { value, held, packing } = wanted[at].1;
            let values = || [value].into_iter().chain(held);
            let parts: Vec<Literal> = {
                let module = lock();
                values().map(|v| module.consts[consts[v]].clone()).collect()
            };
            let packed = pack(packing, &parts);
            parts[0].release();
            drop(parts);
            // The packed form replaces the original: both would be in memory otherwise.
            let replaced = values().filter(|v| self.read_once.contains(v));
            let mut module = lock();
            replaced.for_each(|v| release(&mut module, consts[v]));
            packed
        });
        for ((key, _), packed) in wanted.into_iter().zip(packed) {
            let packed =
                packed.ok_or_else(|| LowerError::internal("a weight does not fit its packing"))?;
            self.packed.insert(key, module.add_const(packed));
        }
        Ok(())
    }

    fn call(
        &mut self,
        module: &mut Module,
        group: GroupKernel,
        (results, source): (&[Value], &str),
        packed: &HashMap<Value, Value>,
    ) -> Binding {
        let GroupKernel { kernel, hash, name, .. } = group;
        let MergedKernel { func: mut kernel, args, scalars } = kernel;
        let id = *self.by_hash.entry(hash).or_insert_with(|| {
            let mut unique = name.clone();
            let mut n = 1;
            while !self.names.insert(unique.clone()) {
                unique = format!("{name}{n}");
                n += 1;
            }
            kernel.name = unique;
            module.funcs.push(FuncData::Prim(kernel))
        });
        let args = args.iter().map(|v| packed.get(v).copied().unwrap_or(*v)).collect();
        Binding {
            outputs: results.to_vec(),
            node: Node::CallTir { func: id, args, scalars },
            source: source.to_owned(),
        }
    }

    fn kernel_name(&self, members: &[GroupMember<'_>]) -> String {
        const MAX_PARTS: usize = 5;
        let mut parts: Vec<String> = members.iter().map(|m| op_name(m.op)).collect();
        if parts.len() == 1 {
            return parts.remove(0);
        }
        if parts.len() > MAX_PARTS {
            let rest = parts.split_off(MAX_PARTS);
            parts.push(format!("{}more", rest.len()));
        }
        format!("fused_{}", parts.join("_"))
    }
}

/// The operator in lower case, as kernels are named.
fn op_name(op: &Op) -> String {
    let text = match op {
        Op::Registered(op) => return op.name.replace('.', "_"),
        Op::Unary(f) => format!("{f:?}"),
        Op::Binary(f) => format!("{f:?}"),
        Op::Reduce { kind, .. } => format!("{kind:?}"),
        Op::ArgReduce { kind, .. } => format!("arg{kind:?}"),
        other => format!("{other:?}"),
    };
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    let mut name = String::new();
    let mut after_lower = false;
    for c in text[..end].chars() {
        if c.is_uppercase() && after_lower {
            name.push('_');
        }
        after_lower = c.is_lowercase();
        name.push(c.to_ascii_lowercase());
    }
    name
}
