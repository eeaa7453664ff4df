#!/usr/bin/env python3
"""Write the corpus of Relax scripts: what TVM prints, and what TVM's own VM answers.

usage: generate.py OUT_DIR          (needs apache-tvm, apache-tvm-ffi and numpy)

OUT_DIR/operators.txt lists the names of TVM's operators. Each OUT_DIR/<name>.py is `mod.script(show_meta=True)`. Functions that hold no kernel are run;
their inputs and outputs follow the text as comments:
    # case
    # in <dtype> <shape> <elements>
    # out <dtype> <shape> <elements>
"""
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

op = relax.op
rng = np.random.default_rng(11)


def f32(*shape):
    return np.round(rng.standard_normal(shape) * 2, 3).astype("float32")


def i64(*values):
    return np.array(values, "int64")


def build(arrays, body, shapes=None):
    """A module whose main gives every expression of `body` as one field of a tuple."""
    params = []
    for k, array in enumerate(arrays):
        shape = shapes[k] if shapes else array.shape
        params.append(relax.Var(f"p{k}", relax.TensorType(shape, str(array.dtype))))
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            values = [bb.emit(e) for e in body(*params)]
            out = bb.emit_output(relax.Tuple(values))
        bb.emit_func_output(out)
    return bb.get()


def flat(value):
    if isinstance(value, tvm.runtime.Tensor):
        return [value.numpy()]
    return [array for field in value for array in flat(field)]


def line(kind, array):
    if array.dtype.kind == "f":
        text = " ".join("%.9g" % x for x in array.reshape(-1))
    else:
        text = " ".join(str(int(x)) for x in array.reshape(-1))
    shape = ",".join(str(d) for d in array.shape)
    return f"# {kind} {array.dtype} ({shape}) {text}".rstrip()


def write(out, name, mod, cases, answer=None):
    """`answer` computes what TVM gets wrong."""
    lines = [mod.script(show_meta=True).rstrip()]
    if answer:
        for case in cases:
            lines += ["# case"] + [line("in", a) for a in case]
            lines += [line("out", a) for a in answer(*case)]
    elif cases:
        vm = relax.VirtualMachine(relax.build(mod, target="llvm"), tvm.cpu())
        for case in cases:
            answer = vm["main"](*[tvm.runtime.tensor(a) for a in case])
            lines += ["# case"] + [line("in", a) for a in case]
            lines += [line("out", a) for a in flat(answer)]
    with open(f"{out}/{name}.py", "w") as file:
        file.write("\n".join(lines) + "\n")


def operators():
    x, y = f32(2, 3, 4), f32(2, 3, 4)
    positive = np.abs(x) + np.float32(0.1)
    unit = np.tanh(x)
    yield "unary", [x, positive, unit], lambda x, p, u: (
        [getattr(op, f)(x) for f in ("negative", "abs", "sign", "exp", "sin", "cos", "tanh",
                                     "sinh", "cosh", "atan", "asinh", "erf", "sigmoid", "floor",
                                     "ceil", "round", "trunc", "square", "isnan", "isinf",
                                     "isfinite")]
        + [getattr(op, f)(p) for f in ("log", "sqrt", "rsqrt")]
        + [getattr(op, f)(u) for f in ("asin", "acos", "atanh", "tan")]
    )
    b = x > 0
    i, j = i64(-7, 7, -6, 5), i64(2, -2, 4, 3)
    yield "binary", [x, y, positive, b, ~b, i, j], lambda x, y, p, b, c, i, j: (
        [getattr(op, f)(x, y) for f in ("add", "subtract", "multiply", "divide", "minimum",
                                        "maximum", "floor_mod", "mod", "equal", "not_equal",
                                        "less", "less_equal", "greater", "greater_equal",
                                        "floor_divide")]
        + [op.power(p, y), op.where(b, x, y), op.clip(x, -1, 1.5)]
        + [getattr(op, f)(b, c) for f in ("logical_and", "logical_or", "logical_xor")]
        + [op.logical_not(b)]
        + [getattr(op, f)(i, j) for f in ("divide", "floor_divide", "mod", "floor_mod",
                                          "bitwise_and", "bitwise_or", "bitwise_xor")]
        + [op.bitwise_not(i), op.left_shift(op.abs(i), op.abs(j)), op.right_shift(i, op.abs(j))]
        + [op.astype(x, "int32"), op.astype(i, "float32"), op.astype(b, "float32"),
           op.add(x, relax.const(2.5)), op.multiply(i, relax.const(3, "int64"))]
    )
    yield "reduce", [x], lambda x: (
        [getattr(op, f)(x, [1], True) for f in ("sum", "mean", "max", "min", "prod", "variance",
                                                "std")]
        + [op.sum(x), op.max(x, [0, -1]), op.variance(x), op.argmax(x, 1), op.argmin(x, -1, True),
           op.argmax(x), op.cumsum(x, 1), op.cumsum(x), op.cumsum(x, 0, exclusive=True),
           op.nn.softmax(x), op.nn.log_softmax(x, 1)]
    )
    yield "activation", [x, f32(3)], lambda x, a: [
        op.nn.relu(x), op.nn.relu6(x), op.nn.leakyrelu(x, 0.1), op.nn.gelu(x), op.nn.gelu_tanh(x),
        op.nn.silu(x), op.nn.selu(x), op.nn.softplus(x), op.nn.prelu(x, a, 1),
        op.nn.batch_flatten(x),
    ]
    image, w = f32(1, 4, 6, 5), f32(6, 2, 3, 3)
    wt = f32(4, 3, 2, 2)
    yield "conv", [image, w, wt, f32(1, 3, 8), f32(2, 3, 3)], lambda x, w, t, s, v: [
        op.nn.conv2d(x, w, strides=2, padding=1, groups=2),
        op.nn.conv2d(x, w, padding=(0, 1, 2, 1), dilation=(2, 1), groups=2),
        op.nn.conv2d_transpose(x, t, strides=(2, 2), output_padding=(1, 0), groups=2),
        op.nn.conv1d(s, v, padding=1),
        op.nn.max_pool2d(x, (2, 3), (2, 1), (1, 1), ceil_mode=True),
        op.nn.avg_pool2d(x, (2, 2), (2, 2), (1, 1)),
        op.nn.avg_pool2d(x, (3, 2), (1, 1), (1, 0), count_include_pad=True),
        op.nn.max_pool1d(s, 3, 2), op.nn.avg_pool1d(s, 2),
        op.nn.adaptive_avg_pool2d(x, (1, 1)), op.nn.adaptive_avg_pool2d(x, (3, 5)),
        op.image.resize2d(x, (9, 7)), op.image.resize2d(x, (3, 10), method="nearest_neighbor",
                                                        coordinate_transformation_mode="asymmetric",
                                                        rounding_method="floor"),
    ]
    c, v = f32(4), np.abs(f32(4)) + np.float32(0.5)
    row = f32(5)
    yield "norm", [image, c, f32(4), v, row, f32(5)], lambda x, g, b, v, rg, rb: [
        op.nn.layer_norm(x, rg, rb, [-1]), op.nn.layer_norm(x, rg, rb, [-1], 0.01),
        op.nn.batch_norm(x, g, b, b, v, axis=1, training=False),
        op.nn.batch_norm(x, g, b, b, v, axis=1, training=False, center=False, scale=False),
        op.nn.group_norm(x, g, b, num_groups=2, channel_axis=1, axes=[2, 3]),
        op.nn.instance_norm(x, g, b, channel_axis=1, axes=[2, 3]),
        op.nn.rms_norm(x, rg, [-1]),
    ]
    m = f32(3, 4)
    yield "movement", [x, m, f32(4)], lambda x, m, v: [
        op.permute_dims(x), op.permute_dims(x, [1, 0, -1]), op.reshape(x, (4, -1)),
        op.broadcast_to(v, (3, 4)), op.concat([x, x], -1), op.stack([m, m], 1),
        op.split(x, 2, -1), op.split(x, [1], 1), op.expand_dims(m, [0, -1]),
        op.squeeze(op.expand_dims(m, 1)), op.flatten(x), op.flip(m, 1), op.tile(m, (2, 1, 3)),
        op.repeat(m, 2, 0), op.repeat(m, 3),
        op.strided_slice(x, [0, 2], [0, 1], [2, 3]), op.strided_slice(x, [-1], [-3], [100], [2]),
        op.strided_slice(x, [2], [-1], [-100], [-2]), op.strided_slice(m, [0], [0], [2], None, True),
        op.nn.pad(m, [1, 0, 2, 1]), op.nn.pad(m, [0, 0, 1, 1], pad_value=1.5),
        op.nn.pad(m, [1, 1, 1, 1], "reflect"), op.nn.pad(m, [1, 1, 2, 0], "replicate"),
        op.full((2, 2), relax.const(3.5)), op.zeros((2,), "int64"), op.ones((1, 2), "float32"),
        op.full_like(m, relax.const(2.0)), op.zeros_like(x), op.ones_like(m, "int32"),
        op.arange(2, 11, 3, "int64"), op.arange(5, dtype="float32"), op.triu(m), op.tril(m, 1),
        op.matmul(m, op.permute_dims(m)), op.matmul(x, v), op.linear(m, m),
    ]
    n = i64(2, 0, 1)
    yield "index", [m, n, np.array([[0, 2, 1, 1]]), f32(1, 4), np.array([[1, 2], [0, 3]]), f32(2)], \
        lambda m, n, e, u, d, w: [
            op.take(m, n, 0), op.take(m, n, 1, mode="clip"),
            op.take(m, op.subtract(n, relax.const(2, "int64")), 1, mode="wrap"),
            op.gather_elements(m, e, 0), op.gather_nd(m, d),
            op.scatter_elements(m, e, u, 0), op.scatter_elements(m, e, u, 0, "add"),
            op.scatter_nd(m, d, w), op.scatter_nd(m, d, w, "add"),
            op.topk(m, 2, 1), op.topk(m, 2, 1, "indices", False, "int64"),
            op.topk(m, 3, 0, "values"), op.sort(m, 1), op.argsort(m, 0, True),
        ]
    q, k = f32(1, 3, 2, 4), f32(1, 5, 2, 4)
    yield "attention", [q, k, f32(1, 5, 2, 4), f32(1, 2, 3, 5)], lambda q, k, v, b: [
        op.nn.attention(q, k, v), op.nn.attention(q, k, v, bias=b, scale=tvm.tirx.FloatImm("float32", 0.3)),
    ]
    big = f32(4, 6)
    yield "constants", [m], lambda m: [
        op.matmul(m, relax.const(big)), op.add(m, relax.const(f32(4))),
        op.add(m, relax.const(np.float32("inf"))), op.where(relax.const(np.array(True)), m, m),
        op.take(m, relax.const(np.array([1, 0])), 1),
    ]


def composed_operators():
    x, y, m = f32(2, 3, 4), f32(2, 3, 4), f32(3, 4)
    edge = np.array([0.0, -0.0, np.inf, -np.inf, 1.5, -1e-20], "float32")
    ey, ex = [np.ascontiguousarray(a) for a in np.meshgrid(edge, edge)]
    yield "composed", [x, y, f32(3), f32(4), f32(3, 1), ey, ex], lambda x, y, a, b, c, ey, ex: [
        op.atan2(x, y), op.atan2(ey, ex), op.log_add_exp(x, y), op.outer(a, b), op.acosh(op.exp(op.abs(x))),
        op.cumprod(x, 1), op.size(x), op.nn.dropout(x, 0.5), op.nn.cross_entropy_with_logits(x, y),
        op.nn.cross_entropy_with_logits(a, a), op.collapse_sum_like(x, c),
        op.collapse_sum_to(x, (1, 4)), op.collapse_sum_to(x, (2, 1, 4)),
        op.hamming_window(8, True, 0.54, 0.46, "float32"),
        op.hamming_window(9, False, 0.5, 0.4, "float32"),
        op.grad.no_grad(x), op.grad.end_checkpoint(op.grad.start_checkpoint(x)),
    ]
    scale, zero = np.abs(f32(3)) / 16 + np.float32(0.01), np.array([1, -2, 3], "int32")
    yield "quantisation", [x, scale, zero, f32(1)], lambda x, s, z, one: [
        op.astype(op.quantize(x, s, op.astype(z, "int8"), 1, "int8"), "int32"),
        op.astype(op.quantize(x, op.abs(one), relax.const(7, "int8"), -1, "uint8"), "int32"),
        op.dequantize(op.astype(op.multiply(x, relax.const(20.0)), "int8"), s,
                      op.astype(z, "int8"), 1, "float32"),
    ]
    yield "loss", [m, i64(1, 0, 3), np.abs(f32(4)), f32(2, 4, 3), np.array([[1, 0, 3], [2, 2, 1]]),
                   f32(4), np.array(2)], lambda p, t, w, q, u, r, s: [
        op.nn.nll_loss(p, t, w, "mean", -100), op.nn.nll_loss(p, t, w, "sum", 3),
        op.nn.nll_loss(p, t, None, "none", 1), op.nn.nll_loss(q, u, w, "mean", 2),
        op.nn.nll_loss(r, s, w, "mean", -100),
    ]
    yield "pick", [x, m, i64(0, 2), i64(2, 0), f32(2), np.sort(f32(6)), f32(6, 4), i64(1, 2, 0), f32(3),
                   np.array([[1], [0]])], \
        lambda x, m, i, j, v, b, wide, lengths, a, column: [
            op.index_tensor(m, [i, j]), op.index_tensor(m, [i]), op.index_tensor(x, [column, i, j]),
            op.index_put(m, [i, j], v), op.index_put(m, [i, i], v, True),
            op.slice_scatter(wide, m, 0, 6, 2, 0), op.slice_scatter(wide, m, 1, 4, 1, 0),
            op.reverse_sequence(x, lengths, 0, 1), op.bucketize(m, b), op.bucketize(b, b, True, True),
            op.median(x, 1), op.median(x, -1, True), op.median(x), op.meshgrid([a, v, b], "ij"),
            op.eye(3, 4, 1), op.eye(3), op.eye(4, 3, -1, "int64"), op.eye_like(m, 1), op.eye_like(m),
            op.one_hot(j, tvm.tirx.FloatImm("float32", 2.0), tvm.tirx.FloatImm("float32", -1.0), 4, 1),
        ]
    yield "einsum", [m, f32(4, 5), f32(2, 3, 4), f32(2, 4, 3), f32(2, 2, 3)], lambda a, b, c, d, t: [
        op.einsum([a, b], "ij,jk->ik"), op.einsum([a, b], "ij,jk"), op.einsum([c, d], "bij,bjk->bki"),
        op.einsum([c, a], "bij,ij->b"), op.einsum([a, b, a], "ij,jk,lj->kil"), op.einsum([a], "ij->ji"),
        op.einsum([a, b], "ij,kl->kj"), op.image.affine_grid(t, (3, 4)), op.memory.ensure_zero_offset(a),
    ]
    cube, wc = f32(1, 2, 4, 4, 4), f32(2, 2, 2, 2, 2)
    yield "cubes", [cube, wc, f32(1, 2, 6), f32(2, 2, 3)], lambda x, w, s, v: [
        op.nn.max_pool3d(x, 2, 2), op.nn.avg_pool3d(x, 2, 2), op.nn.conv3d(x, w, padding=1),
        op.nn.conv3d_transpose(x, w, strides=2), op.nn.conv1d_transpose(s, v, strides=2),
        op.nn.adaptive_avg_pool1d(s, 3), op.nn.adaptive_avg_pool3d(x, (2, 2, 1)),
        op.image.resize3d(x, (5, 3, 8), method="linear"),
        op.image.resize3d(x, (5, 3, 8), method="nearest_neighbor",
                          coordinate_transformation_mode="asymmetric", rounding_method="floor"),
    ]


def gradients_and_samples():
    """Cases with random numbers of their own, so that those before stay."""
    own = np.random.default_rng(12)

    def f32(*shape):
        return np.round(own.standard_normal(shape), 3).astype("float32")

    yield "gradients", [f32(3, 2), f32(3, 4), i64(1, 3), f32(2, 4), i64(2, 2), f32(5), f32(3),
                        i64(4, 4, 0), f32(), i64(1, 0, 3), np.abs(f32(4)), f32(2, 4, 3),
                        np.array([[1, 0, 3], [2, 2, 1]]), f32(2, 3), f32(4), np.array(2)], \
        lambda g, m, i, h, j, v, w, k, one, t, c, q, u, e, r, s: [
            op.grad.take_backward(g, m, i, 1), op.grad.take_backward(h, m, j, 0),
            op.grad.take_backward(w, v, k, None),
            op.grad.nll_loss_backward(one, m, t, c, "mean", -100),
            op.grad.nll_loss_backward(one, m, t, c, "sum", 3),
            op.grad.nll_loss_backward(w, m, t, None, "none", 1),
            op.grad.nll_loss_backward(one, q, u, c, "mean", 2),
            op.grad.nll_loss_backward(e, q, u, c, "none", -100),
            op.grad.nll_loss_backward(one, r, s, c, "mean", -100),
        ]
    grid = (own.random((2, 2, 3, 5)) * 2.6 - 1.3).astype("float32")
    modes = [(m, p, a) for m in ("bilinear", "nearest") for p in ("zeros", "border") for a in (True, False)]
    yield "grid_sample", [f32(2, 3, 4, 6), grid], lambda x, g: [
        op.image.grid_sample(x, g, m, "NCHW", p, a) for m, p, a in modes
    ]
    yield "layout_transform", [f32(4, 6), f32(2, 8, 3), f32(10, 3)], lambda x, y, z: [
        op.layout_transform(x, lambda i, j: (j, i)), op.layout_transform(x, lambda i, j: (i * 6 + j,)),
        op.layout_transform(y, lambda n, c, h: (n, c // 4, h, c % 4)),
        op.layout_transform(z, lambda i, j: (i // 4, j, i % 4), 2.0),
        op.layout_transform(x, lambda i, j: ((i * 6 + j) // 8, (i * 6 + j) % 8)),
        op.layout_transform(y, lambda n, c, h: (c // 2, n * 3 + h, c % 2)),
    ]
    rois = np.array([[0, 1, 1, 5, 6], [1, -2, 0, 7.5, 20], [1, 3, 2, 3.2, 2.1], [0, 0.5, 12, 6, 15]], "float32")
    yield "roi_align", [f32(2, 3, 8, 9), rois], lambda x, r: [
        op.vision.roi_align(x, r, (2, 3), scale, samples, aligned, "NCHW", mode)
        for scale, samples, aligned, mode in (
            (1.0, 2, False, "avg"), (0.5, 3, True, "avg"), (1.0, 2, False, "max"), (0.25, 1, True, "max"))
    ]
    tied = np.round(f32(1, 2, 5, 6))
    yield "pool_gradients", [f32(2, 3, 6, 8), f32(2, 3, 3, 4), f32(2, 3, 6, 8), tied, f32(1, 2, 5, 6), f32(2, 3, 3, 3)], \
        lambda x, g, h, t, u, d: [
            op.grad.max_pool2d_backward(g, x, (2, 2), (2, 2)),
            op.grad.max_pool2d_backward(h, x, (3, 3), (1, 1), (1, 1, 1, 1)),
            op.grad.max_pool2d_backward(u, t, (3, 3), (1, 1), (1, 1, 1, 1)),
            op.grad.avg_pool2d_backward(g, x, (2, 2), (2, 2)),
            op.grad.avg_pool2d_backward(h, x, (3, 3), (1, 1), (1, 1, 1, 1)),
            op.grad.avg_pool2d_backward(h, x, (3, 3), (1, 1), (1, 1, 1, 1), count_include_pad=True),
            op.grad.avg_pool2d_backward(d, x, (2, 4), (2, 2)),
        ]
    prob = own.random((3, 5)).astype("float32")
    prob /= prob.sum(1, keepdims=True)
    uniform = own.random((6, 1)).astype("float32")
    yield "multinomial", [prob, uniform, np.array([[0], [1], [2], [0], [2], [2]])], lambda p, u, i: [
        op.multinomial_from_uniform(p, u, i, "int64"), op.multinomial_from_uniform(p, u, i, "int32"),
    ]


def selections():
    """Results with as many elements as the data says, with random numbers of their own."""
    own = np.random.default_rng(13)
    x = own.integers(0, 3, (3, 2, 4)).astype("float32")
    i = own.integers(-2, 4, 9)
    rows = np.array([[1, 0, 3], [3, 1, 0], [1, 0, 3], [0, 9, 9]])
    yield "selections", [x, i, rows, np.zeros((2, 2), "int32"), i > 1], lambda x, i, r, z, b: [
        op.nonzero(x), op.nonzero(i), op.nonzero(z), op.nonzero(b),
        op.unique(i, True, False, False, False), op.unique(x, False, False, False, False),
        op.unique(i, True, True, True, True), op.unique(i, False, True, True, True),
        op.unique(i, True, False, False, True), op.unique(i, False, False, True, False),
        op.unique(r, True, True, True, True, 0), op.unique(r, True, True, False, True, -1),
    ]


    bounds = [[1, -3], [4, 10], [2, 1]], [[3, 3], [-10, 0], [-2, -1]], [[0, 0], [4, 4], [1, 1]], [[-2, 1], [-1, 1], [1, 1]]
    yield "dynamic_slices", [own.random((4, 4)).astype("float32"), *(i64(*v) for b in bounds for v in b)], \
        lambda m, *b: [op.dynamic_strided_slice(m, *b[n : n + 3]) for n in range(0, len(b), 3)]


def detections():
    """Detection in images, with random numbers of their own."""
    own = np.random.default_rng(14)

    def f32(*shape):
        return np.round(own.standard_normal(shape), 3).astype("float32")

    rois = np.array([[0, 1, 1, 5, 6], [1, 0, 0, 7, 8], [0, 2, 2, 3, 3], [1, 6.5, -3, 20, 1.5], [0, 30, 2, 40, 3]], "float32")
    rows = np.concatenate([own.integers(-1, 3, (2, 6, 1)), own.random((2, 6, 5))], -1).astype("float32")
    corners = np.sort(own.random((1, 6, 2, 2)), 2).reshape(1, 6, 4).astype("float32")
    yield "detection", [f32(2, 3, 8, 9), rois, rows, f32(2, 3, 6), f32(2, 24), corners], lambda x, r, d, c, e, a: [
        op.vision.roi_pool(x, r, (2, 3), 1.0), op.vision.roi_pool(x, r, (3, 2), 0.5),
        op.vision.get_valid_counts(d, 0.4, 0, 1), op.vision.get_valid_counts(d, 0.2, -1, 5),
        op.vision.multibox_transform_loc(c, e, a, True, 0.3, (0.1, 0.1, 0.2, 0.2)),
        op.vision.multibox_transform_loc(c, e, a, False, 0.1, (1, 2, 0.5, 0.25), False, False),
    ]
    rows = np.concatenate([own.integers(0, 2, (2, 8, 1)), own.random((2, 8, 1)) - 0.1, own.random((2, 8, 4))], -1)
    rows = np.concatenate([rows, rows + own.random((2, 8, 6)) * 0.05], 1).astype("float32")
    rows[..., 0] = np.round(rows[..., 0])
    numbers = np.stack([own.permutation(16), own.permutation(16)]).astype("int32")
    nms = op.vision.non_max_suppression
    boxes, scores = own.random((2, 9, 4)).astype("float32"), own.random((2, 3, 9)).astype("float32")
    number = lambda n, dtype="float32": relax.const(np.array(n, dtype))
    every = lambda b, s, most, *limits: op.vision.all_class_non_max_suppression(
        b, s, number(most, "int64"), *map(number, limits))
    yield "suppression", [rows, np.array([16, 11], "int32"), numbers, boxes, scores], lambda d, v, i, b, s: [
        nms(d, v, i), nms(d, v, i, 3, 0.3), nms(d, v, i, -1, 0.2, True, 9), nms(d, v, i, 4, 0.4, False, -1, 2, 1, -1),
        nms(d, v, i, -1, 0.5, return_indices=False), nms(d, v, i, 5, 0.3, return_indices=False, invalid_to_bottom=True),
        every(b, s, 9, 0.5, 0.1), every(b, s, 2, 0.2, 0.3), every(b, s, 3, 0.0, 0.0),
    ]


def by_numpy(x, y, z, image):
    """What TVM has no code for: `ewise_fma`, `nn.pixel_shuffle` and `builtin.stop_lift_params`."""
    n, c, h, w = image.shape
    blocks = image.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
    return [x * y + z, blocks.reshape(n, c // 4, h * 2, w * 2), x]


def dynamic():
    n, k = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("k", "int64")
    cases = [[f32(a, 4), f32(b, 4)] for a, b in ((3, 2), (4, 1), (6, 6))]
    body = lambda x, y: [
        op.concat([x, y], 0), op.reshape(x, (n * 4,)), op.reshape(x, (-1, 2)),
        op.strided_slice(x, [0], [1], [n]), op.strided_slice(x, [0], [0], [-1]),
        op.broadcast_to(op.expand_dims(y, 0), (n, k, 4)), op.full((n, 2), relax.const(1.5)),
        op.arange(0, n, 1, "int64"), op.matmul(x, op.permute_dims(y)), op.nn.softmax(x, 0),
        op.mean(x, 0), op.shape_to_tensor(relax.ShapeExpr([n, k * 2])),
        op.nn.pad(x, [1, 1, 0, 0]), op.astype(op.cumsum(x, 0), "int32"),
    ]
    return build(cases[0], body, [(n, 4), (k, 4)]), cases


@I.ir_module
class Branch:
    @R.function
    def twice(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return R.add(x, x)

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
        cls = Branch
        if c:
            y = cls.twice(x)
        else:
            y = R.negative(x)
        z = cls.twice(y)
        if c:
            a = R.add(z, x)
            p = (a, z)
        else:
            p = (y, x)
        return (p[1], R.multiply(p[0], z))


@I.ir_module
class Recursion:
    @R.function
    def count(n: R.Tensor((), "int64"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Recursion
        more = R.greater(n, R.const(0, "int64"))
        if more:
            m = R.subtract(n, R.const(1, "int64"))
            y = R.multiply(x, R.const(2.0, "float32"))
            r = cls.count(m, y)
        else:
            r = x
        return r

    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Recursion
        r = cls.count(n, x)
        return r


@I.ir_module
class Casts:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), s: R.Tensor((2,), "int64")):
        m = T.int64()
        k = T.int64()
        sh = R.tensor_to_shape(s)
        _ = R.match_cast(sh, R.Shape([m, k]))
        y = R.zeros(R.shape([m, k]), "float32")
        z = R.match_cast(x, R.Tensor((m, 4), "float32"))
        t = (y, z)
        u = t[1]
        return (R.add(u, u), R.sum(t[0]), R.reshape(u, (m * 4,)))


@I.ir_module
class ReshapeAlias:
    """Reshapes that outlive what they are views of, while others want memory of that size."""

    @R.function
    def main(x: R.Tensor((3, 3), "float32"), w: R.Tensor((3, 3), "float32")):
        a = R.matmul(x, w)
        b = R.reshape(a, R.shape([9]))
        c = R.matmul(w, x)
        d = R.reshape(R.reshape(c, R.shape([9, 1])), R.shape([9]))
        e = R.matmul(w, w)
        f = R.reshape(e, R.shape([9]))
        return (R.subtract(b, d), R.add(b, f), d)


def reshape_alias(x, w):
    a, c, e = (m.reshape(9) for m in (x @ w, w @ x, w @ w))
    return [a - c, a + e, c]


@I.ir_module
class CastAlias:
    """Tensors under the name that a match_cast gives them, after the last use of the old one."""

    @R.function
    def main(x: R.Tensor((3, 3), "float32"), w: R.Tensor((3, 3), "float32")):
        n = T.int64()
        a = R.matmul(x, w)
        b = R.match_cast(a, R.Tensor((n, 3), "float32"))
        c = R.matmul(w, x)
        d = R.match_cast(c, R.Tensor((n, 3), "float32"))
        e = R.matmul(w, w)
        f = R.matmul(e, x)
        return (R.subtract(b, d), b, f)


def cast_alias(x, w):
    a, c = x @ w, w @ x
    return [a - c, a, w @ w @ x]


@I.ir_module
class Mlp:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 5), "float32")) -> R.Tensor(("n", 5), "float32"):
        with R.dataflow():
            h = R.matmul(x, w)
            r = R.nn.relu(h)
            out = R.add(r, R.const(1.0, "float32"))
            R.output(out)
        return out


@I.ir_module
class Kernels:
    """Kernels called every way, and packed functions."""

    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] + T.float32(1)

    @T.prim_func(s_tir=True)
    def two(x: T.handle, n: T.int64, y: T.handle, z: T.handle):
        m = T.int64()
        X = T.match_buffer(x, (m,), "float32")
        Y = T.match_buffer(y, (m,), "float32")
        Z = T.match_buffer(z, (m,), "float32")
        for i in range(m):
            with T.sblock("b"):
                v = T.axis.spatial(m, i)
                Y[v] = X[v]
                Z[v] = X[v] * T.Cast("float32", n)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), z: R.Tensor(("n",), "float32")):
        n = T.int64()
        cls = Kernels
        _ = cls.add1(x, y)
        a = R.call_tir(cls.add1, (y,), out_ty=R.Tensor((4,), "float32"))
        b = R.call_tir(cls.two, (z, n * 2), out_ty=[R.Tensor((n,), "float32"), R.Tensor((n,), "float32")])
        c = R.call_packed("foo", a, n + 1, 3, ty_args=R.Tensor((4,), "float32"))
        d = R.call_pure_packed("bar", c, b[1], ty_args=R.Tensor(ndim=2, dtype="float32"))
        return (b[0], d)


@I.ir_module
class WithGradient:
    """A kernel that says what its gradient is, which TVM's own virtual machine refuses."""

    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = WithGradient
        a = R.call_tir_with_grad(
            cls.add1, (x,), out_ty=R.Tensor((4,), "float32"), te_grad_name="add1_grad", te_grad_kwargs={"k": 1.0})
        return a


def recursive():
    """The loop of TVM's reference workloads: kernels in place, recursion and `if`."""

    @I.ir_module
    class LoopRec:
        @T.prim_func(s_tir=True)
        def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
            for i in range(1):
                with T.sblock("b"):
                    v = T.axis.spatial(1, i)
                    B[v] = A[v] + T.float32(1)

        @T.prim_func(s_tir=True)
        def dec(I0: T.Buffer((1,), "int64"), C: T.Buffer((), "bool")):
            with T.sblock("b"):
                I0[0] = I0[0] - T.int64(1)
                C[()] = I0[0] > T.int64(0)

        @R.function(pure=False)
        def loop(i: R.Tensor((1,), "int64"), c: R.Tensor((), "bool"), x: R.Tensor((1,), "float32"), y: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            cls = LoopRec
            _ = cls.dec(i, c)
            _1 = cls.add1(x, y)
            if c:
                r = cls.loop(i, c, x, y)
            else:
                r = y
            return r

    return LoopRec


@I.ir_module
class Views:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor(("n", 4), "int32")):
        n = T.int64()
        with R.dataflow():
            a = R.memory.view(x, R.shape([3, 2]))
            b = R.memory.view(x, R.shape([2, 3]), R.dtype("int32"))
            c = R.memory.view(y, R.shape([n * 2, 2]), R.dtype("float32"))
            gv = (a, b, c)
            R.output(gv)
        return gv


@I.ir_module
class Devices:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float64")):
        a = R.hint_on_device(x, R.device(1, 0))
        b = R.wrap_param(y, "float32")
        return R.add(a, b)


@I.ir_module
class Moved:
    I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        a = R.to_vdevice(x, "llvm:0")
        return R.add(a, a)


@I.ir_module
class Allocations:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")):
        s = R.memory.alloc_storage(R.shape([24]), R.prim_value(0), R.str("global"), R.dtype("float32"))
        y = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([2, 3]), R.dtype("float32"), R.prim_value(0))
        z = R.builtin.alloc_tensor(R.shape([2, 3]), R.dtype("float32"), R.prim_value(0))
        _ = R.memory.kill_tensor(y)
        _1 = R.memory.kill_storage(s)
        _2 = R.assert_op(c, format="not so")
        _3 = R.print(c, format="the condition is {}")
        w = R.call_inplace_packed("vm.builtin.copy", x, inplace_indices=[0], ty_args=R.Tensor((2, 3), "float32"))
        return w


@I.ir_module
class Closures:
    @R.function
    def twice_and(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(R.add(x, x), y)

    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        f = R.make_closure(Closures.twice_and, (y,))
        a = R.invoke_closure(f, (x,), ty_args=R.Tensor((3,), "float32"))
        b = R.invoke_pure_closure(f, (a,), ty_args=R.Tensor((3,), "float32"))
        return (a, b)


def legal(x, w, b):
    """Operators that fuse as kernels: epilogues, producers of reductions, transposes."""
    h = op.nn.gelu(op.add(op.matmul(x, w), b))
    t = op.permute_dims(h)
    return [
        op.sum(op.multiply(t, t), [1], True),
        op.sqrt(op.sum(op.exp(op.subtract(x, b)), [0])),
        op.nn.softmax(op.multiply(h, h)),
        op.exp(op.negative(op.permute_dims(op.add(x, b)))),
        op.add(op.take(x, relax.const([2, 0], "int64"), 0), b),
        op.multiply(op.expand_dims(op.nn.relu(x), 0), relax.const(2.0)),
    ]


def main():
    out = sys.argv[1]
    for name, arrays, body in operators():
        write(out, name, build(arrays, body), [arrays])
    write(out, "dynamic", *dynamic())
    yes, no = np.array(True), np.array(False)
    write(out, "branch", Branch, [[yes, f32(3)], [no, f32(2)]])
    write(out, "recursion", Recursion, [[np.array(k), f32(2)] for k in (0, 3)])
    write(out, "casts", Casts, [[f32(3, 4), i64(3, 2)]])
    write(out, "mlp", Mlp, [[f32(k, 8), f32(8, 5)] for k in (1, 4)])
    square = np.round(f32(2, 3, 3))
    write(out, "alias_reshape", ReshapeAlias, [list(square)], reshape_alias)
    write(out, "alias_match_cast", CastAlias, [list(square)], cast_alias)
    write(out, "kernels", Kernels, [])
    write(out, "loop_rec", recursive(), [])
    write(out, "mlp_legal", relax.transform.LegalizeOps()(Mlp), [])
    write(out, "mlp_fused", relax.get_pipeline("zero")(Mlp), [])
    for name, arrays, body in composed_operators():
        write(out, name, build(arrays, body), [arrays])
    arrays = [f32(3, 4), f32(3, 4), f32(3, 4), f32(2, 8, 2, 3)]
    beyond = build(arrays, lambda x, y, z, image: [
        op.ewise_fma(x, y, z), op.nn.pixel_shuffle(image, 2), op.builtin.stop_lift_params(x)])
    write(out, "beyond", beyond, [arrays], by_numpy)
    for name, arrays, body in [*gradients_and_samples(), *selections(), *detections()]:
        write(out, name, build(arrays, body), [arrays])
    write(out, "with_gradient", WithGradient, [])
    arrays = [f32(3, 4), f32(4, 4), f32(4)]
    write(out, "legal", relax.transform.LegalizeOps()(build(arrays, legal)), [arrays])
    write(out, "views", Views, [[f32(2, 3), rng.integers(0, 9, (3, 4)).astype("int32")]])
    # TVM makes no code of what it removes before.
    write(out, "devices", Devices, [[f32(2, 3), f32(2, 3).astype("float64")]],
          lambda x, y: [x + y.astype("float32")])
    write(out, "moved", Moved, [[f32(2, 3)]])
    write(out, "allocations", Allocations, [[f32(2, 3), np.array(True)]])
    write(out, "closures", Closures, [[f32(3), f32(3)]])
    names = sorted(n for n in tvm.ir.Op.list_op_names() if n.startswith("relax."))
    with open(f"{out}/operators.txt", "w") as file:
        file.write("\n".join(names) + "\n")


if __name__ == "__main__":
    main()
