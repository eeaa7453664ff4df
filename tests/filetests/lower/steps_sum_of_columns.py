# after: steps
# Lanes run across the columns that are summed.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, 100), dtype="float32")) -> R.Tensor((100,), dtype="float32"):
        a: R.Tensor((100,), dtype="float32") = R.sum(x, axis=[0])
        return a
# ----
sum
  step  reduce: partition i0 at 96 -> i0, i0_tail
  step  reduce: reorder k0, i0_tail
  step  reduce: cache_write_at reduce_tail k0 of reduce_tail Local -> t1_local
  step  reduce: decompose_reduction reduce_tail k0 of reduce_tail -> reduce_tail_init
  step  reduce: vectorize i0_tail of reduce_tail_init
  step  reduce: vectorize i0_tail of reduce_tail
  step  reduce: vectorize i0_tail of t1_local
  step  reduce: split i0 by 32 -> i0_0, i0_1
  step  reduce: reorder i0_0, k0 of reduce, i0_1
  step  reduce: cache_write_at reduce k0 of reduce Local -> t1_local_1
  step  reduce: decompose_reduction reduce k0 of reduce -> reduce_init
  step  reduce: split i0_1 of reduce_init by 8 -> i0_1_0, i0_1_1
  step  reduce: vectorize i0_1_1
  step  reduce: unroll i0_1_0
  step  reduce: split i0_1 of reduce by 8 -> i0_1_0, i0_1_1
  step  reduce: vectorize i0_1_1 of reduce
  step  reduce: unroll i0_1_0 of reduce
  step  reduce: split i0_1 by 8 -> i0_1_0, i0_1_1
  step  reduce: vectorize i0_1_1 of t1_local_1
  step  reduce: unroll i0_1_0 of t1_local_1
  stage reduce: column reduction; not gemm: not a contraction
