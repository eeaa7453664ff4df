//! Allocations that take the object their last run left behind.
//!
//! A function allocates the same storages, tensors, shape heaps and shapes in every run, and gives
//! them up again. Machine code keeps what it gives up last, one object per operation, in a table
//! of the session, and the operation takes it back instead of making a new one: no allocator, no
//! atomic addition, no header to write. This happens only for operations whose arguments are
//! constants that were checked here, and for objects that nothing else refers to, so nobody can
//! tell; small ones only, since what is kept is memory that nobody else gets. Tuples, closures and
//! views are emptied when they are given up: what they referred to must not live longer for it.
//!
//! Traces take objects back that somebody sees; others they do not make (`trace::optimise::escape`).

mod take;
mod view;

use std::collections::HashMap;

use cranelift_codegen::ir::Block;
use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_runtime::object::{self, ObjectType};
use reflex_runtime::shape::Shape;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor;
use reflex_vm::builtins::{Builtin, Closure, Lowering};
use reflex_vm::decode::{ArgSource, FuncCode, Op};
use reflex_vm::program::Program;

use crate::constants::Constants;
use crate::emit::{Emit, Slot};
use crate::facts::{Facts, Holds};
use crate::fast::{Fast, Operand, Produced};

/// Largest storage that is kept, and most bytes kept for one function.
const MAX_BYTES: usize = 64 << 10;
const MAX_FUNCTION_BYTES: usize = 1 << 20;
/// Most tensors on one storage that is kept: each is looked at when the storage is taken.
const MAX_TENSORS: usize = 8;
/// Most entries of a shape heap, and most extents of a shape, that are kept.
const MAX_EXTENTS: usize = 16;
/// Most items of a tuple, and most captured values of a closure, that are kept.
const MAX_ITEMS: usize = 8;

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
    /// The shape of a tensor, of any rank.
    Extents,
    /// A tuple of so many items.
    Tuple { items: usize },
    /// A closure over so many values.
    Closure { captured: usize },
    /// A view of so many dimensions.
    View { rank: usize },
}

impl Plan {
    /// Whether traces take such objects back; they make recipes of the others, or nothing.
    pub(crate) fn in_traces(&self) -> bool {
        match self {
            Plan::Storage { .. } | Plan::Tensor { .. } | Plan::Heap { .. } => true,
            Plan::Shape | Plan::Extents => true,
            Plan::Tuple { .. } | Plan::Closure { .. } | Plan::View { .. } => false,
        }
    }
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
            Plan::Extents => e.take_extents(self.entry, *operands.first()?, scratch, miss)?,
            Plan::Tuple { .. } => e.take_tuple(self.entry, operands, miss),
            Plan::Closure { .. } => e.take_closure(self.entry, operands.get(1..)?, miss),
            Plan::View { rank } => e.take_view(self.entry, *rank, operands, miss)?,
        };
        Some(Produced::Object { tag: self.tag(), payload })
    }

    /// The type of its objects.
    pub(crate) fn tag(&self) -> i32 {
        match &self.plan {
            Plan::Storage { .. } => Storage::type_index(),
            Plan::Tensor { .. } | Plan::Heap { .. } => type_index::TENSOR,
            Plan::View { .. } => type_index::TENSOR,
            Plan::Shape | Plan::Extents => type_index::SHAPE,
            Plan::Tuple { .. } => type_index::ARRAY,
            Plan::Closure { .. } => object::type_of::<Closure>(),
        }
    }

    /// How its objects are given up.
    pub(crate) fn give(&self) -> Give {
        let owns = match self.plan {
            Plan::Tuple { items } => Owns::Items(items),
            Plan::Closure { captured } => Owns::Captured(captured),
            Plan::View { .. } => Owns::Viewed,
            Plan::Storage { .. } => Owns::Memory,
            Plan::Tensor { .. } | Plan::Heap { .. } | Plan::Shape | Plan::Extents => Owns::Nothing,
        };
        Give { entry: self.entry, owns }
    }
}

/// How an object that an operation made is given up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Give {
    /// Entry of the session's table.
    pub(crate) entry: u32,
    /// What the object refers to.
    pub(crate) owns: Owns,
}

/// What an object refers to, which nobody may see that it keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Owns {
    /// Nothing but memory that is kept as well.
    Nothing,
    /// Memory; others may refer to the object, which is looked at when it is taken.
    Memory,
    /// The items of a tuple.
    Items(usize),
    /// The captured values of a closure.
    Captured(usize),
    /// The tensor that it is a view of.
    Viewed,
}

/// What objects must have in common to stand in for each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Storage { bytes: usize },
    Tensor { storage: u32, offset: i64, shape: Vec<i64>, dtype: String },
    Heap { entries: usize },
    Shape { rank: i64 },
    Extents,
    Tuple { items: usize },
    Closure { func: u32, captured: usize },
    View { rank: usize },
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
        let (kind, plan) = match builtin.lowering() {
            Lowering::RecycleStorage => {
                let bytes = args.storage_bytes().filter(|&bytes| bytes <= MAX_BYTES)?;
                (Kind::Storage { bytes }, Plan::Storage { tensors: Vec::new() })
            }
            Lowering::RecycleTensor => {
                let (storage, reg) = args.tensor(state)?;
                let (_, Kept { entry: storage, .. }) = *self.kept.get(&storage)?;
                let offset = args.int(1)?;
                let shape = args.get(2)?.downcast_ref::<Shape>()?.to_vec();
                let dtype = args.get(3)?.as_dtype()?.to_string();
                let kind = Kind::Tensor { storage, offset, shape, dtype };
                (kind, Plan::Tensor { storage: reg })
            }
            Lowering::RecycleHeap => {
                let entries = args.heap_entries()?;
                (Kind::Heap { entries }, Plan::Heap { entries })
            }
            Lowering::RecycleShape if builtin == Builtin::ShapeOf => (Kind::Extents, Plan::Extents),
            Lowering::RecycleShape => (Kind::Shape { rank: args.rank()? }, Plan::Shape),
            Lowering::RecycleTuple => {
                let items = Some(args.args.len as usize).filter(|&items| items <= MAX_ITEMS)?;
                (Kind::Tuple { items }, Plan::Tuple { items })
            }
            Lowering::RecycleClosure => {
                let func = args.function(0)?;
                let captured = args.args.len as usize - 1;
                let kind = Kind::Closure { func, captured };
                (captured <= MAX_ITEMS).then_some((kind, Plan::Closure { captured }))?
            }
            Lowering::RecycleView => {
                let rank = args.shape_rank(1, state).filter(|&rank| rank <= MAX_EXTENTS)?;
                (Kind::View { rank }, Plan::View { rank })
            }
            Lowering::CheckTensor
            | Lowering::CheckShape
            | Lowering::CheckTuple
            | Lowering::MatchShape
            | Lowering::MatchPrimValue
            | Lowering::MakePrimValue
            | Lowering::ReadIfCond
            | Lowering::TupleItem
            | Lowering::CheckType
            | Lowering::ZeroOffset
            | Lowering::Elided
            | Lowering::Call => return None,
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

    /// The rank of a shape that the code makes, or that is a constant.
    fn shape_rank(&self, at: usize, state: &[Holds]) -> Option<usize> {
        if let Some(constant) = self.get(at) {
            return Some(constant.downcast_ref::<Shape>()?.len());
        }
        let Holds::Made(made) = state[self.reg(at)? as usize] else { return None };
        let Op::Builtin { builtin: Builtin::MakeShape, args, .. } = self.func.ops[made as usize]
        else {
            return None;
        };
        usize::try_from(Constants { args, ..*self }.int(1)?).ok()
    }
}

/// Offset of an entry in the table.
pub(crate) fn offset(entry: u32) -> usize {
    entry as usize * size_of::<usize>()
}
