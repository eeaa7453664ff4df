# after: lower
# gpu: cuda:sm_80
# A matrix product.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), w: R.Tensor((64, 128), dtype="float32")) -> R.Tensor((n, 128), dtype="float32"):
        a: R.Tensor((n, 128), dtype="float32") = R.matmul(x, w)
        return a
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((n, T.int64(64)), "float32"), t1: T.Buffer((T.int64(64), T.int64(128)), "float32"), t2: T.Buffer((n, T.int64(128)), "float32")):
    for by in T.thread_binding((n + T.int64(63)) // T.int64(64), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(2), thread="blockIdx.x"):
            a_tile = T.alloc_shared((T.int64(16), T.int64(68)))
            b_tile = T.alloc_shared((T.int64(16), T.int64(68)))
            a_tile_1 = T.alloc_shared((T.int64(16), T.int64(68)))
            b_tile_1 = T.alloc_shared((T.int64(16), T.int64(68)))
            for ty in T.thread_binding(T.int64(16), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(16), thread="threadIdx.x"):
                    next_b = T.alloc_local((T.int64(4),))
                    next_a = T.alloc_local((T.int64(4),))
                    acc = T.alloc_local((T.int64(4), T.int64(4)))
                    for r in T.unroll(T.int64(4)):
                        for c in T.unroll(T.int64(4)):
                            acc[r, c] = T.float32(0.0)
                    for l in T.vectorized(T.int64(4)):
                        next_a[l] = T.if_then_else(by * T.int64(64) + ty * T.int64(4) + tx // T.int64(4) < n, t0[by * T.int64(64) + ty * T.int64(4) + tx // T.int64(4), tx % T.int64(4) * T.int64(4) + l], T.float32(0.0))
                    for l in T.vectorized(T.int64(4)):
                        next_b[l] = t1[ty, bx * T.int64(64) + tx * T.int64(4) + l]
                    for l in T.unroll(T.int64(4)):
                        a_tile[tx % T.int64(4) * T.int64(4) + l, ty * T.int64(4) + tx // T.int64(4)] = next_a[l]
                    for l in T.vectorized(T.int64(4)):
                        b_tile[ty, tx * T.int64(4) + l] = next_b[l]
                    T.tvm_storage_sync("shared")
                    for k0 in range(T.int64(2)):
                        for l in T.vectorized(T.int64(4)):
                            next_a[l] = T.if_then_else(by * T.int64(64) + ty * T.int64(4) + tx // T.int64(4) < n, t0[by * T.int64(64) + ty * T.int64(4) + tx // T.int64(4), k0 * T.int64(32) + tx % T.int64(4) * T.int64(4) + l + T.int64(16)], T.float32(0.0))
                        for l in T.vectorized(T.int64(4)):
                            next_b[l] = t1[k0 * T.int64(32) + ty + T.int64(16), bx * T.int64(64) + tx * T.int64(4) + l]
                        T.tvm_storage_sync("shared")
                        for kk in range(T.int64(4)):
                            for u in T.unroll(T.int64(4)):
                                row = T.alloc_local((T.int64(4),))
                                column = T.alloc_local((T.int64(4),))
                                for l in T.vectorized(T.int64(4)):
                                    row[l] = a_tile[kk * T.int64(4) + u, ty * T.int64(4) + l]
                                for l in T.vectorized(T.int64(4)):
                                    column[l] = b_tile[kk * T.int64(4) + u, tx * T.int64(4) + l]
                                for r in T.unroll(T.int64(4)):
                                    for c in T.unroll(T.int64(4)):
                                        acc[r, c] = T.fma(row[r], column[c], acc[r, c])
                        for l in T.unroll(T.int64(4)):
                            a_tile_1[tx % T.int64(4) * T.int64(4) + l, ty * T.int64(4) + tx // T.int64(4)] = next_a[l]
                        for l in T.vectorized(T.int64(4)):
                            b_tile_1[ty, tx * T.int64(4) + l] = next_b[l]
                        for l in T.vectorized(T.int64(4)):
                            next_a[l] = T.if_then_else(by * T.int64(64) + ty * T.int64(4) + tx // T.int64(4) < n and k0 * T.int64(32) + tx % T.int64(4) * T.int64(4) + T.int64(32) < T.int64(64), t0[by * T.int64(64) + ty * T.int64(4) + tx // T.int64(4), k0 * T.int64(32) + tx % T.int64(4) * T.int64(4) + l + T.int64(32)], T.float32(0.0))
                        for l in T.vectorized(T.int64(4)):
                            next_b[l] = T.if_then_else(k0 * T.int64(32) + ty + T.int64(32) < T.int64(64), t1[k0 * T.int64(32) + ty + T.int64(32), bx * T.int64(64) + tx * T.int64(4) + l], T.float32(0.0))
                        T.tvm_storage_sync("shared")
                        for kk in range(T.int64(4)):
                            for u in T.unroll(T.int64(4)):
                                row = T.alloc_local((T.int64(4),))
                                column = T.alloc_local((T.int64(4),))
                                for l in T.vectorized(T.int64(4)):
                                    row[l] = a_tile_1[kk * T.int64(4) + u, ty * T.int64(4) + l]
                                for l in T.vectorized(T.int64(4)):
                                    column[l] = b_tile_1[kk * T.int64(4) + u, tx * T.int64(4) + l]
                                for r in T.unroll(T.int64(4)):
                                    for c in T.unroll(T.int64(4)):
                                        acc[r, c] = T.fma(row[r], column[c], acc[r, c])
                        for l in T.unroll(T.int64(4)):
                            a_tile[tx % T.int64(4) * T.int64(4) + l, ty * T.int64(4) + tx // T.int64(4)] = next_a[l]
                        for l in T.vectorized(T.int64(4)):
                            b_tile[ty, tx * T.int64(4) + l] = next_b[l]
                    for r in T.unroll(T.int64(4)):
                        if by * T.int64(64) + ty * T.int64(4) + r < n:
                            for l in T.vectorized(T.int64(4)):
                                t2[by * T.int64(64) + ty * T.int64(4) + r, bx * T.int64(64) + tx * T.int64(4) + l] = acc[r, l]
