# after: lower
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), s: R.Tensor((64,), dtype="float32")) -> R.Tuple(R.Tensor((n, 64), dtype="float32"), R.Tensor((), dtype="float32")):
        y: R.Tensor((n, 64), dtype="float32") = R.multiply(x, s)
        most: R.Tensor((), dtype="float32") = R.max(y, axis=[0, 1], keepdims=False)
        least: R.Tensor((), dtype="float32") = R.min(y, axis=[0, 1], keepdims=False)
        a: R.Tensor((), dtype="float32") = R.maximum(most, R.const(0.0, "float32"))
        b: R.Tensor((), dtype="float32") = R.minimum(least, R.const(0.0, "float32"))
        span: R.Tensor((), dtype="float32") = R.subtract(a, b)
        scale: R.Tensor((), dtype="float32") = R.divide(span, R.const(255.0, "float32"))
        z: R.Tensor((n, 64), dtype="float32") = R.divide(y, scale)
        return (z, scale)
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def div(t0: T.Buffer((n, T.int64(64)), "float32"), t1: T.Buffer((), "float32"), t2: T.Buffer((n, T.int64(64)), "float32")):
    if n * T.int64(64) >= T.int64(16666):
        for m_0 in T.parallel((n + T.int64(15)) // T.int64(16)):
            if m_0 < n // T.int64(16):
                for m_1_0 in range(T.int64(128)):
                    for m_1_1 in T.vectorized(T.int64(8)):
                        t2[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1] = t0[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1] / t1[()]
            else:
                for m_1_0 in range(T.max(T.min(T.int64(128), n * T.int64(8) - m_0 * T.int64(128)), T.int64(0))):
                    for m_1_1 in T.vectorized(T.int64(8)):
                        t2[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1] = t0[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1] / t1[()]
                for m_1_0 in range(T.max(T.min(T.int64(128), n * T.int64(8) - m_0 * T.int64(128)), T.int64(0)), T.int64(128)):
                    for m_1_1 in T.vectorized(T.int64(8)):
                        if m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1 < n * T.int64(64):
                            t2[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1] = t0[m_0 * T.int64(1024) + m_1_0 * T.int64(8) + m_1_1] / t1[()]
    else:
        for m_else_0 in range(n * T.int64(8)):
            for m_else_1 in T.vectorized(T.int64(8)):
                t2[m_else_0 * T.int64(8) + m_else_1] = t0[m_else_0 * T.int64(8) + m_else_1] / t1[()]
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def fused_mul_max_min_max_min_2more(t0: T.Buffer((n, T.int64(64)), "float32"), t1: T.Buffer((T.int64(64),), "float32"), t2: T.Buffer((n, T.int64(64)), "float32"), t8: T.Buffer((), "float32")):
    t4 = T.alloc_buffer(())
    t3 = T.alloc_buffer(())
    part = T.alloc_local((T.int64(1), T.int64(8)))
    part_1 = T.alloc_local((T.int64(1), T.int64(8)))
    for l in T.vectorized(T.int64(8)):
        part_1[T.int64(0), l] = T.float32("-inf")
    for l in T.vectorized(T.int64(8)):
        part[T.int64(0), l] = T.float32("inf")
    extremum = T.alloc_local((T.int64(16),))
    extremum_1 = T.alloc_local((T.int64(16),))
    for l in T.vectorized(T.int64(8)):
        extremum_1[l] = T.float32("-inf")
    for l in T.vectorized(T.int64(8)):
        extremum_1[l + T.int64(8)] = T.float32("-inf")
    for l in T.vectorized(T.int64(8)):
        extremum[l] = T.float32("inf")
    for l in T.vectorized(T.int64(8)):
        extremum[l + T.int64(8)] = T.float32("inf")
    for i0, i in T.grid(n, T.int64(4)):
        for u in T.unroll(T.int64(2)):
            for i1_1 in T.vectorized(T.int64(8)):
                element: T.let[T.float32] = t0[i0, i * T.int64(16) + u * T.int64(8) + i1_1] * t1[i * T.int64(16) + u * T.int64(8) + i1_1]
                t2[i0, i * T.int64(16) + u * T.int64(8) + i1_1] = element
                extremum_1[u * T.int64(8) + i1_1] = T.max(element, extremum_1[u * T.int64(8) + i1_1])
                extremum[u * T.int64(8) + i1_1] = T.min(element, extremum[u * T.int64(8) + i1_1])
    for l in T.vectorized(T.int64(8)):
        part_1[T.int64(0), l] = T.max(T.max(part_1[T.int64(0), l], extremum_1[l]), extremum_1[l + T.int64(8)])
    for l in T.vectorized(T.int64(8)):
        part[T.int64(0), l] = T.min(T.min(part[T.int64(0), l], extremum[l]), extremum[l + T.int64(8)])
    for l in T.vectorized(T.int64(4)):
        part_1[T.int64(0), l] = T.max(part_1[T.int64(0), l], part_1[T.int64(0), l + T.int64(4)])
    for l in T.vectorized(T.int64(2)):
        part_1[T.int64(0), l] = T.max(part_1[T.int64(0), l], part_1[T.int64(0), l + T.int64(2)])
    part_1[T.int64(0), T.int64(0)] = T.max(part_1[T.int64(0), T.int64(0)], part_1[T.int64(0), T.int64(1)])
    t3[()] = part_1[T.int64(0), T.int64(0)]
    for l in T.vectorized(T.int64(4)):
        part[T.int64(0), l] = T.min(part[T.int64(0), l], part[T.int64(0), l + T.int64(4)])
    for l in T.vectorized(T.int64(2)):
        part[T.int64(0), l] = T.min(part[T.int64(0), l], part[T.int64(0), l + T.int64(2)])
    part[T.int64(0), T.int64(0)] = T.min(part[T.int64(0), T.int64(0)], part[T.int64(0), T.int64(1)])
    t4[()] = part[T.int64(0), T.int64(0)]
    t8[()] = (T.max(t3[()], T.float32(0.0)) - T.min(t4[()], T.float32(0.0))) / T.float32(255.0)
