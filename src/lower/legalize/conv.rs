//! Convolutions: a padded copy of the input where there is padding, the contraction, then the bias.
//!
//! Decision: docs/decisions/0031-depthwise-planes.md

use reflex_graph::{ConvAttrs, TensorType};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{Buffer, DType, Expr, Intrin, Sign};

use crate::legalize::builder::{
    LegalizeError, OpBuilder, OperandSource, ReadOperand, compute_type, sum_of_products,
    word_product,
};
use crate::legalize::vnni;
use crate::packing::panels::{PackedElements, PanelRole};

/// `Conv`.
pub fn conv(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs) {
    if matches!(&cx.operands[1], OperandSource::Buffer(_, Some(p)) if p.elements == PackedElements::Bf16Pairs)
    {
        return vnni_conv(cx, attrs);
    }
    let (x, w) = (cx.args[0].clone(), cx.args[1].clone());
    let covered = covered(cx, attrs);
    let padded = match &covered[..] {
        [] => padded(cx, attrs),
        covered => padded(cx, &without_padding(attrs, covered)),
    };
    let is_covered = |d: usize| covered.get(d) == Some(&true);
    let (weights, groups) = (cx.reader(1), attrs.groups);
    let per_group = cx.outs[0].shape[1].clone().floordiv(groups);
    let extent = |d: usize| if is_covered(d) { &x.shape[d + 2] } else { &w.shape[d + 2] };
    let reduced = (0..attrs.strides.len()).map(|d| extent(d).clone());
    let reduced: Vec<Expr> = w.shape[1..2].iter().cloned().chain(reduced).collect();
    let read = cx.reader(0);
    let work = compute_type(x.dtype);
    accumulate(cx, &reduced, |f, i, k| {
        let mut at = vec![i[0].clone(), channel(groups, &i[1], &per_group, &k[0], &w.shape[1])];
        let mut w_at = vec![i[1].clone(), k[0].clone()];
        for d in 0..i.len() - 2 {
            let (first, position) = (i[d + 2].clone() * attrs.strides[d], k[d + 1].clone());
            if is_covered(d) {
                w_at.push(position.clone() + attrs.pads_begin[d] - first);
                at.push(position);
            } else {
                at.push(first + position.clone() * attrs.dilations[d]);
                w_at.push(position);
            }
        }
        let value = match padded {
            Some(buffer) => f.at(buffer, &at),
            None => read(f, &at),
        };
        weights(f, &w_at).cast(work) * value.cast(work)
    });
}

/// The spatial axes along which every kernel position of a depthwise convolution in a blocked
/// layout covers the whole feature map: the sum is over the positions of the feature map, and never
/// over padding. Empty where there is none.
fn covered(cx: &OpBuilder<'_>, attrs: &ConvAttrs) -> Vec<bool> {
    let (x, w, out) = (&cx.args[0].shape, &cx.args[1].shape, &cx.outs[0].shape);
    let each_alone = [&x[1], &w[0]].map(Expr::as_int) == [Some(attrs.groups); 2];
    let blocks = matches!(&cx.operands[1], OperandSource::Buffer(_, Some(p)) if p.role == PanelRole::Columns);
    let covers = |d: usize| {
        let extents = [&x[d + 2], &w[d + 2], &out[d + 2]].map(Expr::as_int);
        let [Some(image), Some(window), Some(results)] = extents else { return false };
        let (begin, last) = (attrs.pads_begin[d], (results - 1) * attrs.strides[d]);
        attrs.dilations[d] == 1 && image < window && begin >= last && image + begin <= window
    };
    let covered: Vec<bool> = (0..attrs.strides.len()).map(covers).collect();
    if each_alone && blocks && covered.contains(&true) { covered } else { vec![] }
}

/// `attrs` without padding along the axes that are `covered`.
fn without_padding(attrs: &ConvAttrs, covered: &[bool]) -> ConvAttrs {
    let mut attrs = attrs.clone();
    for pads in [&mut attrs.pads_begin, &mut attrs.pads_end] {
        pads.iter_mut().zip(covered).filter(|(_, covered)| **covered).for_each(|(p, _)| *p = 0);
    }
    attrs
}

/// A convolution whose weights are VNNI-packed: the input is copied into pairs of channels, with
/// its padding.
fn vnni_conv(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs) {
    let (x, w) = (cx.args[0].clone(), cx.args[1].clone());
    let extents = padded_extents(&x, attrs);
    let channels = x.shape[1].clone();
    let shape = [&[x.shape[0].clone(), channels.clone().ceildiv(2)], &extents[..]].concat();
    let (read, begin) = (cx.reader(0), &attrs.pads_begin);
    let pairs = cx.f.stage("pairs", "pairs", DType::U32, shape, |f, i| {
        let (inside, at) = source(begin, &extents, &x.shape, i);
        let value =
            vnni::pair(&i[1], &channels, &|c| read(f, &[&[i[0].clone(), c], &at[2..]].concat()));
        Expr::if_then_else(inside, value, Expr::int(0, DType::U32))
    });
    let (weights, groups) = (cx.reader(1), attrs.groups);
    let per_group = cx.outs[0].shape[1].clone().floordiv(groups);
    let depth = w.shape[1].clone().ceildiv(2);
    let reduced = [std::slice::from_ref(&depth), &w.shape[2..]].concat();
    accumulate(cx, &reduced, |f, i, k| {
        let mut at = vec![i[0].clone(), channel(groups, &i[1], &per_group, &k[0], &depth)];
        for d in 0..i.len() - 2 {
            at.push(i[d + 2].clone() * attrs.strides[d] + k[d + 1].clone() * attrs.dilations[d]);
        }
        weights(f, &[&i[1..2], k].concat()) * f.at(pairs, &at)
    });
}

/// `ConvInteger`: sums in int32 over words of four input channels; where a group has one channel,
/// over single products.
pub fn conv_integer(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs) -> Result<(), LegalizeError> {
    let (x, w) = (cx.args[0].clone(), cx.args[1].clone());
    let (Some(sign_x), Some(sign_w)) = (Sign::of(x.dtype), Sign::of(w.dtype)) else {
        return Err(cx.error("operands must be 8-bit integers"));
    };
    if w.shape[1].as_int() == Some(1) {
        single_products(cx, attrs);
        return Ok(());
    }
    let dot = Intrin::DotI8 { a: sign_w, b: sign_x };
    let groups = attrs.groups;
    let extents = padded_extents(&x, attrs);
    let (channels, depth) = (w.shape[1].clone(), w.shape[1].clone().ceildiv(4));
    let shape = [&[x.shape[0].clone(), depth.clone() * groups], &extents[..]].concat();
    let (read, begin) = (cx.reader(0), &attrs.pads_begin);
    let words = cx.f.stage("words", "words", DType::U32, shape, |f, i| {
        let (inside, at) = source(begin, &extents, &x.shape, i);
        let (group, word) = match groups {
            1 => (Expr::i64(0), i[1].clone()),
            _ => (i[1].clone().floordiv(depth.clone()), i[1].clone().floormod(depth.clone())),
        };
        let value = vnni::word(&word, &channels, &|c| {
            let c = if groups == 1 { c } else { group.clone() * channels.clone() + c };
            read(f, &[&[i[0].clone(), c], &at[2..]].concat())
        });
        Expr::if_then_else(inside, value, Expr::int(0, DType::U32))
    });
    let packed = matches!(&cx.operands[1],
        OperandSource::Buffer(_, Some(p)) if p.elements == PackedElements::Int8Words);
    let weights: ReadOperand = match packed {
        true => Box::new(cx.reader(1)),
        false => {
            let buffer = vnni::words(cx, 1, 1);
            Box::new(move |f, at| f.at(buffer, at))
        }
    };
    let per_group = cx.outs[0].shape[1].clone().floordiv(groups);
    let reduced = [std::slice::from_ref(&depth), &w.shape[2..]].concat();
    accumulate(cx, &reduced, |f, i, k| {
        let mut at = vec![i[0].clone(), channel(groups, &i[1], &per_group, &k[0], &depth)];
        for d in 0..i.len() - 2 {
            at.push(i[d + 2].clone() * attrs.strides[d] + k[d + 1].clone() * attrs.dilations[d]);
        }
        word_product(dot, weights(f, &[&i[1..2], k].concat()), f.at(words, &at))
    });
    Ok(())
}

/// A convolution of 8-bit integers, product by product.
fn single_products(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs) {
    let w = cx.args[1].clone();
    let padded = padded(cx, attrs);
    let (read, weights, groups) = (cx.reader(0), cx.reader(1), attrs.groups);
    let per_group = cx.outs[0].shape[1].clone().floordiv(groups);
    accumulate(cx, &w.shape[1..], |f, i, k| {
        let mut at = vec![i[0].clone(), channel(groups, &i[1], &per_group, &k[0], &w.shape[1])];
        for d in 0..i.len() - 2 {
            at.push(i[d + 2].clone() * attrs.strides[d] + k[d + 1].clone() * attrs.dilations[d]);
        }
        let value = match padded {
            Some(buffer) => f.at(buffer, &at),
            None => read(f, &at),
        };
        weights(f, &[&i[1..2], k].concat()).cast(DType::I32) * value.cast(DType::I32)
    });
}

/// The input channel that the weight's input channel `c` stands for, in the output channel's
/// group.
fn channel(groups: i64, out: &Expr, outs_per_group: &Expr, c: &Expr, ins_per_group: &Expr) -> Expr {
    match groups {
        1 => c.clone(),
        _ => out.clone().floordiv(outs_per_group.clone()) * ins_per_group.clone() + c.clone(),
    }
}

/// The input with its padding, if there is any.
fn padded(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs) -> Option<Buffer> {
    if attrs.pads_begin.iter().chain(&attrs.pads_end).all(|p| *p == 0) {
        return None;
    }
    let extents = padded_extents(&cx.args[0], attrs);
    Some(padded_by(cx, &attrs.pads_begin, &extents))
}

/// The input's positions and those of its padding.
fn padded_extents(x: &TensorType, attrs: &ConvAttrs) -> Vec<Expr> {
    let pads = attrs.pads_begin.iter().zip(&attrs.pads_end);
    let extents = x.shape[2..].iter().zip(pads).map(|(n, (begin, end))| match begin + end {
        0 => n.clone(),
        more => n.clone() + more,
    });
    extents.collect()
}

/// The input with `begin` zeros before and as many after as `extents` needs.
pub fn padded_by(cx: &mut OpBuilder<'_>, begin: &[i64], extents: &[Expr]) -> Buffer {
    let x = cx.args[0].clone();
    let shape = [&x.shape[..2], extents].concat();
    let read = cx.reader(0);
    cx.f.stage("pad", "padded", x.dtype, shape, |f, i| {
        let (inside, at) = source(begin, extents, &x.shape, i);
        Expr::if_then_else(inside, read(f, &at), Expr::constant(0.0, x.dtype))
    })
}

/// The index in the feature map `x` of an element of its padded copy, and whether that is inside.
fn source(begin: &[i64], extents: &[Expr], x: &[Expr], i: &[Expr]) -> (Expr, Vec<Expr>) {
    let mut at = i[..2].to_vec();
    let mut inside = Expr::bool(true);
    for d in 0..begin.len() {
        let from = i[d + 2].clone() - begin[d];
        if begin[d] != 0 {
            inside = inside.and(from.clone().ge(0));
        }
        if extents[d] != x[d + 2] {
            inside = inside.and(from.clone().lt(x[d + 2].clone()));
        }
        at.push(from);
    }
    (inside, at)
}

/// The sum over `reduced`, then bias and rounding where there are any.
fn accumulate(
    cx: &mut OpBuilder<'_>,
    reduced: &[Expr],
    element: impl FnOnce(&FuncBuilder, &[Expr], &[Expr]) -> Expr,
) {
    let out = cx.outs[0].clone();
    let work = compute_type(out.dtype);
    let reducer = Reducer { init: Expr::constant(0.0, work), combine: &sum_of_products };
    let bias = cx.args.len() > 2;
    // Sums in blocks of channels have a buffer of their own: the result may be stored otherwise.
    let blocks = matches!(&cx.operands[1], OperandSource::Buffer(_, Some(p)) if p.role == PanelRole::Columns);
    let last = matches!(&cx.operands[1], OperandSource::Buffer(_, Some(p)) if p.role == PanelRole::Channels);
    if !bias && work == out.dtype && !blocks && !last {
        cx.f.reduce_output("conv", "y", work, out.shape, reduced, reducer, element);
        return;
    }
    if last {
        let mut shape = out.shape;
        shape[1..].rotate_left(1);
        let element = |f: &FuncBuilder, i: &[Expr], k: &[Expr]| {
            let mut at = i.to_vec();
            at[1..].rotate_right(1);
            element(f, &at, k)
        };
        let sum = cx.f.reduce_stage("conv", "sum", work, shape, reduced, reducer, element);
        return add_bias(cx, sum, &|i| {
            let mut at = i.to_vec();
            at[1..].rotate_left(1);
            at
        });
    }
    let sum = cx.f.reduce_stage("conv", "sum", work, out.shape, reduced, reducer, element);
    add_bias(cx, sum, &<[Expr]>::to_vec);
}

/// The result: sums (at the index that `position` gives), their bias where there is one, rounded.
pub fn add_bias(cx: &mut OpBuilder<'_>, sum: Buffer, position: &dyn Fn(&[Expr]) -> Vec<Expr>) {
    let TensorType { dtype, shape } = cx.outs[0].clone();
    let work = compute_type(dtype);
    let bias = (cx.args.len() > 2).then(|| cx.reader(2));
    cx.f.output("bias", "y", dtype, shape, |f, i| {
        let sum = f.at(sum, &position(i));
        let value = match bias {
            Some(bias) => sum + bias(f, &i[1..2]).cast(work),
            None => sum,
        };
        value.cast(dtype)
    });
}

/// `ConvTranspose`: the input spread out by the strides with zeros between and around, then a
/// convolution of stride 1 with the kernel reversed.
pub fn conv_transpose(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs) {
    let (w, out) = (cx.args[1].clone(), cx.outs[0].clone());
    let spatial = attrs.strides.len();
    let spread = spread(cx, attrs);
    let (weights, groups) = (cx.reader(1), attrs.groups);
    let work = compute_type(out.dtype);
    let outs_per_group = w.shape[1].clone();
    let ins_per_group = cx.args[0].shape[1].clone().floordiv(groups);
    let mut reduced = vec![ins_per_group.clone()];
    reduced.extend_from_slice(&w.shape[2..]);
    accumulate(cx, &reduced, |f, i, k| {
        let c = channel(groups, &i[1], &outs_per_group, &k[0], &ins_per_group);
        let mut at = vec![i[0].clone(), c.clone()];
        let mut w_at = vec![c, i[1].clone().floormod(outs_per_group.clone())];
        if groups == 1 {
            w_at[1] = i[1].clone();
        }
        for d in 0..spatial {
            at.push(i[d + 2].clone() + k[d + 1].clone() * attrs.dilations[d]);
            w_at.push(w.shape[d + 2].clone() - 1 - k[d + 1].clone());
        }
        weights(f, &w_at).cast(work) * f.at(spread, &at).cast(work)
    });
}

/// Element `p` of an axis of the spread input is input element
/// `(p - dilation * (kernel - 1) + pad) / stride` where that is exact and inside, else 0.
fn spread(cx: &mut OpBuilder<'_>, attrs: &ConvAttrs) -> Buffer {
    let (x, w, out) = (cx.args[0].clone(), cx.args[1].clone(), cx.outs[0].clone());
    let mut shape = x.shape[..2].to_vec();
    let reach: Vec<Expr> = (0..attrs.strides.len())
        .map(|d| (w.shape[d + 2].clone() - 1) * attrs.dilations[d])
        .collect();
    for (d, reach) in reach.iter().enumerate() {
        shape.push(out.shape[d + 2].clone() + reach.clone());
    }
    let read = cx.reader(0);
    cx.f.stage("spread", "spread", x.dtype, shape, |f, i| {
        let mut at = i[..2].to_vec();
        let mut inside = Expr::bool(true);
        for (d, reach) in reach.iter().enumerate() {
            let from = i[d + 2].clone() + attrs.pads_begin[d] - reach.clone();
            inside = inside.and(from.clone().ge(0));
            if attrs.strides[d] != 1 {
                inside = inside.and(from.clone().floormod(attrs.strides[d]).equal(0));
            }
            let from = from.floordiv(attrs.strides[d]);
            inside = inside.and(from.clone().lt(x.shape[d + 2].clone()));
            at.push(from);
        }
        Expr::if_then_else(inside, read(f, &at), Expr::constant(0.0, x.dtype))
    })
}
