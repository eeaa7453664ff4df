# after: steps
# gpu: cuda:sm_80
# A thread for each result: neighbours load neighbours.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1000, n), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        a: R.Tensor((n,), dtype="float32") = R.sum(x, axis=[0])
        return a
# ----
sum
  step  reduce: cache_write_at reduce k0 Local -> t1_local
  step  reduce: decompose_reduction reduce k0 -> reduce_init
  step  reduce: split i0 by 256 -> i0_0, i0_1
  step  reduce: bind i0_0 to blockIdx.x
  step  reduce: bind i0_1 to threadIdx.x
  stage reduce: fallback; not transpose: not a move to another axis; not map: not a map over an axis; not gemv, in order: not a contraction; not gemv: not a contraction; not gemm, warp-specialised: not on this GPU; not gemm, tensor cores: not a contraction; not gemm, split-k: not a contraction; not gemm, terms: not in this precision; not gemm: not a contraction; not row reduction: elements not contiguous; not split reduction: extents not known
