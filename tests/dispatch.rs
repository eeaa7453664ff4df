//! Patterns that become calls of libraries and of functions that external code generators make.

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use programs::run_c;
use reflex::pattern::{Pattern, is_call_packed, is_const, is_op, wildcard};
use reflex::{
    Any, Array, Dispatch, Engine, Feed, Function, Functions, Mode, ModelFormat, ModelSource,
    Pipeline, Program, RaisedError, RuntimeModule, Tensor, register_global_func,
};
use reflex_runtime::function::arg;

fn source(lines: &[&str]) -> ModelSource {
    let body: String = lines.iter().map(|line| format!("        {line}\n")).collect();
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((\"n\", 2), \"float32\"), \
         w: R.Tensor((2, 2), \"float32\")):\n{body}"
    );
    ModelSource::bytes(ModelFormat::Script, text.as_bytes())
}

fn engine(dispatches: impl IntoIterator<Item = Dispatch>) -> Engine {
    let pipeline = dispatches.into_iter().fold(Pipeline::default(), |pipeline, dispatch| {
        pipeline.dispatch(dispatch).expect("a new name")
    });
    Engine::builder().pipeline(pipeline).build().expect("an engine")
}

fn call(program: &Program, mode: Mode) -> Vec<Vec<f32>> {
    let x = Array::of(&[3, 2], &[1.0_f32, -2.0, 0.5, 4.0, -0.25, 3.0]).expect("an array");
    let w = Array::of(&[2, 2], &[1.0_f32, -1.0, 0.5, 2.0]).expect("an array");
    let feed = Feed::from([("x".to_owned(), x), ("w".to_owned(), w)]);
    let prepared = program.prepare("main", &feed).expect("a feed");
    let mut session = program.session(mode).expect("a session");
    let mut last = vec![];
    for _ in 0..3 {
        let outputs = session.call(&prepared).unwrap_or_else(|e| panic!("{e}"));
        let arrays = outputs.arrays().expect("arrays");
        last = arrays.iter().map(|(_, array)| array.to_vec::<f32>().expect("floats")).collect();
    }
    last
}

/// Calls of `test.dispatch.product`, which multiplies matrices and leaves out what is negative.
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn product(x: &Tensor, w: &Tensor) -> Result<Vec<f32>, RaisedError> {
    let (a, b) = (x.to_vec::<f32>()?, w.to_vec::<f32>()?);
    let row = |i: usize| (0..2).map(move |j| (i, j));
    let value = |(i, j): (usize, usize)| a[2 * i] * b[j] + a[2 * i + 1] * b[2 + j];
    Ok((0..a.len() / 2).flat_map(row).map(value).collect())
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let relu = Function::new(|args| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            let (x, w): (Tensor, Tensor) = (arg(args, 0)?, arg(args, 1)?);
            let data: Vec<f32> = product(&x, &w)?.into_iter().map(|v| v.max(0.0)).collect();
            Ok(Any::from(Tensor::from_slice(x.shape(), &data)?))
        });
        register_global_func("test.dispatch.product", relu).expect("a new name");
        let both = Function::new(|args| {
            let (x, w): (Tensor, Tensor) = (arg(args, 0)?, arg(args, 1)?);
            let plain = product(&x, &w)?;
            let positive: Vec<f32> = plain.iter().map(|v| v.max(0.0)).collect();
            let tensor = |data: &[f32]| {
                Ok::<_, RaisedError>(Any::from(Tensor::from_slice(x.shape(), data)?))
            };
            Ok(Any::from(reflex::Tuple::new([tensor(&plain)?, tensor(&positive)?])))
        });
        register_global_func("test.dispatch.both", both).expect("a new name");
    });
}

fn matmul() -> Pattern {
    is_op("relax.matmul").call([wildcard(), wildcard()])
}

fn matmul_relu() -> Pattern {
    is_op("relax.nn.relu").call([matmul()])
}

const NETWORK: [&str; 3] =
    ["a = R.nn.relu(R.matmul(R.exp(x), w))", "b = R.negative(a)", "return b"];

#[test]
fn what_matches_becomes_a_call_of_a_library() {
    register();
    let plain = call(&engine([]).load(source(&NETWORK)).expect("loads"), Mode::Bytecode);
    let library = || Dispatch::call_packed("library", matmul_relu(), "test.dispatch.product");
    let text = engine([library()]).dump_after(source(&NETWORK), "library").expect("a dump");
    assert!(text.contains("R.call_packed(\"test.dispatch.product\""), "{text}");
    assert!(!text.contains("R.matmul") && !text.contains("R.nn.relu"), "{text}");
    let program = engine([library()]).load(source(&NETWORK)).expect("loads");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("library.so");
    program.save(&path).expect("saves");
    let opened = Engine::new().and_then(|e| e.load(&path)).expect("opens");
    for program in [&program, &opened] {
        for mode in Mode::ALL {
            let before = CALLS.load(Ordering::Relaxed);
            assert_eq!(call(program, mode), plain, "{mode}");
            assert!(CALLS.load(Ordering::Relaxed) > before);
        }
    }
    // A check sees the region; one that says no leaves it.
    let part = matmul();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let checked = Dispatch::call_packed(
        "library",
        is_op("relax.nn.relu").call([part.clone()]),
        "test.dispatch.product",
    )
    .annotate("product", part)
    .check(move |region| {
        count.fetch_add(1, Ordering::Relaxed);
        let (name, part) = &region.annotations[0];
        assert_eq!((name.as_str(), part.is_const), ("product", false));
        assert_eq!(part.call.as_ref().map(|(op, _)| op.as_str()), Some("relax.matmul"));
        assert!(region.script().contains("R.matmul(") && !region.script().contains("R.exp("));
        Ok(false)
    });
    let text = engine([checked]).dump_after(source(&NETWORK), "library").expect("a dump");
    assert!(text.contains("R.matmul") && seen.load(Ordering::Relaxed) == 1, "{text}");
}

/// The module after a dispatch of a pattern to a packed function.
fn dispatched(pattern: Pattern, function: &str, lines: &[&str]) -> String {
    let engine = engine([Dispatch::call_packed("mine", pattern, function)]);
    engine.dump_after(source(lines), "mine").unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn values_that_others_read_are_further_results() {
    register();
    let lines =
        ["a = R.matmul(x, w)", "b = R.nn.relu(a)", "c = R.exp(a)", "return (R.add(b, c), a)"];
    let text = dispatched(matmul_relu(), "test.dispatch.both", &lines);
    assert!(!text.contains("R.matmul") && text.contains("R.exp"), "{text}");
    let plain = call(&engine([]).load(source(&lines)).expect("loads"), Mode::Bytecode);
    let both = engine([Dispatch::call_packed("mine", matmul_relu(), "test.dispatch.both")]);
    assert_eq!(call(&both.load(source(&lines)).expect("loads"), Mode::Compiled), plain);
    // What reads a part before the last one is computed moves behind the call.
    let lines = ["a = R.matmul(x, w)", "c = R.exp(a)", "b = R.nn.relu(a)", "return R.add(b, c)"];
    let plain = call(&engine([]).load(source(&lines)).expect("loads"), Mode::Bytecode);
    let program = both.load(source(&lines)).expect("loads");
    assert_eq!(call(&program, Mode::Tiered), plain);
}

#[test]
fn patterns_match_together_and_in_order() {
    register();
    static TWO: Once = Once::new();
    TWO.call_once(|| {
        let two = Function::new(|args| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            let (x, a, b): (Tensor, Tensor, Tensor) = (arg(args, 0)?, arg(args, 1)?, arg(args, 2)?);
            let tensor = |w: &Tensor| {
                Ok::<_, RaisedError>(Any::from(Tensor::from_slice(x.shape(), &product(&x, w)?)?))
            };
            Ok(Any::from(reflex::Tuple::new([tensor(&a)?, tensor(&b)?])))
        });
        register_global_func("test.dispatch.two", two).expect("a new name");
    });
    // Two products of one input are one call; the third one is of another, and is left.
    let lines = [
        "v = R.negative(w)",
        "a = R.matmul(x, w)",
        "b = R.matmul(x, v)",
        "c = R.matmul(a, w)",
        "return (b, c)",
    ];
    let x = wildcard();
    let of = |x: &Pattern| is_op("relax.matmul").call([x.clone(), wildcard()]);
    let pair = || Dispatch::call_packed("pair", of(&x), "test.dispatch.two").together_with(of(&x));
    let text = engine([pair()]).dump_after(source(&lines), "pair").expect("a dump");
    assert_eq!(text.matches("R.call_packed(\"test.dispatch.two\"").count(), 1, "{text}");
    assert_eq!(text.matches("R.matmul").count(), 1, "{text}");
    let plain = call(&engine([]).load(source(&lines)).expect("loads"), Mode::Bytecode);
    let program = engine([pair()]).load(source(&lines)).expect("loads");
    for mode in Mode::ALL {
        assert_eq!(call(&program, mode), plain, "{mode}");
    }
    // The earlier pattern takes first, wherever it matches.
    let lines =
        ["a = R.matmul(x, w)", "b = R.nn.relu(a)", "c = R.exp(b)", "d = R.exp(a)", "return (c, d)"];
    let count = |dispatch: Dispatch| {
        let text = engine([dispatch]).dump_after(source(&lines), "order").expect("a dump");
        ["call_packed", "R.matmul", "R.nn.relu", "R.exp"].map(|part| text.matches(part).count())
    };
    let relu = || is_op("relax.nn.relu").call([wildcard()]);
    let exp_relu = || is_op("relax.exp").call([relu()]);
    let exp = || is_op("relax.exp").call([wildcard()]);
    let first = |pattern| Dispatch::call_packed("order", pattern, "test.none");
    assert_eq!(count(first(exp_relu()).or_else(exp())), [2, 1, 0, 0]);
    assert_eq!(count(first(exp()).or_else(exp_relu())), [2, 1, 1, 0]);
    assert_eq!(count(first(relu()).or_else(exp_relu()).or_else(matmul())), [2, 0, 0, 2]);
}

#[test]
fn regions_make_no_circle_and_do_not_overlap() {
    // `b` needs a part of the region, and the region needs `b`.
    let circle = ["a = R.exp(x)", "b = R.tanh(a)", "c = R.add(a, b)", "return c"];
    let pattern = is_op("relax.add").call([is_op("relax.exp"), wildcard()]);
    let text = dispatched(pattern.clone(), "test.none", &circle);
    assert!(!text.contains("call_packed") && text.contains("R.exp"), "{text}");
    let fine = ["a = R.exp(x)", "b = R.tanh(x)", "c = R.add(a, b)", "return c"];
    assert!(dispatched(pattern, "test.none", &fine).contains("call_packed"));
    // Two regions that would need each other: one is taken.
    let crossed = [
        "a = R.exp(x)",
        "b = R.tanh(x)",
        "c = R.add(a, b)",
        "d = R.subtract(b, a)",
        "return (c, d)",
    ];
    let pattern = is_op("relax.add").call([is_op("relax.exp"), wildcard()])
        | is_op("relax.subtract").call([is_op("relax.tanh"), wildcard()]);
    let text = dispatched(pattern, "test.none", &crossed);
    assert_eq!(text.matches("call_packed").count(), 1, "{text}");
    // Of three in a row, the first two.
    let chain = ["a = R.exp(x)", "b = R.exp(a)", "c = R.exp(b)", "return c"];
    let pattern = is_op("relax.exp").call([is_op("relax.exp")]);
    let text = dispatched(pattern, "test.none", &chain);
    assert_eq!(
        (text.matches("call_packed").count(), text.matches("R.exp").count()),
        (1, 1),
        "{text}"
    );
}

#[test]
fn regions_are_found_in_branches_and_two_dispatches_have_an_order() {
    let text = "@I.ir_module\nclass Module:\n    @R.function\n    def main(c: R.Tensor((), \"bool\"), \
                x: R.Tensor((2,), \"float32\")):\n        if c:\n            y = R.exp(x)\n        else:\n            \
                y = R.tanh(x)\n        return y\n";
    let branches = ModelSource::bytes(ModelFormat::Script, text.as_bytes());
    let one = Dispatch::call_packed("one", is_op("relax.exp") | is_op("relax.tanh"), "test.one");
    let two = Dispatch::call_packed("two", is_op("relax.tanh"), "test.two");
    let text = engine([one, two]).dump_after(branches, "two").expect("a dump");
    assert_eq!(text.matches("test.one").count(), 2, "{text}");
    let packed = Dispatch::call_packed("one", is_op("relax.exp"), "test.one");
    let again = Dispatch::call_packed("two", is_call_packed("test.one"), "test.two");
    let lines = ["return R.exp(x)"];
    let text = engine([packed, again]).dump_after(source(&lines), "two").expect("a dump");
    assert!(text.contains("test.two") && !text.contains("test.one"), "{text}");
}

/// Multiplies by a number.
struct Scale {
    symbol: String,
    factor: f32,
    is_saved: bool,
}

impl Functions for Scale {
    fn kind(&self) -> &str {
        "test_scale"
    }

    fn function(&self, name: &str) -> Result<Option<Function>, RaisedError> {
        let factor = self.factor;
        let scale = move |args: &[reflex::AnyView<'_>]| {
            let x: Tensor = arg(args, 0)?;
            let data: Vec<f32> = x.to_vec::<f32>()?.iter().map(|v| v * factor).collect();
            Ok(Any::from(Tensor::from_slice(x.shape(), &data)?))
        };
        Ok((name == self.symbol).then(|| Function::new(scale)))
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        let bytes = || format!("{} {}", self.symbol, self.factor).into_bytes();
        self.is_saved.then(bytes)
    }
}

fn scaling(is_saved: bool) -> Dispatch {
    let pattern = is_op("relax.multiply").call([wildcard(), is_const()]);
    Dispatch::external("test.scale", pattern, move |region| {
        let text = region.script();
        let at = text.find("R.const(").ok_or("no constant")? + 8;
        let number = text[at..].split(',').next().unwrap_or_default();
        let factor = number.parse().map_err(|e| format!("{number}: {e}"))?;
        assert!(text.contains(&format!("def {}(", region.symbol)), "{text}");
        Ok(RuntimeModule::new(Scale { symbol: region.symbol.clone(), factor, is_saved }))
    })
}

#[test]
fn an_external_code_generator_makes_functions_that_an_artifact_keeps() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let load = Function::new(|args| {
            let bytes = args[0].as_bytes().expect("bytes");
            let text = std::str::from_utf8(bytes).expect("text");
            let (symbol, factor) = text.split_once(' ').expect("two words");
            let (symbol, factor) = (symbol.to_owned(), factor.parse().expect("a number"));
            Ok(RuntimeModule::new(Scale { symbol, factor, is_saved: true }).into())
        });
        register_global_func("ffi.Module.load_from_bytes.test_scale", load).expect("a new name");
    });
    let lines = [
        "a = R.multiply(x, R.const(3.0, \"float32\"))",
        "b = R.multiply(R.exp(a), R.const(0.5, \"float32\"))",
        "return b",
    ];
    let plain = call(&engine([]).load(source(&lines)).expect("loads"), Mode::Bytecode);
    let text = engine([scaling(true)]).dump_after(source(&lines), "test.scale").expect("a dump");
    for symbol in ["fused_test_scale_0", "fused_test_scale_1"] {
        assert!(text.contains(&format!("R.call_packed(\"{symbol}\"")), "{text}");
    }
    let program = engine([scaling(true)]).load(source(&lines)).expect("loads");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scale.so");
    program.save(&path).expect("saves");
    let opened = Engine::new().and_then(|e| e.load(&path)).expect("opens");
    for program in [&program, &opened] {
        for mode in Mode::ALL {
            assert_eq!(call(program, mode), plain, "{mode}");
        }
    }
    let unsaved = engine([scaling(false)]).load(source(&lines)).expect("loads");
    assert_eq!(call(&unsaved, Mode::Tiered), plain);
    let error = unsaved.save(&path).expect_err("an error").to_string();
    let parts = ["kind `test_scale`", "fused_test_scale_0", "cannot be saved"];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn faults_name_pattern_and_node() {
    let lines = ["a = R.multiply(x, R.const(3.0, \"float32\"))", "return a"];
    let pattern = || is_op("relax.multiply").call([wildcard(), is_const()]);
    let error = |dispatch: Dispatch| {
        engine([dispatch]).load(source(&lines)).err().expect("an error").to_string()
    };
    let raising = Dispatch::call_packed("mine", pattern(), "f").check(|_| Err("no luck".into()));
    let text = error(raising);
    assert!(text.contains("pattern mine at node `a`: its check: no luck"), "{text}");
    let text = error(Dispatch::external("mine", pattern(), |_| Err("no code".into())));
    assert!(text.contains("pattern mine at node `a`: its code generator: no code"), "{text}");
    let other = |_: &reflex::MatchedRegion| {
        Ok(RuntimeModule::new(Scale { symbol: "other".into(), factor: 1.0, is_saved: false }))
    };
    let text = error(Dispatch::external("mine", pattern(), other));
    assert!(text.contains("no function `fused_mine_0`"), "{text}");
    let text = error(Dispatch::call_packed("mine", pattern(), "test.not_registered"));
    assert!(text.contains("test.not_registered"), "{text}");
    let twice = Pipeline::default()
        .dispatch(Dispatch::call_packed("mine", pattern(), "f"))
        .and_then(|p| p.dispatch(Dispatch::call_packed("mine", pattern(), "f")));
    let text = twice.expect_err("an error").to_string();
    assert!(text.contains("there is a pass \"mine\" already"), "{text}");
}

const C: &str = r#"
#include "reflex.h"
#include <stdio.h>
#include <string.h>
/* y = x + 1 */
static int plus(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    const ReflexTensor *x = reflex_as_tensor(&args[0]);
    float data[2];
    int64_t shape[1] = {2};
    (void)self;
    if (count != 1 || !x) return -1;
    data[0] = ((float *)x->data)[0] + 1;
    data[1] = ((float *)x->data)[1] + 1;
    return reflex_tensor(x->dtype, shape, 1, data, result) == REFLEX_STATUS_OK ? 0 : -1;
}
static int infer(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    const char *text; size_t size;
    (void)self;
    if (count != 1 || reflex_as_string(&args[0], &text, &size) != REFLEX_STATUS_OK) return -1;
    if (!strstr(text, "\"op\":\"test_c.plus\"")) return -1;
    *result = reflex_string_view("[{\"shape\": [2], \"dtype\": \"float32\"}]");
    return 0;
}
static const char *MODEL =
    "@I.ir_module\nclass Module:\n    @R.function\n"
    "    def main(x: R.Tensor((2,), \"float32\")) -> R.Tensor((2,), \"float32\"):\n"
    "        return R.tanh(R.abs(R.test_c.plus(x)))\n";
int main(void) {
    ReflexEngine *engine, *mine; ReflexProgram *program; ReflexSession *session;
    float x[2] = {1, -4}; int64_t dims[1] = {2};
    ReflexTensor tensor = {x, {1, 0}, 1, {2, 32, 1}, dims, NULL, 0};
    ReflexValue view = reflex_tensor_view(&tensor), y;
    if (reflex_register_global_func("test_c.plus", plus, NULL, NULL)) return 1;
    if (reflex_register_global_func("test_c.infer", infer, NULL, NULL)) return 2;
    if (reflex_register_operator("{\"name\": \"test_c.plus\", \"infer\": \"test_c.infer\", \"packed\": \"test_c.plus\"}")) return 3;
    if (reflex_engine_new(NULL, &engine)) return 4;
    if (reflex_engine_with_dispatch(engine,
        "{\"name\": \"c\", \"packed\": \"test_c.plus\", \"pattern\": {\"nodes\": "
        "[{\"kind\": \"op\", \"name\": \"relax.tanh\", \"args\": null}], \"root\": 0}}", &mine)) return 5;
    if (reflex_engine_load_bytes(mine, REFLEX_FORMAT_SCRIPT, MODEL, strlen(MODEL), &program)) {
        puts(reflex_error_message());
        return 6;
    }
    if (reflex_session_new(program, REFLEX_MODE_TIERED, &session)) return 7;
    if (reflex_call(session, "main", &view, 1, &y)) { puts(reflex_error_message()); return 8; }
    printf("%g %g\n", ((float *)reflex_as_tensor(&y)->data)[0], ((float *)reflex_as_tensor(&y)->data)[1]);
    reflex_free(&y); reflex_session_free(session); reflex_program_free(program);
    reflex_engine_free(mine); reflex_engine_free(engine);
    return 0;
}
"#;

#[test]
fn an_operator_and_a_dispatch_in_c() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("outside.c");
    std::fs::write(&source, C).expect("writes");
    // |x + 1| and the other one more: abs(2), abs(-3), plus 1.
    assert_eq!(run_c(&source, &folder.join("outside"), &[]), "3 4\n");
}

/// With an empty kernel cache too: then threads still compile kernels when Python ends, and none of them may
/// be the one that drops what is Python's.
#[test]
fn an_operator_of_python_goes_from_onnx_to_a_traced_call() {
    let Some(python) = programs::skip::variable("REFLEX_TVM_PYTHON") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cache = tempfile::tempdir().expect("a folder");
    for cache in [None, Some(cache.path())] {
        let mut command = Command::new(&python);
        command.arg(root.join("examples/custom_operator.py"));
        command.env("PYTHONPATH", root.join("python"));
        command.env("REFLEX_LIBRARY", programs::libraries().join("libreflex.so"));
        cache.into_iter().for_each(|cache| _ = command.env("REFLEX_CACHE", cache));
        let said = programs::run(&mut command);
        let lines = [
            "kernels: fused_neg_example_Scaled_tanh",
            "traced: True",
            "library calls: 1",
            "functions of the toy: True",
            "done",
        ];
        assert_eq!(said.lines().collect::<Vec<_>>(), lines);
    }
}
