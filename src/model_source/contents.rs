//! The contents of a model's files: what stored programs are found by, and compared with.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use reflex_lower::content_digest::ContentDigest;
#[cfg(feature = "onnx")]
use reflex_onnx::{ExternalData, ImportOptions};
use reflex_runtime::file_bytes::{FileBytes, FileStamp, SourceFile, open_regular};

use super::import::{OpenModel, absolute};
use super::{ModelSource, Origin};
#[cfg(not(feature = "onnx"))]
use crate::no_onnx::{ExternalData, ImportOptions};

/// The name of the model itself among its files.
const OWN: &str = "";
/// Samples of a file, spread over it.
const SAMPLES: u64 = 64;
/// Bytes of a sample.
const SAMPLE: u64 = 4096;

/// A file of a model, by what is read.
enum Contents<'a> {
    File(PathBuf),
    Memory(&'a FileBytes),
}

impl ModelSource {
    /// Returns the length of the model's own file, and samples of its bytes.
    pub(crate) fn sample(&self) -> io::Result<Vec<u8>> {
        match &self.origin {
            Origin::File(path) => {
                let file = open_regular(path)?;
                let len = file.metadata()?.len();
                samples(len, |at, bytes| file.read_exact_at(bytes, at))
            }
            Origin::Memory { bytes, .. } => {
                let bytes = bytes.as_ref();
                samples(bytes.len() as u64, |at, sample| {
                    let at = at as usize;
                    sample.copy_from_slice(&bytes[at..at + sample.len()]);
                    Ok(())
                })
            }
        }
    }

    /// Finds one of the model's files by its name below the model's folder.
    fn contents_of(&self, name: &str) -> Option<Contents<'_>> {
        match &self.origin {
            Origin::File(path) if name == OWN => Some(Contents::File(path.clone())),
            Origin::File(path) => Some(Contents::File(path.parent()?.join(name))),
            Origin::Memory { bytes, .. } if name == OWN => Some(Contents::Memory(bytes)),
            Origin::Memory { external_data, .. } => match external_data {
                ExternalData::Absent => None,
                ExternalData::Folder(folder) => Some(Contents::File(folder.join(name))),
                ExternalData::Memory(files) => files.get(name).map(Contents::Memory),
            },
        }
    }

    /// The folder of the model's files, if it has one.
    fn folder(&self) -> Option<&Path> {
        match &self.origin {
            Origin::File(path) => path.parent(),
            Origin::Memory { external_data: ExternalData::Folder(folder), .. } => Some(folder),
            Origin::Memory { .. } => None,
        }
    }
}

impl OpenModel {
    /// A model whose files have these contents, by name; `None` if one has others, or is not there.
    pub(crate) fn unchanged(
        source: &ModelSource,
        options: &ImportOptions,
        contents: &[(&str, ContentDigest)],
    ) -> io::Result<Option<OpenModel>> {
        let source = source.absolute().map_err(io::Error::other)?;
        let mut files = vec![];
        for (name, expected) in contents {
            let digest = match source.contents_of(name) {
                None => return Ok(None),
                Some(Contents::Memory(bytes)) => ContentDigest::of_bytes(bytes.as_ref()),
                Some(Contents::File(path)) => {
                    let (digest, stamp) = digest_of_file(&path)?;
                    files.push(SourceFile { path, stamp });
                    digest
                }
            };
            if digest != *expected {
                return Ok(None);
            }
        }
        Ok(Some(OpenModel { source, options: options.clone(), files }))
    }

    /// The contents of the model's files, by name; an error if one has changed since it was imported.
    pub(crate) fn contents(&self) -> io::Result<Vec<(String, ContentDigest)>> {
        let mut contents = vec![];
        if let Origin::Memory { bytes, external_data, .. } = &self.source.origin {
            contents.push((OWN.to_owned(), ContentDigest::of_bytes(bytes.as_ref())));
            if let ExternalData::Memory(files) = external_data {
                let of = |(name, bytes): (&String, &FileBytes)| {
                    (name.clone(), ContentDigest::of_bytes(bytes.as_ref()))
                };
                contents.extend(files.iter().map(of));
            }
        }
        for SourceFile { path, stamp } in &self.files {
            let name = match &self.source.origin {
                Origin::File(own) if own == path => OWN.to_owned(),
                _ => {
                    let outside = || io::Error::other("a file outside of the model's folder");
                    let folder = self.source.folder().ok_or_else(outside)?;
                    let name = path.strip_prefix(absolute(folder).map_err(io::Error::other)?);
                    let name = name.ok().and_then(Path::to_str).ok_or_else(outside)?;
                    name.to_owned()
                }
            };
            let (digest, now) = digest_of_file(path)?;
            if now != *stamp {
                return Err(io::Error::other("a file of the model has changed since it was read"));
            }
            contents.push((name, digest));
        }
        Ok(contents)
    }
}

/// The digest of a file, and its stamp; an error if it changes meanwhile.
fn digest_of_file(path: &Path) -> io::Result<(ContentDigest, FileStamp)> {
    let file: File = open_regular(path)?;
    let stamp = FileStamp::of(&file)?;
    let digest = ContentDigest::of_file(&file, stamp.length())?;
    stamp.check(&file)?;
    Ok((digest, stamp))
}

fn samples(len: u64, read: impl Fn(u64, &mut [u8]) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut out = len.to_le_bytes().to_vec();
    let mut take = |at: u64, count: u64| {
        let start = out.len();
        out.resize(start + count as usize, 0);
        read(at, &mut out[start..])
    };
    if len <= SAMPLES * SAMPLE {
        take(0, len)?;
        return Ok(out);
    }
    let step = (len - SAMPLE) / (SAMPLES - 1);
    (0..SAMPLES).try_for_each(|n| take(n * step, SAMPLE))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_reach_both_ends() {
        for len in [0, 1, SAMPLES * SAMPLE, SAMPLES * SAMPLE + 1, 10_000_000] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 253) as u8).collect();
            let read = |at: u64, out: &mut [u8]| {
                out.copy_from_slice(&bytes[at as usize..at as usize + out.len()]);
                Ok(())
            };
            let sample = samples(len, read).unwrap();
            assert_eq!(sample.len() as u64, 8 + len.min(SAMPLES * SAMPLE));
            let tail = bytes.len().min(100);
            assert!(sample[8..].starts_with(&bytes[..tail]));
        }
    }
}
