//! An instrument that writes down what it sees.

use reflex_runtime::error::Error;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::AnyView;
use reflex_vm::instrument::{CallEvent, Instrument, Verdict};

use crate::host;

/// Writes down what it sees; skips some calls, or fails at some, as its seed says.
pub struct Watcher {
    seed: u64,
    calls: u64,
    seen: Vec<String>,
}

/// The effect of a watcher on a call, besides writing it down.
enum Meddling {
    Skips,
    Fails,
    Nothing,
}

impl Watcher {
    /// One that has seen nothing yet.
    pub fn new(seed: u64) -> Watcher {
        Watcher { seed, calls: 0, seen: Vec::new() }
    }

    /// Takes what it saw, one line each.
    pub fn seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.seen)
    }

    fn meddling(&self) -> Meddling {
        let chance = (self.calls ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        match self.seed >> 28 & 3 {
            0 if chance.is_multiple_of(16) => Meddling::Skips,
            1 if chance.is_multiple_of(64) => Meddling::Fails,
            _ => Meddling::Nothing,
        }
    }
}

impl Instrument for Watcher {
    fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, Error> {
        let args: Vec<String> = call.args().iter().map(|arg| outline(*arg)).collect();
        let (function, instr, callee) = (call.function(), call.instr(), call.callee());
        self.seen.push(format!("{function}@{instr} {callee}({})", args.join(", ")));
        self.calls += 1;
        // Without a call that gets a tensor, elements would be read that nothing wrote.
        let has_tensor = call.args().iter().any(|arg| arg.downcast_ref::<Tensor>().is_some());
        match self.meddling() {
            Meddling::Skips if !has_tensor => Ok(Verdict::Skip),
            Meddling::Fails => Err(Error::value_error("the instrument fails")),
            Meddling::Skips | Meddling::Nothing => Ok(Verdict::Run),
        }
    }

    fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>) -> Result<(), Error> {
        self.seen.push(format!("{} = {}", call.callee(), outline(result)));
        Ok(())
    }

    fn aborted(&mut self) {
        self.seen.push("aborted".to_owned());
    }
}

/// A value as text, without the elements of a tensor: no kernel may have written them yet.
fn outline(value: AnyView<'_>) -> String {
    match value.downcast_ref::<Tensor>() {
        Some(tensor) => format!("tensor{:?}{}", tensor.shape(), tensor.dtype()),
        None if value.type_key().as_str() == "ffi.Array" => "tuple".to_owned(),
        None => host::describe(value),
    }
}
