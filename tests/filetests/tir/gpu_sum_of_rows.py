# step: split sum:1 64
# step: rfactor sum sum:2
# step: set_scope sum_rf shared
# step: reorder sum_rf:2 sum_rf:1
# step: bind sum_rf:0 blockIdx.x
# step: bind sum_rf:1 threadIdx.x
# step: tree_reduce sum sum:1
# step: lower_gpu

@T.prim_func(s_tir=True)
def sum_of_rows(x: T.Buffer((T.int64(4), T.int64(256)), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    for i, k in T.grid(T.int64(4), T.int64(256)):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + x[vi, vk]

# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def sum_of_rows(x: T.Buffer((T.int64(4), T.int64(256)), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    for i in T.thread_binding(T.int64(4), thread="blockIdx.x"):
        y_rf = T.alloc_shared((T.int64(64),))
        for tx in T.thread_binding(T.int64(64), thread="threadIdx.x"):
            y_rf[tx] = T.float32(0.0)
            for k_0 in range(T.int64(4)):
                y_rf[tx] = y_rf[tx] + x[i, k_0 * T.int64(64) + tx]
            T.tvm_storage_sync("shared")
            for k_1 in range(T.int64(32)):
                if tx == T.int64(0):
                    y_rf[k_1] = y_rf[k_1] + y_rf[k_1 + T.int64(32)]
            if tx == T.int64(0):
                y[i] = T.float32(0.0)
            for k_1 in range(T.int64(32)):
                if tx == T.int64(0):
                    y[i] = y[i] + y_rf[k_1]
