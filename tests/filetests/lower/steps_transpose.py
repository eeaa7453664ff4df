# after: steps
# Vectors run over what is stored side by side.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64, 48), dtype="float32")) -> R.Tensor((48, 64), dtype="float32"):
        a: R.Tensor((48, 64), dtype="float32") = R.permute_dims(x, axes=[1, 0])
        return a
# ----
transpose
  step  transpose: split i0 by 16 -> i0_0, i0_1
  step  transpose: split i1 by 8 -> i1_0, i1_1
  step  transpose: reorder i0_0, i1_0, i0_1, i1_1
  step  transpose: vectorize i1_1
  stage transpose: elementwise
