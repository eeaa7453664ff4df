//! Schedule primitives: checked rewrites that change how a function runs, never what it computes.
//!
//! A [`Schedule`] holds a function in scheduled form. Blocks are named, loops are their variables;
//! both stay valid until a primitive that says it replaces them. A primitive documents what it
//! makes of what, refuses with a [`ScheduleError`] when it cannot show that every output keeps its
//! bits, and decides nothing: policies choose. Floating-point reductions keep their order through
//! every primitive but [`Schedule::rfactor`] and [`Schedule::tree_reduce`], which write the new
//! order into the tir.
//!
//! ```
//! use reflex_tir::{DType, builder::FuncBuilder, schedule::Schedule};
//! let mut f = FuncBuilder::new("twice");
//! let n = f.symbol("n");
//! let x = f.input("x", DType::F32, vec![n.clone()]);
//! f.output("compute", "y", DType::F32, vec![n], |f, i| f.at(x, i) + f.at(x, i));
//! let mut s = Schedule::new(f.finish());
//! let [i] = s.get_loops("compute")?[..] else { unreachable!() };
//! let (outer, lanes) = s.split(i, 8)?;
//! s.parallel(outer)?;
//! s.vectorize(lanes)?;
//! # Ok::<(), reflex_tir::schedule::ScheduleError>(())
//! ```

mod access;
mod annotate;
mod blockize;
mod cache;
mod cache_read_at;
mod cache_write_at;
mod collapse_axes;
mod compute_at;
mod compute_inline;
mod decompose_reduction;
mod distribute_loops;
mod fuse;
mod fuse_adjacent;
mod injective;
mod loop_kind;
mod nest;
mod pad_einsum;
mod parallel_if;
mod partition;
mod perfect_nest;
mod regions;
mod reorder;
mod reverse_compute_at;
mod rfactor;
mod separate_full_tiles;
mod specialize;
mod split;
mod state;
mod storage_align;
mod store_at;
mod tensorize;
mod tile;
mod trace;
mod transform_layout;
mod tree;
mod tree_reduce;
mod unroll_and_jam;

pub use self::pad_einsum::PaddedEinsum;
pub use self::regions::refresh_regions;
pub use self::state::{Schedule, ScheduleError};
pub use self::transform_layout::{IndexMap, packer};
