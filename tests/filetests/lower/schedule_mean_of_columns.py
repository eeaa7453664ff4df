# after: schedule
# The sum's vectors run over the columns, though the division shares the outer loop.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 5, 32), dtype="float32")) -> R.Tensor((n, 32), dtype="float32"):
        s: R.Tensor((n, 32), dtype="float32") = R.sum(x, axis=[1])
        y: R.Tensor((n, 32), dtype="float32") = R.multiply(s, R.const(0.2, "float32"))
        return y
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def fused_sum_mul(t0: T.Buffer((n, T.int64(5), T.int64(32)), "float32"), t2: T.Buffer((n, T.int64(32)), "float32")):
    for i0 in range(n):
        t1 = T.alloc_local((T.int64(32),))
        t1_local = T.alloc_local((T.int64(32),))
        for i1_0 in T.unroll(T.int64(4)):
            for i1_1 in T.vectorized(T.int64(8)):
                t1_local[i1_0 * T.int64(8) + i1_1] = T.float32(0.0)
        for k0 in range(T.int64(5)):
            for i1_0 in T.unroll(T.int64(4)):
                for i1_1 in T.vectorized(T.int64(8)):
                    t1_local[i1_0 * T.int64(8) + i1_1] = t1_local[i1_0 * T.int64(8) + i1_1] + t0[i0, k0, i1_0 * T.int64(8) + i1_1]
        for i1_0 in T.unroll(T.int64(4)):
            for i1_1 in T.vectorized(T.int64(8)):
                t1[i1_0 * T.int64(8) + i1_1] = t1_local[i1_0 * T.int64(8) + i1_1]
        for i1_0 in range(T.int64(4)):
            for i1_1 in T.vectorized(T.int64(8)):
                t2[i0, i1_0 * T.int64(8) + i1_1] = t1[i1_0 * T.int64(8) + i1_1] * T.float32(0.20000000298023224)
