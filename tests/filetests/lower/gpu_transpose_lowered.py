# after: lower
# gpu: cuda:sm_80
# Rows become columns.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((64, n), dtype="float32"):
        a: R.Tensor((64, n), dtype="float32") = R.permute_dims(x, axes=[1, 0])
        return a
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def transpose(t0: T.Buffer((n, T.int64(64)), "float32"), t1: T.Buffer((T.int64(64), n), "float32")):
    for by in T.thread_binding(T.int64(2), thread="blockIdx.y"):
        for bx in T.thread_binding((n + T.int64(31)) // T.int64(32), thread="blockIdx.x"):
            tile = T.alloc_shared((T.int64(32), T.int64(33)))
            for ty in T.thread_binding(T.int64(8), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(32), thread="threadIdx.x"):
                    for e in T.unroll(T.int64(4)):
                        if bx * T.int64(32) + e * T.int64(8) + ty < n:
                            tile[e * T.int64(8) + ty, tx] = t0[bx * T.int64(32) + e * T.int64(8) + ty, by * T.int64(32) + tx]
                    T.tvm_storage_sync("shared")
                    for e in T.unroll(T.int64(4)):
                        if bx * T.int64(32) + tx < n:
                            t1[by * T.int64(32) + e * T.int64(8) + ty, bx * T.int64(32) + tx] = tile[tx, e * T.int64(8) + ty]
