//! Allocations that take the object their last run left behind.
//!
//! A function allocates the same storages, tensors, shape heaps and shapes in every run, and gives
//! them up again. Machine code keeps what it gives up last, one object per operation, in a table
//! of the session, and the operation takes it back instead of making a new one: no allocator, no
//! atomic addition, no header to write. This happens only for operations whose arguments are
//! constants that were checked here, and for objects that nothing else refers to, so nobody can
//! tell; small ones only, since what is kept is memory that nobody else gets.
//!
//! Traces take objects back that somebody sees; others they do not make (`trace::optimise::escape`).

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{
    BOTH_ONE, DLTENSOR_DATA, SHAPE_DATA, STORAGE_DATA, TENSOR_DLTENSOR, type_index,
};
use reflex_runtime::dtype::DType;
use reflex_runtime::object::ObjectType;
use reflex_runtime::shape::Shape;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor;
use reflex_vm::abi::SESSION_RECYCLED;
use reflex_vm::builtins::{Builtin, Native};
use reflex_vm::decode::{ArgSource, FuncCode, Op};
use reflex_vm::program::Program;

use crate::constants::Constants;
use crate::emit::{Emit, Slot, trusted};
use crate::facts::{Facts, Holds};
use crate::fast::{Fast, Operand, Produced};

/// Largest storage that is kept, and most bytes kept for one function.
const MAX_BYTES: usize = 64 << 10;
const MAX_FUNCTION_BYTES: usize = 1 << 20;
/// Most tensors on one storage that is kept: each is looked at when the storage is taken.
const MAX_TENSORS: usize = 8;
/// Most entries of a shape heap, and most extents of a shape, that are kept.
const MAX_EXTENTS: usize = 16;

/// How an operation takes back its object.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Plan {
    /// A storage; the table's entries of the tensors that are laid on it.
    Storage { tensors: Vec<u32> },
    /// A tensor on the storage in a register.
    Tensor { storage: u32 },
    /// A shape heap of so many entries.
    Heap { entries: usize },
    /// A shape.
    Shape,
}

/// An operation whose objects are kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Kept {
    /// Its entry of the session's table.
    pub(crate) entry: u32,
    pub(crate) plan: Plan,
}

impl Kept {
    /// Writes code that takes the object, or goes to `miss` with nothing changed. `place` says
    /// where a register is, `scratch` is a free slot. `None` when that cannot be written.
    pub(crate) fn take(
        &self,
        e: &mut Emit<'_>,
        operands: &[Operand],
        place: impl Fn(u32) -> Slot,
        scratch: Slot,
        miss: Block,
    ) -> Option<Produced> {
        let payload = match &self.plan {
            Plan::Storage { tensors } => e.take_storage(self.entry, tensors, scratch, miss),
            Plan::Tensor { storage } => e.take_tensor(self.entry, place(*storage), scratch, miss),
            Plan::Heap { entries } => e.take_heap(self.entry, *entries, miss),
            Plan::Shape => {
                let extents = Fast { e, slow: miss }.extents_made(operands)?;
                e.take_shape(self.entry, &extents, miss)
            }
        };
        Some(Produced::Object { tag: self.tag(), payload })
    }

    /// The type of its objects.
    pub(crate) fn tag(&self) -> i32 {
        match &self.plan {
            Plan::Storage { .. } => Storage::type_index(),
            Plan::Tensor { .. } | Plan::Heap { .. } => type_index::TENSOR,
            Plan::Shape => type_index::SHAPE,
        }
    }

    /// How its objects are given up.
    pub(crate) fn give(&self) -> Give {
        Give { entry: self.entry, shared: matches!(self.plan, Plan::Storage { .. }) }
    }
}

/// How an object that an operation made is given up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Give {
    /// Entry of the session's table.
    pub(crate) entry: u32,
    /// Whether others may refer to the object: then it is looked at when it is taken.
    pub(crate) shared: bool,
}

/// What objects must have in common to stand in for each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Storage { bytes: usize },
    Tensor { storage: u32, offset: i64, shape: Vec<i64>, dtype: String },
    Heap { entries: usize },
    Shape { rank: i64 },
}

/// The operations of one function whose objects are kept, by operation.
#[derive(Default)]
pub(crate) struct Plans(HashMap<u32, Kept>);

impl Plans {
    /// Chooses the operations of `func`.
    pub(crate) fn of(program: &Program, func: &FuncCode, facts: &Facts) -> Plans {
        if func.allocations.is_empty() {
            return Plans::default();
        }
        let mut chosen = Chosen::default();
        facts.for_each(program, func, |pc, state| {
            let op = func.ops[pc];
            if let Op::Builtin { builtin, args, .. } = op {
                let args = Constants { program, func, args };
                chosen.allocation(pc as u32, builtin, &args, state);
            }
            // What is overwritten is free for later operations of its kind.
            if let Some(Holds::Made(made)) = written(&op).and_then(|reg| state.get(reg as usize)) {
                chosen.given_up(*made);
            }
        });
        chosen.plans()
    }

    /// The plan of the operation at `pc`.
    pub(crate) fn get(&self, pc: u32) -> Option<&Kept> {
        self.0.get(&pc)
    }
}

/// The register an operation writes, if any; `DISCARD` is no register.
fn written(op: &Op) -> Option<u32> {
    match *op {
        Op::CallPacked { dst, .. }
        | Op::CallVm { dst, .. }
        | Op::Builtin { dst, .. }
        | Op::InvokeClosure { dst, .. }
        | Op::Copy { dst, .. }
        | Op::Kill { dst } => Some(dst),
        Op::Goto { .. } | Op::LoopBack { .. } | Op::Branch { .. } | Op::Ret { .. } => None,
    }
}

/// Choosing, in the order of the code. An entry of the table is used again by later operations of
/// the same kind once its object is given up, so that what is hot in the cache stays so.
#[derive(Default)]
struct Chosen {
    kept: HashMap<u32, (Kind, Kept)>,
    free: HashMap<Kind, Vec<u32>>,
    bytes: usize,
}

impl Chosen {
    fn allocation(
        &mut self,
        pc: u32,
        builtin: Builtin,
        args: &Constants<'_>,
        state: &[Holds],
    ) -> Option<()> {
        let own = args.func.allocation(pc)?;
        let (kind, plan) = match builtin.native() {
            Native::ReuseStorage => {
                let bytes = args.storage_bytes().filter(|&bytes| bytes <= MAX_BYTES)?;
                (Kind::Storage { bytes }, Plan::Storage { tensors: Vec::new() })
            }
            Native::ReuseTensor => {
                let (storage, reg) = args.tensor(state)?;
                let (_, Kept { entry: storage, .. }) = *self.kept.get(&storage)?;
                let offset = args.int(1)?;
                let shape = args.get(2)?.downcast_ref::<Shape>()?.to_vec();
                let dtype = args.get(3)?.as_dtype()?.to_string();
                let kind = Kind::Tensor { storage, offset, shape, dtype };
                (kind, Plan::Tensor { storage: reg })
            }
            Native::ReuseHeap => {
                let entries = args.heap_entries()?;
                (Kind::Heap { entries }, Plan::Heap { entries })
            }
            Native::ReuseShape => (Kind::Shape { rank: args.rank()? }, Plan::Shape),
            Native::CheckTensor
            | Native::CheckShape
            | Native::CheckTuple
            | Native::MatchShape
            | Native::MatchPrimValue
            | Native::MakePrimValue
            | Native::ReadIfCond
            | Native::TupleItem
            | Native::Nothing
            | Native::Call => return None,
        };
        let again = self.free.get_mut(&kind).and_then(Vec::pop);
        if let (None, Kind::Storage { bytes }) = (again, &kind) {
            self.bytes += bytes;
            if self.bytes > MAX_FUNCTION_BYTES {
                return None;
            }
        }
        self.kept.insert(pc, (kind, Kept { entry: again.unwrap_or(own), plan }));
        Some(())
    }

    fn given_up(&mut self, pc: u32) {
        let Some((kind, kept)) = self.kept.get(&pc) else { return };
        let free = self.free.entry(kind.clone()).or_default();
        if !free.contains(&kept.entry) {
            free.push(kept.entry);
        }
    }

    /// Connects storages with the tensors on them.
    fn plans(self) -> Plans {
        let mut on: HashMap<u32, Vec<u32>> = HashMap::new();
        for (kind, kept) in self.kept.values() {
            if let Kind::Tensor { storage, .. } = kind {
                let tensors = on.entry(*storage).or_default();
                if !tensors.contains(&kept.entry) {
                    tensors.push(kept.entry);
                }
            }
        }
        on.values_mut().for_each(|tensors| tensors.sort_unstable());
        let few = |storage: u32| on.get(&storage).is_none_or(|all| all.len() <= MAX_TENSORS);
        let kept = self.kept.into_iter().filter_map(|(pc, (kind, mut kept))| {
            match (&kind, &mut kept.plan) {
                (Kind::Storage { .. }, Plan::Storage { tensors }) => {
                    *tensors = on.get(&kept.entry).cloned().unwrap_or_default();
                    few(kept.entry)
                }
                (Kind::Tensor { storage, .. }, _) => few(*storage),
                _ => true,
            }
            .then_some((pc, kept))
        });
        Plans(kept.collect())
    }
}

impl Constants<'_> {
    fn is_vm(&self) -> bool {
        self.func.args(self.args).first().is_some_and(|arg| arg.get() == ArgSource::Vm)
    }

    /// Bytes of the shape and element type at `at` and `at + by`.
    fn bytes(&self, at: usize, by: usize) -> Option<usize> {
        let dtype: DType = self.get(at + by)?.as_dtype()?;
        tensor::byte_size(self.get(at)?.downcast_ref::<Shape>()?, dtype).ok()
    }

    fn has_usual_scope(&self, at: usize) -> bool {
        if self.args.len as usize == at {
            return true;
        }
        let scope = self.get(at);
        scope.is_some_and(|it| it.is_none() || matches!(it.as_str(), Some("" | "global")))
    }

    fn storage_bytes(&self) -> Option<usize> {
        let device = self.int(2).filter(|device| [-1, 0].contains(device));
        let usual = self.is_vm() && device.is_some() && self.has_usual_scope(4);
        self.bytes(1, 2).filter(|_| usual)
    }

    /// The operation that made the storage of a tensor, and the register it is in.
    fn tensor(&self, state: &[Holds]) -> Option<(u32, u32)> {
        let storage = self.func.args(self.args).first()?.reg()?;
        let Holds::Made(made) = state[storage as usize] else { return None };
        let of_storage = matches!(
            self.func.ops[made as usize],
            Op::Builtin { builtin: Builtin::AllocStorage, .. }
        );
        let usual = self.int(1).is_some() && self.bytes(2, 1).is_some() && self.has_usual_scope(4);
        (of_storage && usual).then_some((made, storage))
    }

    fn heap_entries(&self) -> Option<usize> {
        let entries = usize::try_from(self.int(1)?).ok()?;
        (self.is_vm() && entries <= MAX_EXTENTS).then_some(entries)
    }

    fn rank(&self) -> Option<i64> {
        self.int(1).filter(|rank| (0..=MAX_EXTENTS as i64).contains(rank))
    }
}

impl Emit<'_> {
    /// The session's table of objects.
    pub(crate) fn table(&mut self) -> Value {
        self.load(types::I64, self.session, SESSION_RECYCLED)
    }

    /// Empties an entry of the table.
    fn clear_entry(&mut self, table: Value, entry: u32) {
        let zero = self.i64(0);
        self.b.ins().store(trusted(), zero, table, offset(entry) as i32);
    }

    /// The object kept in `entry`; goes to `miss` when there is none.
    fn kept(&mut self, table: Value, entry: u32, miss: Block) -> Value {
        let object = self.load(types::I64, table, offset(entry));
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, object, 0);
        self.require(there, miss);
        object
    }

    /// Gives up a kept object that is of no use, then goes to `miss`.
    fn drop_kept(&mut self, object: Value, entry: u32, scratch: Slot, miss: Block) {
        let table = self.table();
        self.clear_entry(table, entry);
        self.store_plain(scratch, type_index::OBJECT, object);
        self.release_object(scratch);
        self.b.ins().jump(miss, &[]);
    }

    /// Takes the storage kept in `entry`, or goes to `miss`. `scratch` is a free slot.
    fn take_storage(&mut self, entry: u32, tensors: &[u32], scratch: Slot, miss: Block) -> Value {
        let table = self.table();
        let object = self.kept(table, entry, miss);
        let data = self.load(types::I64, object, STORAGE_DATA);
        // Tensors that are kept refer to the storage; nothing else may.
        let mut expected = self.i64(BOTH_ONE as i64);
        for &tensor in tensors {
            let (look, next) = (self.b.create_block(), self.b.create_block());
            let sum = self.b.append_block_param(next, types::I64);
            let tensor = self.load(types::I64, table, offset(tensor));
            self.b.ins().brif(tensor, look, &[], next, &[expected.into()]);
            self.b.switch_to_block(look);
            let theirs = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_DATA);
            let same = self.b.ins().icmp(IntCC::Equal, theirs, data);
            let one = self.b.ins().uextend(types::I64, same);
            let more = self.b.ins().iadd(expected, one);
            self.b.ins().jump(next, &[more.into()]);
            self.b.switch_to_block(next);
            expected = sum;
        }
        let count = self.load(types::I64, object, 0);
        let unused = self.b.ins().icmp(IntCC::Equal, count, expected);
        let stale = self.cold_block();
        self.require(unused, stale);
        self.clear_entry(table, entry);
        let here = self.b.create_block();
        self.b.ins().jump(here, &[]);
        self.b.switch_to_block(stale);
        self.drop_kept(object, entry, scratch, miss);
        self.b.switch_to_block(here);
        object
    }

    /// Takes the tensor kept in `entry` if it is on the storage in slot `storage`, or goes to
    /// `miss`.
    fn take_tensor(&mut self, entry: u32, storage: Slot, scratch: Slot, miss: Block) -> Value {
        let table = self.table();
        let object = self.kept(table, entry, miss);
        let storage = self.payload(storage);
        let data = self.load(types::I64, storage, STORAGE_DATA);
        // Blocks of living storages differ, and a kept tensor keeps its storage alive.
        let theirs = self.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let same = self.b.ins().icmp(IntCC::Equal, theirs, data);
        let stale = self.cold_block();
        self.require(same, stale);
        self.clear_entry(table, entry);
        let here = self.b.create_block();
        self.b.ins().jump(here, &[]);
        self.b.switch_to_block(stale);
        self.drop_kept(object, entry, scratch, miss);
        self.b.switch_to_block(here);
        object
    }

    /// Takes the shape heap kept in `entry`, with zeros in its entries, or goes to `miss`.
    fn take_heap(&mut self, entry: u32, entries: usize, miss: Block) -> Value {
        let table = self.table();
        let object = self.kept(table, entry, miss);
        self.clear_entry(table, entry);
        let data = self.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let zero = self.i64(0);
        for at in 0..entries {
            self.b.ins().store(trusted(), zero, data, 8 * at as i32);
        }
        object
    }

    /// Takes the shape kept in `entry` and gives it `extents`, or goes to `miss`.
    fn take_shape(&mut self, entry: u32, extents: &[Value], miss: Block) -> Value {
        let table = self.table();
        let object = self.kept(table, entry, miss);
        self.clear_entry(table, entry);
        let data = self.load(types::I64, object, SHAPE_DATA);
        for (at, &extent) in extents.iter().enumerate() {
            self.b.ins().store(trusted(), extent, data, 8 * at as i32);
        }
        object
    }

    /// Gives up the object in a slot: keeps it if its entry is free and it may be kept. The slot
    /// keeps its bits; overwrite it.
    pub(crate) fn give(&mut self, slot: Slot, Give { entry, shared }: Give) {
        let (released, next) = (self.cold_block(), self.b.create_block());
        let object = self.payload(slot);
        if !shared {
            let count = self.load(types::I64, object, 0);
            let unique = self.i64(BOTH_ONE as i64);
            let unique = self.b.ins().icmp(IntCC::Equal, count, unique);
            self.require(unique, released);
        }
        let table = self.table();
        let there = self.load(types::I64, table, offset(entry));
        let free = self.b.ins().icmp_imm_s(IntCC::Equal, there, 0);
        self.require(free, released);
        self.b.ins().store(trusted(), object, table, offset(entry) as i32);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(released);
        self.release_object(slot);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }
}

/// Offset of an entry in the table.
pub(crate) fn offset(entry: u32) -> usize {
    entry as usize * size_of::<usize>()
}
