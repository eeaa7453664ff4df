//! Packed functions across the boundary: those of a shared library written in C, with functions
//! as arguments, and errors with kind, message and backtrace in both directions.

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use programs::{run_c, run_python};
use reflex::{
    Any, Engine, Function, Mode, Tensor, get_global_func, library_function, register_global_func,
};
use reflex_runtime::error::Error;
use reflex_runtime::value::AnyView;

/// Functions in tvm-ffi's convention, without any header.
const SOURCE: &str = r#"
typedef struct { int type; unsigned zero; union { long long i; double f; void* p; } v; } Any;

/* What the loader fills in. */
int (*__TVMFFIFunctionCall)(void* function, Any* args, int count, Any* result);
void (*__TVMFFIErrorSetRaisedFromCStr)(const char* kind, const char* message);

int __tvm_ffi_twice(void* self, const Any* args, int count, Any* result) {
  if (count != 1 || args[0].type != 1) {
    __TVMFFIErrorSetRaisedFromCStr("TypeError", "twice takes one integer");
    return -1;
  }
  result->type = 1;
  result->v.i = 2 * args[0].v.i;
  return 0;
}

/* apply(f, x): calls what it is given. */
int __tvm_ffi_apply(void* self, const Any* args, int count, Any* result) {
  if (count != 2) {
    __TVMFFIErrorSetRaisedFromCStr("TypeError", "apply takes a function and its argument");
    return -1;
  }
  return __TVMFFIFunctionCall(args[0].v.p, (Any*)args + 1, 1, result);
}
"#;

fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, library) = (folder.join("packed.c"), folder.join("packed.so"));
        std::fs::write(&source, SOURCE).expect("writes");
        let mut built = Command::new("cc");
        built.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        let output = built.output().expect("cc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        library
    })
}

fn own(name: &str) -> Function {
    library_function(library(), name).unwrap_or_else(|e| panic!("{e}"))
}

fn call(function: &Function, args: &[Any]) -> Result<i64, Error> {
    let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
    function.call(&views).map(|value| i64::try_from(value).expect("an integer"))
}

#[test]
fn functions_of_a_shared_library_are_called_and_given_functions() {
    let (twice, apply) = (own("twice"), own("apply"));
    assert_eq!(call(&twice, &[21_i64.into()]).unwrap(), 42);
    // A function of its own, and one of ours, which outlive the caller's handle.
    assert_eq!(call(&apply, &[twice.clone().into(), 4_i64.into()]).unwrap(), 8);
    let ours = Function::new(|args| {
        let x: i64 = reflex_runtime::function::arg(args, 0)?;
        Ok(Any::from(x + 1))
    });
    assert_eq!(call(&apply, &[ours.into(), 4_i64.into()]).unwrap(), 5);
}

#[test]
fn errors_cross_in_both_directions_with_kind_message_and_backtrace() {
    let (twice, apply) = (own("twice"), own("apply"));
    let error = call(&twice, &[]).unwrap_err();
    assert_eq!((&*error.kind(), &*error.message()), ("TypeError", "twice takes one integer"));
    // Ours through their code and back: nothing of it is lost.
    let ours = Function::new(|_| {
        Err(Error::with_context(
            "LookupError",
            "no such row",
            "  File \"table.rs\", row 7\n",
            None,
            None,
        ))
    });
    let error = call(&apply, &[ours.into(), 1_i64.into()]).unwrap_err();
    assert_eq!((&*error.kind(), &*error.message()), ("LookupError", "no such row"));
    assert!(error.backtrace().contains("table.rs"), "{}", error.backtrace());
}

#[test]
fn a_program_calls_them_in_every_mode() {
    register_global_func("tests.packed.twice", own("twice")).expect("a free name");
    register_global_func("tests.packed.apply", own("apply")).expect("a free name");
    assert!(get_global_func("tests.packed.twice").is_some());
    let text = "
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Any) -> R.Any:
        y: R.Any = R.call_packed(\"tests.packed.twice\", x, ty_args=(R.Any,))
        return y

    @R.function(pure=False)
    def through(f: R.Callable, x: R.Any) -> R.Any:
        y: R.Any = R.call_packed(\"tests.packed.apply\", f, x, ty_args=(R.Any,))
        return y
";
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("calls.py");
    std::fs::write(&path, text).expect("writes");
    let program = Engine::new().and_then(|e| e.load(&path)).unwrap_or_else(|e| panic!("{e}"));
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        for turn in 0..200_i64 {
            let y = session.call_values("main", &[turn.into()]).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(i64::try_from(y).unwrap(), 2 * turn, "{mode}");
        }
        let twice = get_global_func("tests.packed.twice").expect("registered");
        let y = session.call_values("through", &[twice.into(), 5_i64.into()]).unwrap();
        assert_eq!(i64::try_from(y).unwrap(), 10, "{mode}");
        let x: Any = Tensor::from_slice(&[1], &[1.0_f32]).unwrap().into();
        let error = session.call_values("main", &[x]).unwrap_err();
        assert_eq!(error.to_object().kind(), "TypeError", "{mode}: {error}");
        assert!(error.to_string().contains("twice takes one integer"), "{mode}: {error}");
        assert!(error.to_string().contains("main"), "{mode}: {error}");
    }
}

const C_CALLER: &str = r#"
#include <reflex.h>
#include <stdio.h>
#include <string.h>

static int plus_one(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
  (void)self;
  (void)count;
  *result = reflex_int(args[0].payload.v_int64 + 1);
  return 0;
}

int main(int argc, char **argv) {
  ReflexValue twice, apply, given[2], result;
  if (argc != 2 || reflex_library_function(argv[1], "twice", &twice)) return 1;
  if (reflex_library_function(argv[1], "apply", &apply)) return 2;
  given[0] = reflex_int(21);
  if (reflex_call_function(&twice, given, 1, &result) || result.payload.v_int64 != 42) return 3;
  if (reflex_register_global_func("tests.plus_one", plus_one, NULL, NULL)) return 4;
  if (reflex_get_global_func("tests.plus_one", &given[0])) return 5;
  given[1] = reflex_int(4);
  if (reflex_call_function(&apply, given, 2, &result) || result.payload.v_int64 != 5) return 6;
  if (reflex_call_function(&twice, given, 0, &result) != REFLEX_STATUS_RUN) return 7;
  printf("%s: %s\n", reflex_error_kind(), reflex_error_message());
  if (reflex_library_function(argv[1], "thrice", &result) == REFLEX_STATUS_OK) return 8;
  printf("%s\n", reflex_error_message());
  reflex_free(&given[0]);
  reflex_free(&twice);
  reflex_free(&apply);
  return 0;
}
"#;

#[test]
fn c_programs_load_register_and_call_them() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("caller.c"), folder.join("caller"));
    std::fs::write(&source, C_CALLER).expect("writes");
    let said = run_c(&source, &program, &[library()]);
    assert!(said.contains("TypeError: twice takes one integer"), "{said}");
    assert!(said.contains("`thrice`"), "{said}");
}

const PYTHON_CALLER: &str = r#"
import sys
import reflex

twice, apply = (reflex.library_function(sys.argv[1], name) for name in ("twice", "apply"))
assert twice(21) == 42
reflex.register_global_func("tests.plus_one", lambda x: x + 1)
assert apply(reflex.get_global_func("tests.plus_one"), 4) == 5
assert apply(lambda x: x * x, 7) == 49

def fails(x):
    raise ValueError("no such row")

for call, kind, text in ((lambda: twice("x"), TypeError, "twice takes one integer"),
                         (lambda: apply(fails, 1), ValueError, "no such row"),
                         (lambda: reflex.library_function(sys.argv[1], "thrice"), ValueError, "`thrice`")):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
print("done")
"#;

#[test]
fn python_programs_load_register_and_call_them() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("caller.py");
    std::fs::write(&source, PYTHON_CALLER).expect("writes");
    let Some(said) = run_python(&[&source, library()]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn what_is_not_there_is_an_error() {
    let missing = library_function(library(), "thrice").unwrap_err().to_string();
    assert!(missing.contains("packed.so") && missing.contains("`thrice`"), "{missing}");
    let missing = library_function(Path::new("/nonexistent.so"), "f").unwrap_err().to_string();
    assert!(missing.contains("/nonexistent.so"), "{missing}");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    assert!(library_function(&text, "f").is_err());
}

/// A module whose functions call what the test registers.
const CALLING: &str = "
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Any) -> R.Any:
        y: R.Any = R.call_packed(\"tests.session.back\", x, ty_args=(R.Any,))
        return y

    @R.function(pure=False)
    def plus(x: R.Any, y: R.Any) -> R.Any:
        z: R.Any = R.call_packed(\"tests.session.add\", x, y, ty_args=(R.Any,))
        return z

    @R.function(pure=False)
    def fails(x: R.Any) -> R.Any:
        y: R.Any = R.call_packed(\"tests.session.fails\", x, ty_args=(R.Any,))
        return y
";

/// That module as a library.
fn calling(folder: &Path) -> PathBuf {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    REGISTERED.call_once(|| {
        for name in ["add", "back", "fails"] {
            let none = Function::new(|_| Ok(Any::NONE));
            register_global_func(&format!("tests.session.{name}"), none).expect("a free name");
        }
    });
    let (text, library) = (folder.join("calling.py"), folder.join("calling.so"));
    std::fs::write(&text, CALLING).expect("writes");
    let program = Engine::new().and_then(|engine| engine.load(&text));
    program.and_then(|program| program.save(&library)).unwrap_or_else(|e| panic!("{e}"));
    library
}

const PYTHON_SESSION: &str = r#"
import sys
import threading
import traceback

import reflex

reflex.register_global_func("tests.session.add", lambda x, y: x + y)
session = None
seen = []


def back(x):
    """Calls the session that is running."""
    if x == 0:
        return session.call("plus", 40, 2)
    if x == 1:
        return session["main"](0) + session["saved"](7)
    if x == 2:
        return session.invoke_closure(lambda y: session["main"](y), 0)
    if x == 3:
        return session["fails"](x)
    if x == 4:
        # Another thread, and what would change the session, are refused.
        def other():
            try:
                session.call("plus", 1, 2)
            except ValueError as error:
                seen.append(str(error))
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        try:
            session.set_fuel(None)
        except ValueError as error:
            seen.append(str(error))
        return 4
    return session["main"](x - 1)


def fails(x):
    raise IndexError(f"no row {x}")


reflex.register_global_func("tests.session.back", back)
reflex.register_global_func("tests.session.fails", fails)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(kind)


program = reflex.load(sys.argv[1])
for mode in ("bytecode", "compiled", "tiered"):
    session = program.session(mode)
    session.save_function("plus", "saved", 3)
    assert session["saved"](4) == 7
    session.save_function("saved", "again", 30)
    assert session["again"]() == 33
    session.save_function("saved", "dropped", include_return=False)
    session.save_function("dropped", "dropped again", 1)
    assert session["dropped again"]() is None
    for _ in range(50):
        assert [session["main"](x) for x in (0, 1, 2)] == [42, 52, 42]
        assert session["main"](9) == 4
    assert seen and set(seen) == {"the session is in use"}, seen
    seen.clear()

    # The frames of what raised stay, and those of the program follow.
    error = raises(IndexError, lambda: session["fails"](5))
    frames = traceback.extract_tb(error.__traceback__)
    assert frames[-1].name == "fails" and frames[-1].filename == __file__, frames
    assert any("function `fails`" in frame.name for frame in frames), frames
    error = raises(IndexError, lambda: session["main"](3))
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames[-1] == "fails" and "back" in frames, frames
    assert session["plus"](1, 1) == 2

    # Stored arguments and results.
    assert session.param_names("plus") == ["x", "y"]
    raises(ValueError, lambda: session.get_outputs("plus"))
    session.set_input("plus", y=1, x=10)
    raises(ValueError, lambda: session.get_outputs("plus"))
    session.invoke_stateful("plus")
    assert session.get_outputs("plus") == 11
    assert len(session.time_evaluator("invoke_stateful", 2, 3)("plus")) == 3
    session.set_input("fails", 1)
    raises(IndexError, lambda: session.invoke_stateful("fails"))
    raises(ValueError, lambda: session.get_outputs("fails"))
    session.set_input("plus", 5, x=10)
    session.invoke_stateful("plus")
    assert session.get_outputs("plus") == 15
    assert "`plus` has no parameter 'z'" in str(raises(TypeError, lambda: session.set_input("plus", 1, z=2)))
    raises(TypeError, lambda: session.set_input("plus", x=2))
    session.save_function("plus", "named", x=1, y=2)
    assert session["named"]() == 3

    # Names that are no function's.
    raises(ValueError, lambda: session.set_input("nothing", 1))
    raises(ValueError, lambda: session.invoke_stateful("nothing"))
    raises(ValueError, lambda: session.get_outputs("nothing"))
    raises(ValueError, lambda: session.save_function("nothing", "saved nothing"))
    raises(AttributeError, lambda: session.call("nothing"))

    # Numbers of arguments.
    assert "`plus` expects 2 arguments (x, y), 1 given" in str(raises(RuntimeError, lambda: session["plus"](1)))

    # Instruments see the function.
    called = []
    def instrument(function, name, before, result, *args):
        if before and name == "tests.session.add":
            called.append(function(*args))
    session.set_instrument(instrument)
    assert session["plus"](2, 3) == 5 and called == [5]
    session.set_instrument(None)
print("done")
"#;

#[test]
fn python_sessions_are_called_back_and_keep_what_they_are_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("session.py");
    std::fs::write(&source, PYTHON_SESSION).expect("writes");
    let Some(said) = run_python(&[&source, &calling(folder.path())]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}

const C_SESSION: &str = r#"
#include <reflex.h>
#include <stdio.h>

static ReflexSession *session;

static int add(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
  (void)self;
  (void)count;
  *result = reflex_int(args[0].payload.v_int64 + args[1].payload.v_int64);
  return 0;
}

/* Calls the session that is running. */
static int back(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
  ReflexValue given[2];
  uint32_t index;
  (void)self;
  (void)count;
  given[0] = args[0];
  given[1] = reflex_int(1);
  if (reflex_set_fuel(session, 5) != REFLEX_STATUS_INPUT) return -1;
  if (reflex_function_index(session, "plus", &index)) return -1;
  if (reflex_call_index(session, index, given, 2, result)) return -1;
  given[0] = *result;
  return reflex_call(session, "plus", given, 2, result) ? -1 : 0;
}

int main(int argc, char **argv) {
  ReflexEngine *engine;
  ReflexProgram *program;
  ReflexValue x = reflex_int(40), y;
  if (argc != 2 || reflex_register_global_func("tests.session.add", add, NULL, NULL)) return 1;
  if (reflex_register_global_func("tests.session.back", back, NULL, NULL)) return 2;
  if (reflex_register_global_func("tests.session.fails", back, NULL, NULL)) return 3;
  if (reflex_engine_new(NULL, &engine) || reflex_engine_load(engine, argv[1], &program)) {
    printf("%s\n", reflex_error_message());
    return 4;
  }
  if (reflex_session_new(program, REFLEX_MODE_TIERED, &session)) return 5;
  for (int turn = 0; turn < 200; ++turn)
    if (reflex_call(session, "main", &x, 1, &y) || y.payload.v_int64 != 42) return 6;
  if (reflex_call(session, "main", &x, 0, &y) != REFLEX_STATUS_RUN) return 7;
  printf("%s: %s\n", reflex_error_kind(), reflex_error_message());
  reflex_session_free(session);
  reflex_program_free(program);
  reflex_engine_free(engine);
  return 0;
}
"#;

#[test]
fn c_sessions_are_called_back() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("session.c"), folder.join("session"));
    std::fs::write(&source, C_SESSION).expect("writes");
    let scripts = tempfile::tempdir().expect("a folder");
    let said = run_c(&source, &program, &[&calling(scripts.path())]);
    assert!(said.contains("InternalError: `main` expects 1 argument (x), 0 given"), "{said}");
}
