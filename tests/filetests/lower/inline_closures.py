# after: inline_functions
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32"), y: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        @R.function
        def scaled(v: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
            s: R.Tensor((n,), dtype="float32") = R.multiply(v, y)
            return s

        once: R.Tensor((n,), dtype="float32") = scaled(x)
        twice: R.Tensor((n,), dtype="float32") = scaled(once)
        return twice
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32"), y: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        gv: R.Any = R.reflex.machine()
        s: R.Tensor((n,), dtype="float32") = R.multiply(x, y)
        gv1: R.Any = R.reflex.machine()
        s_1: R.Tensor((n,), dtype="float32") = R.multiply(s, y)
        return s_1
