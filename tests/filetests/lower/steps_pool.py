# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 32, 20, 20), dtype="float32")) -> R.Tensor((1, 32, 10, 10), dtype="float32"):
        a: R.Tensor((1, 32, 10, 10), dtype="float32") = R.nn.max_pool2d(x, pool_size=[2, 2], strides=[2, 2])
        return a
# ----
pool
  step  pool: collapse_axes i1, i2 -> m
  step  pool: partition i3 at 8 -> i3, i3_tail
  step  pool: reorder k0, k1, i3_tail
  step  pool: cache_write_at pool_tail k0 of pool_tail Local -> t1_local
  step  pool: decompose_reduction pool_tail k0 of pool_tail -> pool_tail_init
  step  pool: vectorize i3_tail of pool_tail_init
  step  pool: vectorize i3_tail of pool_tail
  step  pool: vectorize i3_tail of t1_local
  step  pool: reorder k0 of pool, k1 of pool, i3
  step  pool: cache_write_at pool k0 of pool Local -> t1_local_1
  step  pool: decompose_reduction pool k0 of pool -> pool_init
  step  pool: vectorize i3 of pool_init
  step  pool: vectorize i3 of pool
  step  pool: vectorize i3 of t1_local_1
  stage pool: column reduction; not gemm: not a contraction
