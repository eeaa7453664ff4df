//! `include/reflex.h` is what cbindgen makes of the C interface. `REFLEX_BLESS=1` rewrites it.

use std::path::Path;

use cbindgen::{Config, EnumConfig, ExportConfig, ItemType, Language, RenameRule, Style};

/// The module of the interface, which brings its children, and the types it shares.
const SOURCES: [&str; 3] = ["src/runtime/abi.rs", "src/runtime/dtype.rs", "src/capi/mod.rs"];

const HEAD: &str = "\
/* The C interface of Reflex: engines, programs, sessions, values.
 *
 * Functions that can fail return a ReflexStatus; kind, message and backtrace of the last failure
 * of a thread are in reflex_error_kind() and its neighbours. ReflexValue has the layout of
 * tvm-ffi's TVMFFIAny, ReflexTensor that of DLPack's DLTensor: pointers to either may be cast.
 * Values that functions return are owned by the caller, who frees them with reflex_free().
 * Arguments are borrowed. Compact tensors are passed in place; strided ones are copied for the call.
 *
 * Threads: any thread may use an engine or a program at any time, also while others do. A session is
 * used by one thread at a time, and may be another one's for the next call; a second call meanwhile is
 * refused with REFLEX_STATUS_INPUT. reflex_cancel() and reflex_cancel_reset() may be called at any time
 * by any thread. Values may be copied and freed by any thread; nothing locks the data of tensors, so
 * one that is written belongs to its writer. Frees need that no other thread is in a call on the same
 * handle. Errors are each thread's own. Memory limits and registered functions are the process's.
 *
 * Versions: REFLEX_VERSION is that of this header, reflex_version() that of the library. A program runs
 * with later libraries of the same minor version, which the soname has.
 *
 * The examples share an `engine`, a `program` from the file `model`, a `session` of it, and `args`:
 * two tensors of shapes [2, 8] and [8, 5] that its function `main` takes. `f32` is the element type;
 * `read_file` allocates and fills memory.
 * CHECK(condition) and CHECK_OK(call) end the process where they fail. tests/interface_docs.rs runs them.
 *
 * Written by cbindgen from src/capi; tests/c_header.rs keeps it current. */
";

const OBJECT: &str = "\
/* A reference-counted object of tvm-ffi. */
typedef struct ReflexObject ReflexObject;";

fn version_macros() -> String {
    let parts = [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ];
    let define = |(name, value)| format!("#define REFLEX_VERSION_{name} {value}\n");
    let text = format!("#define REFLEX_VERSION \"{}\"\n", env!("CARGO_PKG_VERSION"));
    parts.map(define).concat() + &text
}

fn config() -> Config {
    let names = [
        ("TVMFFIAny", "ReflexValue"),
        ("AnyPayload", "ReflexPayload"),
        ("TVMFFIObject", "ReflexObject"),
        ("DLTensor", "ReflexTensor"),
        ("DLDevice", "ReflexDevice"),
        ("DType", "ReflexDType"),
        ("SafeCall", "ReflexFunction"),
    ];
    Config {
        language: Language::C,
        header: Some(HEAD.to_owned()),
        include_guard: Some("REFLEX_H".to_owned()),
        cpp_compat: true,
        style: Style::Both,
        usize_is_size_t: true,
        documentation: true,
        line_length: 96,
        enumeration: EnumConfig {
            prefix_with_name: true,
            rename_variants: RenameRule::ScreamingSnakeCase,
            ..EnumConfig::default()
        },
        after_includes: Some(format!("\n{}\n{OBJECT}", version_macros())),
        export: ExportConfig {
            include: [
                "ReflexFormat",
                "ReflexMode",
                "ReflexAllocator",
                "ReflexKind",
                "ReflexText",
                "ReflexStatus",
            ]
            .map(String::from)
            .to_vec(),
            exclude: ["TVMFFIObject", "DLPackVersion", "DLTensorLayout"].map(String::from).to_vec(),
            rename: names.map(|(from, to)| (from.to_owned(), to.to_owned())).into_iter().collect(),
            item_types: vec![
                ItemType::Enums,
                ItemType::Structs,
                ItemType::Unions,
                ItemType::Typedefs,
                ItemType::OpaqueItems,
                ItemType::Functions,
            ],
            ..ExportConfig::default()
        },
        ..Config::default()
    }
}

/// Leaves out constants of types and Rust's examples; C's examples become indented text.
fn for_c(header: &str) -> String {
    let header = header.replace("# Safety", "Requires:");
    let mut out: Vec<String> = Vec::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#define Reflex") {
            let comment = out.iter().rposition(|l| l.starts_with("/**")).expect("a comment");
            out.truncate(comment);
            continue;
        }
        if !line.starts_with(" * ```") {
            out.push(line.to_owned());
            continue;
        }
        let example = lines.by_ref().take_while(|line| *line != " * ```");
        if line == " * ```c" {
            out.push(" * Example:".to_owned());
            out.extend(example.map(|code| format!(" *     {}", &code[3..])));
        } else {
            example.for_each(drop);
            out.pop();
        }
    }
    out.join("\n") + "\n"
}

#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let builder = cbindgen::Builder::new().with_config(config());
    let builder = SOURCES.iter().fold(builder, |b, source| b.with_src(root.join(source)));
    let mut header = Vec::new();
    builder.generate().expect("the sources are C interfaces").write(&mut header);
    let header = for_c(&String::from_utf8(header).expect("UTF-8"));
    let path = root.join("include/reflex.h");
    if std::env::var_os("REFLEX_BLESS").is_some() {
        std::fs::write(&path, &header).expect("writes");
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(current, header, "include/reflex.h is not current (REFLEX_BLESS=1 rewrites it)");
}
