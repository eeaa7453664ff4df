# step: split max:1 8
# step: lower

n = TypeVar("n")

@T.prim_func(s_tir=True)
def row_max(X: T.Buffer((n, T.int64(37)), "float32"), Y: T.Buffer((n,), "float32")):
    for i, k in T.grid(n, T.int64(37)):
        with T.sblock("max"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(-340282346638528859811704183484516925440.0)
            Y[vi] = T.max(Y[vi], X[vi, vk])

# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def row_max(X: T.Buffer((n, T.int64(37)), "float32"), Y: T.Buffer((n,), "float32")):
    for i in range(n):
        Y[i] = T.float32(-340282346638528859811704183484516925440.0)
        for k_0, k_1 in T.grid(T.int64(4), T.int64(8)):
            Y[i] = T.max(Y[i], X[i, k_0 * T.int64(8) + k_1])
        for k_1 in range(T.int64(5)):
            Y[i] = T.max(Y[i], X[i, k_1 + T.int64(32)])
