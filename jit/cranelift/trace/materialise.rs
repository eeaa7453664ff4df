//! Materialisation: side exits allocate the virtual objects of a trace.
//!
//! Decision: docs/decisions/0010-allocation-sinking.md

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use reflex_runtime::abi::{TVMFFIAny, TVMFFIObject};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::guard;
use reflex_runtime::object::ObjectRef;
use reflex_runtime::shape::Shape;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::abi::SessionAbi;
use reflex_vm::builtins::Closure;
use reflex_vm::program::Program;

use super::ir::{Item, Object, ObjectId, Scalar, Trace};

/// The virtual objects of a trace, and the registers that hold them at each snapshot.
#[derive(Debug)]
pub(crate) struct VirtualObjects {
    program: u64,
    objects: Vec<Object>,
    exits: Vec<SnapshotObjects>,
}

/// The virtual objects of one snapshot.
#[derive(Debug)]
struct SnapshotObjects {
    /// Slots, counted from register 0 of frame 0, and the objects that they hold.
    slots: Vec<(isize, ObjectId)>,
    /// The values that generated code passes, in order.
    sources: Vec<Item>,
}

impl VirtualObjects {
    /// The virtual objects of a trace.
    pub(crate) fn of(program: &Program, trace: &Trace) -> VirtualObjects {
        let exits = trace.snapshots.iter().map(|exit| {
            let slots =
                exit.objects.iter().map(|&(vreg, object)| (trace.slot(vreg) as isize, object));
            SnapshotObjects { slots: slots.collect(), sources: trace.sources(exit) }
        });
        VirtualObjects {
            program: program.id(),
            objects: trace.objects.clone(),
            exits: exits.collect(),
        }
    }

    /// Called by generated code: materialises the objects of an exit, with storages in `arena`.
    /// Returns zero, or -1 with the error in the thread's slot; slots without an object are then None.
    ///
    /// # Safety
    /// `this` belongs to the trace that runs in `session`, and `regs` is register 0 of its frame 0.
    /// The slots of this exit own no values. `arena` is a storage, or null if the trace has none.
    /// `values` are the owned sources of the exit, which this function consumes.
    pub(crate) unsafe extern "C" fn make(
        this: *const VirtualObjects,
        exit: u32,
        session: *const SessionAbi,
        regs: *mut TVMFFIAny,
        arena: *mut TVMFFIObject,
        values: *const TVMFFIAny,
    ) -> c_int {
        // SAFETY: the caller is the trace, whose code owns these objects, see `# Safety`.
        let virtual_objects = unsafe { &*this };
        let SnapshotObjects { slots, sources } = &virtual_objects.exits[exit as usize];
        for &(slot, _) in slots {
            // SAFETY: the slot lies in the trace's frames and owns no value, see `# Safety`.
            unsafe { regs.offset(slot).write(TVMFFIAny::NONE) };
        }
        let outcome = guard(|| {
            // SAFETY: the caller keeps its reference during this call, and `ManuallyDrop` never
            // releases it; materialised objects add their own.
            let arena = NonNull::new(arena)
                .map(|arena| ManuallyDrop::new(unsafe { ObjectRef::from_raw(arena) }));
            let arena = arena.as_ref().and_then(|arena| arena.downcast_ref::<Storage>());
            // SAFETY: the caller passes one owned value per source, and each is read once.
            let value = |at| unsafe { Any::from_raw(*values.add(at)) };
            let values = (0..sources.len()).map(|at| Some(value(at))).collect();
            // SAFETY: the session is live, see `# Safety`, and its constants outlive it.
            let consts = unsafe { (*session).consts };
            let mut materialiser = Materialiser {
                virtual_objects,
                sources,
                values,
                consts,
                arena,
                made: HashMap::new(),
            };
            for &(slot, object) in slots {
                let value = materialiser.object(object)?;
                // SAFETY: the slot was set to None above, so no value is lost.
                unsafe { regs.offset(slot).write(value.into_raw()) };
            }
            Ok(())
        });
        match outcome {
            Ok(()) => 0,
            Err(error) => {
                error.raise();
                -1
            }
        }
    }
}

/// Materialises the objects of one exit, each once.
struct Materialiser<'r> {
    virtual_objects: &'r VirtualObjects,
    sources: &'r [Item],
    values: Vec<Option<Any>>,
    consts: *const TVMFFIAny,
    arena: Option<&'r Storage>,
    made: HashMap<ObjectId, Any>,
}

impl Materialiser<'_> {
    fn object(&mut self, id: ObjectId) -> Result<Any, Error> {
        if let Some(made) = self.made.get(&id) {
            return Ok(made.clone());
        }
        let virtual_objects = self.virtual_objects;
        let value: Any = match &virtual_objects.objects[id.0 as usize] {
            Object::Storage { at, bytes } => {
                let part = self.arena.and_then(|arena| arena.slice(*at, *bytes));
                part.ok_or_else(|| internal("a storage outside of the arena"))?.into()
            }
            Object::Tensor { on, offset, shape, dtype } => {
                let storage = self.object(*on)?;
                let storage = storage.downcast_ref::<Storage>();
                let storage = storage.ok_or_else(|| internal("a tensor on no storage"))?;
                Tensor::on_storage(storage, *offset, shape, *dtype)?.into()
            }
            Object::View { items, dtype } => {
                let tensor = self.item(items[0])?;
                let tensor = tensor.downcast_ref::<Tensor>();
                let tensor = tensor.ok_or_else(|| internal("a view of no tensor"))?;
                tensor.view(0, &self.numbers(&items[1..])?, *dtype)?.into()
            }
            Object::Shape { dims } => Shape::new(&self.numbers(dims)?).into(),
            Object::Heap { entries } => {
                let entries = self.numbers(entries)?;
                Tensor::from_slice(&[entries.len() as i64], &entries)?.into()
            }
            Object::Tuple { items } => Array::new(self.items(items)?).into(),
            Object::Closure { func, captured } => {
                let captured = Array::new(self.items(captured)?);
                Closure { program: virtual_objects.program, func: *func, captured }.into_value()
            }
        };
        self.made.insert(id, value.clone());
        Ok(value)
    }

    fn items(&mut self, items: &[Item]) -> Result<Vec<Any>, Error> {
        items.iter().map(|item| self.item(*item)).collect()
    }

    fn numbers(&mut self, items: &[Item]) -> Result<Vec<i64>, Error> {
        let number = |value: Any| value.view().as_int().ok_or_else(|| internal("no number"));
        items.iter().map(|item| self.item(*item).and_then(number)).collect()
    }

    fn item(&mut self, item: Item) -> Result<Any, Error> {
        let source = || self.sources.iter().position(|source| *source == item);
        let value = match item {
            // Only one object owns the value.
            Item::Owned(_) => source().and_then(|at| self.values[at].take()),
            Item::Scalar(Scalar::Var { .. }) => source().and_then(|at| self.values[at].clone()),
            Item::Scalar(Scalar::Const { tag, bits }) => {
                // SAFETY: `tag` and `bits` are of a scalar, which owns nothing.
                Some(unsafe { Any::from_raw(TVMFFIAny::int_like(tag, bits)) })
            }
            Item::Const(index) => {
                // SAFETY: the trace's constants are entries of the session's table.
                let view = unsafe { AnyView::from_raw(*self.consts.add(index as usize)) };
                Some(view.to_owned())
            }
            Item::Object(object) => return self.object(object),
        };
        value.ok_or_else(|| internal("an item without a value"))
    }
}

fn internal(what: &str) -> Error {
    Error::new("InternalError", format!("trace IR: {what}"))
}
