//! The section of an artifact for a GPU: the host's part of its functions, their PTX, and cubins.

use std::borrow::Cow;

use reflex_vm::executable::Executable;
use reflex_vm::serialize;
#[cfg(feature = "compiler")]
use reflex_vm::verify::Verified;
use serde::{Deserialize, Serialize};

use super::metadata::Metadata;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::DeviceCodes;

/// The first byte where it has a program of its own, beside one for CPUs; in every version.
const COMPANION: u8 = 1;
/// Version of [`DeviceSection`], its second byte.
const VERSION: u8 = 4;

/// The part of an artifact for a GPU.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeviceSection<'a> {
    pub(crate) codes: DeviceCodes,
    /// The program for the GPU, where the bundle has one for CPUs; without it the bundle's is for the
    /// GPU.
    #[serde(borrow)]
    pub(crate) companion: Option<CompanionProgram<'a>>,
}

/// A second program of an artifact.
#[derive(Serialize, Deserialize)]
pub(crate) struct CompanionProgram<'a> {
    /// As the bundle holds an executable.
    #[serde(borrow)]
    executable: Cow<'a, [u8]>,
    /// As JSON, like that of the bundle's program.
    metadata: String,
}

impl CompanionProgram<'_> {
    #[cfg(feature = "compiler")]
    pub(crate) fn new(exec: &Verified<Executable>, metadata: &Metadata) -> Result<Self> {
        let metadata = serde_json::to_string(metadata)
            .map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))?;
        Ok(CompanionProgram { executable: serialize::to_bytes(exec).into(), metadata })
    }

    /// Reads the program, which is to be verified, and its description.
    pub(crate) fn read(&self) -> Result<(Executable, Metadata)> {
        let exec = serialize::from_bytes(&self.executable);
        let exec = exec.map_err(|e| Error::new(ErrorKind::Model, e.to_string()))?;
        let metadata = Metadata::parse(self.metadata.as_bytes());
        let metadata = metadata.ok_or_else(|| damaged("the description of its program"))?;
        Ok((exec, metadata))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Model, format!("its section for a GPU is damaged: {what}"))
}

impl<'a> DeviceSection<'a> {
    /// Returns its bytes in a file.
    #[cfg(feature = "compiler")]
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let head = vec![u8::from(self.companion.is_some()) * COMPANION, VERSION];
        let bytes = postcard::to_extend(self, head);
        bytes.map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))
    }

    /// Whether a section, of this version or another one, lies beside a program for CPUs.
    pub(crate) fn has_companion(bytes: &[u8]) -> bool {
        bytes.first() == Some(&COMPANION)
    }

    /// Reads and checks a section.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<DeviceSection<'a>> {
        let [_, VERSION, payload @ ..] = bytes else {
            let text = "its section for a GPU is of another version of Reflex; compile it again";
            return Err(Error::new(ErrorKind::Model, text));
        };
        let section: DeviceSection =
            postcard::from_bytes(payload).map_err(|e| damaged(&e.to_string()))?;
        section.codes.verify().map_err(|what| damaged(&what))?;
        Ok(section)
    }
}
