//! Artifacts for WebAssembly: a module that `wasm-ld` links of kernels, with the program in custom sections.
//!
//! The module is a shared one: it imports memory and table, and where its own part of them begins. Its host
//! instantiates it beside the runtime's.
//!
//! Source: "WebAssembly Core Specification 2.0", section 5.5; "WebAssembly Dynamic Linking" of the
//! tool-conventions repository.
//!
//! Decision: docs/decisions/0104-webassembly.md

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use reflex_tir::codegen::ObjectFile;

use crate::error::{Error, ErrorKind, Result};
use crate::whole_file;

/// Names the linker, in place of the first one on the path.
const VARIABLE: &str = "REFLEX_WASM_LD";
/// Names of the linker.
const LINKERS: [&str; 2] = ["wasm-ld-19", "wasm-ld"];
/// Contents of sections begin at multiples of so many bytes of the file, as constants are aligned.
const ALIGN: usize = 64;

/// Writes a module with these kernels and custom sections; the file appears complete or not at all. Returns its
/// size in bytes.
pub(super) fn write(
    path: &Path,
    kernels: &[&ObjectFile],
    sections: &[(&str, &[u8])],
) -> Result<u64> {
    let mut module = linked(kernels)?;
    for (name, contents) in sections {
        push_section(&mut module, name, contents);
    }
    whole_file::write(path, 0o644, |file| file.write_all(&module)).map_err(|e| Error::io(path, &e))
}

/// The linker that the environment names, or has on its path.
fn linker() -> Result<PathBuf> {
    let failed = |text: String| Err(Error::new(ErrorKind::Compile, text));
    if let Some(named) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        let path = PathBuf::from(named);
        return match path.is_file() {
            true => Ok(path),
            false => failed(format!("{VARIABLE} names no file: {}", path.display())),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let mut places = folders.flat_map(|folder| LINKERS.map(|name| folder.join(name)));
    match places.find(|place| place.is_file()) {
        Some(place) => Ok(place),
        None => failed(format!(
            "an artifact for WebAssembly needs the linker {} (Debian's package lld-19), which is neither in \
             {VARIABLE} nor on the path",
            LINKERS.join(" or ")
        )),
    }
}

fn linked(kernels: &[&ObjectFile]) -> Result<Vec<u8>> {
    let linker = linker()?;
    let failed = |why: String| Error::new(ErrorKind::Compile, format!("wasm-ld: {why}"));
    let io = |e: std::io::Error| failed(e.to_string());
    let folder = tempfile::tempdir().map_err(io)?;
    let mut objects = String::new();
    for (index, kernel) in kernels.iter().enumerate() {
        let object = folder.path().join(format!("{index}.o"));
        std::fs::write(&object, &kernel.elf).map_err(io)?;
        objects += &format!("{index}.o\n");
    }
    // A command line has a largest length.
    std::fs::write(folder.path().join("objects"), objects).map_err(io)?;
    let mut command = Command::new(linker);
    command.current_dir(folder.path());
    // What kernels call of the runtime and the C library is imported.
    command.args(["-shared", "--experimental-pic", "--unresolved-symbols=import-dynamic"]);
    command.args(["--strip-all", "-o", "module.wasm", "@objects"]);
    let output = command.output().map_err(io)?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    std::fs::read(folder.path().join("module.wasm")).map_err(io)
}

/// Appends a custom section whose contents are aligned, behind one that fills the space before.
fn push_section(module: &mut Vec<u8>, name: &str, contents: &[u8]) {
    const CUSTOM: u8 = 0;
    const PADDING: &str = "padding";
    let head = |name: &str| 1 + PADDED_LEB128 + 1 + name.len();
    let unpadded = module.len() + head(PADDING) + head(name);
    let padding = vec![0; unpadded.next_multiple_of(ALIGN) - unpadded];
    for (name, contents) in [(PADDING, &padding[..]), (name, contents)] {
        module.push(CUSTOM);
        module.extend(padded_leb128(1 + name.len() + contents.len()));
        module.push(name.len() as u8);
        module.extend(name.as_bytes());
        module.extend(contents);
    }
}

/// Bytes of a number of 32 bits in the longest form.
const PADDED_LEB128: usize = 5;

/// A number in the longest form, so that it takes as many bytes as any other.
fn padded_leb128(value: usize) -> [u8; PADDED_LEB128] {
    let mut bytes = [0; PADDED_LEB128];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let more = if index + 1 < PADDED_LEB128 { 0x80 } else { 0 };
        *byte = (value >> (7 * index)) as u8 & 0x7f | more;
    }
    bytes
}
