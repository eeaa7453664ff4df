# step: split max:1 8
# step: rfactor max max:2
# step: reorder max_rf:2 max_rf:1
# step: vectorize max_rf:1
# step: tree_reduce max max:1
# step: vectorize max_half:1
# step: vectorize max:1

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
# refused: vectorize of `k_1` refused: iterator `v_k_1` of block `max` is Reduce
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def row_max(X: T.Buffer((n, T.int64(37)), "float32"), Y: T.Buffer((n,), "float32")):
    # with T.sblock("root"):
    for i in range(n):
        Y_rf = T.alloc_buffer((T.int64(8),))
        for k_1 in T.vectorized(T.int64(8)):
            for k_0 in range(T.int64(5)):
                with T.sblock("max_rf"):
                    vi, v_k_1, v_k_0 = T.axis.remap("SSR", [i, k_1, k_0])
                    T.reads(X[vi, v_k_0 * T.int64(8) + v_k_1])
                    T.writes(Y_rf[v_k_1])
                    with T.init():
                        Y_rf[v_k_1] = T.float32(-340282346638528859811704183484516925440.0)
                    Y_rf[v_k_1] = T.if_then_else(v_k_0 * T.int64(8) + v_k_1 < T.int64(37), T.max(Y_rf[v_k_1], X[vi, v_k_0 * T.int64(8) + v_k_1]), Y_rf[v_k_1])
        for k_1 in T.vectorized(T.int64(4)):
            with T.sblock("max_half"):
                vi, v_k_1 = T.axis.remap("SS", [i, k_1])
                T.reads(Y_rf[v_k_1], Y_rf[v_k_1 + T.int64(4)])
                T.writes(Y_rf[v_k_1])
                Y_rf[v_k_1] = T.max(Y_rf[v_k_1], Y_rf[v_k_1 + T.int64(4)])
        for k_1 in range(T.int64(4)):
            with T.sblock("max"):
                vi, v_k_1 = T.axis.remap("SR", [i, k_1])
                T.reads(Y_rf[v_k_1])
                T.writes(Y[vi])
                with T.init():
                    Y[vi] = T.float32(-340282346638528859811704183484516925440.0)
                Y[vi] = T.max(Y[vi], Y_rf[v_k_1])
