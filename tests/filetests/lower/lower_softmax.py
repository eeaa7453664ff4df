# after: lower
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((n, 64), dtype="float32"):
        a: R.Tensor((n, 64), dtype="float32") = R.nn.softmax(x, axis=-1)
        return a
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def softmax(t0: T.Buffer((n, T.int64(64)), "float32"), t1: T.Buffer((n, T.int64(64)), "float32")):
    for task in T.parallel(T.Select(n * T.int64(1664) >= T.int64(100000), n, T.int64(1))):
        for i0 in range(T.Select(n * T.int64(1664) >= T.int64(100000), T.int64(1), n)):
            t4 = T.alloc_local(())
            t3 = T.alloc_local((T.int64(64),))
            t2 = T.alloc_local(())
            t2_rf = T.alloc_local((T.int64(32),))
            for k0_1_0 in T.unroll(T.int64(4)):
                for k0_1_1 in T.vectorized(T.int64(8)):
                    t2_rf[k0_1_0 * T.int64(8) + k0_1_1] = T.float32("-inf")
            for k0_0 in range(T.int64(2)):
                for k0_1_0 in T.unroll(T.int64(4)):
                    for k0_1_1 in T.vectorized(T.int64(8)):
                        t2_rf[k0_1_0 * T.int64(8) + k0_1_1] = T.max(t2_rf[k0_1_0 * T.int64(8) + k0_1_1], t0[task + i0, k0_0 * T.int64(32) + k0_1_0 * T.int64(8) + k0_1_1])
            for k0_1_0 in T.unroll(T.int64(2)):
                for k0_1_1 in T.vectorized(T.int64(8)):
                    t2_rf[k0_1_0 * T.int64(8) + k0_1_1] = T.max(t2_rf[k0_1_0 * T.int64(8) + k0_1_1], t2_rf[k0_1_0 * T.int64(8) + k0_1_1 + T.int64(16)])
            for k0_1 in T.vectorized(T.int64(8)):
                t2_rf[k0_1] = T.max(t2_rf[k0_1], t2_rf[k0_1 + T.int64(8)])
            for k0_1 in T.vectorized(T.int64(4)):
                t2_rf[k0_1] = T.max(t2_rf[k0_1], t2_rf[k0_1 + T.int64(4)])
            for k0_1 in T.vectorized(T.int64(2)):
                t2_rf[k0_1] = T.max(t2_rf[k0_1], t2_rf[k0_1 + T.int64(2)])
            t2[()] = T.max(t2_rf[T.int64(0)], t2_rf[T.int64(1)])
            for i1_0 in range(T.int64(8)):
                for i1_1 in T.vectorized(T.int64(8)):
                    x: T.let[T.float32] = t0[task + i0, i1_0 * T.int64(8) + i1_1] - t2[()]
                    x_1: T.let[T.float32] = T.min(T.max(x, T.float32(-176.0)), T.float32(89.0))
                    t: T.let[T.float32] = T.fma(x_1, T.float32(1.4426950216293335), T.float32(12582912.0))
                    n_1: T.let[T.float32] = t - T.float32(12582912.0)
                    r: T.let[T.float32] = T.fma(n_1, T.float32(-1.428606765330187e-06), T.fma(n_1, T.float32(-0.693145751953125), x_1))
                    n_2: T.let[T.int32] = T.reinterpret("int32", t) - 1262485504
                    half: T.let[T.int32] = n_2 >> 1
                    t3[i1_0 * T.int64(8) + i1_1] = T.fma(T.fma(T.fma(T.fma(T.fma(T.fma(T.float32(0.0013814464909955859), r, T.float32(0.0083687808364629745)), r, T.float32(0.041668392717838287)), r, T.float32(0.16666519641876221)), r, T.float32(0.49999994039535522)), r, T.float32(1.0)), r, T.float32(1.0)) * T.reinterpret("float32", half + 127 << 23) * T.reinterpret("float32", n_2 - half + 127 << 23)
            t4_rf = T.alloc_local((T.int64(32),))
            for k0_1_0 in T.unroll(T.int64(4)):
                for k0_1_1 in T.vectorized(T.int64(8)):
                    t4_rf[k0_1_0 * T.int64(8) + k0_1_1] = T.float32(0.0)
            for k0_0 in range(T.int64(2)):
                for k0_1_0 in T.unroll(T.int64(4)):
                    for k0_1_1 in T.vectorized(T.int64(8)):
                        t4_rf[k0_1_0 * T.int64(8) + k0_1_1] = t4_rf[k0_1_0 * T.int64(8) + k0_1_1] + t3[k0_0 * T.int64(32) + k0_1_0 * T.int64(8) + k0_1_1]
            for k0_1_0 in T.unroll(T.int64(2)):
                for k0_1_1 in T.vectorized(T.int64(8)):
                    t4_rf[k0_1_0 * T.int64(8) + k0_1_1] = t4_rf[k0_1_0 * T.int64(8) + k0_1_1] + t4_rf[k0_1_0 * T.int64(8) + k0_1_1 + T.int64(16)]
            for k0_1 in T.vectorized(T.int64(8)):
                t4_rf[k0_1] = t4_rf[k0_1] + t4_rf[k0_1 + T.int64(8)]
            for k0_1 in T.vectorized(T.int64(4)):
                t4_rf[k0_1] = t4_rf[k0_1] + t4_rf[k0_1 + T.int64(4)]
            for k0_1 in T.vectorized(T.int64(2)):
                t4_rf[k0_1] = t4_rf[k0_1] + t4_rf[k0_1 + T.int64(2)]
            t4[()] = t4_rf[T.int64(0)] + t4_rf[T.int64(1)]
            for i1_0 in range(T.int64(8)):
                for i1_1 in T.vectorized(T.int64(8)):
                    t1[task + i0, i1_0 * T.int64(8) + i1_1] = t3[i1_0 * T.int64(8) + i1_1] / t4[()]
