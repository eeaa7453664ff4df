//! Every function of `include/reflex.h` and of `python/reflex` has an example in its documentation,
//! and the examples run.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use programs::{run_c, run_python};
use reflex::Engine;

#[path = "common/programs.rs"]
mod programs;

/// A function of the header.
struct Documented {
    name: String,
    /// Empty if there is none.
    example: String,
}

/// The functions of the header, with their examples.
fn functions(header: &str) -> Vec<Documented> {
    let (mut found, mut example, mut in_example) = (vec![], String::new(), false);
    for line in header.lines() {
        if line.starts_with("/**") {
            example.clear();
        } else if line == " * Example:" {
            in_example = true;
        } else if let Some(code) = line.strip_prefix(" *     ").filter(|_| in_example) {
            writeln!(example, "    {code}").expect("a string takes all");
        } else {
            in_example = false;
            let declared = line.find("reflex_").filter(|_| !line.starts_with([' ', '#', '/', '*']));
            let declared = declared.and_then(|at| line[at..].split_once('('));
            if let Some((name, _)) = declared {
                found.push(Documented { name: name.to_owned(), example: example.clone() });
            }
        }
    }
    found
}

/// Around the examples: what they share, as the head of the header says.
const HEAD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reflex.h"

#define CHECK(condition) do { if (!(condition)) { \
    fprintf(stderr, "%s: not so: %s\n", __func__, #condition); exit(1); } } while (0)
#define CHECK_OK(call) do { if ((call) != REFLEX_STATUS_OK) { \
    fprintf(stderr, "%s: %s: %s\n", __func__, #call, reflex_error_message()); exit(1); } } while (0)

static const ReflexDType f32 = {2, 32, 1};
static const char *model;
static ReflexEngine *engine;
static ReflexProgram *program;
static ReflexSession *session;
static ReflexValue args[2];

static size_t read_file(const char *path, char **bytes) {
    FILE *file = fopen(path, "rb");
    CHECK(file && fseek(file, 0, SEEK_END) == 0);
    size_t size = (size_t)ftell(file);
    CHECK(size > 0 && (*bytes = malloc(size)) && fseek(file, 0, SEEK_SET) == 0);
    CHECK(fread(*bytes, 1, size, file) == size && fclose(file) == 0);
    return size;
}

static int add_one(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    (void)self;
    *result = reflex_int(count > 0 ? args[0].payload.v_int64 + 1 : 0);
    return 0;
}

static int32_t count_calls(void *data, const ReflexCall *call) {
    if (call->result == NULL) ++*(int *)data;
    return 0;
}
"#;

const MAIN: &str = r#"
int main(int argc, char **argv) {
    int64_t x[] = {2, 8}, w[] = {8, 5};
    CHECK(argc == 2);
    model = argv[1];
    CHECK_OK(reflex_engine_new(NULL, &engine));
    CHECK_OK(reflex_engine_load(engine, model, &program));
    CHECK_OK(reflex_session_new(program, REFLEX_MODE_TIERED, &session));
    CHECK_OK(reflex_tensor(f32, x, 2, NULL, &args[0]));
    CHECK_OK(reflex_tensor(f32, w, 2, NULL, &args[1]));
"#;

#[test]
fn the_examples_of_the_header_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(root.join("include/reflex.h")).expect("readable");
    let functions = functions(&header);
    assert!(functions.len() > 50, "{} functions", functions.len());
    let mut source = HEAD.to_owned();
    let mut main = MAIN.to_owned();
    for Documented { name, example } in &functions {
        assert!(!example.is_empty(), "{name} has no example");
        assert!(example.contains(&format!("{name}(")), "the example of {name} does not call it");
        writeln!(source, "\nstatic void example_{name}(void) {{\n{example}}}").expect("a string");
        writeln!(main, "    example_{name}();").expect("a string");
    }
    source += &main;
    source += "    puts(\"done\");\n    return 0;\n}\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("c-docs.c");
    std::fs::write(&file, source).expect("writes");
    let said = run_c(&file, &folder.join("c-docs"), &[&model("c-docs-mlp.so")]);
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn the_examples_of_the_python_module_run() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_docs.py");
    let Some(said) = run_python(&[&script, &model("python-docs-mlp.so")]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}

/// Needs `REFLEX_TVM_PYTHON`.
#[test]
fn kernels_of_tensor_expressions_are_those_of_tvm() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_te.py");
    let Some(said) = run_python(&[&script]) else { return };
    assert!(said.ends_with("kernels\ndone\n"), "{said}");
}

/// The model of the examples as a library.
fn model(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/relax/mlp.py");
    let loaded = Engine::builder().build().and_then(|engine| engine.load(&script));
    loaded.and_then(|program| program.save(&path)).expect("compiles");
    path
}
