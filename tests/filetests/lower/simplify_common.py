# after: eliminate_dead_code
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        a: R.Tensor((n,), dtype="float32") = R.exp(x)
        b: R.Tensor((n,), dtype="float32") = R.exp(x)
        unused: R.Tensor((n,), dtype="float32") = R.tanh(x)
        c: R.Tensor((n,), dtype="float32") = R.add(a, b)
        return c
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
        a: R.Tensor((n,), dtype="float32") = R.exp(x)
        c: R.Tensor((n,), dtype="float32") = R.add(a, a)
        return c
