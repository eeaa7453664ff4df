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
  step  transpose: fuse i0, i1 -> i0_i1_fused
  step  transpose: split i0_i1_fused by 256 -> i0_i1_fused_0, i0_i1_fused_1
  step  transpose: bind i0_i1_fused_0 to blockIdx.x
  step  transpose: bind i0_i1_fused_1 to threadIdx.x
  stage transpose: fallback; not map: rows are not whole vectors; not row reduction: nothing to reduce
