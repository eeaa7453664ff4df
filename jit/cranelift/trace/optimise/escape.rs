//! Storages and tensors that nobody else can see are not made.
//!
//! An object that the trace allocates, gives up and shows to nothing but raw kernels has no use but
//! the address of its data, which is planned (`arena`). Such an object becomes a recipe: registers
//! that hold it are written down with each exit, which makes it when it is taken. An object that
//! reaches a packed call, a result, the next iteration or other code is made as before, and so is
//! the storage under it. A storage that an exit makes keeps the arena, and the session gets another.
//!
//! Whether an object escapes is found by trying: what turns out to be seen is made in the next try.

use std::collections::{BTreeMap, HashMap, HashSet};

use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::byte_size;
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::Op;
use reflex_vm::program::Program;

use super::super::ir::{Arg, End, Exit, FrameId, Ins, Object, ObjectId, Place, Plain, Trace};
use super::arena::Arena;
use crate::raw::{Fact, dtype_bits};
use crate::recycle::Plan;

/// Most tries.
const TRIES: usize = 8;
/// Most registers that hold such objects at once: each appears in every exit.
const MAX_HELD: usize = 64;

/// Leaves out the allocations whose objects nobody sees.
pub(super) fn escape(program: &Program, trace: &mut Trace) {
    let mut seen = HashSet::new();
    for _ in 0..TRIES {
        let mut attempt = Attempt::new(program, &seen);
        for (at, ins) in trace.code.iter().enumerate() {
            attempt.instruction(at, ins);
        }
        attempt.end(trace);
        let Attempt { newly, objects, code, held_at, arena, .. } = attempt;
        if newly.is_empty() {
            (trace.code, trace.objects, trace.arena) = (code, objects, arena.bytes);
            let held =
                |at: usize, exit: &Exit| Exit { objects: held_at[at].clone(), ..exit.clone() };
            return trace.change_exits(held);
        }
        seen.extend(newly);
    }
}

/// One way through the trace, with objects that stay recipes.
struct Attempt<'t> {
    program: &'t Program,
    /// Allocations, by instruction, whose objects are seen.
    seen: &'t HashSet<usize>,
    /// Those that this attempt has found.
    newly: Vec<usize>,
    objects: Vec<Object>,
    /// For each object: the instruction that allocates it, and how many hold it.
    origins: Vec<usize>,
    holders: Vec<u32>,
    held: BTreeMap<Place, ObjectId>,
    /// Objects in result slots.
    results: HashMap<FrameId, ObjectId>,
    arena: Arena,
    code: Vec<Ins>,
    /// For each instruction of `code`, and the end: what is held before it.
    held_at: Vec<Vec<(Place, ObjectId)>>,
}

impl<'t> Attempt<'t> {
    fn new(program: &'t Program, seen: &'t HashSet<usize>) -> Self {
        Self {
            program,
            seen,
            newly: Vec::new(),
            objects: Vec::new(),
            origins: Vec::new(),
            holders: Vec::new(),
            held: BTreeMap::new(),
            results: HashMap::new(),
            arena: Arena::default(),
            code: Vec::new(),
            held_at: Vec::new(),
        }
    }

    /// Follows instruction number `at` of the trace, and keeps what is left of it.
    fn instruction(&mut self, at: usize, ins: &Ins) {
        if !self.leaves_out(at, ins) {
            let ins = self.replaced(ins);
            self.keep(ins);
        }
    }

    fn keep(&mut self, ins: Ins) {
        self.code.push(ins);
        self.held_at.push(self.held.iter().map(|(&place, &object)| (place, object)).collect());
    }

    /// Whether nothing is left of an instruction; follows it then.
    fn leaves_out(&mut self, at: usize, ins: &Ins) -> bool {
        match ins {
            Ins::Allocate { frame, builtin, kept, args, dst, .. } => {
                if self.seen.contains(&at) || self.held.len() >= MAX_HELD {
                    return false;
                }
                let Some(object) = self.allocated(*builtin, &kept.plan, args) else { return false };
                let id = ObjectId(self.objects.len() as u32);
                if let Object::Tensor { on, .. } = object {
                    self.holders[on.0 as usize] += 1;
                }
                self.objects.push(object);
                self.origins.push(at);
                self.holders.push(1);
                match dst {
                    Some(dst) => self.held.insert(*dst, id),
                    None => self.results.insert(*frame, id),
                };
            }
            Ins::Take { frame, dst } => {
                let Some(object) = self.results.remove(frame) else { return false };
                self.held.insert(*dst, object);
            }
            Ins::Drop { frame } => {
                let Some(object) = self.results.remove(frame) else { return false };
                self.give_up(object);
            }
            Ins::Move { dst, src } => {
                let Some(object) = self.held.remove(src) else { return false };
                self.held.insert(*dst, object);
            }
            Ins::Copy { dst, src: Arg::Place(src, _) } => {
                let Some(&object) = self.held.get(src) else { return false };
                self.holders[object.0 as usize] += 1;
                self.held.insert(*dst, object);
            }
            Ins::Release { place, .. } | Ins::Give { place, .. } => {
                let Some(object) = self.held.remove(place) else { return false };
                self.give_up(object);
            }
            Ins::Is { place, fact, .. } => {
                return self.held.get(place).is_some_and(|&object| self.holds(object, *fact));
            }
            _ => return false,
        }
        true
    }

    /// What an allocation makes, when it may stay a recipe.
    fn allocated(&mut self, builtin: Builtin, plan: &Plan, args: &[Arg]) -> Option<Object> {
        match (builtin, plan, args) {
            (Builtin::AllocStorage, Plan::Storage { .. }, [_, shape, _, dtype, ..]) => {
                let bytes = byte_size(&self.shape(*shape)?, element_type(*dtype)?).ok()?;
                Some(Object::Storage { at: self.arena.take(bytes)?, bytes })
            }
            (
                Builtin::AllocTensor,
                Plan::Tensor { .. },
                [Arg::Place(storage, _), offset, shape, dtype, ..],
            ) => {
                let on = *self.held.get(storage)?;
                let Object::Storage { bytes, .. } = self.objects[on.0 as usize] else {
                    return None;
                };
                let Arg::Plain(Plain::Const { tag: type_index::INT, bits }) = *offset else {
                    return None;
                };
                let (shape, dtype) = (self.shape(*shape)?, element_type(*dtype)?);
                let offset = usize::try_from(bits).ok()?;
                let end = offset.checked_add(byte_size(&shape, dtype).ok()?)?;
                (end <= bytes).then_some(Object::Tensor { on, offset, shape, dtype })
            }
            _ => None,
        }
    }

    fn shape(&self, arg: Arg) -> Option<Vec<i64>> {
        let Arg::Const(index) = arg else { return None };
        let constant = self.program.consts()[index as usize].view();
        Some(constant.downcast_ref::<Shape>()?.to_vec())
    }

    /// One holder less.
    fn give_up(&mut self, id: ObjectId) {
        let holders = &mut self.holders[id.0 as usize];
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        match self.objects[id.0 as usize] {
            Object::Storage { at, .. } => self.arena.free(at),
            Object::Tensor { on, .. } => self.give_up(on),
        }
    }

    /// Whether a fact is known of an object.
    fn holds(&self, object: ObjectId, fact: Fact) -> bool {
        let Object::Tensor { shape, dtype, .. } = &self.objects[object.0 as usize] else {
            return false;
        };
        match fact {
            Fact::Rank(rank) => shape.len() == rank as usize,
            Fact::Type(bits) => dtype_bits(*dtype) == bits,
            Fact::Extent { dim, is } => shape.get(dim as usize) == Some(&is),
            Fact::Counts { dim } => shape.get(dim as usize).is_some_and(|&extent| extent >= 0),
            Fact::Cpu | Fact::Dense { .. } => true,
        }
    }

    /// An instruction that stays, with objects in place of registers. What cannot do without the
    /// registers shows their objects.
    fn replaced(&mut self, ins: &Ins) -> Ins {
        match ins {
            Ins::Raw { frame, callee, args, exit } => {
                let args = args.iter().map(|&arg| self.tensor(arg)).collect();
                return Ins::Raw { frame: *frame, callee: *callee, args, exit: *exit };
            }
            Ins::Alike { place, dim, other, at, exit } => {
                for ((place, dim), (other, at)) in
                    [((*place, *dim), (*other, *at)), ((*other, *at), (*place, *dim))]
                {
                    if !self.held.contains_key(&place)
                        && let Some(is) = self.extent(other, at)
                    {
                        return Ins::Is { place, fact: Fact::Extent { dim, is }, exit: *exit };
                    }
                }
            }
            _ => {}
        }
        for place in reads(ins) {
            self.show(place);
        }
        ins.clone()
    }

    fn tensor(&mut self, arg: Arg) -> Arg {
        let Arg::Place(place, _) = arg else { return arg };
        match self.held.get(&place) {
            Some(&object) if matches!(self.objects[object.0 as usize], Object::Tensor { .. }) => {
                Arg::Object(object)
            }
            Some(_) => {
                self.show(place);
                arg
            }
            None => arg,
        }
    }

    fn extent(&self, place: Place, dim: u32) -> Option<i64> {
        match &self.objects[self.held.get(&place)?.0 as usize] {
            Object::Tensor { shape, .. } => shape.get(dim as usize).copied(),
            Object::Storage { .. } => None,
        }
    }

    /// Notes that somebody sees what a register holds.
    fn show(&mut self, place: Place) {
        if let Some(object) = self.held.get(&place) {
            self.newly.push(self.origins[object.0 as usize]);
        }
    }

    /// Whoever goes on finds every register in its place; a return only its result.
    fn end(&mut self, trace: &Trace) {
        let result = match trace.end {
            End::Return { pc } => {
                let func = self.program.function(trace.frames[0].func);
                match func.map(|func| func.ops[pc as usize]) {
                    Some(Op::Ret { result }) => Some(result.reg()),
                    _ => None,
                }
            }
            End::Loop | End::Into { .. } | End::Site { .. } | End::Exit(_) => None,
        };
        for (place, object) in self.held.clone() {
            match result {
                Some(result) if result != Some(place.reg) => {
                    self.held.remove(&place);
                    self.give_up(object);
                    self.keep(Ins::Store { dst: place, value: Plain::NONE });
                }
                _ => self.show(place),
            }
        }
        self.held_at.push(Vec::new());
    }
}

fn element_type(arg: Arg) -> Option<DType> {
    let Arg::Plain(Plain::Const { tag: type_index::DATA_TYPE, bits }) = arg else { return None };
    let [code, bits, low, high] = (bits as i32).to_le_bytes();
    Some(DType { code, bits, lanes: u16::from_le_bytes([low, high]) })
}

/// Registers that an instruction looks at.
fn reads(ins: &Ins) -> Vec<Place> {
    let places = |args: &[Arg]| args.iter().filter_map(place).collect();
    match ins {
        Ins::Tag { place, .. }
        | Ins::Is { place, .. }
        | Ins::Payload { place, .. }
        | Ins::Closure { place, .. }
        | Ins::Release { place, .. }
        | Ins::Give { place, .. }
        | Ins::Move { src: place, .. } => vec![*place],
        Ins::Alike { place, other, .. } => vec![*place, *other],
        Ins::Captured { closure: arg, .. } | Ins::Copy { src: arg, .. } => places(&[*arg]),
        Ins::Packed { args, .. }
        | Ins::Raw { args, .. }
        | Ins::Builtin { args, .. }
        | Ins::Allocate { args, .. } => places(args),
        Ins::Invoke { callee, args, .. } => {
            place(callee).into_iter().chain(args.iter().filter_map(place)).collect()
        }
        Ins::Truth { .. }
        | Ins::Native { .. }
        | Ins::Charge { .. }
        | Ins::Store { .. }
        | Ins::Enter { .. }
        | Ins::Leave { .. }
        | Ins::Take { .. }
        | Ins::Drop { .. } => Vec::new(),
    }
}

fn place(arg: &Arg) -> Option<Place> {
    match arg {
        Arg::Place(place, _) => Some(*place),
        Arg::Plain(_) | Arg::Const(_) | Arg::Vm | Arg::Object(_) => None,
    }
}
