//! C text in a shared library of the system's compiler, which the system's loader loads.

#[path = "../../../../tests/common/kernel_host.rs"]
mod kernel_host;

use std::process::Command;

use kernel_host::{alloc_workspace, free_workspace, launch, with_values};
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use reflex_runtime::abi::SafeCall;
use reflex_tir::eval::EvalArg;

/// Kernels of one text.
pub struct Kernels(Library);

impl Kernels {
    /// Compiles C with more flags.
    pub fn compile(text: &str, flags: &[&str]) -> Kernels {
        let folder = tempfile::tempdir().unwrap();
        let [source, library] = ["kernels.c", "kernels.so"].map(|name| folder.path().join(name));
        std::fs::write(&source, text).unwrap();
        let all = "-fPIC -shared -Wall -Wno-unused-but-set-variable -Werror -o";
        let output = Command::new("cc")
            .args(flags)
            .args(all.split(' '))
            .args([&library, &source])
            .arg("-lm")
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: the library has no initialiser. The function that sets errors is looked up when one is first set.
        let library = unsafe { Library::open(Some(&library), RTLD_LAZY | RTLD_LOCAL) }.unwrap();
        let slots = [
            (c"__TVMBackendParallelLaunch", launch as *const () as usize),
            (c"__TVMBackendAllocWorkspace", alloc_workspace as *const () as usize),
            (c"__TVMBackendFreeWorkspace", free_workspace as *const () as usize),
        ];
        for (name, value) in slots {
            // SAFETY: the text declares these variables as pointers to functions of these types.
            unsafe { **library.get::<*mut usize>(name.to_bytes_with_nul()).unwrap() = value };
        }
        Kernels(library)
    }

    /// Calls a packed entry as the evaluator would be called.
    pub fn run(&self, name: &str, args: &mut [EvalArg]) {
        let symbol = format!("__tvm_ffi_{name}\0");
        // SAFETY: the text defines this function as a packed entry.
        let entry = unsafe { self.0.get::<SafeCall>(symbol.as_bytes()) }.unwrap();
        // SAFETY: it is a kernel's.
        let done = with_values(args, |values| unsafe { kernel_host::call(*entry, values) });
        done.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}
