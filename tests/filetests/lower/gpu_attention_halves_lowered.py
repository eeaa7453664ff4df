# after: lower
# gpu: cuda:sm_80
# Two heads of float16: scores stay in registers and shared memory.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((1, 2, 34, 16), dtype="float16"), k: R.Tensor((1, 2, 16, 70), dtype="float16"), v: R.Tensor((1, 2, 70, 24), dtype="float16")) -> R.Tensor((1, 2, 34, 24), dtype="float16"):
        with R.dataflow():
            s: R.Tensor((1, 2, 34, 70), dtype="float16") = R.matmul(q, k)
            p: R.Tensor((1, 2, 34, 70), dtype="float16") = R.nn.softmax(s, axis=-1)
            a: R.Tensor((1, 2, 34, 24), dtype="float16") = R.matmul(p, v)
            R.output(a)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def fused_mat_mul_softmax_mat_mul(t0: T.Buffer((T.int64(1), T.int64(2), T.int64(34), T.int64(16)), "float16"), t1: T.Buffer((T.int64(1), T.int64(2), T.int64(16), T.int64(70)), "float16"), t8: T.Buffer((T.int64(1), T.int64(2), T.int64(70), T.int64(24)), "float16"), t9: T.Buffer((T.int64(1), T.int64(2), T.int64(34), T.int64(24)), "float16")):
    for bz in T.thread_binding(T.int64(2), thread="blockIdx.z"):
        for by in T.thread_binding(T.int64(2), thread="blockIdx.y"):
            for bx in T.thread_binding(T.int64(1), thread="blockIdx.x"):
                q_tile = T.alloc_shared((T.int64(32), T.int64(24)), "float16")
                k_tile = T.alloc_shared((T.int64(32), T.int64(24)), "float16")
                v_tile = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
                p_tile = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
                of_row = T.alloc_shared((T.int64(32), T.int64(4)))
                for ty in T.thread_binding(T.int64(2), thread="threadIdx.y"):
                    for tx in T.thread_binding(T.int64(32), thread="threadIdx.x"):
                        factor = T.alloc_local((T.int64(2),))
                        total = T.alloc_local((T.int64(2),))
                        largest = T.alloc_local((T.int64(2),))
                        most = T.alloc_local((T.int64(2),))
                        results = T.alloc_local((T.int64(2), T.int64(8)))
                        scores = T.alloc_local((T.int64(2), T.int64(8)))
                        for i in T.unroll(T.int64(2)):
                            most[i] = T.float32("-inf")
                            total[i] = T.float32(0.0)
                        for i in T.unroll(T.int64(2)):
                            for v in T.unroll(T.int64(4)):
                                for l in T.unroll(T.int64(2)):
                                    results[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] = T.float32(0.0)
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            q_tile[ty * T.int64(16) + tx // T.int64(2), tx % T.int64(2) * T.int64(8) + l] = T.if_then_else(by * T.int64(32) + ty * T.int64(16) + tx // T.int64(2) < T.int64(34), t0[T.int64(0), bz, by * T.int64(32) + ty * T.int64(16) + tx // T.int64(2), tx % T.int64(2) * T.int64(8) + l], T.float16(0.0))
                        for e in T.unroll(T.int64(8)):
                            k_tile[tx, e * T.int64(2) + ty] = t1[T.int64(0), bz, e * T.int64(2) + ty, bx * T.int64(96) + tx]
                        T.tvm_storage_sync("shared")
                        for t in range(T.int64(3)):
                            T.tvm_storage_sync("shared")
                            for e in T.unroll(T.int64(2)):
                                for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                    v_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(96) + t * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(70) and tx % T.int64(4) * T.int64(8) < T.int64(24), t8[T.int64(0), bz, bx * T.int64(96) + t * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(4)):
                                    for l in T.unroll(T.int64(2)):
                                        scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] = T.float32(0.0)
                            for j in T.unroll(T.int64(2)):
                                T.tile_mma(scores[j * T.int64(8)], q_tile[ty * T.int64(384)], T.int64(24), False, k_tile[j * T.int64(384)], T.int64(24), False, tx)
                            for i in T.unroll(T.int64(2)):
                                largest[i] = T.float32("-inf")
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(4)):
                                    for l in T.unroll(T.int64(2)):
                                        scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] = T.if_then_else(bx * T.int64(96) + t * T.int64(32) + v * T.int64(8) + tx % T.int64(4) * T.int64(2) + l < T.int64(70), T.Cast("float32", T.Cast("float16", scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l])), T.float32("-inf"))
                                        largest[i] = T.max(largest[i], scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l])
                            for i in T.unroll(T.int64(2)):
                                of_row[ty * T.int64(16) + tx // T.int64(4) + i * T.int64(8), tx % T.int64(4)] = largest[i]
                            T.tvm_storage_sync("shared")
                            for i in T.unroll(T.int64(2)):
                                largest[i] = most[i]
                                for s in T.unroll(T.int64(4)):
                                    largest[i] = T.max(largest[i], of_row[ty * T.int64(16) + tx // T.int64(4) + i * T.int64(8), s])
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
                                for v in T.unroll(T.int64(4)):
                                    for l in T.unroll(T.int64(2)):
                                        results[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] = results[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] * factor[i]
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(4)):
                                    for l in T.unroll(T.int64(2)):
                                        x: T.let[T.float32] = scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] - T.Select(most[i] == T.float32("-inf"), T.float32(0.0), most[i])
                                        x_1: T.let[T.float32] = T.min(T.max(x, T.float32(-176.0)), T.float32(89.0))
                                        t_1: T.let[T.float32] = T.fma(x_1, T.float32(1.4426950216293335), T.float32(12582912.0))
                                        n: T.let[T.float32] = t_1 - T.float32(12582912.0)
                                        r: T.let[T.float32] = T.fma(n, T.float32(-1.428606765330187e-06), T.fma(n, T.float32(-0.693145751953125), x_1))
                                        n_1: T.let[T.int32] = T.reinterpret("int32", t_1) - 1262485504
                                        half: T.let[T.int32] = n_1 >> 1
                                        scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] = T.fma(T.fma(T.fma(T.fma(T.fma(T.fma(T.float32(0.0013814464909955859), r, T.float32(0.0083687808364629745)), r, T.float32(0.041668392717838287)), r, T.float32(0.16666519641876221)), r, T.float32(0.49999994039535522)), r, T.float32(1.0)), r, T.float32(1.0)) * T.reinterpret("float32", half + 127 << 23) * T.reinterpret("float32", n_1 - half + 127 << 23)
                                        total[i] = total[i] + scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l]
                            for i in T.unroll(T.int64(2)):
                                for v in T.unroll(T.int64(4)):
                                    for l in T.vectorized(T.int64(2)):
                                        p_tile[ty * T.int64(16) + tx // T.int64(4) + i * T.int64(8), v * T.int64(8) + tx % T.int64(4) * T.int64(2) + l] = T.Cast("float16", scores[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l])
                            T.tvm_storage_sync("shared")
                            for e in T.unroll(T.int64(8)):
                                k_tile[tx, e * T.int64(2) + ty] = T.if_then_else(bx * T.int64(96) + t * T.int64(32) + tx + T.int64(32) < T.int64(70), t1[T.int64(0), bz, e * T.int64(2) + ty, bx * T.int64(96) + t * T.int64(32) + tx + T.int64(32)], T.float16(0.0))
                            for kk in T.unroll(T.int64(2)):
                                for j in T.unroll(T.int64(2)):
                                    T.tile_mma(results[j * T.int64(8)], p_tile[ty * T.int64(640) + kk * T.int64(16)], T.int64(40), False, v_tile[kk * T.int64(640) + j * T.int64(16)], T.int64(40), True, tx)
                        for i in T.unroll(T.int64(2)):
                            of_row[ty * T.int64(16) + tx // T.int64(4) + i * T.int64(8), tx % T.int64(4)] = total[i]
                        T.tvm_storage_sync("shared")
                        for i in T.unroll(T.int64(2)):
                            total[i] = T.float32(0.0)
                            for s in T.unroll(T.int64(4)):
                                total[i] = total[i] + of_row[ty * T.int64(16) + tx // T.int64(4) + i * T.int64(8), s]
                        for i in T.unroll(T.int64(2)):
                            for v in T.unroll(T.int64(4)):
                                if by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + i * T.int64(8) < T.int64(34) and v * T.int64(8) + tx % T.int64(4) * T.int64(2) < T.int64(24):
                                    for l in T.vectorized(T.int64(2)):
                                        t9[T.int64(0), bz, by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + i * T.int64(8), v * T.int64(8) + tx % T.int64(4) * T.int64(2) + l] = T.Cast("float16", results[v // T.int64(2), v % T.int64(2) * T.int64(4) + i * T.int64(2) + l] / total[i])
