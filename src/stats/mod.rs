//! Statistics: percentiles of latencies, the ratio of two interleaved samples, histograms, and
//! the distance of a tensor from its reference.

mod comparison;
mod difference;
mod histogram;
mod latency;

pub use comparison::Comparison;
pub use difference::Difference;
pub use histogram::Histogram;
pub use latency::Latency;
pub use reflex_runtime::split_mix::split_mix;
