# after: lower
# gpu: cuda:sm_80
# Two heads of float32: scores stay in registers and shared memory.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((1, 2, 34, 16), dtype="float32"), k: R.Tensor((1, 2, 16, 70), dtype="float32"), v: R.Tensor((1, 2, 70, 24), dtype="float32")) -> R.Tensor((1, 2, 34, 24), dtype="float32"):
        with R.dataflow():
            s: R.Tensor((1, 2, 34, 70), dtype="float32") = R.matmul(q, k)
            p: R.Tensor((1, 2, 34, 70), dtype="float32") = R.nn.softmax(s, axis=-1)
            a: R.Tensor((1, 2, 34, 24), dtype="float32") = R.matmul(p, v)
            R.output(a)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def fused_mat_mul_softmax_mat_mul(t0: T.Buffer((T.int64(1), T.int64(2), T.int64(34), T.int64(16)), "float32"), t1: T.Buffer((T.int64(1), T.int64(2), T.int64(16), T.int64(70)), "float32"), t7: T.Buffer((T.int64(1), T.int64(2), T.int64(70), T.int64(24)), "float32"), t8: T.Buffer((T.int64(1), T.int64(2), T.int64(34), T.int64(24)), "float32")):
    for bz in T.thread_binding(T.int64(2), thread="blockIdx.z"):
        for by in T.thread_binding(T.int64(2), thread="blockIdx.y"):
            for bx in T.thread_binding(T.int64(1), thread="blockIdx.x"):
                q_tile = T.alloc_shared((T.int64(32), T.int64(20)))
                k_tile = T.alloc_shared((T.int64(32), T.int64(20)))
                v_tile = T.alloc_shared((T.int64(32), T.int64(36)))
                p_tile = T.alloc_shared((T.int64(32), T.int64(36)))
                of_row = T.alloc_shared((T.int64(32), T.int64(16)))
                for ty in T.thread_binding(T.int64(16), thread="threadIdx.y"):
                    for tx in T.thread_binding(T.int64(16), thread="threadIdx.x"):
                        factor = T.alloc_local((T.int64(2),))
                        total = T.alloc_local((T.int64(2),))
                        largest = T.alloc_local((T.int64(2),))
                        most = T.alloc_local((T.int64(2),))
                        results = T.alloc_local((T.int64(2), T.int64(2)))
                        scores = T.alloc_local((T.int64(2), T.int64(2)))
                        for i in T.unroll(T.int64(2)):
                            most[i] = T.float32("-inf")
                            total[i] = T.float32(0.0)
                        for i in T.unroll(T.int64(2)):
                            for l in T.unroll(T.int64(2)):
                                results[i, l] = T.float32(0.0)
                        if ty * T.int64(16) + tx < T.int64(128):
                            for l in T.vectorized(T.int64(4), annotations={"reflex.async_copy": 1}):
                                q_tile[ty * T.int64(4) + tx // T.int64(4), tx % T.int64(4) * T.int64(4) + l] = T.if_then_else(by * T.int64(32) + ty * T.int64(4) + tx // T.int64(4) < T.int64(34), t0[T.int64(0), bz, by * T.int64(32) + ty * T.int64(4) + tx // T.int64(4), tx % T.int64(4) * T.int64(4) + l], T.float32(0.0))
                        for e in T.unroll(T.int64(2)):
                            k_tile[tx + ty % T.int64(2) * T.int64(16), e * T.int64(8) + ty // T.int64(2)] = t1[T.int64(0), bz, e * T.int64(8) + ty // T.int64(2), bx * T.int64(96) + tx + ty % T.int64(2) * T.int64(16)]
                        T.tvm_storage_sync("shared")
                        for t in range(T.int64(3)):
                            T.tvm_storage_sync("shared")
                            for l in T.vectorized(T.int64(4), annotations={"reflex.async_copy": 1}):
                                v_tile[ty * T.int64(2) + tx // T.int64(8), tx % T.int64(8) * T.int64(4) + l] = T.if_then_else(bx * T.int64(96) + t * T.int64(32) + ty * T.int64(2) + tx // T.int64(8) < T.int64(70) and tx % T.int64(8) * T.int64(4) < T.int64(24), t7[T.int64(0), bz, bx * T.int64(96) + t * T.int64(32) + ty * T.int64(2) + tx // T.int64(8), tx % T.int64(8) * T.int64(4) + l], T.float32(0.0))
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(2)):
                                    scores[i, v] = T.float32(0.0)
                            k_row = T.alloc_local((T.int64(2), T.int64(4)))
                            q_row = T.alloc_local((T.int64(2), T.int64(4)))
                            for d in range(T.int64(4)):
                                for i in T.unroll(T.int64(2)):
                                    for l in T.vectorized(T.int64(4)):
                                        q_row[i, l] = q_tile[ty * T.int64(2) + i, d * T.int64(4) + l]
                                for v in T.unroll(T.int64(2)):
                                    for l in T.vectorized(T.int64(4)):
                                        k_row[v, l] = k_tile[v * T.int64(16) + tx, d * T.int64(4) + l]
                                for i in T.unroll(T.int64(2)):
                                    for v in T.unroll(T.int64(2)):
                                        for s in T.unroll(T.int64(4)):
                                            scores[i, v] = T.fma(q_row[i, s], k_row[v, s], scores[i, v])
                            for i in T.unroll(T.int64(2)):
                                largest[i] = T.float32("-inf")
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(2)):
                                    scores[i, v] = T.if_then_else(bx * T.int64(96) + t * T.int64(32) + v * T.int64(16) + tx < T.int64(70), scores[i, v], T.float32("-inf"))
                                    largest[i] = T.max(largest[i], scores[i, v])
                            for i in T.unroll(T.int64(2)):
                                of_row[ty * T.int64(2) + i, tx] = largest[i]
                            T.tvm_storage_sync("shared")
                            for i in T.unroll(T.int64(2)):
                                largest[i] = most[i]
                                for s in T.unroll(T.int64(16)):
                                    largest[i] = T.max(largest[i], of_row[ty * T.int64(2) + i, s])
                                x: T.let[T.float32] = most[i] - T.Select(largest[i] == T.float32("-inf"), T.float32(0.0), largest[i])
                                x_1: T.let[T.float32] = T.min(T.max(x, T.float32(-176.0)), T.float32(89.0))
                                t_1: T.let[T.float32] = T.fma(x_1, T.float32(1.4426950216293335), T.float32(12582912.0))
                                n: T.let[T.float32] = t_1 - T.float32(12582912.0)
                                r: T.let[T.float32] = T.fma(n, T.float32(-1.428606765330187e-06), T.fma(n, T.float32(-0.693145751953125), x_1))
                                n_1: T.let[T.int32] = T.reinterpret("int32", t_1) - 1262485504
                                half: T.let[T.int32] = n_1 >> 1
                                factor[i] = T.fma(T.fma(T.fma(T.fma(T.fma(T.fma(T.float32(0.0013814464909955859), r, T.float32(0.0083687808364629745)), r, T.float32(0.041668392717838287)), r, T.float32(0.16666519641876221)), r, T.float32(0.49999994039535522)), r, T.float32(1.0)), r, T.float32(1.0)) * T.reinterpret("float32", half + 127 << 23) * T.reinterpret("float32", n_1 - half + 127 << 23)
                                most[i] = largest[i]
                                total[i] = total[i] * factor[i]
                            for i in T.unroll(T.int64(2)):
                                for l in T.unroll(T.int64(2)):
                                    results[i, l] = results[i, l] * factor[i]
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(2)):
                                    x: T.let[T.float32] = scores[i, v] - T.Select(most[i] == T.float32("-inf"), T.float32(0.0), most[i])
                                    x_1: T.let[T.float32] = T.min(T.max(x, T.float32(-176.0)), T.float32(89.0))
                                    t_1: T.let[T.float32] = T.fma(x_1, T.float32(1.4426950216293335), T.float32(12582912.0))
                                    n: T.let[T.float32] = t_1 - T.float32(12582912.0)
                                    r: T.let[T.float32] = T.fma(n, T.float32(-1.428606765330187e-06), T.fma(n, T.float32(-0.693145751953125), x_1))
                                    n_1: T.let[T.int32] = T.reinterpret("int32", t_1) - 1262485504
                                    half: T.let[T.int32] = n_1 >> 1
                                    scores[i, v] = T.fma(T.fma(T.fma(T.fma(T.fma(T.fma(T.float32(0.0013814464909955859), r, T.float32(0.0083687808364629745)), r, T.float32(0.041668392717838287)), r, T.float32(0.16666519641876221)), r, T.float32(0.49999994039535522)), r, T.float32(1.0)), r, T.float32(1.0)) * T.reinterpret("float32", half + 127 << 23) * T.reinterpret("float32", n_1 - half + 127 << 23)
                                    total[i] = total[i] + scores[i, v]
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(2)):
                                    p_tile[ty * T.int64(2) + i, v * T.int64(16) + tx] = scores[i, v]
                            T.tvm_storage_sync("shared")
                            for e in T.unroll(T.int64(2)):
                                k_tile[tx + ty % T.int64(2) * T.int64(16), e * T.int64(8) + ty // T.int64(2)] = T.if_then_else(bx * T.int64(96) + t * T.int64(32) + tx + ty % T.int64(2) * T.int64(16) + T.int64(32) < T.int64(70), t1[T.int64(0), bz, e * T.int64(8) + ty // T.int64(2), bx * T.int64(96) + t * T.int64(32) + tx + ty % T.int64(2) * T.int64(16) + T.int64(32)], T.float32(0.0))
                            v_row = T.alloc_local((T.int64(1), T.int64(2)))
                            p_row = T.alloc_local((T.int64(2), T.int64(4)))
                            for n in range(T.int64(8)):
                                for i in T.unroll(T.int64(2)):
                                    for l in T.vectorized(T.int64(4)):
                                        p_row[i, l] = p_tile[ty * T.int64(2) + i, n * T.int64(4) + l]
                                for s in T.unroll(T.int64(4)):
                                    for l in T.vectorized(T.int64(2)):
                                        v_row[T.int64(0), l] = v_tile[n * T.int64(4) + s, tx * T.int64(2) + l]
                                    for i in T.unroll(T.int64(2)):
                                        for l in T.unroll(T.int64(2)):
                                            results[i, l] = T.fma(p_row[i, s], v_row[T.int64(0), l], results[i, l])
                        for i in T.unroll(T.int64(2)):
                            of_row[ty * T.int64(2) + i, tx] = total[i]
                        T.tvm_storage_sync("shared")
                        for i in T.unroll(T.int64(2)):
                            total[i] = T.float32(0.0)
                            for s in T.unroll(T.int64(16)):
                                total[i] = total[i] + of_row[ty * T.int64(2) + i, s]
                        for i in T.unroll(T.int64(2)):
                            if by * T.int64(32) + ty * T.int64(2) + i < T.int64(34) and tx * T.int64(2) < T.int64(24):
                                for l in T.vectorized(T.int64(2)):
                                    t8[T.int64(0), bz, by * T.int64(32) + ty * T.int64(2) + i, tx * T.int64(2) + l] = results[i, l] / total[i]
