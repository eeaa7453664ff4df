# after: steps
# gpu: cuda:sm_80
# A block for each row, a tree reduction of what its threads have.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 1000), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        a: R.Tensor((n,), dtype="float32") = R.sum(x, axis=[1])
        return a
# ----
sum
  step  reduce: split k0 by 32 -> k0_0, k0_1
  step  reduce: rfactor reduce k0_1 -> reduce_rf
  step  reduce: set_scope t1_rf Shared
  step  reduce: reorder k0_1 of reduce_rf, k0_0
  step  reduce: cache_write_at reduce_rf k0_0 Local -> t1_rf_local
  step  reduce: decompose_reduction reduce_rf k0_0 -> reduce_rf_init
  step  reduce: bind k0_1 of reduce_rf_init to threadIdx.x
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half
  step  reduce: bind k0_1 of reduce_half to threadIdx.x
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half_1
  step  reduce: bind k0_1 of reduce_half_1 to threadIdx.x
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half_2
  step  reduce: bind k0_1 of reduce_half_2 to threadIdx.x
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half_3
  step  reduce: bind k0_1 of reduce_half_3 to threadIdx.x
  step  reduce: tree_reduce reduce k0_1 of reduce
  step  reduce: bind i0 to blockIdx.x
  stage reduce: row reduction; not transpose: not a move to another axis; not map: not a map over an axis; not gemv, in order: not a contraction; not gemv: not a contraction; not gemm, warp-specialised: not on this GPU; not gemm, tensor cores: not a contraction; not gemm, split-k: not a contraction; not gemm, terms: not in this precision; not gemm: not a contraction
