//! Tensors that are joined, split and repeated.

use reflex_graph::{Value, dims};
use reflex_tir::{CmpOp, Expr};

use super::table::{Results, Table, list, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::dtype::promoted;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("cat", cat),
    ("chunk", chunk),
    ("concat", cat),
    ("concatenate", cat),
    ("hstack", |cx, call| {
        let parts = call.tensors("tensors")?;
        let at = usize::from(parts.first().is_some_and(|x| cx.rank(*x) > 1));
        one(cx.concat(&parts, at)?)
    }),
    ("repeat", |cx, call| {
        let repeats = call.dims("repeats")?;
        one(repeated(cx, call.tensor("self")?, &repeats)?)
    }),
    ("repeat_interleave", repeat_interleave),
    ("split", split),
    ("split_with_sizes", split),
    ("stack", stack),
    ("tensor_split", tensor_split),
    ("tile", |cx, call| {
        let repeats = call.dims("dims")?;
        one(repeated(cx, call.tensor("self")?, &repeats)?)
    }),
    ("unbind", unbind),
    ("unsafe_chunk", chunk),
    ("unsafe_split", split),
    ("unsafe_split_with_sizes", split),
    ("vstack", |cx, call| {
        let mut parts = call.tensors("tensors")?;
        for part in &mut parts {
            if cx.rank(*part) < 2 {
                let n = cx.shape(*part).first().cloned().unwrap_or(Expr::i64(1));
                *part = cx.reshape(*part, &[Expr::i64(1), n])?;
            }
        }
        one(cx.concat(&parts, 0)?)
    }),
];

fn cat(cx: &mut ImportContext, call: &Call) -> Results {
    let parts = call.tensors("tensors")?;
    // An empty vector joins with everything.
    let empty = |cx: &ImportContext, x: &Value| cx.const_shape(*x) == Some(vec![0]);
    let kept: Vec<Value> = parts.iter().copied().filter(|x| !empty(cx, x)).collect();
    let Some(first) = kept.first().or(parts.first()) else { return Err(invalid("no tensors")) };
    let mut dtype = cx.dtype(*first);
    for part in &parts {
        dtype = promoted(dtype, cx.dtype(*part));
    }
    let at = call.axis("dim", 0, cx.rank(*first))?;
    let mut list = vec![];
    for part in if kept.is_empty() { &parts } else { &kept } {
        list.push(cx.cast(*part, dtype)?);
    }
    one(cx.concat(&list, at)?)
}

fn stack(cx: &mut ImportContext, call: &Call) -> Results {
    let mut parts = call.tensors("tensors")?;
    let Some(first) = parts.first() else { return Err(invalid("no tensors")) };
    let at = axis(call.int("dim", 0)?, cx.rank(*first) + 1)?;
    let mut dtype = cx.dtype(*first);
    for part in &parts {
        dtype = promoted(dtype, cx.dtype(*part));
    }
    for part in &mut parts {
        let wide = cx.cast(*part, dtype)?;
        *part = cx.unsqueeze(wide, &[at])?;
    }
    one(cx.concat(&parts, at)?)
}

/// Parts of some sizes along an axis, in order.
fn parts(cx: &mut ImportContext, x: Value, at: usize, sizes: &[Expr]) -> Result<Vec<Value>> {
    let mut begin = Expr::i64(0);
    let mut list = vec![];
    for size in sizes {
        list.push(cx.slice(x, at, &begin, size)?);
        begin = dims::simplify(&(begin + size.clone()));
    }
    Ok(list)
}

/// Sizes of parts that have `size` elements each, and the last one the rest.
fn equal_parts(extent: &Expr, size: i64) -> Result<Vec<Expr>> {
    let known = extent.as_int().filter(|_| size > 0);
    let known = known.ok_or_else(|| unsupported("parts of a symbolic extent"))?;
    let count = (known + size - 1) / size;
    if count > 1 << 16 {
        return Err(unsupported(format!("{count} parts")));
    }
    Ok((0..count.max(1)).map(|i| Expr::i64(size.min(known - i * size))).collect())
}

fn split(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", 0, cx.rank(x))?;
    let name = ["split_size", "split_sizes"].into_iter().find(|name| call.has(name));
    let sizes = call.dims(name.unwrap_or("split_size"))?;
    let sizes = match (&sizes[..], name) {
        ([size], Some("split_size")) => {
            let size = size.as_int().ok_or_else(|| unsupported("a symbolic `split_size`"))?;
            equal_parts(&cx.dim(x, at)?, size)?
        }
        _ => sizes,
    };
    list(parts(cx, x, at, &sizes)?)
}

fn chunk(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", 0, cx.rank(x))?;
    let chunks = call.int("chunks", 1)?;
    let extent = cx.dim(x, at)?;
    let (Some(known), true) = (extent.as_int(), chunks > 0) else {
        return Err(unsupported("chunks of a symbolic extent"));
    };
    let sizes = equal_parts(&extent, ((known + chunks - 1) / chunks).max(1))?;
    list(parts(cx, x, at, &sizes)?)
}

fn tensor_split(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", 0, cx.rank(x))?;
    let extent = cx.dim(x, at)?;
    let sizes = if let Some(sections) = call.opt_int("sections")? {
        let known = extent.as_int().filter(|_| (1..1 << 16).contains(&sections));
        let known = known.ok_or_else(|| unsupported("sections of a symbolic extent"))?;
        let (size, more) = (known / sections, known % sections);
        (0..sections).map(|i| Expr::i64(size + i64::from(i < more))).collect()
    } else {
        let mut ends: Vec<Expr> =
            call.dims("indices")?.iter().map(|index| cx.bound(index, &extent)).collect();
        ends.push(extent);
        let begins = std::iter::once(Expr::i64(0)).chain(ends.clone());
        begins.zip(&ends).map(|(begin, end)| cx.count_between(&begin, end, 1)).collect::<Vec<_>>()
    };
    list(parts(cx, x, at, &sizes)?)
}

fn unbind(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", 0, cx.rank(x))?;
    let sizes = equal_parts(&cx.dim(x, at)?, 1)?;
    let mut items = vec![];
    for part in parts(cx, x, at, &sizes)? {
        items.push(cx.squeeze(part, &[at])?);
    }
    list(items)
}

/// A tensor laid out several times along each axis.
fn repeated(cx: &mut ImportContext, x: Value, repeats: &[Expr]) -> Result<Value> {
    let mut own = cx.shape(x);
    let mut repeats = repeats.to_vec();
    while own.len() < repeats.len() {
        own.insert(0, Expr::i64(1));
    }
    while repeats.len() < own.len() {
        repeats.insert(0, Expr::i64(1));
    }
    let pairs = || repeats.iter().zip(&own);
    let apart: Vec<Expr> = own.iter().flat_map(|dim| [Expr::i64(1), dim.clone()]).collect();
    let wide: Vec<Expr> = pairs().flat_map(|(n, dim)| [n.clone(), dim.clone()]).collect();
    let together: Vec<Expr> = pairs().map(|(n, dim)| n.clone() * dim.clone()).collect();
    if cx.decide(CmpOp::Eq, &dims::product(&repeats), &Expr::i64(1)) == Some(true) {
        return cx.reshape(x, &own);
    }
    let apart = cx.reshape(x, &apart)?;
    let wide = cx.broadcast(apart, &wide)?;
    cx.reshape(wide, &together)
}

fn repeat_interleave(cx: &mut ImportContext, call: &Call) -> Results {
    let count = call.opt_dim("repeats").ok().flatten();
    let count = count.ok_or_else(|| unsupported("numbers of repetitions in a tensor"))?;
    call.ignore(&["output_size"]);
    let mut x = call.tensor("self")?;
    if !call.has("dim") {
        x = cx.reshape(x, &[dims::product(&cx.shape(x))])?;
    }
    let at = call.axis("dim", 0, cx.rank(x))?;
    let apart = cx.unsqueeze(x, &[at + 1])?;
    let mut wide = cx.shape(apart);
    wide[at + 1] = count.clone();
    let wide = cx.broadcast(apart, &wide)?;
    let mut shape = cx.shape(x);
    shape[at] = shape[at].clone() * count;
    one(cx.reshape(wide, &shape)?)
}
