//! Modules: parsed and decoded texts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::{Decoded, ModuleVariable, decode};
use crate::op::Kernel;
use crate::parse::error::ParseError;
use crate::parse::read::parse;

/// A PTX text, ready to launch.
#[derive(Debug)]
pub struct Module {
    /// A number that no other module of the process has.
    pub(crate) id: u64,
    decoded: Decoded,
}

impl Module {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Module, ParseError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let decoded = decode(&parse(text)?)?;
        Ok(Module { id: NEXT.fetch_add(1, Ordering::Relaxed), decoded })
    }

    /// The target that the text names, such as `sm_80`.
    pub fn target(&self) -> &str {
        &self.decoded.target
    }

    /// A kernel by its name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.decoded.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// All kernels.
    pub fn kernels(&self) -> &[Kernel] {
        &self.decoded.kernels
    }

    /// Variables in global and constant memory.
    pub fn variables(&self) -> &[ModuleVariable] {
        &self.decoded.variables
    }
}
