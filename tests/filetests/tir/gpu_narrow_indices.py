# step: pass narrow_indices

@T.prim_func(s_tir=True)
def transpose(var_x: T.handle, var_y: T.handle):
    n = T.int64()
    m = T.int64()
    x = T.match_buffer(var_x, (n, m))
    y = T.match_buffer(var_y, (m, n))
    for b in T.thread_binding((n * m + T.int64(255)) // T.int64(256), thread="blockIdx.x"):
        for t in T.thread_binding(T.int64(256), thread="threadIdx.x"):
            if b * T.int64(256) + t < n * m:
                y[(b * T.int64(256) + t) // n, (b * T.int64(256) + t) % n] = x[(b * T.int64(256) + t) % n, (b * T.int64(256) + t) // n]

# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
m = TypeVar("m")
@T.prim_func(s_tir=True)
def transpose(x: T.Buffer((n, m), "float32"), y: T.Buffer((m, n), "float32")):
    if n <= T.int64(2147483647) and m <= T.int64(2147483647) and n * m <= T.int64(2147483647) and (n * m + T.int64(255)) // T.int64(256) <= T.int64(2147483647) and (n * m + T.int64(255)) // T.int64(256) * T.int64(256) <= T.int64(2147483647) and n * m - m <= T.int64(2147483647):
        for b in T.thread_binding((n * m + T.int64(255)) // T.int64(256), thread="blockIdx.x"):
            for t in T.thread_binding(T.int64(256), thread="threadIdx.x"):
                if b * T.int64(256) + t < n * m:
                    y[(b * T.int64(256) + t) // n, (b * T.int64(256) + t) % n] = x[(b * T.int64(256) + t) % n, (b * T.int64(256) + t) // n]
    else:
        for b in T.thread_binding((n * m + T.int64(255)) // T.int64(256), thread="blockIdx.x"):
            for t in T.thread_binding(T.int64(256), thread="threadIdx.x"):
                if b * T.int64(256) + t < n * m:
                    y[(b * T.int64(256) + t) // n, (b * T.int64(256) + t) % n] = x[(b * T.int64(256) + t) % n, (b * T.int64(256) + t) // n]
