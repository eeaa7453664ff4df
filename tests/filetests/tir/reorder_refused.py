# step: split C:2 4
# step: reorder C:3 C:2
# step: parallel C:2
# step: reorder C:2 C:0

@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((T.int64(24), T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((T.int64(24), T.int64(32)), "float32")):
    for i, j, k in T.grid(T.int64(24), T.int64(32), T.int64(16)):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ----
# refused: reorder of `k_1` refused: `k_0` and `k_1` carry dependences and would swap: two iterations of `k_0` may touch the same element of `C`
# refused: parallel of `k_0` refused: iterator `vk` of block `C` is Reduce
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((T.int64(24), T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((T.int64(24), T.int64(32)), "float32")):
    # with T.sblock("root"):
    for k_0, j, i, k_1 in T.grid(T.int64(4), T.int64(32), T.int64(24), T.int64(4)):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(T.int64(16), k_0 * T.int64(4) + k_1)
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
