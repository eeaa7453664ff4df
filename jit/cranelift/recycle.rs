//! Object recycling: allocations reuse the object that their last run released.
//!
//! A function allocates the same storages, tensors, shape heaps and shapes in every run, and
//! releases them again. Machine code keeps a free list in the session: a table with one entry per
//! allocation, which holds the last object that was released. The allocation pops that object
//! instead of making a new one: no allocator, no atomic addition, no header to write.
//!
//! Recycling is invisible to programs. It applies to allocations whose arguments are constants that
//! were checked here, and to objects that nothing else refers to. It applies to small objects only,
//! since other code cannot use memory on a free list. Tuples, closures and views are emptied when
//! they are released: the objects that they refer to must not live longer.
//!
//! Traces recycle objects that escape; the others are sunk (`trace::optimise::sink_allocations`).
//!
//! This module chooses the allocations; `reuse` and `view` emit the code. Where there is nothing to reuse,
//! storages, tensors and tuples are made by the code in `fresh`: what a list keeps is never released here.
//!
//! Decision: docs/decisions/0008-object-recycling.md

mod fresh;
pub(crate) mod reuse;
mod view;

use std::collections::HashMap;

use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_runtime::object::{self, ObjectType};
use reflex_runtime::shape::Shape;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor;
use reflex_vm::builtins::{Builtin, Closure, Lowering};
use reflex_vm::decode::{ArgSource, FuncCode, Op};
use reflex_vm::output_buffers::MAX_COPIED_BYTES;
use reflex_vm::program::Program;

use crate::facts::call_args::CallArgs;
use crate::facts::registers::{RegFact, RegFacts};

/// Largest storage that is recycled, and most bytes on the free list for one function. Larger ones may
/// lie in memory of the host's, which is not kept.
const MAX_BYTES: usize = MAX_COPIED_BYTES;
const MAX_FUNCTION_BYTES: usize = 1 << 20;
/// Most tensors on one recycled storage: each is checked when the storage is popped.
const MAX_TENSORS: usize = 64;
/// Most entries of a recycled shape heap, and most dimensions of a recycled shape.
const MAX_DIMS: usize = 16;
/// Most items of a recycled tuple, and most captured values of a recycled closure.
const MAX_ITEMS: usize = 8;

/// The object that an allocation recycles.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ReusePlan {
    /// A storage of so many bytes, and the free-list entries of the tensors that lie on it.
    Storage { bytes: usize, tensors: Vec<u32> },
    /// A tensor of these dimensions on the storage in a register, of which it needs so many bytes; no
    /// storage has them if there is no number.
    Tensor { storage: u32, dims: Vec<i64>, end: Option<usize> },
    /// A tensor of these dimensions on a storage of so many bytes on a device of the session, to which
    /// nothing else refers: see `trace::optimise::fuse_allocations` and `method::fuse_allocations`.
    TensorAndStorage { bytes: usize, device: i64, dims: Vec<i64> },
    /// A shape heap of this many entries.
    Heap { entries: usize },
    /// A shape.
    Shape,
    /// The shape of a tensor, of any rank.
    ShapeOf,
    /// A tuple of this many items.
    Tuple { items: usize },
    /// A closure over this many values.
    Closure { captured: usize },
    /// A view of this many dimensions.
    View { rank: usize },
}

impl ReusePlan {
    /// The plan for a tensor together with its storage of so many bytes, if this is one for a tensor that
    /// fits there.
    pub(crate) fn with_storage(&self, bytes: usize, device: i64) -> Option<ReusePlan> {
        let ReusePlan::Tensor { dims, end: Some(end), .. } = self else { return None };
        (*end <= bytes).then(|| ReusePlan::TensorAndStorage { bytes, device, dims: dims.clone() })
    }

    /// Returns true if traces recycle such objects. They sink the allocations of the others.
    pub(crate) fn in_traces(&self) -> bool {
        match self {
            ReusePlan::Storage { .. } | ReusePlan::Tensor { .. } | ReusePlan::Heap { .. } => true,
            ReusePlan::TensorAndStorage { .. } | ReusePlan::Shape | ReusePlan::ShapeOf => true,
            ReusePlan::Tuple { .. } | ReusePlan::Closure { .. } | ReusePlan::View { .. } => false,
        }
    }

    /// The type of such objects.
    pub(crate) fn tag(&self) -> i32 {
        match self {
            ReusePlan::Storage { .. } => Storage::type_index(),
            ReusePlan::Tensor { .. } | ReusePlan::Heap { .. } => type_index::TENSOR,
            ReusePlan::TensorAndStorage { .. } | ReusePlan::View { .. } => type_index::TENSOR,
            ReusePlan::Shape | ReusePlan::ShapeOf => type_index::SHAPE,
            ReusePlan::Tuple { .. } => type_index::ARRAY,
            ReusePlan::Closure { .. } => object::type_of::<Closure>(),
        }
    }
}

/// An allocation whose objects are recycled.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FreeListEntry {
    /// Its entry in the session's free list.
    pub(crate) entry: u32,
    pub(crate) plan: ReusePlan,
}

impl FreeListEntry {
    /// The type of its objects.
    pub(crate) fn tag(&self) -> i32 {
        self.plan.tag()
    }

    /// The free-list entry that released objects return to, and the references they drop first.
    pub(crate) fn on_release(&self) -> FreeListReturn {
        let owns = match self.plan {
            ReusePlan::Tuple { items } => OwnedContents::Items(items),
            ReusePlan::Closure { captured } => OwnedContents::Captured(captured),
            ReusePlan::View { .. } => OwnedContents::Viewed,
            ReusePlan::Storage { .. } => OwnedContents::Memory,
            ReusePlan::Tensor { .. }
            | ReusePlan::TensorAndStorage { .. }
            | ReusePlan::Heap { .. }
            | ReusePlan::Shape
            | ReusePlan::ShapeOf => OwnedContents::Nothing,
        };
        FreeListReturn { entry: self.entry, owns }
    }
}

/// The release of a recycled object: it is pushed to the free list.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct FreeListReturn {
    /// Entry in the session's free list.
    pub(crate) entry: u32,
    /// The references that must be dropped before that.
    pub(crate) owns: OwnedContents,
}

/// The references of an object, which must not outlive its release.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum OwnedContents {
    /// None but memory that is recycled as well.
    Nothing,
    /// Memory. Others may refer to the object, so its count is checked when it is popped.
    Memory,
    /// The items of a tuple.
    Items(usize),
    /// The captured values of a closure.
    Captured(usize),
    /// The tensor that it is a view of.
    Viewed,
}

/// The properties that objects must share to replace each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ObjectKind {
    Storage { bytes: usize },
    Tensor { storage: u32, offset: i64, shape: Vec<i64>, dtype: String },
    Heap { entries: usize },
    Shape { rank: i64 },
    ShapeOf,
    Tuple { items: usize },
    Closure { func: u32, captured: usize },
    View { rank: usize },
}

/// The allocations of one function that recycle objects, by operation.
#[derive(Default)]
pub(crate) struct ReusePlans(HashMap<u32, FreeListEntry>);

impl ReusePlans {
    /// Chooses the operations of `func`.
    pub(crate) fn of(program: &Program, func: &FuncCode, facts: &RegFacts) -> ReusePlans {
        if func.allocations.is_empty() {
            return ReusePlans::default();
        }
        let mut chosen = EntryAssignment::default();
        facts.for_each(program, func, |pc, state| {
            let op = func.ops[pc];
            if let Op::Builtin { builtin, args, .. } = op {
                let args = CallArgs { program, func, args };
                chosen.allocation(pc as u32, builtin, &args, state);
            }
            // An overwritten object is free for later allocations of its kind.
            if let Some(RegFact::Allocated(made)) =
                written(&op).and_then(|reg| state.get(reg as usize))
            {
                chosen.release(*made);
            }
        });
        chosen.plans()
    }

    /// The plan of the operation at `pc`.
    pub(crate) fn get(&self, pc: u32) -> Option<&FreeListEntry> {
        self.0.get(&pc)
    }
}

/// The register an operation writes, if any; `DISCARD` is no register.
pub(crate) fn written(op: &Op) -> Option<u32> {
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

/// Assigns free-list entries in the order of the code. Later allocations of the same kind use an
/// entry again once its object is released, so that objects which are hot in the cache stay hot.
#[derive(Default)]
struct EntryAssignment {
    assigned: HashMap<u32, (ObjectKind, FreeListEntry)>,
    free: HashMap<ObjectKind, Vec<u32>>,
    bytes: usize,
}

impl EntryAssignment {
    /// Assigns an entry to an allocation that can recycle its objects.
    fn allocation(
        &mut self,
        pc: u32,
        builtin: Builtin,
        args: &CallArgs<'_>,
        state: &[RegFact],
    ) -> Option<()> {
        let own = args.func.allocation(pc)?;
        let (kind, plan) = self.recyclable(builtin, args, state)?;
        let again = self.free.get_mut(&kind).and_then(Vec::pop);
        if let (None, ObjectKind::Storage { bytes }) = (again, &kind) {
            self.bytes += bytes;
            if self.bytes > MAX_FUNCTION_BYTES {
                return None;
            }
        }
        let entry = FreeListEntry { entry: again.unwrap_or(own), plan };
        self.assigned.insert(pc, (kind, entry));
        Some(())
    }

    /// The kind of object that a builtin allocates, if the object can be recycled.
    fn recyclable(
        &self,
        builtin: Builtin,
        args: &CallArgs<'_>,
        state: &[RegFact],
    ) -> Option<(ObjectKind, ReusePlan)> {
        Some(match builtin.lowering() {
            Lowering::RecycleStorage => {
                let bytes = args.storage_bytes().filter(|&bytes| bytes <= MAX_BYTES)?;
                (ObjectKind::Storage { bytes }, ReusePlan::Storage { bytes, tensors: Vec::new() })
            }
            Lowering::RecycleTensor => {
                let (storage, reg) = args.tensor(state)?;
                let (_, FreeListEntry { entry: storage, .. }) = *self.assigned.get(&storage)?;
                let offset = args.int(1)?;
                let shape = args.get(2)?.downcast_ref::<Shape>()?.to_vec();
                let dtype = args.get(3)?.as_dtype()?.to_string();
                let end = usize::try_from(offset)
                    .ok()
                    .and_then(|offset| args.bytes(2, 1)?.checked_add(offset));
                let plan = ReusePlan::Tensor { storage: reg, dims: shape.clone(), end };
                (ObjectKind::Tensor { storage, offset, shape, dtype }, plan)
            }
            Lowering::RecycleHeap => {
                let entries = args.heap_entries()?;
                (ObjectKind::Heap { entries }, ReusePlan::Heap { entries })
            }
            Lowering::RecycleShape if builtin == Builtin::ShapeOf => {
                (ObjectKind::ShapeOf, ReusePlan::ShapeOf)
            }
            Lowering::RecycleShape => (ObjectKind::Shape { rank: args.rank()? }, ReusePlan::Shape),
            Lowering::RecycleTuple => {
                let items = Some(args.args.len as usize).filter(|&items| items <= MAX_ITEMS)?;
                (ObjectKind::Tuple { items }, ReusePlan::Tuple { items })
            }
            Lowering::RecycleClosure => {
                let func = args.function(0)?;
                let captured = args.args.len as usize - 1;
                let kind = ObjectKind::Closure { func, captured };
                (captured <= MAX_ITEMS).then_some((kind, ReusePlan::Closure { captured }))?
            }
            Lowering::RecycleView => {
                let rank = args.shape_rank(1, state).filter(|&rank| rank <= MAX_DIMS)?;
                (ObjectKind::View { rank }, ReusePlan::View { rank })
            }
            Lowering::CheckTensor
            | Lowering::CheckShape
            | Lowering::CheckTuple
            | Lowering::MatchShape
            | Lowering::MatchPrimValue
            | Lowering::MakePrimValue
            | Lowering::ReadIfCond
            | Lowering::TupleItem
            | Lowering::TagTest
            | Lowering::EqualScalars
            | Lowering::CheckType
            | Lowering::ZeroOffset
            | Lowering::Elided
            | Lowering::Call => return None,
        })
    }

    fn release(&mut self, pc: u32) {
        let Some((kind, free_entry)) = self.assigned.get(&pc) else { return };
        let free = self.free.entry(kind.clone()).or_default();
        if !free.contains(&free_entry.entry) {
            free.push(free_entry.entry);
        }
    }

    /// Records the tensors of each storage, and drops storages with too many.
    fn plans(self) -> ReusePlans {
        let mut on: HashMap<u32, Vec<u32>> = HashMap::new();
        for (kind, free_entry) in self.assigned.values() {
            if let ObjectKind::Tensor { storage, .. } = kind {
                let tensors = on.entry(*storage).or_default();
                if !tensors.contains(&free_entry.entry) {
                    tensors.push(free_entry.entry);
                }
            }
        }
        on.values_mut().for_each(|tensors| tensors.sort_unstable());
        let few = |storage: u32| on.get(&storage).is_none_or(|all| all.len() <= MAX_TENSORS);
        let free_entry = self.assigned.into_iter().filter_map(|(pc, (kind, mut free_entry))| {
            match (&kind, &mut free_entry.plan) {
                (ObjectKind::Storage { .. }, ReusePlan::Storage { tensors, .. }) => {
                    *tensors = on.get(&free_entry.entry).cloned().unwrap_or_default();
                    few(free_entry.entry)
                }
                (ObjectKind::Tensor { storage, .. }, _) => few(*storage),
                _ => true,
            }
            .then_some((pc, free_entry))
        });
        ReusePlans(free_entry.collect())
    }
}

impl CallArgs<'_> {
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
        let host = self.program.device().is_cpu();
        let device = self.int(2).filter(|device| *device == 0 || (*device == -1 && host));
        let usual = self.is_vm() && device.is_some() && self.has_usual_scope(4);
        self.bytes(1, 2).filter(|_| usual)
    }

    /// The operation that allocated the storage of a tensor, and the register that holds it.
    fn tensor(&self, state: &[RegFact]) -> Option<(u32, u32)> {
        let storage = self.func.args(self.args).first()?.reg()?;
        let RegFact::Allocated(made) = state[storage as usize] else { return None };
        let of_storage = matches!(
            self.func.ops[made as usize],
            Op::Builtin { builtin: Builtin::AllocStorage, .. }
        );
        let usual = self.int(1).is_some() && self.bytes(2, 1).is_some() && self.has_usual_scope(4);
        (of_storage && usual).then_some((made, storage))
    }

    fn heap_entries(&self) -> Option<usize> {
        let entries = usize::try_from(self.int(1)?).ok()?;
        (self.is_vm() && entries <= MAX_DIMS).then_some(entries)
    }

    fn rank(&self) -> Option<i64> {
        self.int(1).filter(|rank| (0..=MAX_DIMS as i64).contains(rank))
    }

    /// The rank of a shape that the code makes, or that is a constant.
    fn shape_rank(&self, at: usize, state: &[RegFact]) -> Option<usize> {
        if let Some(constant) = self.get(at) {
            return Some(constant.downcast_ref::<Shape>()?.len());
        }
        let RegFact::Allocated(made) = state[self.reg(at)? as usize] else { return None };
        let Op::Builtin { builtin: Builtin::MakeShape, args, .. } = self.func.ops[made as usize]
        else {
            return None;
        };
        usize::try_from(CallArgs { args, ..*self }.int(1)?).ok()
    }
}
