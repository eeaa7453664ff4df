from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

m = TypeVar("m")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((m, 384), dtype="float32"), g: R.Tensor((384,), dtype="float32"), b: R.Tensor((384,), dtype="float32")) -> R.Tensor((m, 384), dtype="float32"):
        with R.dataflow():
            y: R.Tensor((m, 384), dtype="float32") = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-05, center=True, scale=True)
            R.output(y)
        return y
