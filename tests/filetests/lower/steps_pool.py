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
  step  pool: 1 x 8 results along v_i3 at a time, each in order
  stage pool: reduce across rows; not gemm: not a sum of products
