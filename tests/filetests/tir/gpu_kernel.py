@T.prim_func(s_tir=True)
def reverse(x: T.Buffer((T.int64(2), T.int64(32)), "float32"), y: T.Buffer((T.int64(2), T.int64(32)), "float32")):
    for b in T.thread_binding(T.int64(2), thread="blockIdx.x"):
        s = T.alloc_shared((T.int64(32),))
        for t in T.thread_binding(T.int64(32), thread="threadIdx.x"):
            a = T.alloc_local((T.int64(1),))
            a[T.int64(0)] = x[b, t]
            s[t] = a[T.int64(0)]
            T.tvm_storage_sync("shared")
            y[b, t] = s[T.int64(31) - t]
            T.tvm_storage_sync("warp")

# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def reverse(x: T.Buffer((T.int64(2), T.int64(32)), "float32"), y: T.Buffer((T.int64(2), T.int64(32)), "float32")):
    for b in T.thread_binding(T.int64(2), thread="blockIdx.x"):
        s = T.alloc_shared((T.int64(32),))
        for t in T.thread_binding(T.int64(32), thread="threadIdx.x"):
            a = T.alloc_local((T.int64(1),))
            a[T.int64(0)] = x[b, t]
            s[t] = a[T.int64(0)]
            T.tvm_storage_sync("shared")
            y[b, t] = s[T.int64(31) - t]
            T.tvm_storage_sync("warp")
