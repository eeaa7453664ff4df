# step: pass narrow_indices

@T.prim_func(s_tir=True)
def many(var_x: T.handle, var_y: T.handle):
    n = T.int64()
    m = T.int64()
    x = T.match_buffer(var_x, (n, m))
    y = T.match_buffer(var_y, (n, m))
    for by in T.thread_binding(n, thread="blockIdx.y"):
        for bx in T.thread_binding(m, thread="blockIdx.x"):
            for t in T.thread_binding(T.int64(1), thread="threadIdx.x"):
                if by * T.int64(3) + by * T.int64(4) + by * T.int64(5) + by * T.int64(6) + by * T.int64(7) + by * T.int64(8) + by * T.int64(9) + by * T.int64(10) + by * T.int64(11) + by * T.int64(12) + by * T.int64(13) + by * T.int64(14) + by * T.int64(15) + by * T.int64(16) + by * T.int64(17) + by * T.int64(18) + by * T.int64(19) + by * T.int64(20) + by * T.int64(21) + by * T.int64(22) + by * T.int64(23) + by * T.int64(24) + by * T.int64(25) + by * T.int64(26) + by * T.int64(27) + by * T.int64(28) + by * T.int64(29) + by * T.int64(30) + by * T.int64(31) + by * T.int64(32) + by * T.int64(33) + by * T.int64(34) + by * T.int64(35) + by * T.int64(36) + by * T.int64(37) + by * T.int64(38) + by * T.int64(39) < n * m:
                    y[by, bx] = x[by, bx]

# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
m = TypeVar("m")
@T.prim_func(s_tir=True)
def many(x: T.Buffer((n, m), "float32"), y: T.Buffer((n, m), "float32")):
    for by in T.thread_binding(n, thread="blockIdx.y"):
        for bx in T.thread_binding(m, thread="blockIdx.x"):
            for t in T.thread_binding(T.int64(1), thread="threadIdx.x"):
                if by * T.int64(3) + by * T.int64(4) + by * T.int64(5) + by * T.int64(6) + by * T.int64(7) + by * T.int64(8) + by * T.int64(9) + by * T.int64(10) + by * T.int64(11) + by * T.int64(12) + by * T.int64(13) + by * T.int64(14) + by * T.int64(15) + by * T.int64(16) + by * T.int64(17) + by * T.int64(18) + by * T.int64(19) + by * T.int64(20) + by * T.int64(21) + by * T.int64(22) + by * T.int64(23) + by * T.int64(24) + by * T.int64(25) + by * T.int64(26) + by * T.int64(27) + by * T.int64(28) + by * T.int64(29) + by * T.int64(30) + by * T.int64(31) + by * T.int64(32) + by * T.int64(33) + by * T.int64(34) + by * T.int64(35) + by * T.int64(36) + by * T.int64(37) + by * T.int64(38) + by * T.int64(39) < n * m:
                    y[by, bx] = x[by, bx]
