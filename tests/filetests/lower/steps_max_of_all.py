# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((), dtype="float32"):
        a: R.Tensor((), dtype="float32") = R.max(x, axis=[0, 1], keepdims=False)
        return a
# ----
max
  step  reduce: collapse_axes k0, k1 -> m
  step  reduce: split m by 32 -> m_0, m_1
  step  reduce: rfactor reduce m_1 -> reduce_rf
  step  reduce: set_scope t1_rf Local
  step  reduce: decompose_reduction reduce_rf m_0 -> reduce_rf_init
  step  reduce: split m_1 of reduce_rf_init by 8 -> m_1_0, m_1_1
  step  reduce: vectorize m_1_1
  step  reduce: unroll m_1_0
  step  reduce: split m_1 of reduce_rf by 8 -> m_1_0, m_1_1
  step  reduce: vectorize m_1_1 of reduce_rf
  step  reduce: unroll m_1_0 of reduce_rf
  step  reduce: tree_reduce reduce m_1 -> reduce_half
  step  reduce: split m_1 of reduce_half by 8 -> m_1_0, m_1_1
  step  reduce: vectorize m_1_1 of reduce_half
  step  reduce: unroll m_1_0 of reduce_half
  step  reduce: tree_reduce reduce m_1 -> reduce_half_1
  step  reduce: vectorize m_1 of reduce_half_1
  step  reduce: tree_reduce reduce m_1 of reduce -> reduce_half_2
  step  reduce: vectorize m_1 of reduce_half_2
  step  reduce: tree_reduce reduce m_1 of reduce -> reduce_half_3
  step  reduce: vectorize m_1 of reduce_half_3
  step  reduce: tree_reduce reduce m_1 of reduce
  stage reduce: row reduction; not gemm: not a contraction
