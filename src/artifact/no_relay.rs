//! The stand-in for [`super::relay`] in builds without the feature `relay`.

use reflex_runtime::library::Library;

use crate::error::{Result, lacks};
use crate::model_source::ModelSource;
use crate::options::ExecutionOptions;
use crate::program::loaded::LoadedProgram;

/// Before the names of functions that callers from outside do not see.
pub(crate) const RESERVED: &str = "relay.";

/// Refuses an executable.
pub(crate) fn open(_: &ModelSource, _: &ExecutionOptions) -> Result<LoadedProgram> {
    Err(lacks("relay"))
}

/// Refuses an executable in a library.
pub(crate) fn link(
    _: &[u8],
    _: &ModelSource,
    _: Option<Library>,
    _: &ExecutionOptions,
) -> Result<LoadedProgram> {
    Err(lacks("relay"))
}
