//! Matrix multiplication and convolutions.

use super::elementwise::broadcast_shape;
use super::error::{EvalError, Result};
use super::movement::{broadcast, reshape};
use super::scalar::{Scalar, Scalars, decode, tensor};
use super::shape::count;
use crate::literal::Literal;
use crate::op::ConvAttrs;
use crate::strides::{strides, walk};

pub(super) fn matmul(a: &Literal, b: &Literal) -> Result<Literal> {
    let bad = || EvalError::new(format!("matmul of {a:?} and {b:?}"));
    if a.dtype() != b.dtype() || a.shape().is_empty() || b.shape().is_empty() {
        return Err(bad());
    }
    // A vector is a row on the left and a column on the right; its axis is dropped after.
    let (row, column) = (a.shape().len() == 1, b.shape().len() == 1);
    let a2 = if row { reshape(a, vec![1, a.shape()[0]])? } else { a.clone() };
    let b2 = if column { reshape(b, vec![b.shape()[0], 1])? } else { b.clone() };
    let (ra, rb) = (a2.shape().len() - 2, b2.shape().len() - 2);
    let (m, k, n) = (a2.shape()[ra], a2.shape()[ra + 1], b2.shape()[rb + 1]);
    if b2.shape()[rb] != k {
        return Err(bad());
    }
    let batch = broadcast_shape(&a2.shape()[..ra], &b2.shape()[..rb])?;
    let full = |x: &Literal, r: usize| {
        let mut shape = batch.clone();
        shape.extend_from_slice(&x.shape()[r..]);
        broadcast(x, &shape)
    };
    let (a3, b3) = (full(&a2, ra)?, full(&b2, rb)?);
    let batches = count(&batch)?;
    let gemm = Gemm { batches, m: m as usize, k: k as usize, n: n as usize };
    let y = match (decode(&a3)?, decode(&b3)?) {
        (Scalars::Float(x), Scalars::Float(y)) => Scalars::Float(multiply(&x, &y, &gemm)),
        (Scalars::Int(x), Scalars::Int(y)) => Scalars::Int(multiply(&x, &y, &gemm)),
        _ => unreachable!("the element types are equal"),
    };
    let mut shape = batch;
    if !row {
        shape.push(m);
    }
    if !column {
        shape.push(n);
    }
    tensor(a.dtype(), shape, &y)
}

/// Extents of a batched matrix multiplication `[m, k] x [k, n]`.
struct Gemm {
    batches: usize,
    m: usize,
    k: usize,
    n: usize,
}

fn multiply<T: Scalar>(a: &[T], b: &[T], gemm: &Gemm) -> Vec<T> {
    let Gemm { batches, m, k, n } = *gemm;
    let mut out = vec![T::ZERO; batches * m * n];
    for row in 0..batches * m {
        let batch = row / m;
        let c = &mut out[row * n..(row + 1) * n];
        for i in 0..k {
            let x = a[row * k + i];
            let line = &b[(batch * k + i) * n..][..n];
            c.iter_mut().zip(line).for_each(|(c, y)| *c = c.add(x.mul(*y)));
        }
    }
    out
}

/// Dimensions shared by the convolutions; the vectors have one entry per spatial axis.
struct Geometry<'a> {
    attrs: &'a ConvAttrs,
    batch: i64,
    in_channels: i64,
    /// Output channels of all groups.
    out_channels: i64,
    input: Vec<i64>,
    kernel: Vec<i64>,
    output: Vec<i64>,
}

impl Geometry<'_> {
    /// The input position that kernel position `k` of output position `o` reads.
    fn source(&self, o: &[i64], k: &[i64]) -> Option<i64> {
        let mut flat = 0;
        for axis in 0..o.len() {
            let at = o[axis] * self.attrs.strides[axis] - self.attrs.pads_begin[axis]
                + k[axis] * self.attrs.dilations[axis];
            if !(0..self.input[axis]).contains(&at) {
                return None;
            }
            flat = flat * self.input[axis] + at;
        }
        Some(flat)
    }
}

fn unflatten(mut flat: i64, shape: &[i64]) -> Vec<i64> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = flat % shape[axis];
        flat /= shape[axis];
    }
    index
}

/// Pairs (kernel position, input position) for each output position.
fn taps(g: &Geometry<'_>) -> Result<Vec<Vec<(usize, usize)>>> {
    let (outs, kernels) = (count(&g.output)?, count(&g.kernel)?);
    let kernels: Vec<Vec<i64>> = (0..kernels as i64).map(|k| unflatten(k, &g.kernel)).collect();
    Ok((0..outs as i64)
        .map(|o| {
            let o = unflatten(o, &g.output);
            let tap = |(k, at): (usize, &Vec<i64>)| g.source(&o, at).map(|i| (k, i as usize));
            kernels.iter().enumerate().filter_map(tap).collect()
        })
        .collect())
}

fn check_attrs(attrs: &ConvAttrs, args: &[&Literal]) -> Result<usize> {
    let (x, w) = (args[0], args[1]);
    let spatial = x.shape().len().wrapping_sub(2);
    let lists = [&attrs.strides, &attrs.pads_begin, &attrs.pads_end, &attrs.dilations];
    let good = x.shape().len() >= 2
        && w.shape().len() == x.shape().len()
        && lists.iter().all(|l| l.len() == spatial)
        && attrs.strides.iter().chain(&attrs.dilations).all(|v| *v > 0)
        && attrs.groups > 0
        && args.iter().all(|a| a.dtype() == x.dtype());
    if good {
        return Ok(spatial);
    }
    Err(EvalError::new(format!("convolution of {args:?} with {attrs:?}")))
}

pub(super) fn conv(attrs: &ConvAttrs, args: &[&Literal]) -> Result<Literal> {
    let spatial = check_attrs(attrs, args)?;
    let (x, w) = (args[0], args[1]);
    let (n, c, o) = (x.shape()[0], x.shape()[1], w.shape()[0]);
    if c % attrs.groups != 0 || o % attrs.groups != 0 || w.shape()[1] != c / attrs.groups {
        return Err(EvalError::new(format!("convolution of {x:?} by {w:?} with {attrs:?}")));
    }
    let (input, kernel) = (x.shape()[2..].to_vec(), w.shape()[2..].to_vec());
    let output: Vec<i64> = (0..spatial)
        .map(|i| {
            let padded = input[i] + attrs.pads_begin[i] + attrs.pads_end[i];
            (padded - attrs.dilations[i] * (kernel[i] - 1) - 1).div_euclid(attrs.strides[i]) + 1
        })
        .collect();
    let mut shape = vec![n, o];
    shape.extend_from_slice(&output);
    count(&shape)?;
    let g = Geometry { attrs, batch: n, in_channels: c, out_channels: o, input, kernel, output };
    let bias = args.get(2).map(|b| decode(b)).transpose()?;
    let y = match (decode(x)?, decode(w)?, bias) {
        (Scalars::Float(x), Scalars::Float(w), b) => {
            let b = b.map(each_float);
            Scalars::Float(convolve(&x, &w, b.as_deref(), &g)?)
        }
        (Scalars::Int(x), Scalars::Int(w), b) => {
            let b = b.map(each_int);
            Scalars::Int(convolve(&x, &w, b.as_deref(), &g)?)
        }
        _ => unreachable!("the element types are equal"),
    };
    tensor(x.dtype(), shape, &y)
}

fn each_float(n: Scalars) -> Vec<f64> {
    match n {
        Scalars::Float(v) => v,
        Scalars::Int(v) => v.into_iter().map(|v| v as f64).collect(),
    }
}

fn each_int(n: Scalars) -> Vec<i128> {
    match n {
        Scalars::Int(v) => v,
        Scalars::Float(v) => v.into_iter().map(|v| v as i128).collect(),
    }
}

fn convolve<T: Scalar>(x: &[T], w: &[T], bias: Option<&[T]>, g: &Geometry<'_>) -> Result<Vec<T>> {
    let (positions, kernel, outs) = (count(&g.input)?, count(&g.kernel)?, count(&g.output)?);
    let (n, c, o) = (g.batch as usize, g.in_channels as usize, g.out_channels as usize);
    let groups = g.attrs.groups as usize;
    let (cg, og) = (c / groups, o / groups);
    if bias.is_some_and(|b| b.len() != o) {
        return Err(EvalError::new("the bias does not have one value per output channel"));
    }
    let taps = taps(g)?;
    let mut out = Vec::with_capacity(n * o * outs);
    for row in 0..n * o {
        let (batch, channel) = (row / o, row % o);
        let first = batch * c + channel / og * cg;
        for taps in &taps {
            let mut sum = bias.map_or(T::ZERO, |b| b[channel]);
            for i in 0..cg {
                let (xs, ws) = ((first + i) * positions, (channel * cg + i) * kernel);
                for (k, at) in taps {
                    sum = sum.add(x[xs + at].mul(w[ws + k]));
                }
            }
            out.push(sum);
        }
    }
    Ok(out)
}

pub(super) fn conv_transpose(
    attrs: &ConvAttrs,
    output_padding: &[i64],
    args: &[&Literal],
) -> Result<Literal> {
    let spatial = check_attrs(attrs, args)?;
    let (x, w) = (args[0], args[1]);
    let (n, c, og) = (x.shape()[0], x.shape()[1], w.shape()[1]);
    let bad = || EvalError::new(format!("transposed convolution of {args:?} with {attrs:?}"));
    if w.shape()[0] != c || c % attrs.groups != 0 || output_padding.len() != spatial {
        return Err(bad());
    }
    let (input, kernel) = (x.shape()[2..].to_vec(), w.shape()[2..].to_vec());
    let output: Vec<i64> = (0..spatial)
        .map(|i| {
            (input[i] - 1) * attrs.strides[i] + attrs.dilations[i] * (kernel[i] - 1) + 1
                - attrs.pads_begin[i]
                - attrs.pads_end[i]
                + output_padding[i]
        })
        .collect();
    let o = og * attrs.groups;
    let mut shape = vec![n, o];
    shape.extend_from_slice(&output);
    count(&shape)?;
    if args.get(2).is_some_and(|b| b.count() as i64 != o) {
        return Err(bad());
    }
    // A transposed convolution scatters along the taps of the convolution from output to input.
    let g = Geometry {
        attrs,
        batch: n,
        in_channels: c,
        out_channels: o,
        input: output,
        kernel,
        output: input,
    };
    let bias = args.get(2).map(|b| decode(b)).transpose()?;
    let y = match (decode(x)?, decode(w)?, bias) {
        (Scalars::Float(x), Scalars::Float(w), b) => {
            let b = b.map(each_float);
            Scalars::Float(scatter_taps(&x, &w, b.as_deref(), &g)?)
        }
        (Scalars::Int(x), Scalars::Int(w), b) => {
            let b = b.map(each_int);
            Scalars::Int(scatter_taps(&x, &w, b.as_deref(), &g)?)
        }
        _ => unreachable!("the element types are equal"),
    };
    tensor(x.dtype(), shape, &y)
}

fn scatter_taps<T: Scalar>(
    x: &[T],
    w: &[T],
    bias: Option<&[T]>,
    g: &Geometry<'_>,
) -> Result<Vec<T>> {
    let (outs, kernel, positions) = (count(&g.input)?, count(&g.kernel)?, count(&g.output)?);
    let (n, c, o) = (g.batch as usize, g.in_channels as usize, g.out_channels as usize);
    let groups = g.attrs.groups as usize;
    let (og, cg) = (o / groups, c / groups);
    let taps = taps(g)?;
    let mut out = vec![T::ZERO; n * o * outs];
    if let Some(bias) = bias {
        for (row, line) in out.chunks_exact_mut(outs.max(1)).enumerate() {
            line.fill(bias[row % o]);
        }
    }
    for batch in 0..n {
        for channel in 0..c {
            for j in 0..og {
                let to = (batch * o + channel / cg * og + j) * outs;
                for (position, taps) in taps.iter().enumerate() {
                    let value = x[(batch * c + channel) * positions + position];
                    for (k, at) in taps {
                        let weight = w[(channel * og + j) * kernel + k];
                        out[to + at] = out[to + at].add(value.mul(weight));
                    }
                }
            }
        }
    }
    Ok(out)
}

/// Applies a linear map along `axis`: output `j` is the sum of `weight * x[index]`.
pub(super) fn along_axis(
    x: &[f64],
    shape: &[i64],
    axis: usize,
    rows: &[Vec<(i64, f64)>],
) -> Vec<f64> {
    let mut out_shape = shape.to_vec();
    out_shape[axis] = rows.len() as i64;
    let mut from = strides(shape);
    let step = std::mem::replace(&mut from[axis], 0);
    let mut pick = vec![0; shape.len()];
    pick[axis] = 1;
    let mut out = Vec::with_capacity(out_shape.iter().product::<i64>() as usize);
    walk(&out_shape, [&from, &pick], |_, [base, j]| {
        let taps = &rows[j as usize];
        out.push(taps.iter().map(|(i, w)| w * x[(base + i * step) as usize]).sum());
    });
    out
}
