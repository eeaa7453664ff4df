# step: pass place_barriers
# step: pass unify_thread_bindings
# step: pass serialise_threads

@T.prim_func(s_tir=True)
def reversed_sums(x: T.Buffer((T.int64(8), T.int64(32)), "float32"), y: T.Buffer((T.int64(32),), "float32")):
    for b in T.thread_binding(T.int64(1), thread="blockIdx.x"):
        s = T.alloc_shared((T.int64(32),))
        for t in T.thread_binding(T.int64(32), thread="threadIdx.x"):
            total = T.alloc_local((T.int64(1),))
            total[T.int64(0)] = T.float32(0)
            for k in range(T.int64(8)):
                for i in T.thread_binding(T.int64(32), thread="threadIdx.x"):
                    s[i] = x[k, i]
                total[T.int64(0)] = total[T.int64(0)] + s[T.int64(31) - t]
            y[t] = total[T.int64(0)]

# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def reversed_sums(x: T.Buffer((T.int64(8), T.int64(32)), "float32"), y: T.Buffer((T.int64(32),), "float32")):
    for b in T.parallel(T.int64(1)):
        s = T.alloc_buffer((T.int64(32),))
        total = T.alloc_buffer((T.int64(32), T.int64(1)))
        for tx in range(T.int64(32)):
            total[tx, T.int64(0)] = T.float32(0.0)
        for k in range(T.int64(8)):
            for tx in range(T.int64(32)):
                s[tx] = x[k, tx]
            for tx in range(T.int64(32)):
                total[tx, T.int64(0)] = total[tx, T.int64(0)] + s[T.int64(31) - tx]
        for tx in range(T.int64(32)):
            y[tx] = total[tx, T.int64(0)]
