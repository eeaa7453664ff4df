# after: steps
# One long axis, in tasks where there are enough of them.
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
  step  unary: specialize m where n * 100 >= 5882, else m_else
  step  unary: split m by 1024 -> m_0, m_1
  step  unary: split m_1 by 8 -> m_1_0, m_1_1
  step  unary: vectorize m_1_1
  step  unary: parallel m_0
  step  unary: split m_else by 8 -> m_else_0, m_else_1
  step  unary: vectorize m_else_1
  stage unary: elementwise
