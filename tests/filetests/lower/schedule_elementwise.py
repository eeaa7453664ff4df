# after: schedule
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 100), dtype="float32")) -> R.Tensor((n, 100), dtype="float32"):
        a: R.Tensor((n, 100), dtype="float32") = R.nn.relu(x)
        return a
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def max(t0: T.Buffer((n, T.int64(100)), "float32"), t1: T.Buffer((n, T.int64(100)), "float32")):
    if n * T.int64(100) >= T.int64(33333):
        for m_0 in T.parallel((n * T.int64(25) + T.int64(255)) // T.int64(256)):
            for m_1_0 in range(T.int64(128)):
                for m_1_1 in T.vectorized(T.int64(8)):
                    if m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1 < n * T.int64(100):
                        t1[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1] = T.max(t0[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1], T.float32(0.0))
    else:
        for m_else_0 in range((n * T.int64(25) + T.int64(1)) // T.int64(2)):
            for m_else_1 in T.vectorized(T.int64(8)):
                if m_else_0 * T.int64(8) + m_else_1 < n * T.int64(100):
                    t1[m_else_0 * T.int64(8) + m_else_1] = T.max(t0[m_else_0 * T.int64(8) + m_else_1], T.float32(0.0))
