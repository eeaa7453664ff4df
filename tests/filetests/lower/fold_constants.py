# after: fold_constants
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 2), dtype="float32")) -> R.Tensor((n, 2), dtype="float32"):
        a: R.Tensor((), dtype="float32") = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
        b: R.Tensor((), dtype="float32") = R.multiply(a, R.const(4.0, "float32"))
        y: R.Tensor((n, 2), dtype="float32") = R.multiply(x, b)
        return y
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 2), dtype="float32")) -> R.Tensor((n, 2), dtype="float32"):
        y: R.Tensor((n, 2), dtype="float32") = R.multiply(x, R.const(12.0, "float32"))
        return y
