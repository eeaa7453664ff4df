//! The section of an artifact for a GPU: the host's part of its functions, and their PTX.

use reflex_vm::executable::Executable;
use reflex_vm::serialize;
use reflex_vm::verify::Verified;
use serde::{Deserialize, Serialize};

use super::metadata::Metadata;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::DeviceCodes;

/// Version of [`DeviceSection`], at its start.
const VERSION: u8 = 1;

/// The part of an artifact for a GPU.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeviceSection {
    pub(crate) codes: DeviceCodes,
    /// The program for the GPU, where the bundle has one for CPUs; without it the bundle's is for the
    /// GPU.
    pub(crate) companion: Option<CompanionProgram>,
}

/// A second program of an artifact.
#[derive(Serialize, Deserialize)]
pub(crate) struct CompanionProgram {
    /// As the bundle holds an executable.
    executable: Vec<u8>,
    /// As JSON, like that of the bundle's program.
    metadata: String,
}

impl CompanionProgram {
    pub(crate) fn new(exec: &Verified<Executable>, metadata: &Metadata) -> Result<Self> {
        let metadata = serde_json::to_string(metadata)
            .map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))?;
        Ok(CompanionProgram { executable: serialize::to_bytes(exec), metadata })
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

impl DeviceSection {
    /// Returns its bytes in a file.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = postcard::to_extend(self, vec![VERSION]);
        bytes.map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))
    }

    /// Reads and checks a section.
    pub(crate) fn parse(bytes: &[u8]) -> Result<DeviceSection> {
        let Some((&VERSION, payload)) = bytes.split_first() else {
            let text = "its section for a GPU is of another version of Reflex; compile it again";
            return Err(Error::new(ErrorKind::Model, text));
        };
        let section: DeviceSection =
            postcard::from_bytes(payload).map_err(|e| damaged(&e.to_string()))?;
        section.codes.verify().map_err(|what| damaged(&what))?;
        Ok(section)
    }
}
