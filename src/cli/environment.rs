//! The environment variables that programs with Reflex read: what `reflex --help` lists.

/// Every variable and what it sets; `tests/environment.rs` compares the list with the sources and with
/// docs/deploying.md.
const VARIABLES: [(&str, &str); 17] = [
    ("REFLEX_AMX", "`off`: do without AMX's tile registers"),
    ("REFLEX_CACHE", "folder of the kernel cache, or `off`"),
    ("REFLEX_CODEGEN", "path of reflex-codegen"),
    ("REFLEX_CODEGEN_TIMEOUT", "seconds that one kernel may take to compile (600), or `off`"),
    ("REFLEX_CUDA_JIT", "`1`: the driver compiles PTX where a library has cubins too"),
    ("REFLEX_CUDA_SYNC", "`1`: wait after each kernel on a GPU, so that an error names one"),
    ("REFLEX_JIT_SYMBOLS", "tools that generated code is named to: perf, jitdump, gdb"),
    ("REFLEX_LIBRARY", "path of libreflex.so for the Python module"),
    ("REFLEX_LOG", "what is logged on standard error, such as `info` or `reflex=debug`"),
    ("REFLEX_PTXAS", "path of ptxas, which makes cubins when a program for a GPU is saved"),
    ("REFLEX_TIER", "default tier policy, as --tier has it"),
    ("REFLEX_WASM_LD", "path of wasm-ld, which links artifacts for WebAssembly"),
    ("HOME", "its .cache has the kernel cache, if the other variables name no folder"),
    ("JITDUMPDIR", "folder of the files that REFLEX_JIT_SYMBOLS=jitdump makes"),
    ("PATH", "where reflex-codegen, ptxas and wasm-ld are looked for last"),
    ("TMPDIR", "folder of temporary files (/tmp)"),
    ("XDG_CACHE_HOME", "folder of the user's caches, that of kernels among them"),
];

/// The list, as text.
pub fn list() -> String {
    let rows = VARIABLES.map(|(name, meaning)| format!("  {name:24}{meaning}\n"));
    format!("Environment:\n{}", rows.concat())
}
