# step: fuse_adjacent sum:0 scale:0
# step: store_at sum sum:0 local
# step: fuse_adjacent sum:1 scale:1

n = TypeVar("n")

@T.prim_func(s_tir=True)
def mean(x: T.Buffer((n, T.int64(16)), "float32"), y: T.Buffer((n, T.int64(16)), "float32")):
    s = T.sblock_alloc_buffer((n,))
    for i, k in T.grid(n, T.int64(16)):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                s[vi] = T.float32(0.0)
            s[vi] = s[vi] + x[vi, vk]
    for i, j in T.grid(n, T.int64(16)):
        with T.sblock("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] / s[vi]

# ----
# refused: fuse_adjacent of `j` refused: an iteration of `k` may touch what another one made of `s`
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def mean(x: T.Buffer((n, T.int64(16)), "float32"), y: T.Buffer((n, T.int64(16)), "float32")):
    # with T.sblock("root"):
    for i in range(n):
        s = T.alloc_local(())
        for k in range(T.int64(16)):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(x[vi, vk])
                T.writes(s[()])
                with T.init():
                    s[()] = T.float32(0.0)
                s[()] = s[()] + x[vi, vk]
        for j in range(T.int64(16)):
            with T.sblock("scale"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(x[vi, vj], s[()])
                T.writes(y[vi, vj])
                y[vi, vj] = x[vi, vj] / s[()]
