//! Gradients of pooling in two dimensions, by where each window has its elements.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use super::spatial::POOL_ARGS;
use crate::{
    ArgReduceKind, Binary, GatherKind, Op, OutOfRange, PadMode, PoolAttrs, PoolKind, ReduceKind,
    ScatterKind, ScatterReduce, Value,
};

/// The windows over a padded image.
struct Windows {
    at: TextSize,
    attrs: PoolAttrs,
    batch: Expr,
    channels: Expr,
    /// Extents before and after padding, and of the result.
    image: [i64; 2],
    padded: [i64; 2],
    out: [i64; 2],
}

impl Windows {
    fn positions(&self) -> i64 {
        self.out[0] * self.out[1]
    }

    fn taps(&self) -> i64 {
        self.attrs.kernel[0] * self.attrs.kernel[1]
    }

    /// `[batch, channels, ...]`
    fn planes(&self, rest: &[i64]) -> Vec<Expr> {
        let rest = rest.iter().map(|n| Expr::i64(*n));
        [self.batch.clone(), self.channels.clone()].into_iter().chain(rest).collect()
    }
}

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn pool_gradient(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        match name {
            "grad.max_pool2d_backward" => self.pool_backward(call, true).map(Some),
            "grad.avg_pool2d_backward" => self.pool_backward(call, false).map(Some),
            _ => Ok(None),
        }
    }

    /// The gradient by what was pooled, to maxima or averages.
    fn pool_backward(&mut self, call: &ast::ExprCall, maxima: bool) -> Result<ParsedValue> {
        let at = call.start();
        let args = self.pool_args(call, &POOL_ARGS, 2)?;
        let operands = self.operands(&args, &["output_grad", "data"])?;
        let count_pads = args.boolean("count_include_pad", false)?;
        let kind = match maxima {
            true => PoolKind::Max { indices: false },
            false => PoolKind::Average { count_pads },
        };
        let attrs = self.pool_attrs(&args, 2, kind)?;
        let extents = |shape: &[Expr]| -> Option<[i64; 2]> {
            Some([shape.get(2)?.as_int()?, shape.get(3)?.as_int()?])
        };
        let (gradient, x) = (self.shape_of(operands[0]), self.shape_of(operands[1]));
        let (Some(out), Some(image)) = (extents(&gradient), extents(&x)) else {
            return Err(self.source.refuse(at, "gradients of pooling take known extents"));
        };
        if attrs.ceil {
            return Err(self.source.refuse(at, "gradients of pooling with `ceil_mode`"));
        }
        let padded = [0, 1].map(|d| image[d] + attrs.pads_begin[d] + attrs.pads_end[d]);
        let (batch, channels) = (x[0].clone(), x[1].clone());
        let windows = Windows { at, attrs, batch, channels, image, padded, out };
        let flat = windows.planes(&[windows.positions(), 1]);
        let gradient = self.emit_value(at, Op::Reshape(flat), &[operands[0]])?;
        let (places, parts) = match windows.attrs.kind {
            PoolKind::Max { .. } => self.greatest(&windows, operands[1], gradient)?,
            _ => self.shared(call, &windows, gradient)?,
        };
        self.scattered(&windows, places, parts).map(ParsedValue::Value)
    }

    /// Counters of an axis of `[rows, columns]` times a step, along their axis.
    fn counted(&mut self, at: TextSize, extents: [i64; 2], steps: [i64; 2]) -> Result<Value> {
        let mut sum: Option<Value> = None;
        for d in 0..2 {
            let counter = self.emit_value(at, Op::Iota { count: Expr::i64(extents[d]) }, &[])?;
            let counter = self.emit_binary_const(at, Binary::Mul, counter, steps[d] as f64)?;
            let counter = self.along(at, counter, d, 2)?;
            sum = Some(match sum {
                Some(sum) => self.emit_binary(at, Binary::Add, sum, counter)?,
                None => counter,
            });
        }
        let sum = sum.ok_or_else(|| self.source.refuse(at, "no axis"))?;
        let shape = vec![Expr::i64(extents[0] * extents[1])];
        self.emit_value(at, Op::Reshape(shape), &[sum])
    }

    /// The first element of each window, and its taps from there, as positions in the padded image.
    fn window_places(&mut self, windows: &Windows) -> Result<(Value, Value)> {
        let (at, width) = (windows.at, windows.padded[1]);
        let attrs = &windows.attrs;
        let firsts = self.counted(at, windows.out, [attrs.strides[0] * width, attrs.strides[1]])?;
        let kernel = [attrs.kernel[0], attrs.kernel[1]];
        let taps = self.counted(at, kernel, [attrs.dilations[0] * width, attrs.dilations[1]])?;
        Ok((firsts, taps))
    }

    /// All elements of the windows: `[positions * taps]`.
    fn all_places(&mut self, windows: &Windows) -> Result<Value> {
        let at = windows.at;
        let (firsts, taps) = self.window_places(windows)?;
        let firsts = self.along(at, firsts, 0, 2)?;
        let taps = self.along(at, taps, 1, 2)?;
        let places = self.emit_binary(at, Binary::Add, firsts, taps)?;
        let shape = vec![Expr::i64(windows.positions() * windows.taps())];
        self.emit_value(at, Op::Reshape(shape), &[places])
    }

    /// The padded image, `[batch, channels, elements]`.
    fn padded_image(&mut self, windows: &Windows, x: Value, fill: f64) -> Result<Value> {
        let at = windows.at;
        let side =
            |pads: &[i64]| [0, 0].iter().chain(pads).map(|n| Expr::i64(*n)).collect::<Vec<Expr>>();
        let (before, after) = (side(&windows.attrs.pads_begin), side(&windows.attrs.pads_end));
        let fill = self.number(at, self.dtype_of(x), fill)?;
        let op = Op::Pad { mode: PadMode::Constant, before, after };
        let padded = self.emit_value(at, op, &[x, fill])?;
        let shape = windows.planes(&[windows.padded[0] * windows.padded[1]]);
        self.emit_value(at, Op::Reshape(shape), &[padded])
    }

    /// Where each window has its greatest element, and the window's gradient.
    fn greatest(&mut self, windows: &Windows, x: Value, gradient: Value) -> Result<(Value, Value)> {
        let at = windows.at;
        let x = self.padded_image(windows, x, f64::NEG_INFINITY)?;
        let places = self.all_places(windows)?;
        let gather =
            |axis| Op::Gather { kind: GatherKind::Axis(axis), out_of_range: OutOfRange::Clamp };
        let elements = self.emit_value(at, gather(2), &[x, places])?;
        let shape = windows.planes(&[windows.positions(), windows.taps()]);
        let elements = self.emit_value(at, Op::Reshape(shape), &[elements])?;
        let op = Op::ArgReduce {
            kind: ArgReduceKind::Max,
            axis: 3,
            keep_dims: false,
            select_last: false,
        };
        let greatest = self.emit_value(at, op, &[elements])?;
        let (firsts, taps) = self.window_places(windows)?;
        let taps = self.emit_value(at, gather(0), &[taps, greatest])?;
        let place = self.emit_binary(at, Binary::Add, taps, firsts)?;
        let shape = windows.planes(&[windows.positions()]);
        let gradient = self.emit_value(at, Op::Reshape(shape), &[gradient])?;
        Ok((place, gradient))
    }

    /// All elements of each window, and their parts of the window's gradient.
    fn shared(
        &mut self,
        call: &ast::ExprCall,
        windows: &Windows,
        gradient: Value,
    ) -> Result<(Value, Value)> {
        let at = windows.at;
        let places = self.all_places(windows)?;
        let dtype = self.dtype_of(gradient);
        let counts = match windows.attrs.kind {
            PoolKind::Average { count_pads: false } => {
                let image = [1, 1, windows.image[0], windows.image[1]].map(Expr::i64).to_vec();
                let ones = self.filled(at, dtype, 1.0, image)?;
                let one = Windows {
                    attrs: windows.attrs.clone(),
                    batch: Expr::i64(1),
                    channels: Expr::i64(1),
                    ..*windows
                };
                let inside = self.padded_image(&one, ones, 0.0)?;
                let kind = GatherKind::Axis(2);
                let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
                let inside = self.emit_value(at, op, &[inside, places])?;
                let shape = one.planes(&[windows.positions(), windows.taps()]);
                let inside = self.emit_value(at, Op::Reshape(shape), &[inside])?;
                let op = Op::Reduce { kind: ReduceKind::Sum, axes: vec![3], keep_dims: true };
                let counts = self.emit_value(at, op, &[inside])?;
                self.emit_binary_const(at, Binary::Max, counts, 1.0)?
            }
            _ => self.number(at, dtype, windows.taps() as f64)?,
        };
        let part = self.emit_binary(at, Binary::Div, gradient, counts)?;
        let wide = windows.planes(&[windows.positions(), windows.taps()]);
        let part = self.emit_value(at, Op::Broadcast(wide), &[part])?;
        let flat = windows.planes(&[windows.positions() * windows.taps()]);
        let part = self.emit_value(at, Op::Reshape(flat.clone()), &[part])?;
        let places = self.emit_value(at, Op::Broadcast(flat), &[places])?;
        Ok((self.cast_to(call, places, DType::I64)?, part))
    }

    /// The image of the sums of all parts, without its padding.
    fn scattered(&mut self, windows: &Windows, places: Value, parts: Value) -> Result<Value> {
        let at = windows.at;
        let flat = windows.planes(&[windows.padded[0] * windows.padded[1]]);
        let zeros = self.filled(at, self.dtype_of(parts), 0.0, flat)?;
        let op = Op::Scatter {
            kind: ScatterKind::Elements(2),
            reduce: ScatterReduce::Add,
            out_of_range: OutOfRange::Clamp,
        };
        let sums = self.emit_value(at, op, &[zeros, places, parts])?;
        let sums = self.emit_value(at, Op::Reshape(windows.planes(&windows.padded)), &[sums])?;
        let pads = &windows.attrs.pads_begin;
        let begin = [0, 0, pads[0], pads[1]].map(Expr::i64).to_vec();
        let op = Op::Slice { begin, shape: windows.planes(&windows.image), stride: vec![1; 4] };
        self.emit_value(at, op, &[sums])
    }
}
