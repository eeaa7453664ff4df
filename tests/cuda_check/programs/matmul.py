from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

m = TypeVar("m")
k = TypeVar("k")
n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((m, k), dtype="float32"), w: R.Tensor((k, n), dtype="float32")) -> R.Tensor((m, n), dtype="float32"):
        with R.dataflow():
            y: R.Tensor((m, n), dtype="float32") = R.matmul(x, w, out_dtype=None)
            R.output(y)
        return y
