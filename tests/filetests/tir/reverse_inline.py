# step: reverse_compute_inline erf
# step: reverse_compute_inline out

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
# refused: reverse_compute_inline of `erf` refused: no intermediate is read by it alone, exactly at its iterators
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def gelu(X: T.Buffer((n, T.int64(8)), "float32"), Y: T.Buffer((n, T.int64(8)), "float32")):
    # with T.sblock("root"):
    S = T.sblock_alloc_buffer((n, T.int64(8)))
    for i, j in T.grid(n, T.int64(8)):
        with T.sblock("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, vj])
            T.writes(S[vi, vj])
            S[vi, vj] = X[vi, vj] * T.float32(0.5)
    for i, j in T.grid(n, T.int64(8)):
        with T.sblock("erf"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(S[vi, vj])
            T.writes(Y[vi, vj])
            Y[vi, vj] = S[vi, vj] + T.erf(S[vi, vj])
