# step: bind C:0 blockIdx.x
# step: bind C:1 threadIdx.x
# step: bind C:2 threadIdx.y

@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((T.int64(24), T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((T.int64(24), T.int64(32)), "float32")):
    for i, j, k in T.grid(T.int64(24), T.int64(32), T.int64(16)):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ----
# refused: bind of `k` refused: iterator `vk` of block `C` is Reduce
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((T.int64(24), T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), C: T.Buffer((T.int64(24), T.int64(32)), "float32")):
    # with T.sblock("root"):
    for i in T.thread_binding(T.int64(24), thread="blockIdx.x"):
        for j in T.thread_binding(T.int64(32), thread="threadIdx.x"):
            for k in range(T.int64(16)):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = T.float32(0.0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
