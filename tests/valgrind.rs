//! The C example under valgrind, three times in one process: it reads and frees what it should, and
//! a library that is opened again is one to valgrind too.

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

use std::path::Path;
use std::process::Command;

use programs::{linked_libraries, run};
use reflex::{Engine, Level};

/// The example registers a function, which works once in a process.
const THREE_TIMES: &str = r#"
#include "reflex.h"
static ReflexStatus register_once(const char* name, ReflexFunction function, void* self, void (*drop)(void*)) {
  static int registered;
  return registered++ ? REFLEX_STATUS_OK : reflex_register_global_func(name, function, self, drop);
}
#define reflex_register_global_func register_once
#define main example
#include "mlp.c"
#undef main
int main(int argc, char** argv) {
  int turn;
  for (turn = 0; turn < 3; turn++)
    if (example(argc, argv)) return 1;
  return 0;
}
"#;

#[test]
fn the_c_example_is_clean_when_it_reopens_its_model() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return programs::skip::skip("valgrind");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let [source, program, model] = ["three.c", "three", "mlp.so"].map(|it| folder.path().join(it));
    std::fs::write(&source, THREE_TIMES).expect("writes");
    // valgrind has no AVX-512.
    let engine = Engine::builder().levels(["v3".parse::<Level>().expect("a level")]).build();
    let script = root.join("tests/filetests/relax/mlp.py");
    engine.and_then(|it| it.load(&script)?.save(&model)).expect("compiles and saves");
    let libraries = linked_libraries();
    run(Command::new("cc")
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-g", "-I"])
        .arg(root.join("include"))
        .arg("-I")
        .arg(root.join("examples"))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", libraries.display()))
        .args(["-lreflex", "-lpthread"]));
    let said = run(Command::new("valgrind")
        // Without --fair-sched a thread that computes can keep another from running for minutes: the
        // example cancels a call from a second thread.
        .args(["--quiet", "--fair-sched=yes", "--error-exitcode=9", "--leak-check=full"])
        .args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"])
        .arg(&program)
        .arg(&model)
        .env("LD_LIBRARY_PATH", &libraries));
    assert_eq!(said.matches("done\n").count(), 3, "{said}");
}
