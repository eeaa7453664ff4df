# after: lower
# gpu: cuda:sm_80
# The same, lowered: barriers where threads exchange.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 1000), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        a: R.Tensor((n,), dtype="float32") = R.sum(x, axis=[1])
        return a
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def sum(t0: T.Buffer((n, T.int64(1000)), "float32"), t1: T.Buffer((n,), "float32")):
    for i0 in T.thread_binding(n, thread="blockIdx.x"):
        t1_rf = T.alloc_shared((T.int64(32),))
        for tx in T.thread_binding(T.int64(32), thread="threadIdx.x"):
            t1_rf_local = T.alloc_local(())
            t1_rf_local[()] = T.float32(0.0)
            for k0_0 in range(T.int64(32)):
                t1_rf_local[()] = T.if_then_else(k0_0 * T.int64(32) + tx < T.int64(1000), t1_rf_local[()] + t0[i0, k0_0 * T.int64(32) + tx], t1_rf_local[()])
            t1_rf[tx] = t1_rf_local[()]
            T.tvm_storage_sync("shared")
            if tx < T.int64(16):
                t1_rf[tx] = t1_rf[tx] + t1_rf[tx + T.int64(16)]
            T.tvm_storage_sync("shared")
            if tx < T.int64(8):
                t1_rf[tx] = t1_rf[tx] + t1_rf[tx + T.int64(8)]
            T.tvm_storage_sync("shared")
            if tx < T.int64(4):
                t1_rf[tx] = t1_rf[tx] + t1_rf[tx + T.int64(4)]
            T.tvm_storage_sync("shared")
            if tx < T.int64(2):
                t1_rf[tx] = t1_rf[tx] + t1_rf[tx + T.int64(2)]
            T.tvm_storage_sync("shared")
            if tx == T.int64(0):
                t1[i0] = t1_rf[T.int64(0)] + t1_rf[T.int64(1)]
