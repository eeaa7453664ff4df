# step: decompose_reduction max max:1
# step: decompose_reduction max max:0

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
# refused: decompose_reduction of `max` refused: it has no init
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def row_max(X: T.Buffer((n, T.int64(37)), "float32"), Y: T.Buffer((n,), "float32")):
    # with T.sblock("root"):
    for i in range(n):
        with T.sblock("max_init"):
            vi = T.axis.spatial(n, i)
            T.reads()
            T.writes(Y[vi])
            Y[vi] = T.float32(-340282346638528859811704183484516925440.0)
        for k in range(T.int64(37)):
            with T.sblock("max"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(Y[vi], X[vi, vk])
                T.writes(Y[vi])
                Y[vi] = T.max(Y[vi], X[vi, vk])
