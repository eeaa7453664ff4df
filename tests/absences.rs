//! The absences that ARCHITECTURE.md claims and cargo cannot check: each test fails when its
//! absence is violated. Arrows between crates and modules are in architecture.rs, the fast-math
//! flags in jit/llvm/tests/float_semantics.rs, the rights of code pages also in jit/codemem.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODEL: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 8), dtype="float32"), w: R.Tensor((8, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
        h: R.Tensor((2, 4), dtype="float32") = R.matmul(x, w)
        y: R.Tensor((2, 4), dtype="float32") = R.nn.relu(h)
        return y
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Rust sources below some folders, tests left out: files of folders called tests, and modules
/// behind `#[cfg(test)]`, which end a file.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let mut found = vec![];
    let mut queue: Vec<PathBuf> = folders.iter().map(|f| root().join(f)).collect();
    while let Some(folder) = queue.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            if path.is_dir() {
                if !name.ends_with("/tests") && !name.ends_with("/benches") {
                    queue.push(path);
                }
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).expect("readable");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.push((name, code.to_owned()));
            }
        }
    }
    assert!(found.len() > folders.len(), "no sources");
    found.sort();
    found
}

/// `FILE: LINE` of every line of code, not of comments, that contains one of `words`.
fn mentions(sources: &[(String, String)], words: &[&str]) -> Vec<String> {
    let lines = sources.iter().flat_map(|(name, text)| text.lines().map(move |l| (name, l.trim())));
    lines
        .filter(|(_, line)| !line.starts_with("//"))
        .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
        .map(|(name, line)| format!("{name}: {line}"))
        .collect()
}

#[test]
fn what_is_deployed_holds_no_llvm() {
    let own = std::env::current_exe().expect("a test has a path");
    let library = own.parent().expect("a folder").join("libreflex.so");
    for file in [PathBuf::from(env!("CARGO_BIN_EXE_reflex")), library] {
        let bytes = std::fs::read(&file).expect("readable");
        // The name of the shared library, and a function that every static LLVM defines.
        for word in ["libLLVM", "LLVMContextCreate"] {
            let found = bytes.windows(word.len()).any(|part| part == word.as_bytes());
            assert!(!found, "{} contains {word}", file.display());
        }
    }
}

/// Runs the command with a code generator that leaves a mark when it is started.
fn with_marked_codegen(folder: &Path, args: &[&str]) -> Output {
    use std::os::unix::fs::PermissionsExt;
    let script = folder.join("codegen");
    let real = std::env::var_os("REFLEX_CODEGEN").map(PathBuf::from);
    let built = Path::new(env!("CARGO_BIN_EXE_reflex")).with_file_name("reflex-codegen");
    let real = real.filter(|path| path.is_file()).unwrap_or(built);
    assert!(real.is_file(), "{} is not built; cargo build -p reflex-llvm", real.display());
    let text = format!(
        "#!/bin/sh\n: > '{}'\nexec '{}' \"$@\"\n",
        folder.join("started").display(),
        real.display()
    );
    std::fs::write(&script, text).expect("writes");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("executable");
    Command::new(env!("CARGO_BIN_EXE_reflex"))
        .args(args)
        .current_dir(folder)
        .env("REFLEX_CODEGEN", &script)
        .env("REFLEX_CACHE", folder.join("cache"))
        // Everything is compiled that can be, at once.
        .env("REFLEX_TIER", "threshold=1,compile=sync")
        .output()
        .expect("the command runs")
}

/// The code generator is the only program that Reflex ever starts, but for a server that starts itself
/// for each session (by the command of `--runner`, where its operator names one), NVIDIA's assembler where a program for a GPU is saved,
/// and LLVM's linker where one for WebAssembly is. A run of a `.so` starts none.
#[test]
fn a_run_of_a_compiled_library_starts_no_process() {
    let starters = mentions(
        &sources(&["src", "jit"]),
        &["Command::new(", "libc::fork", "libc::exec", "posix_spawn"],
    );
    let allowed = [
        "src/lower/codegen_process.rs: ",
        "src/cli/serve/listener.rs: let mut command = Command::new(words[0]);",
        "src/kernels/device/ptxas.rs: ",
        "src/artifact/wasm_module.rs: ",
    ];
    let unknown = |line: &&String| !allowed.iter().any(|allowed| line.starts_with(allowed));
    let others: Vec<_> = starters.iter().filter(unknown).collect();
    assert!(others.is_empty(), "starts a process: {others:#?}");
    assert_eq!(starters.len(), allowed.len(), "{starters:#?}");

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("model.py"), MODEL).expect("writes");
    let run = |args: &[&str]| {
        let output = with_marked_codegen(path, args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
    };
    run(&["compile", "model.py", "-o", "model.so"]);
    assert!(path.join("started").exists(), "compiling starts the code generator");
    std::fs::remove_file(path.join("started")).expect("removes");
    for mode in ["bytecode", "compiled", "tiered"] {
        run(&["run", "model.so", "--mode", mode]);
        // Long enough for every tier, shape specialisation included.
        run(&["bench", "model.so", "--modes", mode, "--min-time", "1"]);
        assert!(!path.join("started").exists(), "a run in mode {mode} started the code generator");
    }
}

/// The modules that may compute with the reference evaluators: those that fold constants. They
/// run while a model is compiled, in the background too, never in a call of compiled code.
const FOLDING: [&str; 6] = [
    "src/onnx/emit.rs",
    "src/onnx/fold.rs",
    "src/lower/graph/fold_constants.rs",
    "src/lower/graph/simplify/absorb.rs",
    "src/lower/graph/simplify/reciprocal.rs",
    "src/lower/graph/use_lookup_tables.rs",
];

#[test]
fn only_constant_folding_computes_with_the_reference_evaluators() {
    let crates = [
        "src/runtime",
        "src/vm",
        "src/onnx",
        "src/torch",
        "src/lower",
        "src/session",
        "src/cli",
        "src/capi",
        "jit",
    ];
    let mut code = sources(&crates);
    for entry in std::fs::read_dir(root().join("src")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            code.push((name, std::fs::read_to_string(path).expect("readable")));
        }
    }
    let words = ["eval_op", "eval_func", "eval_expr", "EvalValue", "graph::eval", "tir::eval"];
    let found = mentions(&code, &words);
    let folds = |line: &&String| FOLDING.iter().any(|file| line.starts_with(&format!("{file}: ")));
    let others: Vec<_> = found.iter().filter(|line| !folds(line)).collect();
    assert!(others.is_empty(), "{others:#?}");
    for file in FOLDING {
        assert!(found.iter().any(|l| l.starts_with(file)), "{file} is no exception any more");
    }
}

/// Loads, stores and pointer arithmetic that Cranelift emits take offsets with names; a number
/// other than 0 and the step 1 of a counter would be a layout.
#[test]
fn machine_code_of_the_vm_takes_offsets_from_the_abi() {
    let mut literal = vec![];
    let mut accesses = 0;
    for (name, text) in sources(&["jit/cranelift"]) {
        for (at, _) in text.match_indices('.') {
            let Some((method, rest)) = text[at + 1..].split_once('(') else { continue };
            let is_name = method.chars().all(|c| c == '_' || c.is_alphanumeric());
            let names = ["load", "store", "iadd_imm", "isub_imm"];
            if !is_name || !names.iter().any(|n| method.contains(n)) {
                continue;
            }
            accesses += 1;
            let offset = last_argument(rest);
            if offset.parse::<i64>().is_ok_and(|offset| offset.abs() > 1) {
                literal.push(format!("{name}: {method}(.., {offset})"));
            }
        }
    }
    assert!(accesses > 100, "{accesses} loads and stores found");
    assert!(literal.is_empty(), "offsets that are numbers: {literal:#?}");
}

/// The last argument of a call whose text begins behind its opening parenthesis.
fn last_argument(text: &str) -> String {
    let (mut depth, mut last) = (1, String::new());
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 1 => {
                // A comma before the closing parenthesis ends no further argument.
                last.push('\0');
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        last.push(c);
    }
    let arguments: Vec<&str> =
        last.split('\0').map(str::trim).filter(|argument| !argument.is_empty()).collect();
    arguments.last().map(|argument| argument.replace('_', "")).unwrap_or_default()
}

/// Exports of the C interface that run nothing which could panic: they return a constant, a value
/// of their argument, or a text of the error slot, or they call another export.
const INFALLIBLE: &[&str] = &[
    "reflex_error_kind",
    "reflex_error_message",
    "reflex_error_backtrace",
    "reflex_version",
    "reflex_set_memory_limit",
    "reflex_session_new",
    "reflex_none",
    "reflex_int",
    "reflex_bool",
    "reflex_float",
    "reflex_count",
    "reflex_as_tensor",
    "reflex_tensor_view",
    "reflex_string_view",
];

/// Rust aborts where a panic would leave an `extern "C"` function; the exports turn it into a
/// status before.
#[test]
fn panics_become_statuses_at_the_c_abi() {
    let all = sources(&["src", "jit"]);
    let unwinding = mentions(&all, &["extern \"C-unwind\""]);
    assert!(unwinding.is_empty(), "{unwinding:#?}");
    let (mut exports, mut infallible) = (0, 0);
    for (file, text) in all.iter().filter(|(name, _)| name.starts_with("src/capi/")) {
        for export in text.split("#[unsafe(no_mangle)]").skip(1) {
            let Some((_, rest)) = export.split_once("fn ") else { continue };
            let name: String =
                rest.chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect();
            if !name.starts_with("reflex_") {
                continue;
            }
            exports += 1;
            let body = rest.split("\n}").next().unwrap_or_default();
            infallible += usize::from(INFALLIBLE.contains(&name.as_str()));
            let guarded = body.contains("status(") || body.contains("quiet(");
            assert!(
                guarded || INFALLIBLE.contains(&name.as_str()),
                "{file}: {name} does not turn panics into a status"
            );
        }
    }
    assert!(exports > 40, "{exports} exports found");
    assert_eq!(infallible, INFALLIBLE.len(), "INFALLIBLE names what is no export");
}

/// Pages become writable in one place, where a draft is made, and no place asks for pages that are
/// writable and executable.
#[test]
fn published_code_is_never_writable() {
    let writable = mentions(&sources(&["jit"]), &["PROT_WRITE"]);
    assert_eq!(writable.len(), 1, "{writable:#?}");
    assert!(writable[0].starts_with("jit/codemem/pages.rs: "), "{writable:#?}");
    let executable = mentions(&sources(&["src", "jit"]), &["PROT_EXEC"]);
    assert!(executable.iter().all(|l| !l.contains("PROT_WRITE")), "{executable:#?}");

    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("model.py"), MODEL).expect("writes");
    let engine = reflex::Engine::builder().build().expect("an engine");
    let program = engine.load(folder.path().join("model.py")).expect("compiles");
    let array = |shape: &[i64]| {
        let count = shape.iter().product::<i64>() as usize;
        reflex::Any::from(
            reflex_runtime::tensor::Tensor::from_slice(shape, &vec![1.0_f32; count])
                .expect("a tensor"),
        )
    };
    for mode in reflex::Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        for _ in 0..2000 {
            session.call_values("main", &[array(&[2, 8]), array(&[8, 4])]).expect("runs");
        }
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux lists mappings");
        let rights = maps.lines().filter_map(|line| line.split(' ').nth(1));
        let both: Vec<_> = rights.filter(|r| r.contains('w') && r.contains('x')).collect();
        assert!(both.is_empty(), "mode {mode}: {both:?}");
    }
}
