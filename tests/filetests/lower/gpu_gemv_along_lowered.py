# after: lower
# gpu: cuda:sm_80
# A vector by weights contiguous along steps: whole groups of steps, and a tail.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(w: R.Tensor((20, 1152), dtype="float32"), x: R.Tensor((1152, 1), dtype="float32")) -> R.Tensor((20, 1), dtype="float32"):
        a: R.Tensor((20, 1), dtype="float32") = R.matmul(w, x)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(20), T.int64(1152)), "float32"), t1: T.Buffer((T.int64(1152), T.int64(1)), "float32"), t2: T.Buffer((T.int64(20), T.int64(1)), "float32")):
    for by in T.thread_binding(T.int64(1), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(20), thread="blockIdx.x"):
            partial = T.alloc_shared((T.int64(1), T.int64(1), T.int64(256)))
            for ty in T.thread_binding(T.int64(1), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(256), thread="threadIdx.x"):
                    weights = T.alloc_local((T.int64(2), T.int64(1), T.int64(4)))
                    acc = T.alloc_local((T.int64(1), T.int64(1)))
                    acc[T.int64(0), T.int64(0)] = T.float32(0.0)
                    for u in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(4)):
                            weights[u, T.int64(0), l] = T.if_then_else(u * T.int64(1024) + tx * T.int64(4) < T.int64(1152), t0[bx + ty, u * T.int64(1024) + tx * T.int64(4) + l], T.float32(0.0))
                    for u in T.unroll(T.int64(2)):
                        row = T.alloc_local((T.int64(4),))
                        for l in T.vectorized(T.int64(4)):
                            row[l] = T.if_then_else(u * T.int64(1024) + tx * T.int64(4) < T.int64(1152), t1[u * T.int64(1024) + tx * T.int64(4) + l, T.int64(0)], T.float32(0.0))
                        for v in T.unroll(T.int64(4)):
                            acc[T.int64(0), T.int64(0)] = T.fma(row[v], weights[u, T.int64(0), v], acc[T.int64(0), T.int64(0)])
                    partial[T.int64(0), ty, tx] = acc[T.int64(0), T.int64(0)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(128):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(128)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(64):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(64)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(32):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(32)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(16):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(16)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(8):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(8)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(4):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(4)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(2):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(2)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(1):
                        partial[T.int64(0), ty, tx] = partial[T.int64(0), ty, tx] + partial[T.int64(0), ty, tx + T.int64(1)]
                    T.tvm_storage_sync("shared")
                    if tx < T.int64(1):
                        t2[bx + ty, T.int64(0)] = partial[tx, ty, T.int64(0)]
