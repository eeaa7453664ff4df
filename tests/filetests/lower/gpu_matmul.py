# after: steps
# gpu: cuda:sm_80
# A matrix product.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), w: R.Tensor((64, 128), dtype="float32")) -> R.Tensor((n, 128), dtype="float32"):
        a: R.Tensor((n, 128), dtype="float32") = R.matmul(x, w)
        return a
# ----
mat_mul
  step  matmul: cache_write_at matmul k0 Local -> t2_local
  step  matmul: decompose_reduction matmul k0 -> matmul_init
  step  matmul: fuse i0, i1 -> i0_i1_fused
  step  matmul: split i0_i1_fused by 256 -> i0_i1_fused_0, i0_i1_fused_1
  step  matmul: bind i0_i1_fused_0 to blockIdx.x
  step  matmul: bind i0_i1_fused_1 to threadIdx.x
  stage matmul: fallback; not map: not a map over an axis; not row reduction: elements not contiguous
