//! Allocation sinking by escape analysis (scalar replacement).
//!
//! An object that does not escape the trace becomes a *virtual object*: the trace does not allocate
//! it. A storage or tensor escapes unless the trace passes it to raw kernels only, which need no more
//! than the address of its data (`arena`). A tuple or closure does not escape if only its items are
//! read, a shape or shape heap if only its dimensions are. Snapshots list the registers that hold
//! virtual objects, and side exits materialise them. An object escapes if it reaches a packed call, a
//! result, the next iteration or other code; the storage of an escaping tensor escapes too. A
//! materialised storage keeps the arena, and the session gets another one.
//!
//! The analysis is iterative: it assumes that no object escapes, and starts again without those that
//! do.
//!
//! Decision: docs/decisions/0010-allocation-sinking.md

mod aggregates;
mod allocations;
mod dims;
mod shapes;
mod uses;

use std::collections::{BTreeMap, HashMap, HashSet};

use reflex_vm::decode::Op;
use reflex_vm::program::Program;

use super::super::ir::{
    Arg, End, FrameId, Ins, Item, Object, ObjectId, Scalar, Snapshot, Trace, VReg, Var,
};
use super::arena::Arena;

/// Most iterations of the analysis.
const MAX_ITERATIONS: usize = 8;
/// Most registers that hold virtual objects: each is listed in every snapshot.
const MAX_VIRTUALS: usize = 64;

/// Sinks the allocations of objects that do not escape.
pub(super) fn sink_allocations(program: &Program, trace: &mut Trace) {
    let mut escaped = HashSet::new();
    for _ in 0..MAX_ITERATIONS {
        let mut analysis = EscapeAnalysis::new(program, &escaped, trace.vars);
        for (at, ins) in trace.code.iter().enumerate() {
            analysis.instruction(at, ins);
        }
        analysis.end(trace);
        let EscapeAnalysis {
            newly_escaped, objects, code, virtuals_at, arena, values, vars, ..
        } = analysis;
        if newly_escaped.is_empty() {
            (trace.code, trace.objects, trace.arena) = (code, objects, arena.bytes);
            (trace.owned_values, trace.vars) = (values, vars);
            return trace.change_snapshots(|at, exit| with_objects(exit, &virtuals_at[at]));
        }
        escaped.extend(newly_escaped);
    }
}

/// A snapshot where registers hold virtual objects. So do registers that are copies of these: there
/// is nothing in memory to copy.
fn with_objects(exit: &Snapshot, virtuals: &[(VReg, ObjectId)]) -> Snapshot {
    let mut exit = exit.clone();
    let held = |vreg: VReg| virtuals.iter().find(|(at, _)| *at == vreg).map(|&(_, object)| object);
    let copies = exit.copies.iter().filter_map(|&(dst, src)| Some((dst, held(src)?)));
    exit.objects = virtuals.iter().copied().chain(copies).collect();
    exit.copies.retain(|&(_, src)| held(src).is_none());
    exit
}

/// One iteration of the analysis over the trace.
struct EscapeAnalysis<'t> {
    program: &'t Program,
    /// Allocations, by instruction, whose objects escape.
    escaped: &'t HashSet<usize>,
    /// Those that this iteration has found.
    newly_escaped: Vec<usize>,
    objects: Vec<Object>,
    /// For each object: the instruction that allocates it, and its number of holders.
    origins: Vec<usize>,
    holders: Vec<u32>,
    virtuals: BTreeMap<VReg, ObjectId>,
    /// Values of result slots that were not stored.
    results: HashMap<FrameId, Item>,
    /// Numbers of values in machine registers, and of variables.
    values: u32,
    vars: u32,
    /// Variables that are known to equal others, or constants.
    lets: HashMap<Var, Scalar>,
    arena: Arena,
    code: Vec<Ins>,
    /// The virtual objects in registers before each instruction of `code`, and before the end.
    virtuals_at: Vec<Vec<(VReg, ObjectId)>>,
}

impl<'t> EscapeAnalysis<'t> {
    fn new(program: &'t Program, escaped: &'t HashSet<usize>, vars: u32) -> Self {
        Self {
            program,
            escaped,
            newly_escaped: Vec::new(),
            objects: Vec::new(),
            origins: Vec::new(),
            holders: Vec::new(),
            virtuals: BTreeMap::new(),
            results: HashMap::new(),
            values: 0,
            vars,
            lets: HashMap::new(),
            arena: Arena::default(),
            code: Vec::new(),
            virtuals_at: Vec::new(),
        }
    }

    /// Processes instruction number `at` of the trace, and keeps what is left of it.
    fn instruction(&mut self, at: usize, ins: &Ins) {
        if !self.elides(at, ins) {
            let ins = self.replaced(ins);
            self.emit(ins);
        }
    }

    fn emit(&mut self, ins: Ins) {
        self.code.push(ins);
        self.virtuals_at
            .push(self.virtuals.iter().map(|(&vreg, &object)| (vreg, object)).collect());
    }

    /// Returns true if nothing is left of an instruction; then its effect is tracked.
    fn elides(&mut self, at: usize, ins: &Ins) -> bool {
        match ins {
            Ins::Allocate { .. } | Ins::MakeView { .. } => self.elides_allocation(at, ins),
            Ins::CallBuiltin { frame, builtin, args, result, exit, .. } => {
                self.numbers(*builtin, args, *result, *exit)
                    || self.tests_tag(*builtin, args, *result)
                    || self.makes_aggregate(at, *frame, *builtin, args)
                    || self.reads_aggregate(*frame, *builtin, args)
            }
            Ins::GuardClosure { vreg, func, captured, .. } => {
                self.is_closure(*vreg, *func, *captured)
            }
            Ins::GuardTruth { var, expected, .. } => {
                let known = self.resolved(Scalar::number(*var));
                matches!(known, Scalar::Const { bits, .. } if (bits != 0) == *expected)
            }
            Ins::GuardType { vreg, tag, .. } => {
                self.virtuals.get(vreg).is_some_and(|&object| self.tag(object) == *tag)
            }
            Ins::GuardFact { vreg, fact, exit } => {
                let Some(&object) = self.virtuals.get(vreg) else { return false };
                self.satisfies(object, *fact, *exit)
            }
            Ins::GuardShapeRank { .. }
            | Ins::LoadDim { .. }
            | Ins::LoadShapeDim { .. }
            | Ins::GuardViewFits { .. }
            | Ins::GuardSameDim { .. }
            | Ins::Let { .. } => self.reads_dims(ins),
            _ => self.elides_move(ins).is_some(),
        }
    }

    /// Makes the object of an allocation virtual, if it does not escape as far as is known.
    fn elides_allocation(&mut self, at: usize, ins: &Ins) -> bool {
        if !self.may_sink(at) {
            return false;
        }
        match ins {
            Ins::Allocate { frame, builtin, free_entry, args, dst, .. } => {
                let Some(object) = self.allocated(*builtin, &free_entry.plan, args) else {
                    return false;
                };
                if let Object::Tensor { on, .. } = object {
                    self.add_holder(on);
                }
                let id = self.add_virtual(at, object);
                match dst {
                    Some(dst) => drop(self.virtuals.insert(*dst, id)),
                    None => drop(self.results.insert(*frame, Item::Object(id))),
                }
            }
            Ins::MakeView { frame, src, dims, dtype, .. } => {
                let Some(of) = self.new_item(*src) else { return false };
                let dims = dims.iter().map(|&dim| Item::Scalar(self.resolved(dim)));
                let items = std::iter::once(of).chain(dims).collect();
                let id = self.add_virtual(at, Object::View { items, dtype: *dtype });
                self.results.insert(*frame, Item::Object(id));
            }
            _ => return false,
        }
        true
    }

    /// Tracks a move, copy or release of a virtual object; `None` if it concerns none.
    fn elides_move(&mut self, ins: &Ins) -> Option<()> {
        match ins {
            Ins::LoadCaptured { dst, closure: Arg::Reg(vreg, _), index } => {
                let item = self.item(*vreg, *index as usize)?;
                self.assign(item, *dst);
            }
            Ins::TakeResult { frame, dst } => {
                let item = self.results.remove(frame)?;
                self.assign(item, *dst);
            }
            Ins::DropResult { frame } => {
                let item = self.results.remove(frame)?;
                self.release_item(item);
            }
            Ins::Move { dst, src } => {
                let object = self.virtuals.remove(src)?;
                self.virtuals.insert(*dst, object);
            }
            Ins::Copy { dst, src: Arg::Reg(src, _), .. } => {
                let &object = self.virtuals.get(src)?;
                self.add_holder(object);
                self.virtuals.insert(*dst, object);
            }
            Ins::Release { vreg, .. } | Ins::Recycle { vreg, .. } => {
                let object = self.virtuals.remove(vreg)?;
                self.drop_holder(object);
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns true if the object of instruction number `at` may be virtual, as far as is known.
    fn may_sink(&self, at: usize) -> bool {
        !self.escaped.contains(&at) && self.virtuals.len() < MAX_VIRTUALS
    }

    /// Adds a virtual object with one holder.
    fn add_virtual(&mut self, at: usize, object: Object) -> ObjectId {
        let id = ObjectId(self.objects.len() as u32);
        self.objects.push(object);
        self.origins.push(at);
        self.holders.push(1);
        id
    }

    fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0 as usize]
    }

    /// Adds a holder.
    fn add_holder(&mut self, id: ObjectId) {
        self.holders[id.0 as usize] += 1;
    }

    /// Removes a holder; the last one releases the items of the object.
    fn drop_holder(&mut self, id: ObjectId) {
        let holders = &mut self.holders[id.0 as usize];
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        match *self.object(id) {
            Object::Storage { at, .. } => self.arena.free(at),
            Object::Tensor { on, .. } => self.drop_holder(on),
            Object::Shape { .. } | Object::Heap { .. } => {}
            Object::View { .. } | Object::Tuple { .. } | Object::Closure { .. } => {
                for item in self.object(id).items().to_vec() {
                    self.release_item(item);
                }
            }
        }
    }

    /// Objects in registers escape at the end of the trace; at a return, only the result does.
    fn end(&mut self, trace: &Trace) {
        let result = match trace.end {
            End::Return { frame, pc } => {
                let func = self.program.function(trace.frame(frame).func);
                match func.map(|func| func.ops[pc as usize]) {
                    Some(Op::Ret { result }) => Some(result.reg()),
                    _ => None,
                }
            }
            End::Loop
            | End::Recursion { .. }
            | End::Function { .. }
            | End::Site { .. }
            | End::Interpreter(_) => None,
        };
        for (vreg, object) in self.virtuals.clone() {
            match result {
                Some(result) if result != Some(vreg.reg) => {
                    self.virtuals.remove(&vreg);
                    self.drop_holder(object);
                    self.emit(Ins::Store { dst: vreg, value: Scalar::NONE });
                }
                _ => self.mark_escaped(vreg),
            }
        }
        self.virtuals_at.push(Vec::new());
    }
}
