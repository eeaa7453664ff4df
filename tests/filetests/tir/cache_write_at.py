# step: split sum:1 8
# step: reorder sum:1 sum:3 sum:2
# step: cache_write_at sum sum:2 local
# step: decompose_reduction sum sum:2
# step: vectorize sum:3
# step: vectorize y_local:2

n = TypeVar("n")

@T.prim_func(s_tir=True)
def columns(x: T.Buffer((T.int64(3), n, T.int64(21)), "float32"), y: T.Buffer((T.int64(3), T.int64(21)), "float32")):
    for i, j, k in T.grid(T.int64(3), T.int64(21), n):
        with T.sblock("sum"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                y[vi, vj] = T.float32(0.0)
            y[vi, vj] = y[vi, vj] + x[vi, vk, vj]

# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def columns(x: T.Buffer((T.int64(3), n, T.int64(21)), "float32"), y: T.Buffer((T.int64(3), T.int64(21)), "float32")):
    # with T.sblock("root"):
    for i, j_0 in T.grid(T.int64(3), T.int64(3)):
        y_local = T.alloc_local((T.int64(8),))
        for j_1 in range(T.int64(8)):
            with T.sblock("sum_init"):
                vi, v_j_0, v_j_1, v_j_1_1 = T.axis.remap("SSSS", [i, j_0, j_1, j_1])
                T.reads()
                T.writes(y_local[v_j_1_1])
                y_local[v_j_1_1] = T.float32(0.0)
        for k in range(n):
            for j_1 in T.vectorized(T.int64(8)):
                with T.sblock("sum"):
                    vi, v_j_0, v_j_1, vk, v_j_1_1 = T.axis.remap("SSSRS", [i, j_0, j_1, k, j_1])
                    T.reads(y_local[v_j_1_1], x[vi, vk, v_j_0 * T.int64(8) + v_j_1])
                    T.writes(y_local[v_j_1_1])
                    y_local[v_j_1_1] = T.if_then_else(v_j_0 * T.int64(8) + v_j_1 < T.int64(21), y_local[v_j_1_1] + x[vi, vk, v_j_0 * T.int64(8) + v_j_1], y_local[v_j_1_1])
        for j_1 in T.vectorized(T.int64(8)):
            with T.sblock("y_local"):
                vi = T.axis.spatial(T.int64(3), i)
                vj = T.axis.spatial(T.int64(21), j_0 * T.int64(8) + j_1)
                v_j_1 = T.axis.spatial(T.int64(8), j_1)
                T.where(j_0 * T.int64(8) + j_1 < T.int64(21))
                T.reads(y_local[v_j_1])
                T.writes(y[vi, vj])
                y[vi, vj] = y_local[v_j_1]
