//! Names of operator set domains.

/// `domain` with the default domain, which has two spellings, as `ai.onnx`.
pub(crate) fn canonical(domain: &str) -> String {
    if domain.is_empty() { "ai.onnx".into() } else { domain.into() }
}
