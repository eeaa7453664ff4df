# step: compute_inline erf
# step: compute_inline scale
# step: fuse out:0 out:1
# step: split out:0 16
# step: parallel out:0
# step: vectorize out:1

n = TypeVar("n")

@T.prim_func(s_tir=True)
def gelu(X: T.Buffer((n, T.int64(8)), "float32"), Y: T.Buffer((n, T.int64(8)), "float32")):
    S = T.sblock_alloc_buffer((n, T.int64(8)))
    E = T.sblock_alloc_buffer((n, T.int64(8)))
    for i, j in T.grid(n, T.int64(8)):
        with T.sblock("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi, vj] = X[vi, vj] * T.float32(0.5)
    for i, j in T.grid(n, T.int64(8)):
        with T.sblock("erf"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.erf(S[vi, vj])
    for i, j in T.grid(n, T.int64(8)):
        with T.sblock("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = S[vi, vj] + E[vi, vj]

# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def gelu(X: T.Buffer((n, T.int64(8)), "float32"), Y: T.Buffer((n, T.int64(8)), "float32")):
    # with T.sblock("root"):
    for i_j_fused_0 in T.parallel((n + T.int64(1)) // T.int64(2)):
        for i_j_fused_1 in T.vectorized(T.int64(16)):
            with T.sblock("out"):
                vi = T.axis.spatial(n, i_j_fused_0 * T.int64(2) + i_j_fused_1 // T.int64(8))
                vj = T.axis.spatial(T.int64(8), i_j_fused_1 % T.int64(8))
                T.where(i_j_fused_0 * T.int64(16) + i_j_fused_1 < n * T.int64(8))
                T.reads(X[vi, vj])
                T.writes(Y[vi, vj])
                Y[vi, vj] = X[vi, vj] * T.float32(0.5) + T.erf(X[vi, vj] * T.float32(0.5))
