//! Transposed convolutions as convolutions of the phases of their results, and a depth-to-space.
//!
//! Where each axis of the kernel is a multiple of the stride, results at positions of the same
//! remainder (a phase) take the same taps, those of that remainder: a convolution of stride 1 with
//! `kernel / stride` taps for each phase (sub-pixel convolution: Shi et al., *Is the deconvolution
//! layer the same as a convolutional layer?*, 2016). All phases are output channels of one
//! convolution, whose feature maps are then interleaved (pixel shuffle). The sums are the same ones
//! in the same order, without the zeros that lie between elements otherwise. A kernel as long as the
//! stride has one tap for each phase: a 1x1 convolution. Other kernels stay as they are, as zeros
//! among the weights would change what infinities give.

use std::collections::HashMap;

use reflex_graph::{
    Binding, Body, Const, ConvAttrs, Func, Module, Node, Op, TensorType, Type, Value,
};
use reflex_tir::Expr;

use super::edit::{bind, constants, each_func};
use crate::LowerError;

/// Rewrites every such convolution with constant weights.
pub fn decompose_conv_transpose(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |_, func| {
        let mut body = std::mem::take(&mut func.body);
        let consts = constants(&body);
        in_body(func, &consts, &mut body);
        func.body = body;
        Ok(())
    })
}

fn in_body(func: &mut Func, consts: &HashMap<Value, Const>, body: &mut Body) {
    for mut binding in std::mem::take(&mut body.bindings) {
        for nested in binding.node.bodies_mut() {
            in_body(func, consts, nested);
        }
        match ByPhases::of(func, consts, &binding) {
            Some(product) => product.write(func, &binding, &mut body.bindings),
            None => body.bindings.push(binding),
        }
    }
}

/// An axis of a transposed convolution. Of the results without padding, those from `stride * first`
/// on are computed, `stride` at a time.
#[derive(Clone, Copy)]
struct Axis {
    stride: i64,
    /// Taps of a phase.
    taps: i64,
    /// Zeros before and after the input of the convolution.
    pads: (i64, i64),
    /// Results to leave out before the first and after the last.
    crop: (i64, i64),
}

impl Axis {
    fn of(kernel: i64, stride: i64, pads: (i64, i64), output_padding: i64) -> Option<Axis> {
        if stride < 1 || kernel % stride != 0 {
            return None;
        }
        let taps = kernel / stride;
        // The first and the last result are `pads.0` and `last` behind the first and the last
        // multiple of the stride that the input is spread to.
        let (first, last) = (pads.0.div_euclid(stride), kernel - 1 - pads.1 + output_padding);
        let after = last.div_euclid(stride);
        let crop = (pads.0.rem_euclid(stride), stride - 1 - last.rem_euclid(stride));
        let pads = (taps - 1 - first, after);
        (pads.0 >= 0 && pads.1 >= 0).then_some(Axis { stride, taps, pads, crop })
    }

    /// The number of results of a phase.
    fn count(&self, extent: &Expr) -> Expr {
        extent.clone() + (self.pads.0 + self.pads.1 - self.taps + 1)
    }
}

/// A transposed convolution whose kernel is a multiple of its strides.
struct ByPhases {
    x: TensorType,
    out: TensorType,
    /// Channels in and out.
    channels: (i64, i64),
    axes: Vec<Axis>,
    args: Vec<Value>,
}

fn exprs(list: &[i64]) -> Vec<Expr> {
    list.iter().map(|n| Expr::i64(*n)).collect()
}

impl ByPhases {
    fn of(func: &Func, consts: &HashMap<Value, Const>, binding: &Binding) -> Option<ByPhases> {
        let Node::Op { op: Op::ConvTranspose { conv, output_padding }, args } = &binding.node
        else {
            return None;
        };
        let tensor = |v: Value| func.values[v].ty.as_tensor().cloned();
        let weights = tensor(args[1])?.const_shape()?;
        let (channels, kernel) = ((weights[0], weights[1]), &weights[2..]);
        let ConvAttrs { strides, pads_begin, pads_end, dilations, groups } = conv;
        let dense = *groups == 1 && dilations.iter().all(|d| *d == 1);
        let constant = args[1..].iter().all(|v| consts.contains_key(v));
        // A stride of 1 spreads nothing out.
        let spread = strides.iter().any(|s| *s > 1);
        if !dense || !constant || !spread {
            return None;
        }
        let axis = |d: usize| {
            Axis::of(kernel[d], strides[d], (pads_begin[d], pads_end[d]), output_padding[d])
        };
        let axes = (0..kernel.len()).map(axis).collect::<Option<Vec<Axis>>>()?;
        let (x, out) = (tensor(args[0])?, tensor(binding.outputs[0])?);
        Some(ByPhases { x, out, channels, axes, args: args.clone() })
    }

    fn of_axes(&self, f: impl Fn(&Axis) -> i64) -> Vec<i64> {
        self.axes.iter().map(f).collect()
    }

    fn write(&self, func: &mut Func, binding: &Binding, to: &mut Vec<Binding>) {
        let mut emit = |op: Op, args: &[Value], shape: Vec<Expr>| {
            let ty = Type::Tensor(TensorType::new(self.out.dtype, shape));
            let (value, made) =
                bind(func, Node::Op { op, args: args.to_vec() }, ty, &binding.source);
            to.push(made);
            value
        };
        let (rank, outputs, strides) =
            (self.axes.len(), self.channels.1, self.of_axes(|a| a.stride));
        let phases = strides.iter().product::<i64>();
        let weights = self.weights(&mut emit);
        let mut args = vec![self.args[0], weights];
        if let Some(bias) = self.args.get(2) {
            let column = exprs(&[outputs, 1]);
            let bias = emit(Op::Reshape(column.clone()), &[*bias], column);
            let each = exprs(&[outputs, phases]);
            let bias = emit(Op::Broadcast(each.clone()), &[bias], each);
            let flat = exprs(&[outputs * phases]);
            args.push(emit(Op::Reshape(flat.clone()), &[bias], flat));
        }
        let conv = ConvAttrs {
            strides: vec![1; rank],
            pads_begin: self.of_axes(|a| a.pads.0),
            pads_end: self.of_axes(|a| a.pads.1),
            dilations: vec![1; rank],
            groups: 1,
        };
        let batch = self.x.shape[0].clone();
        let counts: Vec<Expr> =
            self.axes.iter().zip(&self.x.shape[2..]).map(|(a, extent)| a.count(extent)).collect();
        let shape = [&[batch.clone(), (outputs * phases).into()], &counts[..]].concat();
        let sums = emit(Op::Conv(conv), &args, shape);
        // [n, out, phase..., count...] to [n, out, count, phase, count, phase...]
        let apart = [vec![batch.clone(), outputs.into()], exprs(&strides), counts.clone()].concat();
        let maps = emit(Op::Reshape(apart.clone()), &[sums], apart.clone());
        let perm: Vec<usize> =
            [0, 1].into_iter().chain((0..rank).flat_map(|d| [2 + rank + d, 2 + d])).collect();
        let beside = perm.iter().map(|axis| apart[*axis].clone()).collect();
        let beside = emit(Op::Transpose(perm), &[maps], beside);
        let last = match self.axes.iter().all(|a| a.crop == (0, 0)) {
            true => Node::Op { op: Op::Reshape(self.out.shape.clone()), args: vec![beside] },
            false => {
                let spread =
                    counts.into_iter().zip(&strides).map(|(count, stride)| count * *stride);
                let whole: Vec<Expr> = [batch, outputs.into()].into_iter().chain(spread).collect();
                let whole = emit(Op::Reshape(whole.clone()), &[beside], whole);
                let begin = exprs(&[&[0, 0], &self.of_axes(|a| a.crop.0)[..]].concat());
                let (shape, stride) = (self.out.shape.clone(), vec![1; rank + 2]);
                Node::Op { op: Op::Slice { begin, shape, stride }, args: vec![whole] }
            }
        };
        let (outputs, source) = (binding.outputs.clone(), binding.source.clone());
        to.push(Binding { outputs, node: last, source });
    }

    /// The weights by phases: `[in, out, kernel...]` to `[out * phase..., in, taps...]`, the last tap
    /// first.
    fn weights(&self, emit: &mut impl FnMut(Op, &[Value], Vec<Expr>) -> Value) -> Value {
        let (rank, (inputs, outputs)) = (self.axes.len(), self.channels);
        let (strides, taps) = (self.of_axes(|a| a.stride), self.of_axes(|a| a.taps));
        let pairs = self.axes.iter().flat_map(|a| [a.taps, a.stride]);
        let apart: Vec<i64> = [inputs, outputs].into_iter().chain(pairs).collect();
        let mut weights = emit(Op::Reshape(exprs(&apart)), &self.args[1..2], exprs(&apart));
        if taps.iter().any(|n| *n > 1) {
            let mut begin = vec![0; apart.len()];
            let mut stride = vec![1; apart.len()];
            for (d, taps) in taps.iter().enumerate() {
                (begin[2 + 2 * d], stride[2 + 2 * d]) = (taps - 1, -1);
            }
            let (begin, shape) = (exprs(&begin), exprs(&apart));
            weights = emit(Op::Slice { begin, shape, stride }, &[weights], exprs(&apart));
        }
        let axes = |first: usize| (0..rank).map(move |d| first + 2 * d);
        let perm: Vec<usize> = [1].into_iter().chain(axes(3)).chain([0]).chain(axes(2)).collect();
        let turned = perm.iter().map(|axis| Expr::i64(apart[*axis])).collect();
        let weights = emit(Op::Transpose(perm), &[weights], turned);
        let maps = outputs * strides.iter().product::<i64>();
        let flat = exprs(&[&[maps, inputs], &taps[..]].concat());
        emit(Op::Reshape(flat.clone()), &[weights], flat)
    }
}
