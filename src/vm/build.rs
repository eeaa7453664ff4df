//! Lets this crate's test executables export the C ABI, as real executables must.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-tests=-rdynamic");
}
