# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, 100), dtype="float32")) -> R.Tensor((40, 100), dtype="float32"):
        a: R.Tensor((40, 100), dtype="float32") = R.nn.softmax(x, axis=-1)
        return a
# ----
softmax
  stage max: reduce along rows
  stage exp: map
  stage sum: reduce along rows
  stage normalize: map
