//! Graph passes: rewrites of operators before they become kernels.

mod dead_code;
pub(crate) mod edit;
mod fold_constants;
mod hoist_invariants;
mod lower_loops;
mod pull_strides;
mod simplify;
mod transposed_conv;

pub use dead_code::eliminate_dead_code;
pub use fold_constants::fold_constants;
pub use hoist_invariants::hoist_invariants;
pub use lower_loops::lower_loops;
pub use pull_strides::pull_strides;
pub use simplify::simplify;
pub use transposed_conv::split_transposed_conv;
