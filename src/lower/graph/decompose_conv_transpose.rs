//! Transposed convolutions whose kernels do not overlap, as a 1x1 convolution and a depth-to-space.
//!
//! With a stride as long as the kernel, each result takes one multiply-add per input channel: a 1x1
//! convolution to `channels * kernel` feature maps, which are then interleaved (pixel shuffle). The
//! sums are the same ones in the same order. Kernels that overlap stay as they are.

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
        match DisjointConvTranspose::of(func, consts, &binding) {
            Some(product) => product.write(func, &binding, &mut body.bindings),
            None => body.bindings.push(binding),
        }
    }
}

/// A transposed convolution without overlap.
struct DisjointConvTranspose {
    x: TensorType,
    out: TensorType,
    /// Input channels, output channels, and the kernel's shape.
    weights: Vec<i64>,
    args: Vec<Value>,
}

impl DisjointConvTranspose {
    fn of(
        func: &Func,
        consts: &HashMap<Value, Const>,
        binding: &Binding,
    ) -> Option<DisjointConvTranspose> {
        let Node::Op { op: Op::ConvTranspose { conv, output_padding }, args } = &binding.node
        else {
            return None;
        };
        let tensor = |v: Value| func.values[v].ty.as_tensor().cloned();
        let weights = tensor(args[1])?.const_shape()?;
        let ConvAttrs { strides, pads_begin, pads_end, dilations, groups } = conv;
        let zero = |list: &[i64]| list.iter().all(|n| *n == 0);
        let apart = strides[..] == weights[2..] && dilations.iter().all(|d| *d == 1);
        let whole = zero(pads_begin) && zero(pads_end) && zero(output_padding) && *groups == 1;
        let constant = args[1..].iter().all(|v| consts.contains_key(v));
        // A kernel of one element has nothing to interleave.
        let window = weights[2..].iter().product::<i64>() > 1;
        (apart && whole && constant && window).then_some(DisjointConvTranspose {
            x: tensor(args[0])?,
            out: tensor(binding.outputs[0])?,
            weights,
            args: args.clone(),
        })
    }

    fn write(&self, func: &mut Func, binding: &Binding, to: &mut Vec<Binding>) {
        let (channels, kernel) = (self.weights[1], &self.weights[2..]);
        let (rank, maps) = (kernel.len(), channels * kernel.iter().product::<i64>());
        let exprs = |list: &[i64]| list.iter().map(|n| Expr::i64(*n)).collect::<Vec<_>>();
        let ones = vec![1; rank];
        let mut emit = |op: Op, args: &[Value], shape: Vec<Expr>| {
            let ty = Type::Tensor(TensorType::new(self.out.dtype, shape));
            let (value, made) =
                bind(func, Node::Op { op, args: args.to_vec() }, ty, &binding.source);
            to.push(made);
            value
        };
        // [in, out, kernel...] to [out * kernel, in, 1...]
        let perm: Vec<usize> = (1..rank + 2).chain([0]).collect();
        let turned = perm.iter().map(|axis| Expr::i64(self.weights[*axis])).collect();
        let weights = emit(Op::Transpose(perm), &self.args[1..2], turned);
        let flat = exprs(&[&[maps, self.weights[0]], &ones[..]].concat());
        let weights = emit(Op::Reshape(flat.clone()), &[weights], flat);
        let mut args = vec![self.args[0], weights];
        if let Some(bias) = self.args.get(2) {
            let column = exprs(&[channels, 1]);
            let bias = emit(Op::Reshape(column.clone()), &[*bias], column);
            let each = exprs(&[channels, maps / channels]);
            let bias = emit(Op::Broadcast(each.clone()), &[bias], each);
            args.push(emit(Op::Reshape(exprs(&[maps])), &[bias], exprs(&[maps])));
        }
        let conv = ConvAttrs {
            strides: ones.clone(),
            pads_begin: vec![0; rank],
            pads_end: vec![0; rank],
            dilations: ones,
            groups: 1,
        };
        let (batch, extents) = (self.x.shape[0].clone(), &self.x.shape[2..]);
        let shape = [&[batch.clone(), maps.into()], extents].concat();
        let sums = emit(Op::Conv(conv), &args, shape);
        // [n, out, kernel..., dims...] to [n, out, dim, kernel, dim, kernel...]
        let apart = [vec![batch, channels.into()], exprs(kernel), extents.to_vec()].concat();
        let maps = emit(Op::Reshape(apart.clone()), &[sums], apart.clone());
        let perm: Vec<usize> =
            [0, 1].into_iter().chain((0..rank).flat_map(|d| [2 + rank + d, 2 + d])).collect();
        let beside = perm.iter().map(|axis| apart[*axis].clone()).collect();
        let beside = emit(Op::Transpose(perm), &[maps], beside);
        to.push(Binding {
            outputs: binding.outputs.clone(),
            node: Node::Op { op: Op::Reshape(self.out.shape.clone()), args: vec![beside] },
            source: binding.source.clone(),
        });
    }
}
