# after: simplify
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 12), dtype="float32"), R.Tensor((), dtype="float32")):
        a: R.Tensor((4, 3, 2), dtype="float32") = R.permute_dims(x, axes=[2, 1, 0])
        b: R.Tensor((2, 3, 4), dtype="float32") = R.permute_dims(a, axes=[2, 1, 0])
        c: R.Tensor((6, 4), dtype="float32") = R.reshape(b, R.shape([6, 4]))
        d: R.Tensor((2, 12), dtype="float32") = R.reshape(c, R.shape([2, 12]))
        e: R.Tensor((2, 12), dtype="float32") = R.add(d, R.const(0.0, "float32"))
        f: R.Tensor((2, 12), dtype="float32") = R.multiply(e, R.const(1.0, "float32"))
        g: R.Tensor((), dtype="float32") = R.max(d, axis=[0, 1], keepdims=False)
        return (f, g)
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 12), dtype="float32"), R.Tensor((), dtype="float32")):
        d: R.Tensor((2, 12), dtype="float32") = R.reshape(x, R.shape([2, 12]))
        e: R.Tensor((2, 12), dtype="float32") = R.add(d, R.const(0.0, "float32"))
        g: R.Tensor((), dtype="float32") = R.max(x, axis=[0, 1, 2], keepdims=False)
        return (e, g)
