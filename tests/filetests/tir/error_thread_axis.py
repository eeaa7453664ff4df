@T.prim_func(s_tir=True)
def copy(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    for i in T.thread_binding(T.int64(4), thread="threadIdx.w"):
        y[i] = x[i]

# ----
# error: line 3: `threadIdx.w` is not a thread axis
