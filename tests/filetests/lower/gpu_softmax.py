# after: steps
# gpu: cuda:sm_80
# Rows of 300.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 300), dtype="float32")) -> R.Tensor((n, 300), dtype="float32"):
        a: R.Tensor((n, 300), dtype="float32") = R.nn.softmax(x, axis=-1)
        return a
# ----
softmax
  step  max: split k0 by 256 -> k0_0, k0_1
  step  max: rfactor max k0_1 -> max_rf
  step  max: set_scope t2_rf Shared
  step  max: reorder k0_1 of max_rf, k0_0
  step  max: cache_write_at max_rf k0_0 Local -> t2_rf_local
  step  max: decompose_reduction max_rf k0_0 -> max_rf_init
  step  max: bind k0_1 of max_rf_init to threadIdx.x
  step  max: tree_reduce max k0_1 of max -> max_half
  step  max: bind k0_1 of max_half to threadIdx.x
  step  max: tree_reduce max k0_1 of max -> max_half_1
  step  max: bind k0_1 of max_half_1 to threadIdx.x
  step  max: tree_reduce max k0_1 of max -> max_half_2
  step  max: bind k0_1 of max_half_2 to threadIdx.x
  step  max: tree_reduce max k0_1 of max -> max_half_3
  step  max: bind k0_1 of max_half_3 to threadIdx.x
  step  max: tree_reduce max k0_1 of max -> max_half_4
  step  max: bind k0_1 of max_half_4 to threadIdx.x
  step  max: tree_reduce max k0_1 of max -> max_half_5
  step  max: bind k0_1 of max_half_5 to threadIdx.x
  step  max: tree_reduce max k0_1 of max -> max_half_6
  step  max: bind k0_1 of max_half_6 to threadIdx.x
  step  max: tree_reduce max k0_1 of max
  step  max: bind i0 to blockIdx.x
  step  exp: split i1 by 4 -> i1_0, i1_1
  step  exp: vectorize i1_1
  step  exp: fuse i0, i1_0 -> i0_i1_0_fused
  step  exp: split i0_i1_0_fused by 256 -> i0_i1_0_fused_0, i0_i1_0_fused_1
  step  exp: bind i0_i1_0_fused_0 to blockIdx.x
  step  exp: bind i0_i1_0_fused_1 to threadIdx.x
  step  sum: split k0 by 256 -> k0_0, k0_1
  step  sum: rfactor sum k0_1 -> sum_rf
  step  sum: set_scope t4_rf Shared
  step  sum: reorder k0_1 of sum_rf, k0_0
  step  sum: cache_write_at sum_rf k0_0 Local -> t4_rf_local
  step  sum: decompose_reduction sum_rf k0_0 -> sum_rf_init
  step  sum: bind k0_1 of sum_rf_init to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum -> sum_half
  step  sum: bind k0_1 of sum_half to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_1
  step  sum: bind k0_1 of sum_half_1 to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_2
  step  sum: bind k0_1 of sum_half_2 to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_3
  step  sum: bind k0_1 of sum_half_3 to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_4
  step  sum: bind k0_1 of sum_half_4 to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_5
  step  sum: bind k0_1 of sum_half_5 to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_6
  step  sum: bind k0_1 of sum_half_6 to threadIdx.x
  step  sum: tree_reduce sum k0_1 of sum
  step  sum: bind i0 to blockIdx.x
  step  normalize: split i1 by 4 -> i1_0, i1_1
  step  normalize: vectorize i1_1
  step  normalize: fuse i0, i1_0 -> i0_i1_0_fused
  step  normalize: split i0_i1_0_fused by 256 -> i0_i1_0_fused_0, i0_i1_0_fused_1
  step  normalize: bind i0_i1_0_fused_0 to blockIdx.x
  step  normalize: bind i0_i1_0_fused_1 to threadIdx.x
  stage max: row reduction; not transpose: not a move to another axis; not map: not a map over an axis; not gemm: not a contraction
  stage exp: map; not transpose: not a move to another axis
  stage sum: row reduction; not transpose: not a move to another axis; not map: not a map over an axis; not gemm: not a contraction
  stage normalize: map; not transpose: not a move to another axis
