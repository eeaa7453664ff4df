# after: steps
# gpu: cuda:sm_80
# Rows of queries on tensor cores.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((2, 512, 12, 64), dtype="bfloat16"), k: R.Tensor((2, 512, 12, 64), dtype="bfloat16"), v: R.Tensor((2, 512, 12, 64), dtype="bfloat16")) -> R.Tensor((2, 512, 12, 64), dtype="bfloat16"):
        a: R.Tensor((2, 512, 12, 64), dtype="bfloat16") = R.nn.attention(q, k, v)
        return a
# ----
fused_transpose_transpose_transpose_mat_mul_mul_3more
  step  transpose: inlined into its readers
  step  transpose_1: inlined into its readers
  step  transpose_2: inlined into its readers
  step  round: inlined into its readers
  step  binary: inlined into its readers
  step  round_1: inlined into its readers
  step  matmul .. matmul_1: online softmax, tensor cores, tiles of 64 rows and 64 keys
  stage matmul: attention, tensor cores
  stage max: attention, tensor cores
  stage exp: attention, tensor cores
  stage sum: attention, tensor cores
  stage normalize: attention, tensor cores
  stage matmul_1: attention, tensor cores
  stage transpose_3: attention, tensor cores
