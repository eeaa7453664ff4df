//! What exits make: the objects that a trace only had recipes of.

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use reflex_runtime::abi::{TVMFFIAny, TVMFFIObject};
use reflex_runtime::error::Error;
use reflex_runtime::function::guard;
use reflex_runtime::object::ObjectRef;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use super::ir::{Object, ObjectId, Trace};

/// The objects of a trace, and for each exit the slots that hold some.
#[derive(Debug)]
pub(crate) struct Recipes {
    objects: Vec<Object>,
    exits: Vec<Vec<(usize, ObjectId)>>,
}

impl Recipes {
    /// The recipes of a trace. Slots are counted from register 0 of its first frame.
    pub(crate) fn of(trace: &Trace) -> Recipes {
        let exits = trace.exits.iter().map(|exit| {
            let slots = exit.objects.iter().map(|&(place, object)| {
                ((trace.frame(place.frame).base + place.reg) as usize, object)
            });
            slots.collect()
        });
        Recipes { objects: trace.objects.clone(), exits: exits.collect() }
    }

    /// For the generated code: makes the objects of an exit, with storages in `arena`. Returns
    /// zero, or -1 with the error in the thread's slot; slots without an object are None then.
    ///
    /// # Safety
    /// `this` is of the trace that runs, `regs` is register 0 of its first frame, and the slots of
    /// this exit hold nothing that must be released. `arena` is a storage, or null when the trace
    /// has none.
    pub(crate) unsafe extern "C" fn make(
        this: *const Recipes,
        exit: u32,
        regs: *mut TVMFFIAny,
        arena: *mut TVMFFIObject,
    ) -> c_int {
        // SAFETY: by the contract; the trace's code keeps its recipes.
        let recipes = unsafe { &*this };
        let slots = &recipes.exits[exit as usize];
        for &(slot, _) in slots {
            // SAFETY: by the contract.
            unsafe { regs.add(slot).write(TVMFFIAny::NONE) };
        }
        let outcome = guard(|| {
            // SAFETY: the caller keeps its reference; what is made takes others.
            let arena = NonNull::new(arena)
                .map(|arena| ManuallyDrop::new(unsafe { ObjectRef::from_raw(arena) }));
            let arena = arena.as_ref().and_then(|arena| arena.downcast_ref::<Storage>());
            let mut making = Making { recipes, arena, made: HashMap::new() };
            for &(slot, object) in slots {
                let value = making.object(object)?;
                // SAFETY: by the contract.
                unsafe { regs.add(slot).write(value.into_raw()) };
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
    arena: Option<&'r Storage>,
    made: HashMap<ObjectId, Any>,
}

impl Making<'_> {
    fn object(&mut self, id: ObjectId) -> Result<Any, Error> {
        if let Some(made) = self.made.get(&id) {
            return Ok(made.clone());
        }
        let value: Any = match &self.recipes.objects[id.0 as usize] {
            Object::Storage { at, bytes } => {
                let part = self.arena.and_then(|arena| arena.part(*at, *bytes));
                part.ok_or_else(|| internal("a storage outside of the arena"))?.into()
            }
            Object::Tensor { on, offset, shape, dtype } => {
                let storage = self.object(*on)?;
                let storage = storage.downcast_ref::<Storage>();
                let storage = storage.ok_or_else(|| internal("a tensor on no storage"))?;
                Tensor::on_storage(storage, *offset, shape, *dtype)?.into()
            }
        };
        self.made.insert(id, value.clone());
        Ok(value)
    }
}

fn internal(what: &str) -> Error {
    Error::new("InternalError", format!("trace IR: {what}"))
}
