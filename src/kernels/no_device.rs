//! The stand-in for [`super::device`] in builds that run no program for a GPU.

use std::convert::Infallible;

/// The kernels of a program for a GPU: there are none.
pub(crate) struct DeviceCodes {
    pub(crate) gpu: String,
    pub(crate) never: Infallible,
}

impl DeviceCodes {
    pub(crate) fn description(&self) -> String {
        match self.never {}
    }
}
