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
  step  max, exp, sum, normalize: fuse_adjacent i0 of max, i0 of exp
  step  max, exp, sum, normalize: fuse_adjacent i0 of max, i0 of sum
  step  max, exp, sum, normalize: fuse_adjacent i0 of max, i0 of normalize
  step  max, exp, sum, normalize: store_at max i0 Shared
  step  max, exp, sum, normalize: store_at exp i0 Shared
  step  max, exp, sum, normalize: store_at sum i0 Shared
  step  max, exp, sum, normalize: split k0 of max by 32 -> k0_0, k0_1
  step  max, exp, sum, normalize: rfactor max k0_1 -> max_rf
  step  max, exp, sum, normalize: set_scope t2_rf Shared
  step  max, exp, sum, normalize: reorder k0_1 of max_rf, k0_0
  step  max, exp, sum, normalize: cache_write_at max_rf k0_0 Local -> t2_rf_local
  step  max, exp, sum, normalize: decompose_reduction max_rf k0_0 -> max_rf_init
  step  max, exp, sum, normalize: bind k0_1 of max_rf_init to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce max k0_1 of max -> max_half
  step  max, exp, sum, normalize: bind k0_1 of max_half to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce max k0_1 of max -> max_half_1
  step  max, exp, sum, normalize: bind k0_1 of max_half_1 to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce max k0_1 of max -> max_half_2
  step  max, exp, sum, normalize: bind k0_1 of max_half_2 to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce max k0_1 of max -> max_half_3
  step  max, exp, sum, normalize: bind k0_1 of max_half_3 to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce max k0_1 of max
  step  max, exp, sum, normalize: split i1 of exp by 32 -> i1_0, i1_1
  step  max, exp, sum, normalize: bind i1_1 to threadIdx.x
  step  max, exp, sum, normalize: split k0 by 32 -> k0_0, k0_1
  step  max, exp, sum, normalize: rfactor sum k0_1 of sum -> sum_rf
  step  max, exp, sum, normalize: set_scope t4_rf Shared
  step  max, exp, sum, normalize: reorder k0_1, k0_0 of sum_rf
  step  max, exp, sum, normalize: cache_write_at sum_rf k0_0 of sum_rf Local -> t4_rf_local
  step  max, exp, sum, normalize: decompose_reduction sum_rf k0_0 of sum_rf -> sum_rf_init
  step  max, exp, sum, normalize: bind k0_1 of sum_rf_init to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce sum k0_1 of sum -> sum_half
  step  max, exp, sum, normalize: bind k0_1 of sum_half to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce sum k0_1 of sum -> sum_half_1
  step  max, exp, sum, normalize: bind k0_1 of sum_half_1 to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce sum k0_1 of sum -> sum_half_2
  step  max, exp, sum, normalize: bind k0_1 of sum_half_2 to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce sum k0_1 of sum -> sum_half_3
  step  max, exp, sum, normalize: bind k0_1 of sum_half_3 to threadIdx.x
  step  max, exp, sum, normalize: tree_reduce sum k0_1 of sum
  step  max, exp, sum, normalize: split i1 by 32 -> i1_0, i1_1
  step  max, exp, sum, normalize: bind i1_1 of normalize to threadIdx.x
  step  max, exp, sum, normalize: bind i0 to blockIdx.x
  stage max: rows
  stage exp: rows
  stage sum: rows
  stage normalize: rows
