# after: steps
# gpu: cuda:sm_80
# One query: blocks take parts of the keys, whose number is not known.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((1, 1, 4, 64), dtype="float16"), k: R.Tensor((1, n, 4, 64), dtype="float16"), v: R.Tensor((1, n, 4, 64), dtype="float16")) -> R.Tensor((1, 1, 4, 64), dtype="float16"):
        a: R.Tensor((1, 1, 4, 64), dtype="float16") = R.nn.attention(q, k, v)
        return a
# ----
fused_transpose_transpose_mat_mul_mul_softmax_1more
  step  transpose: inlined into its readers
  step  transpose_1: inlined into its readers
  step  round: inlined into its readers
  step  binary: inlined into its readers
  step  matmul .. matmul_1: online softmax, fused multiply-adds, tiles of 1 rows and 64 keys, in 32 parts of the keys
  stage matmul: attention
  stage max: attention
  stage exp: attention
  stage sum: attention
  stage normalize: attention
  stage matmul_1: attention
  stage round_1: attention
