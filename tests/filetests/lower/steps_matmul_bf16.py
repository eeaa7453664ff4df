# after: steps
# precision: bf16
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
  step  matmul: tile of 8 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; no threads; dot products of bfloat16 pairs
  stage pairs0: map
  stage pairs1: map
  stage matmul: gemm
  stage binary: epilogue of gemm
