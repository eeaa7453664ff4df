//! Modules: named functions behind a handle, as values. Programs, libraries, sessions and modules of a
//! server are modules; so are those of a libtvm_ffi in the process, and each side uses the other's.
//!
//! tvm-ffi's `ffi.Module` is a C++ object with virtual functions. In a process with libtvm_ffi, modules
//! made here have the table of virtual functions that C++ expects (`vtable`); elsewhere nothing calls it.
//! Modules made there are called through its global functions.
//!
//! Decision: docs/decisions/0072-modules.md

mod vtable;

use std::any::Any as StdAny;
use std::collections::HashSet;
use std::ffi::{CString, c_int, c_void};
use std::ptr::NonNull;
use std::sync::LazyLock;

use parking_lot::{Mutex, MutexGuard};

use crate::abi::{DELETE_WEAK, Deleter, TVMFFIObject, type_index};
use crate::alloc::pool;
use crate::array::Array;
use crate::error::Error;
use crate::function::Function;
use crate::host;
use crate::object::{self, Body, ObjectRef, ObjectType};
use crate::string::Str;
use crate::types;
use crate::value::{Any, AnyView, impl_object_conversions};

/// The most modules below one another that a module may import.
const MAX_DEPTH: usize = 64;

/// Held while imports change, so that no two threads make a circle of them.
static IMPORTING: Mutex<()> = Mutex::new(());

/// The functions of a module.
pub trait Functions: StdAny + Send + Sync {
    /// The kind of module, such as `relax.VMExecutable`.
    fn kind(&self) -> &str;

    /// The function called `name`, if there is one.
    fn function(&self, name: &str) -> Result<Option<Function>, Error>;

    /// The function called `name` that is made of one of the modules that it imports, where the module
    /// has none itself.
    fn function_of_imports(
        &self,
        name: &str,
        imports: &[Module],
    ) -> Result<Option<Function>, Error> {
        let _ = (name, imports);
        Ok(None)
    }

    /// The module as bytes, of which the global function `ffi.Module.load_from_bytes.KIND` makes it again;
    /// `None` where it cannot be saved.
    fn to_bytes(&self) -> Option<Vec<u8>> {
        None
    }

    /// The module as text in a format, or the empty string.
    fn source(&self, format: &str) -> String {
        let _ = format;
        String::new()
    }
}

/// Which modules a look-up searches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Imports {
    /// The module and, where it lacks the name, those that it imports.
    Search,
    /// The module alone.
    Skip,
}

/// A reference to a module, of this library or of libtvm_ffi.
///
/// ```
/// use reflex_runtime::error::Error;
/// use reflex_runtime::function::Function;
/// use reflex_runtime::module::{Functions, Imports, Module};
/// use reflex_runtime::value::Any;
///
/// struct Two;
/// impl Functions for Two {
///     fn kind(&self) -> &str {
///         "example"
///     }
///     fn function(&self, name: &str) -> Result<Option<Function>, Error> {
///         Ok((name == "two").then(|| Function::new(|_| Ok(Any::from(2_i64)))))
///     }
/// }
/// let value = Any::from(Module::new(Two));
/// let module = Module::try_from(value).unwrap();
/// let two = module.function("two", Imports::Skip).unwrap().unwrap();
/// assert_eq!(i64::try_from(two.call(&[]).unwrap()).unwrap(), 2);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Module(ObjectRef);

/// The cell of a module made here. The first two fields are those of tvm-ffi's modules.
#[repr(C)]
struct Cell {
    /// An array that C++ code may replace.
    imports: Array,
    /// A map that tvm-ffi fills for its own libraries alone.
    lookups: *mut TVMFFIObject,
    kind: CString,
    functions: Box<dyn Functions>,
    /// Held where Rust code reads or changes `imports`.
    lock: Mutex<()>,
}

/// Marks modules made here.
static DELETER: Deleter = delete;

/// # Safety
/// As for every deleter: `this` is a module made here, and `flags` tells which kinds of references are
/// all released.
unsafe extern "C" fn delete(this: *mut c_void, flags: c_int) {
    // SAFETY: the caller passes an object from the pool whose cell is a `Cell`; without references of either
    // kind no C++ code calls its functions.
    unsafe {
        if flags & DELETE_WEAK != 0 {
            pool::reset_word_before(NonNull::new_unchecked(this.cast()));
        }
        object::delete::<Cell>(this, flags);
    }
}

/// The index of modules made here: that of `ffi.Module`, unless there is a libtvm_ffi whose modules have
/// another layout.
static INDEX: LazyLock<i32> = LazyLock::new(|| match vtable::of_host() {
    vtable::Host::Unknown => types::index_of("reflex.Module"),
    vtable::Host::None | vtable::Host::Table(_) => type_index::MODULE,
});

// SAFETY: transparent; the cell is read only in objects that bear the mark, and other modules are
// passed to libtvm_ffi as they are.
unsafe impl ObjectType for Module {
    const KEY: &'static str = "ffi.Module";
    #[inline]
    fn type_index() -> i32 {
        *INDEX
    }
}

impl_object_conversions!(Module);

impl Module {
    /// A module of these functions. A kind ends at its first NUL.
    pub fn new(functions: impl Functions) -> Module {
        let kind: Vec<u8> = functions.kind().bytes().take_while(|byte| *byte != 0).collect();
        let cell = Cell {
            imports: Array::new([]),
            lookups: std::ptr::null_mut(),
            kind: CString::new(kind).unwrap_or_default(),
            functions: Box::new(functions),
            lock: Mutex::new(()),
        };
        // SAFETY: the deleter is that of the cell.
        let object = unsafe { object::create_marked(*INDEX, DELETER, 0, |_| cell) };
        if let vtable::Host::Table(table) = vtable::of_host() {
            let body = NonNull::new(object.as_ptr()).expect("an object has an address");
            // SAFETY: the object is fresh from the pool, and its deleter puts the word back.
            unsafe { pool::set_word_before(body.cast(), table.as_ptr()) };
        }
        Module(object)
    }

    /// The cell of a module made here; None for one of libtvm_ffi.
    fn cell(&self) -> Option<&Cell> {
        // SAFETY: the mark says that the object was made by `new`.
        object::has_mark(&self.0, DELETER).then(|| unsafe { &*self.0.cell::<Cell>() })
    }

    /// The functions of a module made here of such a type.
    pub fn functions<T: Functions>(&self) -> Option<&T> {
        let functions: &dyn StdAny = &*self.cell()?.functions;
        functions.downcast_ref()
    }

    /// The kind of module, such as `library`.
    pub fn kind(&self) -> Result<String, Error> {
        match self.cell() {
            Some(cell) => Ok(cell.kind.to_string_lossy().into_owned()),
            None => Ok(Str::try_from(self.ask("ffi.ModuleGetKind", &[])?)?.to_string()),
        }
    }

    /// The function called `name`, if there is one.
    pub fn function(&self, name: &str, imports: Imports) -> Result<Option<Function>, Error> {
        let (mut seen, mut left) = (HashSet::new(), vec![self.clone()]);
        while let Some(module) = left.pop() {
            let Some(cell) = module.cell() else {
                let found = module.function_of_host(name, imports)?;
                if found.is_some() {
                    return Ok(found);
                }
                continue;
            };
            if let Some(function) = cell.own_function(name)? {
                return Ok(Some(function));
            }
            if imports == Imports::Search && seen.insert(module.0.as_ptr()) {
                left.extend(cell.modules()?.into_iter().rev());
            }
        }
        Ok(None)
    }

    /// The function of a module of libtvm_ffi.
    fn function_of_host(&self, name: &str, imports: Imports) -> Result<Option<Function>, Error> {
        let text = Any::from(name);
        let search = AnyView::from(imports == Imports::Search);
        let found = self.ask("ffi.ModuleGetFunction", &[text.view(), search])?;
        if found.is_none() { Ok(None) } else { Function::try_from(found).map(Some) }
    }

    /// The function called `name` of the module or one that it imports; an error if there is none.
    pub fn require(&self, name: &str) -> Result<Function, Error> {
        self.function(name, Imports::Search)?.ok_or_else(|| {
            Error::new("AttributeError", format!("the module has no function `{name}`"))
        })
    }

    /// The modules that it imports.
    pub fn imports(&self) -> Result<Vec<Module>, Error> {
        if let Some(cell) = self.cell() {
            return cell.modules();
        }
        // SAFETY: an `ffi.Module` of another library has the fields of `ModuleObj` after its header, of
        // which the first is a reference to an array or null; `vtable` checked the host's layout.
        match unsafe { &*self.0.cell::<Option<Array>>() } {
            Some(list) => modules(list),
            None => Ok(vec![]),
        }
    }

    /// Makes the functions of `child` functions of this module. A circle is refused.
    pub fn import(&self, child: &Module) -> Result<(), Error> {
        let Some(cell) = self.cell() else {
            return self.ask("ffi.ModuleImportModule", &[child.into()]).map(drop);
        };
        let _importing = IMPORTING.lock();
        if child.reaches(self)? {
            return Err(Error::value_error("modules may not import each other, or lie too deep"));
        }
        let lock = cell.lock.lock();
        let more = cell.imports.iter().cloned().chain([Any::from(child.clone())]);
        self.set_imports(&lock, Array::new(more.collect::<Vec<_>>()));
        Ok(())
    }

    /// Forgets the modules that it imports.
    pub fn clear_imports(&self) -> Result<(), Error> {
        let Some(cell) = self.cell() else {
            return self.ask("ffi.ModuleClearImports", &[]).map(drop);
        };
        self.set_imports(&cell.lock.lock(), Array::new([]));
        Ok(())
    }

    /// Replaces the imports of a module made here.
    fn set_imports(&self, _: &MutexGuard<'_, ()>, imports: Array) {
        let cell = self.0.cell::<Cell>();
        // SAFETY: the guard is the cell's, so no Rust code reads the field meanwhile; C++ code that uses
        // the module while another thread changes its imports breaks tvm-ffi's own rule. The old
        // array is dropped, and those who read it hold references of their own.
        drop(unsafe { std::ptr::replace(&raw mut (*cell).imports, imports) });
    }

    /// Whether two references are to one module.
    pub fn same(&self, other: &Module) -> bool {
        self.0.same(&other.0)
    }

    /// Whether `other` is the module or one below it; true as well where they lie too deep to look.
    fn reaches(&self, other: &Module) -> Result<bool, Error> {
        let mut level = vec![self.clone()];
        for _ in 0..MAX_DEPTH {
            if level.iter().any(|module| module.same(other)) {
                return Ok(true);
            }
            let (mut seen, mut below) = (HashSet::new(), vec![]);
            for module in &level {
                below.extend(module.imports()?);
            }
            below.retain(|module| seen.insert(module.0.as_ptr()));
            if below.is_empty() {
                return Ok(false);
            }
            level = below;
        }
        Ok(true)
    }

    /// The module as text in a format, or the empty string.
    pub fn source(&self, format: &str) -> Result<String, Error> {
        match self.cell() {
            Some(cell) => Ok(cell.functions.source(format)),
            None => {
                let format = Any::from(format);
                let text = self.ask("ffi.ModuleInspectSource", &[format.view()])?;
                Ok(Str::try_from(text)?.to_string())
            }
        }
    }

    /// The module as bytes; `None` where it cannot be saved, as one that libtvm_ffi made.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        self.cell()?.functions.to_bytes()
    }

    /// The properties of the module, as tvm-ffi's bits: 2 where functions can be called.
    pub fn property_mask(&self) -> Result<i64, Error> {
        match self.cell() {
            Some(_) => Ok(RUNNABLE.into()),
            None => self.ask("ffi.ModuleGetPropertyMask", &[])?.try_into(),
        }
    }

    /// Calls a global function of libtvm_ffi with a module of it.
    fn ask(&self, name: &str, args: &[AnyView<'_>]) -> Result<Any, Error> {
        let function = host::get().and_then(|host| host.global(name));
        let function = function.ok_or_else(|| {
            Error::runtime_error(format!("a module of another library, without its `{name}`"))
        })?;
        let args: Vec<AnyView<'_>> =
            [self.into()].into_iter().chain(args.iter().copied()).collect();
        function.call(&args)
    }
}

fn modules(list: &Array) -> Result<Vec<Module>, Error> {
    list.iter().map(|import| Module::try_from(import.view())).collect()
}

impl Cell {
    /// The modules that it imports.
    fn modules(&self) -> Result<Vec<Module>, Error> {
        let list = {
            let _lock = self.lock.lock();
            self.imports.clone()
        };
        modules(&list)
    }

    /// The function called `name` of the module itself.
    fn own_function(&self, name: &str) -> Result<Option<Function>, Error> {
        match self.functions.function(name)? {
            Some(function) => Ok(Some(function)),
            None => self.functions.function_of_imports(name, &self.modules()?),
        }
    }
}

/// tvm-ffi's bit for modules whose functions can be called.
const RUNNABLE: c_int = 0b010;

impl Drop for Cell {
    fn drop(&mut self) {
        if let Some(lookups) = NonNull::new(self.lookups) {
            // SAFETY: what C++ code stored there is a reference that the cell owns.
            drop(unsafe { ObjectRef::from_raw(lookups) });
        }
    }
}

// SAFETY: the pointer is null or an owned reference to an object, which is Send.
unsafe impl Send for Cell {}
// SAFETY: as for Send; nothing here reads through it.
unsafe impl Sync for Cell {}

/// The cell of the module at this address, for calls of C++ code.
///
/// # Safety
/// `object` is the header of a live module made here, which outlives the result.
unsafe fn cell_at<'a>(object: *mut TVMFFIObject) -> &'a Cell {
    // SAFETY: as the caller vouches.
    unsafe { &(*object.cast::<Body<Cell>>()).cell }
}

#[cfg(test)]
mod tests;
