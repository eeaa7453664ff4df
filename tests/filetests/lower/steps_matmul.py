# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), w: R.Tensor((64, 96), dtype="float32")) -> R.Tensor((n, 96), dtype="float32"):
        a: R.Tensor((n, 96), dtype="float32") = R.matmul(x, w)
        b: R.Tensor((n, 96), dtype="float32") = R.nn.relu(a)
        return b
# ----
fused_mat_mul_max
  step  matmul: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; no threads
  stage matmul: gemm
  stage binary: epilogue of gemm
