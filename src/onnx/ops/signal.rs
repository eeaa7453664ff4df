//! Signals: discrete Fourier transforms, and the weights of mel filters.
//!
//! A transform of `n` elements is a product with the matrix of `exp(-2 pi i j k / n)`. Angles are
//! reduced as integers, `j k mod n`, and computed in float64, so that the matrix has no error beyond
//! its rounding. Where `n` has a factor near its root, the transform is done in two steps of
//! smaller matrices with twiddle factors between (Cooley and Tukey 1965; Bailey's four-step form),
//! as often as that pays.

use reflex_graph::{Binary, Op, PadMode, Unary, dims};
use reflex_tir::{DType, Expr};

use super::dynamic_axis::DynamicAxis;
use super::sample::work_type;
use super::table::{Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::tensor::{computes, dtype};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("DFT", dft), ("MelWeightMatrix", mel_weights), ("STFT", stft)];

/// Transforms of at most this many elements are one product.
const DIRECT: i64 = 64;

/// Sign of the exponent.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Forward,
    Inverse,
}

/// The parts of complex results that are wanted.
#[derive(Clone, Copy, PartialEq)]
enum Parts {
    Real,
    Both,
}

/// Complex numbers in two tensors; no imaginary part means that it is zero.
#[derive(Clone)]
struct Complex {
    real: Tensor,
    imaginary: Option<Tensor>,
}

fn dft(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let parts = x.shape().last().and_then(Expr::as_int);
    let Some(parts @ (1 | 2)) = parts.filter(|_| x.rank() >= 2 && x.dtype().is_float()) else {
        return Err(invalid(format!("a signal of type {}", x.ty)));
    };
    let given = if call.opset >= 20 { call.opt(2)? } else { None };
    if let Some(given) = given.filter(|axis| axis.as_ints().is_none()) {
        let split = DynamicAxis::split(cx, x, given)?;
        let [outer, extent, inner] = [0, 1, 2].map(|i| split.flat.shape()[i].clone());
        let apart = [outer, extent, inner.floordiv(parts), Expr::i64(parts)];
        let apart = cx.reshape(&split.flat, &apart)?;
        let y = dft_along(cx, call, &apart, 1)?;
        return one(split.replaced(cx, &y, &y.shape()[1], &y.shape()[3])?);
    }
    let along = match given.and_then(Tensor::as_ints) {
        Some(known) => axis(known.first().copied().ok_or_else(|| invalid("no axis"))?, x.rank())?,
        None if call.opset >= 20 => x.rank() - 2,
        None => call.axis("axis", 1, x.rank())?,
    };
    if along + 1 == x.rank() {
        return Err(invalid(format!("axis {along} of {}", x.ty)));
    }
    one(dft_along(cx, call, x, along)?)
}

/// The transform of `x` `[..., 1 or 2]` along an axis.
fn dft_along(cx: &mut ImportContext, call: &Call, x: &Tensor, along: usize) -> Result<Tensor> {
    let inverse = call.flag("inverse")?;
    let onesided = call.flag("onesided")?;
    let length = match call.opt(1)? {
        Some(length) => {
            let length = cx.reshape(length, &[])?;
            cx.dims_of(&length, "dft_length")?[0].clone()
        }
        None if inverse && onesided => dims::simplify(&((x.shape()[along].clone() - 1) * 2).max(0)),
        None => x.shape()[along].clone(),
    };
    let wide = cx.cast(x, work_type(x.dtype()))?;
    // The axis goes last.
    let mut perm: Vec<usize> = (0..x.rank() - 1).filter(|i| *i != along).collect();
    perm.push(along);
    let mut signal = parts_of(cx, &wide, &perm)?;
    let bins = dims::simplify(&(length.clone().floordiv(2) + 1));
    let (given, kept) = match (inverse, onesided) {
        (true, true) => (bins, length.clone()),
        (false, true) => (length.clone(), bins),
        _ => (length.clone(), length.clone()),
    };
    signal.resize(cx, &given)?;
    let mut y = match (inverse, onesided) {
        (true, true) => real_inverse(cx, &signal, &length)?,
        (true, false) => transform(cx, &signal, &length, Direction::Inverse)?,
        (false, _) => transform(cx, &signal, &length, Direction::Forward)?,
    };
    y.resize(cx, &kept)?;
    if inverse {
        y.scale(cx, &length)?;
    }
    let mut back: Vec<usize> = vec![0; perm.len()];
    for (to, from) in perm.iter().enumerate() {
        back[*from] = to;
    }
    let parts = if inverse && onesided { Parts::Real } else { Parts::Both };
    let result = y.joined(cx, &back, parts)?;
    cx.cast(&result, x.dtype())
}

/// The parts of a signal, permuted.
fn parts_of(cx: &mut ImportContext, x: &Tensor, perm: &[usize]) -> Result<Complex> {
    let last = x.rank() - 1;
    let mut part = |index: i64| -> Result<Tensor> {
        let part = cx.slice(x, last, &Expr::i64(index), &Expr::i64(1))?;
        let part = cx.squeeze(&part, &[last])?;
        cx.transpose(&part, perm)
    };
    let real = part(0)?;
    let two = x.shape()[last].as_int() == Some(2);
    let imaginary = if two { Some(part(1)?) } else { None };
    Ok(Complex { real, imaginary })
}

impl Complex {
    fn each(&mut self, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<()> {
        self.real = f(&self.real)?;
        if let Some(imaginary) = &mut self.imaginary {
            *imaginary = f(imaginary)?;
        }
        Ok(())
    }

    /// Cuts the last axis to `extent`, or fills it up with zeros.
    fn resize(&mut self, cx: &mut ImportContext, extent: &Expr) -> Result<()> {
        self.each(|x| {
            let last = x.rank() - 1;
            let missing = dims::simplify(&(extent.clone() - x.shape()[last].clone()));
            match missing.as_int() {
                Some(0) => Ok(x.clone()),
                Some(n) if n < 0 => cx.slice(x, last, &Expr::i64(0), extent),
                _ => {
                    let before = vec![Expr::i64(0); x.rank()];
                    let mut after = before.clone();
                    after[last] = missing;
                    let zero = cx.num(0.0, x.dtype())?;
                    cx.op(Op::Pad { mode: PadMode::Constant, before, after }, &[x, &zero])
                }
            }
        })
    }

    /// Divides by a number of elements.
    fn scale(&mut self, cx: &mut ImportContext, length: &Expr) -> Result<()> {
        let length = cx.dim_as(length, self.real.dtype())?;
        self.each(|x| cx.div(x, &length))
    }

    /// Both parts along a new last axis, or the real one alone.
    fn joined(&self, cx: &mut ImportContext, perm: &[usize], parts: Parts) -> Result<Tensor> {
        let zero = cx.num(0.0, self.real.dtype())?;
        let imaginary = match &self.imaginary {
            Some(imaginary) => imaginary.clone(),
            None => cx.broadcast(&zero, self.real.shape())?,
        };
        let last = self.real.rank();
        let mut joined = vec![];
        let both = [&self.real, &imaginary];
        for part in &both[..if parts == Parts::Real { 1 } else { 2 }] {
            let part = cx.transpose(part, perm)?;
            joined.push(cx.unsqueeze(&part, &[last])?);
        }
        cx.concat(&joined, last)
    }

    fn matmul(&self, cx: &mut ImportContext, m: &Complex) -> Result<Complex> {
        let none = || unsupported("a real matrix");
        let m_imaginary = m.imaginary.as_ref().ok_or_else(none)?;
        let real = cx.matmul(&self.real, &m.real)?;
        let imaginary = cx.matmul(&self.real, m_imaginary)?;
        let Some(own) = &self.imaginary else {
            return Ok(Complex { real, imaginary: Some(imaginary) });
        };
        let less = cx.matmul(own, m_imaginary)?;
        let more = cx.matmul(own, &m.real)?;
        Ok(Complex { real: cx.sub(&real, &less)?, imaginary: Some(cx.add(&imaginary, &more)?) })
    }

    fn times(&self, cx: &mut ImportContext, m: &Complex) -> Result<Complex> {
        let none = || unsupported("a real factor");
        let other = m.imaginary.as_ref().ok_or_else(none)?;
        let Some(own) = &self.imaginary else {
            let (real, imaginary) = (cx.mul(&self.real, &m.real)?, cx.mul(&self.real, other)?);
            return Ok(Complex { real, imaginary: Some(imaginary) });
        };
        let (a, b) = (cx.mul(&self.real, &m.real)?, cx.mul(own, other)?);
        let (c, d) = (cx.mul(&self.real, other)?, cx.mul(own, &m.real)?);
        Ok(Complex { real: cx.sub(&a, &b)?, imaginary: Some(cx.add(&c, &d)?) })
    }
}

/// `exp(s 2 pi i j k / period)` for `j` and `k` below `rows` and `columns`.
fn roots(
    cx: &mut ImportContext,
    [rows, columns, period]: [&Expr; 3],
    direction: Direction,
    to: DType,
) -> Result<Complex> {
    let j = cx.iota(rows)?;
    let j = cx.unsqueeze(&j, &[1])?;
    let k = cx.iota(columns)?;
    let product = cx.mul(&j, &k)?;
    let length = Tensor::dim(&dims::simplify(&period.clone().max(1)));
    let turn = cx.binary(Binary::FloorMod, &product, &length)?;
    let turn = cx.cast(&turn, DType::F64)?;
    let length = cx.cast(&length, DType::F64)?;
    let sign = if direction == Direction::Forward { -1.0 } else { 1.0 };
    let angle = cx.binary_num(Binary::Mul, &turn, sign * std::f64::consts::TAU)?;
    let angle = cx.div(&angle, &length)?;
    let (real, imaginary) = (cx.unary(Unary::Cos, &angle)?, cx.unary(Unary::Sin, &angle)?);
    Ok(Complex { real: cx.cast(&real, to)?, imaginary: Some(cx.cast(&imaginary, to)?) })
}

/// The transform of the last axis, which has `length` elements.
fn transform(
    cx: &mut ImportContext,
    x: &Complex,
    length: &Expr,
    direction: Direction,
) -> Result<Complex> {
    let dtype = x.real.dtype();
    let split = length.as_int().filter(|n| *n > DIRECT).and_then(factor);
    let Some(inner) = split else {
        let matrix = roots(cx, [length, length, length], direction, dtype)?;
        return x.matmul(cx, &matrix);
    };
    let outer = Expr::i64(length.as_int().unwrap_or(0) / inner);
    let inner = Expr::i64(inner);
    let lead = x.real.shape()[..x.real.rank() - 1].to_vec();
    let rank = lead.len();
    // Element `a * inner + b` is at `[b, a]`: transform over `a`, twiddle, transform over `b`.
    let mut grid = x.clone();
    let apart = [lead.as_slice(), &[outer.clone(), inner.clone()]].concat();
    let mut swap: Vec<usize> = (0..rank + 2).collect();
    swap.swap(rank, rank + 1);
    grid.each(|x| {
        let x = cx.reshape(x, &apart)?;
        cx.transpose(&x, &swap)
    })?;
    let grid = transform(cx, &grid, &outer, direction)?;
    let twiddle = roots(cx, [&inner, &outer, length], direction, dtype)?;
    let mut grid = grid.times(cx, &twiddle)?;
    grid.each(|x| cx.transpose(x, &swap))?;
    let mut y = transform(cx, &grid, &inner, direction)?;
    // Bin `q * outer + p` is at `[p, q]`.
    let whole = [lead.as_slice(), std::slice::from_ref(length)].concat();
    y.each(|x| {
        let x = cx.transpose(x, &swap)?;
        cx.reshape(&x, &whole)
    })?;
    Ok(y)
}

/// The greatest factor of `n` up to its root, if that is not 1.
fn factor(n: i64) -> Option<i64> {
    (2..).take_while(|f| f * f <= n).filter(|f| n % f == 0).last()
}

/// The real signal of `length` elements whose bins up to half of it are `x`; not yet scaled.
fn real_inverse(cx: &mut ImportContext, x: &Complex, length: &Expr) -> Result<Complex> {
    let dtype = x.real.dtype();
    let bins = x.real.shape().last().cloned().ok_or_else(|| invalid("no axis"))?;
    let matrix = roots(cx, [&bins, length, length], Direction::Inverse, dtype)?;
    // A bin stands for its mirror image too, where that is another one.
    let bin = cx.iota(&bins)?;
    let double = cx.binary_num(Binary::Mul, &bin, 2.0)?;
    let mirror = cx.binary(Binary::FloorMod, &double, &Tensor::dim(&length.clone().max(1)))?;
    let zero = Tensor::dim(&Expr::i64(0));
    let own = cx.binary(Binary::Equal, &mirror, &zero)?;
    let (once, twice) = (cx.num(1.0, dtype)?, cx.num(2.0, dtype)?);
    let weight = cx.choose(&own, &once, &twice)?;
    let real = cx.mul(&x.real, &weight)?;
    let mut sum = cx.matmul(&real, &matrix.real)?;
    if let (Some(own), Some(sines)) = (&x.imaginary, &matrix.imaginary) {
        let part = cx.mul(own, &weight)?;
        let part = cx.matmul(&part, sines)?;
        sum = cx.sub(&sum, &part)?;
    }
    Ok(Complex { real: sum, imaginary: None })
}

fn stft(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let parts = x.shape().last().and_then(Expr::as_int);
    // The last axis may be left out where the signal is real.
    let x = match (x.rank(), parts) {
        (3, Some(1 | 2)) => x.clone(),
        (2, _) => cx.unsqueeze(x, &[2])?,
        _ => return Err(invalid(format!("a signal of type {}", x.ty))),
    };
    let step = cx.reshape(call.input(1)?, &[])?;
    let step = cx.cast(&step, DType::I64)?;
    let window = call.opt(2)?;
    let frame = match (call.opt(3)?, window) {
        (Some(length), _) => {
            let length = cx.reshape(length, &[])?;
            cx.dims_of(&length, "frame_length")?[0].clone()
        }
        (None, Some(window)) if window.rank() == 1 => window.shape()[0].clone(),
        (None, _) => x.shape()[1].clone(),
    };
    if let Some(window) = window {
        cx.check_dim(&window.shape()[0], &frame)?;
    }
    let one_step = cx.binary_num(Binary::Max, &step, 1.0)?;
    let spare = Tensor::dim(&dims::simplify(&(x.shape()[1].clone() - frame.clone())));
    let frames = cx.binary(Binary::Div, &spare, &one_step)?;
    let frames = cx.binary_num(Binary::Add, &frames, 1.0)?;
    let frames = cx.dims_of(&frames, "frames")?[0].clone();
    let starts = cx.iota(&frames)?;
    let starts = cx.mul(&starts, &one_step)?;
    let starts = cx.unsqueeze(&starts, &[1])?;
    let inner = cx.iota(&frame)?;
    let at = cx.add(&starts, &inner)?;
    let cut = cx.take(&x, &at, 1)?;
    let work = work_type(x.dtype());
    let mut cut = cx.cast(&cut, work)?;
    if let Some(window) = window {
        let window = cx.cast(window, work)?;
        let window = cx.unsqueeze(&window, &[1])?;
        cut = cx.mul(&cut, &window)?;
    }
    let signal = parts_of(cx, &cut, &[0, 1, 2])?;
    let mut y = transform(cx, &signal, &frame, Direction::Forward)?;
    if call.flag_or_true("onesided")? {
        y.resize(cx, &dims::simplify(&(frame.floordiv(2) + 1)))?;
    }
    let result = y.joined(cx, &[0, 1, 2], Parts::Both)?;
    one(cx.cast(&result, x.dtype())?)
}

/// Triangular filters with edges at equal steps of the mel scale, `[bins, filters]`.
fn mel_weights(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let to = dtype(i32::try_from(call.int("output_datatype", 1)?).unwrap_or(0))?;
    if !computes(to) {
        return Err(unsupported(format!("element type {to}")));
    }
    let mut scalars = vec![];
    for index in 0..5 {
        scalars.push(cx.reshape(call.input(index)?, &[])?);
    }
    let filters = cx.dims_of(&scalars[0], "num_mel_bins")?[0].clone();
    let length = cx.dims_of(&scalars[1], "dft_length")?[0].clone();
    let rate = cx.cast(&scalars[2], DType::F64)?;
    let mut mels = vec![];
    for edge in &scalars[3..] {
        let edge = cx.cast(edge, DType::F64)?;
        let part = cx.binary_num(Binary::Div, &edge, 700.0)?;
        let part = cx.binary_num(Binary::Add, &part, 1.0)?;
        let log = cx.unary(Unary::Log, &part)?;
        mels.push(cx.binary_num(Binary::Mul, &log, 2595.0 / std::f64::consts::LN_10)?);
    }
    let edges = dims::simplify(&(filters.clone() + 2));
    let count = cx.dim_as(&edges, DType::F64)?;
    let span = cx.sub(&mels[1], &mels[0])?;
    let step = cx.div(&span, &count)?;
    let index = cx.iota(&edges)?;
    let index = cx.cast(&index, DType::F64)?;
    let mel = cx.mul(&index, &step)?;
    let mel = cx.add(&mel, &mels[0])?;
    let power = cx.binary_num(Binary::Mul, &mel, std::f64::consts::LN_10 / 2595.0)?;
    let power = cx.unary(Unary::Exp, &power)?;
    let hertz = cx.binary_num(Binary::Sub, &power, 1.0)?;
    let hertz = cx.binary_num(Binary::Mul, &hertz, 700.0)?;
    let bins = cx.dim_as(&(length.clone() + 1), DType::F64)?;
    let at = cx.mul(&hertz, &bins)?;
    let at = cx.div(&at, &rate)?;
    let at = cx.unary(Unary::Floor, &at)?;
    let mut corners = vec![];
    for first in 0..3 {
        corners.push(cx.slice(&at, 0, &Expr::i64(first), &filters)?);
    }
    let bins = dims::simplify(&(length.floordiv(2) + 1));
    one(triangles(cx, &bins, &corners, to)?)
}

/// The heights of triangles from `corners[0]` over `corners[1]` to `corners[2]` at each bin.
fn triangles(cx: &mut ImportContext, bins: &Expr, corners: &[Tensor], to: DType) -> Result<Tensor> {
    let [low, peak, high] = corners else { return Err(invalid("three corners")) };
    let bin = cx.iota(bins)?;
    let bin = cx.cast(&bin, DType::F64)?;
    let bin = cx.unsqueeze(&bin, &[1])?;
    let (rise, fall) = (cx.sub(peak, low)?, cx.sub(high, peak)?);
    let zero = cx.num(0.0, DType::F64)?;
    let [rise_width, fall_width] =
        [cx.binary_num(Binary::Max, &rise, 1.0)?, cx.binary_num(Binary::Max, &fall, 1.0)?];
    let up = cx.sub(&bin, low)?;
    let up = cx.div(&up, &rise_width)?;
    let down = cx.sub(high, &bin)?;
    let down = cx.div(&down, &fall_width)?;
    // Without a rise the peak itself has height 1.
    let flat = cx.binary(Binary::Equal, &rise, &zero)?;
    let one = cx.num(1.0, DType::F64)?;
    let up = cx.choose(&flat, &one, &up)?;
    let from = cx.binary(Binary::GreaterEqual, &bin, low)?;
    let until = cx.binary(Binary::LessEqual, &bin, peak)?;
    let rising = cx.binary(Binary::And, &from, &until)?;
    let from = cx.binary(Binary::GreaterEqual, &bin, peak)?;
    let until = cx.binary(Binary::Less, &bin, high)?;
    let falling = cx.binary(Binary::And, &from, &until)?;
    let left = cx.choose(&rising, &up, &zero)?;
    let weights = cx.choose(&falling, &down, &left)?;
    cx.cast(&weights, to)
}
