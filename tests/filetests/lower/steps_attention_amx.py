# after: steps
# amx
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((1, 16, 4, 32), dtype="float32"), k: R.Tensor((1, 16, 4, 32), dtype="float32"), v: R.Tensor((1, 16, 4, 32), dtype="float32")) -> R.Tensor((1, 16, 4, 32), dtype="float32"):
        a: R.Tensor((1, 16, 4, 32), dtype="float32") = R.nn.attention(q, k, v)
        return a
# ----
fused_transpose_transpose_transpose_mat_mul_mul_3more
  step  transpose: computed where it is read
  step  transpose_1: computed where it is read
  step  transpose_2: computed where it is read
  step  binary: computed where it is read
  step  matmul_1: stored where transpose_3 would move it
  step  matmul: columns copied into panels
  step  panels: merge_axes c, c -> m
  step  panels: vectorize lane
  step  matmul, max, exp, sum, normalize, matmul_1: in blocks of 16 rows
  step  matmul: tile of 8 rows by 1 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; no threads
  step  max, exp, sum, normalize: one after the other in one loop over (row)
  step  max: its row stays on the stack
  step  exp: its row stays on the stack
  step  sum: its row stays on the stack
  step  max: 1 x 16 parts along v_k0, combined by halves
  step  exp: vectorize i3
  step  sum: 1 x 16 parts along v_k0, combined by halves
  step  normalize: vectorize i3
  step  matmul_1: tile of 8 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; no threads
  stage panels: map
  stage matmul: gemm
  stage max: reduce along rows
  stage exp: map
  stage sum: reduce along rows
  stage normalize: map
  stage matmul_1: gemm
