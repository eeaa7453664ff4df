//! The model that several benches share.

use std::path::PathBuf;

/// Where the magika model is, if it was fetched.
pub fn magika() -> Option<PathBuf> {
    let folder = std::env::var_os("REFLEX_MODELS").unwrap_or("target/reflex/models".into());
    let path = PathBuf::from(folder).join("magika.onnx");
    if !path.exists() {
        println!("skipped: {} is missing; ./x models magika fetches it", path.display());
        return None;
    }
    Some(path)
}
