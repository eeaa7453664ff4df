//! Lets this crate's test executables export the C ABI, as real executables must, and tells the
//! build scripts of crates that make executables which symbols those are.

const EXPORTED: &[&str] = &include!("exported_symbols.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exported_symbols.rs");
    println!("cargo::rustc-link-arg-tests=-rdynamic");
    println!("cargo::metadata=exported_symbols={}", EXPORTED.join(" "));
}
