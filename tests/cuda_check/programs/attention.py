from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

h = TypeVar("h")
m = TypeVar("m")
n = TypeVar("n")
d = TypeVar("d")


@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((h, m, d), dtype="float32"), k: R.Tensor((h, n, d), dtype="float32"), v: R.Tensor((h, n, d), dtype="float32")) -> R.Tensor((h, m, d), dtype="float32"):
        with R.dataflow():
            t: R.Tensor((h, d, n), dtype="float32") = R.permute_dims(k, axes=[0, 2, 1])
            s: R.Tensor((h, m, n), dtype="float32") = R.matmul(q, t, out_dtype=None)
            p: R.Tensor((h, m, n), dtype="float32") = R.nn.softmax(s, axis=-1)
            y: R.Tensor((h, m, d), dtype="float32") = R.matmul(p, v, out_dtype=None)
            R.output(y)
        return y
