//! Cubins: `ptxas`, NVIDIA's assembler, makes machine code of PTX where it is found. It is never shipped, and
//! without it the driver compiles PTX when a program is loaded.
//!
//! Decision: docs/decisions/0081-cubins.md

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use reflex_runtime::device::Image;

use super::parallel::try_in_parallel;
use super::{DeviceCodes, FunctionCode};
use crate::error::{Error, ErrorKind, Result};

/// Names the program, in place of the first one on the path.
const VARIABLE: &str = "REFLEX_PTXAS";

/// The program that the environment names, or has on its path; a name that leads to no file is an error.
pub(crate) fn find() -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        let path = PathBuf::from(named);
        if path.is_file() {
            return Ok(Some(path));
        }
        let text = format!("{VARIABLE} names no file: {}", path.display());
        return Err(Error::new(ErrorKind::Compile, text));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("ptxas"));
    Ok(places.find(|place| place.is_file()))
}

/// The architectures that get cubins where none are asked for: code for `sm_80` runs on every later
/// generation, of which each has cubins of its own.
fn usual(gpu: &str) -> BTreeSet<String> {
    let archs: &[&str] = match gpu.trim_start_matches("cuda:") {
        "sm_80" => &["sm_80", "sm_90"],
        arch => return BTreeSet::from([arch.to_owned()]),
    };
    archs.iter().map(|arch| (*arch).to_owned()).collect()
}

impl DeviceCodes {
    /// Makes the cubins of all functions, at once, where `ptxas` is found. It is an error if some are asked for and
    /// there is none.
    pub(crate) fn assemble(
        &mut self,
        asked: Option<&BTreeSet<String>>,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<()> {
        let archs = asked.cloned().unwrap_or_else(|| usual(&self.gpu));
        if archs.is_empty() {
            return Ok(());
        }
        let Some(ptxas) = find()? else {
            let text = format!("cubins need ptxas, which is neither in {VARIABLE} nor on the path");
            return if asked.is_some() {
                Err(Error::new(ErrorKind::Compile, text))
            } else {
                Ok(())
            };
        };
        let failed = |why: String| Error::new(ErrorKind::Compile, why);
        let folder = tempfile::tempdir().map_err(|e| failed(format!("ptxas: {e}")))?;
        let each = self.functions.iter().enumerate();
        let wanted: Vec<(usize, &FunctionCode, &String)> = each
            .flat_map(|(at, function)| archs.iter().map(move |arch| (at, function, arch)))
            .collect();
        let done = AtomicUsize::new(0);
        let images = try_in_parallel(&wanted, |(at, function, arch)| {
            let files = folder.path().join(format!("{at}-{arch}"));
            let (bytes, spilled) = assembled(&ptxas, &files, &function.ptx, arch)
                .map_err(|why| format!("kernel {} for {arch}: {why}", function.plan.name()))?;
            if let Some(spilled) = spilled {
                let kernel = function.plan.name();
                tracing::warn!(kernel, arch, "ptxas spills registers: {spilled}");
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(done, wanted.len());
            Ok(Image { arch: (*arch).clone(), bytes })
        });
        let mut images = images.map_err(failed)?.into_iter();
        for function in &mut self.functions {
            function.set_images(images.by_ref().take(archs.len()).collect());
        }
        Ok(())
    }
}

/// The cubin of a text, and a line of `ptxas` about registers that do not suffice.
fn assembled(
    ptxas: &Path,
    files: &Path,
    ptx: &str,
    arch: &str,
) -> std::result::Result<(Vec<u8>, Option<String>), String> {
    let (source, cubin) = (files.with_extension("ptx"), files.with_extension("cubin"));
    let io = |e: std::io::Error| format!("ptxas: {e}");
    std::fs::write(&source, ptx).map_err(io)?;
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch={arch}")).arg("-v").arg(&source).arg("-o").arg(&cubin);
    let output = command.output().map_err(|e| format!("{}: {e}", ptxas.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("ptxas: {}", said.trim()));
    }
    let spilled = said.lines().find(|line| spills(line)).map(|line| line.trim().to_owned());
    let bytes = std::fs::read(&cubin).map_err(io)?;
    // Files of a large model would fill the folder.
    let _ = (std::fs::remove_file(&source), std::fs::remove_file(&cubin));
    Ok((bytes, spilled))
}

/// Whether a line of `ptxas -v` tells of registers in memory.
fn spills(line: &str) -> bool {
    let mut parts = line.split(',').map(str::trim);
    parts.any(|part| part.contains("bytes spill") && !part.starts_with("0 bytes spill"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_are_found() {
        let line = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert!(!spills(line) && !spills("ptxas info    : Used 10 registers, used 0 barriers"));
        assert!(spills("    8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads"));
        assert!(spills("    8 bytes stack frame, 0 bytes spill stores, 40 bytes spill loads"));
    }

    #[test]
    fn each_generation_has_cubins() {
        assert_eq!(usual("cuda:sm_80").into_iter().collect::<Vec<_>>(), ["sm_80", "sm_90"]);
        assert_eq!(usual("cuda:sm_90a").into_iter().collect::<Vec<_>>(), ["sm_90a"]);
    }
}
