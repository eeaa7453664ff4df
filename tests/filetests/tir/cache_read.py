# step: cache_read C B shared
# step: compute_at B_shared C:1

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
    B_shared = T.sblock_alloc_buffer((T.int64(16), T.int64(32)), scope="shared")
    for i, j in T.grid(T.int64(24), T.int64(32)):
        for ax0 in range(T.int64(16)):
            with T.sblock("B_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, j])
                T.reads(B[v0, v1])
                T.writes(B_shared[v0, v1])
                B_shared[v0, v1] = B[v0, v1]
        for k in range(T.int64(16)):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B_shared[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B_shared[vk, vj]
