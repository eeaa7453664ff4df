//! Operators that give elements another shape or order.

use reflex_graph::{Value, dims};
use reflex_tir::Expr;

use super::table::{Results, Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("_reshape_alias", reshape),
    ("_unsafe_view", reshape),
    ("broadcast_to", expand),
    ("channel_shuffle", channel_shuffle),
    ("expand", expand),
    ("expand_as", |cx, call| {
        let shape = cx.shape(call.tensor("other")?);
        one(cx.broadcast(call.tensor("self")?, &shape)?)
    }),
    ("flatten", flatten),
    ("mT", |cx, call| {
        let x = call.tensor("self")?;
        let rank = cx.rank(x).max(2);
        one(cx.swap(x, rank - 2, rank - 1)?)
    }),
    ("movedim", move_axes),
    ("numpy_T", reverse_axes),
    ("permute", permute),
    ("pixel_shuffle", pixel_shuffle),
    ("pixel_unshuffle", pixel_unshuffle),
    ("reshape", reshape),
    ("reshape_as", |cx, call| {
        let shape = cx.shape(call.tensor("other")?);
        one(cx.reshape(call.tensor("self")?, &shape)?)
    }),
    ("squeeze", squeeze),
    ("swapaxes", |cx, call| exchange(cx, call, ["axis0", "axis1"])),
    ("swapdims", |cx, call| exchange(cx, call, ["dim0", "dim1"])),
    ("t", reverse_axes),
    ("transpose", |cx, call| exchange(cx, call, ["dim0", "dim1"])),
    ("unflatten", unflatten),
    ("unsqueeze", |cx, call| {
        let x = call.tensor("self")?;
        let at = axis(call.int("dim", 0)?, cx.rank(x) + 1)?;
        one(cx.unsqueeze(x, &[at])?)
    }),
    ("view", view),
    ("view_as", |cx, call| {
        let shape = cx.shape(call.tensor("other")?);
        one(cx.reshape(call.tensor("self")?, &shape)?)
    }),
];

/// A shape in which one extent may be -1: what is left of the elements.
pub(super) fn resolved(cx: &ImportContext, x: Value, wanted: &[Expr]) -> Result<Vec<Expr>> {
    let mut shape: Vec<Expr> = wanted.iter().map(dims::simplify).collect();
    let open: Vec<usize> = (0..shape.len()).filter(|i| shape[*i].as_int() == Some(-1)).collect();
    let [at] = open[..] else {
        return match open.is_empty() {
            true => Ok(shape),
            false => Err(invalid("a shape with two open extents")),
        };
    };
    shape[at] = Expr::i64(1);
    let (all, known) = (dims::product(&cx.shape(x)), dims::product(&shape));
    shape[at] = match (all.as_int(), known.as_int()) {
        (_, Some(0)) => return Err(invalid("an open extent beside one of 0")),
        (Some(all), Some(known)) => Expr::i64(all / known),
        _ => dims::simplify(&all.floordiv(known)),
    };
    Ok(shape)
}

fn reshape(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let wanted = call.dims(if call.has("shape") { "shape" } else { "size" })?;
    call.ignore(&["stride"]);
    let shape = resolved(cx, x, &wanted)?;
    one(cx.reshape(x, &shape)?)
}

fn view(cx: &mut ImportContext, call: &Call) -> Results {
    if call.has("dtype") {
        return Err(unsupported("a view as another element type"));
    }
    reshape(cx, call)
}

fn flatten(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let shape = cx.shape(x);
    let first = call.axis("start_dim", 0, shape.len())?;
    let last = call.axis("end_dim", -1, shape.len())?;
    if shape.is_empty() {
        return one(cx.reshape(x, &[Expr::i64(1)])?);
    }
    if first > last {
        return Err(invalid(format!("axes {first} to {last}")));
    }
    let middle = dims::product(&shape[first..=last]);
    one(cx.reshape(x, &[&shape[..first], &[middle], &shape[last + 1..]].concat())?)
}

fn unflatten(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let shape = cx.shape(x);
    let at = call.axis("dim", 0, shape.len())?;
    let sizes = call.dims("sizes")?;
    let extent = shape.get(at).cloned().ok_or_else(|| invalid("a scalar"))?;
    let known = sizes.iter().filter(|size| size.as_int() != Some(-1));
    let known = dims::product(known);
    let fill = |size: &Expr| match (size.as_int(), known.as_int()) {
        (Some(-1), Some(0)) => Expr::i64(0),
        (Some(-1), _) => dims::simplify(&extent.clone().floordiv(known.clone())),
        _ => size.clone(),
    };
    let sizes: Vec<Expr> = sizes.iter().map(fill).collect();
    one(cx.reshape(x, &[&shape[..at], &sizes[..], &shape[at + 1..]].concat())?)
}

fn squeeze(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let shape = cx.shape(x);
    // No export has a symbol that may be 1.
    let axes = call.axes("dim", shape.len())?;
    let ones: Vec<usize> =
        axes.into_iter().filter(|i| shape.get(*i).is_some_and(|d| d.as_int() == Some(1))).collect();
    one(cx.squeeze(x, &ones)?)
}

fn expand(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let own = cx.shape(x);
    let mut shape = call.dims("size")?;
    let new = shape.len().checked_sub(own.len());
    let new = new.ok_or_else(|| invalid("a shape of fewer axes than the tensor has"))?;
    for (at, dim) in shape.iter_mut().enumerate() {
        *dim = match (dim.as_int(), at.checked_sub(new)) {
            (Some(-1), Some(at)) => own[at].clone(),
            (Some(-1), None) => return Err(invalid("a new axis of extent -1")),
            _ => dims::simplify(dim),
        };
    }
    one(cx.broadcast(x, &shape)?)
}

fn permute(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let rank = cx.rank(x);
    let given = call.opt_ints("dims")?.unwrap_or_default();
    let perm = given.iter().map(|a| axis(*a, rank)).collect::<Result<Vec<usize>>>()?;
    one(cx.transpose(x, &perm)?)
}

fn exchange(cx: &mut ImportContext, call: &Call, names: [&str; 2]) -> Results {
    let x = call.tensor("self")?;
    let rank = cx.rank(x);
    let [a, b] = [call.axis(names[0], 0, rank)?, call.axis(names[1], 0, rank)?];
    one(cx.swap(x, a, b)?)
}

fn reverse_axes(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let perm: Vec<usize> = (0..cx.rank(x)).rev().collect();
    one(cx.transpose(x, &perm)?)
}

fn move_axes(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let rank = cx.rank(x);
    let axes = |name: &str| -> Result<Vec<usize>> {
        let list = call.opt_ints(name)?.unwrap_or_default();
        list.iter().map(|a| axis(*a, rank)).collect()
    };
    let (from, to) = (axes("source")?, axes("destination")?);
    let mut rest = (0..rank).filter(|i| !from.contains(i));
    let place = |at: usize| to.iter().position(|t| *t == at).map(|i| from.get(i).copied());
    let perm: Option<Vec<usize>> =
        (0..rank).map(|at| place(at).unwrap_or_else(|| rest.next())).collect();
    let perm = perm.ok_or_else(|| invalid("axes that are moved"))?;
    one(cx.transpose(x, &perm)?)
}

/// The leading axes of a tensor and its last three.
fn planes(cx: &ImportContext, x: Value) -> Result<(Vec<Expr>, [Expr; 3])> {
    let shape = cx.shape(x);
    match shape.len().checked_sub(3) {
        Some(lead) => {
            let last = [shape[lead].clone(), shape[lead + 1].clone(), shape[lead + 2].clone()];
            Ok((shape[..lead].to_vec(), last))
        }
        None => Err(invalid(format!("an image of rank {}", shape.len()))),
    }
}

fn positive(value: i64, name: &str) -> Result<i64> {
    if (1..1 << 20).contains(&value) { Ok(value) } else { Err(invalid(format!("{name} {value}"))) }
}

fn pixel_shuffle(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let r = positive(call.int("upscale_factor", 1)?, "upscale_factor")?;
    let (lead, [c, h, w]) = planes(cx, x)?;
    let factor = Expr::i64(r);
    let c = c.floordiv(r * r);
    let apart = [c.clone(), factor.clone(), factor.clone(), h.clone(), w.clone()];
    let apart = cx.reshape(x, &[&lead[..], &apart[..]].concat())?;
    let n = lead.len();
    let perm: Vec<usize> = (0..n).chain([n, n + 3, n + 1, n + 4, n + 2]).collect();
    let moved = cx.transpose(apart, &perm)?;
    one(cx.reshape(moved, &[&lead[..], &[c, h * factor.clone(), w * factor]].concat())?)
}

fn pixel_unshuffle(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let r = positive(call.int("downscale_factor", 1)?, "downscale_factor")?;
    let (lead, [c, h, w]) = planes(cx, x)?;
    let factor = Expr::i64(r);
    let (h, w) = (h.floordiv(r), w.floordiv(r));
    let apart = [c.clone(), h.clone(), factor.clone(), w.clone(), factor];
    let apart = cx.reshape(x, &[&lead[..], &apart[..]].concat())?;
    let n = lead.len();
    let perm: Vec<usize> = (0..n).chain([n, n + 2, n + 4, n + 1, n + 3]).collect();
    let moved = cx.transpose(apart, &perm)?;
    one(cx.reshape(moved, &[&lead[..], &[c * (r * r), h, w]].concat())?)
}

fn channel_shuffle(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let groups = positive(call.int("groups", 1)?, "groups")?;
    let shape = cx.shape(x);
    let channels = cx.dim(x, 1)?;
    let apart = [Expr::i64(groups), channels.floordiv(groups)];
    let wide = cx.reshape(x, &[&shape[..1], &apart[..], &shape[2..]].concat())?;
    let moved = cx.swap(wide, 1, 2)?;
    one(cx.reshape(moved, &shape)?)
}
