use super::*;

struct One(&'static str);

impl Functions for One {
    fn kind(&self) -> &str {
        "one"
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        match name {
            "broken" => Err(Error::new("ConnectionError", "gone")),
            name => Ok((name == self.0).then(|| Function::new(|_| Ok(Any::from(1_i64))))),
        }
    }
}

fn has(module: &Module, name: &str, imports: Imports) -> bool {
    module.function(name, imports).unwrap().is_some()
}

#[test]
fn imports_are_searched_and_circles_refused() {
    let (a, b) = (Module::new(One("a")), Module::new(One("b")));
    a.import(&b).unwrap();
    assert!(has(&a, "b", Imports::Search) && !has(&a, "b", Imports::Skip));
    assert!(!has(&b, "a", Imports::Search));
    assert!(b.import(&a).is_err() && a.import(&a).is_err());
    assert_eq!(a.imports().unwrap().len(), 1);
    a.clear_imports().unwrap();
    assert!(!has(&a, "b", Imports::Search));
    b.import(&a).unwrap();
}

#[test]
fn modules_are_values_and_say_what_they_are() {
    let value = Any::from(Module::new(One("a")));
    assert_eq!(value.type_index(), type_index::MODULE);
    let module = Module::try_from(value.view()).unwrap();
    assert_eq!((module.kind().unwrap().as_str(), module.property_mask().unwrap()), ("one", 2));
    assert!(module.require("a").is_ok());
    assert_eq!(module.require("b").unwrap_err().message(), "the module has no function `b`");
    assert_eq!(module.function("broken", Imports::Skip).unwrap_err().kind(), "ConnectionError");
    assert!(Module::try_from(AnyView::NONE).is_err());
    drop(value);
    assert!(module.object().is_unique());
}

/// A module that two others import is looked at once.
#[test]
fn imports_of_imports_are_not_walked_once_for_each_way() {
    let mut last = Module::new(One("a"));
    for _ in 0..MAX_DEPTH - 1 {
        let next = Module::new(One("b"));
        next.import(&last).unwrap();
        next.import(&last).unwrap();
        last = next;
    }
    assert!(has(&last, "a", Imports::Search) && !has(&last, "c", Imports::Search));
    assert!(Module::new(One("c")).import(&last).is_ok());
}

#[test]
fn long_chains_of_imports_end() {
    let first = Module::new(One("a"));
    let mut last = first.clone();
    for _ in 0..MAX_DEPTH {
        let next = Module::new(One("b"));
        next.import(&last).unwrap();
        last = next;
    }
    assert!(has(&last, "a", Imports::Search));
    assert!(Module::new(One("c")).import(&last).is_err(), "too deep");
}
