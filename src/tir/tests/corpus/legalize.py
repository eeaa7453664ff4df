"""Prints, as TVM does, the loop IR that TVM makes of common graph operators.

Run with a Python that has apache-tvm 0.27 and redirect to legalized.txt beside this file.
"""

from typing import TypeVar

from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((n, 4), "float32"),
        y: R.Tensor((4,), "float32"),
        v: R.Tensor((n, 4), "float32"),
        w: R.Tensor((4, 16), "float32"),
        image: R.Tensor((1, 3, 8, 8), "float32"),
        kernel: R.Tensor((2, 3, 3, 3), "float32"),
        i: R.Tensor((n, 4), "int64"),
    ):
        with R.dataflow():
            z = R.nn.softmax(R.add(x, y))
            total = R.sum(z, axis=1)
            a = R.nn.gelu(z)
            c = R.astype(total, "int32")
            b = R.floor_divide(c, c)
            e = R.erf(R.permute_dims(R.nn.layer_norm(z, y, y, axes=[-1])))
            d = R.max(e)
            f = R.concat([x, R.where(R.less(x, v), x, v)], axis=1)
            g = R.argmax(x, axis=1)
            h = R.nn.relu(R.matmul(x, w))
            j = R.nn.conv2d(image, kernel, padding=[1, 1])
            k = R.nn.max_pool2d(image, pool_size=[2, 2], strides=[2, 2])
            l = R.reshape(x, (n * 4,))
            m = R.sigmoid(R.tanh(R.exp(R.negative(x))))
            o = R.clip(R.sqrt(R.abs(x)), 0.0, 6.0)
            p = R.logical_and(R.less(x, v), R.greater(x, v))
            q = R.take(y, R.astype(i, "int32"), axis=0)
            r = R.mean(x, axis=[-1], keepdims=True)
            s = R.bitwise_xor(i, i)
            t = R.floor(R.power(x, v))
            u = R.isnan(x)
            R.output(a, b, d, f, g, h, j, k, l, m, o, p, q, r, s, t, u)
        return a, b, d, f, g, h, j, k, l, m, o, p, q, r, s, t, u


module = relax.transform.LegalizeOps()(Module)
fused = relax.transform.AnnotateTIROpPattern()(module)
fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(fused))
seen = set()
for source in (module, fused):
    for name, func in source.functions_items():
        text = func.script()
        if not isinstance(func, relax.Function) and text not in seen:
            seen.add(text)
            print(text)
            print("# ---")
