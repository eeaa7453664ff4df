# after: propagate_strides
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8, 9, 9), dtype="float32"), w3: R.Tensor((8, 8, 3, 3), dtype="float32"), w1: R.Tensor((8, 8, 1, 1), dtype="float32"), b: R.Tensor((8, 1, 1), dtype="float32")) -> R.Tuple(R.Tensor((n, 8, 5, 5), dtype="float32"), R.Tensor((n, 8, 5, 5), dtype="float32"), R.Tensor((n, 8, 7, 7), dtype="float32")):
        a: R.Tensor((n, 8, 9, 9), dtype="float32") = R.nn.conv2d(x, w3, strides=[1, 1], padding=[1, 1, 1, 1])
        c: R.Tensor((n, 8, 9, 9), dtype="float32") = R.nn.relu(a)
        d: R.Tensor((n, 8, 9, 9), dtype="float32") = R.nn.conv2d(c, w1, strides=[1, 1], padding=[0, 0, 0, 0])
        e: R.Tensor((n, 8, 9, 9), dtype="float32") = R.add(d, b)
        f: R.Tensor((n, 8, 9, 9), dtype="float32") = R.add(e, x)
        g: R.Tensor((n, 8, 9, 9), dtype="float32") = R.nn.relu(f)
        h: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.conv2d(g, w1, strides=[2, 2], padding=[0, 0, 0, 0])
        i: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.conv2d(g, w1, strides=[2, 2], padding=[0, 0, 0, 0])
        j: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.relu(i)
        k: R.Tensor((n, 8, 7, 7), dtype="float32") = R.nn.conv2d(x, w3, strides=[1, 1], padding=[0, 0, 0, 0])
        return (h, j, k)
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8, 9, 9), dtype="float32"), w3: R.Tensor((8, 8, 3, 3), dtype="float32"), w1: R.Tensor((8, 8, 1, 1), dtype="float32"), b: R.Tensor((8, 1, 1), dtype="float32")) -> R.Tuple(R.Tensor((n, 8, 5, 5), dtype="float32"), R.Tensor((n, 8, 5, 5), dtype="float32"), R.Tensor((n, 8, 7, 7), dtype="float32")):
        a: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.conv2d(x, w3, strides=[2, 2], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        c: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.relu(a)
        d: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.conv2d(c, w1, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        e: R.Tensor((n, 8, 5, 5), dtype="float32") = R.add(d, b)
        gv: R.Tensor((n, 8, 5, 5), dtype="float32") = R.strided_slice(x, (0, 1, 2, 3), (0, 0, 0, 0), (n, 8, 9, 9), (1, 1, 2, 2), assume_inbound=True)
        f: R.Tensor((n, 8, 5, 5), dtype="float32") = R.add(e, gv)
        g: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.relu(f)
        h: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.conv2d(g, w1, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        j: R.Tensor((n, 8, 5, 5), dtype="float32") = R.nn.relu(h)
        k: R.Tensor((n, 8, 7, 7), dtype="float32") = R.nn.conv2d(x, w3, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        return (h, j, k)
