//! The stand-in for [`super::device`] in builds that run no program for a GPU.

use reflex_vm::executable::Executable;

use super::metadata::Metadata;
use crate::error::{Result, lacks};
use crate::kernels::device::DeviceCodes;

/// The part of an artifact for a GPU.
pub(crate) struct DeviceSection {
    pub(crate) codes: DeviceCodes,
    pub(crate) companion: Option<CompanionProgram>,
}

/// A second program of an artifact: there is none.
pub(crate) enum CompanionProgram {}

impl CompanionProgram {
    pub(crate) fn read(&self) -> Result<(Executable, Metadata)> {
        match *self {}
    }
}

impl DeviceSection {
    /// Whether a section lies beside a program for CPUs.
    pub(crate) fn has_companion(bytes: &[u8]) -> bool {
        bytes.first() == Some(&1)
    }

    /// Refuses a section that has to be read.
    pub(crate) fn parse(_: &[u8]) -> Result<DeviceSection> {
        Err(lacks("cuda"))
    }
}
