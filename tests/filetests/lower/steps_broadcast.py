# after: steps
# A bias is not stepped through like what it is added to, so rows stay rows.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 100), dtype="float32"), b: R.Tensor((100,), dtype="float32")) -> R.Tensor((n, 100), dtype="float32"):
        a: R.Tensor((n, 100), dtype="float32") = R.add(x, b)
        return a
# ----
add
  step  binary: partition i1 at 96 -> i1, i1_tail
  step  binary: vectorize i1_tail
  step  binary: split i1 by 8 -> i1_0, i1_1
  step  binary: vectorize i1_1
  stage binary: elementwise
