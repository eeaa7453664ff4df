//! The primitives that a trace may call: names, parameters, and what each does to a schedule.

use std::collections::HashMap;

use super::arguments::{Args, Value, refused};
use super::sampling::{
    sample_categorical, sample_compute_location, sample_partitioned_tile, sample_perfect_tile, seed,
};
use crate::arith::Analyzer;
use crate::schedule::{Reindexed, Schedule, ScheduleError};
use crate::script::{parse_condition, parse_index, text_attribute};
use crate::{Block, Buffer, Expr, Scope, Stmt, Var, tensor_intrin};

/// A primitive.
pub struct Primitive {
    /// Its name.
    pub name: &'static str,
    /// Another name that it is read by.
    pub also: &'static str,
    /// Its parameters in order: `?` after those that may be left out, `*` before one that takes the
    /// rest.
    pub params: &'static [&'static str],
    /// True if it gives a list, whatever its length.
    pub many: bool,
    /// Its effect, in a few words.
    pub about: &'static str,
    pub(super) run: fn(&mut Schedule, &Args) -> Result<Vec<Value>, String>,
}

macro_rules! primitives {
    ($($name:ident $(| $also:ident)? ($($param:literal),*) $(-> $many:ident)?: $about:literal;)*) => {
        /// All primitives: what is looked up first, then what changes the function.
        pub const PRIMITIVES: &[Primitive] = &[$(Primitive {
            name: stringify!($name),
            also: concat!("", $(stringify!($also))?),
            params: &[$($param),*],
            many: $(stringify!($many).len() > 0 ||)? false,
            about: $about,
            run: $name,
        }),*];
    };
}

primitives! {
    get_block | get_sblock("name", "func_name?"): "the block of a name";
    get_loops("block") -> many: "the loops around a block, outermost first";
    get_child_blocks("block_or_loop") -> many: "the blocks below a loop or in a block";
    get_producers("block") -> many: "the blocks that write what a block reads";
    get_consumers("block") -> many: "the blocks that read what a block writes";
    get_output_blocks("scope_block?") -> many: "the blocks that write results";
    sample_perfect_tile("loop", "n", "max_innermost_factor?", "decision?") -> many:
        "factors of an extent: the recorded decision, or drawn";
    sample_partitioned_tile("loop", "n", "partition_pos?", "innerpart_factor?", "decision?") -> many:
        "factors of an extent in two parts, of which the second is a multiple: the recorded decision, or drawn";
    sample_categorical("candidates", "probs?", "decision?"): "a candidate: the recorded decision, or drawn";
    sample_compute_location("block", "decision?"):
        "a loop for `compute_at`, where a block is, or into its readers: the recorded decision, or drawn";
    seed("seed"): "starts the generator that decisions are drawn from";
    split("loop", "factors", "preserve_unit_iters?", "disable_predication?"):
        "strip mining: a loop becomes loops of these extents, one of which may be None";
    fuse("*loops", "preserve_unit_iters?"): "loop coalescing: loops around each other become one";
    reorder("*ordered_loops"): "loop interchange";
    tile("loops", "sizes"): "every loop split by its size; the loops over tiles, then those in one";
    loop_partition("loop", "factors", "preserve_unit_iters?"):
        "index-set splitting: one loop after the other, of these extents, the last of which may be None";
    specialize("loop", "condition"): "loop versioning: one loop where a condition on extents holds, one where not";
    fuse_adjacent("first", "second"): "loop fusion: two loops one after the other become one";
    merge("*loops"): "loop fusion of nests one after the other, down to these loops";
    distribute_loops("loop"): "loop distribution: a loop for each statement in it";
    collapse_axes("outer", "inner"): "dimension collapsing: two loops of contiguous elements become one";
    unroll_and_jam("block", "loop"): "the copies of an outer loop's body in one inner loop";
    add_unit_loop("block_or_loop"): "a loop of one iteration around a loop or block";
    parallel("loop"): "iterations are divided among threads";
    parallel_if("loop", "condition"): "iterations are divided among threads where a condition holds";
    vectorize("loop"): "iterations are lanes of a vector";
    unroll("loop"): "iterations are written out";
    bind("loop", "thread_axis"): "iterations are blocks or threads of a GPU";
    bind_grid("loop", "threads"): "a loop over all threads of a grid, in blocks of so many";
    compute_at("block", "loop", "preserve_unit_loops?", "index?"): "a producer goes into its reader's loop";
    reverse_compute_at("block", "loop", "preserve_unit_loops?", "index?"):
        "a reader goes into its producer's loop";
    compute_inline("block"): "an elementwise producer goes into its readers";
    reverse_compute_inline("block"): "an elementwise reader goes into its producer";
    store_at("block", "loop", "storage_scope"): "an intermediate is allocated in a loop";
    rolling_buffer("block", "write_buffer_index"):
        "an intermediate holds one window of a loop, and iterations compute what is new in theirs";
    fuse_reduction_epilogue("reduction_block", "epilogue_block"):
        "a sum starts from what is added to it: floats are rounded otherwise";
    cache_read("block", "read_buffer_index", "storage_scope", "consumer_blocks?"):
        "a block reads a copy of a buffer";
    cache_write("block", "write_buffer_index", "storage_scope", "consumer_blocks?"):
        "a block writes a buffer that is copied to its result";
    cache_index("block", "storage_scope", "cse_thresh?") -> many:
        "computed indices of a block's loads become blocks of their own";
    cache_inplace("block", "read_buffer_index", "storage_scope") -> many:
        "a block updates a copy of a buffer, which is copied back";
    read_at("loop", "block", "read_buffer_index", "storage_scope"):
        "what a nest reads of a buffer is copied first, in a loop";
    write_at("loop", "block", "write_buffer_index", "storage_scope"):
        "what a nest writes is kept in a buffer and stored after it, in a loop";
    decompose_reduction("block", "loop"): "the initialisation of a reduction becomes a block before a loop";
    decompose_padding("block", "loop"): "the constant of a padding becomes a block before a loop";
    rfactor("loop", "factor_axis?"): "a reduction's loop becomes a dimension of partial results";
    tree_reduce("block", "loop"): "one step of a tree reduction; where there is one, the next";
    separate_full_tiles("block", "loop"): "full and partial tiles apart";
    blockize("target", "preserve_unit_iters?"): "a nest becomes a block";
    tensorize("block_or_loop", "tensor_intrin", "preserve_unit_iters?"):
        "a nest becomes a machine instruction on matrices, or an implementation from outside";
    transform_layout("block", "buffer", "index_map", "pad_value?", "assume_injective_transform?"):
        "the elements of an intermediate lie elsewhere";
    reindex("block", "buffer"): "a block reads or writes a copy that is laid out as it iterates";
    reindex_cache_read("block", "read_buffer_index", "storage_scope", "index_map"):
        "a block reads a copy that is laid out by a map of its iterators";
    reindex_cache_write("block", "write_buffer_index", "storage_scope", "index_map"):
        "a block writes a copy that is laid out by a map of its iterators";
    reorder_block_iter_var("block", "new_order"): "the iterators of a block in another order";
    transform_block_layout("block", "index_map"): "a block iterates over the image of its iterators";
    pad_einsum("block", "padding"): "a contraction runs over multiples of these extents";
    storage_align("block", "buffer_index", "axis", "factor", "offset"): "the rows of an intermediate get longer";
    set_scope("block", "buffer_index", "storage_scope"): "an intermediate moves to another memory";
    annotate("block_or_loop", "ann_key", "ann_val"): "an annotation of a loop or block";
    unannotate("block_or_loop", "ann_key"): "an annotation is taken away";
    enter_postproc(): "nothing: a mark in TVM's traces";
}

/// Primitives of TVM that are not taken, and why.
pub(super) const ABSENT: &[(&str, &str)] = &[
    ("annotate_buffer_access", BELIEVED),
    ("unsafe_hide_buffer_access", BELIEVED),
    ("unsafe_set_dtype", BELIEVED),
];
const BELIEVED: &str = "it would be believed, and a schedule is checked";

type Outcome = Result<Vec<Value>, String>;

fn get_block(s: &mut Schedule, args: &Args) -> Outcome {
    let name = args.text("name")?;
    match s.get_block(name) {
        Ok(block) => Ok(vec![Value::Block(block.name.clone())]),
        Err(_) => Err(format!("no block {name:?}; there are {}", s.blocks().join(", "))),
    }
}

fn get_loops(s: &mut Schedule, args: &Args) -> Outcome {
    let loops = s.get_loops(args.block("block")?).map_err(refused)?;
    Ok(loops.into_iter().map(Value::Loop).collect())
}

fn blocks_in(stmt: &Stmt) -> Vec<&Block> {
    let mut blocks = vec![];
    stmt.visit(&mut |s| {
        if let Stmt::Block(block) = s {
            blocks.push(&**block);
        }
    });
    blocks
}

fn named<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<Value> {
    blocks.into_iter().map(|block| Value::Block(block.name.clone())).collect()
}

fn get_child_blocks(s: &mut Schedule, args: &Args) -> Outcome {
    Ok(match args.get("block_or_loop")? {
        Value::Loop(at) => named(blocks_in(&s.get_loop(*at).map_err(refused)?.body)),
        _ => named(blocks_in(&s.get_block(args.block("block_or_loop")?).map_err(refused)?.body)),
    })
}

fn get_producers(s: &mut Schedule, args: &Args) -> Outcome {
    let block = s.get_block(args.block("block")?).map_err(refused)?;
    let feeds = |b: &&Block| {
        b.name != block.name
            && b.writes.iter().any(|w| block.reads.iter().any(|r| r.buffer == w.buffer))
    };
    Ok(named(blocks_in(&s.func().body).into_iter().filter(feeds)))
}

fn get_consumers(s: &mut Schedule, args: &Args) -> Outcome {
    let block = s.get_block(args.block("block")?).map_err(refused)?;
    let uses = |b: &&Block| {
        b.name != block.name
            && b.reads.iter().any(|r| block.writes.iter().any(|w| r.buffer == w.buffer))
    };
    Ok(named(blocks_in(&s.func().body).into_iter().filter(uses)))
}

fn get_output_blocks(s: &mut Schedule, _: &Args) -> Outcome {
    let func = s.func();
    let params: Vec<Buffer> = func.buffer_params().collect();
    let gives = |b: &&Block| b.writes.iter().any(|w| params.contains(&w.buffer));
    Ok(named(blocks_in(&func.body).into_iter().filter(gives)))
}

fn split(s: &mut Schedule, args: &Args) -> Outcome {
    let (mut at, factors) = (args.at("loop")?, args.list("factors")?);
    if let Some(Value::Bool(true)) = args.optional("disable_predication") {
        return Err(
            "a guard is left out where it is shown not to be needed, never elsewhere".to_owned()
        );
    }
    let factors: Vec<Option<i64>> = extents("factors", factors)?;
    if factors.len() < 2 {
        return Err("a loop is split in two or more".to_owned());
    }
    let mut derived = factors.iter().enumerate().filter(|(_, f)| f.is_none()).map(|(n, _)| n);
    let (first, second) = (derived.next(), derived.next());
    if second.is_some() {
        return Err("one factor may be None, not two".to_owned());
    }
    if first.is_none() {
        let product = factors.iter().flatten().try_fold(1i64, |n, f| n.checked_mul(*f));
        let extent = s.extent(at).map_err(refused)?;
        if extent.is_none() || product != extent {
            let extent = extent.map_or_else(|| "not constant".to_owned(), |n| n.to_string());
            return Err(format!(
                "the factors' product is not the extent, which is {extent}; one may be None"
            ));
        }
    }
    let derived = first.unwrap_or(0);
    let mut loops: Vec<Option<Var>> = vec![None; factors.len()];
    for n in (derived + 1..factors.len()).rev() {
        let (outer, inner) = s.split(at, factors[n].unwrap_or(1)).map_err(refused)?;
        (loops[n], at) = (Some(inner), outer);
    }
    for n in 0..derived {
        let (outer, inner) = s.split_nparts(at, factors[n].unwrap_or(1)).map_err(refused)?;
        (loops[n], at) = (Some(outer), inner);
    }
    Ok(loops.into_iter().map(|made| Value::Loop(made.unwrap_or(at))).collect())
}

/// Extents of loops, of which some may be left to be derived.
fn extents(name: &str, values: &[Value]) -> Result<Vec<Option<i64>>, String> {
    let of = |value: &Value| match value {
        Value::None => Ok(None),
        Value::Int(n) if *n > 0 => Ok(Some(*n)),
        _ => Err(format!("`{name}` are positive numbers or None")),
    };
    values.iter().map(of).collect()
}

fn fuse(s: &mut Schedule, args: &Args) -> Outcome {
    let fused = s.fuse_all(&args.loops("loops")?).map_err(refused)?;
    Ok(vec![Value::Loop(fused)])
}

fn reorder(s: &mut Schedule, args: &Args) -> Outcome {
    s.reorder(&args.loops("ordered_loops")?).map_err(refused)?;
    Ok(vec![])
}

fn tile(s: &mut Schedule, args: &Args) -> Outcome {
    let (outer, inner) = s.tile(&args.loops("loops")?, &args.ints("sizes")?).map_err(refused)?;
    Ok(outer.into_iter().chain(inner).map(Value::Loop).collect())
}

fn loop_partition(s: &mut Schedule, args: &Args) -> Outcome {
    let (mut at, parts) = (args.at("loop")?, extents("factors", args.list("factors")?)?);
    let Some((last, parts)) = parts.split_last() else {
        return Err("a loop has at least one part".to_owned());
    };
    let mut known = Some(0i64);
    let mut loops = vec![];
    for part in parts {
        let Some(part) = part else { return Err("only the last factor may be None".to_owned()) };
        known = known.and_then(|n| n.checked_add(*part));
        let (first, rest) = s.partition(at, Expr::i64(*part)).map_err(refused)?;
        loops.push(first);
        at = rest;
    }
    if let Some(last) = last {
        let rest = s.extent(at).map_err(refused)?;
        if rest != Some(*last) {
            let rest = rest.map_or_else(|| "not constant".to_owned(), |n| n.to_string());
            return Err(format!("the last part is {rest}, not {last}; it may be None"));
        }
    }
    loops.push(at);
    Ok(loops.into_iter().map(Value::Loop).collect())
}

/// The condition of an argument, over the extents and scalars of the function by name.
fn condition(s: &Schedule, args: &Args) -> Result<Expr, String> {
    let func = s.func();
    let vars = crate::abi::scalar_vars(func);
    let vars: HashMap<String, Var> =
        vars.into_iter().map(|var| (func.vars[var].name.to_string(), var)).collect();
    parse_condition(args.text("condition")?, func, &vars)
        .map_err(|e| format!("condition: {}", e.message))
}

fn specialize(s: &mut Schedule, args: &Args) -> Outcome {
    let cond = condition(s, args)?;
    let (then, otherwise) = s.specialize(args.at("loop")?, cond).map_err(refused)?;
    Ok(vec![Value::Loop(then), Value::Loop(otherwise)])
}

fn parallel_if(s: &mut Schedule, args: &Args) -> Outcome {
    let cond = condition(s, args)?;
    let (outer, inner) = s.parallel_if(args.at("loop")?, &cond).map_err(refused)?;
    Ok(vec![Value::Loop(outer), Value::Loop(inner)])
}

fn fuse_adjacent(s: &mut Schedule, args: &Args) -> Outcome {
    let first = args.at("first")?;
    s.fuse_adjacent(first, args.at("second")?).map_err(refused)?;
    Ok(vec![Value::Loop(first)])
}

fn merge(s: &mut Schedule, args: &Args) -> Outcome {
    Ok(vec![Value::Loop(s.merge(&args.loops("loops")?).map_err(refused)?)])
}

fn decompose_padding(s: &mut Schedule, args: &Args) -> Outcome {
    let fill = s.decompose_padding(args.block("block")?, args.at("loop")?).map_err(refused)?;
    Ok(vec![Value::Block(fill)])
}

fn reorder_block_iter_var(s: &mut Schedule, args: &Args) -> Outcome {
    let place = |n: i64| usize::try_from(n).map_err(|_| format!("{n} is no place"));
    let order = args.ints("new_order")?.into_iter().map(place).collect::<Result<Vec<_>, _>>()?;
    s.reorder_block_iters(args.block("block")?, &order).map_err(refused)?;
    Ok(vec![])
}

fn distribute_loops(s: &mut Schedule, args: &Args) -> Outcome {
    s.distribute_loops(args.at("loop")?).map_err(refused)?;
    Ok(vec![])
}

fn collapse_axes(s: &mut Schedule, args: &Args) -> Outcome {
    let (outer, inner) = (args.at("outer")?, args.at("inner")?);
    let name = s.func().vars.get(outer).map_or_else(String::new, |v| v.name.to_string());
    Ok(vec![Value::Loop(s.collapse_axes(outer, inner, &name).map_err(refused)?)])
}

fn unroll_and_jam(s: &mut Schedule, args: &Args) -> Outcome {
    s.unroll_and_jam(args.block("block")?, args.at("loop")?).map_err(refused)?;
    Ok(vec![])
}

fn add_unit_loop(s: &mut Schedule, args: &Args) -> Outcome {
    let (block, depth) = match args.get("block_or_loop")? {
        Value::Loop(at) => {
            let inside = blocks_in(&s.get_loop(*at).map_err(refused)?.body);
            let block = inside.first().ok_or("there is no block in the loop")?.name.clone();
            let depth = s.get_loops(&block).map_err(refused)?.iter().position(|l| l == at);
            (block, depth.ok_or("the loop is not one of its block's")?)
        }
        _ => {
            let block = args.block("block_or_loop")?.to_owned();
            let depth = s.get_loops(&block).map_err(refused)?.len();
            (block, depth)
        }
    };
    Ok(vec![Value::Loop(s.add_unit_loop(&block, depth).map_err(refused)?)])
}

fn parallel(s: &mut Schedule, args: &Args) -> Outcome {
    s.parallel(args.at("loop")?).map_err(refused)?;
    Ok(vec![])
}

fn vectorize(s: &mut Schedule, args: &Args) -> Outcome {
    s.vectorize(args.at("loop")?).map_err(refused)?;
    Ok(vec![])
}

fn unroll(s: &mut Schedule, args: &Args) -> Outcome {
    s.unroll(args.at("loop")?).map_err(refused)?;
    Ok(vec![])
}

fn bind(s: &mut Schedule, args: &Args) -> Outcome {
    s.bind(args.at("loop")?, args.text("thread_axis")?.parse()?).map_err(refused)?;
    Ok(vec![])
}

fn bind_grid(s: &mut Schedule, args: &Args) -> Outcome {
    let (blocks, threads) = s.bind_grid(args.at("loop")?, args.int("threads")?).map_err(refused)?;
    Ok(vec![Value::Loop(blocks), Value::Loop(threads)])
}

/// Refuses a place among the statements of a loop, which the primitives choose.
fn last_place(args: &Args) -> Result<(), String> {
    match args.optional("index") {
        None | Some(Value::Int(-1)) => Ok(()),
        Some(_) => {
            Err("`index` is -1: the place in the loop follows from what depends on what".to_owned())
        }
    }
}

fn compute_at(s: &mut Schedule, args: &Args) -> Outcome {
    last_place(args)?;
    let block = args.block("block")?;
    match args.get("loop")? {
        Value::Root => Ok(()),
        Value::Inline => s.compute_inline(block),
        _ => s.compute_at(block, args.at("loop")?),
    }
    .map_err(refused)?;
    Ok(vec![])
}

fn reverse_compute_at(s: &mut Schedule, args: &Args) -> Outcome {
    last_place(args)?;
    let block = args.block("block")?;
    match args.get("loop")? {
        Value::Root => Ok(()),
        Value::Inline => s.reverse_compute_inline(block),
        _ => s.reverse_compute_at(block, args.at("loop")?),
    }
    .map_err(refused)?;
    Ok(vec![])
}

fn compute_inline(s: &mut Schedule, args: &Args) -> Outcome {
    s.compute_inline(args.block("block")?).map_err(refused)?;
    Ok(vec![])
}

fn reverse_compute_inline(s: &mut Schedule, args: &Args) -> Outcome {
    s.reverse_compute_inline(args.block("block")?).map_err(refused)?;
    Ok(vec![])
}

fn store_at(s: &mut Schedule, args: &Args) -> Outcome {
    s.store_at(args.block("block")?, args.at("loop")?, args.scope("storage_scope")?)
        .map_err(refused)?;
    Ok(vec![])
}

fn rolling_buffer(s: &mut Schedule, args: &Args) -> Outcome {
    written_buffer(s, args, "write_buffer_index")?;
    s.rolling_buffer(args.block("block")?).map_err(refused)?;
    Ok(vec![])
}

fn fuse_reduction_epilogue(s: &mut Schedule, args: &Args) -> Outcome {
    let (reduction, epilogue) = (args.block("reduction_block")?, args.block("epilogue_block")?);
    s.fuse_reduction_epilogue(reduction, epilogue).map_err(refused)?;
    Ok(vec![])
}

/// The buffers of a block's regions, each once.
fn buffers(regions: &[crate::Region]) -> Vec<Buffer> {
    let mut buffers = vec![];
    for region in regions {
        if !buffers.contains(&region.buffer) {
            buffers.push(region.buffer);
        }
    }
    buffers
}

fn read_buffer(s: &Schedule, args: &Args) -> Result<Buffer, String> {
    let block = s.get_block(args.block("block")?).map_err(refused)?;
    args.buffer("read_buffer_index", s, &buffers(&block.reads))
}

/// Checks that the buffer of an argument is the one that the block writes.
fn written_buffer(s: &Schedule, args: &Args, name: &str) -> Result<Buffer, String> {
    let block = s.get_block(args.block("block")?).map_err(refused)?;
    args.buffer(name, s, &buffers(&block.writes))
}

fn all_consumers(args: &Args) -> Result<(), String> {
    match args.optional("consumer_blocks") {
        None => Ok(()),
        Some(Value::List(list)) if list.is_empty() => Ok(()),
        Some(_) => Err("`consumer_blocks` is None: the block alone reads the copy".to_owned()),
    }
}

fn cache_read(s: &mut Schedule, args: &Args) -> Outcome {
    all_consumers(args)?;
    let (buffer, scope) = (read_buffer(s, args)?, args.scope("storage_scope")?);
    Ok(vec![Value::Block(s.cache_read(args.block("block")?, buffer, scope).map_err(refused)?)])
}

fn cache_write(s: &mut Schedule, args: &Args) -> Outcome {
    all_consumers(args)?;
    written_buffer(s, args, "write_buffer_index")?;
    let scope = args.scope("storage_scope")?;
    Ok(vec![Value::Block(s.cache_write(args.block("block")?, scope).map_err(refused)?)])
}

fn cache_index(s: &mut Schedule, args: &Args) -> Outcome {
    let least = match args.optional("cse_thresh") {
        None => 0,
        Some(Value::Int(least)) if *least >= 0 => usize::try_from(*least).unwrap_or(usize::MAX),
        Some(_) => return Err("`cse_thresh` is a number of places".to_owned()),
    };
    let scope = args.scope("storage_scope")?;
    let made = s.cache_index(args.block("block")?, scope, least).map_err(refused)?;
    Ok(made.into_iter().map(Value::Block).collect())
}

fn cache_inplace(s: &mut Schedule, args: &Args) -> Outcome {
    let (buffer, scope) = (read_buffer(s, args)?, args.scope("storage_scope")?);
    let made = s.cache_inplace(args.block("block")?, buffer, scope).map_err(refused)?;
    Ok(made.into_iter().map(Value::Block).collect())
}

fn transform_block_layout(s: &mut Schedule, args: &Args) -> Outcome {
    let name = args.block("block")?;
    let iters = &s.get_block(name).map_err(refused)?.iters;
    let extents: Vec<Expr> = iters.iter().map(|i| i.extent.clone()).collect();
    let layout = Layout::new(s, args, &extents)?;
    s.transform_block_layout(name, &|at| layout.image(at)).map_err(refused)?;
    Ok(vec![])
}

fn read_at(s: &mut Schedule, args: &Args) -> Outcome {
    let (buffer, at, scope) =
        (read_buffer(s, args)?, args.at("loop")?, args.scope("storage_scope")?);
    let copy = s.cache_read_at(args.block("block")?, buffer, at, scope).map_err(refused)?;
    Ok(vec![Value::Block(copy)])
}

fn write_at(s: &mut Schedule, args: &Args) -> Outcome {
    written_buffer(s, args, "write_buffer_index")?;
    let (at, scope) = (args.at("loop")?, args.scope("storage_scope")?);
    Ok(vec![Value::Block(s.cache_write_at(args.block("block")?, at, scope).map_err(refused)?)])
}

fn decompose_reduction(s: &mut Schedule, args: &Args) -> Outcome {
    let init = s.decompose_reduction(args.block("block")?, args.at("loop")?).map_err(refused)?;
    Ok(vec![Value::Block(init)])
}

fn rfactor(s: &mut Schedule, args: &Args) -> Outcome {
    let at = args.at("loop")?;
    let inside = blocks_in(&s.get_loop(at).map_err(refused)?.body);
    let mut reductions = inside.iter().filter(|b| b.reduction_iters().next().is_some());
    let name = match (reductions.next(), reductions.next()) {
        (Some(block), None) => block.name.clone(),
        _ => return Err("the loop is not around one reduction".to_owned()),
    };
    let partial = s.rfactor(&name, at).map_err(refused)?;
    if let Some(Value::Int(axis)) = args.optional("factor_axis") {
        let block = s.get_block(&partial).map_err(refused)?;
        let rank = block.writes.first().map_or(0, |w| s.func().buffers[w.buffer].shape.len());
        if *axis != -1 && usize::try_from(*axis) != Ok(rank - 1) {
            return Err(format!(
                "`factor_axis` is -1 or {}: partial results lie side by side",
                rank - 1
            ));
        }
    }
    Ok(vec![Value::Block(partial)])
}

fn tree_reduce(s: &mut Schedule, args: &Args) -> Outcome {
    let next = s.tree_reduce(args.block("block")?, args.at("loop")?).map_err(refused)?;
    Ok(next.map_or_else(Vec::new, |(block, at)| vec![Value::Block(block), Value::Loop(at)]))
}

fn separate_full_tiles(s: &mut Schedule, args: &Args) -> Outcome {
    let (full, part) =
        s.separate_full_tiles(args.block("block")?, args.at("loop")?).map_err(refused)?;
    Ok([Some(full), part].into_iter().flatten().map(Value::Loop).collect())
}

fn blockize(s: &mut Schedule, args: &Args) -> Outcome {
    Ok(vec![Value::Block(s.blockize(args.at("target")?).map_err(refused)?)])
}

fn tensorize(s: &mut Schedule, args: &Args) -> Outcome {
    let name = args.text("tensor_intrin")?;
    let at = args.at("block_or_loop")?;
    if let Some(intrinsic) = tensor_intrin::registered::find(name) {
        s.tensorize_as(at, intrinsic).map_err(refused)?;
        return Ok(vec![]);
    }
    let missing = || {
        let own = tensor_intrin::all().into_iter().map(|i| i.name.to_owned());
        let names: Vec<String> = own.chain(tensor_intrin::registered::names()).collect();
        format!("no tensor intrinsic {name:?}; there are {}", names.join(", "))
    };
    let intrinsic =
        tensor_intrin::all().into_iter().find(|i| i.name == name).ok_or_else(missing)?;
    s.tensorize(at, intrinsic).map_err(refused)?;
    Ok(vec![])
}

/// Whether a block reads or writes the buffer of an argument.
enum Side {
    Read,
    Write,
}

/// The buffer of an argument: a name, `("read", n)` or `("write", n)`.
fn accessed_buffer(s: &Schedule, args: &Args) -> Result<(Side, Buffer), String> {
    let block = s.get_block(args.block("block")?).map_err(refused)?;
    let (reads, writes) = (buffers(&block.reads), buffers(&block.writes));
    Ok(match args.get("buffer")? {
        Value::List(pair) => {
            let (side, among) = match &pair[..] {
                [Value::Str(side), Value::Int(_)] if side == "read" => (Side::Read, &reads),
                [Value::Str(side), Value::Int(_)] if side == "write" => (Side::Write, &writes),
                _ => return Err("`buffer` is a name, (\"read\", n) or (\"write\", n)".to_owned()),
            };
            let mut place = Args::default();
            place.set("buffer", pair[1].clone())?;
            (side, place.buffer("buffer", s, among)?)
        }
        _ => {
            let buffer = args.buffer("buffer", s, &[reads.clone(), writes].concat())?;
            (if reads.contains(&buffer) { Side::Read } else { Side::Write }, buffer)
        }
    })
}

/// New indices by an index map, over variables that stand for the old ones.
struct Layout {
    vars: Vec<Var>,
    map: Vec<Expr>,
    shape: Vec<Expr>,
}

impl Layout {
    /// The index map of an argument, of indices below `old`.
    fn new(s: &Schedule, args: &Args, old: &[Expr]) -> Result<Layout, String> {
        let Value::IndexMap { params, body } = args.get("index_map")? else {
            return Err("`index_map` is a lambda: old indices to new ones".to_owned());
        };
        if params.len() != old.len() {
            return Err(format!(
                "the index map has {} parameters for {} axes",
                params.len(),
                old.len()
            ));
        }
        let mut scratch = s.func().clone();
        let vars: Vec<Var> = params.iter().map(|p| scratch.new_var(p.as_str())).collect();
        let by_name: HashMap<String, Var> =
            params.iter().cloned().zip(vars.iter().copied()).collect();
        let map = |text: &String| parse_index(text, &scratch, &by_name);
        let map = body.iter().map(map).collect::<Result<Vec<Expr>, _>>();
        let map = map.map_err(|e| format!("index map: {}", e.message))?;
        let shape = map.iter().map(|e| extent_of(e, &vars, old));
        let shape = shape.collect::<Result<Vec<Expr>, _>>()?;
        Ok(Layout { vars, map, shape })
    }

    /// The new indices of a point.
    fn image(&self, at: &[Expr]) -> Vec<Expr> {
        let given = |v: Var| Some(at[self.vars.iter().position(|p| *p == v)?].clone());
        self.map.iter().map(|e| e.substitute(&given)).collect()
    }
}

fn transform_layout(s: &mut Schedule, args: &Args) -> Outcome {
    let (_, buffer) = accessed_buffer(s, args)?;
    let func = s.func();
    if !func.allocs.contains(&buffer) {
        let name = &func.buffers[buffer].name;
        return Err(format!("`{name}` is not an intermediate: its layout is the callers' too"));
    }
    if args.optional("pad_value").is_some() {
        return Err("`pad_value` is None: padding is neither read nor written".to_owned());
    }
    let layout = Layout::new(s, args, &func.buffers[buffer].shape.clone())?;
    let shape = layout.shape.clone();
    s.transform_layout(buffer, shape, &|at| layout.image(at)).map_err(refused)?;
    Ok(vec![])
}

fn reindex(s: &mut Schedule, args: &Args) -> Outcome {
    let block = args.block("block")?;
    let made = match accessed_buffer(s, args)? {
        (Side::Read, buffer) => s.reindex_read(block, buffer, Scope::Global),
        (Side::Write, _) => s.reindex_write(block, Scope::Global),
    };
    Ok(vec![Value::Block(made.map_err(refused)?.block)])
}

fn reindex_cache_read(s: &mut Schedule, args: &Args) -> Outcome {
    let (buffer, scope) = (read_buffer(s, args)?, args.scope("storage_scope")?);
    laid_out(s, args, |s, block| s.reindex_read(block, buffer, scope))
}

fn reindex_cache_write(s: &mut Schedule, args: &Args) -> Outcome {
    written_buffer(s, args, "write_buffer_index")?;
    let scope = args.scope("storage_scope")?;
    laid_out(s, args, |s, block| s.reindex_write(block, scope))
}

/// A copy along a block's iterators, laid out by the index map of all of them.
fn laid_out(
    s: &mut Schedule,
    args: &Args,
    copy: impl FnOnce(&mut Schedule, &str) -> Result<Reindexed, ScheduleError>,
) -> Outcome {
    let name = args.block("block")?;
    let iters = s.get_block(name).map_err(refused)?.iters.clone();
    let extents: Vec<Expr> = iters.iter().map(|i| i.extent.clone()).collect();
    let layout = Layout::new(s, args, &extents)?;
    let made = copy(s, name).map_err(refused)?;
    let mentions = |e: &Expr, var: Var| {
        let mut found = false;
        e.visit(&mut |e| found |= e.as_var() == Some(var));
        found
    };
    let unused = (0..iters.len()).filter(|n| !made.iters.contains(n));
    for place in unused {
        if layout.map.iter().any(|e| mentions(e, layout.vars[place])) {
            return Err(format!("the index map mentions iterator {place}, which no index does"));
        }
    }
    let image = |at: &[Expr]| {
        let mut all: Vec<Expr> = vec![Expr::i64(0); iters.len()];
        for (place, index) in made.iters.iter().zip(at) {
            all[*place] = index.clone();
        }
        layout.image(&all)
    };
    s.transform_layout(made.buffer, layout.shape.clone(), &image).map_err(refused)?;
    Ok(vec![Value::Block(made.block)])
}

/// The extent of an axis whose indices are those of an index map.
fn extent_of(index: &Expr, vars: &[Var], old: &[Expr]) -> Result<Expr, String> {
    if let Some(at) = index.as_var().and_then(|v| vars.iter().position(|p| *p == v)) {
        return Ok(old[at].clone());
    }
    let mut facts = Analyzer::new();
    for (var, extent) in vars.iter().zip(old) {
        facts.bind(*var, Expr::i64(0), extent.clone());
    }
    match facts.bounds(index).max {
        i64::MAX => Err("the index map's new extents are not constant".to_owned()),
        max => Ok(Expr::i64(max + 1)),
    }
}

fn pad_einsum(s: &mut Schedule, args: &Args) -> Outcome {
    s.pad_einsum(args.block("block")?, &args.ints("padding")?).map_err(refused)?;
    Ok(vec![])
}

fn storage_align(s: &mut Schedule, args: &Args) -> Outcome {
    written_buffer(s, args, "buffer_index")?;
    let (block, axis) = (args.block("block")?, args.index("axis")?);
    s.storage_align(block, axis, args.int("factor")?, args.int("offset")?).map_err(refused)?;
    Ok(vec![])
}

fn set_scope(s: &mut Schedule, args: &Args) -> Outcome {
    written_buffer(s, args, "buffer_index")?;
    s.set_scope(args.block("block")?, args.scope("storage_scope")?).map_err(refused)?;
    Ok(vec![])
}

fn annotate(s: &mut Schedule, args: &Args) -> Outcome {
    let key = args.text("ann_key")?;
    let value = match args.get("ann_val")? {
        Value::Int(n) => n.to_string(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Str(text) => text_attribute(text),
        _ => return Err("`ann_val` is a number, a truth value or a text".to_owned()),
    };
    match args.get("block_or_loop")? {
        Value::Loop(at) => s.annotate_loop(*at, key, &value),
        _ => s.annotate_block(args.block("block_or_loop")?, key, &value),
    }
    .map_err(refused)?;
    Ok(vec![])
}

fn unannotate(s: &mut Schedule, args: &Args) -> Outcome {
    let key = args.text("ann_key")?;
    match args.get("block_or_loop")? {
        Value::Loop(at) => s.unannotate_loop(*at, key),
        _ => s.unannotate_block(args.block("block_or_loop")?, key),
    }
    .map_err(refused)?;
    Ok(vec![])
}

fn enter_postproc(_: &mut Schedule, _: &Args) -> Outcome {
    Ok(vec![])
}
