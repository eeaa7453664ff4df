# after: eliminate_dead_code
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, 5, 5), dtype="float32"), w: R.Tensor((3, 2, 1, 1), dtype="float32")) -> R.Tensor((1, 3, 5, 5), dtype="float32"):
        y: R.Tensor((1, 3, 5, 5), dtype="float32") = R.nn.conv2d(x, w, strides=[1, 1], padding=[0, 0, 0, 0])
        z: R.Tensor((1, 3, 5, 5), dtype="float32") = R.multiply(y, R.const(0.5, "float32"))
        return z
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, 5, 5), dtype="float32"), w: R.Tensor((3, 2, 1, 1), dtype="float32")) -> R.Tensor((1, 3, 5, 5), dtype="float32"):
        y: R.Tensor((1, 3, 5, 5), dtype="float32") = R.nn.conv2d(x, w, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        z: R.Tensor((1, 3, 5, 5), dtype="float32") = R.multiply(y, R.const(0.5, "float32"))
        return z
