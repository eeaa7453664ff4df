# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 100), dtype="float32"), g: R.Tensor((100,), dtype="float32"), b: R.Tensor((100,), dtype="float32")) -> R.Tensor((n, 100), dtype="float32"):
        a: R.Tensor((n, 100), dtype="float32") = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=1.0000000000000001e-05)
        return a
# ----
layer_norm
  step  rstd: computed where it is read
  step  sum, mean, squares, normalize: one after the other in one loop over (v_i0)
  step  sum: its row stays on the stack
  step  mean: its row stays on the stack
  step  squares: its row stays on the stack
  step  sum: 4 x 8 parts along v_k0, combined by halves
  step  squares: 4 x 8 parts along v_k0, combined by halves
  step  normalize: partition i1 at 96 -> i1, i1_tail
  step  normalize: vectorize i1_tail
  step  normalize: split i1 by 8 -> i1_0, i1_1
  step  normalize: vectorize i1_1
  stage sum: reduce along rows
  stage mean: map
  stage squares: reduce along rows
  stage normalize: map
