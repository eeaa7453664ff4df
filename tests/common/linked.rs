//! Libraries in TVM's layout, of any executable and of kernels written in C, which the system's
//! compiler links as it links TVM's exports.

use std::path::Path;
use std::process::Command;

use reflex_vm::executable::Executable;
use reflex_vm::{align, serialize};

const KIND: &[u8] = b"relax.VMExecutable";

/// Writes a library at `path`. Tensors among the constants are aligned.
pub fn library(path: &Path, exec: &Executable, kernels: &str) {
    let word = |value: usize| (value as u64).to_le_bytes();
    // One module, which imports the library itself.
    let mut bundle: Vec<u8> =
        [0, 3, 0, 1, 1, 1, 1, KIND.len()].into_iter().flat_map(word).collect();
    bundle.extend(KIND);
    let aligned = align::align_tensors(exec, bundle.len() + size_of::<u64>()).expect("sound words");
    for part in [&*serialize::to_bytes(&aligned), b"_lib"] {
        bundle.extend(word(part.len()));
        bundle.extend(part);
    }
    let size = word(bundle.len() - size_of::<u64>());
    bundle[..size.len()].copy_from_slice(&size);
    let (data, source) = (path.with_extension("bundle"), path.with_extension("c"));
    std::fs::write(&data, bundle).expect("writes");
    let symbol = format!(
        "__asm__(\".section .rodata\\n.balign 4096\\n.globl {0}\\n.type {0}, @object\\n{0}:\\n\
         .incbin \\\"{1}\\\"\\n.size {0}, .-{0}\\n.text\\n\");\nvoid* __tvm_ffi__library_ctx;\n",
        "__tvm_ffi__library_bin",
        data.display()
    );
    std::fs::write(&source, symbol + kernels).expect("writes");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(path).arg(&source);
    let output = command.output().expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
