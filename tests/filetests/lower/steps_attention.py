# after: steps
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
fused_mat_mul_mul
  step  matmul: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (v_i1), columns inside; no threads
  step  binary: merge_axes i2, i3 -> m
  step  binary: merge_axes i1, m -> m
  step  binary: split m by 8 -> m_0, m_1
  step  binary: vectorize m_1
  stage matmul: gemm
  stage binary: map
mat_mul
  step  matmul: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (v_i1), columns inside; no threads
  stage matmul: gemm
softmax
  step  max, exp, sum, normalize: one after the other in one loop over (v_i0, v_i1, v_i2)
  step  max: its row stays on the stack
  step  exp: its row stays on the stack
  step  sum: its row stays on the stack
  step  max: 1 x 8 parts along v_k0, combined by halves
  step  exp: split i3 by 8 -> i3_0, i3_1
  step  exp: vectorize i3_1
  step  sum: 1 x 8 parts along v_k0, combined by halves
  step  normalize: split i3 by 8 -> i3_0, i3_1
  step  normalize: vectorize i3_1
  stage max: reduce along rows
  stage exp: map
  stage sum: reduce along rows
  stage normalize: map
transpose
  step  transpose: split i3 by 8 -> i3_0, i3_1
  step  transpose: vectorize i3_1
  stage transpose: map
transpose1
  step  transpose: merge_axes i1, i2 -> m
  step  transpose: split i3 by 8 -> i3_0, i3_1
  step  transpose: vectorize i3_1
  stage transpose: map
transpose2
  step  transpose: split i3 by 8 -> i3_0, i3_1
  step  transpose: vectorize i3_1
  stage transpose: map
