# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, 100), dtype="float32")) -> R.Tensor((40, 100), dtype="float32"):
        a: R.Tensor((40, 100), dtype="float32") = R.nn.softmax(x, axis=-1)
        return a
# ----
softmax
  step  max, exp, sum, normalize: one after the other in one loop over (v_i0)
  step  max: its row stays on the stack
  step  exp: its row stays on the stack
  step  sum: its row stays on the stack
  step  max: 4 x 8 parts along v_k0, combined by halves
  step  exp: partition i1 at 96 -> i1, i1_tail
  step  exp: vectorize i1_tail
  step  exp: split i1 by 8 -> i1_0, i1_1
  step  exp: vectorize i1_1
  step  sum: 4 x 8 parts along v_k0, combined by halves
  step  normalize: partition i1 at 96 -> i1, i1_tail
  step  normalize: vectorize i1_tail
  step  normalize: split i1 by 8 -> i1_0, i1_1
  step  normalize: vectorize i1_1
  stage max: reduce along rows
  stage exp: map
  stage sum: reduce along rows
  stage normalize: map
