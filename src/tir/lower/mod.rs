//! From scheduled form to lowered form: the passes that run before code generation.
//!
//! Each pass is a function from function to function, in its own file; [`PASSES`] is the order.
//! They decide nothing about speed (schedule rules and primitives do): loops keep their
//! kinds and floating-point operations keep their order. Unrolled loops stay loops; code
//! generators replicate them.
//!
//! ```
//! use reflex_tir::{DType, Stmt, builder::FuncBuilder, lower};
//! let mut f = FuncBuilder::new("twice");
//! let x = f.input("x", DType::F32, vec![4.into()]);
//! f.output("compute", "y", DType::F32, vec![4.into()], |f, i| f.at(x, i) + f.at(x, i));
//! let lowered = lower::lower(&f.finish());
//! lowered.body.visit(&mut |s| assert!(!matches!(s, Stmt::Block(_))));
//! ```

mod convert_ssa;
mod lower_blocks;
mod lower_boxes;
mod lower_math;
mod lower_mma;
mod narrow_indices;
mod partition_loops;
mod place_barriers;
mod plan_allocations;
mod rename;
mod serialise_threads;
mod simplify;
mod unify_thread_bindings;

pub use convert_ssa::convert_ssa;
pub use lower_blocks::lower_blocks;
pub use lower_boxes::lower_boxes;
pub use lower_math::{lower_bf16_dots, lower_math};
pub use lower_mma::lower_mma;
pub use narrow_indices::narrow_indices;
pub use partition_loops::partition_loops;
pub use place_barriers::place_barriers;
pub use plan_allocations::plan_allocations;
pub use serialise_threads::serialise_threads;
pub use simplify::simplify;
pub use unify_thread_bindings::unify_thread_bindings;

use crate::PrimFunc;

/// A pass by name.
pub type Pass = (&'static str, fn(&PrimFunc) -> PrimFunc);

/// The passes that [`lower`] runs, in order.
pub const PASSES: &[Pass] = &[
    ("convert_ssa", convert_ssa),
    ("plan_allocations", plan_allocations),
    ("lower_blocks", lower_blocks),
    ("simplify", simplify),
    ("partition_loops", partition_loops),
    ("lower_math", lower_math),
    ("simplify", simplify),
];

/// The passes that [`lower_gpu`] runs behind those, in order.
pub const GPU_PASSES: &[Pass] = &[
    ("place_barriers", place_barriers),
    ("unify_thread_bindings", unify_thread_bindings),
    ("simplify", simplify),
];

/// The passes before code generation for a GPU, behind those.
pub const DEVICE_PASSES: &[Pass] = &[("narrow_indices", narrow_indices)];

/// The passes that make a CPU run what is lowered for a GPU.
pub const SERIAL_PASSES: &[Pass] = &[
    ("lower_boxes", lower_boxes),
    ("lower_mma", lower_mma),
    ("serialise_threads", serialise_threads),
];

/// The lowered form of `func`, whose loops are bound to blocks and threads.
pub fn lower_gpu(func: &PrimFunc) -> PrimFunc {
    GPU_PASSES.iter().fold(lower(func), |func, (_, pass)| pass(&func))
}

/// The result of [`lower_gpu`] for a CPU that runs the threads of every launch one after the other.
pub fn serialise(func: &PrimFunc) -> PrimFunc {
    SERIAL_PASSES.iter().fold(func.clone(), |func, (_, pass)| pass(&func))
}

/// The lowered form of `func`. Lowering a lowered function changes nothing that matters.
pub fn lower(func: &PrimFunc) -> PrimFunc {
    let ((_, first), rest) = PASSES.split_first().expect("there are passes");
    rest.iter().fold(first(func), |func, (_, pass)| pass(&func))
}
