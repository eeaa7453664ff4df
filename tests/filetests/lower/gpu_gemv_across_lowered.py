# after: lower
# gpu: cuda:sm_80
# Two rows of float16 by weights contiguous along columns.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 128), dtype="float16"), w: R.Tensor((128, 128), dtype="float16")) -> R.Tensor((2, 128), dtype="float16"):
        a: R.Tensor((2, 128), dtype="float16") = R.matmul(x, w)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(2), T.int64(128)), "float16"), t1: T.Buffer((T.int64(128), T.int64(128)), "float16"), t2: T.Buffer((T.int64(2), T.int64(128)), "float16")):
    for by in T.thread_binding(T.int64(1), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(4), thread="blockIdx.x"):
            partial = T.alloc_shared((T.int64(64), T.int64(2), T.int64(32)))
            for ty in T.thread_binding(T.int64(64), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(4), thread="threadIdx.x"):
                    weights = T.alloc_local((T.int64(8), T.int64(8), T.int64(1)), "float16")
                    acc = T.alloc_local((T.int64(2), T.int64(8)))
                    for m in T.unroll(T.int64(2)):
                        for c in T.unroll(T.int64(8)):
                            acc[m, c] = T.float32(0.0)
                    for u in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8)):
                            weights[u, l, T.int64(0)] = t1[u * T.int64(64) + ty, bx * T.int64(32) + tx * T.int64(8) + l]
                    for u in T.unroll(T.int64(2)):
                        for m in T.unroll(T.int64(2)):
                            row = T.alloc_local((T.int64(1),))
                            row[T.int64(0)] = T.Cast("float32", t0[m, u * T.int64(64) + ty])
                            for c in T.unroll(T.int64(8)):
                                acc[m, c] = T.fma(row[T.int64(0)], T.Cast("float32", weights[u, c, T.int64(0)]), acc[m, c])
                    for m in T.unroll(T.int64(2)):
                        for c in T.vectorized(T.int64(8)):
                            partial[ty, m, tx * T.int64(8) + c] = acc[m, c]
                    T.tvm_storage_sync("shared")
                    if ty < T.int64(32):
                        for m in T.unroll(T.int64(2)):
                            for c in T.vectorized(T.int64(8)):
                                partial[ty, m, tx * T.int64(8) + c] = partial[ty, m, tx * T.int64(8) + c] + partial[ty + T.int64(32), m, tx * T.int64(8) + c]
                    T.tvm_storage_sync("shared")
                    if ty < T.int64(16):
                        for m in T.unroll(T.int64(2)):
                            for c in T.vectorized(T.int64(8)):
                                partial[ty, m, tx * T.int64(8) + c] = partial[ty, m, tx * T.int64(8) + c] + partial[ty + T.int64(16), m, tx * T.int64(8) + c]
                    T.tvm_storage_sync("shared")
                    if ty < T.int64(8):
                        for m in T.unroll(T.int64(2)):
                            for c in T.vectorized(T.int64(8)):
                                partial[ty, m, tx * T.int64(8) + c] = partial[ty, m, tx * T.int64(8) + c] + partial[ty + T.int64(8), m, tx * T.int64(8) + c]
                    T.tvm_storage_sync("shared")
                    if ty < T.int64(4):
                        for m in T.unroll(T.int64(2)):
                            for c in T.vectorized(T.int64(8)):
                                partial[ty, m, tx * T.int64(8) + c] = partial[ty, m, tx * T.int64(8) + c] + partial[ty + T.int64(4), m, tx * T.int64(8) + c]
                    T.tvm_storage_sync("shared")
                    if ty < T.int64(2):
                        for m in T.unroll(T.int64(2)):
                            for c in T.vectorized(T.int64(8)):
                                partial[ty, m, tx * T.int64(8) + c] = partial[ty, m, tx * T.int64(8) + c] + partial[ty + T.int64(2), m, tx * T.int64(8) + c]
                    T.tvm_storage_sync("shared")
                    if ty < T.int64(1):
                        for m in T.unroll(T.int64(2)):
                            for c in T.vectorized(T.int64(8)):
                                partial[ty, m, tx * T.int64(8) + c] = partial[ty, m, tx * T.int64(8) + c] + partial[ty + T.int64(1), m, tx * T.int64(8) + c]
                    T.tvm_storage_sync("shared")
                    if ty < T.int64(2):
                        for l in T.vectorized(T.int64(8)):
                            t2[ty, bx * T.int64(32) + tx * T.int64(8) + l] = T.Cast("float16", partial[T.int64(0), ty, tx * T.int64(8) + l])
