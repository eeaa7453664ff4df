# after: steps
# gpu: cuda:sm_80
# Rows become columns.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((64, n), dtype="float32"):
        a: R.Tensor((64, n), dtype="float32") = R.permute_dims(x, axes=[1, 0])
        return a
# ----
transpose
  step  transpose: tiles of 32 x 32 in shared memory
  stage transpose: transpose
