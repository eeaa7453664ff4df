# after: steps
# Lanes run along the rows that are summed.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, 100), dtype="float32")) -> R.Tensor((40,), dtype="float32"):
        a: R.Tensor((40,), dtype="float32") = R.sum(x, axis=[1])
        return a
# ----
sum
  step  reduce: split k0 by 32 -> k0_0, k0_1
  step  reduce: rfactor reduce k0_1 -> reduce_rf
  step  reduce: set_scope t1_rf Local
  step  reduce: decompose_reduction reduce_rf k0_0 -> reduce_rf_init
  step  reduce: split k0_1 of reduce_rf_init by 8 -> k0_1_0, k0_1_1
  step  reduce: vectorize k0_1_1
  step  reduce: unroll k0_1_0
  step  reduce: partition k0_0 at 3 -> k0_0, k0_0_tail
  step  reduce: separate_full_tiles reduce_rf_tail k0_1: 4
  step  reduce: vectorize k0_1 of reduce_rf_tail
  step  reduce: split k0_1 of reduce_rf by 8 -> k0_1_0, k0_1_1
  step  reduce: vectorize k0_1_1 of reduce_rf
  step  reduce: unroll k0_1_0 of reduce_rf
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half
  step  reduce: split k0_1 of reduce_half by 8 -> k0_1_0, k0_1_1
  step  reduce: vectorize k0_1_1 of reduce_half
  step  reduce: unroll k0_1_0 of reduce_half
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half_1
  step  reduce: vectorize k0_1 of reduce_half_1
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half_2
  step  reduce: vectorize k0_1 of reduce_half_2
  step  reduce: tree_reduce reduce k0_1 of reduce -> reduce_half_3
  step  reduce: vectorize k0_1 of reduce_half_3
  step  reduce: tree_reduce reduce k0_1 of reduce
  stage reduce: row reduction; not gemm: not a contraction
