# step: partition C:0 6
# step: split C:0 6
# step: split C_tail:1 16

m = TypeVar("m")

@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((m, T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((m, T.int64(32)), "float32")):
    for i, j, k in T.grid(m, T.int64(32), T.int64(16)):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ----
# from typing import TypeVar
# from tvm.script import tirx as T

m = TypeVar("m")
@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((m, T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((m, T.int64(32)), "float32")):
    # with T.sblock("root"):
    for i_0, i_1, j, k in T.grid(m // T.int64(6), T.int64(6), T.int64(32), T.int64(16)):
        with T.sblock("C"):
            vi = T.axis.spatial(m, i_0 * T.int64(6) + i_1)
            vj, vk = T.axis.remap("SR", [j, k])
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i_tail, j_0, j_1, k in T.grid(m - m // T.int64(6) * T.int64(6), T.int64(2), T.int64(16), T.int64(16)):
        with T.sblock("C_tail"):
            vi = T.axis.spatial(m, m // T.int64(6) * T.int64(6) + i_tail)
            vj = T.axis.spatial(T.int64(32), j_0 * T.int64(16) + j_1)
            vk = T.axis.reduce(T.int64(16), k)
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
