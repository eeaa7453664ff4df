//! Modules: named functions behind a handle.

use std::sync::Arc;

use parking_lot::Mutex;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::object::{self, RustObject};
use reflex_runtime::value::{Any, AnyView};

/// The most modules below one another.
const MAX_DEPTH: usize = 16;

/// Functions by name.
pub trait Functions: Send + Sync + 'static {
    /// The function called `name`, if there is one.
    fn function(&self, name: &str) -> Result<Option<Function>, Error>;
}

/// A module as a value.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    functions: Box<dyn Functions>,
    imports: Mutex<Vec<Module>>,
}

impl RustObject for Module {
    const KEY: &'static str = "reflex.rpc.Module";
}

impl Module {
    /// A module of these functions.
    pub fn new(functions: impl Functions) -> Module {
        let imports = Mutex::default();
        Module(Arc::new(Inner { functions: Box::new(functions), imports }))
    }

    /// The module as a value.
    pub fn to_any(&self) -> Any {
        object::wrap(self.clone()).into()
    }

    /// The module that a value is.
    pub fn of(view: &AnyView<'_>) -> Option<Module> {
        view.object_ref().and_then(object::get::<Module>).cloned()
    }

    /// The function called `name` of the module, or else of one that it imports.
    pub fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        self.find(name, MAX_DEPTH)
    }

    fn find(&self, name: &str, depth: usize) -> Result<Option<Function>, Error> {
        if let Some(function) = self.0.functions.function(name)? {
            return Ok(Some(function));
        }
        let imports = self.0.imports.lock().clone();
        for import in imports.iter().filter(|_| depth > 0) {
            if let Some(function) = import.find(name, depth - 1)? {
                return Ok(Some(function));
            }
        }
        Ok(None)
    }

    /// Makes the functions of `child` functions of this module. A circle is refused.
    pub fn import(&self, child: &Module) -> Result<(), Error> {
        if child.reaches(self, MAX_DEPTH) {
            return Err(Error::value_error("modules may not import each other, or lie too deep"));
        }
        self.0.imports.lock().push(child.clone());
        Ok(())
    }

    fn reaches(&self, other: &Module, depth: usize) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) || depth == 0 {
            return true;
        }
        let imports = self.0.imports.lock().clone();
        imports.iter().any(|import| import.reaches(other, depth - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str);

    impl Functions for One {
        fn function(&self, name: &str) -> Result<Option<Function>, Error> {
            Ok((name == self.0).then(|| Function::new(|_| Ok(Any::from(1_i64)))))
        }
    }

    #[test]
    fn imports_are_searched_and_circles_refused() {
        let (a, b) = (Module::new(One("a")), Module::new(One("b")));
        a.import(&b).unwrap();
        assert!(a.function("b").unwrap().is_some() && b.function("a").unwrap().is_none());
        assert!(b.import(&a).is_err() && a.import(&a).is_err());
        let value = a.to_any();
        assert!(Module::of(&value.view()).unwrap().function("a").unwrap().is_some());
        assert!(Module::of(&AnyView::NONE).is_none());
    }
}
