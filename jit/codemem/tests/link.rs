//! Objects made by a C compiler load into memory and link into libraries that `dlopen` accepts.

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;

use reflex_codemem::elf::{Blob, SharedLibrary};
use reflex_codemem::imports::Imports;
use reflex_codemem::pages::CodeSpace;
use reflex_codemem::relocate::LoadedObject;
use reflex_codemem::{CodeError, CodeErrorKind, Machine};

const KERNEL: &str = r#"
    #include <math.h>
    #include <string.h>
    int (*__TVMBackendParallelLaunch)(int) __attribute__((weak));
    extern int (*__TVMBackendFreeWorkspace)(int);
    static int counter = 40;
    static int twice(int x) { return 2 * x; }
    static int thrice(int x) { return 3 * x; }
    int (*const table[2])(int) = { twice, thrice };
    static int (*chosen)(int) = thrice;
    static double zeros[600];
    const char *greeting = "hello";
    int count(void) { return ++counter; }
    int pick(int which, int x) { return table[which](x) + chosen(x); }
    float tangent(float x) { return tanhf(x); }
    double first_zero(int at) { return zeros[at]; }
    void copy(char *to, const char *from, unsigned long n) { memcpy(to, from, n); }
    void *copier(void) { return (void *)memcpy; }
    int launch(int x) { return __TVMBackendParallelLaunch(x); }
    int release(int x) { return __TVMBackendFreeWorkspace(x); }
"#;

fn compile(source: &str, flags: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("kernel.c"), dir.path().join("kernel.o"));
    std::fs::write(&input, source).unwrap();
    let status = Command::new("cc")
        .args(["-c", "-O2", "-fno-math-errno", "-fcf-protection=none"])
        .args(flags)
        .arg("-o")
        .args([&output, &input])
        .status()
        .expect("these tests need a C compiler named cc");
    assert!(status.success());
    std::fs::read(output).unwrap()
}

extern "C" fn plus_one(x: i32) -> i32 {
    x + 1
}

extern "C" fn minus_one(x: i32) -> i32 {
    x - 1
}

fn imports() -> Imports {
    Imports::host()
        .slot("__TVMBackendParallelLaunch", plus_one as *const () as usize)
        .slot("__TVMBackendFreeWorkspace", minus_one as *const () as usize)
}

/// # Safety
/// `symbol` must yield functions and variables of the kernel above, alive during the call.
unsafe fn exercise(symbol: impl Fn(&str) -> NonNull<c_void>) {
    // SAFETY: the types are those of the C source.
    unsafe {
        let function =
            |name| std::mem::transmute::<NonNull<c_void>, extern "C" fn(i32) -> i32>(symbol(name));
        assert_eq!(function("count")(0), 41);
        assert_eq!(function("count")(0), 42);
        assert_eq!(function("launch")(7), 8);
        assert_eq!(function("release")(7), 6);
        let pick: extern "C" fn(i32, i32) -> i32 = std::mem::transmute(symbol("pick"));
        assert_eq!((pick(0, 10), pick(1, 10)), (50, 60));
        let tangent: extern "C" fn(f32) -> f32 = std::mem::transmute(symbol("tangent"));
        assert_eq!(tangent(0.5).to_bits(), 0.5f32.tanh().to_bits());
        let first_zero: extern "C" fn(i32) -> f64 = std::mem::transmute(symbol("first_zero"));
        assert_eq!(first_zero(599), 0.0);
        let copy: extern "C" fn(*mut u8, *const u8, usize) = std::mem::transmute(symbol("copy"));
        let mut to = [0u8; 5];
        copy(to.as_mut_ptr(), b"tiger".as_ptr(), 5);
        assert_eq!(&to, b"tiger");
        let copier: extern "C" fn() -> extern "C" fn(*mut u8, *const u8, usize) =
            std::mem::transmute(symbol("copier"));
        copier()(to.as_mut_ptr(), b"lions".as_ptr(), 5);
        assert_eq!(&to, b"lions");
        let greeting = symbol("greeting").cast::<*const i8>().read();
        assert_eq!(CStr::from_ptr(greeting.cast()), c"hello");
    }
}

fn load(bytes: &[u8], imports: &Imports) -> Result<LoadedObject, CodeError> {
    LoadedObject::load(&CodeSpace::reserve(1 << 24)?, "kernel", bytes, imports)
}

#[test]
fn an_object_runs_from_memory() {
    let space = CodeSpace::reserve(1 << 24).unwrap();
    let free = space.free_bytes();
    for flags in [&["-fPIC"][..], &["-fPIC", "-ffunction-sections", "-fdata-sections"]] {
        let loaded =
            LoadedObject::load(&space, "kernel", &compile(KERNEL, flags), &imports()).unwrap();
        // SAFETY: the symbols are those of `KERNEL`, and `loaded` outlives the calls.
        unsafe { exercise(|name| loaded.symbol(name).unwrap().cast()) };
        assert!(loaded.functions().any(|(name, _, size)| name == "pick" && size > 0));
    }
    assert_eq!(space.free_bytes(), free);
}

#[test]
fn objects_link_with_each_other() {
    let left = compile(
        "int shared; int right(int); int left(int x) { return right(x) + shared; }",
        &["-fPIC", "-fcommon"],
    );
    let right = compile(
        "int shared; int right(int x) { shared = 100; return x * 2; }",
        &["-fPIC", "-fcommon"],
    );
    let space = CodeSpace::shared().unwrap();
    let loaded =
        LoadedObject::link(&space, &[("l", &left), ("r", &right)], &Imports::host()).unwrap();
    // SAFETY: the type is that of the C source, and `loaded` is alive.
    let left: extern "C" fn(i32) -> i32 =
        unsafe { std::mem::transmute(loaded.symbol("left").unwrap()) };
    left(1);
    assert_eq!(left(4), 108);
}

#[test]
fn refusals_name_the_symbol() {
    let cases = [
        (
            "int system(const char *); int f(void) { return system(\"true\"); }",
            "system",
            CodeErrorKind::UnknownSymbol,
        ),
        ("__thread int t; int f(void) { return t; }", "thread-local", CodeErrorKind::Unsupported),
        (
            "__attribute__((constructor)) void c(void) {} int f(void) { return 1; }",
            ".init_array",
            CodeErrorKind::Unsupported,
        ),
        (
            "int (*__TVMFFIFunctionCall)(void) __attribute__((weak)); int f(void) { return __TVMFFIFunctionCall(); }",
            "__TVMFFIFunctionCall",
            CodeErrorKind::UnknownSymbol,
        ),
    ];
    for (source, name, kind) in cases {
        let error = load(&compile(source, &["-fPIC"]), &imports()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.kind(), kind, "{error}");
    }
    let strong = compile("int f(void) { return 1; }", &["-fPIC"]);
    let space = CodeSpace::shared().unwrap();
    let twice = LoadedObject::link(&space, &[("one", &strong), ("two", &strong)], &imports());
    assert_eq!(twice.unwrap_err().kind(), CodeErrorKind::DuplicateSymbol);
}

#[test]
fn absolute_code_does_not_fit_above_four_gigabytes() {
    let source = "static int values[4]; int *f(void) { return values; }";
    let object = compile(source, &["-fno-pic", "-mcmodel=small", "-no-pie"]);
    let error = load(&object, &imports()).unwrap_err();
    assert_eq!(error.kind(), CodeErrorKind::OutOfReach, "{error}");
    let error = SharedLibrary::new(Machine::HOST).object("kernel", &object).to_bytes().unwrap_err();
    assert_eq!(error.kind(), CodeErrorKind::Unsupported, "{error}");
}

/// Truncated and corrupted objects load or are refused; nothing panics.
#[test]
fn corrupt_objects_are_refused_or_load() {
    let object = compile(KERNEL, &["-fPIC"]);
    let space: Arc<CodeSpace> = CodeSpace::reserve(1 << 31 >> 1).unwrap();
    let imports = imports();
    for length in (0..object.len()).step_by(41) {
        let _ = LoadedObject::load(&space, "cut", &object[..length], &imports);
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut refused = 0;
    for _ in 0..4000 {
        let mut bytes = object.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = [0, 1, 0x7f, 0xff, (state >> 20) as u8][(state >> 60) as usize % 5];
        }
        refused += usize::from(LoadedObject::load(&space, "bad", &bytes, &imports).is_err());
        let _ = SharedLibrary::new(Machine::HOST).object("bad", &bytes).to_bytes();
    }
    assert!(refused > 100, "only {refused} corrupted objects were noticed");
}

struct Opened(*mut c_void);

impl Opened {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: opening runs nothing but the test's own initialiser, if there is one.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: after a failure `dlerror` returns a C string.
            panic!("{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
        }
        Self(handle)
    }

    fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        let name = CString::new(name).unwrap();
        // SAFETY: `dlopen` returned the handle, and nothing has closed it.
        NonNull::new(unsafe { libc::dlsym(self.0, name.as_ptr()) })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nothing of the library is used afterwards.
        unsafe { libc::dlclose(self.0) };
    }
}

fn written(library: &SharedLibrary<'_>) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.so");
    let bytes = library.to_bytes().unwrap();
    assert_eq!(bytes, library.to_bytes().unwrap(), "the same inputs gave other bytes");
    std::fs::write(&path, &bytes).unwrap();
    (dir, path, bytes)
}

#[test]
#[cfg(target_arch = "x86_64")]
fn an_initialiser_runs_when_the_library_opens() {
    // prctl(PR_SET_TIMERSLACK, 0x12345): of this thread.
    let code = [0xb8, 157, 0, 0, 0, 0xbf, 29, 0, 0, 0, 0xbe, 0x45, 0x23, 1, 0, 0x0f, 5, 0xc3];
    let kernel = compile("int one(void) { return 1; }", &["-fPIC"]);
    let without = SharedLibrary::new(Machine::HOST).object("kernel", &kernel);
    let with = without.clone().initialiser(&code);
    // SAFETY: the call takes numbers, and returns one.
    let slack = || unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    let before = slack();
    for (library, expected) in [(without, before), (with, 0x12345)] {
        let (_dir, path, _) = written(&library);
        let opened = Opened::open(&path);
        assert!(opened.symbol("one").is_some());
        assert_eq!(slack(), expected);
    }
}

#[test]
fn a_written_library_opens_and_runs() {
    let kernel = compile(KERNEL, &["-fPIC"]);
    let other = compile(
        "float tangent(float); float doubled(float x) { return 2 * tangent(x); }",
        &["-fPIC"],
    );
    let program = vec![0x5au8; 100_000];
    let library = SharedLibrary::new(Machine::HOST)
        .object("kernel", &kernel)
        .object("other", &other)
        .blob(Blob {
            section: ".rodata",
            symbol: Some("__tvm_ffi__library_bin"),
            align: 4096,
            bytes: &program,
        })
        .blob(Blob {
            section: ".reflex",
            symbol: Some("__reflex_native"),
            align: 64,
            bytes: b"native",
        })
        .slot("__tvm_ffi__library_ctx")
        .unmapped_section(".note.reflex", b"made by a test")
        .soname("model.so");
    let (_dir, path, bytes) = written(&library);
    let opened = Opened::open(&path);
    for (slot, value) in [
        ("__TVMBackendParallelLaunch", plus_one as *const ()),
        ("__TVMBackendFreeWorkspace", minus_one as *const ()),
    ] {
        let slot = opened.symbol(slot).unwrap().cast::<*const ()>();
        // SAFETY: the symbol is a pointer variable in writable memory.
        unsafe { slot.write(value) };
    }
    // SAFETY: the library stays open during the calls.
    unsafe { exercise(|name| opened.symbol(name).unwrap()) };
    // SAFETY: the type is that of the C source.
    let doubled: extern "C" fn(f32) -> f32 =
        unsafe { std::mem::transmute(opened.symbol("doubled").unwrap()) };
    assert_eq!(doubled(0.5), 2.0 * 0.5f32.tanh());
    let blob = opened.symbol("__tvm_ffi__library_bin").unwrap();
    assert_eq!(blob.as_ptr() as usize % 4096, 0);
    // SAFETY: the symbol starts a blob of this size.
    let mapped = unsafe { std::slice::from_raw_parts(blob.as_ptr().cast::<u8>(), program.len()) };
    assert_eq!(mapped, program);
    assert!(opened.symbol("__tvm_ffi__library_ctx").is_some());
    assert!(opened.symbol("twice").is_none() && opened.symbol("counter").is_none());
    check_with_tools(&path, &bytes);
}

/// The file is also well formed to a parser that knows nothing of how it was made.
fn check_with_tools(path: &Path, bytes: &[u8]) {
    use object::{Object, ObjectSection, ObjectSymbol};
    let aligned: Vec<u8> = bytes.to_vec();
    let file = object::File::parse(&*aligned).unwrap();
    assert_eq!(file.kind(), object::ObjectKind::Dynamic);
    let section = file.section_by_name(".note.reflex").unwrap();
    assert_eq!(section.data().unwrap(), b"made by a test");
    let mut undefined: Vec<_> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined())
        .map(|symbol| symbol.name().unwrap().to_owned())
        .collect();
    undefined.sort();
    assert_eq!(undefined, ["memcpy", "tanhf"]);
    for section in file.sections() {
        assert!(section.data().is_ok(), "{:?}", section.name());
    }
    if let Ok(output) = Command::new("readelf").args(["-aW"]).arg(path).output() {
        let text = String::from_utf8_lossy(&output.stdout);
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{warnings}");
        assert!(text.contains("libm.so.6") && text.contains("libc.so.6"), "{text}");
    }
}

#[test]
fn a_library_without_code_opens() {
    let library = SharedLibrary::new(Machine::HOST).blob(Blob {
        section: ".rodata",
        symbol: Some("only"),
        align: 1,
        bytes: b"data",
    });
    let (_dir, path, _) = written(&library);
    assert!(Opened::open(&path).symbol("only").is_some());
    let twice = library.clone().blob(Blob {
        section: ".rodata",
        symbol: Some("only"),
        align: 1,
        bytes: b"",
    });
    assert_eq!(twice.to_bytes().unwrap_err().kind(), CodeErrorKind::DuplicateSymbol);
    let slot = SharedLibrary::new(Machine::HOST).slot("__unheard_of").to_bytes().unwrap_err();
    assert_eq!(slot.kind(), CodeErrorKind::UnknownSymbol);
}

#[test]
fn functions_of_the_object_alone_are_listed_but_not_found() {
    let space = CodeSpace::shared().unwrap();
    let elf = compile(KERNEL, &[]);
    let loaded = LoadedObject::load(&space, "kernel", &elf, &imports()).unwrap();
    let names: Vec<&str> = loaded.functions().map(|(name, ..)| name).collect();
    assert!(names.contains(&"pick") && names.contains(&"twice"), "{names:?}");
    assert!(loaded.symbol("twice").is_none() && loaded.symbol("pick").is_some());
}
