# step: split C:0 6
# step: split C:2 16
# step: reorder C:0 C:2 C:4 C:1 C:3
# step: reverse_compute_at relu C:1
# step: set_scope C local

@T.prim_func(s_tir=True)
def dense(A: T.Buffer((24, 16), "float32"), B: T.Buffer((16, 32), "float32"), bias: T.Buffer((32,), "float32"), Y: T.Buffer((24, 32), "float32")):
    C = T.sblock_alloc_buffer((24, 32))
    for i, j, k in T.grid(24, 32, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = T.fma(A[vi, vk], B[vk, vj], C[vi, vj])
    for i, j in T.grid(24, 32):
        with T.sblock("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.max(C[vi, vj] + bias[vj], T.float32(0))

# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def dense(A: T.Buffer((T.int64(24), T.int64(16)), "float32"), B: T.Buffer((T.int64(16), T.int64(32)), "float32"), bias: T.Buffer((T.int64(32),), "float32"), Y: T.Buffer((T.int64(24), T.int64(32)), "float32")):
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((T.int64(24), T.int64(32)), scope="local")
    for i_0, j_0 in T.grid(T.int64(4), T.int64(2)):
        for k, i_1, j_1 in T.grid(T.int64(16), T.int64(6), T.int64(16)):
            with T.sblock("C"):
                vi = T.axis.spatial(T.int64(24), i_0 * T.int64(6) + i_1)
                vj = T.axis.spatial(T.int64(32), j_0 * T.int64(16) + j_1)
                vk = T.axis.reduce(T.int64(16), k)
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = T.fma(A[vi, vk], B[vk, vj], C[vi, vj])
        for ax0, ax1 in T.grid(T.int64(6), T.int64(16)):
            with T.sblock("relu"):
                vi = T.axis.spatial(T.int64(24), i_0 * T.int64(6) + ax0)
                vj = T.axis.spatial(T.int64(32), j_0 * T.int64(16) + ax1)
                T.reads(C[vi, vj], bias[vj])
                T.writes(Y[vi, vj])
                Y[vi, vj] = T.max(C[vi, vj] + bias[vj], T.float32(0.0))
