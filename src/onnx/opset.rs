//! Operator sets: names of domains and supported versions.

use std::ops::RangeInclusive;

/// Versions of the default domain that are supported.
pub(crate) const OPSETS: RangeInclusive<i64> = 1..=28;

/// `domain` with the default domain, which has two spellings, as `ai.onnx`.
pub(crate) fn canonical_domain(domain: &str) -> String {
    if domain.is_empty() { "ai.onnx".into() } else { domain.into() }
}
