# after: fold_constants
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        if R.const(True, "bool"):
            y_then: R.Tensor((n,), dtype="float32") = R.negative(x)
            y: R.Tensor((n,), dtype="float32") = y_then
        else:
            y_else: R.Tensor((n,), dtype="float32") = R.exp(x)
            y: R.Tensor((n,), dtype="float32") = y_else
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
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        y_then: R.Tensor((n,), dtype="float32") = R.negative(x)
        return y_then
