//! Libraries that a C compiler linked, in every form that a linker gives them: what they call is
//! bound, each load has its own variables, and they begin and end as they should.

use std::path::{Path, PathBuf};
use std::process::Command;

use reflex_runtime::error::Error;
use reflex_runtime::library::Library;

/// Packed functions without any header. What is called by name is not a slot of the loader.
const SOURCE: &str = r#"
#include <string.h>
typedef struct { int type; unsigned zero; union { long long i; void* p; } v; } Any;
#define PACKED(name) int __tvm_ffi_##name(void* self, const Any* args, int count, Any* result)
static int give(Any* result, long long value) { result->type = 1; result->v.i = value; return 0; }

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
extern int nobody_has_this(void) __attribute__((weak));

static long long calls, begun;
static const char* words[] = {"one", "three", "five"};
size_t (*measure)(const char*) = strlen;
static char zeros[100000];

__attribute__((constructor)) static void begin(int argc, char** argv, char** environment) {
  begun += argc == 0 && !argv[0] && environment;
}
__attribute__((destructor)) static void end(void) {
  TVMFFIErrorSetRaisedFromCStr("Unloaded", words[2]);
}
static int seven(void) { return 7; }
static int (*choose(void))(void) { return seven; }
int chosen(void) __attribute__((ifunc("choose")));

PACKED(calls) { return give(result, ++calls); }
PACKED(begun) { return give(result, begun); }
PACKED(length) { return give(result, measure(words[1])); }
PACKED(chosen) { return give(result, chosen()); }
PACKED(zeros) { return give(result, zeros[0] + zeros[99999]); }
PACKED(weak) { return give(result, nobody_has_this ? nobody_has_this() : -1); }
PACKED(fails) { TVMFFIErrorSetRaisedFromCStr("LookupError", words[0]); return -1; }
"#;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The library `name` of a source, linked with some flags.
fn link(compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let ending = if compiler == "cc" { "c" } else { "cc" };
    let (text, library) = (folder().join(format!("{name}.{ending}")), folder().join(name));
    std::fs::write(&text, source).unwrap();
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&text).args(flags);
    let output = command.output().unwrap_or_else(|e| panic!("{compiler}: {e}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

fn open(path: &Path) -> Result<Library, Error> {
    // SAFETY: the compiler has just made the library from the sources of this file.
    unsafe { Library::open(path) }
}

fn call(library: &Library, name: &str) -> Result<i64, Error> {
    let function = library.function(name).unwrap_or_else(|| panic!("no {name}"));
    function.call(&[]).map(|value| i64::try_from(value).unwrap())
}

#[test]
fn every_form_of_a_library_is_linked() {
    let forms: [(&str, &[&str]); 7] = [
        ("plain.so", &[]),
        ("now.so", &["-Wl,-z,now,-z,relro"]),
        ("lazy.so", &["-Wl,-z,lazy,-z,norelro"]),
        ("packed_relocations.so", &["-Wl,-z,pack-relative-relocs"]),
        ("gnu_hash.so", &["-Wl,--hash-style=gnu"]),
        ("sysv_hash.so", &["-Wl,--hash-style=sysv"]),
        ("code_with_data.so", &["-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=65536"]),
    ];
    for (name, flags) in forms {
        let library =
            open(&link("cc", name, SOURCE, flags)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = [("begun", 1), ("length", 5), ("chosen", 7), ("zeros", 0), ("weak", -1)];
        for (function, value) in expected {
            assert_eq!(call(&library, function).unwrap(), value, "{name}: {function}");
        }
        let error = call(&library, "fails").unwrap_err();
        assert_eq!((&*error.kind(), &*error.message()), ("LookupError", "one"), "{name}");
        drop(library);
        let last = Error::take_raised().unwrap_or_else(|| panic!("{name} did not end"));
        assert_eq!((&*last.kind(), &*last.message()), ("Unloaded", "five"), "{name}");
    }
}

#[test]
fn each_load_has_its_own_variables() {
    let path = link("cc", "variables.so", SOURCE, &[]);
    let (first, second) = (open(&path).unwrap(), open(&path).unwrap());
    assert_eq!([1, 2, 3].map(|_| call(&first, "calls").unwrap()), [1, 2, 3]);
    assert_eq!(call(&second, "calls").unwrap(), 1);
    drop(first);
    assert_eq!(Error::take_raised().unwrap().kind(), "Unloaded");
    assert_eq!(call(&second, "calls").unwrap(), 2);
    let function = second.function("calls").unwrap();
    drop(second);
    assert!(Error::take_raised().is_none(), "a function keeps its library");
    assert_eq!(i64::try_from(function.call(&[]).unwrap()).unwrap(), 3);
}

#[test]
fn what_nothing_defines_is_named_before_anything_runs() {
    let source = "
        extern int first_missing(void), second_missing(void);
        void TVMFFIErrorSetRaisedFromCStr(const char*, const char*);
        __attribute__((constructor)) static void begin(void) {
            TVMFFIErrorSetRaisedFromCStr(\"Began\", \"\");
        }
        int __tvm_ffi_f(void* s, void* a, int n, void* r) { return first_missing() + second_missing(); }";
    let path = link("cc", "missing.so", source, &["-Wl,-z,lazy"]);
    let message = open(&path).unwrap_err().message().into_owned();
    assert!(message.contains("first_missing, second_missing"), "{message}");
    assert!(Error::take_raised().is_none(), "its constructor ran");
}

#[test]
fn a_needed_library_is_found_beside_it() {
    let needed = "int eleven(void) { return 11; }";
    link("cc", "libreflex_test_needed.so", needed, &["-Wl,-soname,libreflex_test_needed.so"]);
    let source = "
        typedef struct { int type; unsigned zero; long long i; } Any;
        int eleven(void);
        int __tvm_ffi_f(void* s, const Any* a, int n, Any* r) { r->type = 1; r->i = eleven(); return 0; }";
    let beside = format!("-L{}", folder().display());
    let flags = [&beside, "-lreflex_test_needed", "-Wl,-rpath,$ORIGIN"];
    let path = link("cc", "needs.so", source, &flags);
    assert_eq!(call(&open(&path).unwrap(), "f").unwrap(), 11);
    let elsewhere = folder().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let copy = elsewhere.join("needs.so");
    std::fs::copy(path, &copy).unwrap();
    let message = open(&copy).unwrap_err().message().into_owned();
    assert!(
        message.contains("eleven") && message.contains("libreflex_test_needed.so"),
        "{message}"
    );
}

#[test]
fn exceptions_inside_a_library_are_caught_there() {
    let source = r#"
        #include <stdexcept>
        #include <string>
        typedef struct { int type; unsigned zero; long long i; } Any;
        __attribute__((noinline)) static int thrown(int n) {
          if (n > 0) throw std::runtime_error(std::string(n, 'x'));
          return n;
        }
        extern "C" int __tvm_ffi_f(void*, const Any*, int, Any* result) {
          result->type = 1;
          try { result->i = thrown(5); } catch (const std::exception& e) {
            result->i = std::string(e.what()).size();
          }
          return 0;
        }"#;
    let library = open(&link("c++", "exceptions.so", source, &[])).unwrap();
    for _ in 0..3 {
        assert_eq!(call(&library, "f").unwrap(), 5);
    }
    drop(library);
    assert!(std::panic::catch_unwind(|| panic!("the unwinder still works")).is_err());
}

#[test]
fn thread_local_variables_are_left_to_the_systems_loader() {
    let source = "
        typedef struct { int type; unsigned zero; long long i; } Any;
        void (*__TVMFFIErrorSetRaisedFromCStr)(const char*, const char*);
        static __thread long long mine = 40;
        int __tvm_ffi_f(void* s, const Any* a, int n, Any* r) {
            r->type = 1; r->i = ++mine + !__TVMFFIErrorSetRaisedFromCStr; return 0;
        }";
    let library = open(&link("cc", "thread_local.so", source, &[])).unwrap();
    assert_eq!([call(&library, "f").unwrap(), call(&library, "f").unwrap()], [41, 42]);
    let other = std::thread::scope(|scope| scope.spawn(|| call(&library, "f")).join().unwrap());
    assert_eq!(other.unwrap(), 41);
}

#[test]
fn damaged_headers_are_refused() {
    const HEADER: usize = 64;
    let bytes = std::fs::read(link("cc", "damaged.so", SOURCE, &[])).unwrap();
    let path = folder().join("damaged.copy.so");
    let mut opened = 0;
    let mut try_open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        opened += usize::from(open(&path).is_ok());
        drop(Error::take_raised());
    };
    for bit in 0..8 * HEADER {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        try_open(&damaged);
    }
    for length in [0, 1, HEADER - 1, HEADER, 200, 4096, bytes.len() / 2] {
        try_open(&bytes[..length]);
    }
    // Much of the header is for executables and for tools.
    assert!((1..8 * HEADER - 100).contains(&opened), "{opened}");
}
