# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="uint8"), w: R.Tensor((64, 32), dtype="int8"), s: R.Tensor((), dtype="float32")) -> R.Tensor((n, 32), dtype="float32"):
        a: R.Tensor((n, 32), dtype="int32") = R.matmul(x, w, out_dtype="int32")
        b: R.Tensor((n, 32), dtype="float32") = R.astype(a, dtype="float32")
        c: R.Tensor((n, 32), dtype="float32") = R.multiply(b, s)
        return c
# ----
