# after: steps
# Lanes run across the columns that are summed.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, 100), dtype="float32")) -> R.Tensor((100,), dtype="float32"):
        a: R.Tensor((100,), dtype="float32") = R.sum(x, axis=[0])
        return a
# ----
sum
  step  reduce: 4 x 8 results along v_i0 at a time, each in order
  stage reduce: reduce across rows; not gemm: not a sum of products
