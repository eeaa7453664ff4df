# Softmax over rows of any length, as TVMScript.
from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

m = TypeVar("m")
n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((m, n), dtype="float32")) -> R.Tensor((m, n), dtype="float32"):
        with R.dataflow():
            y: R.Tensor((m, n), dtype="float32") = R.nn.softmax(x, axis=-1)
            R.output(y)
        return y
