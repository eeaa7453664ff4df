//! Schedule primitives: checked rewrites that change how a function runs, never what it computes.
//!
//! A [`Schedule`] holds a function in scheduled form. Blocks are named, loops are their variables;
//! both stay valid until a primitive that says it replaces them. A primitive documents what it
//! makes of what, refuses with a [`ScheduleError`] when it cannot show that every output keeps its
//! bits, and decides nothing: schedule rules choose. Floating-point reductions keep their order through
//! every primitive but [`Schedule::rfactor`], [`Schedule::tree_reduce`] and
//! [`Schedule::fuse_reduction_epilogue`], which write the new order into the loop IR.
//!
//! | primitive | known as |
//! |---|---|
//! | [`split`](Schedule::split), [`split_nparts`](Schedule::split_nparts), [`fuse`](Schedule::fuse), [`reorder`](Schedule::reorder), [`tile`](Schedule::tile), [`add_unit_loop`](Schedule::add_unit_loop) | TVM's; strip mining, loop coalescing, loop interchange, tiling |
//! | [`partition`](Schedule::partition) | index-set splitting (TVM: `loop_partition`) |
//! | [`specialize`](Schedule::specialize) | loop versioning (Halide: `specialize`) |
//! | [`separate_full_tiles`](Schedule::separate_full_tiles) | separation of full and partial tiles |
//! | [`fuse_adjacent`](Schedule::fuse_adjacent), [`merge`](Schedule::merge) | loop fusion (Exo: `fuse`; MLIR: sibling fusion); of whole nests (TVM) |
//! | [`distribute_loops`](Schedule::distribute_loops) | loop distribution, fission (Exo: `fission`) |
//! | [`collapse_axes`](Schedule::collapse_axes) | dimension collapsing (MLIR linalg), with flat indexing |
//! | [`unroll_and_jam`](Schedule::unroll_and_jam) | unroll and jam, register blocking |
//! | [`parallel`](Schedule::parallel), [`parallel_if`](Schedule::parallel_if), [`vectorize`](Schedule::vectorize), [`unroll`](Schedule::unroll), [`bind`](Schedule::bind), [`bind_grid`](Schedule::bind_grid) | TVM's loop kinds; OpenMP's `if` clause; Halide's `gpu_tile` |
//! | [`compute_at`](Schedule::compute_at), [`reverse_compute_at`](Schedule::reverse_compute_at), [`compute_inline`](Schedule::compute_inline), [`reverse_compute_inline`](Schedule::reverse_compute_inline) | TVM's producer and consumer fusion |
//! | [`store_at`](Schedule::store_at) | Halide's `store_at` |
//! | [`rolling_buffer`](Schedule::rolling_buffer), [`fuse_reduction_epilogue`](Schedule::fuse_reduction_epilogue) | TVM's; sliding window with a folded buffer (Halide), a bias as the start of a sum |
//! | [`reindex_read`](Schedule::reindex_read), [`reindex_write`](Schedule::reindex_write), [`reorder_block_iters`](Schedule::reorder_block_iters), [`decompose_padding`](Schedule::decompose_padding) | TVM's `reindex`, `reorder_block_iter_var`, `decompose_padding` |
//! | [`cache_read`](Schedule::cache_read), [`cache_write`](Schedule::cache_write), [`cache_read_at`](Schedule::cache_read_at), [`cache_write_at`](Schedule::cache_write_at) | TVM's; the last two as its `read_at` and `write_at` |
//! | [`rfactor`](Schedule::rfactor), [`tree_reduce`](Schedule::tree_reduce), [`decompose_reduction`](Schedule::decompose_reduction) | TVM's; one step of a tree reduction |
//! | [`blockize`](Schedule::blockize), [`tensorize`](Schedule::tensorize), [`tensorize_as`](Schedule::tensorize_as), [`transform_layout`](Schedule::transform_layout), [`pad_einsum`](Schedule::pad_einsum), [`storage_align`](Schedule::storage_align), [`set_scope`](Schedule::set_scope) | TVM's |
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
mod add_unit_loop;
mod annotate;
mod bind_grid;
mod blockize;
mod cache;
mod cache_index;
mod cache_read_at;
mod cache_write_at;
mod collapse_axes;
mod compute_at;
mod compute_inline;
mod decompose_padding;
mod decompose_reduction;
mod distribute_loops;
mod fuse;
mod fuse_adjacent;
mod fuse_reduction_epilogue;
mod injective;
mod loop_kind;
mod merge;
mod nest;
mod pad_einsum;
mod parallel_if;
mod partition;
mod perfect_nest;
mod regions;
mod reindex;
mod reorder;
mod reorder_block_iters;
mod reverse_compute_at;
mod rfactor;
mod rolling_buffer;
mod separate_full_tiles;
mod specialize;
mod split;
mod state;
mod storage_align;
mod store_at;
#[cfg(feature = "script")]
mod tensorize;
#[cfg(feature = "script")]
mod tensorize_as;
mod tile;
mod trace;
mod transform_block_layout;
mod transform_layout;
mod tree;
mod tree_reduce;
mod unroll_and_jam;

pub use self::pad_einsum::PaddedEinsum;
pub use self::regions::refresh_regions;
pub use self::reindex::Reindexed;
#[cfg(feature = "script")]
pub(crate) use self::state::fixed;
pub use self::state::{Schedule, ScheduleError};
pub use self::transform_layout::{IndexMap, Relayout, packer};
