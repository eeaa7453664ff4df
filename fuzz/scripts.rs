//! Text from outside: TVMScript of either IR, and Relay.

use reflex_graph::relay::RelayText;
use reflex_graph::{print, script, verify};

/// A script is refused with its line, or is a module that the verifier accepts, whose text reads
/// back as the same text. Says whether it was accepted.
pub fn script(text: &str) -> bool {
    let lines = text.lines().count().max(1);
    let module = match script::parse(text, "case.py") {
        Ok(module) => module,
        Err(error) => {
            assert!((1..=lines + 1).contains(&error.line), "{error}");
            return loops(text);
        }
    };
    let faults = verify::verify(&module);
    assert_eq!(faults, Ok(()), "{}", print::module(&module));
    let printed = print::module_with_metadata(&module);
    let again = script::parse(&printed, "again.py").unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(print::module_with_metadata(&again), printed);
    true
}

/// The same of loop functions alone.
fn loops(text: &str) -> bool {
    let Ok(functions) = reflex_tir::script::parse_module(text) else { return false };
    for function in &functions {
        let printed = reflex_tir::script::print(function);
        let again =
            reflex_tir::script::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(reflex_tir::script::print(&again), printed);
    }
    !functions.is_empty()
}

/// Relay text is refused with its line, or prints as text that reads back as the same; its module is
/// refused with its line, or accepted by the verifier. Says whether it was lowered.
pub fn relay(text: &str) -> bool {
    let lines = text.lines().count().max(1);
    let read = match RelayText::read(text, "case.relay") {
        Ok(read) => read,
        Err(error) => {
            assert!((1..=lines + 1).contains(&error.line), "{error}");
            return false;
        }
    };
    let printed = read.to_string();
    let again = RelayText::read(&printed, "again").unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(again.to_string(), printed);
    match read.lower() {
        Ok(module) => {
            assert_eq!(verify::verify(&module), Ok(()), "{}", print::module(&module));
            true
        }
        Err(error) => {
            assert!((1..=lines + 1).contains(&error.line), "{error}");
            false
        }
    }
}
