//! Pipelines as values: whatever the passes, the answers are the same; passes from outside are verified,
//! and instruments see every pass.

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use programs::{run_c, run_python};
use reflex::{
    Any, Array, Dim, Engine, Feed, Function, Mode, Module, PassInstrument, Pipeline, RaisedError,
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn engine(pipeline: Pipeline) -> Engine {
    Engine::builder().pipeline(pipeline).build().expect("an engine")
}

/// The answers of `main`, on inputs that follow from its signature.
fn answers(engine: &Engine, model: &Path) -> Vec<Vec<f32>> {
    let program = engine.load(model).unwrap_or_else(|e| panic!("{e}"));
    let mut feed = Feed::new();
    for input in program.signature("main").expect("a signature").inputs {
        let size = |dim: &Dim| match dim {
            Dim::Const(size) => *size,
            Dim::Symbol(_) => 3,
        };
        let shape: Vec<i64> = input.shape.iter().map(size).collect();
        let count = shape.iter().product::<i64>();
        let data: Vec<f32> = (0..count).map(|i| (i * 7 % 11) as f32 / 8.0 - 0.5).collect();
        feed.insert(input.name, Array::of(&shape, &data).expect("an array"));
    }
    let prepared = program.prepare("main", &feed).expect("a feed");
    let outputs = program.session(Mode::Bytecode).expect("a session").call(&prepared);
    let arrays = outputs.expect("answers").arrays().expect("arrays");
    arrays.iter().map(|(_, array)| array.to_vec::<f32>().expect("f32")).collect()
}

#[test]
fn answers_do_not_depend_on_the_passes() {
    let pipelines = [
        "minimal",
        "default,-decompose_conv_transpose,-propagate_strides",
        "-fold_constants,-hoist_invariants",
        "-simplify,-eliminate_dead_code",
        "fuse_operators.max_operators=1,codegen.opt_level=0",
        "fuse_operators.max_operators=2",
        "fold_constants.max_bytes=0,simplify.max_bytes=0",
        "order=canonicalize_loops+simplify+fuse_operators",
    ];
    let mut wrong = vec![];
    for name in ["mlp", "attention", "norm", "mlp_legal", "legal"] {
        let model = root().join(format!("tests/filetests/relax/{name}.py"));
        let expected = answers(&engine(Pipeline::default()), &model);
        for text in pipelines {
            let found = answers(&engine(text.parse().expect(text)), &model);
            // Some inputs make roots of negative numbers.
            let close = |(a, b): (&f32, &f32)| {
                a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * a.abs().max(1.0)
            };
            let same = expected.len() == found.len()
                && expected
                    .iter()
                    .zip(&found)
                    .all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(close));
            if !same {
                wrong.push(format!("{name}, {text}: {found:?} is not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kernels_may_stay_unscheduled() {
    let model = root().join("examples/softmax.py");
    let text = "default,-schedule".parse::<Pipeline>().expect("a pipeline");
    let expected = answers(&engine(Pipeline::default()), &model);
    let found = answers(&engine(text.clone()), &model);
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6;
    assert!(expected[0].iter().zip(&found[0]).all(close), "{found:?} is not {expected:?}");
    let dump = engine(text.clone()).dump_after(&model, "schedule").expect("a dump");
    assert_eq!(dump, "", "no kernel goes through the pass");
    let gpu = Engine::builder().schedule_for("cuda:sm_80").pipeline(text).build().expect("engine");
    let error = gpu.load(&model).err().expect("refused").to_string();
    assert!(error.contains("the pass schedule is needed"), "{error}");
}

/// A pass that replaces text.
fn replacing(from: &'static str, to: &'static str) -> Function {
    Function::new(move |args| {
        let text = args[0].as_str().expect("the module as text");
        assert!(text.contains(from), "no {from:?} in {text}");
        Ok(Any::from(text.replace(from, to).as_str()))
    })
}

fn outside(function: Function) -> Engine {
    let pipeline = Pipeline::default().pass("after:simplify", "mine", function);
    engine(pipeline.expect("a place"))
}

#[test]
fn passes_from_outside_change_the_module_in_the_middle() {
    let model = root().join("examples/softmax.py");
    let soft = answers(&engine(Pipeline::default()), &model);
    let log = answers(&outside(replacing("R.nn.softmax", "R.nn.log_softmax")), &model);
    let close = |(a, b): (&f32, &f32)| (a.ln() - b).abs() < 1e-5;
    assert!(soft[0].iter().zip(&log[0]).all(close), "{log:?} is not the logarithm of {soft:?}");
    let shapes = Engine::builder()
        .pipeline(Pipeline::default().pass("after:simplify", "mine", replacing("R", "R")).unwrap())
        .shapes([("x", vec![1, 2])]);
    let error = shapes.build().unwrap().load(&model).err().expect("refused").to_string();
    assert!(error.contains("leave out one of the two"), "{error}");
}

#[test]
fn faults_of_passes_from_outside_are_reported_as_theirs() {
    let raising = Function::new(|_| Err(RaisedError::value_error("no such luck")));
    let number = Function::new(|_| Ok(Any::from(1_i64)));
    let cases: [(Function, &[&str]); 7] = [
        (raising, &["ValueError: no such luck"]),
        (number, &["it gives no text"]),
        (replacing("R.nn.softmax", "R.nn.sofmax"), &["R.nn.sofmax", "is not supported"]),
        (replacing("@I.ir_module", "@@"), &["not Python"]),
        (replacing("def main", "def other"), &["the function \"main\" is gone"]),
        (replacing("(x: R.Tensor((m, n)", "(x: R.Tensor((m, m)"), &["parameters of \"main\""]),
        (replacing("float32", "float64"), &["the parameters of \"main\" have changed"]),
    ];
    let model = root().join("examples/softmax.py");
    for (function, parts) in cases {
        let error = outside(function).load(&model).err().expect("refused").to_string();
        assert!(error.contains("softmax.py: ") && error.contains("pass mine: "), "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?} are not in {error:?}");
        assert!(!error.contains("compiler bug"), "{error}");
    }
}

/// Notes what it sees, and leaves one pass out.
#[derive(Default)]
struct Skipping {
    skip: &'static str,
    seen: Mutex<Vec<String>>,
}

impl PassInstrument for Skipping {
    fn before(&self, pass: &str, module: &Module) -> Result<bool, String> {
        assert!(!module.funcs.is_empty());
        self.seen.lock().unwrap().push(format!("before {pass}"));
        Ok(pass != self.skip)
    }

    fn after(&self, pass: &str, _: &Module, _: std::time::Duration) -> Result<(), String> {
        self.seen.lock().unwrap().push(format!("after {pass}"));
        if self.skip == "fail" { Err("enough".to_owned()) } else { Ok(()) }
    }
}

#[test]
fn instruments_see_every_pass_and_leave_out_what_may_be() {
    let model = root().join("examples/softmax.py");
    let load = |skip| {
        let watching = Arc::new(Skipping { skip, ..Skipping::default() });
        let pipeline: Pipeline =
            "order=simplify+canonicalize_loops+fuse_operators".parse().unwrap();
        let outcome = engine(pipeline.instrument(watching.clone())).load(&model);
        let seen = watching.seen.lock().unwrap().clone();
        (outcome.err().map(|e| e.to_string()).unwrap_or_default(), seen)
    };
    let (error, seen) = load("simplify");
    assert_eq!(error, "");
    let expected = [
        "before simplify",
        "before canonicalize_loops",
        "after canonicalize_loops",
        "before fuse_operators",
        "after fuse_operators",
    ];
    assert_eq!(seen, expected);
    let (error, _) = load("fuse_operators");
    assert!(error.contains("the pass fuse_operators is needed"), "{error}");
    let (error, seen) = load("fail");
    assert!(error.contains("instrument after simplify: enough"), "{error}");
    assert_eq!(seen.len(), 2, "nothing runs after a failure");
}

fn reflex(args: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    let output = command.args(args).current_dir(root()).output().expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_command_line_lists_passes_and_takes_pipelines() {
    let (listed, _) = reflex(&["passes"]);
    for line in ["* fuse_operators", "  simplify", ".max_operators (1 to 512, default 32)"] {
        assert!(listed.contains(line), "{line} is not in {listed}");
    }
    let (listed, _) = reflex(&["passes", "--pipeline", "minimal,codegen.opt_level=0"]);
    assert_eq!(listed, "canonicalize_loops\nfuse_operators\nlower\ncodegen opt_level=0\n");
    let after = ["inspect", "examples/softmax.py", "--after", "simplify", "--pipeline=-simplify"];
    let (_, error) = reflex(&after);
    assert!(error.contains("no pass \"simplify\"; there are"), "{error}");
    let unknown = ["run", "examples/softmax.py", "--pipeline=after:simplify=no.such.pass"];
    let (_, error) = reflex(&unknown);
    assert!(error.contains("--pipeline: no pass \"no.such.pass\": no function is reg"), "{error}");
}

/// A pass in C: it gives back what it gets, with another operator.
const C_PASS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include "reflex.h"
static char text[1 << 16];
static int pass(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    const char *data; size_t size; char *at;
    (void)self; (void)count;
    if (reflex_as_string(&args[0], &data, &size) != REFLEX_STATUS_OK || size >= sizeof text) return -1;
    memcpy(text, data, size);
    text[size] = 0;
    at = strstr(text, "R.nn.softmax(");
    if (at) memcpy(at, "R.exp       (", 13);
    at = strstr(text, ", axis=1");
    if (at) memset(at, ' ', 8);
    *result = reflex_string_view(text);
    return 0;
}
int main(int count, char **args) {
    ReflexEngine *engine, *mine; ReflexProgram *program; ReflexSession *session;
    float x[2] = {0, 0}; int64_t shape[2] = {1, 2};
    ReflexTensor tensor = {x, {1, 0}, 2, {2, 32, 1}, shape, NULL, 0};
    ReflexValue view = reflex_tensor_view(&tensor), y;
    if (count != 2) return 1;
    if (reflex_register_global_func("test.exp", pass, NULL, NULL)) return 2;
    if (reflex_engine_new(NULL, &engine)) return 3;
    if (reflex_engine_with_pipeline(engine, "after:simplify=test.exp", &mine)) return 4;
    if (reflex_engine_load(mine, args[1], &program)) { puts(reflex_error_message()); return 5; }
    if (reflex_session_new(program, REFLEX_MODE_BYTECODE, &session)) return 6;
    if (reflex_call(session, "main", &view, 1, &y)) return 7;
    printf("%g\n", ((float *)reflex_as_tensor(&y)->data)[1]);
    reflex_free(&y); reflex_session_free(session); reflex_program_free(program);
    reflex_engine_free(mine); reflex_engine_free(engine);
    return 0;
}
"#;

#[test]
fn a_pass_in_c_runs_in_the_pipeline() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("pass.c");
    std::fs::write(&source, format!("#include <stdio.h>\n{C_PASS}")).expect("writes");
    let model = root().join("examples/softmax.py");
    assert_eq!(run_c(&source, &folder.join("pass"), &[&model]), "1\n");
}

#[test]
fn passes_of_tvm_and_of_python_run_in_the_middle() {
    let Some(said) = run_python(&[&root().join("examples/passes.py")]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
    assert!(said.contains("2 exponentials before, 1 after"), "{said}");
}
