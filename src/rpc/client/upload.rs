//! Files to the server: by content where it takes that, so that nothing travels twice.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use reflex_runtime::error::Error;
use reflex_runtime::string::Bytes;
use reflex_runtime::timing::TimingOptions;
use reflex_runtime::value::Any;

use super::{RemoteModule, RemoteSession};
use crate::names;
use crate::store::hash_of;
use crate::wire::item::Item;

/// Bytes of a piece.
const CHUNK: usize = 1 << 20;

/// The bytes of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uploaded {
    /// Bytes of the file.
    pub size: u64,
    /// Bytes that travelled.
    pub sent: u64,
}

impl RemoteSession {
    /// Makes a file here the file `name` of the session. A server that knows contents gets only the
    /// bytes that it does not have; one of TVM gets all.
    pub fn upload(&self, path: &Path, name: &str) -> Result<Uploaded, Error> {
        let failed = |e: std::io::Error| Error::new("OSError", format!("{}: {e}", path.display()));
        let Some(have) = self.global(names::HAVE)? else {
            let bytes = std::fs::read(path).map_err(failed)?;
            self.upload_bytes(name, &bytes)?;
            return Ok(Uploaded { size: bytes.len() as u64, sent: bytes.len() as u64 });
        };
        let hash = hash_of(path).map_err(failed)?;
        let mut file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let there = i64::try_from(have.call(&[Item::text(&hash)])?.local()?)?;
        let there = u64::try_from(there).unwrap_or(0).min(size);
        file.seek(SeekFrom::Start(there)).map_err(failed)?;
        let chunk = self.require(names::CHUNK)?;
        let mut at = there;
        while at < size {
            let mut bytes = Vec::with_capacity(CHUNK);
            file.by_ref().take(CHUNK as u64).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.is_empty() {
                return Err(Error::new("OSError", format!("{}: it has shrunk", path.display())));
            }
            let sent = bytes.len() as u64;
            chunk.call(&[Item::text(&hash), Item::Int(at as i64), Item::Bytes(bytes)])?;
            at += sent;
        }
        let commit = self.require(names::COMMIT)?;
        commit.call(&[Item::text(&hash), Item::Int(size as i64), Item::text(name)])?;
        Ok(Uploaded { size, sent: size - there })
    }

    /// Makes bytes a file of the session.
    pub fn upload_bytes(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let upload = self.require(names::UPLOAD)?;
        upload.call(&[Item::text(name), Item::Bytes(bytes.to_vec())]).map(drop)
    }

    /// A file of the session.
    pub fn download(&self, name: &str) -> Result<Vec<u8>, Error> {
        let download = self.require(names::DOWNLOAD)?;
        Ok(Bytes::try_from(download.call(&[Item::text(name)])?.local()?)?.to_vec())
    }

    /// Deletes a file of the session.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.require(names::REMOVE)?.call(&[Item::text(name)]).map(drop)
    }

    /// Loads a file of the session.
    pub fn load_module(&self, name: &str) -> Result<RemoteModule, Error> {
        self.require(names::LOAD_MODULE)?.call(&[Item::text(name)])?.module()
    }

    /// Seconds of a call of a module's function, one for each of `repeat` measurements of `number`
    /// calls.
    pub fn time_evaluator(
        &self,
        module: &RemoteModule,
        name: &str,
        [number, repeat]: [u32; 2],
        args: &[Item],
    ) -> Result<Vec<f64>, Error> {
        let options = TimingOptions { number, repeat, ..TimingOptions::default() };
        let timer = module.time_evaluator(name, &options)?;
        let bytes = Bytes::try_from(timer.call(args)?.local()?)?;
        let words = bytes.chunks_exact(8);
        Ok(words.map(|w| f64::from_le_bytes(w.try_into().unwrap_or_default())).collect())
    }

    /// Calls a global function on what travels.
    pub fn call_global(&self, name: &str, args: &[Item]) -> Result<Any, Error> {
        self.require(name)?.call(args)?.local()
    }
}
