//! Tells dependents' build scripts the symbols of the C ABI, which an executable may export.

const EXPORTED: &[&str] = &include!("exported_symbols.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exported_symbols.rs");
    println!("cargo::metadata=exported_symbols={}", EXPORTED.join(","));
}
