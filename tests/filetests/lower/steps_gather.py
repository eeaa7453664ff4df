# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1000, 64), dtype="float32"), i: R.Tensor((12,), dtype="int64")) -> R.Tensor((12, 64), dtype="float32"):
        a: R.Tensor((12, 64), dtype="float32") = R.take(x, i, axis=0)
        return a
# ----
gather
  step  gather: split i1 by 4 -> i1_0, i1_1
  step  gather: vectorize i1_1
  stage gather: elementwise
