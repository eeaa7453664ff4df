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
    for v_i0 in range(n):
        t1 = T.alloc_local((T.int64(32),))
        acc = T.alloc_local((T.int64(32),))
        for l in T.vectorized(T.int64(8)):
            acc[l] = T.float32(0.0)
        for l in T.vectorized(T.int64(8)):
            acc[l + T.int64(8)] = T.float32(0.0)
        for l in T.vectorized(T.int64(8)):
            acc[l + T.int64(16)] = T.float32(0.0)
        for l in T.vectorized(T.int64(8)):
            acc[l + T.int64(24)] = T.float32(0.0)
        for v_k0 in range(T.int64(5)):
            for l in T.vectorized(T.int64(8)):
                acc[l] = acc[l] + t0[v_i0, v_k0, l]
            for l in T.vectorized(T.int64(8)):
                acc[l + T.int64(8)] = acc[l + T.int64(8)] + t0[v_i0, v_k0, l + T.int64(8)]
            for l in T.vectorized(T.int64(8)):
                acc[l + T.int64(16)] = acc[l + T.int64(16)] + t0[v_i0, v_k0, l + T.int64(16)]
            for l in T.vectorized(T.int64(8)):
                acc[l + T.int64(24)] = acc[l + T.int64(24)] + t0[v_i0, v_k0, l + T.int64(24)]
        for l in T.vectorized(T.int64(8)):
            t1[l] = acc[l]
        for l in T.vectorized(T.int64(8)):
            t1[l + T.int64(8)] = acc[l + T.int64(8)]
        for l in T.vectorized(T.int64(8)):
            t1[l + T.int64(16)] = acc[l + T.int64(16)]
        for l in T.vectorized(T.int64(8)):
            t1[l + T.int64(24)] = acc[l + T.int64(24)]
        for i1_0 in range(T.int64(4)):
            for i1_1 in T.vectorized(T.int64(8)):
                t2[v_i0, i1_0 * T.int64(8) + i1_1] = t1[i1_0 * T.int64(8) + i1_1] * T.float32(0.20000000298023224)
