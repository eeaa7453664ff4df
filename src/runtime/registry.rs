//! Global functions: names that programs and hosts find packed functions by.
//!
//! Looking a name up takes a lock and is for load time; calls go through the
//! `Function` it returns.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;

use crate::contrib;
use crate::error::Error;
use crate::function::Function;
use crate::host;

static FUNCTIONS: RwLock<BTreeMap<String, Function>> = RwLock::new(BTreeMap::new());

/// Registers `function`; a name that is taken is an error.
///
/// ```
/// use reflex_runtime::{function::Function, registry, value::Any};
/// registry::register("example.one", Function::new(|_| Ok(Any::from(1_i64)))).unwrap();
/// assert!(registry::get("example.one").is_some());
/// let again = registry::register("example.one", Function::new(|_| Ok(Any::NONE)));
/// assert_eq!(
///     again.unwrap_err().to_string(),
///     "ValueError: global function `example.one` is already registered",
/// );
/// ```
pub fn register(name: &str, function: Function) -> Result<(), Error> {
    let mut functions = FUNCTIONS.write();
    if functions.contains_key(name) {
        return Err(Error::value_error(format!("global function `{name}` is already registered")));
    }
    functions.insert(name.to_owned(), function);
    Ok(())
}

/// Registers `function`, and returns what the name stood for before.
pub fn replace(name: &str, function: Function) -> Option<Function> {
    let mut functions = FUNCTIONS.write();
    functions.insert(name.to_owned(), function)
}

/// Takes a name out of the registry.
pub fn remove(name: &str) -> Option<Function> {
    FUNCTIONS.write().remove(name)
}

/// The function called `name`: one that was registered, one of `contrib`, or one of a
/// libtvm_ffi that the process loaded before us.
pub fn get(name: &str) -> Option<Function> {
    let found = FUNCTIONS.read().get(name).cloned();
    let of_host = || host::get()?.global(name);
    let found = found.or_else(|| if contrib::is_of_host(name) { of_host() } else { None });
    found.or_else(|| contrib::get(name)).or_else(of_host)
}

/// The feature of this crate that has the function called `name`, where it was built without.
pub fn lacking_feature(name: &str) -> Option<&'static str> {
    contrib::feature_of(name)
}

/// All names, in order.
pub fn names() -> Vec<String> {
    let functions = FUNCTIONS.read();
    let own = functions.keys().cloned().chain(contrib::names().map(str::to_owned));
    own.collect::<BTreeSet<String>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Any;

    #[test]
    fn names_can_be_replaced_and_removed() {
        let constant = |value: i64| Function::new(move |_| Ok(Any::from(value)));
        assert!(replace("test.registry", constant(1)).is_none());
        let old = replace("test.registry", constant(2)).unwrap();
        assert_eq!(i64::try_from(old.call(&[]).unwrap()).unwrap(), 1);
        assert!(names().contains(&"test.registry".to_owned()));
        let found = get("test.registry").unwrap();
        assert_eq!(i64::try_from(found.call(&[]).unwrap()).unwrap(), 2);
        assert!(remove("test.registry").is_some() && get("test.registry").is_none());
    }
}
