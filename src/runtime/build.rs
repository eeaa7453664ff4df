//! Tells dependents' build scripts which symbols executables must export, and lets this crate's
//! test executables export the C ABI, as real executables must.

const EXPORTED: &[&str] = &include!("exported_symbols.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exported_symbols.rs");
    println!("cargo::metadata=exported_symbols={}", EXPORTED.join(","));
    println!("cargo::rustc-link-arg-tests=-rdynamic");
}
