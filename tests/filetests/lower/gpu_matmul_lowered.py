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
            for ty in T.thread_binding(T.int64(16), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(16), thread="threadIdx.x"):
                    acc = T.alloc_local((T.int64(4), T.int64(4)))
                    for r in T.unroll(T.int64(4)):
                        for c in T.unroll(T.int64(4)):
                            acc[r, c] = T.float32(0.0)
                    for k0 in range(T.int64(4)):
                        T.tvm_storage_sync("shared")
                        for e in T.unroll(T.int64(4)):
                            a_tile[tx, e * T.int64(16) + ty] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty < n, t0[by * T.int64(64) + e * T.int64(16) + ty, k0 * T.int64(16) + tx], T.float32(0.0))
                        for e in T.unroll(T.int64(4)):
                            b_tile[e * T.int64(4) + ty // T.int64(4), tx + ty % T.int64(4) * T.int64(16)] = t1[k0 * T.int64(16) + e * T.int64(4) + ty // T.int64(4), bx * T.int64(64) + tx + ty % T.int64(4) * T.int64(16)]
                        T.tvm_storage_sync("shared")
                        for kk in range(T.int64(4)):
                            for u in T.unroll(T.int64(4)):
                                row = T.alloc_local((T.int64(4),))
                                column = T.alloc_local((T.int64(4),))
                                for l in T.vectorized(T.int64(4)):
                                    row[l] = a_tile[kk * T.int64(4) + u, ty * T.int64(4) + l]
                                for c in T.unroll(T.int64(4)):
                                    column[c] = b_tile[kk * T.int64(4) + u, c * T.int64(16) + tx]
                                for r in T.unroll(T.int64(4)):
                                    for c in T.unroll(T.int64(4)):
                                        acc[r, c] = T.fma(row[r], column[c], acc[r, c])
                    for r in T.unroll(T.int64(4)):
                        for c in T.unroll(T.int64(4)):
                            if by * T.int64(64) + ty * T.int64(4) + r < n:
                                t2[by * T.int64(64) + ty * T.int64(4) + r, bx * T.int64(64) + c * T.int64(16) + tx] = acc[r, c]
