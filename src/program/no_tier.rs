//! The stand-in for [`super::tier`] in builds without the feature `jit`: there is no tier.

use reflex_vm::program::Program;
use reflex_vm::session::Session;

use crate::error::lacks;
use crate::tier_policy::TierPolicy;
use crate::tier_report::{TierDetail, TierReport};

/// The tier of a program: there is none.
pub(crate) struct ProgramTier(SessionTier);

/// A program's tier, as its sessions see it: there is none.
#[derive(Clone)]
pub(crate) enum SessionTier {}

impl SessionTier {
    pub(crate) fn progress(&self) -> usize {
        match *self {}
    }

    pub(crate) fn hot_threshold(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn wait(&self) {
        match *self {}
    }
}

impl ProgramTier {
    /// Whether this build has one.
    pub(crate) const IS_BUILT: bool = false;

    /// Refuses to make one.
    pub(crate) fn attach(
        _: &Program,
        _: &TierPolicy,
        _: Option<&[u8]>,
    ) -> Result<ProgramTier, String> {
        Err(lacks("jit").to_string())
    }

    pub(crate) fn of_session(&self) -> SessionTier {
        match self.0 {}
    }

    pub(crate) fn saved_code_state(&self, _: &Program) -> String {
        match self.0 {}
    }

    pub(crate) fn report(&self, _: &Program, _: Option<&Session>, _: TierDetail) -> TierReport {
        match self.0 {}
    }
}

/// No machine code: an artifact without it is one for the interpreter.
#[cfg(feature = "compiler")]
pub(crate) fn machine_code(
    _: reflex_vm::verify::Verified<reflex_vm::executable::Executable>,
    _: &[&dyn reflex_vm::load::Library],
) -> crate::error::Result<Option<Vec<u8>>> {
    Ok(None)
}
