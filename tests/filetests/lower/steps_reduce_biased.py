# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8, 100), dtype="float32"), b: R.Tensor((8, 1), dtype="float32")) -> R.Tensor((n, 8), dtype="float32"):
        y: R.Tensor((n, 8, 100), dtype="float32") = R.add(x, b)
        z: R.Tensor((n, 8), dtype="float32") = R.max(y, axis=[2], keepdims=False)
        return z
# ----
fused_add_max
  step  binary: computed where it is read
  step  reduce: 4 x 8 parts along v_k0, combined by halves
  stage reduce: reduce along rows; not gemm: not a sum of products
