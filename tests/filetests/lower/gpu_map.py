# after: steps
# gpu: cuda:sm_80
# A vector of four floats for each thread.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 100), dtype="float32")) -> R.Tensor((n, 100), dtype="float32"):
        a: R.Tensor((n, 100), dtype="float32") = R.exp(x)
        return a
# ----
exp
  step  unary: collapse_axes i0, i1 -> m
  step  unary: split m by 4 -> m_0, m_1
  step  unary: vectorize m_1
  step  unary: split m_0 by 256 -> m_0_0, m_0_1
  step  unary: bind m_0_0 to blockIdx.x
  step  unary: bind m_0_1 to threadIdx.x
  stage unary: map; not transpose: not a move to another axis
