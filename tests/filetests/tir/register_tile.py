# step: split C:0 6
# step: split C:2 16
# step: reorder C:0 C:2 C:4 C:1 C:3
# step: cache_write C local
# step: reverse_compute_at C_local C:1
# step: decompose_reduction C C:2
# step: vectorize C:4
# step: unroll C:3
# step: vectorize C_init:3
# step: unroll C_init:2
# step: vectorize C_local:3
# step: unroll C_local:2
# step: parallel C:0

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
    # with T.sblock("root"):
    C_local = T.sblock_alloc_buffer((T.int64(24), T.int64(32)), scope="local")
    for i_0 in T.parallel(T.int64(4)):
        for j_0 in range(T.int64(2)):
            for i_1 in T.unroll(T.int64(6)):
                for j_1 in T.vectorized(T.int64(16)):
                    with T.sblock("C_init"):
                        vi = T.axis.spatial(T.int64(24), i_0 * T.int64(6) + i_1)
                        vj = T.axis.spatial(T.int64(32), j_0 * T.int64(16) + j_1)
                        T.reads()
                        T.writes(C_local[vi, vj])
                        C_local[vi, vj] = T.float32(0.0)
            for k in range(T.int64(16)):
                for i_1 in T.unroll(T.int64(6)):
                    for j_1 in T.vectorized(T.int64(16)):
                        with T.sblock("C"):
                            vi = T.axis.spatial(T.int64(24), i_0 * T.int64(6) + i_1)
                            vj = T.axis.spatial(T.int64(32), j_0 * T.int64(16) + j_1)
                            vk = T.axis.reduce(T.int64(16), k)
                            T.reads(C_local[vi, vj], A[vi, vk], B[vk, vj])
                            T.writes(C_local[vi, vj])
                            C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
            for ax0 in T.unroll(T.int64(6)):
                for ax1 in T.vectorized(T.int64(16)):
                    with T.sblock("C_local"):
                        v0 = T.axis.spatial(T.int64(24), i_0 * T.int64(6) + ax0)
                        v1 = T.axis.spatial(T.int64(32), j_0 * T.int64(16) + ax1)
                        T.reads(C_local[v0, v1])
                        T.writes(C[v0, v1])
                        C[v0, v1] = C_local[v0, v1]
