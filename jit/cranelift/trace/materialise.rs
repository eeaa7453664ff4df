//! What exits make: the objects that a trace only had recipes of.

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

use super::ir::{Item, Object, ObjectId, Plain, Trace};

/// The objects of a trace, and where its exits need them.
#[derive(Debug)]
pub(crate) struct Recipes {
    program: u64,
    objects: Vec<Object>,
    exits: Vec<Needed>,
}

/// What an exit needs.
#[derive(Debug)]
struct Needed {
    /// Slots, counted from register 0 of the trace's first frame, and what they hold.
    slots: Vec<(isize, ObjectId)>,
    /// What the generated code passes, in order.
    sources: Vec<Item>,
}

impl Recipes {
    /// The recipes of a trace.
    pub(crate) fn of(program: &Program, trace: &Trace) -> Recipes {
        let exits = trace.exits.iter().map(|exit| {
            let slots =
                exit.objects.iter().map(|&(place, object)| (trace.slot(place) as isize, object));
            Needed { slots: slots.collect(), sources: trace.sources(exit) }
        });
        Recipes { program: program.id(), objects: trace.objects.clone(), exits: exits.collect() }
    }

    /// For the generated code: makes the objects of an exit, with storages in `arena`. Returns
    /// zero, or -1 with the error in the thread's slot; slots without an object are None then.
    ///
    /// # Safety
    /// `this` is of the trace that runs in `session`, `regs` is register 0 of its first frame, and
    /// the slots of this exit hold nothing that must be released. `arena` is a storage, or null
    /// when the trace has none; `values` are the exit's sources, which are given up here.
    pub(crate) unsafe extern "C" fn make(
        this: *const Recipes,
        exit: u32,
        session: *const SessionAbi,
        regs: *mut TVMFFIAny,
        arena: *mut TVMFFIObject,
        values: *const TVMFFIAny,
    ) -> c_int {
        // SAFETY: by the contract; the trace's code keeps its recipes.
        let recipes = unsafe { &*this };
        let Needed { slots, sources } = &recipes.exits[exit as usize];
        for &(slot, _) in slots {
            // SAFETY: by the contract.
            unsafe { regs.offset(slot).write(TVMFFIAny::NONE) };
        }
        let outcome = guard(|| {
            // SAFETY: the caller keeps its reference; what is made takes others.
            let arena = NonNull::new(arena)
                .map(|arena| ManuallyDrop::new(unsafe { ObjectRef::from_raw(arena) }));
            let arena = arena.as_ref().and_then(|arena| arena.downcast_ref::<Storage>());
            // SAFETY: the caller gives up as many owned values as there are sources.
            let value = |at| unsafe { Any::from_raw(*values.add(at)) };
            let values = (0..sources.len()).map(|at| Some(value(at))).collect();
            // SAFETY: the session's constants outlive it.
            let consts = unsafe { (*session).consts };
            let mut making =
                Making { recipes, sources, values, consts, arena, made: HashMap::new() };
            for &(slot, object) in slots {
                let value = making.object(object)?;
                // SAFETY: by the contract.
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

/// Objects of one exit being made; each is made once.
struct Making<'r> {
    recipes: &'r Recipes,
    sources: &'r [Item],
    values: Vec<Option<Any>>,
    consts: *const TVMFFIAny,
    arena: Option<&'r Storage>,
    made: HashMap<ObjectId, Any>,
}

impl Making<'_> {
    fn object(&mut self, id: ObjectId) -> Result<Any, Error> {
        if let Some(made) = self.made.get(&id) {
            return Ok(made.clone());
        }
        let recipes = self.recipes;
        let value: Any = match &recipes.objects[id.0 as usize] {
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
            Object::Shape { extents } => Shape::new(&self.numbers(extents)?).into(),
            Object::Heap { entries } => {
                let entries = self.numbers(entries)?;
                Tensor::from_slice(&[entries.len() as i64], &entries)?.into()
            }
            Object::Tuple { items } => Array::new(self.items(items)?).into(),
            Object::Closure { func, captured } => {
                let captured = Array::new(self.items(captured)?);
                Closure { program: recipes.program, func: *func, captured }.into_value()
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
            // One object alone owns it.
            Item::Held(_) => source().and_then(|at| self.values[at].take()),
            Item::Plain(Plain::Var { .. }) => source().and_then(|at| self.values[at].clone()),
            Item::Plain(Plain::Const { tag, bits }) => {
                // SAFETY: the value is no object.
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
