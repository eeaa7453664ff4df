//! Exports the C ABI from our executables, so that libraries they open find it, and nothing
//! else: exporting every symbol would make all of them relocatable at start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let exported = std::env::var("DEP_REFLEX_RUNTIME_EXPORTED_SYMBOLS")
        .expect("the build script of reflex-runtime names them");
    for kind in ["bins", "tests", "benches", "examples"] {
        for name in exported.split_whitespace() {
            println!("cargo::rustc-link-arg-{kind}=-Wl,--export-dynamic-symbol={name}");
        }
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libreflex.so");
}
