# after: steps
# Lanes run along the rows that are summed.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, 100), dtype="float32")) -> R.Tensor((40,), dtype="float32"):
        a: R.Tensor((40,), dtype="float32") = R.sum(x, axis=[1])
        return a
# ----
sum
  step  reduce: 4 x 8 parts along v_k0, combined by halves
  stage reduce: reduce along rows; not gemm: not a sum of products
