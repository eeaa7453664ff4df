//! Graph passes: rewrites of operators before they become kernels.

mod canonicalize_loops;
mod dead_code;
mod decompose_conv_transpose;
pub(crate) mod edit;
mod fold_constants;
mod hoist_invariants;
mod inline_functions;
mod propagate_strides;
mod quantize_dynamically;
mod rounded_rows;
mod separate_max_pools;
mod simplify;
mod split_activations;
mod use_lookup_tables;
mod widen_depthwise;
mod widen_half_products;

pub use canonicalize_loops::canonicalize_loops;
pub use dead_code::eliminate_dead_code;
pub use decompose_conv_transpose::decompose_conv_transpose;
pub use fold_constants::{MAX_GROWN, fold_constants};
pub use hoist_invariants::hoist_invariants;
pub use inline_functions::inline_functions;
pub use propagate_strides::propagate_strides;
pub use quantize_dynamically::quantize_dynamically;
pub use separate_max_pools::separate_max_pools;
pub use simplify::simplify;
pub use split_activations::split_activations;
pub use use_lookup_tables::use_lookup_tables;
pub use widen_depthwise::widen_depthwise;
pub use widen_half_products::widen_half_products;
