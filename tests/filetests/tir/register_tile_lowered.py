# step: split C:0 6
# step: split C:2 16
# step: reorder C:0 C:2 C:4 C:1 C:3
# step: cache_write C local
# step: reverse_compute_at C_local C:1
# step: decompose_reduction C C:2
# step: vectorize C:4
# step: unroll C:3
# step: lower

@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((T.int64(24), T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((T.int64(24), T.int64(32)), "float32")):
    for i, j, k in T.grid(T.int64(24), T.int64(32), T.int64(16)):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((T.int64(24), T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((T.int64(24), T.int64(32)), "float32")):
    for i_0, j_0 in T.grid(T.int64(4), T.int64(2)):
        C_local = T.alloc_local((T.int64(6), T.int64(16)))
        for i_1, j_1 in T.grid(T.int64(6), T.int64(16)):
            C_local[i_1, j_1] = T.float32(0.0)
        for k in range(T.int64(16)):
            for i_1 in T.unroll(T.int64(6)):
                for j_1 in T.vectorized(T.int64(16)):
                    C_local[i_1, j_1] = C_local[i_1, j_1] + A[i_0 * T.int64(6) + i_1, k] * B[k, j_0 * T.int64(16) + j_1]
        for ax0, ax1 in T.grid(T.int64(6), T.int64(16)):
            C[i_0 * T.int64(6) + ax0, j_0 * T.int64(16) + ax1] = C_local[ax0, ax1]
