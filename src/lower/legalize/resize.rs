//! Resampling: per axis a source coordinate in float32, then the weighted sum of the axes' samples.

use reflex_graph::{ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::{DType, Expr, Intrin};

use crate::legalize::builder::{OpBuilder, compute_type};
use crate::legalize::reduce;

/// A source index and its weight.
type Tap = (Expr, Expr);

/// `Resize`.
pub fn resize(cx: &mut OpBuilder<'_>, attrs: &ResizeAttrs) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let work = compute_type(x.dtype);
    let work = if work.is_float() { work } else { DType::F32 };
    let to = out.shape.clone();
    cx.f.output("resize", "y", out.dtype, out.shape, |f, i| {
        let taps: Vec<Vec<Tap>> =
            (0..i.len()).map(|d| axis_taps(attrs, d, &i[d], &x.shape[d], &to[d], work)).collect();
        if matches!(attrs.mode, ResizeMode::Nearest(_)) {
            let at: Vec<Expr> = taps.iter().map(|t| t[0].0.clone()).collect();
            return read(f, &at);
        }
        let value = |f: &FuncBuilder, at: &[Expr]| read(f, at).cast(work);
        blend(f, &taps, &mut vec![], &value).cast(out.dtype)
    });
}

/// The sum over the taps of the first axis not yet chosen of weight times the rest.
fn blend(
    f: &FuncBuilder,
    taps: &[Vec<Tap>],
    chosen: &mut Vec<Expr>,
    value: &dyn Fn(&FuncBuilder, &[Expr]) -> Expr,
) -> Expr {
    let Some(axis) = taps.get(chosen.len()) else { return value(f, chosen) };
    let mut terms = axis.iter().map(|(at, weight)| {
        chosen.push(at.clone());
        let rest = blend(f, taps, chosen, value);
        chosen.pop();
        match axis.len() {
            1 => rest,
            _ => rest * weight.clone(),
        }
    });
    let first = terms.next().expect("an axis has a tap");
    terms.fold(first, |a, b| a + b)
}

fn axis_taps(
    attrs: &ResizeAttrs,
    d: usize,
    i: &Expr,
    from: &Expr,
    to: &Expr,
    work: DType,
) -> Vec<Tap> {
    let one = Expr::constant(1.0, work);
    let given = attrs.scales.as_ref().map(|s| s[d]);
    if from == to && given.is_none_or(|s| s == 1.0) {
        return vec![(i.clone(), one)];
    }
    let last = from.clone() - 1;
    let inside = |at: Expr| at.min(last.clone()).max(0);
    let x = source(attrs.coord, i, from, to, given, work);
    let floor = Expr::call(Intrin::Floor, vec![x.clone()]);
    let base = floor.clone().cast(DType::I64);
    match attrs.mode {
        ResizeMode::Nearest(rounding) => {
            let rounded = nearest(rounding, x, floor);
            vec![(inside(rounded.cast(DType::I64)), one)]
        }
        ResizeMode::Linear => {
            let t = x - floor;
            vec![(inside(base.clone()), one - t.clone()), (inside(base + 1), t)]
        }
        ResizeMode::Cubic { coefficient, exclude_outside } => {
            let weights = cubic(x - floor, coefficient, work);
            let taps =
                weights.into_iter().enumerate().map(|(n, w)| (base.clone() + (n as i64 - 1), w));
            if !exclude_outside {
                return taps.map(|(at, w)| (inside(at), w)).collect();
            }
            let zero = Expr::constant(0.0, work);
            let kept: Vec<Tap> = taps
                .map(|(at, w)| {
                    let ok = at.clone().ge(0).and(at.clone().le(last.clone()));
                    (inside(at), Expr::select(ok, w, zero.clone()))
                })
                .collect();
            let total = kept.iter().fold(zero.clone(), |sum, (_, w)| sum + w.clone());
            kept.into_iter().map(|(at, w)| (at, w / total.clone())).collect()
        }
    }
}

fn nearest(rounding: ResizeNearest, x: Expr, floor: Expr) -> Expr {
    let dtype = x.dtype();
    let half = Expr::constant(0.5, dtype);
    let call = |op, e| Expr::call(op, vec![e]);
    match rounding {
        ResizeNearest::Floor => floor,
        ResizeNearest::Ceil => call(Intrin::Ceil, x),
        ResizeNearest::RoundPreferFloor => call(Intrin::Ceil, x - half),
        ResizeNearest::RoundPreferCeil => call(Intrin::Floor, x + half),
    }
}

/// The source coordinate of output index `i`.
fn source(
    coord: ResizeCoord,
    i: &Expr,
    from: &Expr,
    to: &Expr,
    given: Option<f64>,
    work: DType,
) -> Expr {
    let float = |e: &Expr| reduce::to_type(e.clone(), work);
    let constant = |x: f64| Expr::constant(x, work);
    let x = i.clone().cast(work);
    // Input size over output size, as one constant where both are static.
    let step = match (given, from.as_int(), to.as_int()) {
        (Some(scale), ..) => constant(1.0 / scale),
        (None, Some(from), Some(to)) => constant(from as f64 / to as f64),
        _ => float(from) / float(to),
    };
    let half_pixel = (x.clone() + constant(0.5)) * step.clone() - constant(0.5);
    match coord {
        ResizeCoord::HalfPixel => half_pixel,
        ResizeCoord::PytorchHalfPixel => Expr::select(to.clone().gt(1), half_pixel, constant(0.0)),
        ResizeCoord::Asymmetric => x * step,
        ResizeCoord::AlignCorners => {
            let spans = float(&(to.clone() - 1).max(1));
            x * float(&(from.clone() - 1)) / spans
        }
    }
}

/// Weights of the four samples around, at fraction `t` after the second.
fn cubic(t: Expr, a: f64, work: DType) -> Vec<Expr> {
    let c = |x: f64| Expr::constant(x, work);
    let near = |t: Expr| ((t.clone() * c(a + 2.0) - c(a + 3.0)) * t.clone()) * t + c(1.0);
    let far = |t: Expr| ((t.clone() * c(a) - c(5.0 * a)) * t.clone() + c(8.0 * a)) * t - c(4.0 * a);
    vec![far(t.clone() + c(1.0)), near(t.clone()), near(c(1.0) - t.clone()), far(c(2.0) - t)]
}
